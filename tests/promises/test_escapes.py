"""However a program tries to outlive its step, nothing of it does; and no stranger is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.promises import escapes
from tests.promises.commands import await_file, do, doing, workflow
from tests.promises.keepers import keeper_of, kill_keeper_and_company
from tests.promises.processes import kill, wait_until
from tests.promises.shapes import act
from tests.promises.trials import Trial

ENDS = ("by itself", "timed out", "cancelled", "killed with its keeper")


def is_alive(pid: int, birth: str) -> bool:
    """The very process that had this number, in whatever thread of it."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        is_dead = fields[0] == b"Z" and int(fields[17]) <= 1
        return fields[19].decode() == birth and not is_dead
    return False


def survivors(trial: Trial) -> dict[str, list[int]]:
    found = {}
    for name, processes in escapes.noted(str(trial.top / "pids")).items():
        living = [pid for pid, birth in processes if is_alive(pid, birth)]
        if living:
            found[name] = living
    return found


def are_gone(trial: Trial) -> bool:
    """In several looks: one that forks and ends is between two of its numbers at times."""
    for _ in range(10):
        if survivors(trial):
            return False
        time.sleep(0.02)
    return True


def escaping(top: Path, names: str, end: str) -> Trial:
    """A workflow with a step that tries these ways out and then ends, or has to be ended."""
    then = "ends" if end == "by itself" else "lingers"
    program = [sys.executable, "-I", "-S", "../escape.py", names, then]
    trial = workflow(
        top,
        f"""
        version: "1.1"
        name: escapes
        strict_flow: false
        steps:
          - name: Grow
            command: {json.dumps(program)}
            {"timeout_sec: 10" if end == "timed out" else ""}
          - name: After
            command: {act("After", "-", "echo . > after; until test -e go; do sleep 0.02; done")}
        """,
    )
    shutil.copy(escapes.__file__, top / "escape.py")
    return trial


def check_nobody_escapes(top: Path, names: str, end: str) -> None:
    trial = escaping(top, names, end)
    with innocent(trial) as stranger:
        with doing(trial, "run", "w.yaml") as process:
            await_file(trial, "../grown")
            grown = escapes.noted(str(trial.top / "pids"))
            assert len(grown) == len(escapes.ESCAPES if names == "all" else names.split(","))
            if end == "cancelled":
                wait_until(lambda: survivors(trial).keys() == grown.keys(), "they did not begin")
                assert do(trial, "cancel", "latest").exit_code == 0
            elif end == "killed with its keeper":
                keeper = keeper_of(trial)
                assert keeper is not None
                process.kill()
                kill(keeper)
                with suppress(AssertionError):
                    wait_until(lambda: are_gone(trial), "", 60.0)
            else:
                await_file(trial, "after")
                assert not survivors(trial), "they live when the next step begins"
                (trial.workspace / "go").touch()
            process.wait(timeout=90)
        assert not survivors(trial)
        assert stranger.poll() is None, "a process that we did not start was signalled"


def test_there_are_twenty_ways_and_more() -> None:
    assert len(escapes.ESCAPES) >= 20


@pytest.mark.parametrize("end", ENDS)
def test_nobody_escapes(end: str, quick_top: Path) -> None:
    """All ways at once."""
    check_nobody_escapes(quick_top, "all", end)


@pytest.mark.soak
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", escapes.ESCAPES)
def test_nobody_escapes_alone(name: str, end: str, quick_top: Path) -> None:
    """Each way alone: nothing that another one does to the tree helps to end it."""
    check_nobody_escapes(quick_top, name, end)


# Who has an emptied environment and no parent of ours left cannot be told from a stranger.
_UNKNOWN = {"cleared_environment", "all_of_it"}


def test_when_everybody_is_killed_at_once_the_resume_ends_what_it_can_know(quick_top: Path) -> None:
    """Orchestrator, keeper, guardian and wardens: nobody is left who could end anything."""
    trial = escaping(quick_top, "all", "killed")
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, "../grown")
        process.kill()
        kill_keeper_and_company(trial)
        process.wait()
    (trial.workspace / "go").touch()
    (trial.top / "escape.py").write_text("print('again')\n", "utf-8")
    done = do(trial, "resume", "latest")
    assert "attempt 1 was lost" in done.stderr
    left = survivors(trial)
    for pids in left.values():
        for pid in pids:
            kill(pid)
    assert left.keys() <= _UNKNOWN


STALE = f"""
    version: "1.1"
    name: stale
    steps:
      - name: Long
        command: {act("Long", "-", "pid > began; until test -e go; do sleep 0.02; done")}
    """


@pytest.mark.parametrize(
    ("command", "has_keeper"),
    [("resume", True), ("resume", False), ("cancel", True), ("cancel", False), ("clean", False)],
)
def test_the_number_of_a_dead_orchestrator_is_somebody_elses_now(
    command: str, has_keeper: bool, quick_top: Path
) -> None:
    """Its number stands in the run's folder; by now an innocent process has it."""
    trial = workflow(quick_top, STALE)
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, "began")
        process.kill()
        process.wait()
    if not has_keeper:
        kill_keeper_and_company(trial)
    (trial.workspace / "go").touch()
    with innocent(trial) as stranger:
        take_over_numbers(trial.root, stranger.pid)
        words = {"clean": ["clean", "--older-than", "0s"]}.get(command, [command, "latest"])
        assert do(trial, "status", "latest").exit_code == 0
        assert do(trial, *words).exit_code == 0
        assert stranger.poll() is None, "a stranger was signalled"


def test_cancel_ends_the_orchestrator_and_not_who_is_named_as_it(quick_top: Path) -> None:
    """The run is at work, but the file beside its lock names another process."""
    trial = workflow(quick_top, STALE)
    with doing(trial, "run", "w.yaml") as process, innocent(trial) as stranger:
        await_file(trial, "began")
        take_over_numbers(trial.root, stranger.pid)
        do(trial, "cancel", "latest")
        assert stranger.poll() is None, "a stranger was signalled"
        if process.poll() is None:
            process.kill()


@contextmanager
def innocent(trial: Trial) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else, who even works in the workspace."""
    stranger = subprocess.Popen(["sleep", "1000"], cwd=trial.workspace)
    try:
        yield stranger
    finally:
        stranger.kill()
        stranger.wait()


def take_over_numbers(root: Path, pid: int) -> None:
    """Let every file of the run that names a process name this one."""
    (owner,) = root.glob("*.owner")
    _, *rest = json.loads(owner.read_bytes())
    owner.write_text(json.dumps([pid, *rest]), "utf-8")
