"""The eight recipes of A §5 are exactly A's tables, and their prompts keep A's requirements."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.compile import compile_file, require_program
from orchestrate.plan.expr import Text, constant_of
from orchestrate.plan.nodes import OK, Ask, Finish, Goto, Node, Plan, Restart, Run, main_plan
from orchestrate.workspace import open_workspace, package_data

REVIEW_COMMIT = {
    "code-review": {"no-issues": "commit", "issues-found": "fix", "other": "EXIT"},
    "fix": {"complete": "code-review", "other": "EXIT"},
    "commit": {"committed": "EXIT", "nothing-to-commit": "EXIT", "other": "EXIT"},
}
IMPLEMENT = {
    "implement": {"complete": "code-review", "no-tasks": "EXIT", "blocked": "EXIT", "other": "EXIT"}
}


def review(good: str, fix: str) -> dict[str, str]:
    return {"no-issues": good, "issues-found": fix, "other": "EXIT"}


def fix(back: str) -> dict[str, str]:
    return {"complete": back, "other": "EXIT"}


COMMIT = {"committed": "EXIT", "nothing-to-commit": "EXIT", "other": "EXIT"}
PASSES = ["completeness", "breadth", "simplicity", "consistency", "polish"]
REFINE = {
    "locate-design": {"found": "review-completeness", "not-found": "EXIT", "other": "EXIT"},
    **{
        f"review-{this}": review(f"review-{after}" if after else "final-review", f"fix-{this}")
        for this, after in zip(PASSES, [*PASSES[1:], ""], strict=True)
    },
    **{f"fix-{name}": fix(f"review-{name}") for name in PASSES},
    "final-review": review("commit", "fix-final"),
    "fix-final": fix("final-review"),
    "commit": COMMIT,
}
# id: (initial step, transitions, steps on haiku, max visits, max steps)
TABLES = {
    "review-and-commit": ("code-review", REVIEW_COMMIT, {"commit"}, 3, 100),
    "document-design": (
        "document",
        {
            "document": {"complete": "review", "needs-input": "EXIT", "other": "EXIT"},
            "review": review("commit", "fix"),
            "fix": fix("review"),
            "commit": COMMIT,
        },
        {"commit"},
        3,
        100,
    ),
    "break-down-tasks": (
        "analyze",
        {
            "analyze": {
                "complete": "create-epic",
                "design-missing": "EXIT",
                "needs-input": "EXIT",
                "other": "EXIT",
            },
            "create-epic": fix("create-tasks"),
            "create-tasks": fix("review-tasks"),
            "review-tasks": review("commit", "fix-tasks"),
            "fix-tasks": fix("review-tasks"),
            "commit": COMMIT,
        },
        {"commit"},
        3,
        100,
    ),
    "implement-and-review": ("implement", IMPLEMENT | REVIEW_COMMIT, {"commit"}, 3, 100),
    "implement-and-review-all": (
        "implement",
        IMPLEMENT
        | REVIEW_COMMIT
        | {"commit": COMMIT | {"committed": "RESTART implement-and-review-all"}},
        {"commit"},
        3,
        100,
    ),
    "rebase": (
        "rebase",
        {
            "rebase": {
                "complete": "review",
                "ask-questions": "EXIT",
                "conflicts-unresolvable": "EXIT",
                "other": "EXIT",
            },
            "review": review("complete", "fix"),
            "fix": fix("review"),
            "complete": {"done": "EXIT", "other": "EXIT"},
        },
        {"complete"},
        3,
        100,
    ),
    "retrospective": ("reflect", {"reflect": {"complete": "EXIT", "other": "EXIT"}}, set(), 3, 100),
    "refine-design": ("locate-design", REFINE, {"locate-design", "commit"}, 5, 150),
}
REASONS = {
    ("review-and-commit", "commit", "committed"): "changes-committed",
    ("review-and-commit", "commit", "nothing-to-commit"): "no-changes-to-commit",
    ("implement-and-review", "commit", "committed"): "changes-committed",
    ("rebase", "complete", "done"): "rebase-complete",
    ("retrospective", "reflect", "complete"): "retrospective-complete",
}


def plan_of(recipe: str, folder: Path | None = None) -> Plan:
    path = package_data() / "workflows" / f"{recipe}.yaml"
    return main_plan(require_program(compile_file(path, open_workspace(folder))))


def prompt_of(recipe: str, step: str) -> str:
    """The prompt of a run that was told nothing: inputs have their defaults."""
    plan = plan_of(recipe)
    given = constant_of(plan.context)
    for node in steps_of(plan):
        if node.id == step:
            assert isinstance(node.op, Ask)
            assert isinstance(node.op.prompt, Text)
            parts = node.op.prompt.parts
            return "".join(part if isinstance(part, str) else given[part.path[1]] for part in parts)
    raise AssertionError(step)


def steps_of(plan: Plan) -> list[Node]:
    """The author's steps; what a check adds to one belongs to it."""
    return [node for node in plan.blocks[0].nodes if node.part_of is None]


def transitions_of(plan: Plan) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    checks = {Goto(n.id): dict(n.routes)[OK] for n in plan.blocks[0].nodes if isinstance(n.op, Run)}
    for node in steps_of(plan):
        row = table.setdefault(node.id, {})
        for label, target in node.routes:
            if label.startswith("@"):
                continue
            # A check that is not given passes.
            match checks.get(target, target) if isinstance(target, Goto) else target:
                case Goto(name):
                    row[label] = name
                case Finish(reason):
                    assert reason
                    row[label] = "EXIT"
                case Restart(other):
                    row[label] = f"RESTART {Path(other.split(':')[-1]).stem}"
                case _:
                    raise AssertionError(target)
    return table


