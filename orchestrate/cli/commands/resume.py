"""`orchestrate resume`: goes on with a run after anything, at the right point."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.apply_flags import with_settings
from orchestrate.app.config import configured, load_config
from orchestrate.app.open_run import given_later, header_of
from orchestrate.app.settings import RunSettings
from orchestrate.app.stopping import stoppable
from orchestrate.cli.commands.run import detach
from orchestrate.cli.options import (
    flag_options,
    json_option,
    refuse_events,
    run_argument,
    state_dir_option,
    watching_of,
    working_dir_option,
)
from orchestrate.errors import ConfigError, UsageError
from orchestrate.exits import DONE, ENDS
from orchestrate.plan.override import known_backend
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.show.output import answer, answer_json, note
from orchestrate.state.model import Index
from orchestrate.state.result import StepResult
from orchestrate.state.runs import claim_run
from orchestrate.view.place import Place
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.app.open_run import Header
    from orchestrate.plan.nodes import Program
    from orchestrate.state.events import RunResumed
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run, Runs
    from orchestrate.state.store import Store
    from orchestrate.view.watching import Watching
    from orchestrate.workspace import Workspace


_COPY = (
    "this run is a copy of another: what the other one runs counts as lost here, and agents begin "
    "new sessions\n"
)


@click.command(short_help="Go on with a run that was stopped, failed or parked.")
@run_argument
@click.option("--repair", is_flag=True, help="Go back to the newest valid state of a damaged run.")
@click.option(
    "--force-restart",
    is_flag=True,
    help="Start over under a new run id, with the flags and context of the first start.",
)
@click.option(
    "--as-started",
    is_flag=True,
    help="Go on with the definition as it was when the run started, whatever its files say now.",
)
@flag_options("plan", "context", "agents", "concurrency", "detach", "output")
@state_dir_option
@working_dir_option
@json_option
def resume(
    run: str,
    repair: bool,
    force_restart: bool,
    as_started: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Go on with a run: RUN is its id, the beginning of one, or `latest`.

    A step that is recorded as done is not done again; an agent that still runs is adopted; a step
    that failed is tried again. A run goes on with the definition that it keeps a copy of; if the
    files have changed since, in more than comments or order, it is refused unless --as-started
    says that the copy counts. Flags hold as they were given to `run` unless they are given again;
    --context gives values to what has not finished.
    """
    from orchestrate.app.open_run import find_stored
    from orchestrate.cli.default_run import is_unnamed

    settings = RunSettings(**flags)
    refuse_events(settings, as_json)
    if settings.backend is not None:
        settings = replace(settings, backend=known_backend(settings.backend))
    if settings.session is not None:
        raise UsageError("the session of a run cannot change", "it was chosen when the run started")
    if force_restart and as_started:
        raise UsageError(
            "--force-restart and --as-started exclude each other",
            "--force-restart takes the files as they are now",
        )
    place = Place(working_dir, state_dir)
    runs, found, workspace = find_stored(run, working_dir, state_dir)
    header = header_of(found)
    departure = detach(settings, place, as_json) if settings.detach else None
    if isinstance(departure, int):
        return departure
    config = load_config(workspace)
    watching = watching_of(configured(settings, config), as_json, config, place, departure)
    if force_restart:
        return _start_over(runs, found, header, workspace, watching, settings)
    how = How(
        settings, repair=repair, as_started=as_started, place=place,
        is_unnamed=is_unnamed(click.get_current_context()),
    )  # fmt: skip
    return _go_on(found, header, workspace, watching, how)


@record
class How:
    """What was said to `resume`: flags, values for the context, and what it may do."""

    given: RunSettings
    repair: bool
    as_started: bool
    place: Place
    is_unnamed: bool


