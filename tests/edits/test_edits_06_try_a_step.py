"""`run-step STEP --run RUN`: a prompt is tried against what a run has found, and the run stays."""

from __future__ import annotations

from pathlib import Path

from tests.edits.ledger import Ledger, command, workflow


def test_edits_06_a_step_is_tried_as_its_file_is_now(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    b = command("b", "echo ${steps.a.output} ${context.who} >> ledger")
    a = '  - {name: a, command: ["echo", "found"], output_capture: text}\n'
    stage.play(workflow(a, b, command("c"), head="context: {who: me}\n"), "--context", "who=you")
    assert stage.ran() == ["b", "found", "you", "c"]
    root = stage.runs_folder / "latest"
    before = (root / "events.jsonl").read_bytes(), root.resolve()
    stage.edit("echo b", "echo better")
    tried = stage.run("run-step", "b", "--run", "latest").assert_success()
    assert stage.ran() == ["better", "found", "you"]
    assert "step 'b' of w.yaml" in tried.stderr
    assert ((root / "events.jsonl").read_bytes(), root.resolve()) == before
    stage.run("run-step", "b", "--run", "latest", "--context", "who=them").assert_success()
    assert stage.ran() == ["better", "found", "them"]
    # It was good: the run takes it.
    stage.resume("--edited")
    assert stage.ran() == ["better", "found", "you", "c"]


def test_edits_06_where_the_step_is_from_is_said_once(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.play(workflow(command("a")))
    stage.run("run-step", "a").assert_exit(2)
    stage.run("run-step", "a", "--workflow", "w.yaml", "--run", "latest").assert_exit(2)
