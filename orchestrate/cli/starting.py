"""What `run` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.given.exclusive import refuse_events
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.prepare import prepare
from orchestrate.app.starting.start import start
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.asking import asking
from orchestrate.cli.detach import detached
from orchestrate.cli.display import display_options
from orchestrate.cli.later import later
from orchestrate.cli.raising import go_on_with_more
from orchestrate.cli.reporting import CommandLine
from orchestrate.cli.terminal import agrees
from orchestrate.view.place import Place

_confirm_cost = later("cli.confirming:confirm_at_terminal")
_run_elsewhere = later("fleet.away:run_elsewhere")
_show_cover = later("cli.covering:show_cover")


def run_recipe(
    file: str, settings: RunSettings, place: Place, *, text: str | None, as_json: bool
) -> int:
    refuse_events(settings, as_json)
    workspace = workspace_of(place.working_dir)
    # What a secret input is, only the machine knows that the run is on.
    is_away = settings.fleet is not None
    prepared = prepare(file, workspace, settings, text=text, ask=asking(), may_lack=is_away)
    if settings.confirm_above is not None:
        _confirm_cost(prepared)
    if settings.fleet is not None:
        return _run_elsewhere(prepared, file, text, place, agrees, as_json=as_json)
    if prepared.settings.cover:
        return _show_cover(prepared, as_json=as_json)
    starter = detached(settings, place, as_json)
    if isinstance(starter, int):
        return starter
    display = display_options(prepared.settings, as_json, prepared.config, place, starter)
    outcome = start(prepared, CommandLine(display, starter))
    more = go_on_with_more(outcome.store, outcome.ending, settings, display)
    return outcome.ending.code if more is None else more
