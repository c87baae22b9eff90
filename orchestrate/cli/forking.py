"""What `fork` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.config.load import load_config
from orchestrate.app.files.fork import ForkRequest, fork, step_to_fork_from
from orchestrate.app.given.exclusive import refuse_events
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.reading.open_run import find_stored
from orchestrate.cli.detach import detached
from orchestrate.cli.display import display_options
from orchestrate.cli.reporting import CommandLine
from orchestrate.view.place import Place


def fork_run(
    run: str,
    step: str,
    settings: RunSettings,
    place: Place,
    *,
    request: tuple[tuple[str, ...], tuple[str, ...], bool],
    as_json: bool,
) -> int:
    """Fork a run; the exit code."""
    refuse_events(settings, as_json)
    wanted = ForkRequest(step_to_fork_from(step), *request)
    runs, found, workspace = find_stored(run, place)
    starter = detached(settings, place, as_json)
    if isinstance(starter, int):
        return starter
    display = display_options(settings, as_json, load_config(workspace), place, starter)
    return fork(runs, found, workspace, settings, wanted, CommandLine(display, starter)).code
