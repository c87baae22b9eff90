"""`logs/orchestrator.log`: what the orchestrator did, a line each, for people and `grep`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from orchestrate.regex import regex
from orchestrate.state.times import timestamp

Level = Literal["debug", "info", "warn", "error"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warn", "error")


class Logbook:
    """Appends lines, their secrets masked; a log that cannot be written never stops a run."""

    def __init__(
        self, path: Path, level: Level, mask: Callable[[str], str], trace: str = ""
    ) -> None:
        self._level = LEVELS.index(level)
        self._mask = mask
        self._trace = f" trace={trace}" if trace else ""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError:
            self._descriptor = -1

    def wants(self, level: Level) -> bool:
        return LEVELS.index(level) >= self._level and self._descriptor >= 0

    def write(self, level: Level, text: str, fields: Mapping[str, Any] | None = None) -> None:
        if not self.wants(level):
            return
        shown = "".join(f" {name}={_shown(value)}" for name, value in (fields or {}).items())
        line = self._mask(f"{text}{shown}{self._trace}").replace("\n", "\\n")
        stamped = f"{timestamp(time.time())} {level.upper():5} {line}\n"
        try:
            os.write(self._descriptor, stamped.encode("utf-8", "backslashreplace"))
        except OSError:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _shown(value: Any) -> str:
    text = str(value)
    return text if text and not _AWKWARD.search(text) else repr(text)


_AWKWARD = regex('[ "=\n]')
