"""A step that was lost waits in the inbox, and an answer goes on with it or ends the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.promises.commands import do
from tests.promises.processes import wait_until
from tests.promises.test_promises import lost_in_the_middle
from tests.promises.trials import Trial


def parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Trial, str]:
    """A run that waits for a person because its step was lost, and what the inbox calls that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    trial = lost_in_the_middle(tmp_path, "stop")
    assert do(trial, "resume", "latest").exit_code == 6
    (question,) = json.loads(do(trial, "inbox", "--json").stdout)["questions"]
    assert (question["kind"], question["about"]) == ("lost", "Risky")
    assert "was lost" in question["text"]
    assert [one["value"] for one in question["choices"]] == ["retry", "cancel"]
    return trial, question["token"]


def test_console_03_a_lost_step_is_started_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, token = parked(tmp_path, monkeypatch)
    for more in (("--no-resume",), ("-m", "words")):
        assert do(trial, "answer", token, "retry", *more).exit_code == 2
    assert do(trial, "answer", token, "retry").exit_code == 0
    wait_until(lambda: trial.status() == "completed", "the run does not go on")
    assert [line.attempt for line in trial.lines()] == ["Risky:1.1", "Risky:1.2", "Risky:1.2"]
    again = do(trial, "answer", token, "retry")
    assert (again.exit_code, "already" in again.stdout) == (0, True)
    other = do(trial, "answer", token, "cancel")
    assert (other.exit_code, "was answered 'retry' already" in other.stderr) == (2, True)
    assert trial.status() == "completed"


def test_console_03_a_lost_step_may_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, token = parked(tmp_path, monkeypatch)
    assert do(trial, "answer", token, "cancel").exit_code == 0
    assert trial.status() == "cancelled"
    assert do(trial, "answer", token, "retry").exit_code == 2
    assert json.loads(do(trial, "inbox", "--json").stdout)["questions"] == []
    assert [line.kind for line in trial.lines()] == ["start"]
