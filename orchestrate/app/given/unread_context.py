"""Context given on the command line that nothing reads: most often a slip of the pen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from orchestrate.app.definitions.find import given_names
from orchestrate.diagnostics import closest
from orchestrate.plan.expr import references_in
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program


def tell_unread(
    compilation: Compilation, program: Program, settings: RunSettings, detail: Callable[[str], None]
) -> None:
    """Warn of each key that nothing reads or declares; it may be meant for later, so no more.

    A file of values may serve several recipes: of its keys only those count that look like a slip.
    """
    if compilation.program is not None:
        declared = given_names(compilation.program)
        tell_unread_of(program, given_names(program), declared, settings, detail)


def tell_unread_of(
    program: Program,
    given: Iterable[str],
    declared: Iterable[str],
    settings: RunSettings,
    detail: Callable[[str], None],
) -> None:
    """The same for values that a run is `given` later; those of no flag come from Python."""
    given = list(given)
    if not given:
        return
    known = {*_read_names(program), *declared}
    pairs = {pair.partition("=")[0] for pair in (*settings.context, *settings.input)}
    inputs = {one.name for one in main_plan(program).inputs}
    has_file = settings.context_file is not None or settings.inputs_file is not None
    for key in given:
        near = "" if key in known else closest(key, known)
        if key not in known and (key in pairs or near or not has_file):
            flag = "--context" if key in pairs else "--context-file" if has_file else "context"
            flag = "input" if key in inputs else flag
            also = f" (did you mean '{visible(near)}'?)" if near else ""
            detail(f"orchestrate: warning: {flag}: nothing here reads '{visible(key)}'{also}\n")


def _read_names(program: Program) -> set[str]:
    """The variables that any step of the program refers to."""
    return {
        ref.path[1]
        for plan in program.plans
        for ref in references_in((plan.blocks, plan.context, plan.outputs))
        if ref.path[0] in ("context", "var") and len(ref.path) > 1
    }
