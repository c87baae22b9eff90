"""A lane starts one command after the other; several lanes make several cases run at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

Case = TypeVar("Case")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Order:
    """A command to start: `orchestrate ARGUMENTS` in a folder, its output appended to files."""

    arguments: tuple[str, ...]
    cwd: Path
    stdout: Path
    stderr: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    # Killed in front of the change of this number; 0 lets the changes alone and does not count.
    die_before: int = 0
    # A file that says by how many seconds the wall clock is wrong for this command.
    clock: Path | None = None


class Lane:
    """A process that is ready to become `orchestrate`, again and again."""

    def __init__(self) -> None:
        # By its path and with -P: nothing of the tests' folder can be taken for a module.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear()
        # How many changes of files the last command has made, if they were counted.
        self.changes = 0

    def run(self, order: Order, before: Callable[[int], None] = lambda _: None) -> int:
        """Start it, let `before` do something to the process that stands still, await its end."""
        return self.run_many(order, 1, before)[0]

    def run_many(
        self, order: Order, times: int, before: Callable[[int], None] = lambda _: None
    ) -> list[int]:
        """So many processes of one command, let go in the same instant; how each ended."""
        written: dict[str, Any] = {
            "arguments": list(order.arguments),
            "cwd": str(order.cwd),
            "stdout": str(order.stdout),
            "stderr": str(order.stderr),
            "env": dict(order.env),
            "die_before": order.die_before,
            "times": times,
            "clock": "" if order.clock is None else str(order.clock),
        }
        self._say(json.dumps(written))
        try:
            before(self._hear()["pid"])
        finally:
            self._say("go")
            heard = self._hear()
        self.changes = heard["changes"]
        codes: list[int] = heard["codes"]
        return codes

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the launcher ended"
        heard: dict[str, Any] = json.loads(line)
        return heard


class Lanes:
    """Several lanes, and cases that are spread over them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free: SimpleQueue[Lane] = SimpleQueue()
        with ThreadPoolExecutor(number) as pool:
            for lane in pool.map(lambda _: Lane(), range(number)):
                self._free.put(lane)

    @contextmanager
    def one(self) -> Iterator[Lane]:
        lane = self._free.get()
        try:
            yield lane
        finally:
            self._free.put(lane)

    def spread(self, cases: list[Case], judge: Callable[[Lane, Case], Answer]) -> list[Answer]:
        """Judge every case, as many at once as there are lanes; the first fault is raised."""

        def on_a_lane(case: Case) -> Answer:
            with self.one() as lane:
                return judge(lane, case)

        with ThreadPoolExecutor(self._number) as pool:
            futures = [pool.submit(on_a_lane, case) for case in cases]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def close(self) -> None:
        while not self._free.empty():
            self._free.get().close()
