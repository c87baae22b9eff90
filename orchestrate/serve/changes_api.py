"""What the HTTP interface answers about the files that a run has changed.

Git tells it of the run, its checkpoints of each step.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from orchestrate.app.files.diff_files import diff_files
from orchestrate.app.secrets import secrets_of_run
from orchestrate.serve.histories import kept_chronicle
from orchestrate.serve.problems import Problem
from orchestrate.show.draw.path_taken import index_or_reason
from orchestrate.state.locks import is_held
from orchestrate.view.changes import Changes, find_changes, last_gate
from orchestrate.view.file_history import shown_visit
from orchestrate.view.hunks import MOST_CHARS, hunks_of

if TYPE_CHECKING:
    from orchestrate.serve.operations import CheckedRequest
    from orchestrate.state.result import Approval
    from orchestrate.view.history import Chronicle

Json = dict[str, Any]
_MOST_VISITS = 500


def show_changes(asked: CheckedRequest) -> Json:
    """The files with their lines; `gate` names the gate that they are told since.

    `steps` are visits of steps that changed files, in order: the last ones of each step.
    """
    found, history, gate = _find(asked)
    workspace, run = asked.console.find(asked.given["run"])
    told: Json = secrets_of_run(run, workspace).data(
        {
            "gate": None if gate is None else gate.stage,
            "how": found.how,
            "commits": found.commits,
            "files": [change.to_json() for change in found.files],
            "left_out": found.left_out,
            "steps": _visits(history),
        }
    )
    return told


def _visits(history: Chronicle) -> list[Json]:
    """As `changes/step` takes them; the first visit of several is named with its number, too."""
    found = [
        (example.at, shown_visit(example.address, example.visit, is_one_of_many=tally.visits > 1),
         example.result.changed["files"])
        for tally in history.tallies.by_path.values()
        for example in tally.examples
        if example.result.changed and example.result.changed.get("files")
    ]  # fmt: skip
    return [{"step": name, "files": count} for _, name, count in sorted(found)[-_MOST_VISITS:]]


def show_hunks(asked: CheckedRequest) -> Json:
    """Only of a file that is listed: no other can be read this way."""
    found, history, gate = _find(asked)
    workspace, run = asked.console.find(asked.given["run"])
    path, is_committed = asked.given["path"], asked.given["committed"]
    for change in found.files:
        if (change.path, change.is_committed) == (path, is_committed):
            hunks = hunks_of(workspace.root, change, history.sittings, gate)
            return {**change.to_json(), "hunks": secrets_of_run(run, workspace).text(hunks)}
    raise Problem(404, f"'{path}' is not among the changed files")


def show_step_changes(asked: CheckedRequest) -> Json:
    """By the checkpoints of the run; a run or a step without any is refused, and says why."""
    workspace, run = asked.console.find(asked.given["run"])
    found = diff_files(run, asked.given["step"])
    secrets = secrets_of_run(run, workspace)
    patch = secrets.text(found.patch.decode("utf-8", "replace"))
    left_out = max(0, len(patch) - MOST_CHARS)
    told: Json = secrets.data(found.to_json())
    return {**told, "patch": patch[:MOST_CHARS], "left_out": left_out}


def _find(asked: CheckedRequest) -> tuple[Changes, Chronicle, Approval | None]:
    workspace, run = asked.console.find(asked.given["run"])
    now = time.time()
    index, _, _ = index_or_reason(run)
    told = kept_chronicle(run, index, now, is_live=is_held(run.lock_file))
    gate = last_gate(told.approvals) if asked.given["since"] == "gate" else None
    return find_changes(workspace.root, told.sittings, now, gate), told, gate
