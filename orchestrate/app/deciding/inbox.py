"""Looks through all workspaces of the user for what waits for a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.app.secrets import secrets_of_run
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import OrchestrateError
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.elsewhere import is_shadow, shown_run
from orchestrate.state.gates import gate_names
from orchestrate.state.known_workspaces import Known, known_workspaces
from orchestrate.state.runs import Run, Runs, list_runs
from orchestrate.view.inbox import Evidence, InboxQuestion, Waiting, questions_of
from orchestrate.view.place import Place
from orchestrate.view.run_summary import may_go_on_elsewhere, summary_of

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.view.run_view import RunView

_MAY_WAIT = ("running", "interrupted", "paused")


@record
class Inbox:
    """The questions, oldest first, and the workspaces that are gone."""

    questions: tuple[InboxQuestion, ...]
    gone: tuple[str, ...]


def all_workspaces() -> list[Known]:
    """Those that the user has run something in, and the current one."""
    known = known_workspaces(os.environ)
    try:
        here = Known(workspace_of(None).root, runs_of(Place(), tell_fault=lambda _: None).folder)
    except OrchestrateError:
        return known
    return known if here in known or not here.runs.is_dir() else [*known, here]


def open_elsewhere(workspaces: list[Known]) -> list[Run]:
    """Runs on other machines that may wait for a person."""
    found: list[Run] = []
    for known in workspaces:
        # A folder that cannot be listed is told when its questions are looked for.
        with suppress(OrchestrateError):
            runs = () if known.is_gone else list_runs(Runs(known.runs))
            found += filter(may_go_on_elsewhere, runs)
    return found


def open_inbox(
    workspaces: list[Known],
    note: Callable[[str], None],
    *,
    with_files: bool = True,
    with_hunks: bool = False,
) -> Inbox:
    """What waits now; a run that cannot be read is told, and left out."""
    waiting = [(known, view) for known in workspaces for view in _waiting(known, note)]
    sent = {view.run.id for _, view in waiting if is_shadow(view.run)}
    found: list[InboxQuestion] = []
    for known, view in waiting:
        # A run that was sent to this very computer asks where it was sent from, not in its seat.
        if view.run.id in sent and not is_shadow(view.run):
            continue
        asked = questions_of(view, known.workspace, with_files=with_files, with_hunks=with_hunks)
        found += [masked(question, view.run) for question in asked]
    gone = dict.fromkeys(str(known.workspace) for known in workspaces if known.is_gone)
    return Inbox(tuple(sorted(found, key=lambda question: question.since)), tuple(gone))


def masked(question: InboxQuestion, run: Run) -> InboxQuestion:
    """The run's own files are masked; what git shows of the others is not."""
    evidence = question.evidence
    if not evidence.hunks:
        return question
    mask = secrets_of_run(run, workspace_of(question.workspace)).text
    hunks = tuple(mask(text) for text in evidence.hunks)
    return replace(question, evidence=replace(evidence, hunks=hunks))


def _waiting(known: Known, note: Callable[[str], None]) -> Iterator[RunView]:
    try:
        runs = () if known.is_gone else list_runs(Runs(known.runs))
    except OrchestrateError as error:
        note(f"orchestrate: {visible(str(known.workspace))} is skipped: {visible(error.message)}\n")
        return
    for run in map(shown_run, runs):
        if summary_of(run).status not in _MAY_WAIT:
            continue
        try:
            yield settled_view(run)
        except OrchestrateError as error:
            note(f"orchestrate: run {run.id} is skipped: {visible(error.message)}\n")


def waiting_gates(views: list[RunView], root: Path, *, with_hunks: bool) -> list[Waiting]:
    """The gates that wait in these runs of a workspace, each with its evidence."""
    waiting = []
    for view in views:
        pending = view.state.pending
        asked = questions_of(view, root, with_hunks=with_hunks) if pending else []
        shown = {one.visited: masked(one, view.run).evidence for one in asked}
        for gate, name in zip(pending, gate_names(pending), strict=True):
            evidence = shown.get(gate.visited, Evidence())
            definition = view.state.definition
            waiting.append(
                Waiting(view.run.id, definition, view.asks_at_terminal, gate, name, evidence)
            )
    return waiting
