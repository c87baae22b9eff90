"""The list of runs reads the beginning of a state file; it must say what a full reading says."""

from __future__ import annotations

from pathlib import Path

from orchestrate.state.runs import Run
from orchestrate.state.times import timestamp
from orchestrate.testing import Project
from orchestrate.view.run_summary import STATUSES, summary_of
from orchestrate.view.run_view import run_view
from tests.cli.background import await_file, started
from tests.gates import waiting_at
from tests.promises.processes import wait_until

STEP = 'version: "1.1"\nsteps:\n  - name: A\n    command: [sh, -c, "%s"]\n'
GATED = """
name: gated
description: Waits for a person
version: 1.0.0
stages:
  - name: one
    steps: [{id: a, agent: reader, prompt: A.}]
    approval: {required: true, prompt: "Go on?"}
"""


def agree(root: Path) -> str:
    run = Run(root.name, root)
    summary, view = summary_of(run), run_view(run)
    state = view.state
    assert summary.status == view.status
    fields = summary.fields()
    assert fields["dialect"] == state.dialect
    assert fields["workflow_file"] == state.definition
    assert fields["started_at"] == timestamp(state.started_at)
    assert fields["updated_at"] == timestamp(state.updated_at)
    assert fields.get("reason") == state.reason
    ended = state.completed_at
    assert fields.get("completed_at") == (None if ended is None else timestamp(ended))
    return summary.status


def is_up_to_date(root: Path) -> bool:
    run = Run(root.name, root)
    return bool(summary_of(run).fields()["updated_at"] == timestamp(run_view(run).state.updated_at))


def test_a_summary_and_the_view_agree_in_every_status(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "good.yaml": STEP % "true",
            "bad.yaml": STEP % "exit 3",
            "slow.yaml": STEP % "touch begun; exec sleep 60",
            "gated.yaml": GATED,
            ".orchestrate/agents/reader.md": "---\nname: reader\n---\nYou read.\n",
        },
    )
    found = set()
    project.run("run", "good.yaml").assert_success()
    found.add(agree(project.latest_run))
    project.run("run", "bad.yaml").assert_exit(1)
    found.add(agree(project.latest_run))
    project.run("run", "gated.yaml", *waiting_at(project, "one")).assert_exit(6)
    found.add(agree(project.latest_run))
    with started(project, "run", "slow.yaml") as process:
        await_file(project, "begun")
        # While a run is at work, state.json follows the journal by a tenth of a second (rulings 6).
        wait_until(lambda: is_up_to_date(project.latest_run), "state.json stays behind")
        found.add(agree(project.latest_run))
        process.kill()
        process.wait()
        found.add(agree(project.latest_run))
        project.run("cancel", "latest").assert_success()
        found.add(agree(project.latest_run))
    # A run on another machine is unknown; tests/fleet has those.
    assert found == set(STATUSES) - {"damaged", "unknown"}
