"""`attach` and `status --watch`: the view of a run that another process works on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrate.state.locks import is_held
from orchestrate.testing import Project
from tests.cli.background import await_file
from tests.cli.live.scenes import command, give_sign, loop, workflow
from tests.cli.live.screens import display
from tests.cli.live.test_detaching import FAILING, detached, owner_of
from tests.commands import Command

LOOPED = workflow(
    command("List"),
    loop("Work", 2, command("Step", "at it", sign="go-${loop.index}")),
    command("Last"),
)


def test_the_view_of_another_process(folder: Path) -> None:
    run_id = detached(folder, LOOPED)
    with display(folder, "attach", run_id) as seen:
        seen.await_screen(
            """
            run RUN goes on in process N on HOST (orchestrate run)
            ▶ demo            #s
              ✓ List          #s
              ● Work          0/2  #s
                ● [0] item 0  Step  #s
                  at it
              ○ Last
            … Ctrl-C stops watching; the run goes on
        """.replace("HOST", os.uname().nodename)
        )
        give_sign(folder, "go-0")
        seen.await_words("1/2", "[1] item 1")
        # Whoever goes away does not stop anything.
        seen.type("\x03")
        assert seen.finish() == 130
        assert seen.shown.endswith(
            "detached; run RUN goes on\n  watch:  orchestrate attach RUN\n"
            "  stop:   orchestrate cancel RUN"
        )
        assert "Ctrl-C ends" not in seen.shown
    assert is_held(Project(folder).latest_run / "run.lock")
    with display(folder, "status", "--watch", "latest") as seen:
        seen.await_words("● [1] item 1")
        give_sign(folder, "go-1")
        assert seen.finish() == 0
        seen.await_screen(
            """
            run RUN goes on in process N on HOST (orchestrate run)
            ✓ demo    #s
              ✓ List  #s
              ✓ Work  2/2
              ✓ Last  #s
            run RUN completed
        """.replace("HOST", os.uname().nodename)
        )


def test_a_running_that_is_not_running_is_told_at_once(folder: Path) -> None:
    run_id = detached(folder, LOOPED)
    with display(folder, "attach", run_id) as seen:
        seen.await_words("at it")
        os.kill(owner_of(folder), signal.SIGKILL)
        assert seen.finish() == 7
        assert seen.shown.endswith(
            "run RUN is interrupted\n"
            "  its process is gone; resume continues what it had begun\n"
            "  go on:  orchestrate resume RUN"
        )
        assert seen.cursor[0] == 0
        assert seen.wraps
    said = Project(folder).run("attach", run_id)
    assert (said.exit_code, said.stdout) == (7, "")
    said = Project(folder).run("status", run_id, "--watch")
    assert said.exit_code == 7
    assert said.stdout.startswith(f"run {run_id} is interrupted\n")


def test_lines_on_a_plain_stream(folder: Path) -> None:
    run_id = detached(folder, FAILING)
    with Command("attach", run_id, cwd=folder) as watcher:
        assert watcher.stderr is not None
        assert f"run {run_id} goes on in process" in watcher.stderr.readline()
        assert watcher.stderr.readline().startswith("[1/2] First: Running")
        give_sign(folder, "go")
        out, rest = watcher.communicate(timeout=60)
    assert watcher.returncode == 1
    assert out == ""
    assert "[1/2] First: completed" in rest
    assert "[2/2] Bad: failed with exit code 1" in rest
    assert rest.endswith(f"  go on:  orchestrate resume {run_id}\n")
    # A run that has ended has nothing more to show than that.
    over = Project(folder).run("attach", run_id)
    assert over.exit_code == 1
    assert "has failed: step 'Bad' failed" in over.stderr


@pytest.mark.parametrize("verb", ["attach", "wait"])
@pytest.mark.parametrize(("last", "code"), [("false", 1), ("true", 0)])
def test_what_is_done_next_works_then(folder: Path, verb: str, last: str, code: int) -> None:
    """A run has ended before its process has: that one may still notify somebody."""
    told = ["sh", "-c", "touch telling; while ! test -e heard; do sleep 0.05; done"]
    settings = {"notifications": [{"command": told}]}
    (folder / ".orchestrate" / "config.yaml").write_text(json.dumps(settings))
    run_id = detached(folder, FAILING.replace("false", last))
    with Command(verb, run_id, cwd=folder) as watcher:
        give_sign(folder, "go")
        await_file(Project(folder), "telling")
        with pytest.raises(subprocess.TimeoutExpired):
            watcher.wait(timeout=1)
        (folder / "heard").write_text("")
        assert watcher.wait(timeout=60) == code
    assert not is_held(Project(folder).latest_run / "run.lock")


def test_a_definition_that_has_changed_since(folder: Path) -> None:
    run_id = detached(folder, LOOPED)
    (folder / "w.yaml").write_text(FAILING)
    with Command("attach", run_id, cwd=folder) as watcher:
        assert watcher.stderr is not None
        watcher.stderr.readline()
        give_sign(folder, "go-0")
        give_sign(folder, "go-1")
        _, rest = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert "has changed" not in rest
    assert rest.endswith(f"run {run_id} completed\n")


def test_what_cannot_be_watched(folder: Path) -> None:
    assert Project(folder).run("attach", "latest").exit_code == 2
    run_id = detached(folder, workflow(command("Only")))
    assert Project(folder).run("status", "--watch", "--json", run_id).exit_code == 2
    said = Project(folder).run("attach", "--json", run_id)
    document = json.loads(said.stdout)
    assert (document["status"], document["exit_code"]) == ("completed", 0)
    refused = Project(folder).run("run", "w.yaml", "--live")
    assert refused.exit_code == 2
    assert "standard error is not a terminal" in refused.stderr
