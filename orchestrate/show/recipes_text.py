"""The recipes that can be run, as a list and as documents for programs."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import clip, visible, width_of
from orchestrate.view.outcomes import ListedRecipe


def recipe_json(entry: ListedRecipe) -> dict[str, Any]:
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


def recipes_text(entries: list[ListedRecipe], columns: int) -> str:
    if not entries:
        return "There are no recipes.\n"
    width = max(width_of(visible(entry.id)) for entry in entries)
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
