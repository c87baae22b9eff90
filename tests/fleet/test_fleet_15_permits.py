"""Permits (fleet.md, "Account limits"): never more calls of an agent than its account may have.

Each worker has a user of its own, so that no lock on this computer can do what permits do. The
ledger is the judge: a call appends `begin` and `end` with its name.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orchestrate.fleet.permits import listen_below
from orchestrate.state.permits import draw_permit
from tests.fleet.machines import HASTY, ServerFleet, Worker, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_10_kills import is_engine
from tests.fleet.test_fleet_18_cut_off import Line

pytestmark = pytest.mark.fleet

CALL = "echo begin >> $LEDGER; until test -e $GO; do sleep 0.05; done; echo end >> $LEDGER"
ITEMS = f"""
version: "1.4"
name: items
providers:
  codex: {{command: ["sh", "-c", "{CALL}"], input_mode: stdin}}
steps:
  - name: All
    for_each:
      items: [1, 2, 3, 4]
      parallel: true
      steps:
        - name: Read
          provider: codex
          prompt: "read ${{item}}"
"""


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"items.yaml": ITEMS})
    yield made
    made.close()


def worker_of_another(fleet: ServerFleet, name: str, limits: str, address: str = "") -> Worker:
    """A worker of a user with limits, and with state and configuration of its own."""
    home = fleet.top / f"home-{name}"
    shutil.copytree(fleet.top / "config", home / "config")
    config = home / "config" / "orchestrate" / "config.yaml"
    if limits:
        config.write_text(f"limits: {{concurrent: {{{limits}}}}}\n")
    return fleet.worker(
        name, XDG_CONFIG_HOME=str(home / "config"), XDG_STATE_HOME=str(home / "state"),
        TEMPORAL_ADDRESS=address or fleet.server.address,
    )  # fmt: skip


def most_at_once(fleet: ServerFleet) -> int:
    most = now = 0
    for entry in fleet.entries():
        now += 1 if entry == "begin" else -1
        most = max(most, now)
    return most


def test_fleet_the_smallest_limit_that_a_worker_announces_holds_for_all(
    fleet: ServerFleet,
) -> None:
    worker_of_another(fleet, "one", "codex: 5, total: 9")
    worker_of_another(fleet, "two", "codex: 2")
    worker_of_another(fleet, "three", "")
    runs = [fleet.begin("items.yaml") for _ in range(3)]
    fleet.await_entry("begin", 2)
    fleet.allow()
    for run in runs:
        fleet.wait(run).assert_success()
    assert most_at_once(fleet) <= 2
    assert sorted(fleet.entries()) == ["begin"] * 12 + ["end"] * 12


def test_fleet_the_permit_of_a_machine_that_is_gone_is_free_once_nothing_of_it_can_be_alive(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    first = worker_of_another(fleet, "one", "codex: 1")
    fleet.begin("items.yaml")
    fleet.await_entry("begin")
    first.vanish()
    worker_of_another(fleet, "two", "codex: 1")
    fleet.await_entry("begin", 2)
    fleet.allow()
    until(lambda: fleet.entries().count("end") == 4)
    assert fleet.entries() == ["begin"] + ["begin", "end"] * 4


@pytest.mark.soak
def test_fleet_the_permit_of_a_machine_that_is_cut_off_is_free_after_its_calls_have_ended(
    fleet: ServerFleet, request: pytest.FixtureRequest
) -> None:
    """No fence takes a permit away, only time: by then the lease has ended what ran under it."""
    fleet.timing(HASTY)
    line = Line(fleet.server.port)
    request.addfinalizer(line.close)
    first = worker_of_another(fleet, "one", "codex: 1", line.address)
    fleet.begin("items.yaml")
    fleet.await_entry("begin")
    assert any(_is_call(pid) for pid in first.alive())
    line.cut()
    worker_of_another(fleet, "two", "codex: 1")
    run = fleet.begin("items.yaml")
    fleet.await_entry("begin", 2)
    assert [pid for pid in first.alive() if is_engine(pid) or _is_call(pid)] == []
    fleet.allow()
    fleet.wait(run).assert_success()


def _is_call(pid: int) -> bool:
    with suppress(OSError):
        return CALL.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_fleet_a_worker_that_is_back_goes_on_with_the_permits_of_its_calls(
    fleet: ServerFleet,
) -> None:
    first = worker_of_another(fleet, "one", "codex: 1")
    worker_of_another(fleet, "two", "")
    runs = [fleet.begin("items.yaml") for _ in range(2)]
    fleet.await_entry("begin")
    first.kill()
    first.start()
    fleet.allow()
    for run in runs:
        fleet.wait(run).assert_success()
    assert fleet.entries() == ["begin", "end"] * 8


def test_fleet_a_call_that_holds_a_permit_tells_the_worker_that_is_back(tmp_path: Path) -> None:
    held = {"codex": ["permit/codex/1", "me"]}
    permit = draw_permit({"root": str(tmp_path), "permit_s": 90}, "codex")
    assert permit is not None
    assert permit.ahead() == 0  # no worker is there
    order, connection = _served(tmp_path, permit.ahead)
    assert order == {"agent": "codex", "seconds": 90.0, "held": {}}
    connection.sendall(json.dumps({"ahead": 3}).encode() + b"\n")
    until(lambda: permit.ahead() == 3)
    connection.sendall(json.dumps({"held": held}).encode() + b"\n")
    until(lambda: permit.ahead() is None)
    connection.close()
    order, connection = _served(tmp_path, lambda: None)
    assert order["held"] == held
    permit.release()
    with connection.makefile() as heard:
        assert json.loads(heard.readline()) == {"give_back": True}
    connection.close()


def _served(root: Path, ask: Callable[[], object]) -> tuple[dict[str, Any], socket.socket]:
    """What a call says to a worker that listens from now on, and the connection."""
    with listen_below(root) as listener:
        listener.listen()
        with ThreadPoolExecutor(1) as asking:
            asking.submit(ask)
            connection, _ = listener.accept()
            with connection.makefile() as heard:
                return json.loads(heard.readline()), connection
