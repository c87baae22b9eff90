"""Goes on with a run after anything, at the right point, or starts it over."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.app.agents import refuse_unusable
from orchestrate.app.apply_flags import with_settings
from orchestrate.app.carry_out import carry_out
from orchestrate.app.changed import refuse_changed
from orchestrate.app.concurrent_runs import entering
from orchestrate.app.config import load_config
from orchestrate.app.config_model import Config
from orchestrate.app.context import context_of, given_values
from orchestrate.app.frozen_run import frozen_agents, require_whole
from orchestrate.app.late_plans import LatePlans, keep_flags, program_to_run
from orchestrate.app.notify import tell_owed
from orchestrate.app.open_run import given_later, header_of
from orchestrate.app.open_store import open_stored
from orchestrate.app.queues import archive_processed
from orchestrate.app.reachable import secrets_to_run
from orchestrate.app.secrets import mask_settings, refuse_unset_late
from orchestrate.app.single_step import as_started as reduced_as_started
from orchestrate.app.start import Outcome, Prepared, carry_out_anew
from orchestrate.app.stopping import stoppable
from orchestrate.app.undefined import refuse_undefined
from orchestrate.app.unread_context import tell_unread_of
from orchestrate.compile import compile_file, require_program
from orchestrate.dialects.lowering import constant_map
from orchestrate.engine.git_head import head_of
from orchestrate.errors import ConfigError, UsageError
from orchestrate.execute.place import is_same_place, place_of
from orchestrate.exits import DONE, ENDS, Ending
from orchestrate.plan.nodes import Each, main_plan
from orchestrate.plan.override import known_backend, with_context
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.clock import drop_anchor, holds, now_by
from orchestrate.state.durable import parse_json
from orchestrate.state.events import RunResumed
from orchestrate.state.locks import is_held
from orchestrate.state.model import Index, frames_below
from orchestrate.state.runs import claim_run
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.app.open_run import Header
    from orchestrate.app.reporter import Reporter
    from orchestrate.app.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run, Runs
    from orchestrate.state.store import Store
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

_COPY = (
    "this run is a copy of another: what the other one runs counts as lost here, and agents begin "
    "new sessions\n"
)


@record
class Resumed:
    """How a run went on; `nothing_left` says why it did not, and `ending` is None then."""

    store: Store
    code: int
    ending: Ending | None = None
    nothing_left: str = ""


def resume(
    run: Run,
    workspace: Workspace,
    given: RunSettings,
    reporter: Reporter,
    *,
    context: Mapping[str, Any] = MappingProxyType({}),
    repair: bool = False,
    as_started: bool = False,
) -> Resumed:
    """Go on with a run until it ends, is parked or is stopped."""
    if given.session is not None:
        raise UsageError("the session of a run cannot change", "it was chosen when the run started")
    if given.backend is not None:
        given = replace(given, backend=known_backend(given.backend))
    header = header_of(run)
    level = given.log_level or load_config(workspace).values.get("log_level")
    settings = replace(given.over(header.settings), log_level=level)
    lock = claim_run(run, sys.argv)
    try:
        header = replace(header, settings=settings)
        program = program_to_run(header, workspace, as_started=as_started)
        given.check(program)
        values = _context_given(program, given, workspace, context)
        late = LatePlans(workspace, settings, run.root)
        index = Index(program, late.find)
        store = open_stored(run, lock, index, reporter.note, repair=repair)
    except BaseException:
        lock.release()
        raise
    with stoppable() as stop:
        try:
            over = _is_over(run, store.state, reporter.place)
            if over is not None:
                _catch_up(store, program, workspace, settings, reporter)
                return Resumed(store, over[1], nothing_left=over[0])
            _refuse_results(store.state, program, values)
            if as_started:
                require_whole(run)
            else:
                refuse_changed(header, store.state, workspace, reporter)
            refuse_unset_late(late, store.state.late)
            refuse_unusable(program, workspace, settings, frozen_agents(run.root))
            with entering(workspace, program, settings, reporter, run.id) as door:
                door.enter(run)
                reporter.begins(store, store.state.definition, workspace, is_resumed=True)
                resumed = _record(store, program, values, header, given, late, reporter)
                reporter.started(run)
                ending = carry_out(
                    store, program, workspace, settings, reporter, stop, resumed=resumed
                )
            _archive(program, workspace, run, settings, ending.status)
        finally:
            store.close()
        reporter.ended(store, ending)
        return Resumed(store, ending.code, ending)


def _record(
    store: Store,
    program: Program,
    values: dict[str, Any],
    header: Header,
    given: RunSettings,
    late: LatePlans,
    reporter: Reporter,
) -> RunResumed:
    """Put the resume on record, with what is not tried again or not yet."""
    workspace = late.workspace
    kept = mask_settings(given.kept(), secrets_to_run(program, workspace), reporter)
    keep_flags(store.run, program, late, store.state.late, kept)
    tell_unread_of(program, values, header.context, given, reporter)
    resumed = _resumed(store, kept, values, workspace)
    if resumed.copied:
        reporter.note(_COPY)
    _tell_put_aside(store.state, reporter)
    store.record(resumed)
    reporter.rests(store, resumed.at)
    return resumed


def _context_given(
    program: Program, given: RunSettings, workspace: Workspace, context: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that are given to what has not finished; masked."""
    secrets = secrets_to_run(program, workspace)
    values = context_of(program, given, workspace) | given_values(program, context)
    return {key: secrets.data(value) for key, value in values.items()}


