"""The keeper: one per run, the only starter of its programs; outlives whoever asked for them.

`python -I -S CODE RUN_DIR LINGER_S`, where CODE is a frozen copy of this half of the package. It
holds a lock for life, records claims and exits in the journal, and hands each attempt to a warden.
Any number of clients may come and go. With nobody connected and nothing running it ends by itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback

from orchestrate.process import tree, warden
from orchestrate.process.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    MARKER,
    SOCKET,
    VERSION,
    WARDEN_LOCK,
    Frames,
    Journal,
    Message,
    encode,
    now,
    take_lock,
)

_LOCK_PATIENCE_S = 0.3
_END_PATIENCE_S = 15.0
_SEND_LIMIT = 1 << 26


class Refused(Exception):
    """A request that cannot be granted; the text goes to the client."""


class Line:
    """A connection to a client, or to a warden."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self.frames = Frames()
        self.unsent = b""

    def receive(self) -> list[Message] | None:
        """What has arrived; None when the other side is gone."""
        try:
            data = self.sock.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        try:
            return list(self.frames.feed(data)) if data else None
        except ValueError:
            return None

    def send(self, message: Message | None = None) -> bool:
        """Send as much as the other side takes now; False when it is gone or does not read."""
        if message is not None:
            self.unsent += encode(message)
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except (BlockingIOError, InterruptedError):
            return len(self.unsent) < _SEND_LIMIT
        except OSError:
            return False
        return True


class WardenLine(Line):
    """A warden, and the attempt that it watches."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        super().__init__(sock)
        self.pid = pid
        self.attempt: str | None = None
        self.watchers: set[int] = set()


class Keeper:
    """The state of the keeper's process: the journal, the clients, the wardens."""

    def __init__(self, folder: str, linger_s: float) -> None:
        self._folder = folder
        self._linger_s = linger_s
        self._journal = Journal(os.path.join(folder, JOURNAL))
        self._clients: dict[int, Line] = {}
        self._wardens: dict[int, WardenLine] = {}
        self._ending = False
        self._idle_since = now()
        self._poll = select.poll()
        self._settle_lost()
        self._wake, end = os.pipe()
        for fd in (self._wake, end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop_everything("the keeper was terminated"))
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The folder is our current one: a socket's whole path may be too long for the kernel.
        if os.path.lexists(SOCKET):
            os.unlink(SOCKET)
        self._door.bind(SOCKET)
        self._door.listen(16)
        self._door.setblocking(False)
        for fd in (self._wake, self._door.fileno()):
            self._poll.register(fd, select.POLLIN)

    def _settle_lost(self) -> None:
        """Attempts of a keeper that died: make sure that they are dead, then say so."""
        if self._journal.unsettled:
            mark = f"{MARKER}={self._journal.token}:".encode("ascii")
            if tree.end_marked(mark, _END_PATIENCE_S):
                raise Refused("processes of an earlier attempt cannot be ended")
        for attempt in sorted(self._journal.unsettled):
            self._journal.reserve(1)
            reason = "its keeper ended without recording an exit"
            self._journal.append("lost", attempt, {"reason": reason, "at": time.time()})
        self._journal.unsettled = set()

    # The loop.

    def serve(self) -> None:
        self._add_warden()
        while not self._is_done():
            idle = self._is_idle()
            for fd, _ in self._poll.poll(1000 * self._linger_s if idle else None):
                if fd in self._wardens:
                    self._hear_warden(self._wardens[fd])
                elif fd in self._clients:
                    self._hear_client(self._clients[fd])
                elif fd == self._wake:
                    os.read(self._wake, 4096)
                    self._reap()
                elif fd == self._door.fileno():
                    self._welcome()
            if not self._is_idle():
                self._idle_since = now()

    def _is_busy(self) -> bool:
        return any(line.attempt is not None for line in self._wardens.values())

    def _is_idle(self) -> bool:
        return not self._clients and not self._is_busy()

    def _is_done(self) -> bool:
        if self._ending:
            return not self._is_busy()
        return self._is_idle() and now() - self._idle_since >= self._linger_s

    def _reap(self) -> None:
        """Collect orphans of a warden that died; wardens are collected when their line closes."""
        wardens = {line.pid for line in self._wardens.values()}
        while hasattr(os, "waitid"):  # not macOS before Python 3.13, where no orphans come to us
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in wardens:
                return
            os.waitpid(found.si_pid, 0)

    # Clients.

    def _welcome(self) -> None:
        try:
            sock, _ = self._door.accept()
        except OSError:
            return
        line = Line(sock)
        self._clients[line.fd] = line
        self._poll.register(line.fd, select.POLLIN)
        hello = {"on": "hello", "version": VERSION, "pid": os.getpid(), "whole_trees": REAPS}
        self._tell(line, hello)

    def _tell(self, line: Line, message: Message | None = None) -> None:
        if not line.send(message):
            self._drop(line)
        else:
            self._poll.modify(line.fd, select.POLLIN | (select.POLLOUT if line.unsent else 0))

    def _drop(self, line: Line) -> None:
        if self._clients.pop(line.fd, None) is not None:
            self._poll.unregister(line.fd)
            line.sock.close()
            for other in self._wardens.values():
                other.watchers.discard(line.fd)

    def _hear_client(self, line: Line) -> None:
        if line.unsent:
            self._tell(line)
        messages = line.receive()
        if messages is None:
            self._drop(line)
            return
        for message in messages:
            try:
                self._obey(message, line)
            except (KeyError, TypeError):  # a client that speaks nonsense must not cost a run
                self._drop(line)
                return

    def _obey(self, message: Message, line: Line) -> None:
        op = message["op"]
        if op == "shutdown":
            self._ending = True
            if message["stop"]:
                self._stop_everything(message["reason"])
            return
        attempt = str(message["attempt"])
        if op == "start":
            self._tell(line, {"on": "start", "attempt": attempt, **self._start(message, line)})
        elif op == "watch":
            self._tell(line, {"on": "watch", "attempt": attempt, **self._watch(attempt, line)})
        elif op == "stop":
            self._stop(attempt, message["reason"], message["grace_s"])

    def _start(self, message: Message, line: Line) -> Message:
        attempt, request = message["attempt"], message["request"]
        if attempt in self._journal.claimed:
            return {"is": "known", **self._watch(attempt, line)}
        if self._ending:
            return {"is": "refused", "why": "the keeper is shutting down"}
        try:
            busy = sum(other.attempt is not None for other in self._wardens.values())
            free = next((w for w in self._wardens.values() if w.attempt is None), None)
            free = free or self._add_warden()
            self._journal.reserve(busy + 2)
            self._journal.append("claim", attempt, {"at": time.time()})
        except OSError as error:
            return {"is": "refused", "why": f"the claim cannot be recorded: {error.strerror}"}
        free.attempt = attempt
        free.watchers = {line.fd}
        request["env"][MARKER] = f"{self._journal.token}:{attempt}"
        free.sock.setblocking(True)
        with contextlib.suppress(OSError):  # it died this moment: its line will say so
            free.sock.sendall(encode({"op": "run", "request": request}))
        free.sock.setblocking(False)
        return {"is": "started"}

    def _watch(self, attempt: str, line: Line) -> Message:
        for other in self._wardens.values():
            if other.attempt == attempt:
                other.watchers.add(line.fd)
                return {"running": True}
        return {"running": False}

    def _stop(self, attempt: str, reason: str, grace_s: float) -> None:
        for line in self._wardens.values():
            if line.attempt == attempt:
                order = {"op": "stop", "attempt": attempt, "reason": reason, "grace_s": grace_s}
                line.send(order)

    def _stop_everything(self, reason: str) -> None:
        self._ending = True
        for line in self._wardens.values():
            if line.attempt is not None:
                self._stop(line.attempt, reason, 2.0)

    # Wardens.

    def _add_warden(self) -> WardenLine:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become_warden(theirs)
        theirs.close()
        line = WardenLine(ours, pid)
        self._wardens[line.fd] = line
        self._poll.register(line.fd, select.POLLIN)
        return line

    def _become_warden(self, theirs: socket.socket) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            # Being ignored would be inherited by every program.
            for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.setsid()
            # Another warden's line kept open here would hide the keeper's end from it; and the
            # keeper's lock must go with the keeper.
            keep = theirs.fileno()
            os.closerange(3, keep)
            os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
            warden.serve(theirs, self._folder)
            code = 0
        except BaseException:  # noqa: BLE001 - a forked child must not return into the keeper
            traceback.print_exc()
        finally:
            os._exit(code)

    def _hear_warden(self, line: WardenLine) -> None:
        messages = line.receive()
        if messages is None:
            self._bury(line)
            return
        for message in messages:
            self._settle(line, "exit", message["exit"])

    def _settle(self, line: WardenLine, kind: str, data: Message) -> None:
        attempt = line.attempt or ""
        self._journal.append(kind, attempt, data)
        line.attempt = None
        for fd in line.watchers & set(self._clients):
            self._tell(self._clients[fd], {"on": kind, "attempt": attempt, kind: data})
        line.watchers = set()

    def _bury(self, line: WardenLine) -> None:
        """A warden died: its orphans come to us, and nobody else's can be among them."""
        del self._wardens[line.fd]
        self._poll.unregister(line.fd)
        line.sock.close()
        os.waitpid(line.pid, 0)
        others = frozenset(other.pid for other in self._wardens.values())
        tree.end_descendants(_END_PATIENCE_S, others)
        if line.attempt is not None:
            lost = {"reason": "the process that watched it was killed", "at": time.time()}
            self._settle(line, "lost", lost)


