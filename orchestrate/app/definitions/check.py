"""Compiles files and says what was found: the work of `orchestrate validate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrate.app.definitions.find import compile_definition
from orchestrate.diagnostics import CheckedFile
from orchestrate.exits import invalid_definition
from orchestrate.plan.nodes import Ask, BuiltinProvider, NamedAgent, RunAgent, all_nodes, main_plan
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

Note = Callable[[str], None]


def check_files(
    names: Sequence[str],
    workspace: Workspace,
    note: Note,
    *,
    strict: bool = False,
    tells_namesakes: bool = False,
    change: Callable[[Compilation], Compilation] = lambda compilation: compilation,
) -> list[CheckedFile]:
    """Check each file once; `change` is made to each compilation before it is judged."""
    once = {os.path.abspath(name): name for name in reversed(names)}
    by_file: dict[str, CheckedFile] = {}
    compilations: list[Compilation] = []
    for name in reversed(once.values()):
        compilation = change(compile_definition(name, workspace))
        compilations.append(compilation)
        file = checked_file(compilation, workspace, strict=strict)
        # An id and a path can name the same file.
        by_file.setdefault(os.path.realpath(file.file), file)
    if tells_namesakes:
        _tell_namesakes(compilations, note)
    return list(by_file.values())


def _may_have_settings(program: Program) -> bool:
    """Is any agent given settings? Most files have none, and are checked often."""
    for node in all_nodes(program):
        agent = node.op.agent if isinstance(node.op, Ask) else None
        match agent:
            case NamedAgent():
                return True
            case BuiltinProvider(params=given) | RunAgent(settings=given) if given.items:
                return True
    return False


def _tell_namesakes(compilations: Iterable[Compilation], note: Note) -> None:
    """Two recipes of one name are hard to tell apart in `list`, `runs` and reports."""
    files: dict[str, list[str]] = {}
    for compilation in compilations:
        if compilation.program is not None:
            name = main_plan(compilation.program).name
            files.setdefault(name, []).append(os.path.relpath(compilation.path))
    for name, paths in files.items():
        if len(paths) > 1:
            shown = ", ".join(sorted(paths))
            note(f"orchestrate: warning: {len(paths)} recipes are called '{visible(name)}': "
                 f"{visible(shown)}; give each a name of its own\n")  # fmt: skip


def checked_file(compilation: Compilation, workspace: Workspace, *, strict: bool) -> CheckedFile:
    if compilation.program is not None and _may_have_settings(compilation.program):
        from orchestrate.app.definitions.refused_settings import with_refused_settings

        compilation = with_refused_settings(compilation, compilation.program, workspace)
    program = compilation.program
    main, looped = (0, 0) if program is None else _count_steps(program)
    return CheckedFile(
        file=workspace.display(compilation.path.absolute()),
        dialect=compilation.dialect,
        valid=program is not None and not (strict and compilation.diagnostics),
        exit_code=invalid_definition(compilation.dialect),
        steps=main + looped,
        looped=looped,
        diagnostics=compilation.diagnostics,
        dropped=compilation.dropped,
    )


def _count_steps(program: Program) -> tuple[int, int]:
    """The author's steps, and those in loops: a recipe's loop is its one step."""
    plan = main_plan(program)
    main = sum(node.is_step for node in plan.blocks[0].nodes)
    if plan.dialect == "recipe":
        return main, 0
    return main, sum(node.is_step for block in plan.blocks[1:] for node in block.nodes)
