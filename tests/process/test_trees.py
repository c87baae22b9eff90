"""When a step ends nothing of its tree is left, and nobody else is touched."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from orchestrate.execute.keeper.client import Keeper
from orchestrate.execute.keeper.facts import Ended
from tests.process.conftest import MakeRequest, is_alive, wait_until

# Each writes the pid of the process that tries to stay behind to `$1`, then goes on to `$2`.
SLEEPER = "echo \\$\\$ > $1; exec sleep 60"
SHAPES = {
    "background": f'sh -c "{SLEEPER}" &',
    "new session": f'setsid sh -c "{SLEEPER}" &',
    "double fork": f'(setsid sh -c "(sh -c \\"{SLEEPER.replace(chr(92), chr(92) * 3)}\\" &)" &)',
    "no environment": f'env -i setsid sh -c "{SLEEPER}" &',
    "deaf": f"setsid sh -c \"trap '' TERM INT HUP; {SLEEPER}\" &",
    "closed streams": f'setsid sh -c "{SLEEPER}" <&- >&- 2>&- &',
    "holds the pipe": f'nohup sh -c "{SLEEPER}" &',
    "stopped": 'setsid sh -c "echo \\$\\$ > $1.tmp; mv $1.tmp $1; kill -STOP \\$\\$" &',
}
WAIT = "while [ ! -s $1 ]; do sleep 0.01; done"


def start_shape(
    keeper: Keeper, request_for: MakeRequest, shape: str, attempt: str, **more: object
) -> Path:
    mark = keeper.run_dir / f"{attempt}.pid"
    ending = str(more.pop("ending", "exit 3"))
    script = f"{SHAPES[shape]}\n{WAIT}\n{ending}"
    keeper.start(request_for(attempt, "bash", "-c", script, "bash", str(mark), **more))
    return mark


def test_no_survivor(keeper: Keeper, request_for: MakeRequest) -> None:
    marks = {
        shape: start_shape(keeper, request_for, shape, f"a{index}")
        for index, shape in enumerate(SHAPES)
    }
    for index, (shape, mark) in enumerate(marks.items()):
        end = keeper.wait(f"a{index}", 60)
        assert isinstance(end, Ended), shape
        assert (end.exit.code, end.exit.survivors) == (3, 0), shape
        assert not is_alive(int(mark.read_text())), shape


def test_no_survivor_of_a_timeout(keeper: Keeper, request_for: MakeRequest) -> None:
    marks = [
        start_shape(
            keeper, request_for, shape, f"a{index}",
            ending="trap '' TERM; while :; do sleep 0.05; done", timeout_s=6, grace_s=0.1,
        )
        for index, shape in enumerate(("double fork", "no environment", "deaf"))
    ]  # fmt: skip
    for index, mark in enumerate(marks):
        end = keeper.wait(f"a{index}", 60)
        assert isinstance(end, Ended)
        assert end.exit.timed_out
        assert end.exit.signal == signal.SIGKILL
        assert not is_alive(int(mark.read_text()))


def test_the_trees_of_others_stay(keeper: Keeper, request_for: MakeRequest) -> None:
    """Two attempts at once, each with an orphan that nothing but its warden can tell apart."""
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        long = start_shape(keeper, request_for, "no environment", "long", ending="exec sleep 60")
        wait_until(lambda: long.exists() and long.read_text())
        short = start_shape(keeper, request_for, "no environment", "short")
        assert isinstance(keeper.wait("short", 60), Ended)
        assert not is_alive(int(short.read_text()))
        assert is_alive(int(long.read_text()))
        keeper.stop("long", "enough", grace_s=0.1)
        assert isinstance(keeper.wait("long", 60), Ended)
        assert not is_alive(int(long.read_text()))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_wardens_are_used_again(keeper: Keeper, guarded_request: MakeRequest) -> None:
    for number in range(5):
        keeper.start(guarded_request(f"a{number}", "true"))
        assert isinstance(keeper.wait(f"a{number}", 60), Ended)
    children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
    assert len(children) == 1
