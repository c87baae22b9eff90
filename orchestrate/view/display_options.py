"""How a run is shown: what the flags of a command and its terminal ask for."""

from __future__ import annotations

from orchestrate.record import record
from orchestrate.view.place import Place


@record
class DisplayOptions:
    """How a run is shown; nothing here changes what it does."""

    quiet: bool = False
    verbose: bool = False
    progress: bool = False
    as_json: bool = False
    live: bool = False
    # Events on stdout as JSON lines, instead of answers.
    events: bool = False
    raw: bool = False
    # For the commands that are advised.
    place: Place = Place()
