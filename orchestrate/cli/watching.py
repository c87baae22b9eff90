"""How a run is to be shown, from the flags of the command that carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.app.exclusive import refuse_at_once
from orchestrate.record import replace
from orchestrate.show.live.wanted import is_live
from orchestrate.view.watching import Watching

if TYPE_CHECKING:
    from orchestrate.app.config_model import Config
    from orchestrate.app.detach import Starter
    from orchestrate.app.settings import RunSettings
    from orchestrate.view.place import Place


def watching_of(
    settings: RunSettings,
    as_json: bool,
    config: Config,
    place: Place,
    starter: Starter | None = None,
) -> Watching:
    """How the run is to be shown."""
    refuse_at_once(settings)
    watching = Watching(
        quiet=settings.quiet,
        verbose=settings.verbose,
        progress=settings.progress,
        events=settings.events,
        raw=settings.raw,
        place=place,
    )
    if starter is not None:
        # No terminal: what is said goes to a log, as lines.
        return watching
    watching = replace(watching, as_json=as_json)
    return replace(watching, live=is_live(watching, settings.live, config.get("live")))
