"""What `resume` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.config.load import load_config
from orchestrate.app.given.exclusive import refuse_events
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.reading.default_run import paused_lines
from orchestrate.app.reading.open_run import find_stored, header_of
from orchestrate.app.resuming.edit import EditRequest
from orchestrate.app.resuming.resume import Resumed, resume, start_over
from orchestrate.cli.detach import detached
from orchestrate.cli.display import display_options
from orchestrate.cli.raising import go_on_with_more
from orchestrate.cli.reporting import CommandLine
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.runs import LATEST
from orchestrate.view.display_options import DisplayOptions
from orchestrate.view.place import Place
from orchestrate.view.result_document import result_document


def resume_run(
    run: str | None,
    settings: RunSettings,
    place: Place,
    *,
    as_json: bool,
    repair: bool = False,
    as_started: bool = False,
    edits: tuple[bool, tuple[str, ...], tuple[str, ...]] = (False, (), ()),
    force_restart: bool = False,
) -> int:
    """Go on with a run, or start it over; the latest if none is named."""
    refuse_events(settings, as_json)
    runs, found, workspace = find_stored(LATEST if run is None else run, place)
    if settings.detach:
        header_of(found)  # a damaged run is refused here, and not in another process
    starter = detached(settings, place, as_json)
    if isinstance(starter, int):
        return starter
    display = display_options(settings, as_json, load_config(workspace), place, starter)
    reporter = CommandLine(display, starter)
    if force_restart:
        return start_over(runs, found, workspace, settings, reporter).ending.code
    resumed = resume(
        found,
        workspace,
        settings,
        reporter,
        repair=repair,
        as_started=as_started,
        request=EditRequest(*edits),
    )
    if resumed.nothing_left:
        _tell_over(resumed, display)
        if run is None and resumed.store.state.status == "completed":
            note("".join(f"  {line}\n" for line in paused_lines(place, note_once)))
    more = go_on_with_more(resumed.store, resumed.ending, settings, display)
    return resumed.code if more is None else more


def _tell_over(resumed: Resumed, display: DisplayOptions) -> None:
    if display.as_json:
        store = resumed.store
        document = result_document(store.run, store.state, store.index)
        answer_json(document | {"message": resumed.nothing_left})
    else:
        (note if display.events else answer)(resumed.nothing_left + "\n")
