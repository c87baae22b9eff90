"""After an edit the run is at its beginning again: here its steps take over what is still good.

A step is found by its path and judged by its key. What an earlier orchestrator has started and the
edit does not touch goes on under the name that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from orchestrate.checkpoints.model import CheckpointError
from orchestrate.engine.confine import open_regular
from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.faults import StepFault
from orchestrate.engine.keys import FILES, FILLED_IN, accepted_key, key_of
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.sessions import session_of_step
from orchestrate.engine.step import Step
from orchestrate.execute.base import Running
from orchestrate.plan.nodes import (
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Call,
    Each,
    Gate,
    Goto,
)
from orchestrate.record import record, replace
from orchestrate.state.address import FrameKey, name_of_node
from orchestrate.state.earlier import ACCEPTED, Attempt, Earlier, EarlierVisit, Opened, attempts_of
from orchestrate.state.events import (
    CallOpened,
    Event,
    GateDecided,
    ItemMoved,
    LoopOpened,
    SessionChosen,
    SessionSeen,
    StepStarted,
)
from orchestrate.state.model import Frame
from orchestrate.state.result import StepResult

Why = dict[str, Any]

_LONGEST_ANSWER = 2000
_GIVEN = ("context.", "var.")


@record
class ReuseVerdict:
    """What an earlier result is worth for a step; `why` it has to run, if it has to."""

    entry: EarlierVisit | None
    why: Why
    is_accepted: bool = False

    @property
    def is_good(self) -> bool:
        return self.entry is not None and not self.why


def reuse(step: Step) -> list[Event] | None:
    """The events by which a step takes over what there is of it; None if it has to be performed."""
    earlier = step.rt.earlier
    assert earlier is not None
    verdict = judge(step, earlier)
    step.why = verdict.why
    entry = verdict.entry
    if entry is None or not verdict.is_good:
        return None
    if isinstance(entry.opened, CallOpened) and entry.opened.late:
        return None  # the plan at a path that was worked out is looked for again
    frame, node, visit, now = step.frame.key, step.node.id, step.here.visit, step.rt.now()
    earlier.kept.add(entry.path)
    key = accepted_key(entry.key, step.key) if verdict.is_accepted else entry.key
    if entry.finished is not None:
        step.rt.note_on_record(frame)
        result, made = entry.finished.result, entry.finished.made
        marked = result | StepResult(reused=result.reused or result.address or entry.address.text)
        if verdict.is_accepted:
            files = recorded_files(step, entry, earlier)
            made = {name: FILES.digest(step.rt.workspace, name) for name in files}
        return [
            replace(
                entry.finished, frame=frame, node=node, visit=visit, at=now, result=marked,
                key=key, made=made, cut_off=False,
            )
        ]  # fmt: skip
    if entry.opened is not None:
        opened = _as_it_is_now(step, entry.opened)
        return [replace(opened, frame=frame, node=node, visit=visit, at=now)]
    if entry.asked is not None and entry.decided is not None:
        asked = replace(
            entry.asked, frame=frame, node=node, visit=visit, at=now, key=key,
            reused=entry.visited.text,
        )  # fmt: skip
        said = entry.decided
        return [asked, GateDecided(frame, node, visit, now, said.decision, said.by, said.message)]
    assert entry.started is not None
    return [_adopt(step, entry, entry.started)]


def _as_it_is_now(step: Step, opened: Opened) -> Opened:
    """A loop or call that goes on, with the limit and the defaults that its file has now.

    What a call was given stays: a value that was given later reaches what has not finished.
    """
    match opened, step.node.op:
        case CallOpened(), Call(plan=str() as plan, arguments=arguments) if plan == opened.plan:
            passed = {name for name, _ in arguments.items}
            given = {name: value for name, value in opened.context.items() if name in passed}
            defaults = evaluate(step.rt.store.index.plan(plan).context, step.scope)
            stored = {name: step.rt.store_value(value) for name, value in defaults.items()}
            return replace(opened, context=stored | given)
        case LoopOpened(most=int()), Each(limit=limit):
            return replace(opened, most=limit)
        case _:
            return opened


def _adopt(step: Step, entry: EarlierVisit, started: StepStarted) -> Event:
    """An attempt that was started before the edit, and that the edit does not touch."""
    origin = started.origin or [entry.frame, entry.visit]
    attempt = entry.address.attempt_id
    step.rt.may_be_known[attempt] = True
    step.rt.whereabouts[attempt] = started.where
    return replace(
        started, frame=step.frame.key, node=step.node.id, visit=step.here.visit, origin=origin
    )


def reuse_move(rt: Runtime, frame: Frame) -> list[Event] | None:
    """The move of an item's file, where the whole item was taken over."""
    earlier = rt.earlier
    if earlier is None or frame.anew:
        return None
    entry = earlier.entries.get(earlier.path(frame.key))
    if entry is None or entry.moved is None:
        return None
    return [ItemMoved(frame.key, rt.now(), entry.moved.lifecycle)]


