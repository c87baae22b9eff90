"""Where keys are set, neither the server nor the git remote learns what a run says (fleet.md)."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.machines import PATIENT, ServerFleet
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_05_codec import write_keys

pytestmark = pytest.mark.fleet

SAYS = """
version: "1.4"
name: says
inputs: {word: {default: none}}
steps:
  - name: Say
    command: ["sh", "-c", "echo ${inputs.word}"]
  - name: Ask
    approval: {prompt: "Is ${inputs.word} right?"}
  - name: Then
    command: ["sh", "-c", "echo again ${inputs.word}"]
"""


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"says.yaml": SAYS})
    write_keys(tmp_path / "config" / "orchestrate" / "fleet.keys", "one")
    made.timing(PATIENT, keys="fleet.keys")
    yield made
    made.close()


def _published(fleet: ServerFleet, run: str) -> dict[str, bytes]:
    """Every file that any commit of the state reference has."""
    git = ("--git-dir", str(fleet.top / "remote.git"))
    listed = fleet.git(*git, "rev-list", "--objects", f"refs/orchestrate/{run}/state").splitlines()
    found = {}
    for line in listed:
        name, _, path = line.partition(" ")
        if fleet.git(*git, "cat-file", "-t", name) == "blob":
            found[f"{path} {name}"] = subprocess.run(
                ("git", *git, "cat-file", "blob", name), capture_output=True, check=True
            ).stdout
    return found


def test_what_a_run_says_is_sealed_everywhere_and_goes_on_on_another_machine(
    fleet: ServerFleet, temporal_server: TemporalServer
) -> None:
    word = secrets.token_hex(12)
    first = fleet.worker("first")
    fleet.send("says.yaml", "-i", f"word={word}").assert_exit(6)
    run = fleet.run("runs", "--json").json()["runs"][0]["run_id"]
    first.terminate()
    fleet.worker("second")
    fleet.run("approve", run).assert_success()
    fleet.wait(run).assert_success()
    assert fleet.run("logs", run, "Then").assert_success().stdout == f"again {word}\n"
    files = _published(fleet, run)
    assert any(name.startswith("state.json ") for name in files)
    assert [name for name, content in files.items() if word.encode() in content] == []
    in_file = temporal_server.folder.glob(f"{temporal_server.database.name}*")
    assert [path for path in in_file if word.encode() in path.read_bytes()] == []
    # Only who has the key can bring it here.
    fleet.timing(PATIENT)
    listed = fleet.run("runs", "--fleet", "--json").assert_success().json()["runs"]
    assert [one["status"] for one in listed if one["run_id"] == run] == ["unknown"]
    assert "encrypted with the key 'one'" in fleet.run("status", run).assert_exit(5).stderr
    refused = fleet.run("fetch", run).assert_exit(5)
    assert "published with the key 'one'" in refused.stderr
    fleet.timing(PATIENT, keys="fleet.keys")
    assert fleet.run("fetch", run, "--json").assert_success().json()["is_here"]
    assert word in fleet.run("logs", run, "Say").assert_success().stdout
