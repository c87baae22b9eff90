"""A lane starts one command after the other; several lanes make several cases run at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from tests.commands import Command, Disturbance

LONGEST_S = 120.0

# What is done to a process that stands still; a thread goes on with it while the process works.
Before = Callable[[int], threading.Thread | None]

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
    # A process whose mounts it sees, and the largest file it may write, if these are not ours.
    mounts_of: int = 0
    file_limit: int = 0


class Lane:
    """Gives commands that stand still until something was done to them."""

    def __init__(self) -> None:
        # How many changes of files the last command has made, if they were counted.
        self.changes = 0

    def run(self, order: Order, before: Before = lambda _: None) -> int:
        """Start it, let `before` do something to the process that stands still, await its end."""
        return self.run_many(order, 1, before)[0]

    def run_many(self, order: Order, times: int, before: Before = lambda _: None) -> list[int]:
        """So many processes of one command, let go in the same instant; how each ended."""
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("ab")) for path in (order.stdout, order.stderr)]
            gate, opener = (stack.enter_context(os.fdopen(end, "rb")) for end in os.pipe())
            counter = stack.enter_context(os.fdopen(os.memfd_create("counter"), "r+b"))
            counter.truncate(8)
            disturbance = Disturbance(
                gate.fileno(), order.die_before, counter.fileno(), str(order.clock or ""),
                order.mounts_of, order.file_limit,
            )  # fmt: skip
            commands = [
                Command(
                    *order.arguments, cwd=order.cwd, env=order.env, stdout=files[0],
                    stderr=files[1], disturbance=disturbance,
                )
                for _ in range(times)
            ]  # fmt: skip
            beside = None
            try:
                beside = before(commands[0].pid)
            finally:
                # By closing it, not by writing: one may have been killed meanwhile.
                opener.close()
                codes = [_await_end(command) for command in commands]
                if beside is not None:
                    # On a busy machine it may come late, when the caller tidies up already.
                    beside.join()
            self.changes = int.from_bytes(counter.read(8), "little")
        return codes


def strike_in_thread(strike: Callable[[int], None]) -> Before:
    """Let the process go first; whatever it is struck with comes from beside."""

    def begin(pid: int) -> threading.Thread:
        thread = threading.Thread(target=strike, args=(pid,))
        thread.start()
        return thread

    return begin


def _await_end(command: Command) -> int:
    """A command that hangs is killed by SIGABRT, which no kill of the tests uses."""
    with suppress(subprocess.TimeoutExpired):
        return command.wait(LONGEST_S)
    command.send_signal(signal.SIGABRT)
    return command.wait()


class Lanes:
    """Several lanes, and cases that are spread over them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free: SimpleQueue[Lane] = SimpleQueue()
        for _ in range(number):
            self._free.put(Lane())

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