def judge(step: Step, earlier: Earlier) -> ReuseVerdict:
    """Is there a result for this step, and is it still good?"""
    step.key = key_of(step)
    name = name_of_node(step.node.id)
    path = earlier.step_path(step.frame.key, name, step.here.visit)
    entry = earlier.entries.get(path)
    if entry is None or entry.edit == step.rt.store.state.edit:
        return ReuseVerdict(
            None, {"after": _first_anew(step)} if step.frame.anew else {"new": True}
        )
    if path in earlier.redo:
        return ReuseVerdict(entry, {"redo": True})
    if path in earlier.accept and (entry.finished is not None or entry.decided is not None):
        return ReuseVerdict(entry, {}, is_accepted=True)
    if step.frame.anew:
        return ReuseVerdict(entry, {"after": _first_anew(step)})
    why = _unfinished(step, entry) or _difference(entry.key, step.key, earlier.given, step)
    if not why:
        changed = [*changed_files(step, entry, earlier)]
        why = {"files": changed} if changed else {}
    return ReuseVerdict(entry, why)


def _first_anew(step: Step) -> str:
    """The step by which its sequence runs anew."""
    return name_of_node(step.frame.anew.rpartition(":")[0])


def _unfinished(step: Step, entry: EarlierVisit) -> Why:
    """A result that is none: it failed, was lost, or its end is not known."""
    done = entry.finished
    if done is None:
        is_open = entry.opened or entry.started or (entry.asked and entry.decided)
        return {} if is_open else {"was": "unfinished"}
    if done.label == SKIPPED:
        return {}
    routes = dict(step.node.routes)
    if done.label == LOST or done.label not in routes:
        return {"was": "lost" if done.label == LOST else "another outcome"}
    target = routes[done.label]
    # A failure that the author sends somewhere of its own is an outcome like others.
    has_own_way = isinstance(target, Goto) and target not in (step.node.follow, routes.get(OK))
    if isinstance(target, Abort) or (done.label == FAILED and not has_own_way):
        return {"was": "failed" if done.result.status == "failed" else "an end of the run"}
    debug = done.result.debug
    if debug is not None and debug.json_parse_error is not None and ACCEPTED not in entry.key:
        return {"was": "degraded"}
    return {}


def _difference(before: dict[str, Any], now: dict[str, Any], given: set[str], step: Step) -> Why:
    """The parts of the key that differ, each with both digests; values by name.

    Where the text is the same, values and files tell what was sent. Values that were given after
    the start count for what has not finished.
    """
    if not before:
        return {"was": "recorded without a key"}
    parts = ["op", "env", "session"]
    is_same_text = before.get("text") == now.get("text")
    if isinstance(step.node.op, Ask):
        parts.append("agent")
    if not is_same_text:
        parts += [part for part in FILLED_IN if part in before or part in now]
        if isinstance(step.node.op, Gate | Each | Call):
            parts.append("text")
    changed: dict[str, Any] = {
        part: [before.get(part, ""), now.get(part, "")]
        for part in dict.fromkeys(parts)
        if before.get(part) != now.get(part)
    }
    old, new = before.get("inputs", {}), now.get("inputs", {})
    for name in old.keys() & new.keys():
        is_given = name.startswith(_GIVEN) and name.split(".")[1] in given
        if old[name] != new[name] and not is_given:
            changed.setdefault("inputs", {})[name] = [old[name], new[name]]
    return {"changed": changed} if changed else {}


def given_up(earlier: Earlier) -> list[Attempt]:
    """What still ran when the run was edited, and nothing has taken over."""
    return attempts_of([e for e in earlier.running if e.path not in earlier.kept])


def end_given_up(rt: Runtime) -> None:
    """End the programs that an edit has made useless, before anything new can meet them."""
    edits = rt.earlier.edits if rt.earlier is not None else []
    for attempt, where in (pair for edit in edits for pair in edit.given_up):
        executor = rt.executor(where)
        if not isinstance(executor.find(attempt), Running):
            continue
        executor.stop(attempt, "the run was edited", rt.rules.grace_s)
        while isinstance(executor.wait(attempt, 1.0), Running):
            if rt.stop.is_requested:
                return


