"""A workflow's paths and patterns: inside the workspace, or rejected (C "Path Safety")."""

from __future__ import annotations

import os
from typing import Any

from orchestrate.dialects.workflow.scope import Resolver
from orchestrate.lang.dollar import parse_dollar
from orchestrate.plan.expr import Ref, Text
from orchestrate.source.located import PathKey
from orchestrate.workspace import kept_name, path_fault

_GLOB = frozenset("*?[")


def lower_path(resolver: Resolver, container: Any, key: PathKey) -> Text:
    """A path to one file or folder."""
    return _lower(resolver, container, key, pattern=False)


def lower_target(resolver: Resolver, container: Any, key: PathKey) -> Text:
    """A path that is written to, or that files are moved to."""
    text = _lower(resolver, container, key, pattern=False)
    _refuse_kept(resolver, container, key, text)
    return text


def lower_pattern(resolver: Resolver, container: Any, key: PathKey) -> Text:
    """A POSIX pattern: `*` and `?`, no `**`."""
    return _lower(resolver, container, key, pattern=True)


def check_folder(resolver: Resolver, container: Any, key: PathKey) -> None:
    """A folder of the whole workflow: fixed before a run starts, so without variables."""
    text = str(container[key])
    work = resolver.work
    variables = parse_dollar(text).variables
    for variable in variables:
        work.report_at(
            "E121",
            f"'{key}' cannot use {variable.text}: it is fixed before a run starts",
            work.span_inside(container, key, variable.start, variable.end),
            hint="write the path out",
        )
    if variables:
        return
    _refuse_kept(resolver, container, key, _lower(resolver, container, key, pattern=False))
    if key == "processed_dir" and os.path.normpath(text) == ".":
        work.report(
            "E406",
            "'processed_dir' cannot be the workspace itself: --clean-processed empties it",
            container,
            key,
            hint="name a folder in the workspace",
        )


def _refuse_kept(resolver: Resolver, container: Any, key: PathKey, text: Text) -> None:
    """No step writes where the run, orchestrate or git keep what is theirs; artifacts are free."""
    parts = text.parts
    first = parts[0] if parts else ""
    is_run_root = isinstance(first, Ref) and first.path == ("run", "root")
    rest = "".join("x" if isinstance(part, Ref) else part for part in parts[is_run_root:])
    names = [name for name in rest.split("/") if name not in ("", ".")]
    if is_run_root and (not rest.startswith("/") or names[:1] != ["artifacts"]):
        whose = "a run's own folder"
    else:
        whose = kept_name(names)
        if not whose and not any(isinstance(part, Ref) for part in parts):
            whose = resolver.work.workspace.keeps(resolver.work.real_path(rest))
    if whose:
        resolver.work.report(
            "E406",
            f"the path '{container[key]}' leads into {whose}, where no step may write",
            container,
            key,
            hint="name a folder of your own, or ${run.root}/artifacts",
        )


def _lower(resolver: Resolver, container: Any, key: PathKey, *, pattern: bool) -> Text:
    text = resolver.text(container, key)
    work = resolver.work
    # A value inside a path is checked again when the step runs; here it counts as one name.
    literal = "".join("x" if isinstance(part, Ref) else part for part in text.parts)
    fault = path_fault(literal)
    if not literal.strip():
        work.report("E406", "the path is empty", container, key, hint="name a file")
    elif fault:
        work.report(
            "E406",
            f"the path '{container[key]}' {fault}",
            container,
            key,
            hint="paths are relative to the workspace and stay inside it",
        )
    elif pattern and "**" in literal:
        work.report(
            "E407",
            f"'**' in '{container[key]}' is not supported",
            container,
            key,
            hint="list the files in a step (find …) and loop over its lines",
        )
    elif not any(isinstance(part, Ref) for part in text.parts):
        _check_links(resolver, container, key, literal, pattern=pattern)
    if "$(" in literal or "`" in literal:
        work.report(
            "W403",
            "no shell reads this path: '$(' and '`' stay as they are",
            container,
            key,
            hint="work the name out in a command step and use its result",
        )
    return text


def _check_links(
    resolver: Resolver, container: Any, key: PathKey, literal: str, *, pattern: bool
) -> None:
    """A link that leads out of the workspace is refused as soon as it can be seen."""
    root = resolver.work.workspace.root
    fixed = literal
    if pattern and any(character in _GLOB for character in literal):
        position = min(literal.index(c) for c in _GLOB if c in literal)
        fixed = literal[:position].rpartition("/")[0]
    real = resolver.work.real_path(fixed)
    if real != str(root) and not real.startswith(str(root).rstrip("/") + "/"):
        resolver.work.report(
            "E406",
            f"the path '{literal}' leads out of the workspace through a link",
            container,
            key,
            hint="point the link at a place inside the workspace",
        )
