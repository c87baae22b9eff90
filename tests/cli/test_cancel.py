"""`cancel`: a run ends for good, and nothing of it goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.state.locks import take
from orchestrate.testing import Project
from tests.cli.background import await_file, started
from tests.commands import Command
from tests.promises.processes import is_alive, wait_until

SLOW = """
version: "1.1"
steps:
  - name: Slow
    command: [sh, -c, 'echo $$$$ > pid.new; mv pid.new pid; exec sleep 60']
  - {name: After, command: [touch, after]}
"""
STUBBORN = SLOW.replace("echo", 'trap "" TERM; echo').replace("exec sleep 60", "sleep 60")
FAILING = 'version: "1.1"\nsteps: [{name: Bad, command: [sh, -c, "exit 3"]}]\n'
HELLO = 'version: "1.1"\nsteps: [{name: Hello, command: [echo, hello]}]\n'


def pid_of(project: Project) -> int:
    await_file(project, "pid")
    return int((project.folder / "pid").read_text())


def assert_cancelled(project: Project) -> None:
    state = project.latest_state
    assert (state["status"], state["completed_at"] > state["started_at"]) == ("cancelled", True)
    view = project.run("status", "latest", "--json").assert_success().json()
    assert (view["status"], view["next"], view["note"]) == ("cancelled", [], "")
    assert project.run("runs").stdout.split()[1] == "cancelled"
    resumed = project.run("resume", "latest").assert_exit(1)
    assert "was cancelled" in resumed.stdout
    assert not (project.folder / "after").exists()


def test_a_live_run(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml") as process:
        pid = pid_of(project)
        done = project.run("cancel", "latest", "--json").assert_success()
        assert done.json()["status"] == "cancelled"
        assert not is_alive(pid)
        assert process.wait(60) == 143
        assert_cancelled(project)


def test_a_run_whose_process_is_gone(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml") as process:
        pid = pid_of(project)
        process.kill()
        process.wait()
        assert is_alive(pid), "the keeper goes on without its orchestrator"
        done = project.run("cancel", "latest").assert_success()
        assert "its programs were ended" in done.stdout
        assert not is_alive(pid)
        assert_cancelled(project)


def test_a_failed_run(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": FAILING})
    project.run("run", "w.yaml").assert_exit(1)
    project.run("cancel", project.latest_run.name).assert_success()
    assert project.latest_state["steps"]["Bad"]["exit_code"] == 3
    assert_cancelled(project)
    again = project.run("cancel", "latest").assert_success()
    assert "is cancelled already" in again.stdout


def test_a_run_whose_definition_has_changed(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": FAILING})
    project.run("run", "w.yaml").assert_exit(1)
    project.write("w.yaml", "no recipe at all")
    project.run("cancel", "latest").assert_success()
    assert project.run("runs").stdout.split()[1] == "cancelled"
    assert "state.json alone" not in project.run("status", "latest").assert_success().stdout
    project.write("w.yaml", FAILING)
    assert_cancelled(project)


def test_a_completed_run_stays_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": HELLO})
    project.run("run", "w.yaml").assert_success()
    root = project.latest_run
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = project.run("cancel", "latest").assert_success()
    assert "is completed; there is nothing to cancel" in done.stdout
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_run_that_takes_its_time(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": STUBBORN})
    with started(project, "run", "w.yaml") as process:
        pid = pid_of(project)
        early = project.run("cancel", "latest", "--wait", "0.5", "--json").assert_exit(5)
        assert "has not ended yet" in early.json()["error"]["message"]
        assert str(process.pid) in early.json()["error"]["hint"]
        project.run("cancel", "latest").assert_success()
        assert not is_alive(pid)
        assert_cancelled(project)


@pytest.mark.parametrize("host", ["elsewhere", os.uname().nodename])
def test_a_process_that_does_not_hold_the_lock_is_not_signalled(tmp_path: Path, host: str) -> None:
    """The owner's name may be old, or a number on another machine."""
    project = Project(tmp_path, {"w.yaml": FAILING})
    project.run("run", "w.yaml").assert_exit(1)
    root = project.latest_run
    with (
        subprocess.Popen(["sleep", "60"]) as bystander,
        take(root / "run.lock", "the run", ["orchestrate", "run"]),
    ):
        owner = json.dumps([bystander.pid, host, "orchestrate run w.yaml", 0])
        (root / "run.owner").write_text(owner)
        refused = project.run("cancel", "latest").assert_exit(5)
        assert is_alive(bystander.pid)
        bystander.kill()
    assert ("cancel it on elsewhere" in refused.stderr) == (host == "elsewhere")
    assert project.latest_state["status"] == "failed"


def test_several_at_once(tmp_path: Path) -> None:
    """They wait for each other, and none takes another for the run's orchestrator."""
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml"):
        pid = pid_of(project)
        number = 4
        all_of_them = [Command("cancel", "latest", cwd=tmp_path) for _ in range(number)]
        said = [process.communicate(timeout=60) for process in all_of_them]
        assert [process.returncode for process in all_of_them] == [0] * number, said
        told = [out.strip().partition(";")[0].rpartition(" is ")[2] for out, _ in said]
        final = "cancelled for good: it cannot be resumed"
        assert sorted(told) == [*["cancelled already"] * (number - 1), final]
        wait_until(lambda: not is_alive(pid), "its program lives")
        assert_cancelled(project)
