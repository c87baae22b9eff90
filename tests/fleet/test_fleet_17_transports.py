"""One contract for runs here, on a machine that `ssh` leads to, and on a worker of a server.

Whoever carries a run, commands about it end with the same codes and say the same, and the ledger
has the same entries. What differs is said: a fleet's run goes on by itself once it is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project, Result
from tests.fleet.machines import LIMIT_S, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_01_ssh import Fleet
from tests.fleet.test_fleet_05_runs import FAILS, GATE, LONG, MACHINE, RECIPE

pytestmark = pytest.mark.fleet

FILES = {"r.yaml": RECIPE, "m.yaml": MACHINE, "gate.yaml": GATE, "long.yaml": LONG,
         "fails.yaml": FAILS}  # fmt: skip


class World:
    """A project, and how its runs are carried."""

    def __init__(self, project: Project, top: Path, words: tuple[str, ...]) -> None:
        self.project = project
        self.top = top
        self.words = words

    @property
    def is_local(self) -> bool:
        return not self.words

    def call(self, *words: str) -> Result:
        return self.project.run(*words, timeout_s=LIMIT_S)

    def start(self, file: str, code: int) -> str:
        """A run that is waited for; its id."""
        sent = self.call("run", file, *self.words).assert_exit(code)
        return sent.stderr.split()[1]

    def begin(self, file: str) -> str:
        return self.call("run", file, *self.words, "-d").assert_success().stdout.split()[0]

    def go_on(self, run: str, code: int) -> None:
        """After a decision: a fleet's run needs no `resume`."""
        self.call("resume" if self.is_local else "wait", run).assert_exit(code)

    def status(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("status", run, "--json").assert_success().json()
        return found

    def entries(self) -> list[str]:
        ledger = self.top / "ledger"
        return ledger.read_text().splitlines() if ledger.exists() else []

    def await_entry(self, entry: str, times: int = 1) -> None:
        until(lambda: self.entries().count(entry) >= times)

    def allow(self) -> None:
        (self.top / "go").touch()


class _Local(Project):
    def __init__(self, top: Path) -> None:
        (top / "here").mkdir()
        super().__init__(top / "here", FILES)
        self.top = top

    @property
    def surroundings(self) -> dict[str, str]:
        return _told(self.top) | {"XDG_STATE_HOME": str(self.top / "state")}


class _Ssh(Fleet):
    def __init__(self, top: Path) -> None:
        super().__init__(top)
        for name, text in FILES.items():
            self.write(name, text)
        self.commit("two")

    @property
    def surroundings(self) -> dict[str, str]:
        return super().surroundings | _told(self.top)


def _told(top: Path) -> dict[str, str]:
    return {"LEDGER": str(top / "ledger"), "GO": str(top / "go"), "USER": "tester"}


@pytest.fixture(params=["local", "ssh", "server"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, temporal_server: TemporalServer
) -> Iterator[World]:
    if request.param == "local":
        yield World(_Local(tmp_path), tmp_path, ())
    elif request.param == "ssh":
        yield World(_Ssh(tmp_path), tmp_path, ("--fleet", "desk"))
    else:
        fleet = ServerFleet(tmp_path, temporal_server, FILES)
        fleet.worker("one")
        yield World(fleet, tmp_path, ("--fleet", fleet.pool))
        fleet.close()


def test_fleet_runs_end_alike_in_every_dialect(world: World) -> None:
    for file, entry in (("r.yaml", "recipe"), ("m.yaml", "machine")):
        run = world.start(file, 0)
        found = world.status(run)
        assert (found["run_id"], found["status"]) == (run, "completed")
        assert found["steps"]["make"]["status"] == "completed"
        assert world.entries().count(entry) == 1
        again = world.call("resume", run).assert_success()
        assert "completed" in again.stderr + again.stdout
        world.call("cancel", run)
        assert world.status(run)["status"] == "completed"
    assert world.entries() == ["recipe", "machine"]


def test_fleet_gates_park_and_are_decided_alike(world: World) -> None:
    run = world.start("gate.yaml", 6)
    (asked,) = world.call("inbox", "--json").assert_success().json()["questions"]
    assert (asked["run_id"], asked["about"]) == (run, "Ask")
    assert world.status(run)["status"] == "paused"
    for status, count in (("paused", 1), ("running", 0)):
        listed = world.call("runs", "--status", status, "--json").json()["runs"]
        assert [one["run_id"] for one in listed] == [run] * count
    (waiting,) = world.call("approvals", "--json").assert_success().json()["approvals"]
    assert waiting["run_id"] == run
    assert run in world.call("approvals").assert_success().stdout
    world.call("approve", run, "-m", "fine").assert_success()
    assert "was approved already, by tester" in world.call("approve", run).assert_exit(2).stderr
    world.go_on(run, 0)
    assert world.call("logs", run, "Then").assert_success().stdout == "made\n"
    assert world.entries() == ["before", "after"]
    assert world.call("approvals", "--json").json() == {"approvals": []}
    assert world.call("inbox", "--json").json()["questions"] == []


def test_fleet_a_denial_is_final_alike(world: World) -> None:
    run = world.start("gate.yaml", 6)
    world.call("deny", run).assert_success()
    world.go_on(run, 1)
    assert world.status(run)["status"] == "failed"
    denied = world.call("resume", run).assert_exit(1)
    assert "was denied" in denied.stderr + denied.stdout
    assert world.entries() == ["before"]


def test_fleet_what_failed_goes_on_alike(world: World) -> None:
    run = world.start("fails.yaml", 1)
    assert world.status(run)["status"] == "failed"
    world.call("wait", run).assert_exit(1)
    world.call("resume", run).assert_exit(1)
    world.allow()
    world.call("resume", run).assert_success()
    world.call("wait", run).assert_success()
    assert world.entries() == ["try", "try", "try"]


def test_fleet_what_is_stopped_goes_on_and_what_is_cancelled_does_not(world: World) -> None:
    run = world.begin("long.yaml")
    world.await_entry("long")
    assert world.status(run)["status"] == "running"
    assert f"run {run} is " in world.call("resume", run).assert_exit(5).stderr
    world.call("stop", run).assert_success()
    assert world.status(run)["status"] == "paused"
    world.call("resume", run, "-d").assert_success()
    world.await_entry("long", 2)
    world.call("cancel", run).assert_success()
    assert world.status(run)["status"] == "cancelled"
    gone = world.call("resume", run).assert_exit(1)
    assert "was cancelled" in gone.stderr + gone.stdout
    world.call("wait", run).assert_exit(1)
    assert world.entries() == ["first", "long", "long"]
    listed = world.call("runs", "--json").assert_success().json()["runs"]
    assert [(one["run_id"], one["status"]) for one in listed] == [(run, "cancelled")]


def test_fleet_a_faulty_file_is_refused_before_anything_travels(world: World) -> None:
    world.project.write("bad.yaml", RECIPE.replace("type: bash", "type: bsh"))
    refused = world.call("run", "bad.yaml", *world.words, "--yes").assert_exit(2)
    assert "bad.yaml:6:11" in refused.stderr
    assert world.call("runs", "--json").json()["runs"] == []
