"""What waits for a person, as the terminal and the page list it: questions with their evidence."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrate.digest import sha256_of
from orchestrate.errors import StateError
from orchestrate.exits import PARKED
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    Abort,
    Finish,
    Goto,
    Leave,
    Restart,
    target_of,
)
from orchestrate.record import record, replace
from orchestrate.state.durable import dump_json
from orchestrate.state.model import Frame, Index, frames_below
from orchestrate.state.result import Approval, Costs
from orchestrate.state.rounds import step_of_part
from orchestrate.state.times import seconds_of
from orchestrate.view.advice import Reached, resume_flags
from orchestrate.view.changes import FileChange, find_changes, last_gate
from orchestrate.view.cursors import Cursor
from orchestrate.view.history import read_chronicle
from orchestrate.view.hunks import hunks_of
from orchestrate.view.step_logs import StepLog, entries_of, source_of

if TYPE_CHECKING:
    from orchestrate.exits import Ending
    from orchestrate.state.result import Approval
    from orchestrate.state.runs import Run
    from orchestrate.view.run_view import RunView

# A gate; a step whose attempt was lost; a limit that has parked the run; a question that a person
# answers where it is asked.
QuestionKind = Literal["gate", "lost", "limit", "question"]
_LONGEST_ANSWER = 4000
_MOST_FILES = 20


@record
class Evidence:
    """What a person looks at before the answer."""

    # The author's step before the question, and the end of what it answered last.
    step: str = ""
    answer: str = ""
    # What became of the step's check: `passed`, `failed` or `skipped`; '' where it has none.
    check: str = ""
    # What git says has changed since the gate that was answered last, or since the run began;
    # `files_unknown` says why it says nothing.
    files_since: str = ""
    files: tuple[FileChange, ...] = ()
    # What has changed inside each of them, where it was asked for.
    hunks: tuple[str, ...] = ()
    files_left_out: int = 0
    files_unknown: str = ""
    costs: Costs = Costs()


@record
class Choice:
    """An answer that is taken, and what happens after it."""

    value: str
    then: str
    # What `resume` needs with it.
    flags: tuple[str, ...] = ()


@record
class InboxQuestion:
    """A question that waits. `id` names it, `digest` what was shown: an answer carries both."""

    id: str
    digest: str
    kind: QuestionKind
    workspace: str
    runs: str
    run_id: str
    definition: str
    # The stage of a gate, else the step.
    about: str
    text: str
    since: float
    expires_at: str | None
    default: str
    at_terminal: bool
    choices: tuple[Choice, ...]
    evidence: Evidence
    # Which gate it is: its frame, its node and the visit.
    visited: tuple[str, str, int] | None = None

    @property
    def token(self) -> str:
        """What the terminal shows as the id: both in one word."""
        return f"{self.id}.{self.digest[:6]}"


def questions_of(
    view: RunView, workspace: Path, *, with_files: bool = True, with_hunks: bool = False
) -> list[InboxQuestion]:
    """What a run waits for; nothing while it works without asking, and when it is over."""
    if view.status not in ("running", "interrupted", "paused"):
        return []
    found = [_gate(view, workspace, gate) for gate in view.waiting_gates]
    ending = view.ending
    if not view.is_live:
        cursors = (at for at in view.cursors if at.result.last_attempt != "quota")
        lost = [at for at in cursors if at.phase == "lost"]
        found += [_lost(view, workspace, at) for at in lost]
        is_parked = ending is not None and ending.code == PARKED
        if ending is not None and is_parked and ending.kind not in ("gate", "lost", "approved"):
            found.append(_limit(view, workspace, ending))
    else:
        asked = [at for at in view.cursors if at.result.backend == "human"]
        found += [_asked(view, workspace, at) for at in asked if at.phase == "running"]
    if found and with_files:
        found = _with_files(view, workspace, found, with_hunks=with_hunks)
    return found


def gate_id(run: Run, gate: Approval) -> str:
    return question_id(run, "gate", *gate.visited)


def question_id(run: Run, *what: object) -> str:
    """Short enough to type; it begins with the letters of the run, so that the run is found.

    A copy of a run has questions of its own: the folder is part of it.
    """
    key = sha256_of(dump_json([os.fspath(run.root), *what]))
    return f"{run.id[-6:]}.{key[:6]}"


def _question(
    view: RunView,
    workspace: Path,
    kind: QuestionKind,
    about: str,
    text: str,
    since: float,
    choices: tuple[Choice, ...],
    *what: object,
    gate: Approval | None = None,
) -> InboxQuestion:
    before = _before(view)
    values = [[choice.value, choice.then] for choice in choices]
    until = (None, "") if gate is None else (gate.expires_at, gate.default)
    shown = dump_json([kind, about, text, values, *until, before.answer])
    return InboxQuestion(
        id=question_id(view.run, kind, *what),
        digest=sha256_of(shown)[:16],
        kind=kind,
        workspace=str(workspace),
        runs=str(view.run.root.parent),
        run_id=view.run.id,
        definition=view.state.definition,
        about=about,
        text=text,
        since=since,
        expires_at=until[0],
        default=until[1],
        at_terminal=view.asks_at_terminal or (view.is_live and not choices),
        choices=choices,
        evidence=before,
        visited=None if gate is None else gate.visited,
    )


def _gate(view: RunView, workspace: Path, gate: Approval) -> InboxQuestion:
    frame = next((f for f in frames_below(view.state.root) if f.key == gate.frame), None)
    choices = tuple(
        Choice(value, _then(view.index, frame, gate, label))
        for value, label in (("approve", APPROVED), ("deny", DENIED))
    )
    since = seconds_of(gate.requested_at)
    return _question(
        view, workspace, "gate", gate.stage, gate.prompt, since, choices, *gate.visited, gate=gate
    )


def _then(index: Index | None, frame: Frame | None, gate: Approval, label: str) -> str:
    """Where the plan goes with that decision."""
    if index is None or frame is None:
        return "the run goes on" if label == APPROVED else "the run may end"
    try:
        target = target_of(index.place(frame.plan, gate.node).node, label)
    except (StateError, KeyError):
        return ""
    match target:
        case Goto(node):
            return f"goes on with '{index.place(frame.plan, node).node.name}'"
        case Leave():
            return "goes on behind the loop or the call that it is in"
        case Finish(reason):
            return f"the run ends: {reason}"
        case Abort():
            return "the run has failed; that is final" if label == DENIED else "the run has failed"
        case Restart(plan):
            return f"starts '{index.plan(plan).name}' anew"


_RETRY = Choice("retry", "starts the step anew; what its attempt did may be done twice")
_CANCEL = Choice("cancel", "the run is cancelled for good")


def _lost(view: RunView, workspace: Path, at: Cursor) -> InboxQuestion:
    text = at.result.message or "its attempt was lost"
    if at.result.last_attempt in ("stopped", "void"):
        text = f"it has an effect, and its attempt may have done a part of it: {text}"
    what = (at.frame, at.name, at.visit, at.attempt)
    return _question(view, workspace, "lost", at.path, text, at.since, (_RETRY, _CANCEL), *what)


def _limit(view: RunView, workspace: Path, ending: Ending) -> InboxQuestion:
    since, reason = view.state.updated_at, ending.reason
    flags = resume_flags(ending, Reached.of(view.state)) or ()
    wider = f" with {' '.join(flags)}" if flags else ""
    go_on = Choice("resume", f"goes on{wider}", flags)
    about = ", ".join(at.path for at in view.cursors)
    return _question(
        view, workspace, "limit", about, reason, since, (go_on, _CANCEL), reason, since
    )


def _asked(view: RunView, workspace: Path, at: Cursor) -> InboxQuestion:
    entry = StepLog(at.address, at.result)
    text = _end_of(source_of(view.run, entry, "prompt")) or "a person is the agent of this step"
    what = (at.frame, at.name, at.visit, at.attempt)
    return _question(view, workspace, "question", at.path, text, at.since, (), *what)


def _before(view: RunView) -> Evidence:
    """The step that has ended last, with its newest answer where a check came behind it."""
    costs = view.state.costs
    ended = [entry for entry in entries_of(view.state) if entry.result.completed_at]
    if not ended:
        return Evidence(costs=costs)
    # What began later stands behind what began before it.
    ended.sort(key=lambda entry: entry.result.completed_at)
    last, check = ended[-1], ""
    step, part = step_of_part(last.path)
    turns = [entry for entry in ended if _is_turn_of(step, entry)]
    if not turns:
        step = last.path
    elif part:
        status = last.result.status
        check = ("passed" if status == "completed" else status) if part == "check" else ""
        last = turns[-1]
    return Evidence(step, _end_of(source_of(view.run, last, "stdout")), check, costs=costs)


def _is_turn_of(step: str, entry: StepLog) -> bool:
    return step_of_part(entry.path) in ((step, ""), (step, "round"))


def _end_of(source: Path | bytes) -> str:
    data = source if isinstance(source, bytes) else b""
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * _LONGEST_ANSWER))
                data = file.read(4 * _LONGEST_ANSWER)
        except OSError:
            return ""
    text = data.decode("utf-8", "replace").strip()
    return text if len(text) <= _LONGEST_ANSWER else "…" + text[-_LONGEST_ANSWER:]


def _with_files(
    view: RunView, workspace: Path, found: list[InboxQuestion], *, with_hunks: bool
) -> list[InboxQuestion]:
    now = time.time()
    told = read_chronicle(view.run, view.index, now, is_live=view.is_live)
    gate = last_gate(told.approvals)
    changes = find_changes(workspace, told.sittings, now, gate)
    listed = changes.listed
    unknown = changes.how[0]
    if changes.is_known:
        since = "the run began" if gate is None else f"gate '{gate.stage}' was asked"
        unknown = f"nothing since {since}, as git tells"
    shown = tuple(listed[:_MOST_FILES])
    inside = [hunks_of(workspace, one, told.sittings, gate) for one in shown if with_hunks]
    files = {
        "files_since": "" if gate is None else gate.stage,
        "files": shown,
        "hunks": tuple(inside),
        "files_left_out": max(0, len(listed) - _MOST_FILES) + changes.left_out,
        "files_unknown": "" if listed else unknown,
    }
    return [replace(one, evidence=replace(one.evidence, **files)) for one in found]


@record
class Waiting:
    """A gate that waits, with the run that it belongs to."""

    run_id: str
    definition: str
    at_terminal: bool
    gate: Approval
    # What `approve` and `deny` take for this one and no other.
    name: str
    evidence: Evidence = Evidence()
