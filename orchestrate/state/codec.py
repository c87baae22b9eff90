"""`state.json`: the state of a run as people and `jq` read it, and back again.

What people look for stands in C's places. What only the engine needs (cursors, open loops) stands
under `engine`; the results of open frames are not repeated there, for the tree of frames is the
tree under `steps`. Each step and each item of a loop has its own line, and is encoded once.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from orchestrate.exits import usual_finish
from orchestrate.plan.nodes import Finish, Goto, Target
from orchestrate.record import field_names
from orchestrate.state.address import FrameKey
from orchestrate.state.durable import parse_json
from orchestrate.state.endings import encoded_ending, ending_in
from orchestrate.state.model import (
    Frame,
    Here,
    Index,
    Loop,
    RunState,
    Session,
    frames_below,
    open_loop,
)
from orchestrate.state.result import (
    Approval,
    Costs,
    SkippedStep,
    StepResult,
    read_denials,
)
from orchestrate.state.results import encode, loop_pieces, step_piece
from orchestrate.state.stages import stages_of
from orchestrate.state.times import timestamp

_SEAL = re.compile(rb',\n  "checksum": "sha256:([0-9a-f]{64})"\n\}\n\Z')


class Encoder:
    """Writes the states of one run; remembers the bytes of results that do not change."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, tuple[Any, bytes]] = {}

    def encode(self, state: RunState) -> bytes:
        """The whole file, sealed with a checksum over everything before it.

        It is put together once: of a long run each copy on the way would take as much again.
        """
        pieces = [b"{\n"]
        for name, body in self._fields(state):
            pieces += (b'  "%b": ' % name.encode("ascii"), *body, b",\n")
        pieces.pop()
        seal = sha256()
        for piece in pieces:
            seal.update(piece)
        pieces.append(b',\n  "checksum": "sha256:%b"\n}\n' % seal.hexdigest().encode("ascii"))
        return b"".join(pieces)

    def _fields(self, state: RunState) -> list[tuple[str, list[bytes]]]:
        plain: dict[str, Any] = {
            "schema_version": state.schema_version,
            "run_id": state.run_id,
            "dialect": state.dialect,
            "workflow_file": state.definition,
            "workflow_checksum": state.checksum,
            "sources": state.sources,
            "started_at": timestamp(state.started_at),
            "updated_at": timestamp(state.updated_at),
        }
        if state.completed_at is not None:
            plain["completed_at"] = timestamp(state.completed_at)
        plain |= {"status": state.status, "reason": state.reason}
        plain["context"] = state.root.variables
        rest: dict[str, Any] = self._by_dialect(state)
        if state.costs.turns:
            rest["costs"] = state.costs.to_json()
        if state.denials:
            rest["denials"] = [denial.to_json() for denial in state.denials]
        rest |= {"settings": state.settings, "orchestrate_version": state.version}
        rest |= {"seq": state.seq, "engine": _engine(state)}
        return [
            *((name, [encode(value)]) for name, value in plain.items()),
            ("steps", self._steps(state.root)),
            ("for_each", [_loops(state)]),
            *((name, [encode(value)]) for name, value in rest.items()),
        ]

    def _steps(self, root: Frame) -> list[bytes]:
        known = self._known
        pieces: list[bytes] = []
        for name, result in root.steps.items():
            remembered = known.get(name)
            if remembered is None or remembered[0] is not result or root.call is not None:
                piece = step_piece(root, name)
                remembered = (result, b"    " + encode(name) + b": " + piece)
                known[name] = remembered
            pieces += (remembered[1], b",\n")
        for loop in root.loops.values():
            pieces += (b"    " + encode(loop.name), *_item_lines(loop), b",\n")
        return [b"{\n", *pieces[:-1], b"\n  }"] if pieces else [b"{}"]

    def _by_dialect(self, state: RunState) -> dict[str, Any]:
        match state.dialect:
            case "machine":
                return {"machine": self._machine(state)}
            case "recipe":
                return {
                    "stages": stages_of(self._index, state),
                    "approvals": [gate.to_json() for gate in state.approvals],
                    "skipped_steps": [skipped.to_json() for skipped in state.skipped],
                }
            case _:
                return {}

    def _machine(self, state: RunState) -> dict[str, Any]:
        """A §2.5."""
        root = state.root
        plan = self._index.plan(root.plan)
        return {
            "recipeId": plan.name,
            "currentStep": state.current or (root.here.node if root.here is not None else ""),
            "stepCount": state.steps_run,
            "stepVisitCounts": root.visits,
            "stepRetryCounts": state.retry_counts,
            "startTime": round(state.machine_started * 1000),
            "sessionCreated": state.session.is_created,
            "sessionId": state.session.id,
            "restarts": state.restarts,
            "limits": {
                "maxStepVisits": plan.limits.max_visits,
                "maxTotalSteps": plan.limits.max_steps,
                "maxRestarts": plan.limits.max_restarts,
            },
        }


