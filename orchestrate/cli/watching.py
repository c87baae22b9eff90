"""How a run is to be shown, from the flags of the command that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.errors import UsageError
from orchestrate.record import replace
from orchestrate.show.live.wanted import is_live
from orchestrate.view.watching import Watching

if TYPE_CHECKING:
    from orchestrate.app.config_model import Config
    from orchestrate.app.settings import RunSettings
    from orchestrate.cli.detach import Departure
    from orchestrate.view.place import Place


def watching_of(
    settings: RunSettings,
    as_json: bool,
    config: Config,
    place: Place,
    departure: Departure | None = None,
) -> Watching:
    """How the run is to be shown."""
    if settings.quiet and settings.verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    if settings.debug_env and not settings.debug:
        raise UsageError("--debug-env needs --debug")
    watching = Watching(
        quiet=settings.quiet,
        verbose=settings.verbose,
        progress=settings.progress,
        events=settings.events,
        raw=settings.raw,
        place=place,
    )
    if departure is not None:
        # No terminal: what is said goes to a log, as lines.
        return watching
    watching = replace(watching, as_json=as_json)
    return replace(watching, live=is_live(watching, settings.live, config.get("live")))


def refuse_events(settings: RunSettings, as_json: bool, dry_run: bool = False) -> None:
    """`--events` is a stream of documents, `--json` is one: they cannot share stdout."""
    if not settings.events:
        return
    if as_json:
        raise UsageError(
            "--events and --json exclude each other",
            "--events gives many documents, one a line; --json gives one at the end",
        )
    if settings.detach:
        raise UsageError(
            "--events and --detach exclude each other",
            "start it, then: orchestrate logs latest -f --events",
        )
    if dry_run:
        raise UsageError("--events and --dry-run exclude each other", "nothing happens in one")
