"""Where the user said that the runs are, which every command that we advise repeats."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from orchestrate.record import record
from orchestrate.regex import regex

# A command about a run, with flags that take no value.
_ADVISED = regex(r"\borchestrate [a-z-]+ \d{8}T\d{6}Z-[a-z0-9]{6}(?: --[a-z-]+)*")


@record
class Place:
    """The folders as they were given; None where nothing was said."""

    working_dir: str | None = None
    state_dir: str | None = None

    def command(self, verb: str, *words: str) -> str:
        """A command line that can be copied as it is."""
        return shlex.join(["orchestrate", verb, *words, *self.flags])

    @property
    def options(self) -> dict[str, str | None]:
        """As the options of a command are named."""
        return {"working_dir": self.working_dir, "state_dir": self.state_dir}

    @property
    def flags(self) -> list[str]:
        given = ((f"--{name.replace('_', '-')}", path) for name, path in self.options.items())
        return [word for flag, path in given if path is not None for word in (flag, path)]

    def completed(self, hint: str) -> str:
        """A hint of a layer that knows of no folders, with commands that can be copied."""
        flags = shlex.join(self.flags)
        if not flags or flags in hint:
            return hint
        return _ADVISED.sub(lambda command: f"{command[0]} {flags}", hint)

    def absolute(self) -> Place:
        """The same for readers elsewhere, whose shell stands in another folder."""
        given = (self.working_dir, self.state_dir)
        return Place(*(None if path is None else os.path.abspath(path) for path in given))


def place_in(words: Iterable[str]) -> Place:
    """What a command line says of the folders, whatever else is wrong with it."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, is_joined, value = word.partition("=")
        if name in ("--working-dir", "--state-dir"):
            found[name] = value if is_joined else next(rest, "")
    return Place(found.get("--working-dir"), found.get("--state-dir"))
