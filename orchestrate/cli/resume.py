"""`orchestrate resume`: goes on with a run after anything, at the right point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.cli.config import load_config, with_defaults
from orchestrate.cli.options import (
    agent_options,
    detach_option,
    json_option,
    state_dir_option,
    watching_of,
    watching_options,
    working_dir_option,
)
from orchestrate.cli.output import answer, answer_json, note
from orchestrate.cli.run import OVERRIDES, apply_flags, override_options, plan_flags
from orchestrate.errors import ConfigError, DefinitionError, UsageError
from orchestrate.plan.override import known_backend, require_applicable
from orchestrate.plan.visible import visible
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.cli.running import LatePlans, Watching
    from orchestrate.cli.stored import Header
    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run, Runs
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace


@click.command(short_help="Go on with a run that was stopped, failed or parked.")
@click.argument("run", metavar="RUN")
@click.option("--repair", is_flag=True, help="Go back to the newest valid state of a damaged run.")
@click.option(
    "--force-restart",
    is_flag=True,
    help="Start over under a new run id, with the flags and context of the first start.",
)
@override_options
@agent_options
@detach_option
@watching_options
@state_dir_option
@working_dir_option
@json_option
def resume(
    run: str,
    repair: bool,
    force_restart: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Go on with a run: RUN is its id, the beginning of one, or `latest`.

    A step that is recorded as done is not done again; an agent that still runs is adopted; a step
    that failed is tried again. A run whose definition has changed is refused. Flags hold as they
    were given to `run` unless they are given again.
    """
    from orchestrate.cli.stored import find_stored, header_of

    names = (
        *OVERRIDES, "system_prompt", "permissions", "silence_timeout", "session", "script",
        "recording",
    )  # fmt: skip
    given = {name: flags[name] for name in names if flags[name] not in (None, ())}
    if "backend" in given:
        given["backend"] = known_backend(given["backend"])
    if "session" in given:
        raise UsageError("the session of a run cannot change", "it was chosen when the run started")
    if "context" in given or "context_file" in given:
        raise UsageError(
            "the context of a run cannot change", "it was read when the run started; start anew"
        )
    runs, found, workspace = find_stored(run, working_dir, state_dir)
    header = header_of(found)
    if flags["detach"]:
        from orchestrate.cli.detaching import depart
        from orchestrate.cli.looking import Place

        code = depart(flags, Place(working_dir, state_dir), as_json)
        if code is not None:
            return code
    watching = watching_of(flags, as_json, load_config(workspace))
    if force_restart:
        return _start_over(runs, found, header, workspace, watching)
    return _go_on(found, header, workspace, watching, given, repair=repair)


def _go_on(
    found: Run,
    header: Header,
    workspace: Workspace,
    watching: Watching,
    given: dict[str, Any],
    *,
    repair: bool,
) -> int:
    import sys

    from orchestrate.cli.agents import refuse_unusable
    from orchestrate.cli.execution import only_run_of
    from orchestrate.cli.looking import program_of
    from orchestrate.cli.running import LatePlans, carry_out, show_end, stoppable
    from orchestrate.cli.stored import open_stored
    from orchestrate.state.runs import Runs, claim_run

    lock = claim_run(found, sys.argv)
    try:
        settings = {**header.settings, **given}
        program = program_of(replace(header, settings=settings), workspace)
        if "backend" in given:
            require_applicable(program, "--backend")
        store = open_stored(found, lock, program, workspace, repair=repair)
    except BaseException:
        lock.release()
        raise
    with stoppable() as stop:
        try:
            over = _is_over(found, store.state)
            if over is not None:
                _catch_up(store, program, workspace, settings)
                return _tell_over(over, store, watching)
            _refuse_changed_late(store.state, LatePlans(workspace, settings))
            refuse_unusable(program, workspace, settings)
            may_be_one_of_many = settings.get("allow_concurrent", False)
            with only_run_of(Runs(found.root.parent), program, may_be_one_of_many):
                note_first(store)
                store.record(_resumed(store, given, workspace))
                watching.started(store)
                ending = carry_out(store, program, workspace, watching, stop, is_resumed=True)
            _archive(program, workspace, found, settings, ending.status)
        finally:
            store.close()
        return show_end(store, ending, watching)


def _resumed(store: Store, given: dict[str, Any], workspace: Workspace) -> Any:
    from orchestrate.engine.head import head_of
    from orchestrate.state.clock import drop_anchor, holds, now_by
    from orchestrate.state.events import RunResumed

    clock = None if holds(store.state.clock) else drop_anchor()
    now = now_by(clock or store.state.clock)
    return RunResumed(now, given, head_of(workspace.root), clock)


