"""8: a run whose answer is not read obeys signals, and loses nothing by it."""

from __future__ import annotations

import array
import fcntl
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, Scene, said
from tests.promises.processes import wait_until

# More than a pipe takes.
LONG = "word\n" * 40_000
# So much of it waits in a pipe that has no room left.
FULL = 60_000


def await_full_pipe(process: subprocess.Popen[str]) -> None:
    """Wait until the process cannot write more of its answer."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    waiting = array.array("i", [0])

    def is_full() -> bool:
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        return waiting[0] >= FULL

    wait_until(is_full, "nothing was answered")


@pytest.mark.parametrize(
    ("number", "reason", "code"),
    [
        (signal.SIGINT, "interrupted", 130),
        (signal.SIGTERM, "terminated", 143),
    ],
)
def test_truth_08_an_answer_that_is_not_read_stops_no_signal(
    tmp_path: Path, number: signal.Signals, reason: str, code: int
) -> None:
    """The write was taken up again after each signal, and only SIGKILL ended the run."""
    scene = Scene(tmp_path, said("done", LONG), said("done"))
    with scene.started(PAIR) as process:
        await_full_pipe(process)
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr is not None
        told = process.stderr.read()
    assert "has stopped reading" in told
    assert f"orchestrate resume {scene.run_id}" in told
    state = read_state(scene.runs_folder / "latest")
    assert (state["status"], state["reason"]) == ("paused", reason)
    assert "Exit: all-done" in scene.run("resume").assert_success().stdout
    assert len(scene.ledger()) == 2


def test_truth_08_a_reader_that_takes_its_time_gets_all_of_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", LONG), said("done"))
    with scene.started(PAIR) as process:
        await_full_pipe(process)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.count("word\n") == 40_000
    assert out.endswith("Exit: all-done\n")
