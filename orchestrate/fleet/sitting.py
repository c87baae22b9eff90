"""`seat sit`: the process of one sitting. It takes the seat, does what was wished, and goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrate.app.deciding.decide import decide
from orchestrate.app.ending.end_run import cancel_run
from orchestrate.app.given.settings import FLAGS, RunSettings
from orchestrate.app.working.session_files import lay_out_sessions
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import ConfigError, StateError, UsageError
from orchestrate.exits import DONE, FAILED
from orchestrate.fleet.engine import seat_for
from orchestrate.fleet.extra import with_extra
from orchestrate.fleet.notes import sitting_of
from orchestrate.fleet.protocol import Decision, Sitting
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.settings import load_fleet
from orchestrate.fleet.spread import Items, keep_order
from orchestrate.fleet.take import catch_up, publish_rest, take_seat
from orchestrate.record import replace
from orchestrate.show.output import note
from orchestrate.state.items_away import items_of
from orchestrate.state.runs import Run
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

# What `run` and `resume` do; they give an exit code.
RunRecipe = Callable[..., int]
ResumeRun = Callable[..., int]
_open_items: Callable[..., Items] = with_extra("server_items:open_items")


def hold_sitting(document: Mapping[str, Any], run_recipe: RunRecipe, resume_run: ResumeRun) -> int:
    """Work on a run until it ends, waits or is stopped; its exit code."""
    sitting = sitting_of(dict(document))
    order, wish = sitting.order, sitting.wish
    seat = seat_for(sitting, Path(document["root"]), document["machine"])
    given = flags_given({**order.flags, **wish.flags})
    is_gone = bool(wish.kept) and not catch_up(seat)
    has_begun = take_seat(seat, is_sha256=order.is_sha256, prepare=order.prepare)
    keep_order(seat, order)
    if wish.lost or is_gone:
        _announce_loss(seat, wish.lost or wish.kept, has_begun=has_begun)
    os.chdir(seat.workspace)
    place = Place(str(seat.workspace), str(seat.states))
    if wish.verb == "cancel":
        return _cancel(sitting, seat)
    if not has_begun:
        settings = RunSettings(**given, seat=seat.to_json())
        return run_recipe(order.file, settings, place, text=order.text, as_json=False)
    run = Run(seat.run, seat.folder)
    for decision in wish.decisions:
        decide_there(run, seat, decision)
    if wish.decisions and run_view(run).is_denied:
        publish_rest(seat)
        return FAILED
    state = run_view(run).state
    lost = wish.lost if state.status == "running" else ""
    is_same_place = state.settings["seat"]["root"] == seat.root
    here = lay_out_sessions(state, run, os.environ) if is_same_place else None
    settings = RunSettings(
        **flags_given(wish.flags), seat=seat.to_json(), lost_with=lost, sessions_here=here
    )
    return resume_run(run.id, settings, place, as_json=False)


def flags_given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags as they were given elsewhere; one that is not known here is refused by name."""
    unknown = [name for name in flags if name not in FLAGS]
    if unknown:
        raise ConfigError(
            f"orchestrate here does not know the flag '{unknown[0]}'",
            "install the same version of orchestrate on both machines",
        )
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in flags.items()
    }


def _announce_loss(seat: Seat, machine: str, *, has_begun: bool) -> None:
    what = "what it did since the last publication is lost" if has_begun else "it begins anew"
    note(f"orchestrate: run {seat.run} was on {machine}, which no longer responds: {what}\n")


def decide_there(run: Run, seat: Seat, decision: Decision) -> None:
    """In the name of the person who decided; a gate that was decided before stays as it is."""
    workspace = workspace_of(str(seat.workspace))
    with _as_user(decision.by), suppress(UsageError):
        decide(run, workspace, decision.gate, decision.decision, decision.message, note)


def _cancel(sitting: Sitting, seat: Seat) -> int:
    if not seat.folder.is_dir():
        return DONE
    run = Run(seat.run, seat.folder)
    give_up = time.monotonic() + sitting.order.timing.grace
    with _as_user(sitting.wish.by):
        _end_items(seat, run)
        cancel_run(run, f"orchestrate cancel {run.id}", give_up, note)
    publish_rest(seat)
    return FAILED


def _end_items(seat: Seat, run: Run) -> None:
    """What other machines have of a run that is at rest ends with it."""
    found = [] if seat.item else items_of(run_view(run).state)
    if found:
        items = _open_items(load_fleet(), seat.remote)
        for key in found:
            # One that was never begun is not known.
            with suppress(StateError):
                items.end(replace(seat, item=key).id, "cancel")


@contextmanager
def _as_user(name: str) -> Iterator[None]:
    """A decision is recorded with the name that the user has on the machine it was made on."""
    before = os.environ.get("USER")
    os.environ["USER"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["USER"]
        else:
            os.environ["USER"] = before
