"""How much of a run is shown to those who watch it."""

from __future__ import annotations

from collections.abc import Callable

from orchestrate.record import record
from orchestrate.state.runs import Run
from orchestrate.view.place import Place


@record
class Watching:
    """How a run is shown and logged; nothing here changes what it does."""

    debug: bool = False
    debug_env: tuple[str, ...] = ()
    trace: bool = False
    backup_state: bool = False
    quiet: bool = False
    verbose: bool = False
    progress: bool = False
    as_json: bool = False
    log_level: str = "info"
    live: bool = False
    # Events on stdout as JSON lines, instead of answers.
    events: bool = False
    raw: bool = False
    # For the commands that are advised.
    place: Place = Place()
    # Told in a process that was started for a run alone (`-d`) once the run is on record.
    on_started: Callable[[Run], None] | None = None

    def started(self, run: Run) -> None:
        """The run is on record, and nothing of it has been carried out yet."""
        if self.on_started is not None:
            self.on_started(run)
