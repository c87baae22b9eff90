"""Answers a question of the inbox: once, and only the one that was shown.

An answer names the question and the digest of what was shown. The same answer again is `already`,
another one is refused and names the first. A parked run goes on by itself, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.app.deciding.decide import decide
from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.ending.end_run import cancel_run
from orchestrate.errors import UsageError
from orchestrate.exits import ENVIRONMENT
from orchestrate.record import replace
from orchestrate.state.ballots import cast_answer, find_answer
from orchestrate.state.elsewhere import is_shadow, shown_run
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Runs, list_runs
from orchestrate.state.times import local_time
from orchestrate.state.users import user_name
from orchestrate.view.inbox import InboxQuestion, gate_id, questions_of
from orchestrate.view.outcomes import Answered
from orchestrate.view.place import Place
from orchestrate.view.run_view import RunView, run_view
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.state.known_workspaces import Known
    from orchestrate.state.runs import Run

_DECISIONS: dict[str, Literal["approved", "denied"]] = {"approve": "approved", "deny": "denied"}
_SAME = {"yes": "approve", "approved": "approve", "no": "deny", "denied": "deny"}
_END_WITHIN_S = 30.0
_START_WITHIN_S = 120.0
_AGAIN = "look again: orchestrate inbox"


class NoSuchQuestion(UsageError):
    """It never was, or nothing is known of it any more."""


class QuestionChanged(UsageError):
    """What was shown is not what is asked now."""


class AnsweredOtherwise(UsageError):
    """Another answer came first."""

    def __init__(self, question_id: str, value: str, by: str) -> None:
        super().__init__(f"question '{question_id}' was answered '{value}' already, by {by}")
        self.value = value
        self.by = by


def answer_question(
    workspaces: list[Known],
    question_id: str,
    digest: str,
    value: str,
    message: str,
    note: Callable[[str], None],
    *,
    goes_on: bool = True,
) -> Answered:
    """Answer the question of that id, if what was shown of it has that digest."""
    value = _SAME.get(value, value)
    for known, view in _runs_of(workspaces, question_id):
        for question in questions_of(view, known.workspace, with_files=False):
            if question.id == question_id:
                _check(question, digest, value)
                if question.visited is None:
                    _refuse_more(value, message, goes_on=goes_on)
                if is_shadow(view.run):
                    return _answer_there(view, question, value, message, known)
                answered = _answer(view, question, value, message, note)
                return _go_on(answered, known) if goes_on else answered
        earlier = _earlier(view, known, question_id)
        if earlier is not None:
            return _go_on(_same(earlier, value), known) if goes_on else _same(earlier, value)
    raise NoSuchQuestion(f"no question '{question_id}' waits for an answer", _AGAIN)


def _runs_of(workspaces: list[Known], question_id: str) -> Iterator[tuple[Known, RunView]]:
    """The runs that a question may be of: it begins with the end of the run's id."""
    letters = question_id.partition(".")[0]
    for known in workspaces:
        runs = [] if known.is_gone else list_runs(Runs(known.runs))
        for run in map(shown_run, runs):
            if letters and run.id.endswith(f"-{letters}"):
                yield known, settled_view(run)


def _check(question: InboxQuestion, digest: str, value: str) -> None:
    if not digest or not question.digest.startswith(digest):
        raise QuestionChanged(f"question '{question.id}' is not what was shown any more", _AGAIN)
    values = [choice.value for choice in question.choices]
    if not values:
        raise UsageError(
            f"question '{question.id}' is answered where it is asked: at the terminal of the run"
        )
    if value not in values:
        raise UsageError(f"'{value}' is not an answer to it", f"answers: {', '.join(values)}")


def _refuse_more(value: str, message: str, *, goes_on: bool) -> None:
    """What only a decision about a gate can have."""
    if message:
        raise UsageError("only a decision about a gate takes a message")
    if not goes_on and value != "cancel":
        raise UsageError(f"'{value}' continues the run, which --no-resume forbids")


