"""Context given on the command line that nothing reads: most often a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from orchestrate.app.definition import given_names
from orchestrate.app.single_step import references_in
from orchestrate.diagnostics import closest
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.app.reporter import Reporter
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program


def tell_unread(
    compilation: Compilation, program: Program, settings: RunSettings, reporter: Reporter
) -> None:
    """Warn of each key that nothing reads or declares; it may be meant for later, so no more.

    A file of values may serve several recipes: of its keys only those count that look like a slip.
    """
    if compilation.program is not None:
        declared = given_names(compilation.program)
        tell_unread_of(program, given_names(program), declared, settings, reporter)


def tell_unread_of(
    program: Program,
    given: Iterable[str],
    declared: Iterable[str],
    settings: RunSettings,
    reporter: Reporter,
) -> None:
    """The same for values that a run is `given` later."""
    if not settings.given("context"):
        return
    known = {*_read_names(program), *declared}
    pairs = {pair.partition("=")[0] for pair in settings.context}
    for key in given:
        near = "" if key in known else closest(key, known)
        if key not in known and (key in pairs or near):
            flag = "--context" if key in pairs else "--context-file"
            also = f" (did you mean '{visible(near)}'?)" if near else ""
            reporter.detail(
                f"orchestrate: warning: {flag}: nothing here reads '{visible(key)}'{also}\n"
            )


def _read_names(program: Program) -> set[str]:
    """The variables that any step of the program refers to."""
    return {
        ref.path[1]
        for plan in program.plans
        for ref in references_in((plan.blocks, plan.context))
        if ref.path[0] in ("context", "var") and len(ref.path) > 1
    }
