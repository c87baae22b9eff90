"""Goes on with a run after anything, at the right point, or starts it over."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.agent_names import own_name
from orchestrate.app.config.apply_flags import with_settings
from orchestrate.app.config.load import load_config
from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.definitions.reachable import secrets_to_run
from orchestrate.app.definitions.undefined import refuse_undefined
from orchestrate.app.ending.claim import claim_patiently
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.files.begun_since import begun_since
from orchestrate.app.files.worktrees import in_worktree, require_worktree
from orchestrate.app.given.context import context_of
from orchestrate.app.given.unread_context import tell_unread_of
from orchestrate.app.reading.open_run import given_later, header_of
from orchestrate.app.resuming.changed import changes_of
from orchestrate.app.resuming.edit import NO_EDIT, EditRequest, ResumePlan, plan_edit
from orchestrate.app.resuming.frozen_run import frozen_agents, require_whole
from orchestrate.app.resuming.late_plans import LatePlans
from orchestrate.app.resuming.program import keep_flags, program_to_run, restore_late
from orchestrate.app.secrets import mask_settings, refuse_unset_late
from orchestrate.app.starting.concurrent_runs import WorkspaceEntry
from orchestrate.app.starting.prepare import Prepared
from orchestrate.app.starting.queues import archive_processed
from orchestrate.app.starting.single_step import as_started as reduced_as_started
from orchestrate.app.starting.start import RunOutcome, carry_out_anew
from orchestrate.app.working.carry_out import carry_out
from orchestrate.app.working.notify import notify_missed
from orchestrate.app.working.open_store import open_stored
from orchestrate.compile import compile_file, require_program
from orchestrate.dialects.lowering import constant_map
from orchestrate.errors import ConfigError, OrchestrateError, UsageError
from orchestrate.execute.place import is_same_place, place_of
from orchestrate.exits import DONE, ENDS, Ending
from orchestrate.git_head import head_of
from orchestrate.plan.nodes import Each, main_plan
from orchestrate.plan.override import with_context
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.clock import drop_anchor, holds, now_by
from orchestrate.state.events import RunResumed
from orchestrate.state.lineage import lineage_of, origin_journals
from orchestrate.state.locks import is_held
from orchestrate.state.model import Index
from orchestrate.state.plan_file import edits_of
from orchestrate.state.sessions import sessions_of
from orchestrate.view.advice import what_to_look_at
from orchestrate.view.cursors import put_aside
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.reading.open_run import Header
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.engine.stop import Stop
    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run, Runs
    from orchestrate.state.store import Store
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

_ELSEWHERE = "the run goes on in another place than before: agents begin new sessions"
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
    request: EditRequest = NO_EDIT,
) -> Resumed:
    """Go on with a run until it ends, is parked or is stopped."""
    _refuse_together(given, request, as_started=as_started)
    if given.backend is not None:
        given = replace(given, backend=own_name(given.backend))
    header = header_of(run)
    level = given.log_level or load_config(workspace).values.get("log_level")
    settings = replace(given.over(header.settings), log_level=level)
    _refuse_rehearsal(settings, header.settings)
    lock = claim_patiently(run, sys.argv)
    try:
        header = replace(header, settings=settings)
        program = program_to_run(
            header, workspace, reporter.note, as_started=as_started, is_edit=request.is_consent
        )
        given.check(program)
        values = _context_given(program, given, workspace, context)
        late = LatePlans(workspace, settings, header.root)
        index = Index(program, late.find, header.edit, edits_of(run))
        index.learn_edit(header.edit, program, late.find)
        store = open_stored(run, lock, index, reporter.note, repair=repair)
    except BaseException:
        lock.release()
        raise
    with stoppable() as stop:
        try:
            unbegun = _request_of_fork(store)
            request, as_started = unbegun or request, as_started and unbegun is None
            over = _is_over(run, store.state, reporter.place)
            if over is not None and not _may_reopen(store.state, request):
                _catch_up(store, program, workspace, settings, reporter)
                left_out = _edit_left_out(run, header, store.state, workspace, reporter)
                return Resumed(store, over[1], nothing_left=over[0] + left_out)
            require_worktree(run, store.state, load_config(workspace), reporter, stop)
            restore_late(late, store.state.late, run, reporter.note)
            resuming = _course(
                ResumePlan(store, header, program, late, settings, values),
                request, reporter, stop, as_started=as_started, is_over=over is not None,
            )  # fmt: skip
            if resuming is None:
                assert over is not None
                return Resumed(store, over[1], nothing_left=over[0])
            ending = _go_on(resuming, given, reporter, stop)
        finally:
            store.close()
        reporter.ended(store, ending)
        return Resumed(store, ending.code, ending)


def _go_on(resuming: ResumePlan, given: RunSettings, reporter: Reporter, stop: Stop) -> Ending:
    """Let the run work until it ends, is parked or is stopped."""
    store, program, settings = resuming.store, resuming.program, resuming.settings
    run, home = store.run, resuming.workspace
    working = in_worktree(home, store.state)
    with WorkspaceEntry(working, program, settings, reporter, run.id, home=home) as entry:
        entry.register(run)
        if resuming.begin is not None:
            resuming.begin()
        reporter.begins(store, store.state.definition, working, is_resumed=True)
        had = tuple(sessions_of(store.state))
        resumed = _record(resuming, given, reporter)
        reporter.started(run)
        moved = _moved_words(had, settings) if resumed.copied else ""
        ending = carry_out(
            store, program, home, settings, reporter, stop, resumed=resumed, moved=moved
        )
    _archive(program, working, run, settings, ending.status)
    return ending


def _request_of_fork(store: Store) -> EditRequest | None:
    """What was wished when a fork was made: until it has begun with that, it stands at nothing."""
    lineage = lineage_of(store.state)
    if lineage is None or store.state.edit:
        return None
    void: tuple[tuple[str, ...], ...] = ()
    if lineage.since:
        number, position = lineage.since
        journals = [path for _, path in origin_journals(store.run)]
        void = begun_since(journals, (number, position), only_with_files=True)
    redo, accept = (lineage.step, *lineage.redo), tuple(lineage.accept)
    return EditRequest(edited=True, redo=redo, accept=accept, void=void)


def _refuse_rehearsal(settings: RunSettings, before: RunSettings) -> None:
    if (settings.backend == "rehearsal") != (before.backend == "rehearsal"):
        raise UsageError(
            "a rehearsal cannot become a real run, nor a run a rehearsal: its steps were not done",
            "start a new one: orchestrate run",
        )


def _refuse_together(given: RunSettings, request: EditRequest, *, as_started: bool) -> None:
    if as_started and request.is_consent:
        raise UsageError(
            "--as-started takes the definition as it was, and the other flags as it is now",
            "leave one of them out",
        )
    both = sorted({*request.redo} & {*request.accept})
    if both:
        raise UsageError(f"'{both[0]}' cannot be accepted and done again", "leave one of them out")
    if given.session is not None:
        raise UsageError("the session of a run cannot change", "it was chosen when the run started")


def _course(
    resuming: ResumePlan,
    request: EditRequest,
    reporter: Reporter,
    stop: Stop,
    *,
    as_started: bool,
    is_over: bool,
) -> ResumePlan | None:
    """The course with the user's edits, where there are any; refused where it cannot be taken."""
    store, root = resuming.store, resuming.header.root
    found: ResumePlan | None = resuming
    if as_started:
        require_whole(store.run, root)
    else:
        found = plan_edit(resuming, request, reporter, stop, is_over=is_over)
    if found is None:
        return None
    is_edit = found.begin is not None
    if not is_edit:
        _refuse_results(store.state, found.program, dict(found.values))
        refuse_unset_late(found.late, store.state.late)
    agents = {} if is_edit else frozen_agents(root)
    refuse_unusable(found.program, found.workspace, found.settings, agents)
    return found


