"""The files that a definition is made of, and whether any of them has changed.

Files are compared by what `stat` says, a few times a second: that costs next to nothing, works on
every file system, and notices editors that write a new file and rename it over the old one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.plan.data import FileText
from orchestrate.plan.expr import references, show
from orchestrate.plan.nodes import Ask, Run, all_nodes
from orchestrate.record import record
from orchestrate.regex import regex

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

Look = tuple[int, int, int, int] | None
_QUOTED = regex(r"'([^'\x00]{1,1000})'")
_MOST_BYTES = 64 * 1024 * 1024


@record
class FileStamps:
    """How the files looked at one moment; None for one that is not there."""

    looks: dict[str, Look]

    def changed_since(self, earlier: FileStamps) -> list[str]:
        names = dict.fromkeys([*earlier.looks, *self.looks])
        return [name for name in names if self.looks.get(name) != earlier.looks.get(name)]


def take_snapshot(paths: Iterable[str]) -> FileStamps:
    return FileStamps({path: _look(path) for path in paths})


def _look(path: str) -> Look:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def contents_of(paths: Iterable[str]) -> dict[str, str]:
    """A digest of each file: one that was only touched has not changed."""
    found = {}
    for path in paths:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                found[path] = hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()
        except (OSError, ValueError):
            found[path] = ""
    return found


def files_of(compilation: Compilation, workspace: Workspace) -> list[str]:
    """Everything that went into the definition, and what it reads by a fixed name when it runs.

    Of one that is not valid also the files that it names and that may be missing.
    """
    found = dict.fromkeys([str(compilation.path.absolute())])
    found |= dict.fromkeys(str(source.path.absolute()) for source in compilation.sources.files)
    if compilation.program is not None:
        for name in _read_when_run(compilation.program):
            found[str(workspace.root / name)] = None
    else:
        found |= dict.fromkeys(_named_in_errors(compilation, workspace))
    return list(found)


def _read_when_run(program: Program) -> Iterator[str]:
    """Prompts and inputs in files of their own (C `input_file`), where the name is fixed."""
    for node in all_nodes(program):
        op = node.op
        read = op.prompt if isinstance(op, Ask) else None
        read = op.stdin if isinstance(op, Run) else read
        if isinstance(read, FileText) and not any(references(read.path)):
            yield show(read.path)


def _named_in_errors(compilation: Compilation, workspace: Workspace) -> Iterator[str]:
    for finding in compilation.diagnostics:
        folder = Path(os.path.abspath(workspace.root / finding.span.file)).parent
        for name in _QUOTED.findall(finding.message):
            target = name.partition("#")[0]
            if target and "\n" not in target:
                yield str(folder / target)
