"""Starts `orchestrate` by forking a process that has everything imported: ten times as quick.

Read from standard input, one JSON line each: a command to start, then `go`. Written to standard
output: its process id as soon as it stands still before its first instruction, and later how it
ended. What runs is the command's own `main`, in a process of its own, or in several at once.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import mmap
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

# Functions of `os` that change files or talk to the keeper; where nobody may trace, a process is
# killed in front of these instead of in front of its system calls.
CHANGES = (
    "open", "write", "fsync", "fdatasync", "close", "link", "rename", "unlink", "ftruncate",
    "mkdir", "posix_spawn",
)  # fmt: skip
LONGEST_S = 40.0
_ALLOW_ANY_TRACER = 0x59616D61


def import_everything() -> None:
    """All of the package but what only the keeper's own process is."""
    import orchestrate

    for module in pkgutil.walk_packages(orchestrate.__path__, "orchestrate."):
        if module.name not in ("orchestrate.__main__", "orchestrate.execute.keeper.boot"):
            importlib.import_module(module.name)
    for name in ("filelock", "ruamel.yaml", "uuid", "hashlib", "select"):
        importlib.import_module(name)


def kill_before_change(number: int, counter: mmap.mmap) -> None:
    """Let this process be killed in front of its `number`th change; the launcher can count too."""

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            seen = int.from_bytes(counter[:8], "little") + 1
            counter[:8] = seen.to_bytes(8, "little")
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


def let_the_clock_jump(path: str) -> None:
    """Add to the wall clock what a file says at the moment; the test writes it."""
    import time

    real = time.time

    def jumping() -> float:
        with open(path, encoding="ascii") as file:
            return real() + float(file.read() or 0)

    time.time = jumping


def become(order: dict[str, Any], counter: mmap.mmap, here: int, gate: int) -> NoReturn:
    """Say that we are here, and turn into the command once the gate opens."""
    code = 70
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        out, err = (os.open(order[name], flags, 0o600) for name in ("stdout", "stderr"))
        for standard, descriptor in enumerate((nothing, out, err)):
            os.dup2(descriptor, standard)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.argv = ["orchestrate", *order["arguments"]]
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_ALLOW_ANY_TRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
        os.write(here, b"!")
        os.read(gate, 1)
        os.closerange(3, 64)
        if order["clock"]:
            let_the_clock_jump(order["clock"])
        if order["die_before"]:
            kill_before_change(order["die_before"], counter)
        from orchestrate.cli.main import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:  # noqa: BLE001 - a forked child must not return into its parent
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def say(**fields: Any) -> None:
    os.write(1, json.dumps(fields).encode() + b"\n")


def await_end(pid: int) -> None:
    """A command that hangs is killed by SIGABRT, which no kill of the tests uses."""
    handle = os.pidfd_open(pid)
    if not select.select([handle], [], [], LONGEST_S)[0]:
        os.kill(pid, signal.SIGABRT)
    os.close(handle)


def main() -> None:
    import_everything()
    gc.collect()
    gc.freeze()
    say(ready=True)
    for line in sys.stdin:
        counter = mmap.mmap(-1, 8)
        here, here_end = os.pipe()
        gate, gate_end = os.pipe()
        order = json.loads(line)
        pids = []
        for _ in range(order["times"]):
            pids.append(os.fork())
            if pids[-1] == 0:
                os.close(gate_end)
                become(order, counter, here_end, gate)
        os.close(here_end)
        os.close(gate)
        for _ in pids:
            os.read(here, 1)
        say(pid=pids[0])
        sys.stdin.readline()
        # By closing it, not by writing: whoever may have been killed meanwhile.
        os.close(gate_end)
        os.close(here)
        codes = []
        for pid in pids:
            await_end(pid)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        say(codes=codes, changes=int.from_bytes(counter[:8], "little"))


if __name__ == "__main__":
    main()
