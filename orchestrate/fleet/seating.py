"""What `seat` answers to another machine, or to the worker of this one."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate import __version__
from orchestrate.app.given.settings import RunSettings
from orchestrate.errors import UsageError
from orchestrate.exits import BUG
from orchestrate.fleet.follow import follow
from orchestrate.fleet.host import (
    SeatOrder,
    make_seat,
    offer,
    order_of,
    refuse_at_work,
    remove_seat,
    require_protocol,
    root_of,
    seated,
)
from orchestrate.fleet.hosts import keep_hosts
from orchestrate.fleet.item_seat import begin_item, end_items, items_here, remove_items
from orchestrate.fleet.protocol import Order as ItemOrder
from orchestrate.fleet.seat import seat_of
from orchestrate.fleet.settle import settle
from orchestrate.fleet.sitting import ResumeRun, RunRecipe, flags_given, hold_sitting
from orchestrate.fleet.spread import keep_order
from orchestrate.show.output import answer_json
from orchestrate.view.place import Place


def serve(verb: str, run_recipe: RunRecipe, resume_run: ResumeRun) -> int:
    """Answer one request; runs start and go on as those of `run` and `resume` do."""
    try:
        document = json.load(sys.stdin)
        if not isinstance(document, dict):
            raise ValueError("it is not a mapping")
    except ValueError as error:
        raise UsageError(f"the request on stdin cannot be read: {error}") from error
    match verb:
        case "offer":
            answer_json(offer(document))
        case "begin":
            return _begin(order_of(document), run_recipe)
        case "sit":
            return hold_sitting(document, run_recipe, resume_run)
        case "publish":
            require_protocol(document)
            answer_json({"is_at_rest": settle(seat_of(document["seat"]))})
        case "remove":
            require_protocol(document)
            seat = seat_of(document["seat"])
            refuse_at_work(seat)
            remove_items(seat)
            remove_seat(seat)
            answer_json({"removed": document["seat"]["run"]})
        case "item":
            return begin_item(document, resume_run)
        case "items":
            answer_json(items_here(document))
        case "end":
            answer_json(end_items(document))
        case "follow":
            return follow(Path(str(document["folder"])))
        case _:
            answer_json(_listed(document))
    return 0


def _listed(document: Mapping[str, Any]) -> dict[str, Any]:
    require_protocol(document)
    seats = seated(root_of(str(document["root"])))
    runs = {run.id: status for name, run, status in seats if name == run.id}
    return {"runs": runs, "version": __version__, "time": time.time()}


def _begin(order: SeatOrder, run_recipe: RunRecipe) -> int:
    """Start the run as `run -d` would in the seat; a seat whose run cannot start is removed."""
    given = flags_given(order.flags)
    make_seat(order)
    seat = order.seat
    of_items = ItemOrder(seat.run, "", "", seat.mirror, seat.inside, seat.publish, order.file)
    keep_order(seat, of_items)
    keep_hosts(seat, order.items)
    settings = RunSettings(**given, detach=True, seat=seat.to_json())
    os.chdir(seat.workspace)
    place = Place(str(seat.workspace), str(seat.states))
    code = BUG
    try:
        code = run_recipe(order.file, settings, place, text=order.text, as_json=True)
    finally:
        # The process that was to be the run may have removed it already.
        if code != 0 and seat.states.is_dir() and not seat.folder.is_dir():
            remove_seat(seat)
    return code
