"""Starts runs: of a recipe, of one of its steps, or of an earlier run once more."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from orchestrate.app.config.load import runs_folder
from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.files.worktrees import OwnPlace, in_worktree, plan_worktree, require_worktree
from orchestrate.app.starting.concurrent_runs import WorkspaceEntry
from orchestrate.app.starting.new_run import start_run
from orchestrate.app.starting.prepare import Prepared, warn
from orchestrate.app.starting.queues import archive_processed, check_archive, clean_processed
from orchestrate.app.starting.stand_ins import holding_session, with_stand_in
from orchestrate.app.working.executors import begins_with_program, local_executor
from orchestrate.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrate.app.working.reporter import Reporter
    from orchestrate.exits import Ending
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace


@record
class RunOutcome:
    """How a run ended, was parked or was stopped; `store` is closed, its state can be read."""

    store: Store
    ending: Ending


def start(prepared: Prepared, reporter: Reporter) -> RunOutcome:
    """Start a run, and carry it out until it ends, is parked or is stopped."""
    program, workspace, settings = prepared.program, prepared.workspace, prepared.settings
    runs = runs_folder(workspace, prepared.config, reporter.place.state_dir)
    if settings.archive_processed:
        archive = os.path.abspath(settings.archive_processed)
        settings = replace(settings, archive_processed=archive)
    settings = with_stand_in(program, settings, runs)
    refuse_unusable(program, workspace, settings)
    check_archive(program, workspace, runs.folder, settings.archive_processed)

    def clean(working: Workspace) -> None:
        if settings.clean_processed:
            clean_processed(program, working, runs.folder)

    with holding_session(settings) as held:
        return carry_out_anew(
            replace(prepared, settings=settings),
            runs,
            reporter,
            before=clean,
            begun=lambda _: warn(prepared, reporter),
            held_session=held,
        )


def carry_out_anew(
    prepared: Prepared,
    runs: Runs,
    reporter: Reporter,
    *,
    what: str = "",
    before: Callable[[Workspace], None] = lambda _: None,
    begun: Callable[[Store], None] = lambda _: None,
    held_session: Lock | None = None,
    place: OwnPlace | None = None,
) -> RunOutcome:
    """A new run: `before` anything happens where it works, and once it has `begun`. Its `place` is
    the one that its settings ask for, or this."""
    program, workspace, settings = prepared.program, prepared.workspace, prepared.settings
    place = place or OwnPlace(plan_worktree(workspace, settings, prepared.config))
    planned = place.worktree
    with ExitStack() as stack, stoppable() as stop:

        def enter(place: Workspace) -> WorkspaceEntry:
            return stack.enter_context(
                WorkspaceEntry(place, program, settings, reporter, home=workspace)
            )

        # No other run can be in a worktree that is not there yet.
        entry = None
        if planned is None:
            entry = enter(workspace)
            before(workspace)
        store = start_run(
            runs, program, prepared.compilation, workspace, settings, reporter,
            worktree=planned, furnish=place.furnish,
        )  # fmt: skip
        working = in_worktree(workspace, store.state)
        local = local_executor(store, working)
        try:
            reporter.begins(store, what + store.state.definition, working, is_resumed=False)
            if entry is None:
                require_worktree(store.run, store.state, prepared.config, reporter, stop)
                entry = enter(working)
                before(working)
            entry.register(store.run)
            begun(store)
            reporter.started(store.run)
            if begins_with_program(program, settings):
                local.begin()
            # The keeper starts while the engine is loaded.
            from orchestrate.app.working.carry_out import carry_out

            ending = carry_out(
                store, program, workspace, settings, reporter, stop,
                held_session=held_session, local=local,
            )  # fmt: skip
            if ending.status == "completed":
                archive_processed(program, working, store.run, settings.archive_processed)
            place.left(store)
        finally:
            local.close(is_over=True)  # what the engine has not closed, it has not seen
            store.close()
        # Others may go on with the run, also while a stopped terminal does not take our last words.
        reporter.ended(store, ending)
        return RunOutcome(store, ending)
