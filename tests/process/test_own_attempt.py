"""A plain attempt that is alone is watched by the keeper itself, and the guardian stands behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchestrate.execute.base import Lost
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Ended, look
from orchestrate.execute.liveness import is_keeper_alive
from tests.process.conftest import (
    MakeRequest,
    assert_idle,
    children_of,
    is_alive,
    parent_of,
    pid_in,
    wait_until,
)

# A child in another session, with an empty environment: only its ancestors give it away.
NESTED = "echo $$ > pid; env -i setsid sh -c 'echo $$ > inner; exec sleep 60' & wait"
# The same, but it keeps the environment, and with that the mark of its attempt.
DAEMON = (
    "(setsid sh -c 'echo $$ > daemon; exec sleep 60' &) ; while [ ! -e go ]; do sleep 0.02; done"
)


def watcher_of(keeper: Keeper, request_for: MakeRequest, attempt: str, **more: object) -> int:
    """The parent of a program."""
    end = keeper.run(request_for(attempt, "sh", "-c", "echo $PPID", **more))
    assert isinstance(end, Ended)
    return int(end.exit.stdout or b"")


def test_who_watches(keeper: Keeper, request_for: MakeRequest, is_guarded: bool) -> None:
    for number in range(3):
        watcher = watcher_of(keeper, request_for, f"a{number}")
        assert (watcher == keeper.pid) == (not is_guarded)
    assert len(children_of(keeper.pid)) == is_guarded


def test_what_does_not_fit_in_the_keeper_itself(keeper: Keeper, plain_request: MakeRequest) -> None:
    """One attempt at a time; when the others are done the hand is used again, beside a warden."""
    keeper.start(
        plain_request("long", "sh", "-c", "echo $PPID; while [ ! -e go ]; do sleep 0.02; done")
    )
    other = watcher_of(keeper, plain_request, "other")
    assert other != keeper.pid
    (keeper.run_dir / "go").touch()
    end = keeper.wait("long", 60)
    assert isinstance(end, Ended)
    assert end.exit.stdout == b"%d\n" % keeper.pid
    assert watcher_of(keeper, plain_request, "again") == keeper.pid
    assert children_of(keeper.pid) == [other]


def test_no_survivor_beside_a_warden(
    keeper: Keeper, plain_request: MakeRequest, run_dir: Path
) -> None:
    """The keeper has children that stay, and must still find those that must not."""
    watcher = watcher_of(keeper, plain_request, "w", guarded=True)
    script = (
        "env -i setsid sh -c 'echo $$ > inner; exec sleep 60' & while [ ! -s inner ]; do :; done"
    )
    end = keeper.run(plain_request("a", "sh", "-c", script))
    assert isinstance(end, Ended)
    assert end.exit.survivors == 0
    assert not is_alive(pid_in(run_dir / "inner"))
    assert children_of(keeper.pid) == [watcher]
    assert watcher_of(keeper, plain_request, "w2", guarded=True) == watcher


def test_a_killed_keeper_leaves_nothing(run_dir: Path, plain_request: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:
        keeper.start(plain_request("a", "sh", "-c", NESTED))
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        assert parent_of(pids[0]) == keeper.pid
        guardian = parent_of(keeper.pid)
        os.kill(keeper.pid, signal.SIGKILL)
        assert isinstance(keeper.wait("a", 60), Lost)
        assert not any(map(is_alive, pids))
        assert isinstance(look(run_dir, "a"), Lost)
        wait_until(lambda: not is_alive(guardian))


def test_without_a_guardian_wardens_watch(run_dir: Path, plain_request: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:
        keeper.start(
            plain_request("a", "sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 3")
        )
        guardian = parent_of(keeper.pid)
        os.kill(guardian, signal.SIGKILL)
        wait_until(lambda: not is_alive(guardian))
        assert is_keeper_alive(run_dir)
        assert_idle(keeper.pid)
        assert watcher_of(keeper, plain_request, "b") != keeper.pid
        (run_dir / "go").touch()
        end = keeper.wait("a", 60)
        assert isinstance(end, Ended)
        assert end.exit.code == 3
        assert watcher_of(keeper, plain_request, "c") != keeper.pid
        keeper.start(plain_request("d", "sh", "-c", NESTED))
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        os.kill(keeper.pid, signal.SIGKILL)
        assert isinstance(keeper.wait("d", 60), Lost)
        assert not any(map(is_alive, pids))


def test_a_terminated_guardian_stays(run_dir: Path) -> None:
    with ensure_keeper(run_dir) as keeper:
        assert keeper.ends_whole_trees
        guardian = parent_of(keeper.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guardian, number)
        assert parent_of(keeper.pid) == guardian
        assert is_alive(guardian)
        keeper.shutdown()
        wait_until(lambda: not is_alive(guardian))


def test_a_warden_dies_beside_the_own_attempt(run_dir: Path, plain_request: MakeRequest) -> None:
    """Both attempts have orphans among the keeper's children; only the warden's are ended."""
    with ensure_keeper(run_dir) as keeper:
        keeper.start(plain_request("hand", "sh", "-c", DAEMON))
        daemon = pid_in(run_dir / "daemon")
        keeper.start(plain_request("other", "sh", "-c", NESTED))
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        os.kill(parent_of(pids[0]), signal.SIGKILL)
        assert isinstance(keeper.wait("other", 60), Lost)
        assert not any(map(is_alive, pids))
        assert is_alive(daemon)
        (run_dir / "go").touch()
        end = keeper.wait("hand", 60)
        assert isinstance(end, Ended)
        assert (end.exit.code, end.exit.survivors) == (0, 0)
        assert not is_alive(daemon)


def test_orphans_are_collected_while_the_program_runs(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    """Or a program that starts many of them would use up all process numbers."""
    script = "for i in 1 2 3 4 5; do (sleep 0.01 &); done; echo $PPID > watcher; exec sleep 60"
    keeper.start(request_for("a", "sh", "-c", script))
    watcher = pid_in(run_dir / "watcher")
    wait_until(lambda: len(children_of(watcher)) == 1)
    keeper.stop("a", "seen", grace_s=0.1)
    assert isinstance(keeper.wait("a", 60), Ended)


@pytest.mark.parametrize("linger_s", [0.05])
def test_the_hand_keeps_an_idle_keeper_alive(
    run_dir: Path, plain_request: MakeRequest, linger_s: float
) -> None:
    with ensure_keeper(run_dir, linger_s) as keeper:
        keeper.start(plain_request("a", "sh", "-c", "sleep 0.5; exit 8"))
    wait_until(lambda: isinstance(look(run_dir, "a"), Ended))
    end = look(run_dir, "a")
    assert isinstance(end, Ended)
    assert end.exit.code == 8
    wait_until(lambda: not is_alive(keeper.pid))
