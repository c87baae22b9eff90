"""One list of all runs, and what `fleet doctor` says of machines that `ssh` leads to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.test_fleet_01_ssh import Fleet, only_run

pytestmark = pytest.mark.fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_fleet_runs_of_all_machines_are_listed_and_a_silent_one_is_named(fleet: Fleet) -> None:
    fleet.settings("pools:\n  desk: {ssh: [alpha]}\n  attic: {ssh: [gone]}\n")
    fleet.send("w.yaml").assert_exit(6)
    run = only_run(fleet)
    # Another workspace has no stub of it.
    (fleet.folder / ".orchestrate" / "runs" / run).rename(fleet.top / "stub")
    listed = fleet.run("runs", "--fleet", "--json").assert_success()
    assert "gone does not answer" in listed.stderr
    (row,) = listed.json()["runs"]
    started = row.pop("started_at")
    assert started.replace("-", "").replace(":", "")[:15] == run[:15]
    assert row == {"run_id": run, "status": "paused", "pool": "desk", "machine": "alpha"}
    told = fleet.run("runs", "--fleet").assert_success().stdout
    assert f"{run}  paused" in told
    assert "desk (alpha)" in told
    assert fleet.run("runs", "--fleet", "--status", "failed").stdout == "No runs match.\n"
    assert fleet.run("runs", "--fleet", "--until", "2020-01-01", "--json").json()["runs"] == []
    refused = fleet.run("runs", "--fleet", "--sort", "name").assert_exit(2)
    assert "--sort" in refused.stderr


def test_fleet_doctor_tells_what_answers(fleet: Fleet) -> None:
    fleet.settings("pools:\n  desk: {ssh: [alpha], slots: 3}\n")
    found = fleet.run("fleet", "doctor", "--json").assert_success().json()["findings"]
    assert [one["name"] for one in found] == ["desk: alpha", "desk: alpha clock"]
    assert "3 of 3 slots free" in found[0]["detail"]
    fleet.settings("pools:\n  desk: {ssh: [alpha, gone]}\n")
    told = fleet.run("fleet", "doctor").assert_exit(5).stdout
    assert "ok  desk: alpha" in told
    assert "--  desk: gone" in told
    assert "gone does not answer" in told
    assert "ssh gone true" in told


def test_fleet_doctor_without_settings_names_the_file(fleet: Fleet) -> None:
    fleet.settings("").unlink()
    refused = fleet.run("fleet", "doctor").assert_exit(5)
    assert "fleet.yaml does not exist" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("worker", "--pools", "desk", "--root", "seats"),
        ("runs", "--fleet"),
        ("run", "r.yaml", "--fleet", "gpu"),
    ],
)
def test_fleet_without_the_extra_it_is_named(fleet: Fleet, words: tuple[str, ...]) -> None:
    fleet.settings("address: 127.0.0.1:1\nremote: origin\n")
    script = (
        "import sys; sys.modules['temporalio'] = None\n"
        "from orchestrate.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        (sys.executable, "-c", script, *words), cwd=fleet.folder, capture_output=True, text=True,
        env={**os.environ, **fleet.surroundings}, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "the extra orchestrate[fleet]: temporalio is not installed" in done.stderr
    assert "Traceback" not in done.stderr
