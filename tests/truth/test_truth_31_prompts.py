"""The prompts of the catalogue use the terms of A's own lists, item by item (A §5)."""

from __future__ import annotations

import pytest

from tests.acceptance.test_catalogue import plan_of, prompt_of

# (section of A, recipe, step): each term that A's list of requirements for that prompt names.
TERMS: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("5.1", "review-and-commit", "code-review"): (
        "`git diff`", "read every modified file", "context", "checklist", "correctness",
        "code quality", "testing", "security", "performance", "design alignment",
        "each file you read and what you checked", "report", "do not make changes",
    ),
    ("5.1", "review-and-commit", "fix"): (
        "address the issues found in the code review", "tests", "introduces no new issue",
    ),
    ("5.1", "review-and-commit", "commit"): ("clear commit message", "remote", "push"),
    ("5.2", "document-design", "document"): (
        "overview", "problem statement", "goals", "non-goals", "background & context",
        "current state", "why now", "related work", "detailed design", "data model", "api design",
        "code examples", "component interactions", "verification strategy", "testing approach",
        "test examples", "acceptance criteria", "alternatives considered", "other approaches",
        "why this one was chosen", "risks & mitigations", "what could go wrong", "detection",
        "rollback", "syntactically correct", "style", "specific and actionable", "cross-references",
        "`@filename.md`", "no placeholder text remains",
    ),
    ("5.2", "document-design", "review"): (
        "problem statement", "goals", "non-goals", "current state", "why now", "related work",
        "data model", "api design", "code examples", "component interactions", "testing approach",
        "test examples", "acceptance criteria", "other approaches", "why this one was chosen",
        "what could go wrong", "detection", "rollback", "syntactically correct", "style",
        "specific and actionable", "`@filename.md`", "placeholder text",
    ),
    ("5.3", "break-down-tasks", "analyze"): (
        "components", "create or to modify", "acceptance criteria", "map each",
        "dependency graph", "ambiguities", "gaps",
    ),
    ("5.3", "break-down-tasks", "create-tasks"): (
        "atomic", "testable", "independent", "small", "in one session", "design reference",
        "context", "requirements", "technical approach", "verification", "acceptance criteria",
        "foundation", "core logic", "integration", "ui", "docs", "parallelizable", "explicitly",
        "dependency",
    ),
    ("5.3", "break-down-tasks", "review-tasks"): (
        "atomic", "testable", "independent", "small", "one session", "design reference", "context",
        "requirements", "technical approach", "verification", "acceptance criteria", "foundation",
        "core logic", "integration", "ui", "docs", "parallelizable", "dependency",
    ),
    ("5.4", "implement-and-review", "implement"): (
        "available task", "no-tasks", "design document", "code standards", "tests alongside",
        "run the project's tests", "do not commit", "code review happens next",
    ),
    ("5.6", "rebase", "rebase"): (
        "working directory must be clean", "fetch", "latest changes", "**local**",
        "not `origin/main`", "preserve", "intent", "both branches", "read both versions carefully",
        "why each", "unclear", "ask-questions",
    ),
    ("5.6", "rebase", "review"): (
        "subagents", "parallel", "conflicted files", "preserves", "intent", "both branches",
        "accidentally deleted", "duplicated", "run the project's tests",
    ),
    ("5.7", "retrospective", "reflect"): (
        "do not make any changes to files", "do not run any commands or tests", "investigative",
        "reflective", "concise", "bullet points", "friction only", "tool issues", "failures",
        "unexpected results", "missing tools", "development friction", "slowdowns",
        "unclear requirements", "backtracking", "testing friction", "test problems",
        "unclear feedback", "unreliable infrastructure", "process friction",
        "workflow inefficiencies", "missing documentation",
    ),
    ("5.8", "refine-design", "review-completeness"): (
        "completeness", "depth", "problem statement", "goals", "components", "described",
        "data models", "specified", "api contracts", "complete", "code examples", "provided",
        "error handling", "documented", "testing strategy", "outlined", "technical decisions",
        "justified", "idiomatic", "edge cases", "addressed",
    ),
    ("5.8", "refine-design", "review-breadth"): (
        "breadth", "coverage", "failure modes", "recovery strategies", "backward compatibility",
        "migration path", "performance implications", "security implications", "observability",
        "dependency failure modes", "upstream", "downstream", "consumers", "deployment",
    ),
    ("5.8", "refine-design", "review-simplicity"): (
        "over-engineering", "abstractions", "multiple uses", "configurable", "hardcoded",
        "extensibility", "hypothetical needs", "generic", "specific", "suffice", "indirection",
        "state machine", "conditionals", "yagni", "for future use",
    ),
    ("5.8", "refine-design", "review-consistency"): (
        "consistency", "alignment", "terminology", "consistent throughout", "code examples",
        "match", "described", "data models agree", "contradict", "naming", "conventions",
        "patterns match", "referenced files", "modules", "exist",
    ),
    ("5.8", "refine-design", "review-polish"): (
        "concise", "direct", "ambiguous", "headers", "logical hierarchy", "code blocks",
        "properly formatted", "no typos", "no placeholder text", "no todo",
    ),
    ("5.8", "refine-design", "final-review"): (
        "sanity check", "solve the stated problem", "obviously wrong", "missing", "comfortable",
        "implementing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", TERMS, ids=lambda place: "-".join(place[1:]))
