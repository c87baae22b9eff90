"""Writes down what people say about a run from outside, also where its files are damaged.

A copy of the plan may be damaged or gone, and so may be the journal. Then the events are appended
to the journal all the same, and the state file is changed in the few fields that they change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrate.app.ending.end_calls import made_calls, settle_calls
from orchestrate.app.reading.open_run import newest_document, refuse_linked
from orchestrate.app.working.open_store import open_stored
from orchestrate.errors import OrchestrateError, StateError
from orchestrate.exits import Ending, cancelled_by
from orchestrate.plan.visible import visible
from orchestrate.state.durable import compact_json, write_durably
from orchestrate.state.endings import encoded_ending
from orchestrate.state.events import Gap, GateDecided, RunEnded, event_to_json, run_ended
from orchestrate.state.gates import add_decision
from orchestrate.state.journal import Journal, JournalCorruptError, refuse_foreign
from orchestrate.state.plan_file import index_of
from orchestrate.state.result import Approval
from orchestrate.state.seal import seal_for
from orchestrate.state.store import put_damage_aside
from orchestrate.state.times import timestamp

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run

Note = Callable[[str], None]


def index_if_kept(run: Run) -> Index | None:
    """The run's plans; None if they cannot be read any more."""
    try:
        return index_of(run)
    except OrchestrateError:
        return None


def record_cancelled(run: Run, lock: Lock, index: Index | None, user: str, note: Note) -> None:
    """The run is cancelled from now on. The lock is ours, and is released."""
    record_end(run, lock, index, cancelled_by(user), note)


def record_end(run: Run, lock: Lock, index: Index | None, ending: Ending, note: Note) -> None:
    """Write down an end from outside, whatever the run's files are. The lock is released."""
    event = run_ended(time.time(), ending)
    with lock:
        store = None
        if index is not None:
            try:
                store = open_stored(run, lock, index, note)
            except StateError as error:
                note(f"orchestrate: {visible(error.message)}\n")
        if store is None:
            _append_to_anything(run, event, note)
            settle_calls(run, None)
            return
        try:
            made = made_calls(run, store.index, store.state)
            store.record(event)
            store.checkpoint(durable=True)
            if ending.kind == "cancelled":
                settle_calls(run, made, store.state.started_at)
        finally:
            store.close()


def _append_to_anything(run: Run, event: RunEnded, note: Note) -> None:
    """An end is final, so nothing is lost with a damaged journal that is put aside for it."""
    document = newest_document(run)
    refuse_linked(run, document.get("engine", {}).get("place", ""))
    try:
        refuse_foreign(run.events, run.id)
        append_unfolded(run, document, event)
    except JournalCorruptError:
        note(f"orchestrate: the damaged journal is kept as {put_damage_aside(run)}\n")
        append_unfolded(run, document, event)


def append_unfolded(run: Run, document: dict[str, Any], *events: GateDecided | RunEnded) -> None:
    """Append to the journal, and change the state file; without a document there is none."""
    with Journal.open(run.events) as journal:
        lost = document.get("seq", 0) - journal.last_seq
        journal.append([event_to_json(event) for event in (*([Gap()] * lost), *events)])
    if document:
        write_durably(run.state, _changed_by(document, events), keep_previous=True)


def _changed_by(document: dict[str, Any], events: tuple[GateDecided | RunEnded, ...]) -> bytes:
    """The state file with the events. `seq` stays: a reader with the plan folds in the rest."""
    fields = {key: value for key, value in document.items() if key != "checksum"}
    fields["engine"] = dict(document["engine"])
    for event in events:
        fields["updated_at"] = timestamp(event.at)
        if isinstance(event, GateDecided):
            kept = fields if "approvals" in fields else fields["engine"]
            gates = [Approval(**gate) for gate in kept["approvals"]]
            add_decision(gates, event)
            kept["approvals"] = [gate.to_json() for gate in gates]
            continue
        fields.pop("completed_at", None)
        if event.status != "paused":
            fields["completed_at"] = timestamp(event.at)
        fields |= {"status": event.status, "reason": event.reason}
        fields["engine"]["ending"] = encoded_ending(event.ending)
    lines = [
        b"  %b: %b" % (compact_json(name), compact_json(value)) for name, value in fields.items()
    ]
    content = b"{\n" + b",\n".join(lines)
    return content + seal_for(content)
