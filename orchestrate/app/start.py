"""Starts runs: of a recipe, of one of its steps, or of an earlier run once more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrate.app.agents import refuse_unusable
from orchestrate.app.carry_out import carry_out, start_run
from orchestrate.app.concurrent_runs import entering
from orchestrate.app.config import runs_folder
from orchestrate.app.prepare import Prepared, warn
from orchestrate.app.queues import archive_processed, check_archive, clean_processed
from orchestrate.app.stand_ins import holding_session, with_stand_in
from orchestrate.app.stopping import stoppable
from orchestrate.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrate.app.reporter import Reporter
    from orchestrate.exits import Ending
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store


@record
class Outcome:
    """How a run ended, was parked or was stopped; `store` is closed, its state can be read."""

    store: Store
    ending: Ending


def start(prepared: Prepared, reporter: Reporter) -> Outcome:
    """Start a run, and carry it out until it ends, is parked or is stopped."""
    program, workspace, settings = prepared.program, prepared.workspace, prepared.settings
    runs = runs_folder(workspace, prepared.config, reporter.place.state_dir)
    if settings.archive_processed:
        archive = os.path.abspath(settings.archive_processed)
        settings = replace(settings, archive_processed=archive)
    settings = with_stand_in(program, settings, runs)
    refuse_unusable(program, workspace, settings)
    check_archive(program, workspace, runs.folder, settings.archive_processed)

    def clean() -> None:
        if settings.clean_processed:
            clean_processed(program, workspace, runs.folder)

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
    before: Callable[[], None] = lambda: None,
    begun: Callable[[Store], None] = lambda _: None,
    held_session: Lock | None = None,
) -> Outcome:
    """A new run: `before` it has a folder, and once it has `begun`."""
    program, workspace, settings = prepared.program, prepared.workspace, prepared.settings
    with entering(workspace, program, settings, reporter) as entrance, stoppable() as stop:
        before()
        store = start_run(runs, program, prepared.compilation, workspace, settings, reporter)
        try:
            entrance.enter(store.run)
            reporter.begins(store, what + store.state.definition, workspace, is_resumed=False)
            begun(store)
            reporter.started(store.run)
            ending = carry_out(
                store, program, workspace, settings, reporter, stop, held_session=held_session
            )
            if ending.status == "completed":
                archive_processed(program, workspace, store.run, settings.archive_processed)
        finally:
            store.close()
        # Others may go on with the run, also while a stopped terminal does not take our last words.
        reporter.ended(store, ending)
        return Outcome(store, ending)
