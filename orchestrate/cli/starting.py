"""What `run`, `resume` and `run-step` do, apart from their options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.config import load_config
from orchestrate.app.open_run import find_stored, header_of
from orchestrate.app.resume import Resumed, resume, start_over
from orchestrate.app.settings import RunSettings
from orchestrate.app.start import Prepared, prepare, rehearse, start
from orchestrate.app.start_step import prepare_step, start_step
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.detach import detached
from orchestrate.cli.options import refuse_events, watching_of
from orchestrate.cli.reporting import CommandLine
from orchestrate.errors import UsageError
from orchestrate.exits import DONE
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.to_json import program_json
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.progress import summary
from orchestrate.view.place import Place
from orchestrate.view.watching import Watching


def run_recipe(
    file: str, settings: RunSettings, place: Place, *, dry_run: bool, as_json: bool
) -> int:
    """Run a recipe, or show what would run."""
    refuse_events(settings, as_json, dry_run)
    if dry_run and settings.detach:
        raise UsageError("--dry-run and --detach exclude each other")
    prepared = prepare(file, workspace_of(place.working_dir), settings)
    if dry_run:
        return _show(prepared, as_json)
    departure = detached(settings, place, as_json)
    if isinstance(departure, int):
        return departure
    watching = watching_of(prepared.settings, as_json, prepared.config, place, departure)
    return start(prepared, CommandLine(watching, departure)).ending.code


def _show(prepared: Prepared, as_json: bool) -> int:
    """What would run, and who would be asked."""
    program = prepared.program
    lines, asked = rehearse(prepared, CommandLine(Watching(quiet=prepared.settings.quiet)))
    if as_json:
        dialect = main_plan(program).dialect
        answer_json({"dialect": dialect, "program": program_json(program), "asked": asked})
    else:
        answer(render_dry_run(program))
        note("".join(f"{line}\n" for line in lines))
    return DONE


def run_one_step(
    file: str,
    step: str,
    settings: RunSettings,
    place: Place,
    from_run: str | None,
    *,
    as_json: bool,
) -> int:
    """Run a single step as a run of its own."""
    refuse_events(settings, as_json)
    workspace = workspace_of(place.working_dir)
    prepared, given = prepare_step(file, step, workspace, settings, from_run, place)
    watching = watching_of(prepared.settings, as_json, prepared.config, place)
    return start_step(prepared, given, CommandLine(watching)).ending.code


def resume_run(
    run: str,
    settings: RunSettings,
    place: Place,
    *,
    as_json: bool,
    repair: bool,
    as_started: bool,
    force_restart: bool,
) -> tuple[int, bool]:
    """Go on with a run, or start it over; the exit code, and whether it was completed before."""
    refuse_events(settings, as_json)
    runs, found, workspace = find_stored(run, place.working_dir, place.state_dir)
    header_of(found)
    departure = detached(settings, place, as_json)
    if isinstance(departure, int):
        return departure, False
    watching = watching_of(settings, as_json, load_config(workspace), place, departure)
    reporter = CommandLine(watching, departure)
    if force_restart:
        return start_over(runs, found, workspace, settings, reporter).ending.code, False
    resumed = resume(found, workspace, settings, reporter, repair=repair, as_started=as_started)
    if resumed.nothing_left:
        _tell_over(resumed, watching)
    is_completed = bool(resumed.nothing_left) and resumed.store.state.status == "completed"
    return resumed.code, is_completed


def _tell_over(resumed: Resumed, watching: Watching) -> None:
    if watching.as_json:
        answer_json(summary(resumed.store) | {"message": resumed.nothing_left})
    else:
        (note if watching.events else answer)(resumed.nothing_left + "\n")
