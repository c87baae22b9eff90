"""Compiles files and reports what was found: the work of `orchestrate validate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrate.cli.definition import compile_definition, workspace_of
from orchestrate.cli.output import answer, answer_json, wants_colour
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


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
) -> int:
    """Check each file once, report, and give the exit code of the worst."""
    workspace = workspace_of(working_dir)
    once = {os.path.abspath(name): name for name in reversed(names)}
    by_file: dict[str, CheckedFile] = {}
    for name in reversed(once.values()):
        file = _check(name, workspace, strict)
        # An id and a path can name the same file.
        by_file.setdefault(os.path.realpath(file.file), file)
    checked = list(by_file.values())
    _report(checked, shape, strict)
    return max((file.exit_code for file in checked if not file.valid), default=0)


def distinct(files: Iterable[CheckedFile]) -> list[Diagnostic]:
    """All findings; one in a file that several others include is told once."""
    return list(dict.fromkeys(finding for file in files for finding in file.diagnostics))


def _check(name: str, workspace: Workspace, strict: bool) -> CheckedFile:
    compilation = compile_definition(name, workspace)
    program = compilation.program
    main, looped = (0, 0) if program is None else _count_steps(program)
    return CheckedFile(
        file=workspace.display(compilation.path.absolute()),
        dialect=compilation.dialect,
        valid=program is not None and not (strict and compilation.diagnostics),
        exit_code=_invalid_code(compilation),
        steps=main + looped,
        looped=looped,
        diagnostics=compilation.diagnostics,
        dropped=compilation.dropped,
    )


def _invalid_code(compilation: Compilation) -> int:
    """The exit code should the file turn out to be invalid (rulings §4)."""
    return 1 if compilation.dialect == "machine" else 2


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
    from orchestrate.cli import formats

    match shape:
        case "json":
            answer_json(formats.json_document(files))
        case "github":
            answer(formats.github_commands(distinct(files)))
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
        from orchestrate.cli.findings import draw

        fresh = [finding for finding in file.diagnostics if finding not in told]
        told.update(fresh)
        parts.append(draw(fresh, file.dropped, colour=wants_colour(sys.stdout)))
    if told or len(files) > 1:
        from orchestrate.cli.findings import count_line

        mild = told and not any(finding.severity == "error" for finding in told)
        note = "; --strict makes warnings errors" if strict and mild else ""
        parts.append(f"{count_line(told)} in {plural(len(files), 'file')}{note}\n")
    return "".join(parts)
