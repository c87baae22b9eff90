"""Looks at the run folders while a client listens, and passes on what has happened in the runs.

Nothing tells us when a run of another process writes: the sizes of journals are looked at, several
times a second while something happens, and not at all without a client.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.serve.telling import ClientMessages
from orchestrate.state.elsewhere import shown_run
from orchestrate.state.locks import is_held
from orchestrate.state.runs import list_runs
from orchestrate.view.follower import JournalTail
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
_QUICK_S = 0.15
_SLOW_S = 0.5
# Looks without news after which the look-out slows down.
_PATIENCE = 60
# A run that has ended can only be resumed; that is looked for less often, and among the newest.
_ENDED_EVERY = 6
_MOST_ENDED = 500
# A listener that does not keep up with so much is dropped: it comes back and reads from its cursor.
_MOST_WAITING = 2000
# After so many looks at a run at work whose lock is free its process is gone.
_MISSED = 3
_GONE = {"reason": "interrupted", "error": "the process that worked on it is gone"}
_OVER = ("completed", "cancelled", "failed", "damaged")


@record
class News:
    """What an event of a run says: its record, and the messages of the protocol.

    Without a run it is a message of this server alone.
    """

    messages: tuple[Json, ...]
    run_id: str = ""
    workspace: str = ""
    record: Json | None = None


class Listener:
    """A queue of news; `is_lost` when it was too slow."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[News] = asyncio.Queue(_MOST_WAITING)
        self.is_lost = False

    def put(self, news: News) -> None:
        try:
            self.queue.put_nowait(news)
        except asyncio.QueueFull:
            self.is_lost = True


class _Followed:
    """A run that may still change: what its journal had at the last look."""

    def __init__(self, workspace: Workspace, run: Run) -> None:
        self.workspace = str(workspace.root)
        self.run = run
        self.telling = ClientMessages(run)
        self._tail = JournalTail(run, 0)
        self._missed = 0

    def catch_up(self) -> None:
        """What is there when the first listener comes is no news."""
        with suppress(OrchestrateError, OSError):  # the page says what is wrong with it
            self.telling.catch_up()
        self._tail = JournalTail(self.run, self.telling.heard)
        if self._is_left:
            self.telling.exit(**_GONE)

    @property
    def _is_left(self) -> bool:
        """Is it at work by its journal, but without a process? A killed process writes nothing."""
        return (
            self.telling.is_active
            and not self.telling.is_parked
            and not is_held(self.run.lock_file)
        )

    def news(self) -> list[News]:
        found = []
        # Looked at first: a run that ends writes so before it lets its lock go.
        is_left = self._is_left
        try:
            for recorded in self._tail.news():
                one, messages = self.telling.tell(recorded.seq, recorded.event)
                found.append(News(tuple(messages), self.run.id, self.workspace, one))
        except (OrchestrateError, OSError):
            pass  # it is damaged, or gone: what the page reads of it says so
        self._missed = self._missed + 1 if is_left and not found else 0
        if self._missed == _MISSED:
            found.append(News(tuple(self.telling.exit(**_GONE)), self.run.id, self.workspace))
        return found

    def since_resume(self) -> list[News]:
        """Of a run that had ended: what its last resume brought, the rest has been told."""
        found = self.news()
        resumes = [
            at
            for at, one in enumerate(found)
            if one.record is not None and one.record["event"] == "run-resumed"
        ]
        return found[resumes[-1] :] if resumes else []


class RunsWatch:
    """The one look-out of a server."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._listeners: set[Listener] = set()
        self._followed: dict[str, _Followed] = {}
        # Runs that have ended, with the size of their journals; newest first.
        self._ended: dict[str, tuple[Workspace, Run, int]] = {}
        self._folders: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._poke = asyncio.Event()

    def active(self) -> list[ClientMessages]:
        """The runs that are at work, or parked for a person; only while a client listens."""
        return [one.telling for one in self._followed.values() if one.telling.is_active]

    async def join(self) -> Listener:
        """Hear what happens from now on; the runs that are there have been read by then."""
        listener = Listener()
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._folders.clear()
            await asyncio.to_thread(self._look, is_first=True)
            self._task = asyncio.create_task(self._run())
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def tell_all(self, *messages: Json) -> None:
        """Messages of this server itself."""
        for listener in self._listeners:
            listener.put(News(messages))

    def poke(self) -> None:
        """Look now: this server has just changed something."""
        self._poke.set()

    async def _run(self) -> None:
        idle = number = 0
        while self._listeners:
            number += 1
            looks_back = number % _ENDED_EVERY == 0
            found = await asyncio.to_thread(self._look, is_first=False, looks_back=looks_back)
            idle = 0 if found else idle + 1
            for news in found:
                for listener in self._listeners:
                    listener.put(news)
            try:
                pause = _QUICK_S if idle < _PATIENCE else _SLOW_S
                await asyncio.wait_for(self._poke.wait(), pause)
            except TimeoutError:
                continue
            self._poke.clear()
            idle = 0
        self._followed.clear()
        self._ended.clear()

    def _look(self, *, is_first: bool, looks_back: bool = False) -> list[News]:
        found: list[News] = []
        for workspace in self._console.workspaces:
            self._find_new(workspace, is_first)
        if looks_back:
            found += self._find_resumed()
        for followed in list(self._followed.values()):
            found += [] if is_first else followed.news()
            if followed.telling.is_over:
                self._end(followed.run.id)
        return found

    def _end(self, run_id: str) -> None:
        followed = self._followed.pop(run_id)
        workspace = next(
            one for one in self._console.workspaces if str(one.root) == followed.workspace
        )
        known = (workspace, followed.run, _size_of(followed.run))
        self._ended = {run_id: known, **self._ended}

    def _find_new(self, workspace: Workspace, is_first: bool) -> None:
        """A folder that has not changed holds no run that we do not know."""
        try:
            runs = self._console.runs_of(workspace)
            changed = os.stat(runs.folder).st_mtime_ns
            if self._folders.get(str(runs.folder)) == changed:
                return
            self._folders[str(runs.folder)] = changed
            listed = [shown_run(run) for run in list_runs(runs)]
        except (OrchestrateError, OSError):
            return
        for run in listed:
            if run.id in self._followed or run.id in self._ended:
                continue
            if is_first and summary_of(run).status in _OVER:
                self._ended[run.id] = (workspace, run, _size_of(run))
            else:
                followed = self._followed[run.id] = _Followed(workspace, run)
                if is_first:
                    followed.catch_up()

    def _find_resumed(self) -> list[News]:
        found: list[News] = []
        for run_id, (workspace, run, size) in list(self._ended.items())[:_MOST_ENDED]:
            if _size_of(run) > size:
                del self._ended[run_id]
                followed = _Followed(workspace, run)
                self._followed[run_id] = followed
                found += followed.since_resume()
        return found


def _size_of(run: Run) -> int:
    try:
        return os.stat(run.events).st_size
    except OSError:
        return -1
