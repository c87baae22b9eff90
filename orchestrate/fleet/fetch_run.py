"""Fetches the run that a name stands for, and says where it is now."""

from __future__ import annotations

from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import UsageError
from orchestrate.fleet.fetch import fetch
from orchestrate.fleet.stub import read_stub
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.state.runs import find_listed
from orchestrate.view.place import Place


def fetch_run(name: str, place: Place, *, as_json: bool) -> int:
    run = find_listed(runs_of(place, tell_fault=note_once), name)
    stub = read_stub(run)
    if stub is None:
        raise UsageError(
            f"run {run.id} is on this machine", f"see: {place.command('status', run.id)}"
        )
    found = fetch(run, stub, workspace_of(place.working_dir).root)
    if as_json:
        answer_json(
            {"run_id": run.id, "status": found.status, "branch": found.branch,
             "commit": found.commit, "host": stub.host, "is_here": found.is_ours}
        )  # fmt: skip
        return 0
    where = "is here now" if found.is_ours else f"goes on at {stub.host or stub.pool}"
    answer(f"run {run.id} ({found.status}) {where}\n")
    answer(f"  look:   git log {found.branch}\n  merge:  git merge {found.branch}\n")
    return 0
