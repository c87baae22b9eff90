"""Dialect A from outside: the rules of A §8, the dry run, and rulings §7."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project

VALID = """
    id: two-steps
    label: Two steps
    description: Review, then commit
    initialStep: review
    steps:
      review:
        prompt: Review the changes.
        outcomes: [fine, broken, other]
        onOutcome:
          fine: {nextStep: commit}
          broken: {nextStep: review}
          other: {action: exit, reason: user-provided-other}
      commit:
        prompt: Commit.
        model: haiku
        outcomes: [done, other]
        onOutcome:
          done: {action: exit, reason: committed}
          other: {action: exit, reason: user-provided-other}
"""


def changed(old: str, new: str) -> str:
    assert VALID.count(old) >= 1, old
    return VALID.replace(old, new, 1)


def findings(tmp_path: Path, text: str) -> list[str]:
    project = Project(tmp_path, {"m.yaml": text})
    result = project.validate("m.yaml")
    codes = result.codes()
    assert result.exit_code == (1 if any(code.startswith("E") for code in codes) else 0)
    return codes


def test_the_pattern_itself_is_valid(tmp_path: Path) -> None:
    assert findings(tmp_path, VALID) == []


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [("initialStep: review", "initialStep: reveiw", ["E201"])],
)
def test_a8_1_initial_step_exists(tmp_path: Path, old: str, new: str, codes: list[str]) -> None:
    assert findings(tmp_path, changed(old, new)) == codes


def test_a8_2_on_outcome_keys_are_outcomes(tmp_path: Path) -> None:
    text = changed("done: {action: exit, reason: committed}", "done: {action: exit, reason: x}\n"
                   "          finished: {action: exit, reason: y}")  # fmt: skip
    assert findings(tmp_path, text) == ["E202"]


def test_a8_3_next_step_exists(tmp_path: Path) -> None:
    assert findings(tmp_path, changed("{nextStep: commit}", "{nextStep: comit}")) == ["E203"]


@pytest.mark.parametrize("reason", ['""', '"  "'])
def test_a8_4_exit_has_a_reason(tmp_path: Path, reason: str) -> None:
    assert findings(tmp_path, changed("reason: committed", f"reason: {reason}")) == ["E204"]


def test_a8_4_exit_without_any_reason(tmp_path: Path) -> None:
    assert findings(tmp_path, changed(", reason: committed", "")) == ["E204"]


def test_a8_5_other_has_a_reason(tmp_path: Path) -> None:
    assert findings(tmp_path, changed(", reason: user-provided-other", "")) == ["E205"]


@pytest.mark.parametrize("place", ["model: haiku", "id: two-steps"])
def test_a8_6_model_is_a_tier(tmp_path: Path, place: str) -> None:
    new = "model: gpt-4" if place.startswith("model") else f"{place}\n    model: gpt-4"
    assert findings(tmp_path, changed(place, new)) == ["E104"]


@pytest.mark.parametrize(
    "line",
    [
        "prompt: Commit.",
        "outcomes: [done, other]",
    ],
)
def test_a8_7_step_fields_are_there(tmp_path: Path, line: str) -> None:
    text = "\n".join(row for row in VALID.splitlines() if row.strip() != line)
    assert findings(tmp_path, text) == ["E102"]


def test_a8_7_on_outcome_is_there(tmp_path: Path) -> None:
    text = VALID[: VALID.rindex("onOutcome")].rstrip() + "\n"
    assert findings(tmp_path, text) == ["E102"]


def test_a19_3_dry_run_draws_the_machine(tmp_path: Path) -> None:
    result = Project(tmp_path).run("run", "implement-and-review", "--dry-run").assert_success()
    assert result.stdout == (
        "Recipe: implement-and-review\n"
        "  Label: Implement & Review\n"
        "  Description: Implement task, review code, fix issues, and commit\n"
        "  Guardrails: maxStepVisits=3, maxTotalSteps=100, exitOnOther=true\n"
        "  Run limits: no progress=2\n"
        "  Inputs:\n"
        "    task:   (What to implement; without it, the next ready task of bd)\n"
        "    check: []  (command: What must succeed before the review; what failed goes back to "
        "the agent)\n"
        "\n"
        "  Steps:\n"
        "    implement (initial)\n"
        "      Outcomes: complete → code-review, no-tasks → EXIT, blocked → EXIT, other → EXIT\n"
        "      Check: nothing: check is empty (after complete, at most 3 rounds, then → EXIT)\n"
        "      Model: (default)\n"
        "    code-review\n"
        "      Outcomes: no-issues → commit, issues-found → fix, other → EXIT\n"
        "      Model: (default)\n"
        "    fix\n"
        "      Outcomes: complete → code-review, other → EXIT\n"
        "      Model: (default)\n"
        "    commit\n"
        "      Outcomes: committed → EXIT, nothing-to-commit → EXIT, other → EXIT\n"
        "      Model: haiku\n"
    )


def test_r7_1_guardrails_default_and_loops_are_allowed(tmp_path: Path) -> None:
    Project(tmp_path, {"m.yaml": VALID}).validate("m.yaml").assert_success()
    shown = Project(tmp_path).run("run", "m.yaml", "--dry-run").assert_success().stdout
    assert "maxStepVisits=3, maxTotalSteps=100, exitOnOther=true" in shown


@pytest.mark.parametrize(
    "transition",
    ["{}", "{nextStep: one, action: exit, reason: x}", "{action: exit}", "{action: leave}"],
)
def test_a1_a_transition_has_exactly_one_of_three_forms(tmp_path: Path, transition: str) -> None:
    text = changed("{action: exit, reason: committed}", transition)
    assert findings(tmp_path, text) != []


def test_r7_2_an_outcome_without_a_transition(tmp_path: Path) -> None:
    text = changed("outcomes: [done, other]", "outcomes: [done, nothing, other]")
    assert findings(tmp_path, text) == ["E207"]


def test_r7_2_restart_of_an_unknown_recipe(tmp_path: Path) -> None:
    new = "done: {action: restart-new-session, recipeId: two-stepps}"
    text = changed("done: {action: exit, reason: committed}", new)
    assert findings(tmp_path, text) == ["E208"]


@pytest.mark.parametrize("recipe", ["two-steps", "rebase", "implement-and-review-all"])
def test_r7_2_restart_of_itself_or_of_the_catalogue(tmp_path: Path, recipe: str) -> None:
    new = f"done: {{action: restart-new-session, recipeId: {recipe}}}"
    assert findings(tmp_path, changed("done: {action: exit, reason: committed}", new)) == []


def test_r7_2_unknown_keys_at_every_level(tmp_path: Path) -> None:
    text = (
        changed("id: two-steps", "id: two-steps\n    extra: 1\n    guardrails: {maxVisits: 2}")
        .replace("prompt: Commit.", "prompt: Commit.\n        retries: 3")
        .replace("{nextStep: commit}", "{nextStep: commit, note: x}")
    )
    assert findings(tmp_path, text) == ["E101", "E101", "E101", "E101"]


def test_r7_2_an_unreachable_step_is_a_warning(tmp_path: Path) -> None:
    assert findings(tmp_path, changed("{nextStep: commit}", "{nextStep: review}")) == ["W201"]


@pytest.mark.parametrize(("exit_on_other", "codes"), [("true", ["E205"]), ("false", [])])
def test_r7_3_exit_on_other(tmp_path: Path, exit_on_other: str, codes: list[str]) -> None:
    text = changed(
        "other: {action: exit, reason: user-provided-other}", "other: {nextStep: commit}"
    )
    text = text.replace(
        "initialStep: review",
        f"initialStep: review\n    guardrails: {{exitOnOther: {exit_on_other}}}",
    )
    assert findings(tmp_path, text) == codes
