"""`run` is `start` and `wait` in one, and anybody can make a waiting caller return."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError, InternalError
from orchestrate.execute.base import Lost
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Ended
from tests.process.conftest import MakeRequest, children_of, do_at_once, parent_of, wait_until

UNTIL_GO = "while [ ! -e go ]; do sleep 0.02; done; exit 7"


@pytest.fixture
def sleeper(keeper: Keeper, request_for: MakeRequest) -> Iterator[str]:
    keeper.start(request_for("sleeper", "sleep", "60"))
    yield "sleeper"
    keeper.stop("sleeper", "enough", grace_s=0.1)
    while keeper.wait("sleeper", 60) is None:
        pass


def is_waiting(thread: threading.Thread) -> bool:
    """Has it begun to wait for the keeper, so that it is among those whom a wake-up wakes?"""
    frame = sys._current_frames().get(thread.ident or 0)
    calls = {frame.f_code.co_name for frame, _ in traceback.walk_stack(frame)}
    return not calls.isdisjoint({"_await", "_wait_for_record"})


def test_run(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    count = f"echo x >> {run_dir}/count; exit 5"
    end = keeper.run(request_for("a", "sh", "-c", count))
    assert isinstance(end, Ended)
    assert end.exit.code == 5
    assert keeper.run(request_for("a", "sh", "-c", count)) == end
    assert (run_dir / "count").read_text() == "x\n"
    with pytest.raises(InternalError):
        keeper.run(request_for("a b", "true"))


def test_run_adopts_what_runs(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir) as first, ensure_keeper(run_dir) as second:
        first.start(request_for("a", "sh", "-c", UNTIL_GO))
        timer = threading.Timer(0.2, (run_dir / "go").touch)
        timer.start()
        end = second.run(request_for("a", "sh", "-c", "exit 1"))
        assert isinstance(end, Ended)
        assert end.exit.code == 7
        assert first.wait("a", 60) == end
        timer.join()


def test_run_is_refused_by_a_keeper_that_ends(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:
        keeper.start(request_for("a", "sh", "-c", UNTIL_GO))
        keeper._send("shutdown 0")
        with pytest.raises(ConfigError, match="shutting down"):
            keeper.run(request_for("b", "true"))
        (run_dir / "go").touch()
        assert isinstance(keeper.wait("a", 60), Ended)
        keeper._await(lambda: keeper._is_gone)
        with pytest.raises(ConfigError, match="gone"):
            keeper.run(request_for("c", "true"))


def test_run_when_the_keeper_is_killed(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:

        def kill_it() -> None:
            while not (run_dir / "begun").exists():
                time.sleep(0.01)
            os.kill(keeper.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_it)
        killer.start()
        assert isinstance(keeper.run(request_for("a", "sh", "-c", "touch begun; sleep 60")), Lost)
        killer.join()


def test_a_thread_wakes_run(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    timer = threading.Timer(0.2, keeper.wake)
    timer.start()
    assert keeper.run(request_for("a", "sh", "-c", UNTIL_GO)) is None
    timer.join()
    assert keeper.wait("a", 0.05) is None
    (run_dir / "go").touch()
    end = keeper.wait("a", 60)
    assert isinstance(end, Ended)
    assert end.exit.code == 7


def test_a_signal_handler_wakes_wait(keeper: Keeper, sleeper: str) -> None:
    seen: list[int] = []

    def handle(number: int, _: object) -> None:
        seen.append(number)
        keeper.wake()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert keeper.wait(sleeper) is None
        assert seen == [signal.SIGUSR1]
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_wake_up_is_not_missed(keeper: Keeper, sleeper: str, request_for: MakeRequest) -> None:
    """One that comes before the wait, even if something else reads it, ends exactly one wait."""
    keeper.wake()
    assert keeper.wait(sleeper) is None
    keeper.wake()
    assert keeper.start(request_for("b", "true")) == "started"
    assert keeper.ends_whole_trees
    began = time.monotonic()
    assert keeper.wait(sleeper, 120) is None
    assert time.monotonic() - began < 60
    began = time.monotonic()
    assert keeper.wait(sleeper, 0.3) is None
    assert time.monotonic() - began >= 0.3
    assert isinstance(keeper.wait("b", 60), Ended)


def test_an_end_that_is_known_comes_before_a_wake_up(
    keeper: Keeper, sleeper: str, request_for: MakeRequest
) -> None:
    end = keeper.run(request_for("b", "true"))
    keeper.start(request_for("b", "true"))
    keeper.wake()
    assert keeper.wait("b", 60) == end
    assert keeper.wait(sleeper) is None


def test_all_threads_wake_up(keeper: Keeper, sleeper: str) -> None:
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(keeper.wait(sleeper))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(map(is_waiting, threads)))
    time.sleep(0.3)
    assert results == []
    keeper.wake()
    for thread in threads:
        thread.join(60)
    assert results == [None] * 5


def test_threads_that_wait_use_no_processor(keeper: Keeper, sleeper: str) -> None:
    """One of them listens for all; the others must not look again and again whether it heard."""
    used: list[float] = []

    def wait(_: int) -> None:
        assert keeper.wait(sleeper, 0.5) is None
        used.append(time.thread_time())

    do_at_once(3, wait)
    assert len(used) == 3
    assert max(used) < 0.1


def test_waking_while_a_dead_keepers_program_is_being_ended(
    run_dir: Path, guarded_request: MakeRequest
) -> None:
    """There is nobody left to listen to but the record, and that is not said to end soon."""
    with ensure_keeper(run_dir) as keeper:
        keeper.start(guarded_request("a", "sleep", "60"))
        [warden] = children_of(keeper.pid)
        others = (parent_of(keeper.pid), keeper.pid)
        os.kill(warden, signal.SIGSTOP)
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        results: list[object] = []
        threads = [
            threading.Thread(target=lambda: results.append(keeper.wait("a"))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(map(is_waiting, threads)))
        time.sleep(0.3)
        assert results == []
        keeper.wake()
        for thread in threads:
            thread.join(60)
        assert results == [None] * 3
        os.kill(warden, signal.SIGCONT)
        assert isinstance(keeper.wait("a", 60), Lost)


def test_waking_never_blocks_or_fails(run_dir: Path) -> None:
    keeper = ensure_keeper(run_dir)
    for _ in range(100_000):
        keeper.wake()
    keeper.close()
    keeper.wake()
    keeper.close()


def test_many_runs_from_many_threads(keeper: Keeper, request_for: MakeRequest) -> None:
    """With wake-ups raining down, every end arrives once."""
    codes: dict[str, int | None] = {}

    def work(worker: int) -> None:
        for number in range(10):
            attempt = f"w{worker}-{number}"
            end = keeper.run(request_for(attempt, "sh", "-c", f"exit {worker * 10 + number}"))
            while end is None:
                end = keeper.wait(attempt)
            assert isinstance(end, Ended)
            codes[attempt] = end.exit.code

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        keeper.wake()
        time.sleep(0.005)
    assert codes == {f"w{w}-{n}": w * 10 + n for w in range(4) for n in range(10)}