def test_truth_31_a_prompt_uses_the_terms_of_its_list(place: tuple[str, str, str]) -> None:
    section, recipe, step = place
    prompt = " ".join(prompt_of(recipe, step).lower().split())

    missing = [term for term in TERMS[place] if term not in prompt]

    assert not missing, f"A §{section} asks the prompt of {recipe}/{step} for {missing}"


@pytest.mark.parametrize("recipe", ["implement-and-review", "implement-and-review-all"])
@pytest.mark.parametrize("step", ["code-review", "fix", "commit"])
def test_truth_31_shared_steps_say_the_same_everywhere(recipe: str, step: str) -> None:
    assert prompt_of(recipe, step) == prompt_of("review-and-commit", step)


# A §7.1 and A §15.1: commands and constraints that A's lists name for single steps.
CONSTRAINTS = {
    ("rebase", "rebase"): ("`git fetch origin`", "`git rebase main`", "`git status`"),
    ("implement-and-review", "implement"): (
        "`bd ready --limit 1`", "@standards.md", "@claude.md", "design.md",
    ),
    ("break-down-tasks", "create-tasks"): ("`bd add`", "`bd dep add`", "`bd list`", "`bd blocked`"),
    ("break-down-tasks", "fix-tasks"): ("`bd edit <id>`", "`bd delete <id>`", "`bd show <id>`"),
    ("review-and-commit", "commit"): ("`bd close <id>`", "`bd update <id>`", "`git push`"),
}  # fmt: skip


@pytest.mark.parametrize("place", CONSTRAINTS, ids="/".join)
def test_truth_31_a_prompt_names_the_commands_of_its_list(place: tuple[str, str]) -> None:
    prompt = prompt_of(*place).lower()

    assert [term for term in CONSTRAINTS[place] if term not in prompt] == []


@pytest.mark.parametrize(
    "step",
    [f"review-{name}" for name in ("completeness", "breadth", "simplicity", "consistency")]
    + ["review-polish", "final-review"],
)
def test_truth_31_reviews_end_as_section_7_1_shows(step: str) -> None:
    """A §7.1: "Do not make changes yet - this is review only"; "If …, report no issues"."""
    prompt = " ".join(prompt_of("refine-design", step).lower().split())

    assert "review only" in prompt
    assert "do not make changes yet" in prompt
    assert "report no issues" in prompt


def test_truth_33_retrospective_says_that_it_needs_a_session() -> None:
    assert "--session" in plan_of("retrospective").description
