"""Compiles files and reports what was found: the work of `orchestrate validate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrate.app.definition import compile_definition, workspace_of
from orchestrate.app.settings import RunSettings
from orchestrate.exits import DONE, invalid_definition
from orchestrate.record import record, replace
from orchestrate.show.output import answer, answer_json, note, wants_colour

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

_NO_FLAGS = RunSettings()


@record
class CheckedFile:
    """What `validate` found out about one of its arguments."""

    file: str
    dialect: str | None
    valid: bool
    exit_code: int
    steps: int
    # Those of `steps` that stand in a workflow's loops: `run` does not number them.
    looped: int
    diagnostics: tuple[Diagnostic, ...]
    dropped: int


def check_files(
    names: Sequence[str],
    *,
    shape: str = "text",
    strict: bool = False,
    working_dir: str | None = None,
    tells_namesakes: bool = False,
    settings: RunSettings = _NO_FLAGS,
) -> int:
    """Check each file once, report, and give the exit code of the worst."""
    workspace = workspace_of(working_dir)
    once = {os.path.abspath(name): name for name in reversed(names)}
    by_file: dict[str, CheckedFile] = {}
    compilations: list[Compilation] = []
    for name in reversed(once.values()):
        compilation = compile_definition(name, workspace)
        if settings.given():
            compilation = _with_values(compilation, settings, workspace)
        compilations.append(compilation)
        _tell_settings(compilation, workspace)
        file = _check(compilation, workspace, strict)
        # An id and a path can name the same file.
        by_file.setdefault(os.path.realpath(file.file), file)
    checked = list(by_file.values())
    _report(checked, shape, strict)
    if tells_namesakes:
        _tell_namesakes(compilations)
    return max((file.exit_code for file in checked if not file.valid), default=DONE)


def distinct(files: Iterable[CheckedFile]) -> list[Diagnostic]:
    """All findings; one in a file that several others include is told once."""
    return list(dict.fromkeys(finding for file in files for finding in file.diagnostics))


def _tell_settings(compilation: Compilation, workspace: Workspace) -> None:
    """Settings that an agent cannot take: a warning, because another backend may be chosen."""
    if compilation.program is None or not _may_have_settings(compilation.program):
        return
    from orchestrate.app.agents import faults_of_settings
    from orchestrate.plan.visible import visible

    for fault in dict.fromkeys(faults_of_settings(compilation.program, workspace, _NO_FLAGS)):
        note(f"orchestrate: warning: {visible(fault)}; `run` refuses it\n")


def _may_have_settings(program: Program) -> bool:
    """Is any agent given settings? Most files have none, and are checked often."""
    from orchestrate.plan.nodes import Ask, BuiltinProvider, NamedAgent

    for plan in program.plans:
        for block in plan.blocks:
            for node in block.nodes:
                agent = node.op.agent if isinstance(node.op, Ask) else None
                if isinstance(agent, NamedAgent) or (
                    isinstance(agent, BuiltinProvider) and agent.params.items
                ):
                    return True
    return False


def _tell_namesakes(compilations: Iterable[Compilation]) -> None:
    """Two recipes of one name are hard to tell apart in `list`, `runs` and reports."""
    from orchestrate.plan.nodes import main_plan
    from orchestrate.plan.visible import visible

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


def _check(compilation: Compilation, workspace: Workspace, strict: bool) -> CheckedFile:
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


def _with_values(
    compilation: Compilation, settings: RunSettings, workspace: Workspace
) -> Compilation:
    """As `run` would see it with these values: what has none then is an error."""
    program = compilation.program
    if program is None:
        return compilation
    from orchestrate.app.context import with_given_context
    from orchestrate.app.definition import given_names, without_given
    from orchestrate.app.undefined import find_undefined

    settings.check(program)
    program = with_given_context(program, settings, workspace)
    found = find_undefined(compilation, program)
    places = {finding.span for finding in found}
    left = without_given(compilation, given_names(program))
    findings = (*(one for one in left if one.span not in places), *found)
    return replace(compilation, program=None if found else program, diagnostics=findings)


def _count_steps(program: Program) -> tuple[int, int]:
    """The author's steps, and those in loops: gates are none, a recipe's loop is its one step."""
    from orchestrate.plan.nodes import Gate, main_plan

    plan = main_plan(program)
    main = sum(not isinstance(node.op, Gate) for node in plan.blocks[0].nodes)
    if plan.dialect == "recipe":
        return main, 0
    return main, sum(len(block.nodes) for block in plan.blocks[1:])


def _report(files: Sequence[CheckedFile], shape: str, strict: bool) -> None:
    if shape == "text":
        answer(_text(files, strict))
        return
    from orchestrate.show import formats

    match shape:
        case "json":
            answer_json(formats.json_document(files))
        case "github":
            answer(formats.github_commands(distinct(files)), is_ours=True)
        case _:
            answer_json(formats.sarif_document(distinct(files)))


def _text(files: Sequence[CheckedFile], strict: bool) -> str:
    from orchestrate.plan.visible import plural, visible

    parts: list[str] = []
    told: set[Diagnostic] = set()
    for file in files:
        if not file.diagnostics:
            steps = plural(file.steps - file.looped, "step")
            if file.looped:
                steps += f", {file.looped} more in loops"
            parts.append(f"{visible(file.file)}: valid {file.dialect} ({steps})\n")
            continue
        from orchestrate.show.findings import draw

        fresh = [finding for finding in file.diagnostics if finding not in told]
        told.update(fresh)
        parts.append(draw(fresh, file.dropped, colour=wants_colour(sys.stdout)))
    if told or len(files) > 1:
        from orchestrate.show.findings import count_line

        mild = told and not any(finding.severity == "error" for finding in told)
        note = "; --strict makes warnings errors" if strict and mild else ""
        parts.append(f"{count_line(told)} in {plural(len(files), 'file')}{note}\n")
    return "".join(parts)
