"""Recipes that a run may reach by a path that it works out (B), as far as their files tell."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.secrets import secrets_for
from orchestrate.catalogue import SUFFIXES
from orchestrate.compile import compile_file, require_program
from orchestrate.errors import OrchestrateError
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import Call, nodes_in
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.engine.secrets import Secrets
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

# A folder with more recipes than this is none that a template chooses from.
_MOST_FILES = 200
_MOST_LOOKED_AT = 5000


def secrets_to_run(
    program: Program, workspace: Workspace, environment: Mapping[str, str] = os.environ
) -> Secrets:
    """The secrets of a program, run here and now, and of recipes that it may call."""
    secrets = secrets_for(program, workspace, environment)
    for called in with_secrets(program, workspace):
        secrets.learn(called)
    return secrets


def with_secrets(program: Program, workspace: Workspace) -> Iterator[Program]:
    """The recipes with secrets of their own whose paths fit a templated `recipe:`.

    Their secrets are masked from the start, also in what is printed before they are called.
    """
    for path in sorted(_candidates(program, workspace)):
        with suppress(OrchestrateError, OSError):
            if b"secrets" in path.read_bytes():
                yield require_program(compile_file(path, workspace))


def _candidates(program: Program, workspace: Workspace) -> set[Path]:
    found: set[Path] = set()
    for plan in program.plans:
        for node in nodes_in(plan):
            if isinstance(node.op, Call) and isinstance(node.op.plan, Text):
                base = file_at(plan.id, workspace)
                found |= set(islice(_matching(node.op.plan, base, workspace), _MOST_FILES))
    return found


def _matching(template: Text, base: Path, workspace: Workspace) -> Iterator[Path]:
    """The files that values may lead to, also into folders below; an absolute path is found when
    it is reached."""
    first = template.parts[0] if isinstance(template.parts[0], str) else ""
    fixed, slash, _ = first.rpartition("/")
    if first.startswith("/"):
        return
    written = "".join(re.escape(p) if isinstance(p, str) else ".+" for p in template.parts)
    rest = re.compile(written.removeprefix(re.escape(fixed + slash)), re.DOTALL)
    top = base.parent / fixed
    for path in islice(_files_below(top), _MOST_LOOKED_AT):
        inside = path.relative_to(top).as_posix()
        if rest.fullmatch(inside) and workspace.allows(path.resolve(), base):
            yield path


def _files_below(top: Path) -> Iterator[Path]:
    """Files that may be recipes, those that lie nearest first; hidden folders are left out."""
    waiting = deque([top])
    while waiting:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_file() and entry.name.lower().endswith(SUFFIXES):
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    waiting.append(Path(entry.path))
