"""The program that a resume goes on with: the run's own copy, made again where that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.apply_flags import with_settings
from orchestrate.app.resuming.changed import changed_error, recompile, recompile_documents
from orchestrate.app.resuming.frozen_run import (
    frozen_bytes,
    keep_running,
    read_frozen,
    read_frozen_late,
)
from orchestrate.app.secrets import secrets_for
from orchestrate.app.starting.single_step import as_started as reduced_as_started
from orchestrate.errors import UsageError
from orchestrate.record import replace
from orchestrate.state.durable import write_durably
from orchestrate.state.plan_file import DOCUMENTS, FILE, LostPlanError, is_current, late_file
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.app.reading.open_run import Header
    from orchestrate.app.resuming.late_plans import LatePlans
    from orchestrate.plan.nodes import Program
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace


def program_to_run(
    header: Header,
    workspace: Workspace,
    note: Callable[[str], None],
    *,
    as_started: bool,
    is_edit: bool = False,
) -> Program:
    """The program of a run as its settings want it, from its own copy: files may have changed.

    A copy that had to be masked cannot be carried out; then the files have to be as they were, but
    for an edit (`is_edit`), which goes on with what they say now. One that is lost is made again.
    """
    frozen, problem = None, "is missing"
    try:
        frozen = read_frozen(header.root)
    except LostPlanError:
        problem = "is damaged"
    if frozen is not None and (as_started or not frozen.is_masked):
        return _as_it_runs(frozen.program, header)
    if frozen is not None:
        try:
            return _as_it_runs(recompile(header, workspace, is_masked=True), header)
        except UsageError:
            if not is_edit:
                raise
            return _as_it_runs(frozen.program, header)
    whole, source = _compile_again(header, workspace, as_started=as_started)
    running = _as_it_runs(whole, header)
    mask = secrets_for(whole, workspace).data
    write_durably(header.root / FILE, frozen_bytes(whole, running, workspace, mask))
    note(f"orchestrate: the run's {FILE} {problem}: it was rebuilt from {source}\n")
    return running


def _compile_again(
    header: Header, workspace: Workspace, *, as_started: bool
) -> tuple[Program, str]:
    """The program as compiled, and what from."""
    try:
        return recompile(header, workspace), "the definition, which has not changed"
    except UsageError:
        if not as_started:
            raise
    return recompile_documents(header, workspace), DOCUMENTS


def _as_it_runs(whole: Program, header: Header) -> Program:
    return with_settings(reduced_as_started(whole, header.settings), header.settings)


def restore_late(
    late: LatePlans,
    found: Mapping[str, Mapping[str, str]],
    run: Run,
    note: Callable[[str], None],
) -> None:
    """Make the copies of recipes again that the run has found on its way and whose copy is lost."""
    for plan_id, sources in found.items():
        with suppress(LostPlanError):
            if read_frozen_late(late.root, plan_id) is not None:
                continue
        whole, now = late.compile(plan_id)
        if dict(sources) != now:
            raise changed_error(run.id, {plan_id: "changed"}, Place(), has_copy=False)
        replace(late, mask=secrets_for(whole, late.workspace).data).compile(plan_id)
        note(
            f"orchestrate: the run's copy of {plan_id} was lost: it was rebuilt from the file, "
            "which has not changed\n"
        )


def keep_flags(
    program: Program, late: LatePlans, found: Iterable[str], flags: Mapping[str, Any]
) -> None:
    """Keep the plans as they run if `resume` was given flags, those found late included.

    Those of an older format are brought up, so that readers and deciders can use them.
    """
    if not flags and is_current(late.root / FILE):
        return
    running = {late.root / FILE: program}
    running |= {late_file(late.root, plan_id): late.whole(plan_id) for plan_id in found}
    for path, each in running.items():
        keep_running(path, each, secrets_for(each, late.workspace).data)
