"""A warden watches one attempt at a time: starts it, captures it, times it out, ends its tree.

It is a subreaper, so that whatever the program leaves behind becomes the warden's child and can be
told from the programs of other wardens. It ends when its keeper does, and its tree before it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import stat
import time
from typing import Any

from orchestrate.process import tree
from orchestrate.process.launch import StartFault, launch
from orchestrate.process.masking import Mask, Stream
from orchestrate.process.protocol import (
    INLINE_LIMIT,
    WARDEN_LOCK,
    Frames,
    Message,
    bytes_of,
    encode,
    now,
    sync,
    take_lock,
    text_of,
    write_all,
)

_CHUNK = 1 << 16
# Timeouts go on while the machine sleeps, but poll's clock may not: look at least this often.
_LONGEST_SLEEP_S = 30.0
_KILL_PATIENCE_S = 10.0


class KeeperGone(Exception):
    """The keeper has ended: end the tree and follow it."""


class Sink:
    """One output stream on its way from a pipe through the mask into files."""

    def __init__(self, fd: int, path: str, tee: int | None, mask: Mask) -> None:
        self.fd = fd
        self.is_open = True
        self.size = 0
        self.fault = ""
        self._path = path
        self._file: int | None = None
        self._tee = tee
        self._stream = Stream(mask)
        self._start = b""

    def pump(self) -> bool:
        """Move what has arrived, at most a chunk; False when nothing is there now."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._keep(self._stream.feed(data))
        else:
            self.close_pipe()
        return bool(data)

    def close_pipe(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.fd)

    def finish(self) -> str | None:
        """Make the output durable; as text if it is short enough for the exit record."""
        self._keep(self._stream.finish())
        is_short = self.size <= INLINE_LIMIT
        for fd, needs_sync in ((self._file, not is_short), (self._tee, True)):
            if fd is None:
                continue
            try:
                if needs_sync:
                    sync(fd)
            except OSError as error:
                self._fail(error)
            os.close(fd)
        return text_of(self._start) if is_short else None

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if len(self._start) <= INLINE_LIMIT:
            self._start += data[: INLINE_LIMIT + 1]
        if self.fault:
            return  # go on reading all the same: a full disk must not hang the program
        try:
            if self._file is None:
                self._file = os.open(bytes_of(self._path), _OUTPUT_FLAGS, 0o600)
            write_all(self._file, data)
            if self._tee is not None:
                write_all(self._tee, data)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.fault = self.fault or os.strerror(error.errno or errno.EIO)


_OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def open_tee(path: str | None) -> int | None:
    """The author's output file, opened before anything starts; a FIFO or device is refused."""
    if path is None:
        return None
    try:
        fd = os.open(bytes_of(path), _OUTPUT_FLAGS | os.O_NONBLOCK, 0o666)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    except (OSError, ValueError) as error:
        raise StartFault("output_file", path, error) from None