@pytest.mark.parametrize("recipe", TABLES)
def test_a20_1_recipe_is_exactly_its_table(recipe: str) -> None:
    initial, transitions, haiku, visits, steps = TABLES[recipe]
    plan = plan_of(recipe)
    assert plan.name == recipe
    assert plan.blocks[0].entry == initial
    assert transitions_of(plan) == transitions
    assert {node.id: node.op.model for node in steps_of(plan) if isinstance(node.op, Ask)} == {
        name: "haiku" if name in haiku else None for name in transitions
    }
    assert (plan.limits.max_visits, plan.limits.max_steps) == (visits, steps)
    assert plan.exit_on_other
    assert plan.defaults.model is None


def test_a20_1_the_catalogue_has_no_other_machine() -> None:
    names = {path.stem for path in (package_data() / "workflows").glob("*.yaml")}
    assert names == set(TABLES)


@pytest.mark.parametrize("recipe", TABLES)
def test_a20_1_other_always_exits_with_the_conventional_reason(recipe: str) -> None:
    for node in steps_of(plan_of(recipe)):
        assert dict(node.routes)["other"] == Finish("user-provided-other", "exit")


@pytest.mark.parametrize(("where", "reason"), REASONS.items(), ids=str)
def test_a20_1_exit_reasons(where: tuple[str, str, str], reason: str) -> None:
    recipe, step, outcome = where
    node = next(n for n in plan_of(recipe).blocks[0].nodes if n.id == step)
    assert dict(node.routes)[outcome] == Finish(reason, "exit")


@pytest.mark.parametrize("step", ["code-review", "fix", "commit"])
def test_a20_3_1_shared_steps_are_the_same(step: str) -> None:
    nodes = [
        next(node for node in plan_of(recipe).blocks[0].nodes if node.id == step)
        for recipe in ("review-and-commit", "implement-and-review", "implement-and-review-all")
    ]
    assert nodes[0].op == nodes[1].op == nodes[2].op
    assert nodes[0].routes == nodes[1].routes
    # Written once: they all point at the one file they were written in.
    assert len({str(node.span) for node in nodes[:2]}) == 1
    assert nodes[0].span.file.endswith("shared/review-commit-steps.yaml")


def test_a20_3_2_only_one_transition_is_overridden() -> None:
    one, every = plan_of("implement-and-review"), plan_of("implement-and-review-all")
    differences = [
        (ours.id, label)
        for ours, theirs in zip(one.blocks[0].nodes, every.blocks[0].nodes, strict=True)
        for (label, target), (_, other) in zip(ours.routes, theirs.routes, strict=True)
        if target != other
    ]
    assert differences == [("commit", "committed")]
    assert one.limits == every.limits


# Words that stand for the requirements A lists for a prompt.
REQUIREMENTS = {
    ("review-and-commit", "code-review"): [
        "git diff", "correct", "quality", "test", "security", "performance", "design", "- [ ]",
    ],
    ("review-and-commit", "fix"): ["test", "- [ ]"],
    ("review-and-commit", "commit"): ["message", "push"],
    ("implement-and-review", "implement"): [
        "bd ready --limit 1", "@STANDARDS.md", "@CLAUDE.md", "design", "test", "commit",
    ],
    ("document-design", "document"): [
        "Overview", "Background", "Detailed Design", "Verification", "Alternatives", "Risks",
        "@", "placeholder",
    ],
    ("break-down-tasks", "create-tasks"): [
        "atomic", "testable", "independent", "small", "foundation", "bd dep add", "parallel",
        "acceptance criteria",
    ],
    ("break-down-tasks", "analyze"): ["component", "acceptance criteria", "depend", "ambigu"],
    ("rebase", "rebase"): ["git status", "git fetch origin", "git rebase main", "ask-questions"],
    ("rebase", "review"): ["subagent", "both", "deleted", "twice", "test"],
    ("retrospective", "reflect"): ["not", "command", "tool", "friction", "test", "process"],
    ("refine-design", "review-completeness"): ["goal", "data model", "error", "edge case"],
    ("refine-design", "review-breadth"): ["failure", "migration", "security", "observab"],
    ("refine-design", "review-simplicity"): [
        "abstraction", "YAGNI", "layers", "hypothetical", "hardcoded",
    ],
    ("refine-design", "review-consistency"): ["one name", "conventions", "contradict", "exist"],
    ("refine-design", "review-polish"): ["typo", "placeholder", "TODO", "two ways", "concise"],
    ("refine-design", "final-review"): ["solve", "missing", "implement"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("where", "words"), REQUIREMENTS.items(), ids=lambda value: str(value)[:60]
)
def test_prompts_say_what_a_requires(where: tuple[str, str], words: list[str]) -> None:
    prompt = prompt_of(*where).lower()
    assert [word for word in words if word.lower() not in prompt] == []


@pytest.mark.parametrize("recipe", TABLES)
def test_prompts_are_self_contained_and_leave_the_outcome_block_to_us(recipe: str) -> None:
    for node in steps_of(plan_of(recipe)):
        assert isinstance(node.op, Ask)
        prompt = prompt_of(recipe, node.id)
        assert len(prompt) > 200
        assert '{"outcome"' not in prompt
        assert "{{" not in prompt
        for outcome in node.op.outcomes:
            assert outcome == "other" or outcome in prompt, f"{node.id} does not explain {outcome}"
        if node.id.startswith("review") or node.id == "code-review":
            assert (
                "no changes" in prompt.lower()
                or "not make" in prompt.lower()
                or ("do not" in prompt.lower())
            )
