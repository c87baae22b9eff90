"""`orchestrate run`: applies the flags to the plan, and carries it out or shows what would run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.apply_flags import with_defaults, with_flags
from orchestrate.app.definition import compiled, given_names, tell_warnings, workspace_of
from orchestrate.app.settings import RunSettings
from orchestrate.cli.options import (
    flag_options,
    json_option,
    refuse_events,
    state_dir_option,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json, note
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.app.detach import Departure
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


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
    from orchestrate.app.context import with_given_context
    from orchestrate.app.undefined import refuse_undefined

    settings = RunSettings(**flags)
    refuse_events(settings, as_json, dry_run)
    workspace = workspace_of(working_dir)
    compilation, program = compiled(file, workspace)
    settings.check(program)
    program = with_flags(with_given_context(program, settings, workspace), settings)
    refuse_undefined(compilation, program)
    if dry_run:
        if settings.detach:
            raise UsageError("--dry-run and --detach exclude each other")
        return _rehearse(compilation, program, workspace, settings, as_json)
    place = Place(working_dir, state_dir)
    departure = detach(settings, place, as_json) if settings.detach else None
    if isinstance(departure, int):
        return departure
    from orchestrate.app.start import execute

    return execute(compilation, program, workspace, settings, place, as_json, departure)


def _rehearse(
    compilation: Compilation,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    as_json: bool,
) -> int:
    """Show what would run, and refuse what a run would refuse without asking for a program."""
    from orchestrate.app.agents import refuse_settings
    from orchestrate.app.config import configured, load_config
    from orchestrate.app.unread_context import tell_unread

    settings = configured(settings, load_config(workspace))
    program = with_defaults(program, settings)
    refuse_settings(program, workspace, settings)
    if not settings.quiet:
        tell_warnings(compilation, given_names(program))
        tell_unread(compilation, program, settings)
    return _show(program, workspace, settings, as_json)


def detach(settings: RunSettings, place: Place, as_json: bool) -> Departure | int:
    """In the new process a departure; in the command, its exit code."""
    from orchestrate.app.detach import part_ways

    if settings.live:
        raise UsageError("--detach and --live exclude each other")
    return part_ways(place, as_json)


def _show(program: Program, workspace: Workspace, settings: RunSettings, as_json: bool) -> int:
    from orchestrate.app.agents_asked import asked_json, asked_lines, who_is_asked

    asked = who_is_asked(program, workspace, settings)
    if as_json:
        from orchestrate.plan.nodes import main_plan
        from orchestrate.plan.to_json import program_json

        dialect = main_plan(program).dialect
        document = {"dialect": dialect, "program": program_json(program)}
        answer_json(document | {"asked": asked_json(asked)})
    else:
        from orchestrate.show.dry_run import render_dry_run

        answer(render_dry_run(program))
        for line in asked_lines(asked):
            note(f"{line}\n")
    return 0
