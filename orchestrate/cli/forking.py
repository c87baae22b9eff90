"""What `fork` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.config import load_config
from orchestrate.app.exclusive import refuse_events
from orchestrate.app.fork import ForkWishes, fork, step_to_fork_from
from orchestrate.app.open_run import find_stored
from orchestrate.app.settings import RunSettings
from orchestrate.cli.detach import detached
from orchestrate.cli.reporting import CommandLine
from orchestrate.cli.watching import watching_of
from orchestrate.view.place import Place


def fork_run(
    run: str,
    step: str,
    settings: RunSettings,
    place: Place,
    *,
    wishes: tuple[tuple[str, ...], tuple[str, ...], bool],
    as_json: bool,
) -> int:
    """Fork a run; the exit code."""
    refuse_events(settings, as_json)
    wanted = ForkWishes(step_to_fork_from(step), *wishes)
    runs, found, workspace = find_stored(run, place)
    departure = detached(settings, place, as_json)
    if isinstance(departure, int):
        return departure
    watching = watching_of(settings, as_json, load_config(workspace), place, departure)
    return fork(runs, found, workspace, settings, wanted, CommandLine(watching, departure)).code
