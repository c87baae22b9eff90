"""The files of agents' sessions travel with a run that moves to another machine (`fleet/publish`).

    RUN/sessions/AGENT/...   as they lie below the folder of the agent's program

They are laid out there only as files of the session that they are named after, and never over what
is more than they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrate.agents.adapter import SessionFiles
from orchestrate.agents.registry import PROGRAMS
from orchestrate.app.definitions.agent_definitions import configured_environment
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.model import RunState
from orchestrate.state.runs import Run
from orchestrate.state.sessions import sessions_of

FOLDER = "sessions"

# As ids are that we make, or learn: nothing that a pattern or a path could mean more by.
_PLAIN_ID = regex(r"[A-Za-z0-9_-]{8,200}\Z")


@record
class _Carried:
    """A session whose agent's program says which files it has."""

    agent: str
    session: str
    files: SessionFiles
    # The program's own folder.
    home: Path

    def patterns(self) -> list[str]:
        return [
            pattern.format(session=self.session, start=self.session[:8])
            for pattern in self.files.patterns
        ]

    def below(self, folder: Path) -> Iterator[str]:
        """The session's files below a folder, relative to it; no links are followed."""
        for pattern in self.patterns():
            for path in folder.glob(pattern):
                if path.is_file() and not path.is_symlink():
                    yield os.path.relpath(path, folder)


def gather_sessions(state: RunState, run: Run, environment: Mapping[str, str]) -> None:
    """Keep in the run's folder what the sessions of its agents are now."""
    wanted = set()
    for carried in _carried(state, environment):
        kept = run.root / FOLDER / carried.agent
        for name in carried.below(carried.home):
            content = _whole((carried.home / name).read_bytes(), name)
            wanted.add(kept / name)
            if not (kept / name).is_file() or (kept / name).read_bytes() != content:
                _write(kept / name, content)
    for folder, _, names in os.walk(run.root / FOLDER):
        for one in names:
            if Path(folder, one) not in wanted:
                os.unlink(os.path.join(folder, one))


def lay_out_sessions(state: RunState, run: Run, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Put back what came with a run from another machine; the sessions that are here then."""
    here = []
    for carried in _carried(state, environment):
        kept = run.root / FOLDER / carried.agent
        for name in carried.below(kept):
            content, target = (kept / name).read_bytes(), carried.home / name
            # What is more than it is a turn that was cut off here, or a person's.
            if not target.exists() or content.startswith(target.read_bytes()):
                _write(target, content)
        if any(carried.below(carried.home)):
            here.append(carried.session)
    return tuple(here)


def _carried(state: RunState, environment: Mapping[str, str]) -> Iterator[_Carried]:
    own = state.settings.get("agents") or {}
    for agent, session in sessions_of(state):
        files = PROGRAMS[agent]().session_files if agent in PROGRAMS else None
        if files is None or not _PLAIN_ID.match(session):
            continue
        variables = configured_environment(agent, own.get(agent) or {}, environment)
        home = variables.get(files.variable) or os.path.join(variables.get("HOME", ""), files.home)
        yield _Carried(agent, session, files, Path(home))


def _whole(content: bytes, name: str) -> bytes:
    """Without a line that is still being written."""
    return content[: content.rfind(b"\n") + 1] if name.endswith(".jsonl") else content


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(0o600)
    path.write_bytes(content)
