"""`orchestrate list`: the recipes that can be run by id, with what they are for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.definition import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.record import record
from orchestrate.show.output import answer, answer_json

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.source.include import Document
    from orchestrate.workspace import Workspace

_EDITOR_LINE = "yaml-language-server:"


@record
class Entry:
    """One recipe as the list shows it; `error` says why it cannot be used."""

    id: str
    path: str
    origin: str
    dialect: str | None
    name: str
    title: str
    description: str
    error: str


@click.command("list", short_help="List the recipes of the workspace and the catalogue.")
@working_dir_option
@json_option
def list_recipes(working_dir: str | None, as_json: bool) -> int:
    """List the recipes of the workspace and of the built-in catalogue.

    Each can be run by its id. Files that only hold parts for others to include are left out.
    """
    entries = list(_entries(workspace_of(working_dir)))
    if as_json:
        answer_json({"recipes": [_entry_json(entry) for entry in entries]})
    else:
        answer(_text(entries))
    return 0


def own_recipes(workspace: Workspace) -> list[Path]:
    """The files of the workspace that are recipes, not parts of some; also those with mistakes."""
    from orchestrate.dialects.catalogue import recipe_files

    return [
        path
        for recipe_id, path, origin in recipe_files(workspace)
        if workspace.contains(path) and _read_entry(recipe_id, path, origin, workspace) is not None
    ]


def _entries(workspace: Workspace) -> Iterator[Entry]:
    from orchestrate.dialects.catalogue import recipe_files

    for recipe_id, path, origin in recipe_files(workspace):
        entry = _read_entry(recipe_id, path, origin, workspace)
        if entry is not None:
            yield entry


def _read_entry(recipe_id: str, path: Path, origin: str, workspace: Workspace) -> Entry | None:
    """What a file says about itself; None for a fragment."""
    from orchestrate.diagnostics import Findings
    from orchestrate.dialects.shape import describe_mismatch, detect_dialect
    from orchestrate.source.include import Loader

    findings = Findings()
    document = Loader(workspace, findings).load(path)
    data = document.data if document is not None else None
    dialect = detect_dialect(data)
    error = next((f.message for f in findings.in_reading_order() if f.severity == "error"), "")
    if dialect is None and not error:
        if not isinstance(data, dict) or not ("steps" in data or "stages" in data):
            return None
        error = describe_mismatch(data).message
    about = data if isinstance(data, dict) else {}
    description = _text_of(about, "description")
    if not description and document is not None:
        description = _opening_comment(document)
    return Entry(
        id=recipe_id,
        path=workspace.display(path),
        origin=origin,
        dialect=dialect,
        name=_text_of(about, "id") or _text_of(about, "name"),
        title=_text_of(about, "label") or _text_of(about, "name"),
        description=description,
        error=error,
    )


def _text_of(data: Any, key: str) -> str:
    value = data.get(key)
    return value.strip() if isinstance(value, str) else ""


def _opening_comment(document: Document) -> str:
    """The first paragraph of comments, where workflows say what they are for."""
    source = next((s for s in document.sources.files if s.path == document.path), None)
    words: list[str] = []
    for line in source.text.splitlines() if source is not None else ():
        if not line.startswith("#"):
            break
        comment = line.lstrip("#").strip()
        if _EDITOR_LINE in comment:
            continue
        if not comment and words:
            break
        words.append(comment)
    return " ".join(filter(None, words))


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "path": entry.path,
        "origin": entry.origin,
        "dialect": entry.dialect,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "readable": not entry.error,
        "error": entry.error,
    }


def _first_sentence(text: str) -> str:
    first, stop, _ = text.partition(". ")
    return first + stop.strip()


def _text(entries: list[Entry]) -> str:
    from orchestrate.plan.visible import clip, visible, width_of

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
            line = f"  {shown}{pad}  {kind:8}  {visible(about)}".rstrip()
            parts.append((clip(line, columns) if columns else line) + "\n")
    return "".join(parts)
