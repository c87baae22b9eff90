"""`orchestrate run`: starts a run of a recipe, or shows what would run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.settings import RunSettings
from orchestrate.cli.options import (
    flag_options,
    json_option,
    refuse_events,
    state_dir_option,
    watching_of,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json, note
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.app.start import Prepared


@click.command(short_help="Run a recipe.")
@click.argument("file", metavar="FILE|ID")
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@flag_options("plan", "context", "queue", "agents", "concurrency", "detach", "output")
@state_dir_option
@working_dir_option
@json_option
def run(
    file: str,
    dry_run: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a recipe, given as a file or by its id.

    Every step is recorded under .orchestrate/runs/RUN_ID as it happens; `orchestrate resume`
    goes on from there after anything. With --dry-run nothing is started or written; the
    configuration and the flags are applied as in a run. A flag that has no meaning for the file's
    dialect is an error.
    """
    from orchestrate.app.definition import workspace_of
    from orchestrate.app.start import prepare, start
    from orchestrate.cli.detach import detached
    from orchestrate.cli.reporting import CommandLine

    settings = RunSettings(**flags)
    refuse_events(settings, as_json, dry_run)
    if dry_run and settings.detach:
        raise UsageError("--dry-run and --detach exclude each other")
    place = Place(working_dir, state_dir)
    prepared = prepare(file, workspace_of(working_dir), settings)
    if dry_run:
        return _show(prepared, as_json)
    departure = detached(settings, place, as_json)
    if isinstance(departure, int):
        return departure
    watching = watching_of(prepared.settings, as_json, prepared.config, place, departure)
    return start(prepared, CommandLine(watching, departure)).ending.code


def _show(prepared: Prepared, as_json: bool) -> int:
    """What would run, and who would be asked."""
    from orchestrate.app.agents_asked import asked_json, asked_lines, who_is_asked
    from orchestrate.app.start import rehearse
    from orchestrate.cli.reporting import CommandLine
    from orchestrate.plan.nodes import main_plan
    from orchestrate.plan.to_json import program_json
    from orchestrate.show.dry_run import render_dry_run
    from orchestrate.view.watching import Watching

    program, settings = prepared.program, prepared.settings
    rehearse(prepared, CommandLine(Watching(quiet=settings.quiet)))
    asked = who_is_asked(program, prepared.workspace, settings)
    if as_json:
        document = {"dialect": main_plan(program).dialect, "program": program_json(program)}
        answer_json(document | {"asked": asked_json(asked)})
        return 0
    answer(render_dry_run(program))
    for line in asked_lines(asked):
        note(f"{line}\n")
    return 0
