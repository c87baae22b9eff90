"""What people are told of a rehearsal, so that it is never taken for a real run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def banner(settings: Mapping[str, Any]) -> str:
    """Said at the start and the end of a rehearsal, by the settings that it keeps; '' of a run."""
    if settings.get("backend") != "rehearsal":
        return ""
    if settings.get("rehearse_commands"):
        return "REHEARSAL: commands are run, but no agent is asked"
    return "REHEARSAL: no agent is asked, no command is run, no file is changed"