def _go_on(found: Run, header: Header, workspace: Workspace, watching: Watching, how: How) -> int:
    from orchestrate.app.agents import refuse_unusable
    from orchestrate.app.carry_out import LatePlans, carry_out, keep_flags, program_to_run, show_end
    from orchestrate.app.changed import refuse_changed
    from orchestrate.app.concurrent_runs import entering
    from orchestrate.app.frozen_run import frozen_agents, require_whole
    from orchestrate.app.open_run import open_stored
    from orchestrate.app.secrets import mask_settings, refuse_unset_late, secrets_for

    lock = claim_run(found, sys.argv)
    try:
        given = how.given
        settings = given.over(header.settings)
        program = program_to_run(
            replace(header, settings=settings), workspace, as_started=how.as_started
        )
        given.check(program)
        values = context_given(program, given, workspace)
        late = LatePlans(workspace, settings, found.root)
        store = open_stored(found, lock, Index(program, late.find), repair=how.repair)
    except BaseException:
        lock.release()
        raise
    with stoppable() as stop:
        try:
            over = _is_over(found, store.state, how.place)
            if over is not None:
                _catch_up(store, program, workspace, settings, watching.place)
                return _tell_over(over, store, watching, how)
            _refuse_results(store.state, program, values)
            if how.as_started:
                require_whole(found)
            else:
                refuse_changed(header, store.state, workspace, how.place)
            refuse_unset_late(late, store.state.late)
            refuse_unusable(program, workspace, settings, frozen_agents(found.root))
            with entering(workspace, program, settings, found.id) as door:
                door.enter(found)
                note_first(store, workspace, is_quiet=watching.quiet)
                kept = mask_settings(given.kept(), secrets_for(program, workspace))
                keep_flags(found, program, late, store.state.late, kept)
                _warn(program, values, header, watching, how)
                resumed = _resumed(store, kept, values, workspace)
                if resumed.copied:
                    note(_COPY)
                _record(store, resumed, is_quiet=watching.quiet)
                watching.started(store.run)
                ending = carry_out(
                    store, program, workspace, watching, stop,
                    is_resumed=True, is_copy=resumed.copied,
                )  # fmt: skip
            _archive(program, workspace, found, settings, ending.status)
        finally:
            store.close()
        return show_end(store, ending, watching)


def _warn(
    program: Program, values: dict[str, Any], header: Header, watching: Watching, how: How
) -> None:
    from orchestrate.app.unread_context import tell_unread_of

    if not watching.quiet:
        tell_unread_of(program, values, header.context, how.given)


def _resumed(
    store: Store, given: dict[str, Any], values: dict[str, Any], workspace: Workspace
) -> RunResumed:
    from orchestrate.engine.git_head import head_of
    from orchestrate.execute.place import is_same_place, place_of
    from orchestrate.state.clock import drop_anchor, holds, now_by
    from orchestrate.state.events import RunResumed

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


def _record(store: Store, resumed: RunResumed, *, is_quiet: bool) -> None:
    """Say what is not tried again, and what is not tried yet."""
    _tell_put_aside(store.state)
    store.record(resumed)
    if not is_quiet:
        _tell_waiting(store, resumed.at)


def _refuse_results(state: RunState, program: Program, values: dict[str, Any]) -> None:
    """A value from outside may not stand in for what a finished step has found."""
    from orchestrate.plan.nodes import Each, main_plan

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


def _tell_put_aside(state: RunState) -> None:
    """Items that failed and whose files were moved: their loops go on behind them."""
    from orchestrate.state.durable import parse_json
    from orchestrate.state.model import frames_below

    for frame in frames_below(state.root):
        loop = frame.loops.get(frame.here.node) if frame.here is not None else None
        if frame.here is None or frame.here.phase != "failed" or loop is None or loop.is_closed:
            continue
        for index in loop.failed:
            lifecycle = parse_json(loop.done[index]).get("lifecycle") or {}
            if lifecycle.get("action_applied"):
                where = visible(str(lifecycle["to"]))
                note(
                    f"{visible(loop.name)}[{index}] is not tried again: it failed, and its file is "
                    f"{where} now; move it back and start a new run for it, or leave it behind "
                    "with --on-error continue\n"
                )


