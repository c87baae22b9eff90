"""What was accepted stays so until the step changes again, whatever the next command is."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, asks, command, recipe, workflow
from tests.edits.test_edits_01_go_on import FAILS, FOUR, SHAPES, change, stopped_at
from tests.promises.processes import wait_until


def accepted(tmp_path: Path, dialect: str) -> Ledger:
    stage = Ledger(tmp_path)
    stage.play(SHAPES[dialect])
    assert stage.ran() == [*FOUR]
    change(stage, dialect, "a")
    assert "reuse 4, run 0" in stage.resume("--accept", "a").stderr
    assert stage.ran() == []
    return stage


@pytest.mark.parametrize("flag", ["--redo", "--from"])
@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_08_accepted_work_is_not_done_again(tmp_path: Path, dialect: str, flag: str) -> None:
    stage = accepted(tmp_path, dialect)
    assert "reuse 2, run 2: c (" in stage.resume(flag, "c").stderr
    assert stage.ran() == ["c", "d"]
    assert stage.state()["steps"]["a"]["reused"]
    # Nor after yet another edit; only when the step itself is another one again.
    change(stage, dialect, "d")
    assert "reuse 3, run 1: d (" in stage.resume("--edited").stderr
    assert stage.ran() == ["d"]
    mark = {"workflow": "echo  a"}.get(dialect, "Well, STEP:a")
    stage.edit(mark, mark.replace("echo", "echo ").replace("Well", "Well then"))
    assert "reuse 0, run 4: a (" in stage.resume("--edited").stderr
    assert stage.ran() == [*FOUR]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_08_a_run_that_was_stopped_behind_it_keeps_it(tmp_path: Path, dialect: str) -> None:
    stage = stopped_at(tmp_path, dialect, "d")
    stage.touch("fail-d")
    change(stage, dialect, "b")
    stage.resume("--accept", "b", exit_code=FAILS[dialect])
    assert {*stage.ran()} == {"d"}
    (stage.folder / "fail-d").unlink()
    assert "reuse 2, run 2: c (" in stage.resume("--from", "c").stderr
    assert stage.ran() == ["c", "d"]


@pytest.mark.parametrize("dialect", ["workflow", "recipe"])
def test_edits_08_what_the_run_was_killed_before_stays_accepted(
    tmp_path: Path, dialect: str
) -> None:
    """Accepted behind a step that runs anew, and the run is killed in that one."""
    stage = Ledger(tmp_path)
    stage.claude("""
        import os, re
        def answer(prompt):
            name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
            with open("ledger", "a") as ledger:
                ledger.write(name + "\\n")
            while os.path.exists("hold-" + name):
                time.sleep(0.05)
            return "did " + name
    """)
    hold = "while test -e hold-a; do sleep 0.05; done"
    first = {"workflow": command("a", hold), "recipe": asks("a")}[dialect]
    rest = [(command if dialect == "workflow" else asks)(name) for name in ("b", "c")]
    stage.play((workflow if dialect == "workflow" else recipe)(first, *rest))
    stage.ran()
    for name in "ab":
        change(stage, dialect, name)
    stage.touch("hold-a")
    with stage.command("resume", "latest", "--edited", "--accept", "b") as resumed:
        wait_until(lambda: "a" in (stage.folder / "ledger").read_text("utf-8"), "a never ran")
        resumed.send_signal(signal.SIGKILL)
        resumed.wait(60)
    (stage.folder / "hold-a").unlink()
    assert "reuse 1, run 1: a (is to be done again)" in stage.resume("--redo", "a").stderr
    assert stage.ran() == ["a", "a", "c"]
    assert stage.state()["steps"]["b"]["reused"]


def test_edits_08_a_file_that_was_accepted_as_it_is(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    made = [command(n, f"echo x > {n}.txt", f", output_file: {n}.log") for n in "ab"]
    stage.play(workflow(*made))
    stage.ran()
    stage.write("a.log", "by hand")
    stage.resume("--redo", "b", "--accept", "a")
    assert stage.ran() == ["b"]
    stage.resume("--redo", "b")
    assert stage.ran() == ["b"]
    stage.write("a.log", "by hand, again")
    stage.resume("--redo", "b")
    assert stage.ran() == ["a", "b"]


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_08_why_says_whether_it_was_accepted(tmp_path: Path, dialect: str) -> None:
    stage = accepted(tmp_path, dialect)
    for _ in range(2):
        told = {one["step"]: one for one in stage.run("why", "latest", "--json").json()["steps"]}
        assert (told["a"]["because"], told["a"]["accepted"]) == ("it was accepted as it is", True)
        assert (told["b"]["because"], told["b"]["accepted"]) == ("its key is the same", False)
        stage.resume("--redo", "c")