def note_first(store: Store) -> None:
    from orchestrate.cli.progress import first_words

    note(first_words(store.run.id, store.state.definition, is_resumed=True))


def _archive(
    program: Program, workspace: Workspace, run: Run, settings: dict[str, Any], status: str
) -> None:
    if status == "completed":
        from orchestrate.cli.queues import archive_processed

        archive_processed(program, workspace, run, settings.get("archive_processed"))


def _catch_up(
    store: Store, program: Program, workspace: Workspace, settings: dict[str, Any]
) -> None:
    """What a kill after the last event left undone: the state's file, the archive, and the news."""
    from orchestrate.cli.notifying import tell_owed

    if store.is_behind():
        store.checkpoint(durable=True)
        _archive(program, workspace, store.run, settings, store.state.status)
    for trouble in tell_owed(store, program, workspace):
        note(f"orchestrate: {visible(trouble)}\n")


def _is_over(run: Run, state: RunState) -> tuple[str, int] | None:
    """Why there is nothing to go on with, and the exit code; None if there is."""
    if state.status == "completed":
        return f"run {run.id} is completed; there is nothing left to do", 0
    if any(gate["status"] == "denied" for gate in state.approvals):
        return f"run {run.id} was denied: {state.reason}; a denial is final", 1
    if state.status == "cancelled":
        return f"run {run.id} was cancelled; start it anew", 1
    is_at_end = state.root.here is None and state.restart is None
    if state.status != "running" and is_at_end and state.ending is not None:
        reason = f"run {run.id} has {state.status}: {state.ending.reason}"
        return f"{reason}; there is nothing left to do", state.ending.code
    return None


def _tell_over(over: tuple[str, int], store: Store, watching: Watching) -> int:
    from orchestrate.cli.progress import summary

    message, code = over
    if watching.as_json:
        answer_json(summary(store) | {"message": message})
    else:
        answer(message + "\n")
    return code


def recompile(header: Header, workspace: Workspace) -> Program:
    """The program again; refused, with the names, if a file of it has changed (rulings §6)."""
    from orchestrate.cli.running import checksums
    from orchestrate.compile import compile_file, require_program

    compilation = compile_file(workspace.root / header.definition, workspace)
    now = checksums(compilation, workspace)
    _refuse_changed(header.run_id, header.sources, now)
    return require_program(compilation)


def _refuse_changed(run_id: str, before: dict[str, str], now: dict[str, str]) -> None:
    changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    if changed:
        names = ", ".join(
            path + ("" if path in now else " (gone)") + ("" if path in before else " (new)")
            for path in changed
        )
        raise UsageError(
            f"the definition of run {run_id} has changed: {names}",
            f"put the files back, or start over with: orchestrate resume {run_id} --force-restart",
        )


def _refuse_changed_late(state: RunState, late: LatePlans) -> None:
    """The same for recipes that the run found on its way."""
    for plan_id, before in state.late.items():
        try:
            now = late.compile(plan_id)[1]
        except DefinitionError:
            now = {**before, plan_id: "not valid any more"}
        _refuse_changed(state.run_id, before, now)


def _start_over(
    runs: Runs, found: Run, header: Header, workspace: Workspace, watching: Watching
) -> int:
    """A new run of the definition as it is now, with the first start's flags and context."""
    from orchestrate.cli.agents import refuse_unusable
    from orchestrate.cli.running import carry_out, show_end, start_run, stoppable
    from orchestrate.cli.single import as_started
    from orchestrate.compile import compile_file, require_program
    from orchestrate.dialects.lowering import constant_map
    from orchestrate.plan.override import with_context
    from orchestrate.state.locks import is_held

    if is_held(found.lock_file):
        raise ConfigError(f"run {found.id} is still running", "end it first: orchestrate cancel")
    compilation = compile_file(workspace.root / header.definition, workspace)
    program = as_started(require_program(compilation), header.settings)
    program = apply_flags(program, plan_flags(header.settings), workspace)
    program = with_defaults(program, header.settings.get("defaults", {}))
    program = with_context(program, constant_map(header.context))
    refuse_unusable(program, workspace, header.settings)
    with stoppable() as stop:
        store, _ = start_run(runs, program, compilation, workspace, dict(header.settings))
        try:
            from orchestrate.cli.progress import first_words

            note(first_words(store.run.id, store.state.definition, is_resumed=False))
            note(f"it starts over what run {found.id} was\n")
            watching.started(store)
            ending = carry_out(store, program, workspace, watching, stop)
            _archive(program, workspace, store.run, header.settings, ending.status)
        finally:
            store.close()
        return show_end(store, ending, watching)
