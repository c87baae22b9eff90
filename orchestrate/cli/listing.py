"""What `list` does, apart from its options."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from orchestrate.app.recipes import Entry, recipes_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.plan.visible import clip, visible, width_of
from orchestrate.show.output import answer, answer_json


def show_recipes(working_dir: str | None, *, as_json: bool) -> int:
    """Tell which recipes there are."""
    entries = list(recipes_of(workspace_of(working_dir)))
    if as_json:
        answer_json({"recipes": [_entry_json(entry) for entry in entries]})
    else:
        answer(_text(entries))
    return 0


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "path": entry.path,
        "origin": entry.origin,
        "dialect": entry.dialect,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "inputs": list(entry.inputs),
        "readable": not entry.error,
        "error": entry.error,
    }


def _first_sentence(text: str) -> str:
    first, stop, _ = text.partition(". ")
    return first + stop.strip()


def _text(entries: list[Entry]) -> str:
    if not entries:
        return "There are no recipes.\n"
    width = max(width_of(visible(entry.id)) for entry in entries)
    columns = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 0
    parts: list[str] = []
    for origin in ("workspace", "catalogue"):
        group = [entry for entry in entries if entry.origin == origin]
        if not group:
            continue
        parts.append(("\n" if parts else "") + origin.capitalize() + "\n")
        for entry in group:
            shown = visible(entry.id)
            pad = " " * (width - width_of(shown))
            about = entry.error or _first_sentence(entry.description) or entry.title
            kind = "invalid" if entry.error else entry.dialect
            told = f" [{', '.join(map(visible, entry.inputs))}]" if entry.inputs else ""
            line = f"  {shown}{pad}  {kind:8}  {visible(about)}{told}".rstrip()
            parts.append((clip(line, columns) if columns else line) + "\n")
    return "".join(parts)
