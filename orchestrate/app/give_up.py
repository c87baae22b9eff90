"""Writes down that a run was given up, with or without its plan.

The copy of the plan may be damaged or gone; then the event is appended to the journal all the same,
and the state file is changed in the few fields that the event changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrate.app.open_run import refuse_linked
from orchestrate.app.open_store import open_stored
from orchestrate.errors import OrchestrateError, StateError
from orchestrate.exits import Ending, cancelled_by
from orchestrate.state.decode import check_state
from orchestrate.state.durable import read_file, write_durably
from orchestrate.state.endings import encoded_ending
from orchestrate.state.events import RunEnded, event_to_json, run_ended
from orchestrate.state.journal import Journal
from orchestrate.state.plan_file import index_of
from orchestrate.state.results import encode
from orchestrate.state.times import timestamp

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run


def index_if_kept(run: Run) -> Index | None:
    """The run's plans; None if they cannot be read any more."""
    try:
        return index_of(run)
    except OrchestrateError:
        return None


def record_cancelled(
    run: Run, lock: Lock, index: Index | None, user: str, note: Callable[[str], None]
) -> None:
    """The run is cancelled from now on. The lock is ours, and is released."""
    record_end(run, lock, index, cancelled_by(user), note)


def record_end(
    run: Run, lock: Lock, index: Index | None, ending: Ending, note: Callable[[str], None]
) -> None:
    """Write down an end from outside. The lock is ours, and is released."""
    event = run_ended(time.time(), ending)
    if index is None:
        with lock:
            _append(run, event)
        return
    try:
        store = open_stored(run, lock, index, note)
    except BaseException:
        lock.release()
        raise
    try:
        store.record(event)
        store.checkpoint(durable=True)
    finally:
        store.close()


def _append(run: Run, event: RunEnded) -> None:
    content = read_file(run.state)
    try:
        document = check_state(content or b"", run.id)
    except ValueError as error:
        raise StateError(
            f"run {run.id} cannot be cancelled: its plan cannot be read, and its state.json is "
            f"damaged: {error}",
            f"delete it if you do not need it: {run.root}",
        ) from None
    refuse_linked(run, document["engine"].get("place", ""))
    with Journal.open(run.events) as journal:
        journal.append([event_to_json(event)])
    at = timestamp(event.at)
    write_durably(run.state, _with_end(document, event, at), keep_previous=True)


def _with_end(document: dict[str, Any], event: RunEnded, at: str) -> bytes:
    """The state file with its end. `seq` stays: whoever has the definition folds in the rest."""
    from hashlib import sha256

    fields: dict[str, Any] = {}
    for name, value in document.items():
        if name in ("completed_at", "checksum"):
            continue
        fields[name] = value
        if name == "updated_at":
            fields |= {"updated_at": at, "completed_at": at}
    fields |= {"status": event.status, "reason": event.reason}
    fields["engine"] = {**document["engine"], "ending": encoded_ending(event.ending)}
    lines = [b"  %b: %b" % (encode(name), encode(value)) for name, value in fields.items()]
    content = b"{\n" + b",\n".join(lines)
    seal = sha256(content).hexdigest().encode()
    return content + b',\n  "checksum": "sha256:%b"\n}\n' % seal
