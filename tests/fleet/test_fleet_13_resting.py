"""A retry that rests when its machine is lost: it may have begun after what was published last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.app.given.settings import RunSettings
from orchestrate.cli.resuming import resume_run
from orchestrate.testing import Project
from orchestrate.view.place import Place
from tests.promises.processes import wait_until

TRIES = """
version: "1.4"
name: tries
steps:
  - name: Try
    command: ["sh", "-c", "echo try >> ledger; test -e go"]
    retries: {max: 3, delay_ms: 8000}
"""


def test_fleet_a_retry_that_rests_is_recorded_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, {"w.yaml": TRIES})
    with project.background("run", "w.yaml") as process:
        wait_until((tmp_path / "ledger").exists, "no attempt began")
        wait_until(lambda: _ended(project) == ["failed"], "the first attempt did not end")
        process.kill()
    (tmp_path / "go").touch()
    monkeypatch.chdir(tmp_path)
    place = Place(None, None)
    assert resume_run(None, RunSettings(lost_with="box"), place, as_json=False) == 0
    assert _ended(project) == ["failed", "lost"]
    assert "lost with box" in (project.latest_run / "events.jsonl").read_text()
    assert project.latest_state["steps"]["Try"]["attempts"] == 3
    assert (tmp_path / "ledger").read_text() == "try\ntry\n"


def _ended(project: Project) -> list[str]:
    """Why attempts have ended that were not the last."""
    lines = (project.latest_run / "events.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines if line.endswith("}")]
    return [one["why"] for one in events if one["on"] == "attempt-ended"]
