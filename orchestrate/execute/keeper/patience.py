"""How long a keeper is waited for without a word, and when the waiting is given up.

Everything that waits for a keeper (its socket, its lock, its start) asks here. A keeper that lives
answers at once, whatever it runs; one that does not was stopped (SIGSTOP), or its machine is short
of everything. After five seconds that is said, once; who is to stop leaves it at that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from orchestrate.errors import KeeperSilent, completed
from orchestrate.execute.base import SAY_AFTER_S
from orchestrate.execute.keeper.protocol import now

# How long the keeper may be quiet, also beside a program that runs for hours, before it is asked
# whether it is there: so soon that a silent one is reported in time.
_ASK_AFTER_S = 2.0
_LOOK_EVERY_S = 0.25


def tell_on_stderr(words: str) -> None:
    sys.stderr.write(words)
    sys.stderr.flush()


class Patience:
    """One per connection or start. `hurry_s` gives the seconds that are left for an answer, or None
    if there is no hurry."""

    def __init__(
        self,
        run_id: str,
        hurry_s: Callable[[], float | None] = lambda: None,
        tell: Callable[[str], None] = tell_on_stderr,
    ) -> None:
        self.pid = 0
        self.hurry_s = hurry_s
        self._run_id = run_id
        self._tell = tell
        self._quiet_since = now()
        self._asked_at: float | None = None
        self._has_told = False

    def begin(self) -> None:
        """From here on an answer is waited for."""
        if self._asked_at is None:
            self._quiet_since = now()

    def heard(self) -> None:
        """It has said something."""
        self._quiet_since = now()
        self._asked_at = None
        if self._has_told:
            self._has_told = False
            self._tell("orchestrate: the run's keeper answers again\n")

    def look(self, ask: Callable[[], None] = lambda: None) -> float:
        """The seconds until the next look; `KeeperSilent` if the waiting is to be given up."""
        time_now = now()
        hurry_s = self.hurry_s()
        quiet_s = time_now - self._quiet_since
        if self._asked_at is None:
            wanted = _ASK_AFTER_S if hurry_s is None else min(hurry_s / 2, _ASK_AFTER_S)
            if quiet_s < wanted:
                return wanted - quiet_s if hurry_s is None else _LOOK_EVERY_S
            self._asked_at = time_now
            ask()
        waited_s = time_now - self._asked_at
        if not self._has_told and quiet_s >= SAY_AFTER_S:
            self._has_told = True
            self._tell(f"orchestrate: {self._words()}\n  hint: {completed(self._way_out())}\n")
        if hurry_s is not None and (self._has_told or waited_s >= hurry_s):
            raise KeeperSilent(self._words(), self._way_out())
        return _LOOK_EVERY_S

    def _words(self) -> str:
        who = f"the run's keeper (process {self.pid})" if self.pid else "the run's keeper"
        return f"waiting for {who}, which does not answer; it may have been stopped"

    def _way_out(self) -> str:
        go_on = f"let it go on: kill -CONT {self.pid}; " if self.pid else ""
        return f"{go_on}Ctrl-C stops waiting, and orchestrate resume {self._run_id} goes on later"
