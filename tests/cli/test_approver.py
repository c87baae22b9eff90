"""What an approver sees before the decision, and everybody after it, in all dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.recipes.terminal import at_terminal

AGENT = "---\nname: reader\n---\nYou read.\n"
CHECK = '["sh", "-c", "echo checked; test -e ok"]'
MACHINE = f"""\
id: trial
label: trial
description: a trial
initialStep: implement
steps:
  implement:
    prompt: Look.
    check: {{command: {CHECK}}}
    outcomes: [done, other]
    onOutcome: {{done: {{nextStep: Ask}}, other: {{action: exit, reason: no}}}}
  Ask:
    approval: {{prompt: "Ship it?", timeout: 24h}}
    onOutcome: {{approved: {{nextStep: last}}, denied: {{action: exit, reason: not-shipped}}}}
  last:
    prompt: Last.
    outcomes: [done, other]
    onOutcome: {{done: {{action: exit, reason: shipped}}, other: {{action: exit, reason: no}}}}
"""
RECIPE = f"""\
name: trial
description: a trial
version: 1.0.0
outputs: {{said: "{{{{work}}}}"}}
steps:
  - {{id: implement, agent: reader, prompt: Look., output: work, check: {{command: {CHECK}}}}}
  - {{id: Ask, type: approval, approval: {{prompt: "Ship it?", timeout: 24h}}}}
  - {{id: last, type: bash, command: "true"}}
"""
WORKFLOW = f"""\
version: "1.4"
name: trial
outputs: {{said: "${{steps.implement.output}}"}}
steps:
  - {{name: implement, provider: claude, prompt: Look., check: {{command: {CHECK}}}}}
  - {{name: Ask, approval: {{prompt: "Ship it?", timeout: 24h}}}}
  - {{name: last, command: ["true"]}}
"""
DIALECTS = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}
by_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def stage_of(folder: Path, dialect: str) -> Stage:
    files = {"w.yaml": DIALECTS[dialect], ".orchestrate/agents/reader.md": AGENT}
    stage = Stage(folder, files)
    stage.claude("""
def answer(prompt):
    is_mended = "Your work was checked" in prompt
    if is_mended:
        open("ok", "w").close()
    return ("mended" if is_mended else "tried") + chr(10) + json.dumps(dict(outcome="done"))
""")
    return stage


@by_dialect
def test_the_evidence_is_the_last_answer_and_that_its_check_passed(
    tmp_path: Path, dialect: str
) -> None:
    stage = stage_of(tmp_path, dialect)
    stage.run("run", "w.yaml").assert_exit(6)
    (question,) = stage.run("inbox", "--json").json()["questions"]
    evidence = question["evidence"]
    assert (evidence["step"], evidence["check"]) == ("implement", "passed")
    assert evidence["answer"].startswith("mended")
    shown = stage.run("inbox").stdout
    assert "  answer   of 'implement':\n           | mended\n" in shown
    assert "  check    of 'implement': passed\n" in shown


@pytest.mark.parametrize("dialect", ["recipe", "workflow"])
def test_a_terminal_shows_the_answer_not_what_its_check_printed(
    tmp_path: Path, dialect: str
) -> None:
    stage = stage_of(tmp_path, dialect)
    with at_terminal(stage.folder, stage.surroundings, "run", "w.yaml") as terminal:
        shown = terminal.read_until("A message may follow the letter:")
        assert "From step 'implement' (" in shown
        assert "| mended" in shown
        assert "| checked" not in shown
        terminal.type("a\n")
        assert terminal.wait() == 0


@by_dialect
def test_who_denied_is_told_and_how_to_start_over(tmp_path: Path, dialect: str) -> None:
    stage = stage_of(tmp_path, dialect)
    stage.run("run", "w.yaml").assert_exit(6)
    shown = stage.run("inbox").stdout + stage.run("status").stdout + stage.run("approvals").stdout
    denied = stage.run("deny", "latest", "-m", "too risky", env={"USER": "alice"}).stdout
    assert "step 'Ask' of run" in denied
    assert "the gate of step 'Ask'" in shown
    assert "stage 'Ask'" not in shown + denied
    told = stage.run("status").stdout
    assert "  decided     'Ask' denied by alice: too risky\n" in told
    (decision,) = stage.run("status", "--json").json()["decisions"]
    assert (decision["decided_by"], decision["message"]) == ("alice", "too risky")
    assert "Ask was denied by alice: too risky" in stage.run("logs", "latest", "Ask").stderr
    logged = stage.run("logs", "latest", "Ask", "--json").json()
    assert logged["decision"]["decided_by"] == "alice"
    over = told.partition("start over: orchestrate ")[2].split("\n")[0]
    if dialect != "machine":
        assert over in stage.run("resume").assert_exit(1).stdout
    again = stage.run(*over.split()).assert_exit(6)
    assert "is started over as this run" in again.stderr
    assert "start over:" not in stage.run("status").stdout


@pytest.mark.parametrize("dialect", ["recipe", "workflow"])
def test_outputs_are_among_the_last_words_and_in_status(tmp_path: Path, dialect: str) -> None:
    stage = stage_of(tmp_path, dialect)
    stage.run("run", "w.yaml").assert_exit(6)
    stage.run("approve").assert_exit(0)
    ended = stage.run("resume").assert_exit(0)
    assert "  output: said = mended" in ended.stderr
    assert "  output      said = mended" in stage.run("status").stdout


@by_dialect
def test_lists_mark_what_did_not_do_the_whole_work(tmp_path: Path, dialect: str) -> None:
    stage = stage_of(tmp_path, dialect)
    stage.run("run", "w.yaml", "--backend", "rehearsal").assert_exit(0)
    stage.run("run-step", "last", "--workflow", "w.yaml").assert_exit(0)
    stage.write("ok", "")
    stage.run("run", "w.yaml").assert_exit(6)
    real, single, rehearsed = stage.run("runs", "--json").json()["runs"]
    marks = [(one["rehearsal"], one["run_step"]) for one in (real, single, rehearsed)]
    assert marks == [(False, None), (False, "last"), (True, None)]
    shown = stage.run("runs").stdout.splitlines()
    assert "(" not in shown[0].partition("ago")[0]
    assert "completed (step last)" in shown[1]
    assert "completed (rehearsal)" in shown[2]
    # The journal tells it, too, where the state file does not hold.
    state = Path(rehearsed["run_root"]) / "state.json"
    state.write_text("{")
    assert stage.run("runs", "--json").json()["runs"][2]["rehearsal"] is True


@by_dialect
def test_validate_counts_a_gate_that_is_a_step(tmp_path: Path, dialect: str) -> None:
    stage = stage_of(tmp_path, dialect)
    assert f"valid {dialect} (3 steps)" in stage.run("validate", "w.yaml").assert_exit(0).stdout
