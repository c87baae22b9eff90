"""A process from which attempts are watched, a warden's or the keeper's own: what wakes it, and
what it need not make anew for each attempt."""

from __future__ import annotations

import os
import select

from orchestrate.execute.keeper.capture import make_pipe
from orchestrate.execute.keeper.protocol import MARKER, WITHIN, unpack
from orchestrate.execute.keeper.standard import signal
from orchestrate.execute.masking import Mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_WITHIN = WITHIN.encode("ascii")


class WatchHost:
    """What a process watches attempts with; one per process, as signals have one descriptor."""

    def __init__(
        self, folder: str, token: str, spared: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        self.folder = folder
        self.token = token
        # Children of this process that belong to no attempt.
        self.spared = spared
        self.poll = select.poll()
        self.wake, wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        self.poll.register(self.wake, select.POLLIN)
        self.listen_for_children(False)
        self._pipes: list[tuple[int, int]] = []
        # Steps of a run have mostly the same secrets and environment.
        self._mask = (b"", Mask(()))
        self._environment: tuple[bytes, dict[bytes, bytes]] = (b"", {})

    def listen_for_children(self, listens: bool) -> None:
        """Let the end of any child, orphans too, make `wake` readable."""
        signal.signal(signal.SIGCHLD, do_nothing if listens else signal.SIG_DFL)

    def read_signals(self) -> bytes:
        """The numbers of the signals that made `wake` readable."""
        try:
            return os.read(self.wake, 4096)
        except BlockingIOError:
            return b""

    def take_pipe(self) -> tuple[int, int]:
        return self._pipes.pop() if self._pipes else make_pipe()

    def get_ready(self) -> None:
        """For the next attempt, while no client waits."""
        os.chdir("/")  # hold no directory
        while len(self._pipes) < 2:
            self._pipes.append(make_pipe())

    def mask_of(self, secrets: bytes) -> Mask:
        if secrets != self._mask[0]:
            self._mask = (secrets, Mask(unpack(secrets)))
        return self._mask[1]

    def environment_of(self, packed: bytes, attempt: str) -> dict[bytes, bytes]:
        """The environment that was asked for, and the mark by which a lost program is found."""
        if packed != self._environment[0]:
            fields = unpack(packed)
            environment = dict(zip(fields[::2], fields[1::2], strict=True))
            environment.pop(_WITHIN, None)
            # The runs that the keeper itself was started in, and is ended with.
            if _WITHIN in os.environb:
                environment[_WITHIN] = os.environb[_WITHIN]
            self._environment = (packed, environment)
        return {**self._environment[1], MARKER.encode("ascii"): mark_of(self.token, attempt)}


def mark_of(token: str, attempt: str) -> bytes:
    return f"{token}:{attempt}".encode("ascii")


def do_nothing(*_: object) -> None:
    """A signal's handler, for signals that only wake a poll."""
