"""Looks at runs without their locks: what they have recorded, and whether anybody works on them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from orchestrate.errors import DefinitionError, OrchestrateError, StateError
from orchestrate.record import record
from orchestrate.view.place import Place as Place  # noqa: PLC0414 - commands take it from here

if TYPE_CHECKING:
    from orchestrate.app.open_run import Header
    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run, Runs
    from orchestrate.workspace import Workspace

# What a state file says, and two things that only we can say.
STATUSES = ("running", "interrupted", "paused", "completed", "failed", "cancelled", "damaged")
# Nobody goes on with these.
FINAL = ("completed", "cancelled")

_HEADER = ("dialect", "workflow_file", "started_at", "updated_at", "completed_at", "status",
           "reason")  # fmt: skip
# Values have no line breaks, so a line that begins like this is the field itself.
_STATUS = re.compile(rb'\n  "status": "([a-z]+)",\n  "reason": .*\n')
# The status stands at the top; only a run of very many files, or with much to say, needs more.
_SIZES = (2048, 64 * 1024, 4 * 1024 * 1024)


@record
class Glance:
    """A run as a list shows it; `start` is the beginning of its state file."""

    run: Run
    status: str
    start: bytes

    def fields(self) -> dict[str, Any]:
        """The first fields of the state file; few of many runs are shown, so they are read late."""
        found = {name: self.field(name) for name in _HEADER}
        return {name: value for name, value in found.items() if value is not None}

    def field(self, name: str) -> Any:
        """One of them; None if it is not there, or if somebody has written into the file."""
        key = b'\n  "%b": ' % name.encode()
        at = self.start.find(key)
        if at < 0:
            return None
        begin = at + len(key)
        value = self.start[begin : self.start.find(b"\n", begin)].removesuffix(b",")
        if value[:1] == value[-1:] == b'"' and b"\\" not in value and len(value) > 1:
            return value[1:-1].decode("ascii", "replace")
        import json

        try:
            return json.loads(value)
        except ValueError:
            return None


@record
class Sight:
    """All that a run has recorded, in the shape of its state file.

    `status` is the truth about it: a run that says `running` while nobody holds its lock is
    `interrupted`. `note` says what could not be seen, and why.
    """

    run: Run
    status: str
    is_live: bool
    document: dict[str, Any]
    note: str


def glance_at(run: Run) -> Glance:
    """The run in short, from the first lines of its state file: there may be thousands."""
    from orchestrate.state.locks import is_held

    try:
        status, start = _read_start(run)
        if status in FINAL:
            return Glance(run, status, start)
        if is_held(run.lock_file):
            return Glance(run, "running", start)
        if status == "running":
            # It may have ended between our two looks.
            status, start = _read_start(run)
            status = _left_as(run) if status == "running" else status
        return Glance(run, status, start)
    except (ValueError, OSError, OrchestrateError):
        pass
    try:
        return _glance_at_journal(run)
    except (ValueError, OSError, KeyError, TypeError, OrchestrateError):
        return Glance(run, "damaged", b"")


def _glance_at_journal(run: Run) -> Glance:
    """The run in short where its state file does not hold, but its journal does.

    All of the journal is read, which only a damaged run is worth; nothing is compiled.
    """
    import json

    from orchestrate.state.durable import read_file
    from orchestrate.state.journal import read_tail, refuse_foreign
    from orchestrate.state.locks import is_held
    from orchestrate.state.times import timestamp

    # What is no file, or may not be read, has to be put right by its owner first.
    read_file(run.state)
    refuse_foreign(run.events, run.id)
    first: dict[str, Any] = {}
    ended: dict[str, Any] | None = None
    at = 0.0
    for entry in read_tail(run.events):
        event = entry.event
        first = first or event
        at = max(at, event.get("at", 0.0))
        if event["on"] in ("run-ended", "run-resumed"):
            ended = event if event["on"] == "run-ended" else None
    fields = {
        "dialect": first["dialect"],
        "workflow_file": first["definition"],
        "started_at": timestamp(first["at"]),
        "updated_at": timestamp(at),
    }
    status = "interrupted"
    if is_held(run.lock_file):
        status = "running"
    elif ended is not None:
        status = ended["status"]
        fields |= {"reason": ended["reason"]}
        fields |= {"completed_at": timestamp(ended["at"])} if status != "paused" else {}
    # As a state file begins, so that a glance can be read like any other.
    start = "".join(f'\n  "{name}": {json.dumps(value)},' for name, value in fields.items())
    return Glance(run, status, start.encode() + b"\n")


def _left_as(run: Run) -> str:
    """How a run stands that nobody works on and whose state file does not know of an end.

    The journal may have it: whoever wrote it was killed before the state file was brought up.
    """
    from orchestrate.state.journal import last_event

    last = last_event(run.events) or {}
    ended = last.get("status") if last.get("on") == "run-ended" else None
    return ended if ended in STATUSES else "interrupted"


def _read_start(run: Run) -> tuple[str, bytes]:
    """The status that a state file says, and the file up to there."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(run.state, flags)
    try:
        for size in _SIZES:
            start = os.pread(descriptor, size, 0)
            match = _STATUS.search(start)
            if match is not None:
                if b'\n  "run_id": "%b",\n' % run.id.encode() not in start:
                    raise ValueError("it belongs to another run")
                return match[1].decode(), start[: match.end()]
            if len(start) < size:
                break
    finally:
        os.close(descriptor)
    raise ValueError("it has no status")


