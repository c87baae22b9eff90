"""After an edit a run goes on: it keeps what is still good and runs the rest, in every dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, asks, command, machine, recipe, workflow

FOUR = ("a", "b", "c", "d")


def shapes(*names: str) -> dict[str, str]:
    return {
        "workflow": workflow(*map(command, names)),
        "machine": machine(*names),
        "recipe": recipe(*map(asks, names)),
    }


SHAPES = shapes(*FOUR)
# How the text of a step is edited in each dialect.
CHANGED = {"workflow": "echo {} >>", "machine": "STEP:{} do", "recipe": "STEP:{} "}
FAILS = {"workflow": 1, "machine": 4, "recipe": 1}


def stopped_at(tmp_path: Path, dialect: str, step: str) -> Ledger:
    stage = Ledger(tmp_path)
    stage.touch(f"fail-{step}")
    stage.play(SHAPES[dialect], "--retry-delay", "0", exit_code=FAILS[dialect])
    stage.ran()
    (stage.folder / f"fail-{step}").unlink()
    return stage


def change(stage: Ledger, dialect: str, step: str) -> None:
    old = CHANGED[dialect].format(step)
    stage.edit(old, old.replace("echo ", "echo  ").replace("STEP:", "Well, STEP:"))


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_a_finished_step_that_changed_runs_with_what_follows(
    tmp_path: Path, dialect: str
) -> None:
    stage = stopped_at(tmp_path, dialect, "d")
    change(stage, dialect, "b")
    refused = stage.resume(exit_code=2).stderr
    part = "script" if dialect == "workflow" else "prompt"
    assert f"reuse 1, run 3: b ({part} changed, line" in refused
    assert "c and d (come after it)" in refused
    assert "--edited" in refused
    assert "--as-started" in refused
    assert stage.ran() == []
    stage.resume("--edited")
    assert stage.ran() == ["b", "c", "d"]
    assert stage.state()["status"] == "completed"
    assert stage.state()["steps"]["a"]["reused"]
    assert "reused" not in stage.state()["steps"]["b"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_a_step_that_was_not_reached_is_taken_as_it_is_now(
    tmp_path: Path, dialect: str
) -> None:
    stage = stopped_at(tmp_path, dialect, "b")
    change(stage, dialect, "d")
    refused = stage.resume(exit_code=2).stderr
    assert "changed and not yet reached: d (line" in refused
    stage.resume("--edited")
    assert stage.ran() == ["b", "c", "d"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_what_is_no_longer_there_is_not_told_as_to_come(
    tmp_path: Path, dialect: str
) -> None:
    stage = stopped_at(tmp_path, dialect, "d")
    stage.write("w.yaml", shapes("a", "b", "cc", "d")[dialect])
    refused = stage.resume(exit_code=2).stderr
    assert "reuse 2, run 2: cc (has not run yet), d (comes after it); no longer there: c" in refused
    stage.resume("--edited")
    assert stage.ran() == ["cc", "d"]


def test_edits_01_items_that_are_no_longer_in_the_list(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    each = "{items: [x, y, z], steps: [{name: p, command: [echo, '${item}']}]}"
    stage.play(workflow(f"  - {{name: l, for_each: {each}}}\n", command("c")))
    stage.edit("[x, y, z]", "[z, x]")
    told = stage.resume("--edited").stderr
    assert "reuse 3, run 0; no longer there: l[1]/p\n" in told


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_the_frozen_definition_still_serves(tmp_path: Path, dialect: str) -> None:
    stage = stopped_at(tmp_path, dialect, "c")
    change(stage, dialect, "a")
    stage.resume("--as-started")
    assert stage.ran() == ["c", "d"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_a_comment_is_no_edit(tmp_path: Path, dialect: str) -> None:
    stage = stopped_at(tmp_path, dialect, "c")
    stage.write("w.yaml", "# a comment\n" + SHAPES[dialect])
    assert "changed without effect: w.yaml" in stage.resume().stderr
    assert stage.ran() == ["c", "d"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_a_completed_run_is_opened_again(tmp_path: Path, dialect: str) -> None:
    stage = Ledger(tmp_path)
    stage.play(SHAPES[dialect])
    assert stage.ran() == [*FOUR]
    stage.resume()
    assert stage.ran() == []
    stage.resume("--redo", "c")
    assert stage.ran() == ["c", "d"]
    stage.resume("--from", "d")
    assert stage.ran() == ["d"]
    change(stage, dialect, "d")
    stage.resume("--edited")
    assert stage.ran() == ["d"]
    change(stage, dialect, "a")
    stage.resume("--accept", "a")
    assert stage.ran() == []
    assert stage.state()["status"] == "completed"


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_edits_follow_each_other(tmp_path: Path, dialect: str) -> None:
    """What one edit ran anew is good for the next one; what it has not come to again is not."""
    stage = stopped_at(tmp_path, dialect, "d")
    stage.touch("fail-c")
    change(stage, dialect, "b")
    stage.resume("--edited", exit_code=FAILS[dialect])
    assert stage.ran()[:2] == ["b", "c"]
    (stage.folder / "fail-c").unlink()
    stage.edit("trial", "trial  ")  # whatever it is, it is another text
    stage.resume("--redo", "c")
    assert stage.ran() == ["c", "d"]


def test_edits_01_what_a_resume_is_told_reaches_what_has_not_finished(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.touch("fail-c")
    steps = [command(n, "echo ${context.who} >> ledger") for n in ("a", "b", "c", "d")]
    stage.play(workflow(*steps, head="context: {who: me}\n"), exit_code=1)
    assert stage.ran() == ["a", "me", "b", "me", "c", "me"]
    (stage.folder / "fail-c").unlink()
    stage.edit("echo d", "echo  d")
    stage.resume("--edited", "--context", "who=you")
    assert stage.ran() == ["c", "you", "d", "you"]
    # An edit of the file's own value counts for the steps that used it; what was given stays.
    stage.edit("who: me", "who: them")
    stage.edit("echo  d", "echo d")
    stage.resume("--edited")
    assert stage.ran() == ["d", "you"]


def test_edits_01_a_value_of_the_file_counts_for_those_who_used_it(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    steps = [command("a"), command("b", "echo ${context.who} >> ledger"), command("c")]
    stage.play(workflow(*steps, head="context: {who: me}\n"))
    stage.ran()
    stage.edit("who: me", "who: you")
    told = stage.resume("--edited").stderr
    assert "b (context.who changed" in told
    assert stage.ran() == ["b", "you", "c"]


def test_edits_01_the_journal_alone_makes_the_same_state(tmp_path: Path) -> None:
    stage = stopped_at(tmp_path, "workflow", "c")
    change(stage, "workflow", "b")
    stage.touch("fail-d")
    stage.resume("--edited", exit_code=1)
    assert stage.ran() == ["b", "c", "d"]
    (stage.runs_folder / "latest" / "state.json").unlink()
    (stage.folder / "fail-d").unlink()
    stage.resume()
    assert stage.ran() == ["d"]


def test_edits_01_limits_of_finished_steps_are_no_change(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.touch("fail-c")
    limited = [command(name, fields=", timeout_sec: 60") for name in FOUR]
    stage.play(workflow(*limited), exit_code=1)
    stage.ran()
    (stage.folder / "fail-c").unlink()
    stage.edit("timeout_sec: 60", "timeout_sec: 90, retries: {max: 2}")
    assert "changed without effect: w.yaml" in stage.resume().stderr
    assert stage.ran() == ["c", "d"]


def test_edits_01_limits_of_what_is_to_come_are_a_change(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.touch("fail-c")
    limited = [command(name, fields=f", timeout_sec: {60 + ord(name)}") for name in FOUR]
    stage.play(workflow(*limited), exit_code=1)
    stage.ran()
    (stage.folder / "fail-c").unlink()
    stage.edit(f"timeout_sec: {60 + ord('d')}", "timeout_sec: 90")
    assert "changed and not yet reached: d (line" in stage.resume(exit_code=2).stderr
    stage.resume("--edited")
    assert stage.ran() == ["c", "d"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_01_a_completed_run_says_that_its_file_was_edited(
    tmp_path: Path, dialect: str
) -> None:
    stage = Ledger(tmp_path)
    stage.play(SHAPES[dialect])
    stage.ran()
    assert "changed" not in stage.resume().stdout
    change(stage, dialect, "c")
    said = stage.resume().stdout
    assert "there is nothing left to do\nw.yaml changed since" in said
    assert said.rstrip().endswith("--edited")
    assert stage.ran() == []
    assert "--edited" in stage.run("resume", "latest", "--json").json()["message"]
    # One that cannot be read says no more than before.
    stage.write("w.yaml", "steps: [")
    assert "there is nothing left to do" in stage.resume().stdout
