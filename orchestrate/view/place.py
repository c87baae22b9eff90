"""Where the user said that the runs are, which every command that we advise repeats."""

from __future__ import annotations

import os
import shlex

from orchestrate.record import record


@record
class Place:
    """The folders as they were given; None where nothing was said."""

    working_dir: str | None = None
    state_dir: str | None = None

    def command(self, verb: str, *words: str) -> str:
        """A command line that can be copied as it is."""
        parts = ["orchestrate", verb, *words]
        if self.working_dir is not None:
            parts += ["--working-dir", self.working_dir]
        if self.state_dir is not None:
            parts += ["--state-dir", str(self.state_dir)]
        return shlex.join(parts)

    def absolute(self) -> Place:
        """The same for readers elsewhere, whose shell stands in another folder."""
        given = (self.working_dir, self.state_dir)
        return Place(*(None if path is None else os.path.abspath(path) for path in given))
