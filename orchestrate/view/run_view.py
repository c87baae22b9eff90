"""Where a run stands, read without its lock: its state, and whether a process works on it."""

from __future__ import annotations

from typing import Any

from orchestrate.errors import OrchestrateError, StateError
from orchestrate.exits import ABANDONED, STOPPED, Ending
from orchestrate.record import record
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import check_state, decode
from orchestrate.state.durable import parse_json, read_file
from orchestrate.state.journal import JournalCorruptError
from orchestrate.state.locks import is_held
from orchestrate.state.model import Index, RunState
from orchestrate.state.plan_file import index_of
from orchestrate.state.result import Approval
from orchestrate.state.runs import Run
from orchestrate.state.store import load
from orchestrate.view.cursors import Cursor, cursors_in
from orchestrate.view.giving_up import giving_up_words
from orchestrate.view.run_summary import FINAL


@record
class RunView:
    """What a reader may know of a run.

    `status` is the truth about it: a run that says `running` while no process holds its lock is
    `interrupted`. `index` is None where the run keeps no plan that fits its state. `note` says what
    could not be read, and why; `is_torn` that its journal is damaged.
    """

    run: Run
    state: RunState
    index: Index | None
    status: str
    is_live: bool
    note: str = ""
    is_torn: bool = False

    @property
    def shown_status(self) -> str:
        """One word for people: who stops a run and who kills it has interrupted it."""
        ending = self.ending
        is_stopped = self.status == "paused" and ending is not None and ending.kind in STOPPED
        return "interrupted" if is_stopped else self.status

    @property
    def ending(self) -> Ending | None:
        """How the run has stopped; None while it runs, and if its process is gone."""
        return None if self.status in ("running", "interrupted") else self.state.ending

    @property
    def giving_up(self) -> str:
        """`work: other, the disk is full`, where the step that ended the run gave up; else ''."""
        if self.index is None or self.status not in (*FINAL, "failed"):
            return ""
        return giving_up_words(self.state, self.index)

    @property
    def exit_code(self) -> int:
        """That of the command that carried the run out, or that its process is gone."""
        return ABANDONED if self.ending is None else self.ending.code

    @property
    def document(self) -> dict[str, Any]:
        """The state as `state.json` has it, for programs (`docs/reference/state.md`)."""
        if self.index is None:
            return check_state(read_file(self.run.state) or b"", self.run.id)
        found: dict[str, Any] = parse_json(Encoder(self.index).encode(self.state))
        return found

    @property
    def cursors(self) -> list[Cursor]:
        """The steps that the run stands at; those of a run that is over say nothing any more."""
        return [] if self.status in FINAL else cursors_in(self.state)

    @property
    def asks_at_terminal(self) -> bool:
        """Can it be answered there, too? Not while other items work; and without a terminal a run
        that only waits for a person parks."""
        return self.is_live and all(at.phase in ("asking", "lost") for at in self.cursors)

    @property
    def waiting_gates(self) -> list[Approval]:
        """The gates that a decision can still be made about."""
        is_waiting = self.status in ("running", "interrupted", "paused")
        return list(self.state.pending) if is_waiting else []

    @property
    def is_denied(self) -> bool:
        """Was a gate of the run denied? That is final (rulings §8)."""
        return any(gate.status == "denied" for gate in self.state.approvals)

    @property
    def is_at_end(self) -> bool:
        """Is there no step left to go on with? So it is where a run went on after failures."""
        return self.state.root.here is None and self.state.restart is None


def run_view(run: Run) -> RunView:
    """The run as its state file, and what the journal has beyond it, tell."""
    while True:
        was_held = is_held(run.lock_file)
        state, index, fault = _read(run)
        held = is_held(run.lock_file)
        # A run that ended while we read has written more since.
        if state.status != "running" or held or not was_held:
            break
    status = "interrupted" if state.status == "running" and not held else state.status
    if fault is None:
        return RunView(run, state, index, status, held)
    note = f"shown from state.json alone, which may lag: {fault.message}"
    return RunView(run, state, index, status, held, note, isinstance(fault, JournalCorruptError))


def _read(run: Run) -> tuple[RunState, Index | None, OrchestrateError | None]:
    try:
        index = index_of(run)
        return load(run, index), index, None
    except OrchestrateError as error:
        return (*_state_file_alone(run, error), error)


def _state_file_alone(run: Run, why: OrchestrateError) -> tuple[RunState, Index | None]:
    """The state without what the journal may have beyond it."""
    content = read_file(run.state)
    problem = "it is missing"
    if content is not None:
        try:
            index = index_of(run)
            return decode(index, content, run.id), index
        except (ValueError, OrchestrateError):
            pass
        try:
            return decode(None, content, run.id), None
        except ValueError as error:
            problem = str(error)
    raise StateError(
        f"run {run.id} cannot be read: state.json: {problem}; events.jsonl: {why.message}",
        why.hint or f"look into {run.root}",
    ) from None