def _resumed(
    store: Store, given: dict[str, Any], values: dict[str, Any], workspace: Workspace
) -> RunResumed:
    clock = None if holds(store.state.clock) else drop_anchor()
    now = now_by(clock or store.state.clock)
    before, place = store.state.place, place_of(str(store.run.root))
    return RunResumed(
        at=now,
        settings=given,
        head=head_of(workspace.root),
        clock=clock,
        place="" if before == place else place,
        copied=not is_same_place(before, place),
        context=values,
    )


def _refuse_results(state: RunState, program: Program, values: dict[str, Any]) -> None:
    """A value from outside may not stand in for what a finished step has found."""
    main, *inner = main_plan(program).blocks
    opened = {f"{node}/" for node in state.root.loops}
    bodies = [node for block in inner if block.id.startswith(tuple(opened)) for node in block.nodes]
    results = state.root.steps
    done = [n for n in main.nodes if n.name in results and results[n.name].status == "completed"]
    for node in [*done, *bodies, *(n for n in main.nodes if n.id in state.root.loops)]:
        collected = node.op.collect if isinstance(node.op, Each) else None
        for name in (node.output, collected):
            if name is not None and name in values:
                raise UsageError(
                    f"'{name}' is what step '{node.name}' has found, and cannot be given",
                    "values can be given for what no step has set yet",
                )


def _tell_put_aside(state: RunState, reporter: Reporter) -> None:
    """Items that failed and whose files were moved: their loops go on behind them."""
    for frame in frames_below(state.root):
        loop = frame.loops.get(frame.here.node) if frame.here is not None else None
        if frame.here is None or frame.here.phase != "failed" or loop is None or loop.is_closed:
            continue
        for index in loop.failed:
            lifecycle = parse_json(loop.done[index]).get("lifecycle") or {}
            if lifecycle.get("action_applied"):
                where = visible(str(lifecycle["to"]))
                reporter.note(
                    f"{visible(loop.name)}[{index}] is not tried again: it failed, and its file is "
                    f"{where} now; move it back and start a new run for it, or leave it behind "
                    "with --on-error continue\n"
                )


def _archive(
    program: Program, workspace: Workspace, run: Run, settings: RunSettings, status: str
) -> None:
    if status == "completed":
        archive_processed(program, workspace, run, settings.archive_processed)


def _catch_up(
    store: Store, program: Program, workspace: Workspace, settings: RunSettings, reporter: Reporter
) -> None:
    """What a kill after the last event left undone: the state's file, the archive, and the news."""
    if store.is_behind():
        store.checkpoint(durable=True)
        _archive(program, workspace, store.run, settings, store.state.status)
    for trouble in tell_owed(store, program, workspace, reporter.place):
        reporter.note(f"orchestrate: {visible(trouble)}\n")


def _is_over(run: Run, state: RunState, place: Place) -> tuple[str, int] | None:
    """Why there is nothing to go on with, and the exit code; None if there is."""
    if state.status == "completed":
        return f"run {run.id} is completed; there is nothing left to do", DONE
    if any(gate.status == "denied" for gate in state.approvals):
        return f"run {run.id} was denied: {state.reason}; a denial is final", ENDS["denied"].code
    if state.status == "cancelled":
        anew = visible(place.command("resume", run.id, "--force-restart"))
        return f"run {run.id} was cancelled; start it anew: {anew}", ENDS["cancelled"].code
    is_at_end = state.root.here is None and state.restart is None
    if state.status != "running" and is_at_end and state.ending is not None:
        reason = f"run {run.id} has {state.status}: {state.ending.reason}"
        return f"{reason}; there is nothing left to do", state.ending.code
    return None


def start_over(
    runs: Runs, found: Run, workspace: Workspace, given: RunSettings, reporter: Reporter
) -> Outcome:
    """A new run of the definition as it is now, with the earlier run's flags and context.

    Flags and values that are given now win over those.
    """
    if is_held(found.lock_file):
        raise ConfigError(f"run {found.id} is still running", "end it first: orchestrate cancel")
    header = header_of(found)
    if given.backend is not None:
        given = replace(given, backend=known_backend(given.backend))
    settings = given.over(header.settings)
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    program = reduced_as_started(require_program(compilation), settings)
    given.check(program)
    program = with_settings(program, settings)
    values = header.context | given_later(found) | context_of(program, given, workspace)
    program = with_context(program, constant_map(values))
    refuse_undefined(compilation, program)
    refuse_unusable(program, workspace, settings)
    return carry_out_anew(
        Prepared(compilation, program, workspace, settings, Config()),
        runs,
        reporter,
        begun=lambda _: reporter.note(f"it starts over what run {found.id} was\n"),
    )