def _answer(
    view: RunView, question: InboxQuestion, value: str, message: str, note: Callable[[str], None]
) -> Answered:
    run, by = view.run, user_name(os.environ)
    if question.visited is None:
        counted, by, is_first = cast_answer(run.root, question.id, value, by)
        if counted != value:
            raise AnsweredOtherwise(question.id, counted, by)
        if value == "cancel":
            again = Place(question.workspace).command("cancel", run.id)
            cancel_run(run, again, time.monotonic() + _END_WITHIN_S, note)
        flags = next(choice.flags for choice in question.choices if choice.value == value)
        given = _answered(_how(is_first), question.id, run, question.workspace, value, by)
        return replace(given, flags=flags)
    workspace = open_workspace(question.workspace)
    try:
        decided = decide(run, workspace, question.visited, _DECISIONS[value], message, note)
    except UsageError:
        # Another answer may have come first: then that one counts.
        earlier = _decided(run_view(run), question.id, question.workspace)
        if earlier is None:
            raise
        return _same(earlier, value)
    return _answered(
        _how(decided.is_first), question.id, run, question.workspace, value, decided.by
    )


def _answer_there(
    view: RunView, question: InboxQuestion, value: str, message: str, known: Known
) -> Answered:
    """A run on another machine is told by the command, which goes on with it, too."""
    choice = next(choice for choice in question.choices if choice.value == value)
    if question.visited is None:
        words: tuple[str, ...] = ("cancel",) if value == "cancel" else ("resume", "--detach")
    else:
        words = (value, *((f"--message={message}",) if message else ()))
    at = () if question.visited is None else (question.about,)
    code, said = _command(known, *words, *choice.flags, "--json", "--", view.run.id, *at)
    if code != 0:
        told = said.get("error") or {"message": f"`{words[0]}` did not succeed"}
        raise UsageError(str(told["message"]), str(told.get("hint", "")))
    by = user_name(os.environ)
    return _answered("recorded", question.id, view.run, question.workspace, value, by)


def _how(is_first: bool) -> Literal["recorded", "already"]:
    return "recorded" if is_first else "already"


def _answered(
    result: Literal["recorded", "already"],
    question_id: str,
    run: Run,
    workspace: str,
    value: str,
    by: str,
) -> Answered:
    status = run_view(run).status
    return Answered(result, question_id, run, workspace, value, by, status)


def _earlier(view: RunView, known: Known, question_id: str) -> Answered | None:
    """The answer that a question got that does not wait any more."""
    found = _decided(view, question_id, str(known.workspace))
    answer = find_answer(view.run.root, question_id)
    if found is None and answer is not None:
        return _answered("already", question_id, view.run, str(known.workspace), *answer)
    return found


def _decided(view: RunView, question_id: str, workspace: str) -> Answered | None:
    for gate in view.state.approvals:
        if gate.status in ("approved", "denied") and gate_id(view.run, gate) == question_id:
            value = next(value for value, decision in _DECISIONS.items() if decision == gate.status)
            at = f" at {local_time(gate.decided_at)}" if gate.decided_at else ""
            by = f"{gate.decided_by}{at}"
            return _answered("already", question_id, view.run, workspace, value, by)
    return None


def _same(earlier: Answered, value: str) -> Answered:
    if earlier.value != value:
        raise AnsweredOtherwise(earlier.question_id, earlier.value, earlier.by)
    return earlier


def _go_on(answered: Answered, known: Known) -> Answered:
    """Let a process of its own go on with a run that waits for nothing more."""
    view = run_view(answered.run)
    waits = [q for q in questions_of(view, known.workspace, with_files=False) if q.kind == "gate"]
    if view.status not in ("paused", "interrupted") or view.is_live or waits:
        return answered
    code, said = resume_apart(answered.run, known, answered.flags)
    if code == 0:
        return replace(answered, went_on=said.get("pid"), status="running")
    if is_held(answered.run.lock_file):
        return answered  # another process was quicker to go on with it
    why = said.get("error") or {"message": "it could not be resumed"}
    return replace(answered, stays=str(why["message"]))


def resume_apart(run: Run, known: Known, flags: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    """Resume a run as `resume -d` does: its exit code, and what it says of itself."""
    return _command(known, "resume", "--detach", "--json", *flags, run.id)


def _command(known: Known, verb: str, *words: str) -> tuple[int, dict[str, Any]]:
    # -P: nothing that lies in the workspace may stand in for our own modules.
    start = (sys.executable, "-P", "-m", "orchestrate", verb)
    place = ("--working-dir", str(known.workspace), "--state-dir", str(known.runs))
    try:
        done = subprocess.run(
            [*start, *place, *words], cwd=known.workspace, stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=_START_WITHIN_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return ENVIRONMENT, {"error": {"message": f"`{verb}` gave no answer: {error}"}}
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {}
    return done.returncode, document if isinstance(document, dict) else {}
