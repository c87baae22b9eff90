"""A signal ends every wait, also one that comes in the instant before the wait begins."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrate.engine.stop import Stop, listening

_PATIENCE_S = 60.0


@contextmanager
def slept_through() -> Iterator[list[str]]:
    """SIGTERM as it is when it comes just before a system call: noted, and interrupting nothing.

    Another thread takes it while the main thread sleeps. What is told if that goes on sleeping.
    """
    troubles: list[str] = []
    is_over = threading.Event()

    def send() -> None:
        _await_sleep(threading.main_thread().native_id)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        if not is_over.wait(_PATIENCE_S):
            troubles.append("the signal was slept through")
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield troubles
    finally:
        is_over.set()
        thread.join()


def _await_sleep(thread_id: int | None) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    stat = Path(f"/proc/self/task/{thread_id}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < give_up
        time.sleep(0.001)


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    with listening(stop):
        yield stop
    stop.close()


def _rest(stop: Stop) -> bool:
    return stop.rest(10 * _PATIENCE_S)


def _wait_for_an_answer(stop: Stop) -> bool:
    silent, other = os.pipe()
    try:
        return not stop.wait_for(silent, None)
    finally:
        os.close(silent)
        os.close(other)


@pytest.mark.parametrize("wait", [_rest, _wait_for_an_answer])
def test_a_signal_in_the_instant_before_a_wait_ends_it(
    stop: Stop, wait: Callable[[Stop], bool]
) -> None:
    with slept_through() as troubles:
        assert wait(stop)
    assert stop.signal == signal.SIGTERM
    assert troubles == []
