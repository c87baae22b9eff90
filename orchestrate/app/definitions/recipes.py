"""The recipes that can be run by id, with what each says about itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.app.definitions.find import compiled
from orchestrate.catalogue import recipe_files
from orchestrate.diagnostics import Findings
from orchestrate.dialects.shape import describe_mismatch, detect_dialect
from orchestrate.plan.nodes import Gate, main_plan
from orchestrate.source.include import Document, Loader
from orchestrate.view.outcomes import ListedRecipe

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.workspace import Workspace

_EDITOR_LINE = "yaml-language-server:"


def own_recipes(workspace: Workspace) -> list[Path]:
    """The files of the workspace that are recipes, not parts of some; also those with mistakes."""
    return [
        path
        for recipe_id, path, origin in recipe_files(workspace)
        if workspace.contains(path) and _read_entry(recipe_id, path, origin, workspace) is not None
    ]


def recipes_of(workspace: Workspace) -> Iterator[ListedRecipe]:
    """The recipes of the workspace and of the catalogue that can be run by id."""
    for recipe_id, path, origin in recipe_files(workspace):
        entry = _read_entry(recipe_id, path, origin, workspace)
        if entry is not None:
            yield entry


def _read_entry(
    recipe_id: str, path: Path, origin: str, workspace: Workspace
) -> ListedRecipe | None:
    """What a file says about itself; None for a fragment."""
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
    declared = about.get("inputs")
    return ListedRecipe(
        id=recipe_id,
        path=workspace.display(path),
        origin=origin,
        dialect=dialect,
        name=_text_of(about, "id") or _text_of(about, "name"),
        title=_text_of(about, "label") or _text_of(about, "name"),
        description=description,
        error=error,
        inputs=tuple(map(str, declared)) if isinstance(declared, dict) else (),
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


def step_ids(name: str, workspace: Workspace) -> list[str]:
    """The steps of a recipe that can be run alone."""
    program = compiled(name, workspace)[1]
    nodes = main_plan(program).blocks[0].nodes
    return [node.id for node in nodes if node.is_step and not isinstance(node.op, Gate)]