def _record(resuming: ResumePlan, given: RunSettings, reporter: Reporter) -> RunResumed:
    """Put the resume on record, with what is not tried again or not yet."""
    store, program, workspace = resuming.store, resuming.program, resuming.workspace
    values = dict(resuming.values)
    kept = mask_settings(given.kept(), secrets_to_run(program, workspace), reporter)
    keep_flags(program, resuming.late, store.state.late, kept)
    tell_unread_of(program, values, resuming.header.context, given, reporter.detail)
    resumed = _resumed(store, kept, values, workspace, given.sessions_here or ())
    if resumed.copied and not store.state.settings.get("seat"):
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
    values = context_of(program, given, workspace, context)
    return {key: secrets.data(value) for key, value in values.items()}


def _resumed(
    store: Store,
    given: dict[str, Any],
    values: dict[str, Any],
    workspace: Workspace,
    came: Sequence[str],
) -> RunResumed:
    clock = None if holds(store.state.clock) else drop_anchor()
    now = now_by(clock or store.state.clock)
    before, place = store.state.place, place_of(str(store.run.root))
    is_copy = not is_same_place(before, place)
    return RunResumed(
        at=now,
        settings=given,
        head=head_of(in_worktree(workspace, store.state).root),
        clock=clock,
        place="" if before == place else place,
        copied=is_copy,
        sessions=list(came) if is_copy else [],
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
                    f"'{name}' is the result of step '{node.name}' and cannot be set",
                    "values can be given only for what no step has set yet",
                )