def _tell_waiting(store: Store, now: float) -> None:
    """Steps whose retry is not due yet: else a resume would be silent, for hours perhaps."""
    from orchestrate.show.event_lines import retry_number, retry_reason
    from orchestrate.state.address import shown_path
    from orchestrate.state.model import frames_below
    from orchestrate.state.times import local_time, timestamp

    for frame in frames_below(store.state.root):
        here = frame.here
        if here is None or here.phase != "resting" or here.rest_until <= now:
            continue
        name = store.index.here(frame).node.name
        result = frame.steps.get(name, StepResult())
        why = retry_reason(result).removeprefix(": ")
        note(
            f"{visible(shown_path(frame.key, name))} waits until "
            f"{local_time(timestamp(here.rest_until))} for {retry_number(result)}"
            f"{f' ({visible(why)})' if why else ''}; Ctrl-C stops, --retry-delay 0 tries now\n"
        )


def note_first(store: Store, workspace: Workspace, *, is_quiet: bool) -> None:
    from orchestrate.app.definition import tell_place
    from orchestrate.show.progress import first_words

    note(first_words(store.run.id, store.state.definition, is_resumed=True))
    if not is_quiet:
        tell_place(workspace)


def _archive(
    program: Program, workspace: Workspace, run: Run, settings: RunSettings, status: str
) -> None:
    if status == "completed":
        from orchestrate.app.queues import archive_processed

        archive_processed(program, workspace, run, settings.archive_processed)


def _catch_up(
    store: Store, program: Program, workspace: Workspace, settings: RunSettings, place: Place
) -> None:
    """What a kill after the last event left undone: the state's file, the archive, and the news."""
    from orchestrate.app.notify import tell_owed

    if store.is_behind():
        store.checkpoint(durable=True)
        _archive(program, workspace, store.run, settings, store.state.status)
    for trouble in tell_owed(store, program, workspace, place):
        note(f"orchestrate: {visible(trouble)}\n")


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


def _tell_over(over: tuple[str, int], store: Store, watching: Watching, how: How) -> int:
    from orchestrate.cli.default_run import tell_paused
    from orchestrate.show.progress import summary

    message, code = over
    if watching.as_json:
        answer_json(summary(store) | {"message": message})
    elif watching.events:
        note(message + "\n")
    else:
        answer(message + "\n")
    if how.is_unnamed and store.state.status == "completed":
        tell_paused(how.place)
    return code


def context_given(program: Program, given: RunSettings, workspace: Workspace) -> dict[str, Any]:
    """The values that --context-file and --context give, the latter over the former; masked."""
    from orchestrate.app.context import context_of
    from orchestrate.app.secrets import secrets_for

    values = context_of(program, given, workspace)
    secrets = secrets_for(program, workspace)
    return {key: secrets.data(value) for key, value in values.items()}


def _start_over(
    runs: Runs,
    found: Run,
    header: Header,
    workspace: Workspace,
    watching: Watching,
    given: RunSettings,
) -> int:
    """A new run of the definition as it is now, with the first start's flags and context."""
    from orchestrate.app.agents import refuse_unusable
    from orchestrate.app.carry_out import carry_out, show_end, start_run
    from orchestrate.app.concurrent_runs import entering
    from orchestrate.app.context import context_of
    from orchestrate.app.single_step import as_started
    from orchestrate.app.undefined import refuse_undefined
    from orchestrate.compile import compile_file, require_program
    from orchestrate.dialects.lowering import constant_map
    from orchestrate.plan.override import with_context
    from orchestrate.state.locks import is_held

    if is_held(found.lock_file):
        raise ConfigError(f"run {found.id} is still running", "end it first: orchestrate cancel")
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    settings = header.settings
    program = with_settings(as_started(require_program(compilation), settings), settings)
    values = header.context | given_later(found) | context_of(program, given, workspace)
    program = with_context(program, constant_map(values))
    refuse_undefined(compilation, program)
    refuse_unusable(program, workspace, settings)
    with entering(workspace, program, settings) as door, stoppable() as stop:
        store, _ = start_run(runs, program, compilation, workspace, settings)
        try:
            door.enter(store.run)
            from orchestrate.app.definition import tell_place
            from orchestrate.show.progress import first_words

            note(first_words(store.run.id, store.state.definition, is_resumed=False))
            if not watching.quiet:
                tell_place(workspace)
            note(f"it starts over what run {found.id} was\n")
            watching.started(store.run)
            ending = carry_out(store, program, workspace, watching, stop)
            _archive(program, workspace, store.run, settings, ending.status)
        finally:
            store.close()
        return show_end(store, ending, watching)