def _item_lines(loop: Loop) -> list[bytes]:
    items = loop_pieces(loop)
    if not items:
        return [b": []"]
    pieces = [b": [\n      "]
    for item in items:
        pieces += (item, b",\n      ")
    pieces[-1] = b"\n    ]"
    return pieces


def _loops(state: RunState) -> bytes:
    """How far each loop is: those of the main block by name, open ones inside others by address."""
    found: dict[str, Loop] = {loop.name: loop for loop in state.root.loops.values()}
    for frame in frames_below(state.root):
        loop = open_loop(frame)
        if loop is not None and frame is not state.root:
            found[FrameKey.parse(frame.key).step(loop.name).text] = loop
    lines = []
    for name, loop in found.items():
        progress = {
            "items": loop.items,
            "completed_indices": sorted(loop.done),
            "current_index": next(iter(loop.open)) if len(loop.open) == 1 else None,
            "failed_indices": loop.failed,
            "total": len(loop.items),
        }
        lines.append(b"    " + encode(name) + b": " + encode(progress))
    return b"{\n" + b",\n".join(lines) + b"\n  }" if lines else b"{}"


# What only the engine needs.


def _engine(state: RunState) -> dict[str, Any]:
    return {
        "workspace": state.workspace,
        "root": _frame(state.root),
        "synced": state.synced,
        "clock": state.clock,
        "place": state.place,
        "steps_run": state.steps_run,
        "restarts": state.restarts,
        "restart": state.restart,
        "has_failures": state.has_failures,
        "session": {name: getattr(state.session, name) for name in field_names(state.session)},
        "ending": None if state.ending is None else encoded_ending(state.ending),
        "machine_started": state.machine_started,
        "late": state.late,
        "earlier_visits": state.earlier_visits,
        "current": state.current,
        "retry_counts": state.retry_counts,
        "approvals": [gate.to_json() for gate in state.approvals if state.dialect != "recipe"],
        "skipped": [step.to_json() for step in state.skipped if state.dialect != "recipe"],
        "times": [state.started_at, state.updated_at, state.completed_at, state.stopped_at],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    written: dict[str, Any] = {"key": frame.key, "plan": frame.plan, "block": frame.block}
    here = frame.here
    if here is not None:
        written["here"] = [getattr(here, name) for name in field_names(here)]
    if frame.visits:
        written["visits"] = frame.visits
    if frame.parent is not None and frame.index is None:
        written["variables"] = frame.variables
    if frame.call is not None:
        written["call"] = _frame(frame.call)
    if frame.loops:
        written["loops"] = {node: _loop(frame, loop) for node, loop in frame.loops.items()}
    if frame.approval is not None:
        written["approval"] = frame.approval
    for name in ("label", "moving", "owner", "began", "count"):
        if getattr(frame, name):
            written[name] = getattr(frame, name)
    if frame.then is not None:
        written["then"] = _target(frame.then)
    return written


def _loop(frame: Frame, loop: Loop) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": loop.name,
        "next": loop.next_index,
        "failed": loop.failed,
        "stopping": loop.is_stopping,
        "closed": loop.is_closed,
        "open": {str(position): _frame(inner) for position, inner in loop.open.items()},
    }
    if not loop.is_closed:
        written["values"] = {str(position): value for position, value in loop.values.items()}
    if frame.parent is not None:
        written["items"] = loop.items
    return written


def _target(target: Target) -> dict[str, str]:
    match target:
        case Goto(node):
            return {"goto": node}
        case Finish(reason, kind):
            return {"finish": reason, "end": kind}
        case _:
            raise AssertionError(f"a frame cannot be left for {target}")


# Reading it again.


def check_seal(content: bytes) -> dict[str, Any]:
    """The document, if it is whole and as we wrote it; a `ValueError` says what is not."""
    found = _SEAL.search(content)
    if found is None:
        raise ValueError("it is not a complete state file")
    if sha256(content[: found.start()]).hexdigest().encode() != found[1]:
        raise ValueError("its checksum does not hold: it was changed or damaged")
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError("it is not a state file")
    return document


def check_state(content: bytes, run_id: str) -> dict[str, Any]:
    """The document, if it is whole and this run's; somebody may have copied another run's here."""
    document = check_seal(content)
    if document.get("run_id") != run_id:
        raise ValueError(f"it belongs to run {document.get('run_id')}")
    return document


