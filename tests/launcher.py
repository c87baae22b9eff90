"""Starts `orchestrate` by forking a process that has everything imported: ten times as quick.

It is given a socket. Each message there has descriptors: an order as JSON, the three standard
streams of the command, and where to write how it goes: its process id once it is ready to begin,
and its wait status when it has ended. What runs is the command's own `main`, in its own process.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import mmap
import os
import pkgutil
import resource
import select
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, NoReturn

# Functions of `os` that change files or talk to the keeper; where nobody may trace, a process is
# killed in front of these instead of in front of its system calls.
CHANGES = (
    "open", "write", "fsync", "fdatasync", "close", "link", "rename", "unlink", "ftruncate",
    "mkdir", "posix_spawn",
)  # fmt: skip
_ALLOW_ANY_TRACER = 0x59616D61
_MOST_DESCRIPTORS = 8


def import_everything() -> None:
    """All of the package but what only the keeper's own process is."""
    import orchestrate

    for module in pkgutil.walk_packages(orchestrate.__path__, "orchestrate."):
        if module.name not in ("orchestrate.__main__", "orchestrate.execute.keeper.boot"):
            importlib.import_module(module.name)
    used_late = ("concurrent.futures.thread", "uuid", "random", "hashlib", "select")
    for name in (*used_late, "rich.live", "ruamel.yaml"):
        importlib.import_module(name)


def kill_before_change(number: int, counter: mmap.mmap) -> None:
    """Let this process be killed in front of its `number`th change; a test may only count them."""

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
    real = time.time

    def jumping() -> float:
        with open(path, encoding="ascii") as file:
            return real() + float(file.read() or 0)

    time.time = jumping


def stream(number: int) -> TextIOWrapper:
    """As the interpreter makes them."""
    is_plain = number > 0 and bool(os.environ.get("PYTHONUNBUFFERED"))
    mode = "wb" if number else "rb"
    file: Any = open(number, mode, 0 if is_plain else -1, closefd=False)  # noqa: SIM115
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    errors = "backslashreplace" if number == 2 else "strict"
    by_line = number == 2 or os.isatty(number)
    return TextIOWrapper(file, encoding, errors, line_buffering=by_line, write_through=is_plain)


def see_mounts_of(pid: int) -> None:
    """As `nsenter` does; who is not root has made a space of users for it, too."""
    for kind in ("mnt",) if os.geteuid() == 0 else ("user", "mnt"):
        space = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.setns(space, 0) == 0, os.strerror(ctypes.get_errno())
        os.close(space)


def look_started(order: dict[str, Any], standard: list[int]) -> None:
    """The folder, environment, streams, session and signals of a process that was just started."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    if order["is_leader"]:
        os.setsid()
    if order["at_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # As before the interpreter is up: until `main` begins, Ctrl-C ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in order["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    if order.get("mounts_of"):
        see_mounts_of(order["mounts_of"])
    if order.get("file_limit"):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"], hard))
    for place, value in order["changed"].items():
        module, _, name = place.partition(":")
        setattr(sys.modules[module], name, value)
    os.chdir(order["cwd"])
    os.umask(order["umask"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.argv = order["argv"]
    sys.stdin, sys.stdout, sys.stderr = map(stream, range(3))


def become(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Say that we are ready, and turn into the command once the gate opens, if there is one."""
    code = 70
    standard, status, more = descriptors[:3], descriptors[3], descriptors[4:]
    try:
        counter = mmap.mmap(more[1], 8) if len(more) > 1 else mmap.mmap(-1, 8)
        look_started(order, standard)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_ALLOW_ANY_TRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
        os.write(status, b"%d\n" % os.getpid())
        if more:
            os.read(more[0], 1)
        os.closerange(3, 256)
        if order.get("clock"):
            let_the_clock_jump(order["clock"])
        if order.get("die_before"):
            kill_before_change(order["die_before"], counter)
        code = run_to_the_end()
    except BaseException:  # noqa: BLE001 - a forked child must not return into its parent
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def run_to_the_end() -> int:
    """The command's `main`, and what an interpreter does afterwards."""
    from orchestrate.__main__ import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its terminal is gone
            output.flush()
    return code


class Launcher:
    """The commands that live, each by the handle of its process."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._living: dict[int, tuple[int, int]] = {}

    def serve(self) -> None:
        """Until the tests are over: their end of the socket is closed then."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._living:
                    self._report(descriptor)
                elif not self._start():
                    return

    def _start(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._orders, 1, _MOST_DESCRIPTORS)
        if not message:
            return False
        with open(descriptors.pop(0), encoding="utf-8") as file:
            order = json.load(file)
        pid = os.fork()
        if pid == 0:
            become(order, descriptors)
        status = descriptors.pop(3)
        for descriptor in descriptors:
            os.close(descriptor)
        handle = os.pidfd_open(pid)
        self._living[handle] = pid, status
        self._poll.register(handle, select.POLLIN)
        return True

    def _report(self, handle: int) -> None:
        pid, status = self._living.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        ended = os.waitpid(pid, 0)[1]
        with suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(status, b"%d\n" % ended)
        os.close(status)


def main() -> None:
    import_everything()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        Launcher(orders).serve()


if __name__ == "__main__":
    main()
