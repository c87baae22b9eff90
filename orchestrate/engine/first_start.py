"""Lets a program start alone where its first start makes something that two at once would spoil.

OpenCode makes and migrates a database in a new home: of four first starts at once some fail. The
lock holds over all runs of the user, and a note beside it says that the first start is over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from orchestrate.digest import sha256_of
from orchestrate.engine.faults import Halted
from orchestrate.state.locks import Lock, LockHeldError, take, user_state_folder


class FirstStart:
    """The turn of one start; nothing to wait for where the first one is over."""

    def __init__(self, environment: Mapping[str, str], is_useless: Callable[[], object]) -> None:
        self._environment = environment
        self._is_useless = is_useless
        self._lock: Lock | None = None
        self._made = self._done = Path()

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def begin(self, made: Path | None) -> None:
        """Wait until no other first start is under way; then this is it, unless it is over.

        `Halted` if the start is of no more use meanwhile.
        """
        if made is None:
            return
        folder = user_state_folder(self._environment) / "first-starts"
        key = sha256_of(str(made).encode("utf-8", "surrogateescape"))[:32]
        self._made, self._done = made, folder / f"{key}.done"
        # In this order: a first start takes the note away before it makes anything.
        if made.exists() and self._done.exists():
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while self._lock is None:
            if self._is_useless():
                raise Halted
            # A refusal has waited a moment.
            with suppress(LockHeldError):
                self._lock = take(folder / f"{key}.lock", f"the first start for {made}", sys.argv)
        if made.exists():
            self.end()
        else:
            # A note of an earlier home would let others in as soon as this start makes the file.
            self._done.unlink(missing_ok=True)

    def end(self) -> None:
        """The program has begun to speak, or has ended: others may start."""
        if self._lock is None:
            return
        if self._made.exists():
            self._done.touch(mode=0o600)
        self._lock.release()
        self._lock = None
