"""A run has parked at a limit, and a person is at the terminal: may it have more?

The question comes when the run is on record as parked, so that a kill, or no answer, leaves what
there is without a terminal; a yes is the `resume` that is advised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.given.settings import RunSettings, settings_of
from orchestrate.app.resuming.raised_limits import RAISED_BY, read_limit
from orchestrate.app.working.reporter import CONVERSATION
from orchestrate.cli.later import later
from orchestrate.cli.terminal import has_terminal, read_line
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.show.output import note
from orchestrate.state.budget import Budget
from orchestrate.view.advice import Reached, as_started_flag, resume_flags

if TYPE_CHECKING:
    from orchestrate.exits import Ending
    from orchestrate.state.store import Store
    from orchestrate.view.display_options import DisplayOptions

_resume_run = later("cli.resuming:resume_run")
_LONGEST_WORD = 40


def go_on_with_more(
    store: Store, ending: Ending | None, settings: RunSettings, display: DisplayOptions
) -> int | None:
    """Ask, and go on if the answer allows more: the exit code of that; None where it stays as it
    is."""
    is_asked = has_terminal() and not (display.as_json or display.events or settings.detach)
    if ending is None or ending.kind not in RAISED_BY or not is_asked:
        return None
    if ending.kind == "quota" and not _is_distrusted(store):
        return None  # the user does not want to wait, and to ask again now is of no use
    with CONVERSATION, stoppable() as stop:
        given = _ask(store, ending, lambda: read_line(stop))
    if given is None:
        return None
    return _resume_run(
        store.run.id,
        given.with_unkept(settings),
        display.place,
        as_json=False,
        as_started=bool(as_started_flag(store.run, store.state)),
    )


def _is_distrusted(store: Store) -> bool:
    """Has the run parked because of a reset time that cannot be one?"""
    return settings_of(store.state.settings).wait_for_quota is not False


def _ask(store: Store, ending: Ending, read: Callable[[], str | None]) -> RunSettings | None:
    """The limit that the person allows; None to leave the run parked."""
    name = RAISED_BY[ending.kind]
    flags = resume_flags(ending, Reached.of(store.state)) or ()
    offer = "Go on with " + (" ".join(flags) or "as much again")
    if ending.kind == "quota":
        offer = "Ask again now"
    other = ", or type another limit" if name else ""
    while True:
        note(f"{offer}? [y]es, [n]o{other}: ")
        typed = read()
        word = "no" if typed is None else typed.strip().lower()
        if typed is None:
            note("\n")
        if word and "no".startswith(word):
            return None
        is_yes = bool(word) and "yes".startswith(word)
        if is_yes and not name:
            return RunSettings()
        value = read_limit(name, flags[1] if is_yes else word) if name else None
        used = float(ending.budget.get("spent", 0))
        if value is not None and value > used:
            return replace(RunSettings(), **{name: value})
        if value is not None:
            already = Budget(**ending.budget).used_words
            note(f"{already} already: type a limit above that\n")
            continue
        wanted = " or a limit" if name else ""
        note(f"'{visible(word[:_LONGEST_WORD])}' is not an answer here: type y, n{wanted}\n")
