"""What a run comes to whose machine, remote or keys fail it: it waits, and repeats nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.machines import HASTY, LIMIT_S, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

STEPS = """
version: "1.4"
name: steps
steps:
  - name: Long
    command: ["sh", "-c", "echo long >> $LEDGER; until test -e $GO; do sleep 0.1; done"]
  - name: Last
    command: ["sh", "-c", "echo last >> $LEDGER"]
"""


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"steps.yaml": STEPS})
    yield made
    made.close()


def refuse_pushes(fleet: ServerFleet, *, is_so: bool) -> None:
    hook = fleet.top / "remote.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho no pushes today >&2\nexit {int(is_so)}\n")
    hook.chmod(0o755)


def begin_unpublished(fleet: ServerFleet) -> str:
    """A run that has ended, which its machine could not publish."""
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    until(lambda: "Long" in fleet.run("status", run).stdout)
    refuse_pushes(fleet, is_so=True)
    fleet.allow()
    told = fleet.wait(run).assert_exit(1).stderr
    assert f"what the run has made is only on {fleet.workers[0].name}" in told
    assert "no pushes today" in told
    assert "is only on" in fleet.run("status", run).assert_success().stderr
    refuse_pushes(fleet, is_so=False)
    return run


def test_fleet_what_could_not_be_published_goes_on_where_it_is(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = begin_unpublished(fleet)
    fleet.worker("two")
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["long", "last"]
    fleet.run("fetch", run).assert_success()
    assert "lost" not in fleet.run("logs", run).stdout


@pytest.mark.soak
def test_fleet_what_was_not_published_of_a_machine_that_is_gone_is_announced(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    fleet.worker("one")
    run = begin_unpublished(fleet)
    fleet.workers[0].vanish()
    fleet.worker("two")
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["long", "last", "long", "last"]
    told = fleet.run("logs", run).assert_success().stdout
    assert f"{fleet.workers[0].name} no longer responds: what it did since the last" in told


def test_fleet_a_worker_that_cannot_write_fails_no_run_for_good(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    notes = worker.root / "notes"
    shutil.rmtree(notes)
    notes.write_text("")  # as on a full disk, no note can be written
    fleet.allow()
    sent = fleet.send("steps.yaml").assert_exit(5)
    run = sent.stderr.split()[1]
    assert f"{worker.name}: cannot write {notes}" in sent.stderr
    assert fleet.entries() == []
    notes.unlink()
    notes.mkdir()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["long", "last"]


def test_fleet_workers_that_have_other_keys_are_told_of(fleet: ServerFleet) -> None:
    here, there = fleet.top / "config" / "orchestrate", fleet.top / "there" / "orchestrate"
    there.mkdir(parents=True)
    for folder, name in ((here, "one"), (there, "two")):
        (folder / "fleet.keys").write_text(f"{name} {name.encode().hex():0>64}\n")
        (folder / "fleet.keys").chmod(0o600)
        settings = json.loads((here / "fleet.yaml").read_text())
        (folder / "fleet.yaml").write_text(json.dumps(settings | {"keys": "fleet.keys"}))
        (folder / "fleet.yaml").chmod(0o600)
    fleet.worker("one", XDG_CONFIG_HOME=str(there.parent))
    run = fleet.begin("steps.yaml")
    until(lambda: "`keys` may be others" in fleet.run("status", run).assert_success().stderr)
    ended = fleet.run("cancel", run, timeout_s=LIMIT_S).assert_success()
    assert f"run {run} ends when one does" in ended.stdout
    assert fleet.entries() == []
