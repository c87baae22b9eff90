"""Items that machines which `ssh` leads to take, wherever a slot is free (fleet.md, `spread`)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.item_seat import items_here
from orchestrate.fleet.seat import Seat
from orchestrate.state.locks import lock_run, read_owner
from orchestrate.state.runs import Run
from orchestrate.testing import Project
from tests.fleet.machines import LIMIT_S, until
from tests.fleet.test_fleet_01_ssh import Fleet
from tests.fleet.test_fleet_16_spread import CALLED, CALLER, ITEMS

pytestmark = pytest.mark.fleet

HOSTS = ("alpha", "beta")


class Hosts(Fleet):
    """Two machines; each step notes in the ledger in whose home it is."""

    def __init__(self, top: Path, slots: int = 2) -> None:
        (top / "hosts" / "beta").mkdir(parents=True)
        super().__init__(top)
        self.ledger = top / "ledger"
        self.settings(f"pools: {{desk: {{ssh: [{', '.join(HOSTS)}], slots: {slots}}}}}\n")

    @property
    def surroundings(self) -> dict[str, str]:
        more = {"LEDGER": str(self.top / "ledger"), "GO": str(self.top / "go"), "USER": "tester"}
        return super().surroundings | more

    def items(self, script: str, count: int) -> None:
        names = [f"i{number:02}" for number in range(count)]
        text = ITEMS.format(items=names, pool="desk", parallel="true", script=script)
        (self.folder / "items.yaml").write_text(text.replace("$FLEET_TEST_MACHINE", "$HOME"))
        self.commit("items")

    def begin(self, file: str) -> str:
        return self.send(file, "-d").assert_success().stdout.strip()

    def entries(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def begun(self) -> list[str]:
        return sorted(one.split()[1] for one in self.entries() if one.startswith("begin "))

    def allow(self) -> None:
        (self.top / "go").touch()

    def all_seats(self) -> list[str]:
        return [seat for host in HOSTS for seat in self.seats(host)]


HOMES = 'grep ^begin $LEDGER | cut -d" " -f3 | sort -u | wc -l'
BOTH = f'until test "$({HOMES})" -ge 2; do sleep 0.1; done'
WAITS = "until test -e $GO; do sleep 0.1; done"


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_fleet_items_are_done_once_each_on_whichever_host_is_free(hosts: Hosts) -> None:
    hosts.items(f"{BOTH}; test -e before.txt; echo $1 > $1.txt", 5)
    run = hosts.begin("items.yaml")
    hosts.run("wait", run, timeout_s=LIMIT_S).assert_success()
    assert hosts.begun() == [f"i{number:02}" for number in range(5)]
    assert hosts.entries()[-1] == "after"
    listed = hosts.run("runs", "--fleet", "--json").assert_success().json()["runs"]
    assert [one["run_id"] for one in listed] == [run]
    hosts.run("fetch", run).assert_success()
    state = json.loads((hosts.folder / ".orchestrate/runs" / run / "state.json").read_text())
    assert [one["Make"]["output"].split()[0] for one in state["steps"]["Each"]] == hosts.begun()
    assert hosts.git("show", f"orchestrate/{run}:i03.txt") == "i03"
    # What is here has no seat there any more, nor have its items.
    assert hosts.all_seats() == []


def test_fleet_one_slot_is_enough_for_a_run_and_its_items(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, slots=1)
    hosts.settings("pools: {desk: {ssh: [alpha], slots: 1}}\n")
    hosts.items("echo $1 > $1.txt", 2)
    hosts.send("items.yaml").assert_success()
    assert hosts.begun() == ["i00", "i01"]


def test_fleet_an_item_that_is_over_and_still_being_published_is_at_work(tmp_path: Path) -> None:
    """What it did cannot be fetched before."""
    steps = "steps:\n  - name: One\n    command: ['true']\n"
    here = Project(tmp_path / "here", {"w.yaml": f'version: "1.4"\nname: w\n{steps}'})
    here.run("run", "w.yaml").assert_success()
    (done,) = here.folder.glob(".orchestrate/runs/2*")
    item = Seat(done.name, str(tmp_path / "root"), "mirror", item="Each[0]")
    item.states.mkdir(parents=True)
    done.rename(item.folder)
    asked = {"protocol": PROTOCOL, "root": item.root, "run": item.run}
    with lock_run(Run(item.run, item.folder).lock_file, item.run, ["orchestrate"]):
        found = items_here(asked)["items"][item.name]
        assert (found["status"], found["is_at_work"], found["is_open"]) == ("completed", True, True)
    assert not items_here(asked)["items"][item.name]["is_open"]


def test_fleet_a_gate_of_an_item_over_ssh_is_the_runs(hosts: Hosts) -> None:
    (hosts.folder / "parts").mkdir()
    (hosts.folder / "parts" / "called.yaml").write_text(CALLED)
    (hosts.folder / "caller.yaml").write_text(CALLER.format(pool="desk"))
    hosts.commit("caller")
    hosts.send("caller.yaml").assert_exit(6)
    run = hosts.run("runs", "--json").json()["runs"][0]["run_id"]
    assert hosts.begun() == []
    hosts.run("approve", run, timeout_s=LIMIT_S).assert_success()
    hosts.run("wait", run, timeout_s=LIMIT_S).assert_success()
    assert hosts.entries()[-1] == "after hello there"


@pytest.mark.parametrize("how", ["cancel", pytest.param("stop", marks=pytest.mark.soak)])
def test_fleet_who_ends_a_run_ends_its_items_over_ssh(hosts: Hosts, how: str) -> None:
    hosts.items(f'echo $$ >> "$LEDGER.pids"; {WAITS}', 2)
    run = hosts.begin("items.yaml")
    until(lambda: len(hosts.begun()) == 2)
    hosts.run(how, run, timeout_s=LIMIT_S).assert_success()
    pids = hosts.ledger.with_name("ledger.pids").read_text().split()
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []
    if how == "cancel":
        assert hosts.run("status", run, "--json").json()["status"] == "cancelled"
        return
    hosts.allow()
    hosts.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert hosts.begun() == ["i00", "i00", "i01", "i01"]
    assert hosts.entries()[-1] == "after"


@pytest.mark.soak
def test_fleet_a_run_that_is_killed_goes_on_with_its_items_over_ssh(hosts: Hosts) -> None:
    """Each was noted before it went away: none is begun twice."""
    hosts.items(f"{WAITS}; echo $1 > $1.txt", 3)
    run = hosts.begin("items.yaml")
    until(lambda: len(hosts.begun()) == 3)
    (home,) = [host for host in HOSTS if run in hosts.seats(host)]
    folder = hosts.hosts / home / "orchestrate-seats" / "states" / run / run
    owner = read_owner(Run(run, folder).lock_file)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    until(lambda: "interrupted" in hosts.run("status", run).stdout)
    hosts.allow()
    hosts.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert hosts.begun() == ["i00", "i01", "i02"]
    assert hosts.entries()[-1] == "after"


def test_fleet_a_host_that_is_silent_is_waited_for_and_its_items_go_on(hosts: Hosts) -> None:
    hosts.items(f"{BOTH}; {WAITS}; echo $1 > $1.txt", 4)
    run = hosts.begin("items.yaml")
    until(lambda: len(hosts.begun()) == 4)
    (home,) = [host for host in HOSTS if run in hosts.seats(host)]
    (other,) = {*HOSTS} - {home}
    states = {host: hosts.hosts / host / "orchestrate-seats" / "states" for host in HOSTS}
    # From now on no connection to the other host is made; the engine of an item there is killed.
    text = (hosts.top / "bin" / "ssh").read_text()
    silent = f'case " $* " in *" {other} "*) echo refused >&2; exit 255;; esac'
    replace_ssh(hosts, text.replace("#!/bin/sh\n", f"#!/bin/sh\n{silent}\n"))
    item = next(path for path in states[other].iterdir() if path.name != run)
    owner = read_owner(Run(run, item / run).lock_file)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    log = states[home] / run / run / "logs" / "detached.log"
    until(lambda: f"{other} does not answer" in log.read_text())
    replace_ssh(hosts, text)
    hosts.allow()
    hosts.run("wait", run, timeout_s=LIMIT_S).assert_success()
    # What the killed engine ran was taken over.
    assert hosts.begun() == ["i00", "i01", "i02", "i03"]
    assert hosts.entries()[-1] == "after"


def replace_ssh(hosts: Hosts, text: str) -> None:
    """At once: a shell may be reading the old one."""
    new = hosts.top / "bin" / "new"
    new.write_text(text)
    new.chmod(0o755)
    new.replace(hosts.top / "bin" / "ssh")
