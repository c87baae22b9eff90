"""The sessions of agents as our runs know them: which there are, and what was said in each."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.serve.telling import CHAT, recipe_name
from orchestrate.serve.turns import turns_of
from orchestrate.state.durable import read_file
from orchestrate.state.events import RunStarted, SessionChosen, SessionSeen
from orchestrate.state.journal import end_of
from orchestrate.state.recorded import read_events
from orchestrate.state.times import timestamp
from orchestrate.view.run_summary import summary_of
from orchestrate.view.step_logs import StepLog, source_of

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
# Sessions are looked for in so many of the newest runs.
_MOST_RUNS = 300
_MOST_TEXT = 40_000


@record
class ListedSession:
    """A session, or a run without one; `runs` are those that were in it, oldest first."""

    id: str
    workspace: Workspace
    runs: tuple[Run, ...]
    name: str
    agent: str
    last_modified: float

    def to_json(self) -> Json:
        return {
            "session_id": self.id,
            "name": self.name,
            "working_directory": str(self.workspace.root),
            "last_modified": timestamp(self.last_modified),
            "provider": self.agent,
            "message_count": None,
            "run_ids": [run.id for run in self.runs],
        }


def sessions(console: Console) -> list[ListedSession]:
    """Newest first. A run that has been in several sessions counts for each."""
    found: dict[str, ListedSession] = {}
    for workspace, run in console.all_runs()[:_MOST_RUNS]:
        fields = summary_of(run).fields()
        name = recipe_name(str(fields.get("workflow_file", "unknown recipe")))
        for session_id, agent in _sessions_of(run).items():
            known = found.get(session_id)
            if known is None:
                at = _changed_at(run)
                found[session_id] = ListedSession(session_id, workspace, (run,), name, agent, at)
            else:
                runs = (run, *known.runs)
                better = name if known.name == "chat" else known.name
                found[session_id] = ListedSession(
                    session_id,
                    known.workspace,
                    runs,
                    better,
                    agent or known.agent,
                    known.last_modified,
                )
    return list(found.values())


def _changed_at(run: Run) -> float:
    try:
        return run.events.stat().st_mtime
    except OSError:
        return 0.0


_OF_SESSIONS = (b'"on":"run-started"', b'"on":"session-seen"', b'"on":"session-chosen"')
_MOST_KEPT = 5000


@record
class _Kept:
    """The sessions of a run by id, with their agents, up to an event; journals only grow."""

    size: int
    seq: int
    found: dict[str, str]


_kept: dict[str, _Kept] = {}


def _sessions_of(run: Run) -> dict[str, str]:
    """The ids of a run's own sessions with their agents; the run's id if it has none."""
    name = str(run.root)
    known = _kept.get(name, _Kept(0, 0, {}))
    try:
        size = run.events.stat().st_size
        if size < known.size:
            known = _Kept(0, 0, {})
        if size != known.size:
            last = end_of(run.events)
            found = dict(known.found)
            with suppress(OrchestrateError):
                _read_sessions(run, known.seq, found)
            known = _Kept(size, last, found)
    except (OSError, OrchestrateError):
        return {run.id: ""}
    if len(_kept) > _MOST_KEPT:
        _kept.clear()
    _kept[name] = known
    return known.found or {run.id: ""}


def _read_sessions(run: Run, after: int, found: dict[str, str]) -> None:
    for recorded in read_events(run.events, after, _OF_SESSIONS):
        match recorded.event:
            case RunStarted(session=session) if session is not None:
                found[session] = str(recorded.event.settings.get("backend", ""))
            case SessionSeen(session=session, agent=agent, node="") if session is not None:
                found[session] = agent
            case SessionChosen(session=session, agent=agent, node="") if session is not None:
                found.setdefault(session, agent)
            case _:
                continue


def find_session(console: Console, session_id: str) -> ListedSession | None:
    """By its id, or by that of a run in it: a client that began one knows no other at first."""
    found = sessions(console)
    by_run = (one for one in found if any(run.id == session_id for run in one.runs))
    return next((one for one in found if one.id == session_id), next(by_run, None))


def history(session: ListedSession) -> list[Json]:
    """What was said, oldest first: each turn's prompt and its answer. `seq` counts from 1."""
    found: list[Json] = []
    for run in session.runs:
        # A turn that failed early is of no session that was seen: of the run's, if that is clear.
        is_only = is_chat(run) or len(_sessions_of(run)) == 1
        for entry in turns_of(run):
            of = entry.result.session_id
            if session.id in (run.id, of) or (of is None and is_only):
                with suppress(OSError):
                    found += _turn(run, entry, session)
    return [{**message, "seq": number} for number, message in enumerate(found, 1)]


def is_chat(run: Run) -> bool:
    return summary_of(run).fields().get("workflow_file") == CHAT


def _turn(run: Run, entry: StepLog, session: ListedSession) -> list[Json]:
    result = entry.result
    said = {
        "user": (text_of(source_of(run, entry, "prompt")), result.started_at),
        "assistant": (
            # What a program printed that failed is no answer.
            result.message or text_of(source_of(run, entry, "stdout")),
            result.completed_at,
        ),
    }
    return [
        {
            "uuid": str(uuid5(NAMESPACE_URL, f"{run.id}/{entry.address.shown}/{role}")),
            "role": role,
            "text": text,
            "timestamp": at or "",
            "provider": result.backend or session.agent,
            "session_id": session.id,
        }
        for role, (text, at) in said.items()
        if text
    ]


def text_of(source: Path | bytes) -> str:
    content = source if isinstance(source, bytes) else read_file(source) or b""
    return cut(content.decode("utf-8", "replace"), _MOST_TEXT)


def cut(text: str, most: int) -> str:
    """A text that is not too long; what is left out is in its middle."""
    if len(text) <= most:
        return text
    half = max(0, most // 2 - 20)
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[len(text) - half :]}"