def _moved_words(had: Sequence[tuple[str, str]], settings: RunSettings) -> str:
    """What its move means to the agents of a run in a seat, which had these sessions."""
    if settings.seat is None:
        return ""
    if settings.sessions_here is None:
        return _ELSEWHERE
    left = sorted({agent for agent, session in had if session not in settings.sessions_here})
    if not left:
        return ""
    return f"the run has moved without sessions of {', '.join(left)}, which begins new ones"


def _tell_put_aside(state: RunState, reporter: Reporter) -> None:
    """Items that failed and whose files were moved: their loops go on behind them."""
    for loop, index, where in put_aside(state):
        reporter.note(
            f"{visible(loop.name)}[{index}] is not tried again: it failed, and its file was moved "
            f"to {visible(where)}; move it back and start a new run for it, or leave it behind "
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
        working = in_worktree(workspace, store.state)
        _archive(program, working, store.run, settings, store.state.status)
    for trouble in notify_missed(store, program, workspace, reporter.place):
        reporter.note(f"orchestrate: {visible(trouble)}\n")


def _may_reopen(state: RunState, request: EditRequest) -> bool:
    """Can what is over be opened again? A completed run by any edit, an end that its author wrote
    only where steps are named; a person's no and a person's stop stay."""
    if state.status == "cancelled" or (state.ending is not None and state.ending.kind == "denied"):
        return False
    return request.is_consent if state.status == "completed" else request.name_steps


def _is_over(run: Run, state: RunState, place: Place) -> tuple[str, int] | None:
    """Why there is nothing to go on with, and the exit code; None if there is."""
    anew = visible(place.command("resume", run.id, "--force-restart"))
    if state.status == "completed":
        return f"run {run.id} is completed; there is nothing left to do", DONE
    if state.ending is not None and state.ending.kind == "denied":
        final = f"a denial is final; start it anew: {anew}"
        return f"run {run.id} was denied: {state.reason}; {final}", ENDS["denied"].code
    if state.status == "cancelled":
        return f"run {run.id} was cancelled; start it anew: {anew}", ENDS["cancelled"].code
    is_at_end = state.root.here is None and state.restart is None
    if state.status != "running" and is_at_end and state.ending is not None:
        reason = f"run {run.id} has {state.status}: {state.ending.reason}"
        text = f"{reason}; there is nothing left to do{_way_to_redo(run, state, place)}"
        return text, state.ending.code
    return None


def _way_to_redo(run: Run, state: RunState, place: Place) -> str:
    """How an end that its author wrote, or that came after failures, is opened again."""
    found = what_to_look_at(run.id, (), state, is_denied=False) or ()
    if state.status != "failed" or len(found) == 1:
        return ""
    redo = place.command("resume", run.id, "--redo", found[1])
    return f"\nto do '{visible(found[1])}' again: {visible(redo)}"


def _edit_left_out(
    run: Run, header: Header, state: RunState, workspace: Workspace, reporter: Reporter
) -> str:
    """A completed run is not opened by an edit alone: how to do so."""
    if state.status != "completed":
        return ""
    with suppress(OrchestrateError):
        changed = changes_of(run, header, state, workspace, reporter)
        if changed:
            edited = reporter.place.command("resume", header.run_id, "--edited")
            names = visible(", ".join(sorted(changed)))
            return f"\n{names} changed since; to go on with that: {visible(edited)}"
    return ""


def start_over(
    runs: Runs, found: Run, workspace: Workspace, given: RunSettings, reporter: Reporter
) -> RunOutcome:
    """A new run of the definition as it is now, with the earlier run's flags and context.

    Flags and values that are given now win over those.
    """
    if is_held(found.lock_file):
        raise ConfigError(f"run {found.id} is still running", "end it first: orchestrate cancel")
    header = header_of(found)
    if given.backend is not None:
        given = replace(given, backend=own_name(given.backend))
    settings = given.over(header.settings)
    if settings.worktree:
        settings = replace(settings, worktree="")  # the name is the earlier run's
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    program = reduced_as_started(require_program(compilation), settings)
    given.check(program)
    program = with_settings(program, settings)
    values = header.context | given_later(found) | context_of(program, given, workspace)
    program = with_context(program, constant_map(values))
    refuse_undefined(compilation, program)
    refuse_unusable(program, workspace, settings)
    return carry_out_anew(
        Prepared(compilation, program, workspace, settings, load_config(workspace)),
        runs,
        reporter,
        begun=lambda _: reporter.note(f"run {found.id} is started over as this run\n"),
    )
