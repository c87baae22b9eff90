"""Why a step runs, or runs again after an edit, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrate.plan.visible import plural, visible

_MOST_NAMES = 12


def why_in_words(why: Mapping[str, Any]) -> str:
    """Why a step runs, as the recorded reason says it."""
    match why:
        case {"changed": changed}:
            parts = [part for part in changed if part != "inputs"]
            said = [f"{listed(parts)} changed"] if parts else []
            if "inputs" in changed:
                said.append(f"{listed(list(changed['inputs']))} changed")
            return " and ".join(said)
        case {"files": files}:
            return f"{listed(list(files))} changed since"
        case {"redo": True}:
            return "is to be done again"
        case {"after": step}:
            return f"comes after {visible(step)}"
        case {"was": "an end of the run"}:
            return "had ended the run"
        case {"was": was}:
            return f"was {was}"
        case _:
            return "has not run yet"


def listed(names: list[str]) -> str:
    """`a, b and c`."""
    shown = [visible(name) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown.append(plural(len(names) - _MOST_NAMES, "other"))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
