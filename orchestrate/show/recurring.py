"""A thread that does something again and again, until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Recurring:
    """Calls `work` once an interval."""

    def __init__(self, name: str, every_s: float, work: Callable[[], None]) -> None:
        self._every_s = every_s
        self._work = work
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        # A machine that has no room for another thread still runs the run, without what this tells.
        with suppress(RuntimeError):
            self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            self._work()
