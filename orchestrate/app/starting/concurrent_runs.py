"""The live runs of a workspace: a second machine or recipe is refused, a workflow gets a note.

Each run that is worked on has a file in `.orchestrate/locks/live`, named by its id, that says where
the run lies; it counts while an orchestrator holds the run's own lock, and after a kill of that one
while a program of a step goes on. A new run holds the folder's lock until it is registered there,
so that of two that start at once one wins.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from orchestrate.app.ending.claim import orchestrator_of
from orchestrate.app.ending.kept_programs import are_programs_left, do_programs_run, is_kept
from orchestrate.errors import ConfigError, OrchestrateError, explain
from orchestrate.git_head import git_above
from orchestrate.plan.nodes import Ask, CommandTemplate, Dialect, Program, all_nodes, main_plan
from orchestrate.plan.nodes import Run as Command
from orchestrate.record import record
from orchestrate.state.durable import dump_json, parse_json, read_file, write_visibly
from orchestrate.state.known_workspaces import note_workspace
from orchestrate.state.locks import workspace_locks
from orchestrate.state.runs import Run, is_run_id
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.state.locks import Owner
    from orchestrate.workspace import Workspace

# What a step's program has in its environment: the runs that it is a part of, outermost first.
INSIDE = "ORCHESTRATE_INSIDE_RUNS"
_PATIENCE_S = 30.0
_POLL_S = 0.02
# These answer from a script: no agent changes the workspace.
_PLAYED = ("rehearsal", "replay")


@record
class Neighbour:
    run: Run
    dialect: str
    # None: it was killed, and a program of a step that it began has not ended.
    owner: Owner | None

    @property
    def told(self) -> str:
        if self.owner is None:
            return f"a program of run {self.run.id}, whose orchestrator is gone, works here still"
        return f"run {self.run.id} is at work in this workspace: {self.owner.describe()}"

    @property
    def way_out(self) -> str:
        if self.owner is None:
            ways = ("resume", "continue"), ("stop", "end")
            return ", or ".join(
                f"{verb} it: orchestrate {name} {self.run.id}" for name, verb in ways
            )
        return f"wait for it: orchestrate wait {self.run.id}"


class WorkspaceEntry:
    """Hold the lock of a workspace until `register` has written our run down.

    `home` is the workspace that has the run's folder, if it works in a worktree of its own.
    """

    def __init__(
        self,
        workspace: Workspace,
        program: Program,
        settings: RunSettings,
        reporter: Reporter,
        own: str = "",
        *,
        home: Workspace | None = None,
    ) -> None:
        self._dialect: Dialect = main_plan(program).dialect
        self._allows = settings.allow_concurrent
        runs_commands = settings.rehearse_commands or settings.backend == "replay"
        self._is_played = settings.backend in _PLAYED and not (
            runs_commands and has_commands(program)
        )
        self._workspace = workspace
        self._home = home or workspace
        self._reporter = reporter
        self._own = own
        self._lock_fd: int | None = None
        self._entry: Path | None = None

    def __enter__(self) -> WorkspaceEntry:
        if self._is_played:
            return self
        folder = workspace_locks(self._workspace.root, os.environ) / "live"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._lock_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise explain("make", folder, error) from error
        self._folder = folder
        try:
            _lock(self._lock_fd, folder)
            inside = {*os.environ.get(INSIDE, "").split(":"), self._own}
            others = [one for one in _live(folder) if one.run.id not in inside]
            self._refuse([one for one in others if one.dialect != "workflow"])
            if others and not self._allows:
                self._reporter.note(_also_here(others))
        except BaseException:
            self._unlock()
            raise
        return self

    def _refuse(self, others: list[Neighbour]) -> None:
        if self._dialect == "workflow" or self._allows or not others:
            return
        first = others[0]
        ways = f"{first.way_out}, or add --allow-concurrent to run both"
        if not self._own and git_above(self._workspace.root) is not None:
            ways += ", or --worktree to let this one work in a git worktree of its own"
        raise ConfigError(first.told, ways)

    def register(self, run: Run) -> None:
        """From here on others find our run, and may look."""
        note_workspace(self._home.root, run.root.parent, os.environ)
        if self._is_played:
            return
        self._entry = self._folder / run.id
        write_visibly(self._entry, dump_json([str(run.root), self._dialect]))
        self._unlock()

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._unlock()
        if self._entry is not None:
            self._entry.unlink(missing_ok=True)


def refuse_at_work(workspace: Workspace, own: Run, dialect: str) -> None:
    """Refuse what changes files that a run, of whatever dialect, is at work on: another one, or
    `own`, which we hold, with a program that a killed orchestrator has left."""
    found = [Neighbour(own, dialect, None)] if do_programs_run(own) else []
    folder = workspace_locks(workspace.root, os.environ) / "live"
    if folder.is_dir():
        found += [other for other in _live(folder) if other.run.id != own.id]
    for one in found:
        raise ConfigError(one.told, one.way_out)


def has_commands(program: Program) -> bool:
    """Does it start programs of its own, which may change the workspace?"""
    return any(
        isinstance(node.op, Command)
        or (isinstance(node.op, Ask) and isinstance(node.op.agent, CommandTemplate))
        for node in all_nodes(program)
    )


def inside_of(run_id: str, environment: Mapping[str, str]) -> str:
    """The mark for programs of a run: it, and the runs that it is a part of."""
    return ":".join(filter(None, (environment.get(INSIDE, ""), run_id)))


def _lock(fd: int, folder: Path) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise ConfigError(
                    "another run is starting in this workspace and makes no progress",
                    f"it holds the lock of {folder}; try again when it has started or is ended",
                ) from None
            time.sleep(_POLL_S)
        except OSError as error:
            raise explain("lock", folder, error) from error
        else:
            return


def _live(folder: Path) -> Iterator[Neighbour]:
    """The runs that are worked on; what is left of others is removed."""
    for name in sorted(os.listdir(folder)):
        if not is_run_id(name):
            continue
        try:
            root, dialect = parse_json(read_file(folder / name) or b"")
            run = Run(name, Path(root))
        except (ValueError, TypeError):
            continue
        owner = orchestrator_of(run)
        if owner is None and not _has_left_programs(run):
            (folder / name).unlink(missing_ok=True)
        else:
            yield Neighbour(run, str(dialect), owner)


def _has_left_programs(run: Run) -> bool:
    """Its keeper outlives the last program by a moment, and says nothing by itself."""
    try:
        return is_kept(run) and are_programs_left(run_view(run))
    except OrchestrateError:
        return True  # it cannot be read, but something of it lives


def _also_here(others: list[Neighbour]) -> str:
    names = ", ".join(one.run.id for one in others)
    also = "also works" if len(others) == 1 else "also work"
    return f"orchestrate: in this workspace {also}: run {names}\n"
