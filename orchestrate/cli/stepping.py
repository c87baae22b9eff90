"""What `run-step` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.given.exclusive import refuse_events
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.start_step import prepare_scratch, prepare_step, start_step
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.display import display_options
from orchestrate.cli.reporting import CommandLine
from orchestrate.view.place import Place


def run_one_step(
    file: str | None,
    step: str,
    settings: RunSettings,
    place: Place,
    from_run: str | None,
    *,
    scratch_of: str | None,
    as_json: bool,
) -> int:
    """Run a single step as a run of its own."""
    refuse_events(settings, as_json)
    workspace = workspace_of(place.working_dir)
    if scratch_of is not None:
        prepared, given = prepare_scratch(step, settings, scratch_of, place)
    else:
        prepared, given = prepare_step(str(file), step, workspace, settings, from_run, place)
    display = display_options(prepared.settings, as_json, prepared.config, place)
    return start_step(prepared, given, CommandLine(display)).ending.code
