"""The one attempt that the keeper watches itself, without a warden, if it has a guardian.

Another one may be prepared to follow it: it takes its place if the first has ended well.
"""

from __future__ import annotations

import select

from orchestrate.execute.keeper.protocol import text_of
from orchestrate.execute.keeper.standard import socket
from orchestrate.execute.keeper.watch import Watch
from orchestrate.execute.keeper.watch_loop import WatchHost

_GUARDIAN_PATIENCE_MS = 100


class OwnAttempt:
    """What a warden's connection is for other attempts: takes one, and knows who watches it."""

    def __init__(self, host: WatchHost, guardian: socket.socket) -> None:
        self.attempt = ""
        self.watchers: set[int] = set()
        # Has its last attempt ended well?
        self.is_success = False
        # What is to follow it, and the connection that has asked for that.
        self.follower = ""
        self.follower_fd = -1
        self._host = host
        self._watch: Watch | None = None
        self._next: Watch | None = None
        self._guardian = guardian
        # None until the guardian has answered.
        self._is_guarded: bool | None = None
        host.poll.register(guardian.fileno(), select.POLLIN)
        try:
            guardian.send(b"!")
        except OSError:
            return  # its end will be heard

    def is_guarded(self) -> bool:
        """Is the guardian there? Right after our start its answer may still be on its way."""
        if self._is_guarded is None:
            answer = select.poll()
            answer.register(self._guardian.fileno(), select.POLLIN)
            if answer.poll(_GUARDIAN_PATIENCE_MS):
                self._hear_guardian()
        return bool(self._is_guarded)

    def _hear_guardian(self) -> None:
        try:
            self._is_guarded = bool(self._guardian.recv(1, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return
        except OSError:
            self._is_guarded = False
        if not self._is_guarded:
            self._host.poll.unregister(self._guardian.fileno())

    @property
    def pid(self) -> int:
        return self._watch.pid if self._watch else 0

    def prepare(self, attempt: str, request: bytes) -> None:
        self._watch = Watch(self._host, attempt, request)
        self.attempt = attempt

    def prepare_follower(self, attempt: str, request: bytes, fd: int) -> None:
        """Nothing of it shows until it takes the place of the attempt that runs."""
        self._next = Watch(self._host, attempt, request, is_follower=True)
        self.follower, self.follower_fd = attempt, fd

    def drop_follower(self) -> None:
        if self._next:
            self._next.drop()
            self._next = None
        self.follower, self.follower_fd = "", -1

    def let_follow(self) -> None:
        """The attempt has ended, and the claim of the other one is about to be durable."""
        self._watch, self._next = self._next, None
        self.attempt, self.watchers = self.follower, {self.follower_fd}
        self.follower, self.follower_fd = "", -1

    def go(self) -> None:
        if self._watch:
            self._watch.start()

    def drop(self) -> None:
        if self._watch:
            self._watch.drop()
            self._watch = None

    def stop(self, reason: bytes, grace_s: float) -> None:
        self.drop_follower()
        if self._watch:
            self._watch.stop(text_of(reason), grace_s)

    def renew(self, until: float) -> None:
        if self._watch:
            self._watch.renew(until)

    def hears(self, fd: int) -> bool:
        """Take care of a descriptor that is ready, if it is one of ours."""
        if self._watch and fd in self._watch.fds:
            self._watch.hear(fd)
        elif fd == self._guardian.fileno():
            self._hear_guardian()
        else:
            return False
        return True

    def collect(self) -> None:
        if self._watch:
            self._watch.collect()

    def sleep_ms(self) -> float | None:
        return self._watch.sleep_ms() if self._watch else None

    def take_record(self) -> bytes | None:
        """To be called in every round: its exit record, once, when it has ended."""
        if self._watch is None:
            return None
        self._watch.look_at_clock()
        record = self._watch.record
        if record is not None:
            self.is_success = self._watch.is_success
            self._watch = None
        return record
