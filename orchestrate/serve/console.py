"""What one server is: whose runs it shows, who may come in, and what is allowed here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.config.lenient import config_told
from orchestrate.app.config.load import runs_folder
from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.serve.audit import Who, note_change
from orchestrate.serve.hosts import LOOPBACK, is_loopback
from orchestrate.serve.problems import Problem
from orchestrate.state.elsewhere import shown_run
from orchestrate.state.runs import LATEST, Run, Runs, find_listed, is_run_id, list_runs, second_of
from orchestrate.view.place import Place
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.serve.keys import AccessKeys
    from orchestrate.workspace import Workspace

READ_ONLY = "this console only looks: it was started with --read-only"


@record
class Console:
    """Everything that a request may ask about the server."""

    workspaces: tuple[Workspace, ...]
    keys: AccessKeys
    host: str
    port: int
    allowed: tuple[str, ...] = ()
    read_only: bool = False
    # Workspaces that were gone when the server started.
    missing: tuple[str, ...] = ()

    @property
    def gone(self) -> list[str]:
        """The workspaces whose folders are not there."""
        roots = [str(one.root) for one in self.workspaces if not one.root.is_dir()]
        return [*self.missing, *roots]

    @property
    def hosts(self) -> frozenset[str]:
        """The names that we answer to; not the bound address, unless it is allowed by name, or is
        of this computer alone."""
        own = (self.host,) if is_loopback(self.host) else ()
        return frozenset((*LOOPBACK, *own, *(name.lower() for name in self.allowed)))

    def runs_of(self, workspace: Workspace) -> Runs:
        return runs_folder(workspace, config_told(workspace, None, lambda _: None), None)

    def place_of(self, workspace: Workspace) -> Place:
        """For the commands that we advise, which are given in any folder."""
        return Place(str(workspace.root))

    def all_runs(self) -> list[tuple[Workspace, Run]]:
        """The runs of all workspaces, newest first."""
        found: list[tuple[Workspace, Run]] = []
        for workspace in self.workspaces:
            try:
                runs = list_runs(self.runs_of(workspace))
            except OrchestrateError:
                continue  # it cannot be read, as the doctor says, or it is gone, as the list says
            found += [(workspace, shown_run(run)) for run in runs]
        # Not by the whole ids: those of one second stand in the order in which they were started.
        return sorted(found, key=lambda pair: second_of(pair[1].id), reverse=True)

    def find(self, run_id: str) -> tuple[Workspace, Run]:
        """A run by its id alone, whichever workspace has it."""
        if is_run_id(run_id):
            for workspace in self.workspaces:
                run = Run(run_id, self.runs_of(workspace).folder / run_id)
                if run.root.is_dir():
                    return workspace, shown_run(run)
        elif run_id == LATEST:
            for workspace in self.workspaces:
                try:
                    return workspace, shown_run(find_listed(self.runs_of(workspace), LATEST))
                except OrchestrateError:
                    continue
        raise Problem(404, f"there is no run '{run_id[:40]}'", exit_code=2)

    def workspace(self, given: str | None) -> Workspace:
        """The workspace that is meant: a served one, or a folder in one; the first by default."""
        if given is None or given == "":
            return self.workspaces[0]
        path = Path(os.path.realpath(given))
        for workspace in self.workspaces:
            if path == workspace.root:
                return workspace
            if path.is_relative_to(workspace.root) and path.is_dir():
                return open_workspace(path)
        raise Problem(403, f"'{given[:200]}' is not in a workspace of this console", exit_code=2)

    def change(self, who: Who, place: str, what: str, run: str = "") -> None:
        """Every change passes here first: it is barred with --read-only, and it is recorded."""
        if self.read_only:
            raise Problem(403, READ_ONLY, exit_code=2)
        note_change(os.environ, who, place, what, run)
