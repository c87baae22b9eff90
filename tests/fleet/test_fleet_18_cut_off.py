"""A machine that is cut off from everybody, and one that is back late (fleet.md, "Shown by")."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrate.fleet.take import publish_rest
from orchestrate.fleet.transport import PushRefused
from tests.fleet.machines import HASTY, LARGE_LIMIT_S, PATIENT, ServerFleet, until
from tests.fleet.namespaces import MAY_BE_MADE, Namespace
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_05_codec import write_keys
from tests.fleet.test_fleet_06_losses import LONG, published_steps, seat_on
from tests.fleet.test_fleet_10_kills import STEPS, is_engine

pytestmark = pytest.mark.fleet

_TIMED_OUT = "EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT"
MANY = """
version: "1.4"
name: loop
inputs: {count: {type: integer}}
steps:
  - name: List
    command: ["seq", "${inputs.count}"]
    output_capture: lines
  - name: Each
    for_each:
      items_from: "steps.List.lines"
      steps:
        - name: One
          command: ["true"]
"""


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    files = {"steps.yaml": STEPS, "long.sh": LONG, "many.yaml": MANY}
    made = ServerFleet(tmp_path, temporal_server, files)
    yield made
    made.close()


class Line:
    """What leads to the server. Once it is cut, nothing comes through and nothing is closed."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._port = port
        self._is_cut = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((address, 0))
        self.address = f"{address}:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        self._is_cut.set()

    def close(self) -> None:
        """No thread of it is left, and no socket."""
        self._listener.shutdown(socket.SHUT_RDWR)  # what waits for a connection ends
        self._threads[0].join()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open.append(far)
                for pair in ((near, far), (far, near)):
                    self._threads.append(
                        threading.Thread(target=self._carry, args=pair, daemon=True)
                    )
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._is_cut.is_set():
                    target.sendall(data)
            if not self._is_cut.is_set():
                target.shutdown(socket.SHUT_WR)


def _runs_the_step(pid: int) -> bool:
    with suppress(OSError):
        return b"\0long.sh\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.fixture
def line(temporal_server: TemporalServer) -> Iterator[Line]:
    made = Line(temporal_server.port)
    yield made
    made.close()


@pytest.fixture
def network(fleet: ServerFleet) -> Iterator[Namespace]:
    made = Namespace()
    yield made
    fleet.close()  # before the place where its workers are
    made.close()


def test_fleet_a_machine_that_is_cut_off_ends_what_it_runs_before_others_begin(
    fleet: ServerFleet, request: pytest.FixtureRequest
) -> None:
    """In a network of its own where we may make one (as root, with `ip`)."""
    if MAY_BE_MADE:
        network: Namespace = request.getfixturevalue("network")
        line = Line(fleet.server.port, network.our_address)
        request.addfinalizer(line.close)
        write_keys(fleet.top / "config" / "orchestrate" / "fleet.keys", "one")
        fleet.timing(HASTY, keys="fleet.keys", insecure=True)
        cut: Callable[[], None] = network.cut
        inside: Sequence[str] = network.words
    else:
        line = request.getfixturevalue("line")
        fleet.timing(HASTY)
        cut, inside = line.cut, ()
    # Its way to the repository that carries runs is cut with the other one.
    way, remote = fleet.top / "way", fleet.top / "remote.git"
    way.symlink_to(remote)
    config = fleet.top / "gitconfig"
    config.write_text(f'[url "{way}"]\n\tinsteadOf = {remote}\n')
    first = fleet.worker(
        "one", inside=inside, TEMPORAL_ADDRESS=line.address, GIT_CONFIG_GLOBAL=str(config)
    )
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    until(lambda: "First" in published_steps(fleet, run))
    cut()
    way.unlink()
    fleet.worker("two")
    fleet.await_entry("long", 2)
    # What the first machine ran has ended before; its worker may still try to publish that.
    assert [pid for pid in first.alive() if is_engine(pid) or _runs_the_step(pid)] == []
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "long", "end"]
    assert f"lost with {first.name}" in fleet.run("logs", run).assert_success().stdout
    way.symlink_to(remote)
    with pytest.raises(PushRefused):
        publish_rest(seat_on(fleet, first, run))


def test_fleet_a_worker_that_is_back_late_loses_nothing_of_what_ended_within_its_lease(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY | {"lost_after": 120})
    worker = fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    worker.kill()
    fleet.allow()
    fleet.await_entry("end")
    until(lambda: _TIMED_OUT in fleet.history(run))
    worker.start()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "end"]
    assert "lost" not in fleet.run("logs", run).assert_success().stdout


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.soak)])
def test_fleet_a_loop_is_a_dozen_events_however_many_items_it_has(
    fleet: ServerFleet, count: int
) -> None:
    fleet.timing(PATIENT, publish="30s")  # as it usually is
    fleet.worker("one")
    run = fleet.begin("many.yaml", "-i", f"count={count}")
    fleet.wait(run, LARGE_LIMIT_S).assert_success()
    assert len(fleet.history(run)) <= 15
