"""Reads a run without its lock: what it has recorded, and whether a process works on it."""

from __future__ import annotations

from typing import Any

from orchestrate.errors import OrchestrateError, StateError
from orchestrate.exits import Ending
from orchestrate.record import record
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import check_state
from orchestrate.state.durable import parse_json, read_file
from orchestrate.state.endings import ending_in
from orchestrate.state.journal import read_tail
from orchestrate.state.locks import is_held
from orchestrate.state.plan_file import index_of
from orchestrate.state.result import Approval
from orchestrate.state.runs import Run
from orchestrate.state.store import load


@record
class RunView:
    """All that a run has recorded, in the shape of its state file.

    `status` is the truth about it: a run that says `running` while nobody holds its lock is
    `interrupted`. `note` says what could not be seen, and why.
    """

    run: Run
    status: str
    is_live: bool
    document: dict[str, Any]
    note: str

    @property
    def ending(self) -> Ending | None:
        """How the run has stopped; None while it runs, and if its process is gone."""
        is_open = self.status in ("running", "interrupted")
        return None if is_open else ending_in(self.document)


def run_view(run: Run) -> RunView:
    """Everything about a run: its state file and what the journal has beyond it."""
    while True:
        was_held = is_held(run.lock_file)
        document, note = _read(run)
        held = is_held(run.lock_file)
        status = document["status"]
        # A run that ended while we read has written more since.
        if status != "running" or held or not was_held:
            break
    if status == "running" and not held:
        status = "interrupted"
    return RunView(run, status, held, document, note)


def _read(run: Run) -> tuple[dict[str, Any], str]:
    document: dict[str, Any] | None = None
    broken = "it is missing"
    content = read_file(run.state)
    if content is not None:
        try:
            document = check_state(content, run.id)
        except ValueError as error:
            broken = str(error)
    try:
        # Mostly the file is current, and the plan need not be read.
        if document is not None and next(read_tail(run.events, document["seq"]), None) is None:
            return document, ""
        return _fold(run), ""
    except OrchestrateError as error:
        why = error.message
        if document is None:
            raise StateError(
                f"run {run.id} cannot be read: state.json: {broken}; events.jsonl: {why}",
                error.hint or f"look into {run.root}",
            ) from None
        return document, f"shown from state.json alone, which may lag: {why}"


def _fold(run: Run) -> dict[str, Any]:
    """The state file as it would be if it were written now."""
    index = index_of(run)
    document: dict[str, Any] = parse_json(Encoder(index).encode(load(run, index)))
    return document


def is_denied(document: dict[str, Any]) -> bool:
    """Was a gate of the run denied? That is final (rulings §8)."""
    return any(gate.status == "denied" for gate in gates_of(document))


def is_at_end(document: dict[str, Any]) -> bool:
    """Is there no step left to go on with? So it is where a run went on after failures."""
    return "here" not in document["engine"]["root"] and document["engine"]["restart"] is None


def gates_of(document: dict[str, Any]) -> list[Approval]:
    """The records of the gates that were reached, oldest first."""
    written = document.get("approvals") or document["engine"]["approvals"]
    return [Approval(**gate) for gate in written]


def pending_gates(document: dict[str, Any]) -> list[Approval]:
    return [gate for gate in gates_of(document) if gate.status == "pending"]