def decode(index: Index, content: bytes, run_id: str) -> RunState:
    """The state again; `ValueError` if it is not one of ours, or of another run or program."""
    document = check_state(content, run_id)
    try:
        return _decode(index, document)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"it does not fit the definition: {error!r}") from None


def _decode(index: Index, document: dict[str, Any]) -> RunState:
    engine = document["engine"]
    started, updated, completed, *stopped = engine["times"]
    state = RunState(
        run_id=document["run_id"],
        workspace=engine["workspace"],
        definition=document["workflow_file"],
        dialect=document["dialect"],
        schema_version=document["schema_version"],
        checksum=document["workflow_checksum"],
        sources=document["sources"],
        settings=document["settings"],
        version=document["orchestrate_version"],
        started_at=started,
        updated_at=updated,
        completed_at=completed,
        stopped_at=stopped[0] if stopped else None,
        root=Frame(key="", plan="", block=""),
        status=document["status"],
        reason=document["reason"],
        restart=engine["restart"],
        seq=document["seq"],
        synced=engine["synced"],
        clock=engine["clock"],
        place=engine.get("place", ""),
        steps_run=engine["steps_run"],
        restarts=engine["restarts"],
        has_failures=engine["has_failures"],
        session=Session(**engine["session"]),
        costs=Costs(**document.get("costs", {})),
        denials=read_denials(document.get("denials", ())),
        approvals=[Approval(**gate) for gate in document.get("approvals", engine["approvals"])],
        skipped=[SkippedStep(**s) for s in document.get("skipped_steps", engine["skipped"])],
        machine_started=engine["machine_started"],
        late=engine["late"],
        earlier_visits=engine["earlier_visits"],
        current=engine["current"],
        retry_counts=engine["retry_counts"],
    )
    state.ending = ending_in(document)
    reader = _Reader(index, document["for_each"], state.frames)
    state.root = reader.frame(engine["root"], document["steps"], None)
    state.root.variables = document["context"]
    return state


def _read_target(written: dict[str, Any]) -> Target:
    if "goto" in written:
        return Goto(written["goto"])
    return Finish(written["finish"], written.get("end") or usual_finish(written["finish"]))


class _Reader:
    """Builds the frames again from the engine's part and the results under `steps`."""

    def __init__(self, index: Index, progress: dict[str, Any], frames: dict[str, Frame]) -> None:
        self._index = index
        self._progress = progress
        self._frames = frames

    def frame(
        self, written: dict[str, Any], results: dict[str, Any], parent: Frame | None
    ) -> Frame:
        frame = Frame(
            key=written["key"],
            plan=written["plan"],
            block=written["block"],
            parent=parent,
            variables=written.get("variables", {}),
            visits=written.get("visits", {}),
            label=written.get("label", ""),
            moving=written.get("moving"),
            approval=written.get("approval"),
            owner=written.get("owner", ""),
            began=written.get("began", 0.0),
            count=written.get("count", 0),
        )
        self._index.block(frame.plan, frame.block)
        if "here" in written:
            frame.here = Here(*written["here"])
        if "then" in written:
            frame.then = _read_target(written["then"])
        self._frames[frame.key] = frame
        loops = written.get("loops", {})
        names = {loop["name"] for loop in loops.values()}
        frame.steps = {
            name: StepResult.from_json(result)
            for name, result in results.items()
            if name not in names and not (name == "lifecycle" and parent is not None)
        }
        for node, loop in loops.items():
            frame.loops[node] = self._loop(frame, node, loop, results.get(loop["name"], []))
        if "call" in written:
            frame.call = self._call(frame, written["call"])
        return frame

    def _loop(self, frame: Frame, node: str, written: dict[str, Any], results: list[Any]) -> Loop:
        each: Any = self._index.place(frame.plan, node).node.op
        items = written["items"] if "items" in written else self._progress[written["name"]]["items"]
        loop = Loop(
            node,
            written["name"],
            items,
            next_index=written["next"],
            values={int(position): value for position, value in written.get("values", {}).items()},
            failed=written["failed"],
            is_stopping=written["stopping"],
            is_closed=written["closed"],
        )
        opened = written["open"]
        for position, result in enumerate(results):
            if str(position) not in opened and position < loop.next_index:
                loop.done[position] = encode(result)
        for text, inner in opened.items():
            position = int(text)
            child = self.frame(inner, results[position], frame)
            child.index = position
            child.item = items[position]
            child.total = len(items)
            child.variable = each.variable
            loop.open[position] = child
        return loop

    def _call(self, frame: Frame, written: dict[str, Any]) -> Frame:
        name = self._index.here(frame).node.name
        calling = frame.steps[name]
        frame.steps[name] = calling.without("steps")
        return self.frame(written, dict(calling.steps), frame)
