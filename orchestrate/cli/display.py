"""How a run is to be shown, from the flags of the command that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.app.given.exclusive import refuse_at_once
from orchestrate.record import replace
from orchestrate.show.live.wanted import is_live
from orchestrate.view.display_options import DisplayOptions

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.starting.detach import Starter
    from orchestrate.view.place import Place


def display_options(
    settings: RunSettings,
    as_json: bool,
    config: Config,
    place: Place,
    starter: Starter | None = None,
) -> DisplayOptions:
    """How the run is to be shown."""
    refuse_at_once(settings)
    display = DisplayOptions(
        quiet=settings.quiet,
        verbose=settings.verbose,
        progress=settings.progress,
        events=settings.events,
        raw=settings.raw,
        place=place,
    )
    if starter is not None:
        # No terminal: what is said goes to a log, as lines.
        return display
    display = replace(display, as_json=as_json)
    return replace(display, live=is_live(display, settings.live, config.get("live")))
