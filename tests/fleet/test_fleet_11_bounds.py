"""What runs on a fleet may not do: carry secrets or large payloads, or speak another protocol."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client

from orchestrate import __version__
from orchestrate.fleet.protocol import PROTOCOL, WORKFLOW, Order, pool_queue
from tests.fleet.machines import LIMIT_S, Handle, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

SECRET = """
version: "1.4"
name: secret
secrets: [DEPLOY_WORD]
steps:
  - name: Use
    command: ["sh", "-c", "echo using $DEPLOY_WORD; test -n $DEPLOY_WORD && echo used >> $LEDGER"]
"""
ASKS = SECRET.replace("steps:", "steps:\n  - name: Ask\n    approval: {prompt: Go on?}")
PROMPT_BYTES = 5_000_000
OUTPUT_BYTES = 50_000_000
MOST_PAYLOAD_BYTES = 256_000
LARGE = f"""
version: "1.4"
name: large
providers:
  reader: {{command: ["sh", "-c", "wc -c >> $LEDGER"], input_mode: stdin}}
steps:
  - name: Read
    provider: reader
    input_file: prompt.md
  - name: Write
    command: ["sh", "-c", "yes | head -c {OUTPUT_BYTES}; echo written >> $LEDGER"]
"""


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    files = {
        "secret.yaml": SECRET,
        "asks.yaml": ASKS,
        "large.yaml": LARGE,
        "prompt.md": "p" * PROMPT_BYTES,
    }
    made = ServerFleet(tmp_path, temporal_server, files)
    yield made
    made.close()


def _files_with(word: str, *folders: Path) -> list[str]:
    found = subprocess.run(
        ("grep", "-rlaF", "--", word, *map(str, folders)),
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.splitlines()


def _objects_with(word: str, repository: Path) -> list[bytes]:
    """The objects of a repository that have a word, whether or not a reference leads to them."""
    words = ("git", "--git-dir", str(repository), "cat-file", "--batch-all-objects", "--batch")
    found = subprocess.run(words, capture_output=True, check=True).stdout
    assert b"DEPLOY_WORD" in found  # it is what was published that is looked through
    return [line for line in found.splitlines() if word.encode() in line]


def test_fleet_a_secret_of_a_worker_is_nowhere_else(fleet: ServerFleet) -> None:
    word = secrets.token_hex(12)
    fleet.worker("one", DEPLOY_WORD=word)
    run = fleet.send("secret.yaml").assert_success().stderr.split()[1]
    assert fleet.entries() == ["used"]
    assert fleet.run("logs", run, "Use").assert_success().stdout == "using ***\n"
    fleet.run("fetch", run).assert_success()
    assert "DEPLOY_WORD" not in os.environ
    assert _objects_with(word, fleet.top / "remote.git") == []
    assert _files_with(word, fleet.server.folder, fleet.folder, fleet.top / "state") == []
    assert _files_with("DEPLOY_WORD", fleet.folder) != []


def test_fleet_a_run_whose_secret_is_missing_stays_parked_and_names_it(fleet: ServerFleet) -> None:
    first = fleet.worker("one", DEPLOY_WORD=secrets.token_hex(12))
    run = fleet.send("asks.yaml").assert_exit(6).stderr.split()[1]
    first.terminate()
    second = fleet.worker("two")
    fleet.run("approve", run).assert_success()
    refused = fleet.wait(run).assert_exit(5)
    assert "DEPLOY_WORD" in refused.stderr
    assert fleet.run("status", run, "--json").json()["status"] == "paused"
    assert fleet.entries() == []
    second.terminate()
    first.start()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["used"]


def test_fleet_a_grace_that_does_not_fit_is_refused(fleet: ServerFleet) -> None:
    fleet.write(".orchestrate/config.yaml", "kill_grace: 10s\n")
    refused = fleet.send("secret.yaml", "--yes").assert_exit(2)
    assert "kill_grace is 10 s, which does not fit into the fleet's grace of 10 s" in refused.stderr
    assert fleet.run("runs", "--json").json()["runs"] == []


def _payload_sizes(fleet: ServerFleet, run: str) -> list[int]:
    async def sizes(handle: Handle) -> list[int]:
        return [event.ByteSize() for event in (await handle.fetch_history()).events]

    return fleet.on_server(sizes, run)


def test_fleet_large_prompts_and_outputs_stay_off_the_server(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.send("large.yaml").assert_success().stderr.split()[1]
    assert fleet.entries() == [str(PROMPT_BYTES), "written"]
    sizes = _payload_sizes(fleet, run)
    assert max(sizes) <= MOST_PAYLOAD_BYTES
    assert len(sizes) <= 20


def test_fleet_a_worker_refuses_a_protocol_that_it_does_not_speak(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = "20261118T010203Z-" + secrets.token_hex(3)
    order = Order(run, fleet.pool, str(fleet.top / "remote.git"), "m", "", "step", "secret.yaml")

    async def start() -> None:
        client = await Client.connect(fleet.server.address)
        await client.start_workflow(
            WORKFLOW, replace(order, protocol=PROTOCOL + 1), id=run,
            task_queue=pool_queue(fleet.pool), memo={"status": "running", "pool": fleet.pool},
        )  # fmt: skip

    asyncio.run(start())

    async def told(handle: Handle) -> str:
        return str(await (await handle.describe()).memo_value("told", ""))

    said = until(lambda: fleet.on_server(told, run))
    assert said == f"{worker.name} speaks protocol {PROTOCOL} of orchestrate, not {PROTOCOL + 1}"
    assert fleet.entries() == []
    assert not (worker.root / "seats").exists()


def test_fleet_a_client_refuses_a_run_that_speaks_another_protocol(
    fleet: ServerFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fleet.begin("secret.yaml")
    monkeypatch.setattr("orchestrate.fleet.server_run.PROTOCOL", PROTOCOL + 1)
    for command in ("status", "cancel", "wait"):
        refused = fleet.run(command, run).assert_exit(5).stderr
        assert f"run {run} speaks protocol {PROTOCOL} of orchestrate" in refused


def test_fleet_doctor_asks_a_machine_for_its_programs(fleet: ServerFleet) -> None:
    program = fleet.top / "there" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho codex-cli 9.8.7\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    worker = fleet.worker("one", PATH=path)
    found = fleet.run("fleet", "doctor", fleet.pool, "--json", timeout_s=LIMIT_S).json()["findings"]
    (told,) = [one for one in found if one["name"] == f"machine {worker.name}"]
    assert told["ok"]
    assert told["detail"].startswith(f"orchestrate {__version__}; codex 9.8.7, git 2.")