def go_on_in_session(step: Step, op: Ask, agent: str) -> None:
    """A step that shares a session and runs anew goes on in the one it was in: it cannot go back,
    and what it knows of the work is not lost."""
    earlier = step.rt.earlier
    known = session_of_step(step, op)
    if earlier is None or op.session_name is None or known.is_created or known.fork_of:
        return
    path = earlier.step_path(step.frame.key, name_of_node(step.node.id), step.here.visit)
    for entry in [e for e in (*earlier.void, *earlier.entries.values()) if e.path == path]:
        result = entry.finished.result if entry.finished is not None else StepResult()
        if result.session_id is not None and (result.backend or result.agent) == agent:
            now, where = step.rt.now(), (step.frame.key, step.node.id, step.here.visit)
            known_one: Event = SessionSeen(now, result.session_id, agent, *where, is_own=True)
            if result.from_run is not None:
                known_one = SessionChosen(now, None, agent, *where, fork_of=result.session_id)
            step.rt.store.record(known_one)
            return


def void_note(step: Step, op: Ask, session: str | None) -> str:
    """For an agent whose session has turns that do not count any more, and who was not told."""
    earlier, state = step.rt.earlier, step.rt.store.state
    if earlier is None or session is None or session_of_step(step, op).told >= state.edit:
        return ""
    of_session = [
        entry
        for entry in (*earlier.void, *earlier.entries.values())
        if entry.finished is not None and entry.finished.result.session_id == session
    ]
    void = [e for e in of_session if e.edit != state.edit and e.path not in earlier.kept]
    if not void:
        return ""
    gone = ", ".join(dict.fromkeys(map(_shown, void)))
    left = ", ".join(dict.fromkeys(_shown(e) for e in of_session if e.path in earlier.kept))
    stands = f"What stands: {left}." if left else "None of the earlier ones stands."
    what = "forked" if state.forked else "edited"
    return (
        f"Note: the run was {what}. Of this session these turns do not count any more: {gone}. "
        f"{stands} Files may still have what was done in them. This is the task now:\n\n"
    )


def standing_note(step: Step, session: str) -> str:
    """For an agent that begins a new session because it cannot go on in a copy of the one of the
    run that was forked: what stands, in the words of those turns."""
    earlier = step.rt.earlier
    if earlier is None:
        return ""
    told = []
    for entry in earlier.entries.values():
        result = entry.finished.result if entry.finished is not None else StepResult()
        if result.session_id == session and entry.path in earlier.kept:
            answer = result.output or result.outcome or ""
            said = f": {answer.strip()[:_LONGEST_ANSWER]}" if answer else ""
            told.append(f"- {_shown(entry)}{said}")
    if not told:
        return ""
    return (
        "Note: this run goes on from another one, whose session you cannot see. What stands, and "
        "what was answered there:\n" + "\n".join(told) + "\nThis is the task now:\n\n"
    )


def _shown(entry: EarlierVisit) -> str:
    visit = f"@{entry.visit}" if entry.visit > 1 else ""
    return FrameKey.parse(entry.frame).step(entry.name).shown + visit


def changed_files(step: Step, entry: EarlierVisit, earlier: Earlier) -> Iterator[str]:
    """Files of the step that are neither what they were for its result nor what the run itself
    last recorded of them."""
    for name, digest in recorded_files(step, entry, earlier).items():
        now = FILES.digest(step.rt.workspace, name)
        if now in (digest, earlier.files.get(name, digest)):
            continue
        tree = earlier.tree_of(name)
        if not tree or not _is_captured(step.rt, tree, name):
            yield name


def recorded_files(step: Step, entry: EarlierVisit, earlier: Earlier) -> dict[str, str]:
    """The files of the step and of its checks, as they were for its result."""
    recorded: dict[str, str] = dict(entry.key.get("files", {}))
    part = f"{step.node.id}:check-"
    for path, other in earlier.entries.items():
        if path[:-1] == entry.path[:-1] and other.name.startswith(part):
            recorded |= other.key.get("files", {})
    return recorded | (entry.finished.made if entry.finished is not None else {})


def _is_captured(rt: Runtime, tree: str, name: str) -> bool:
    """Is the file as a checkpoint has it, or gone as it is there?"""
    content = None
    with suppress(StepFault, OSError), open_regular(rt.workspace, name) as opened:
        content = opened.read()
    store = rt.open_checkpoints()
    with suppress(CheckpointError):
        return store is not None and store.exists and store.has_file(tree, name, content)
    return False
