"""Runs as they lie on the disk: found by what the user calls them, read without changing them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.lenient import Tell, config_told
from orchestrate.app.config.load import runs_folder
from orchestrate.app.given.settings import RunSettings, settings_of
from orchestrate.app.workspaces import with_aliases, workspace_of
from orchestrate.errors import StateError, linked_copy
from orchestrate.execute.place import is_same_place, place_of
from orchestrate.record import record
from orchestrate.state.backups import newest_valid
from orchestrate.state.decode import check_state
from orchestrate.state.durable import read_file
from orchestrate.state.events import Edited, RunResumed, RunStarted
from orchestrate.state.plan_file import edit_folder
from orchestrate.state.recorded import read_events
from orchestrate.state.runs import find_run
from orchestrate.view.place import Place
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.state.runs import Run, Runs
    from orchestrate.workspace import Workspace


@record
class Header:
    """What a run was started with; enough to compile its definition again.

    `root` is the folder that has its plan: the run's own, or since an edit one inside it.
    """

    run_id: str
    root: Path
    workspace: str
    definition: str
    sources: dict[str, str]
    settings: RunSettings
    context: dict[str, Any]
    edit: int = 0


def find_stored(
    text: str, place: Place, *, tell_fault: Tell | None = None
) -> tuple[Runs, Run, Workspace]:
    """The run that the user means, and the workspace that it works in.

    A run inside the current workspace belongs to it, also after the folder was moved or copied;
    one that lies elsewhere (`--state-dir`) belongs to the workspace it was started in. For commands
    that only look, the rest of the configuration may be wrong: `tell_fault` hears of it.
    """
    workspace = workspace_of(place.working_dir)
    config = config_told(workspace, place.state_dir, tell_fault)
    runs = runs_folder(workspace, config, place.state_dir)
    run = find_run(runs, text)
    if place.working_dir is None and not run.root.is_relative_to(workspace.root):
        recorded = Path(header_of(run).workspace)
        if recorded.is_dir():
            workspace = with_aliases(open_workspace(recorded))
    return runs, run, workspace


def header_of(run: Run) -> Header:
    """From the journal's first event, or else from the newest valid state.

    The settings of a later resume come from the state and from what the journal has beyond it, up
    to the first damage.
    """
    document = newest_document(run)
    started, settings, edited = _start_of(run, document)
    if edited is not None and started is not None:
        return Header(
            run_id=run.id,
            root=edit_folder(run.root, edited.edit),
            workspace=started.workspace,
            definition=edited.definition,
            sources=edited.sources,
            settings=settings_of(settings),
            context=edited.context,
            edit=edited.edit,
        )
    if started is not None:
        return Header(
            run_id=run.id,
            root=run.root,
            workspace=started.workspace,
            definition=started.definition,
            sources=started.sources,
            settings=settings_of(settings),
            context=started.context,
        )
    try:
        edit = document["engine"].get("edit", [0])[0]
        return Header(
            run_id=run.id,
            root=edit_folder(run.root, edit),
            workspace=document["engine"]["workspace"],
            definition=document["workflow_file"],
            sources=document["sources"],
            settings=settings_of(document["settings"]),
            context=document["context"],
            edit=edit,
        )
    except KeyError:
        raise StateError(
            f"run {run.id} is damaged: neither its journal nor its state says what was run",
            f"look into {run.root}; start the definition anew with: orchestrate run FILE",
        ) from None


def newest_document(run: Run) -> dict[str, Any]:
    """The state, the one before it, or a copy of an earlier one; empty if none is valid."""
    # What is not a readable file, its owner has to repair first.
    read_file(run.state)
    try:
        return newest_valid(run, lambda content: check_state(content, run.id))[1]
    except StateError:
        return {}


def given_later(run: Run) -> dict[str, Any]:
    """The values for the context that resumes of a run were given."""
    values: dict[str, Any] = {}
    with suppress(StateError):
        for recorded in read_events(run.events):
            if isinstance(recorded.event, RunResumed):
                values |= recorded.event.context
    return values


def _start_of(
    run: Run, document: dict[str, Any]
) -> tuple[RunStarted | None, dict[str, Any], Edited | None]:
    """The journal's first event, if it can be read, the settings that hold now, the last edit."""
    started: RunStarted | None = None
    edited: Edited | None = None
    settings = dict(document.get("settings", {}))
    with suppress(StateError):
        first = next(read_events(run.events), None)
        if first is not None and isinstance(first.event, RunStarted):
            started = first.event
            settings = dict(document.get("settings", started.settings))
        seq = document.get("seq", 0)
        # Only an edited run has to look for the edit.
        is_edited = document.get("engine", {}).get("edit", [0])[0] > 0
        for recorded in read_events(run.events, 0 if is_edited else seq):
            # Of a resume that was killed before it brought the state up to date.
            if isinstance(recorded.event, RunResumed) and recorded.seq > seq:
                settings |= recorded.event.settings
            elif isinstance(recorded.event, Edited):
                edited = recorded.event
    return started, settings, edited


def refuse_linked(run: Run, recorded_place: str) -> None:
    """Write nothing into a copy by hard links: its journal is the original's, too."""
    # A run that was killed before its first event has no journal yet.
    is_shared = run.events.exists() and os.stat(run.events).st_nlink > 1
    if is_shared and not is_same_place(recorded_place, place_of(str(run.root))):
        raise linked_copy(run.root)