def detach(run_dir: str) -> str:
    """Leave the session, the descriptors and the parent behind; the keeper's folder."""
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in signal.valid_signals():
        # What our starter ignored (nohup, a shell's `&`) is not our programs' business.
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for name in ("SIGINT", "SIGHUP", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    folder = os.path.join(os.path.realpath(run_dir), FOLDER)
    os.chdir(folder)
    return folder


def begin(folder: str, linger_s: float) -> Keeper:
    """Take the lock and what an earlier keeper left."""
    if take_lock(KEEPER_LOCK, patience_s=_LOCK_PATIENCE_S) is None:
        raise Refused("another keeper has this run")
    # Wardens of a killed keeper end their programs first; until then nothing may start.
    past = take_lock(WARDEN_LOCK, patience_s=_END_PATIENCE_S)
    if past is None:
        raise Refused("processes of an earlier attempt cannot be ended")
    os.close(past)
    return Keeper(folder, linger_s)


REAPS = False


def main() -> None:
    """Tell the starter on stdout `ready` or why not, then serve."""
    global REAPS  # noqa: PLW0603 - a fact about this process, set once
    folder = detach(sys.argv[1])
    # All of it is in memory now.
    shutil.rmtree(sys.argv[0], ignore_errors=True)
    REAPS = tree.become_subreaper()
    try:
        keeper = begin(folder, float(sys.argv[2]))
    except (Refused, OSError) as error:
        os.write(1, f"refused {error}".encode("utf-8", "replace"))
        sys.exit(1)
    os.write(1, b"ready")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    # What is here now stays: children need not copy it, and there is next to no garbage to come.
    gc.collect()
    gc.freeze()
    keeper.serve()
    # Free the lock only by ending: what is left of us must be nothing.
    os._exit(0)
