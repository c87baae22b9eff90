"""On a machine of an `ssh:` pool: items of a run that another machine has, or this one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrate.app.ending.end_run import cancel_run, stop_run
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.working.session_files import lay_out_sessions
from orchestrate.checkpoints.program import own_git
from orchestrate.errors import OrchestrateError
from orchestrate.exits import DONE
from orchestrate.fleet.host import alone, at_work, prepare_tree, require_protocol, root_of, seated
from orchestrate.fleet.hosts import ItemsOnHosts, has_hosts
from orchestrate.fleet.protocol import Decision
from orchestrate.fleet.publish import commit_of
from orchestrate.fleet.seat import Seat, seat_of
from orchestrate.fleet.sitting import ResumeRun, decide_there
from orchestrate.fleet.take import publish_rest, restore_seat
from orchestrate.fleet.transport import require_git
from orchestrate.plan.visible import visible
from orchestrate.show.output import answer_json, note
from orchestrate.state.durable import dump_json, read_file, write_durably
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Run
from orchestrate.view.place import Place
from orchestrate.view.run_summary import FINAL, summary_of
from orchestrate.view.run_view import run_view

_SITTINGS = "sittings"
# What an engine may take to end its programs, and to publish.
_GRACE_S = 60.0


def begin_item(document: Mapping[str, Any], resume_run: ResumeRun) -> int:
    """Begin an item as it was pushed here, or go on with it; what is at work stays as it is."""
    require_protocol(document)
    seat = seat_of(document["seat"])
    run = Run(seat.run, seat.folder)
    root = Path(seat.root)
    with alone(root):
        is_new = not seat.folder.is_dir()
        if is_new and len(at_work(root)) >= int(document["slots"]):
            answer_json({"is_begun": False})
            return DONE
        if is_new:
            git = own_git(require_git(), seat.repository)
            restore_seat(seat, git, commit_of(git, seat.work), commit_of(git, seat.state))
    if is_new:
        prepare_tree(seat, document["prepare"])
    if is_held(run.lock_file):
        answer_json({"is_begun": True})
        return DONE
    for given in document["decisions"]:
        decide_there(run, seat, Decision(**given))
    write_durably(seat.states / _SITTINGS, dump_json(_sittings_of(seat.states) + 1))
    os.chdir(seat.workspace)
    state = run_view(run).state
    is_same_place = state.settings["seat"]["root"] == seat.root
    here = lay_out_sessions(state, run, os.environ) if is_same_place else None
    settings = RunSettings(seat=seat.to_json(), sessions_here=here, detach=True)
    return resume_run(run.id, settings, Place(str(seat.workspace), str(seat.states)), as_json=True)


def items_here(document: Mapping[str, Any]) -> dict[str, Any]:
    """The items of one run that are here, and how they stand."""
    require_protocol(document)
    root = root_of(str(document["root"]))
    found = {}
    for name, run, _ in seated(root):
        if run.id != document["run"] or name == run.id:
            continue
        # Before its state is read: what has ended then has written that, and published it.
        is_at_work = is_held(run.lock_file)
        summary = summary_of(run)
        found[name] = {
            "is_at_work": is_at_work, "status": summary.status,
            "sitting": _sittings_of(run.root.parent),
            "is_open": is_at_work
            or (summary.status not in FINAL and not run_view(run).is_denied),
            "told": str(summary.field("reason") or ""),
        }  # fmt: skip
    return {"items": found}


def end_items(document: Mapping[str, Any]) -> dict[str, Any]:
    """End an item here; of a run, those on every host."""
    require_protocol(document)
    seat, how = seat_of(document["seat"]), str(document["how"])
    if not seat.item:
        return {"ended": _with_each(seat, lambda items, item: items.end(item, how))}
    run = Run(seat.run, seat.folder)
    if run.root.is_dir():
        ask = cancel_run if how == "cancel" else stop_run
        ask(run, f"orchestrate {how} {run.id}", time.monotonic() + _GRACE_S, note)
        publish_rest(seat)
    return {"ended": 1}


def remove_items(seat: Seat) -> None:
    """With a run go the seats of its items; a host that is silent keeps them."""
    if not seat.item and not seat.remote:
        _with_each(seat, ItemsOnHosts.remove)


def _with_each(seat: Seat, do: Callable[[ItemsOnHosts, str], object]) -> int:
    """Of what cannot be reached that is told; how many could be."""
    if not has_hosts(seat):
        return 0
    items, done = ItemsOnHosts(seat), 0
    for item in items.all():
        try:
            do(items, item)
        except OrchestrateError as error:
            note(f"orchestrate: {visible(item)}: {visible(error.message)}\n")
        else:
            done += 1
    return done


def _sittings_of(states: Path) -> int:
    """How often an item was begun or told to go on."""
    return int(read_file(states / _SITTINGS) or 0)
