"""Completes the steps of a run or a recipe, and the stages that wait for a decision."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.app.definitions.recipes import step_ids
from orchestrate.app.workspaces import workspace_of
from orchestrate.state.decode import decode
from orchestrate.state.durable import read_file
from orchestrate.state.model import RunState
from orchestrate.state.runs import LATEST, Runs, find_run
from orchestrate.view.step_logs import entries_of

# A state of many thousand steps is not worth the wait.
_LARGEST_STATE = 4_000_000


def steps_of(runs: Runs, name: str | None) -> Iterator[tuple[str, str]]:
    """The steps of a run, else of the latest, each with its status."""
    state = _state_of(runs, name)
    for entry in () if state is None else entries_of(state):
        yield entry.path, entry.result.status


def steps_of_file(file: str, working_dir: str | None) -> list[str]:
    return step_ids(file, workspace_of(working_dir))


def waiting_stages(runs: Runs, name: str | None) -> Iterator[str]:
    state = _state_of(runs, name)
    for gate in () if state is None else state.pending:
        yield gate.stage


def _state_of(runs: Runs, name: str | None) -> RunState | None:
    """None when it is too large to read for this."""
    run = find_run(runs, LATEST if name is None else name)
    if run.state.stat().st_size > _LARGEST_STATE:
        return None
    content = read_file(run.state)
    return decode(None, content, run.id) if content is not None else None
