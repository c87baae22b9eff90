"""What a run was, where it was not the whole work: in the first lines of its state file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def marks_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run in a list from one that did the whole work; nothing of such a run."""
    single = settings.get("run_step")
    return {
        **({"rehearsal": True} if settings.get("backend") == "rehearsal" else {}),
        **({"run_step": single["step"]} if single else {}),
    }
