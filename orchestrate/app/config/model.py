"""The settings that are not written in a recipe, and where each was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate.record import field, record

FILE = Path(".orchestrate") / "config.yaml"


@record
class Origin:
    """Where a setting was written: a file with a line, or a variable of the environment."""

    place: str
    line: int | None = None

    def __str__(self) -> str:
        return self.place if self.line is None else f"{self.place}:{self.line}"


@record
class Config:
    """Values by name, and where each comes from: `origins` has `agents.codex.path` and the like."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)

    def get(self, name: str, given: Any = None) -> Any:
        """The value of a flag if it was given, else what the configuration says, else None."""
        return given if given not in (None, ()) else self.values.get(name)

    def agent(self, name: str) -> Mapping[str, Any]:
        """How an agent's program is started here (`agents:`)."""
        found: Mapping[str, Any] = (self.values.get("agents") or {}).get(name) or {}
        return found
