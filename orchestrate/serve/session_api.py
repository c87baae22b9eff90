"""Sessions in the HTTP interface: which there are, what was said, and one more message."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.errors import UsageError
from orchestrate.serve.active_turn import active_run, activity_in, turn_json
from orchestrate.serve.chats import Prompt
from orchestrate.serve.problems import Problem
from orchestrate.serve.sessions import ListedSession, find_session, history, sessions
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
    """What was said, and what is active there, which bars the message box."""
    session = _session(asked)
    said = history(session)
    active = activity_in(session)
    return {
        "session": session.to_json(),
        "messages": said[-_MOST_SHOWN:],
        "left_out": max(0, len(said) - _MOST_SHOWN),
        "active_run": None if active is None else active["run_id"],
        "active": active,
    }


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
        **turn_json(turn),
    }
