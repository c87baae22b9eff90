"""Sessions in the HTTP interface: which there are, what was said, and one more message."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from orchestrate.app.transcripts import transcripts_of
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.serve.chats import Prompt
from orchestrate.serve.problems import Problem
from orchestrate.serve.sessions import ListedSession, find_session, history, sessions
from orchestrate.serve.telling import CHAT
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import find_entry
from orchestrate.view.transcripts import read_turn

if TYPE_CHECKING:
    from orchestrate.serve.operations import CheckedRequest

Json = dict[str, Any]
_MOST_SHOWN = 200
_MOST_PASSAGES = 400


def list_sessions(asked: CheckedRequest) -> Json:
    found = sessions(asked.console)
    return {"sessions": [one.to_json() for one in found[: asked.given["limit"]]]}


def _session(asked: CheckedRequest) -> ListedSession:
    found = find_session(asked.console, asked.given["session"])
    if found is None:
        raise Problem(404, "there is no such session in our runs")
    return found


def show_session(asked: CheckedRequest) -> Json:
    """What was said, and the run that is active there, which bars the message box."""
    session = _session(asked)
    said = history(session)
    active = active_run(session)
    return {
        "session": session.to_json(),
        "messages": said[-_MOST_SHOWN:],
        "left_out": max(0, len(said) - _MOST_SHOWN),
        "active_run": active,
    }


def active_run(session: ListedSession) -> str | None:
    """The recipe or turn that is at work or parked in a session."""
    for run in reversed(session.runs):
        try:
            view = run_view(run)
        except OrchestrateError:
            continue
        is_parked = bool(view.waiting_gates) and view.state.definition != CHAT
        is_there = session.id in (view.state.session.id, run.id)
        if is_there and (view.is_live or is_parked):
            return run.id
    return None


def send_prompt(asked: CheckedRequest) -> Json:
    """One more turn in a session; it goes on by itself, and is followed like any run."""
    session = _session(asked)
    asked.console.change(asked.who, asked.place, "chat")
    if active_run(session) is not None:
        raise Problem(409, "something works in this session; wait for it, or stop it", exit_code=5)
    backend = asked.body.get("backend") or session.agent
    return _begin(Prompt(asked.body["text"], session.workspace, session.id, backend=backend))


def new_session(asked: CheckedRequest) -> Json:
    workspace = asked.console.workspace(asked.body.get("workspace"))
    asked.console.change(asked.who, asked.place, "chat")
    return _begin(Prompt(asked.body["text"], workspace, backend=asked.body.get("backend", "")))


def _begin(prompt: Prompt) -> Json:
    """Start the turn's process; its first line names the run, or says why there is none."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrate.serve.chat_turn"], cwd=prompt.workspace.root,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(prompt.to_json()).encode())
    process.stdin.close()
    first = process.stdout.readline()
    threading.Thread(target=_reap, args=(process,), daemon=True).start()
    try:
        told = json.loads(first)
    except ValueError:
        raise Problem(409, "the turn could not be started", exit_code=5) from None
    if "run_id" not in told:
        raise Problem(409, str(told.get("error")), exit_code=5)
    return {"run_id": told["run_id"]}


def _reap(process: subprocess.Popen[bytes]) -> None:
    with process:
        assert process.stdout is not None
        process.stdout.read()


def show_transcript(asked: CheckedRequest) -> Json:
    """What an agent did in its turn, readable."""
    workspace, run = asked.console.find(asked.given["run"])
    try:
        entry = find_entry(run, run_view(run).state, asked.given["step"])
    except UsageError as error:
        raise Problem(404, error.message, error.hint) from None
    turn = read_turn(run, entry, transcripts_of(run, workspace), _MOST_PASSAGES)
    return {
        "step": entry.path,
        "running": entry.is_running,
        "left_out": turn.left_out,
        "doing": {"activity": turn.doing.activity, "words": turn.doing.words},
        "passages": [
            {"number": one.number, "kind": one.kind, "text": one.text, "tool": one.tool,
             "error": one.is_error, "left_out": one.left_out}
            for one in turn.passages
        ],
    }  # fmt: skip
