"""Starts runs: of a recipe, of one of its steps, or of an earlier run once more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.app.agents import (
    refuse_settings,
    refuse_unusable,
)
from orchestrate.app.agents_asked import asked_json, asked_lines, who_is_asked
from orchestrate.app.apply_flags import configured, with_defaults, with_flags
from orchestrate.app.carry_out import carry_out, start_run
from orchestrate.app.concurrent_runs import entering
from orchestrate.app.config import load_config, runs_folder
from orchestrate.app.config_model import Config
from orchestrate.app.context import with_given_context
from orchestrate.app.definition import compiled, given_names, without_given
from orchestrate.app.queues import archive_processed, check_archive, clean_processed
from orchestrate.app.stand_ins import holding_session, with_stand_in
from orchestrate.app.stopping import stoppable
from orchestrate.app.undefined import refuse_undefined
from orchestrate.app.unread_context import tell_unread
from orchestrate.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrate.app.reporter import Reporter
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.exits import Ending
    from orchestrate.plan.nodes import Program
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace


@record
class Prepared:
    """A recipe that could be run: compiled, with its settings applied to it."""

    compilation: Compilation
    program: Program
    workspace: Workspace
    settings: RunSettings
    config: Config


@record
class Outcome:
    """How a run ended, was parked or was stopped; `store` is closed, its state can be read."""

    store: Store
    ending: Ending


def prepare(
    file: str,
    workspace: Workspace,
    settings: RunSettings,
    context: Mapping[str, Any] = MappingProxyType({}),
) -> Prepared:
    """Compile a recipe, and apply flags, context and configuration; refuse what cannot work."""
    compilation, program = compiled(file, workspace)
    settings.check(program)
    program = with_given_context(program, settings, workspace, context)
    program = with_flags(program, settings)
    refuse_undefined(compilation, program)
    config = load_config(workspace)
    settings = configured(settings, config)
    program = with_defaults(program, settings)
    return Prepared(compilation, program, workspace, settings, config)


def rehearse(prepared: Prepared, reporter: Reporter) -> tuple[list[str], list[dict[str, Any]]]:
    """Whom a run would ask, as lines and as data; it is refused and warned of as a run would be."""
    refuse_settings(prepared.program, prepared.workspace, prepared.settings)
    _warn(prepared, reporter)
    asked = who_is_asked(prepared.program, prepared.workspace, prepared.settings)
    return list(asked_lines(asked)), asked_json(asked)


def _warn(prepared: Prepared, reporter: Reporter) -> None:
    compilation, program = prepared.compilation, prepared.program
    found = without_given(compilation, given_names(program))
    if found:
        reporter.findings(found, compilation.dropped)
    tell_unread(compilation, program, prepared.settings, reporter)


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
            begun=lambda _: _warn(prepared, reporter),
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
    with entering(workspace, program, settings, reporter) as door, stoppable() as stop:
        before()
        store = start_run(runs, program, prepared.compilation, workspace, settings, reporter)
        try:
            door.enter(store.run)
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
