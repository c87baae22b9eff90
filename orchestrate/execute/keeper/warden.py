"""A warden watches one attempt at a time, in a process of its own.

It is a subreaper, so that whatever the program leaves behind becomes the warden's child and can be
told from the programs of other wardens. It ends when its keeper does, and its tree before it.
"""

from __future__ import annotations

import errno
import os
import select
import sys

from orchestrate.execute.keeper import tree
from orchestrate.execute.keeper.protocol import WARDEN_LOCK, Frames, encode, take_lock, text_of
from orchestrate.execute.keeper.standard import signal, socket
from orchestrate.execute.keeper.watch import Watch
from orchestrate.execute.keeper.watch_loop import WatchHost, do_nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class KeeperGone(Exception):
    """The keeper has ended: end the tree and follow it."""


class Warden:
    """The process: its line to the keeper, and the attempt that it has, if any."""

    def __init__(self, control: socket.socket, folder: str, token: str) -> None:
        self._control = control
        self._frames = Frames()
        self._lock = take_lock(os.path.join(folder, WARDEN_LOCK), shared=True, patience_s=5.0)
        if self._lock is None:
            raise OSError(errno.EAGAIN, "the wardens' lock is held")
        tree.become_subreaper()
        self._host = WatchHost(folder, token)
        self._host.poll.register(control.fileno(), select.POLLIN)
        self._attempt = ""
        self._watch: Watch | None = None

    def serve(self) -> None:
        """One attempt after the other until the keeper is gone."""
        try:
            while True:
                watch = self._watch
                for fd, _ in self._host.poll.poll(watch.sleep_ms() if watch else None):
                    if fd == self._control.fileno():
                        self._hear_keeper()
                    elif fd == self._host.wake:
                        self._host.read_signals()
                        if watch:
                            watch.collect()
                    elif watch and fd in watch.fds:
                        watch.hear(fd)
                self._look_after_attempt()
        except (KeeperGone, ConnectionError):
            if self._watch:
                self._watch.kill()
            tree.end_descendants(3600.0)

    def _hear_keeper(self) -> None:
        data = self._control.recv(1 << 16)
        if not data:
            raise KeeperGone
        for words, body in self._frames.feed(data):
            if words[0] == "prepare":
                self._attempt = words[1]
                self._watch = Watch(self._host, words[1], body)
            elif self._watch and words[0] == "go":
                self._watch.start()
            elif self._watch and words[0] == "drop":
                self._watch.drop()
                self._watch = None
            elif self._watch and words[0] == "stop" and words[1] == self._attempt:
                self._watch.stop(text_of(body), float(words[2]))
            elif self._watch and words[0] == "renew" and words[1] == self._attempt:
                self._watch.renew(float(words[2]))

    def _look_after_attempt(self) -> None:
        if self._watch is None:
            return
        self._watch.look_at_clock()
        if self._watch.record is not None:
            self._control.sendall(encode(f"exit {self._attempt}", self._watch.record))
            self._watch = None
            self._host.get_ready()


def become_warden(control: socket.socket, folder: str, token: str) -> NoReturn:
    """Go on as a warden, in a process that the keeper has just forked."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        # Every program would inherit an ignored signal. A signal to all processes must not end
        # the warden, which ends the program and reports how.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, do_nothing)
        os.setsid()
        # A connection to another warden would hide the keeper's end from it if it stayed open
        # here; and the keeper's lock must go with the keeper.
        keep = control.fileno()
        os.closerange(3, keep)
        os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
        Warden(control, folder, token).serve()
        code = 0
    except BaseException:  # noqa: BLE001 - a forked child must not return into the keeper
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