class Watch:
    """One attempt from its start to its exit record."""

    def __init__(self, warden: Warden, request: Message) -> None:
        self._warden = warden
        self._request = request
        self._mask = Mask(request["secrets"])
        self._timed_out = False
        self._stopped = ""
        self._kill_at: float | None = None
        self._fault: StartFault | None = None
        self._pid = 0
        self._collected: tuple[int, Any] | None = None
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        tee = None
        self._started_at = time.time()
        self._began = now()
        try:
            tee = open_tee(request["tee_path"])
            self._pid = launch(request, out_end, err_end, warden.folder)
        except StartFault as fault:
            self._fault = fault
        finally:
            os.close(out_end)
            os.close(err_end)
        for fd in (out, err):
            os.set_blocking(fd, False)
        self._out = Sink(out, request["stdout_path"], tee, self._mask)
        self._err = Sink(err, request["stderr_path"], None, self._mask)
        timeout = request["timeout_s"]
        self._deadline = None if timeout is None else self._began + timeout

    def run(self) -> Message:
        """Wait for the end; the exit record."""
        if self._fault is not None:
            return self._record(self._fault.code, 0, 0)
        try:
            self._wait()
        except KeeperGone:
            tree.signal_tree(self._pid, signal.SIGKILL)
            raise
        return self._finish()

    def _wait(self) -> None:
        poll = select.poll()
        for fd in (self._warden.control.fileno(), self._warden.wake, self._out.fd, self._err.fd):
            poll.register(fd, select.POLLIN)
        sinks = {sink.fd: sink for sink in (self._out, self._err)}
        self._obey()
        while not self._has_ended():
            for fd, _ in poll.poll(self._sleep_ms()):
                if fd in sinks:
                    sinks[fd].pump()
                    if not sinks[fd].is_open:
                        poll.unregister(fd)
                elif fd == self._warden.wake:
                    self._warden.drain_wake()
                else:
                    self._warden.receive()
                    self._obey()
            self._check_clock()

    def _obey(self) -> None:
        orders = self._warden.orders
        while orders:
            order = orders.pop(0)
            if order["op"] == "stop" and order["attempt"] == self._request["attempt"]:
                self._stop(str(order["reason"]), float(order["grace_s"]))

    def _stop(self, reason: str, grace_s: float) -> None:
        """Ask the tree to end; a second, more impatient request shortens the first one's grace."""
        if self._kill_at is None:
            self._stopped = reason
            tree.signal_tree(self._pid, signal.SIGTERM)
            # A stopped process cannot obey.
            tree.signal_tree(self._pid, signal.SIGCONT)
        until = now() + grace_s
        self._kill_at = until if self._kill_at is None else min(self._kill_at, until)

    def _check_clock(self) -> None:
        if self._deadline is not None and self._kill_at is None and now() >= self._deadline:
            self._timed_out = True
            self._stop("", float(self._request["grace_s"]))
        if self._kill_at is not None and now() >= self._kill_at:
            tree.signal_tree(self._pid, signal.SIGKILL)
            self._kill_at = now() + 0.05

    def _sleep_ms(self) -> float:
        due = self._kill_at if self._kill_at is not None else self._deadline
        return 1000 * min(_LONGEST_SLEEP_S, max(0.0, (due or 1e12) - now()) + 0.0005)

    def _has_ended(self) -> bool:
        """Has the program itself ended? Orphans of its tree that ended are collected here."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13; no orphans come to us there
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            self._collected = (status, usage) if pid else None
            return bool(pid)
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return False
            if found.si_pid == self._pid:
                return True
            os.waitpid(found.si_pid, 0)

    def _finish(self) -> Message:
        # It is not collected yet, so its number, the group's, cannot be anybody else's. (macOS
        # says EPERM for a group of zombies.)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        status, usage = self._collected or os.wait4(self._pid, 0)[1:]
        survivors = tree.end_descendants(_KILL_PATIENCE_S)
        code = os.waitstatus_to_exitcode(status)
        return self._record(code, _in_kb(usage.ru_maxrss), survivors)

    def _record(self, code: int, max_rss_kb: int, survivors: int) -> Message:
        duration = now() - self._began
        for sink in (self._out, self._err):
            while sink.is_open and sink.pump():
                pass
            sink.close_pipe()  # somebody outside the tree may hold the other end
        out, err = self._out.finish(), self._err.finish()
        return {
            "code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "timed_out": self._timed_out,
            "stopped": self._masked(self._stopped)[:500],
            "start_error": self._masked(str(self._fault or ""))[:1000],
            "output_error": self._out.fault or self._err.fault,
            "pid": self._pid,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "duration_s": round(duration, 6),
            "stdout_bytes": self._out.size,
            "stderr_bytes": self._err.size,
            "stdout": out,
            "stderr": err,
            "max_rss_kb": max_rss_kb,
            "survivors": survivors,
        }

    def _masked(self, text: str) -> str:
        return text_of(self._mask.apply(bytes_of(text)))


def _in_kb(max_rss: int) -> int:
    return max_rss // 1024 if os.uname().sysname == "Darwin" else max_rss


class Warden:
    """The process itself: its line to the keeper and what wakes it."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self.control = control
        self.folder = folder
        # What arrived and was not looked at yet: an order to stop may come with that to run.
        self.orders: list[Message] = []
        self._frames = Frames()
        self._lock = take_lock(os.path.join(folder, WARDEN_LOCK), shared=True, patience_s=5.0)
        if self._lock is None:
            raise OSError(errno.EAGAIN, "the wardens' lock is held")
        tree.become_subreaper()
        self.wake, wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)

    def receive(self) -> None:
        try:
            data = self.control.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise KeeperGone
        self.orders += self._frames.feed(data)

    def serve(self) -> None:
        """One attempt after the other until the keeper is gone."""
        try:
            while True:
                while not self.orders:
                    self.receive()
                order = self.orders.pop(0)
                if order["op"] == "run":
                    ended = Watch(self, order["request"]).run()
                    self.control.sendall(encode({"exit": ended}))
        except (KeeperGone, ConnectionError):
            tree.end_descendants(3600.0)


def serve(control: socket.socket, folder: str) -> None:
    Warden(control, folder).serve()
