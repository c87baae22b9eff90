"""Programs that the tests start, kill, starve and race: `python -m tests.state.children NAME …`."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrate.errors import OrchestrateError
from orchestrate.state.durable import dump_json, write_durably
from orchestrate.state.journal import Journal

OLD = {"version": "old", "filler": "o" * 20_000}
NEW = {"version": "new", "filler": "n" * 30_000}
EVENTS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"n": 3}, {"n": 4, "text": "x" * 5000}, {"n": 5}),
    ({"n": 6},),
)
# Functions of `os` that change a file; killing before each of them is the sweep without strace.
CHANGES = ("open", "write", "fsync", "fdatasync", "close", "link", "rename", "unlink", "ftruncate")


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def write(folder: Path) -> None:
    """Replace the state, then announce it."""
    write_durably(folder / "state.json", dump_json(NEW), keep_previous=True)
    say("written")


def append(folder: Path) -> None:
    """Open the journal and record, announcing each batch."""
    with Journal.open(folder / "events.jsonl") as journal:
        say(f"seq {journal.last_seq}")
        for batch in EVENTS:
            say(f"seq {journal.append(batch)}")


def rewrite(folder: Path) -> None:
    """Replace the state 2,000 times."""
    for number in range(2000):
        filler = "f" * (number * 37 % 9000)
        write_durably(folder / "state.json", dump_json({"n": number, "filler": filler}))
    say("written")


def fill(folder: Path) -> None:
    """Record and write until the disk is full; then say what the errors were."""
    state, events = folder / "state.json", folder / "events.jsonl"
    write_durably(state, dump_json(OLD))
    with Journal.open(events) as journal:
        try:
            while True:
                journal.append([{"text": "j" * 3000}])
        except OrchestrateError as error:
            size = events.stat().st_size
            say(f"journal {journal.last_seq} {size} {error.message} | {error.hint}")
        try:
            write_durably(state, dump_json({"filler": "n" * 400_000}))
        except OrchestrateError as error:
            say(f"state {error.message} | {error.hint}")
        say(f"unchanged {state.read_bytes() == dump_json(OLD)} {sorted(os.listdir(folder))}")
        os.truncate(state, 0)  # make room
        say(f"again {journal.append([{'small': True}])}")


def hold(path: Path) -> None:
    """Take a lock and keep it; a forked child must not have it."""
    from orchestrate.state.locks import take

    lock = take(path, "run X", ["orchestrate", "run"])
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    say(f"held {lock.path.name}")
    time.sleep(30)


ACTIONS: dict[str, Callable[[Path], None]] = {
    "write": write,
    "append": append,
    "rewrite": rewrite,
    "fill": fill,
    "hold": hold,
}


def kill_before_call(number: int) -> None:
    """Let the process be killed at its `number`th change of a file."""
    calls = 0

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return counted

    for name in CHANGES:
        setattr(os, name, wrap(getattr(os, name)))


def main(name: str, path: str, mode: str = "") -> None:
    if mode == "traced":
        if sys.platform == "linux":
            # Some systems let only an ancestor trace a process, unless that one allows it.
            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
        say("ready")
        os.read(0, 1)
    elif mode:
        kill_before_call(int(mode))
    ACTIONS[name](Path(path))
    say("end")
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