def look_at(run: Run, workspace: Workspace) -> Sight:
    """Everything about a run: its state file and what the journal has beyond it."""
    from orchestrate.state.locks import is_held

    while True:
        was_held = is_held(run.lock_file)
        document, note = _read(run, workspace)
        held = is_held(run.lock_file)
        status = document["status"]
        # A run that ended while we read has written more since.
        if status != "running" or held or not was_held:
            break
    if status == "running" and not held:
        status = "interrupted"
    return Sight(run, status, held, document, note)


def _read(run: Run, workspace: Workspace) -> tuple[dict[str, Any], str]:
    from orchestrate.state.codec import check_state
    from orchestrate.state.durable import read_file
    from orchestrate.state.journal import read_tail

    document: dict[str, Any] | None = None
    broken = "it is missing"
    content = read_file(run.state)
    if content is not None:
        try:
            document = check_state(content, run.id)
        except ValueError as error:
            broken = str(error)
    try:
        # Mostly the file is current, and the definition need not be compiled.
        if document is not None and next(read_tail(run.events, document["seq"]), None) is None:
            return document, ""
        return _fold(run, workspace), ""
    except OrchestrateError as error:
        why = because(error)
        if document is None:
            raise StateError(
                f"run {run.id} cannot be read: state.json: {broken}; events.jsonl: {why}",
                error.hint or f"look into {run.root}",
            ) from None
        return document, f"shown from state.json alone, which may lag: {why}"


def because(error: OrchestrateError) -> str:
    """Why, in one line; of an invalid definition the first error with its place."""
    if isinstance(error, DefinitionError):
        first = next((d for d in error.diagnostics if d.severity == "error"), None)
        if first is not None:
            span = first.span
            return f"{error.message}: {span.file}:{span.line}: {first.message}"
    return error.message


def _fold(run: Run, workspace: Workspace) -> dict[str, Any]:
    """The state file as it would be if it were written now."""
    from orchestrate.state.codec import Encoder
    from orchestrate.state.durable import parse_json
    from orchestrate.state.store import load

    index = index_of(run, workspace)
    document: dict[str, Any] = parse_json(Encoder(index).encode(load(run, index)))
    return document


def index_of(run: Run, workspace: Workspace) -> Index:
    """The plans that a run was started with, and those that it finds later."""
    from orchestrate.app.carry_out import LatePlans
    from orchestrate.app.open_run import header_of
    from orchestrate.state.model import Index

    header = header_of(run)
    late = LatePlans(workspace, header.settings, run.root)
    return Index(program_of(header, workspace), late.find)


def program_of(header: Header, workspace: Workspace, *, to_run: bool = False) -> Program:
    """The program that a run was started with, from its own copy: files may have changed.

    Where the copy had to be masked, it can be looked at, but only the files can be carried out.
    """
    from orchestrate.app.apply_flags import with_settings
    from orchestrate.app.changed import recompile
    from orchestrate.app.frozen_run import read_frozen
    from orchestrate.app.single_step import as_started

    frozen = read_frozen(header.root)
    is_whole = frozen is not None and not (to_run and frozen.is_masked)
    whole = frozen.program if frozen is not None and is_whole else recompile(header, workspace)
    return with_settings(as_started(whole, header.settings), header.settings)


def runs_of(place: Place, *, is_looking: bool = False) -> Runs:
    """The folder of the runs: where the user said, or the configuration, or the workspace's.

    For whoever only looks, the rest of the configuration may be wrong.
    """
    from orchestrate.app.config import load_config, runs_folder
    from orchestrate.app.config_lenient import config_for_looking
    from orchestrate.app.definition import workspace_of

    workspace = workspace_of(place.working_dir)
    given = place.state_dir
    config = config_for_looking(workspace, given) if is_looking else load_config(workspace)
    return runs_folder(workspace, config, given)


def are_programs_left(sight: Sight) -> bool:
    """Does a program of the run still run although nobody waits for it? `resume` adopts it."""
    return not sight.is_live and do_programs_run(sight.run, sight.document)


def do_programs_run(run: Run, document: dict[str, Any]) -> bool:
    """Does a program of a step at which the run stands still run?"""
    from orchestrate.execute.keeper.facts import Running, look
    from orchestrate.view.cursors import cursors_in

    return is_kept(run) and any(
        isinstance(look(run.root, at.address.attempt_id), Running)
        for at in cursors_in(document)
        if at.phase == "running"
    )


def is_kept(run: Run) -> bool:
    """Does the run's keeper live, or a warden that is ending a program?"""
    from orchestrate.execute.keeper.facts import are_wardens_left
    from orchestrate.execute.keeper.protocol import FOLDER, KEEPER_LOCK, is_locked

    folder = run.root / FOLDER
    return is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder)


def is_denied(document: dict[str, Any]) -> bool:
    """Was a gate of the run denied? That is final (rulings §8)."""
    return any(gate["status"] == "denied" for gate in gates_of(document))


def is_at_end(document: dict[str, Any]) -> bool:
    """Is there no step left to go on with? So it is where a run went on after failures."""
    return "here" not in document["engine"]["root"] and document["engine"]["restart"] is None


def gates_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of the gates that were reached, oldest first."""
    gates: list[dict[str, Any]] = document.get("approvals") or document["engine"]["approvals"]
    return gates


def pending_gates(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [gate for gate in gates_of(document) if gate["status"] == "pending"]
