"""`run -d`, `resume -d` and `wait`: runs that nobody sits in front of."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.locks import is_held
from orchestrate.testing import Project
from tests.cli.live.scenes import command, give_sign, workflow
from tests.cli.live.screens import display
from tests.recipes.fakes import Workshop, recipe

SLOW = workflow(command("First", "hello"), command("Wait", sign="go"), command("Last", "bye"))
FAILING = workflow(command("First", sign="go"), '  - name: Bad\n    command: ["false"]\n')


def detached(folder: Path, text: str = SLOW) -> str:
    """Start a run on its own; its id."""
    (folder / "w.yaml").write_text(text)
    said = Project(folder).run("run", "-d", "w.yaml")
    assert said.exit_code == 0, said.stderr
    return said.stdout.strip()


def owner_of(folder: Path) -> int:
    owner: list[Any] = json.loads((Project(folder).latest_run / "run.owner").read_text())
    return int(owner[0])


def test_the_id_is_printed_once_the_run_has_started(folder: Path) -> None:
    (folder / "w.yaml").write_text(SLOW)
    said = Project(folder).run("run", "-d", "w.yaml")
    run_id = said.stdout.strip()
    root = folder / ".orchestrate" / "runs" / run_id
    assert is_held(root / "run.lock")
    assert b'"on":"run-started"' in (root / "events.jsonl").read_bytes()
    assert said.stdout == f"{run_id}\n"
    assert said.stderr.startswith(f"run {run_id} starts w.yaml")
    assert f"orchestrate wait {run_id}" in said.stderr
    process = owner_of(folder)
    assert os.getsid(process) == process, "it shares our session"
    assert os.readlink(f"/proc/{process}/fd/0") == os.devnull
    give_sign(folder, "go")
    waited = Project(folder).run("wait", run_id)
    assert (waited.exit_code, waited.stdout) == (0, "")
    assert waited.stderr == f"run {run_id} is completed\n"
    log = (root / "logs" / "detached.log").read_text()
    assert "[3/3] Last: completed" in log
    assert log.endswith(f"run {run_id} completed\n")
    assert (root / "logs" / "detached.log").stat().st_mode & 0o777 == 0o600


def test_what_cannot_start_is_told_with_its_exit_code(folder: Path) -> None:
    (folder / "bad.yaml").write_text("version: '1.1'\nname: x\nsteps: [{name: A, comand: [ls]}]\n")
    for flags in ((), ("--json",)):
        plain = Project(folder).run("run", "bad.yaml", *flags)
        said = Project(folder).run("run", "-d", "bad.yaml", *flags)
        assert (said.exit_code, said.stdout, said.stderr) == (
            plain.exit_code, plain.stdout, plain.stderr,
        )  # fmt: skip
        assert said.exit_code == 2
    # This one compiles, and is refused by the process that was to run it.
    (folder / "w.yaml").write_text(workflow("  - {name: A, provider: nobody, input_file: x}\n"))
    plain = Project(folder).run("run", "w.yaml", "--json")
    said = Project(folder).run("run", "-d", "w.yaml", "--json")
    assert (said.exit_code, said.stdout) == (plain.exit_code, plain.stdout)
    assert said.exit_code == 5
    assert not (folder / ".orchestrate" / "runs" / "latest").is_symlink()


@pytest.mark.parametrize("flag", ["--dry-run", "--live"])
def test_flags_that_exclude_each_other(folder: Path, flag: str) -> None:
    (folder / "w.yaml").write_text(SLOW)
    said = Project(folder).run("run", "-d", flag, "w.yaml")
    assert said.exit_code == 2
    assert flag in said.stderr


def test_json_says_where_the_run_is(folder: Path) -> None:
    (folder / "w.yaml").write_text(SLOW)
    document = json.loads(Project(folder).run("run", "-d", "w.yaml", "--json").stdout)
    assert document["run_id"] == Project(folder).latest_run.name
    assert document["run_root"] == str(Project(folder).latest_run)
    assert document["pid"] == owner_of(folder)
    assert Path(document["log"]).is_file()
    # A second one is refused by the process that was to go on with it.
    said = Project(folder).run("resume", "-d", document["run_id"], "--json")
    assert said.exit_code == 5
    assert "is in use by" in json.loads(said.stdout)["error"]["message"]


def test_a_closed_terminal_is_none_of_its_business(folder: Path) -> None:
    (folder / "w.yaml").write_text(SLOW)
    with display(folder, "run", "-d", "w.yaml") as seen:
        assert seen.finish() == 0
        assert "orchestrate attach RUN" in seen.shown
        seen.hang_up()
    time.sleep(0.2)
    give_sign(folder, "go")
    assert Project(folder).run("wait", "latest").exit_code == 0


def test_a_run_goes_on_in_a_process_of_its_own(folder: Path) -> None:
    run_id = detached(folder)
    os.kill(owner_of(folder), signal.SIGKILL)
    left = Project(folder).run("wait", run_id)
    assert left.exit_code == 7
    assert left.stderr == (
        f"run {run_id} is interrupted\n"
        "  its process is gone; resume continues what it had begun\n"
        f"  go on:  orchestrate resume {run_id}\n"
    )
    document = json.loads(Project(folder).run("wait", run_id, "--json").stdout)
    assert document["next"] == [f"orchestrate resume {run_id}"]
    said = Project(folder).run("resume", "-d", run_id)
    assert (said.exit_code, said.stdout) == (0, f"{run_id}\n")
    give_sign(folder, "go")
    assert Project(folder).run("wait", run_id).exit_code == 0
    assert Project(folder).latest_state["steps"]["First"]["attempts"] == 1
    over = Project(folder).run("resume", "-d", run_id)
    assert (over.exit_code, over.stdout) == (
        0, f"run {run_id} is completed; there is nothing left to do\n",
    )  # fmt: skip


def test_the_end_of_a_wait(folder: Path) -> None:
    run_id = detached(folder, FAILING)
    late = Project(folder).run("wait", run_id, "--timeout", "0.3")
    assert (late.exit_code, late.stdout) == (124, "")
    assert late.stderr == f"run {run_id} has not ended within 0.3 s; it goes on\n"
    late = Project(folder).run("wait", run_id, "--timeout", "0", "--json")
    assert (late.exit_code, json.loads(late.stdout)["status"]) == (124, "running")
    give_sign(folder, "go")
    ended = Project(folder).run("wait", run_id, "--timeout", "30")
    assert ended.exit_code == 1
    assert "has failed: step 'Bad' failed" in ended.stderr
    assert f"go on:  orchestrate resume {run_id}" in ended.stderr
    document = json.loads(Project(folder).run("wait", run_id, "--json").stdout)
    assert (document["status"], document["exit_code"]) == ("failed", 1)
    assert Project(folder).run("wait", "20990101").exit_code == 2


def test_a_wait_ends_at_a_gate_and_with_a_signal(shop: Workshop) -> None:
    gate = "approval: {required: true, timeout: 600, prompt: Go on}"
    shop.write(
        "r.yaml",
        recipe(f"""
            stages:
              - name: one
                steps: [{{id: a, agent: helper, prompt: "STEP:a"}}]
                {gate}
        """),
    )
    run_id = shop.run("run", "-d", "r.yaml").assert_success().stdout.strip()
    said = shop.run("wait", run_id).assert_exit(6).stderr
    assert f"go on:  orchestrate approve {run_id}" in said
    shop.run("cancel", run_id).assert_success()
    shop.run("wait", run_id).assert_exit(1)
    run_id = detached(shop.folder)
    os.kill(owner_of(shop.folder), signal.SIGTERM)
    shop.run("wait", run_id).assert_exit(143)


# The run is not made before there was a Ctrl-C.
SLOWLY = """
import fcntl, pathlib, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.app.starting import start as execution
start_run = execution.start_run
def slowly(*arguments, **named):
    pathlib.Path("starting").touch()
    while not pathlib.Path("pressed").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    return start_run(*arguments, **named)
execution.start_run = slowly
from orchestrate.cli.main import main
main()
"""


def test_ctrl_c_while_the_run_starts_leaves_no_run_that_nobody_knows_of(folder: Path) -> None:
    (folder / "w.yaml").write_text(SLOW)
    with display(folder, "run", "-d", "w.yaml", start=SLOWLY) as seen:
        while not (folder / "starting").exists():
            assert seen.read(0.02), seen.shown
        seen.type("\x03")
        give_sign(folder, "pressed")
        assert seen.finish() == 130
        assert seen.shown.endswith("run RUN was interrupted\n  go on:  orchestrate resume RUN")
    assert Project(folder).latest_state["status"] == "paused"
    assert not is_held(Project(folder).latest_run / "run.lock")
