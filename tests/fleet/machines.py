"""A repository here, a remote, and workers that are processes with a root of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from orchestrate.testing import Project, Result
from tests.fleet.temporal_server import TemporalServer

_T = TypeVar("_T")
Handle = WorkflowHandle[Any, Any]
# Only bounds a hang.
LIMIT_S = 300.0
# Of a thousand items, or ten thousand, on a machine that has other work.
LARGE_LIMIT_S = 7200.0
# Beats are quick, so that a wish is heard soon; nothing is lost while a machine is slow.
PATIENT = {"lease": 40, "grace": 10, "beat": 1, "heartbeat_timeout": 60, "lost_after": 60}
# The other way round: what is silent is lost soon.
HASTY = {"lease": 12, "grace": 4, "beat": 1, "heartbeat_timeout": 19, "lost_after": 2}
_MARK = "FLEET_TEST_MACHINE"
# A worker that stands still before or after one of its calls, and says so in a file.
_STANDS_STILL = """
import pathlib, sys, threading
from orchestrate.__main__ import main
from orchestrate.fleet.engine import Engine
place, path = sys.argv.pop(1), sys.argv.pop(1)
call = getattr(Engine, place)
def stand_still(*given):
    if place == "start":
        call(*given)
    pathlib.Path(path).touch()
    threading.Event().wait()
setattr(Engine, place, stand_still)
sys.exit(main())
"""


def until(condition: Callable[[], _T]) -> _T:
    """What a condition gives once it holds."""
    give_up = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < give_up, "it did not come to pass"
        time.sleep(0.05)
    return found


class Worker:
    """A worker's process, and everything that has grown from it."""

    def __init__(self, fleet: ServerFleet, name: str, pools: str, slots: int) -> None:
        self.name = name
        self.root = fleet.top / name
        self.words: tuple[str, ...] = (
            sys.executable, "-m", "orchestrate", "worker", "--pools", pools, "--slots", str(slots),
            "--root", str(self.root), "--name", name,
        )  # fmt: skip
        self.inside: tuple[str, ...] = ()
        self.environment = {**os.environ, **fleet.surroundings, _MARK: str(self.root)}
        self.log = fleet.top / f"{name}.log"
        self.still = fleet.top / f"{name}.still"
        self.process: subprocess.Popen[str] | None = None

    def start(self, stands_still: Literal["", "find", "start"] = "") -> Worker:
        """With `stands_still`, it begins a sitting as far as before `find` or after `start`."""
        words = self.words
        if stands_still:
            program, _, _, *rest = words
            words = (program, "-c", _STANDS_STILL, stands_still, str(self.still), *rest)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                (*self.inside, *words), stdout=subprocess.PIPE, stderr=log, text=True,
                env=self.environment, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(f"ready {self.name}"), self.log.read_text()
        return self

    def kill(self) -> None:
        """The worker alone: its keepers live."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> int:
        return self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(LIMIT_S)

    def vanish(self) -> None:
        """Kill all that has grown from it, as a power cut does; nothing of it lives then."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        while found := list(self.everything()):
            self.tell(found, signal.SIGKILL)
            time.sleep(0.02)

    def freeze(self) -> list[int]:
        """Let all that has grown from it stand still, as a machine that sleeps; who that is."""
        while awake := [pid for pid in self.everything() if _state(pid) != "T"]:
            self.tell(awake, signal.SIGSTOP)
            time.sleep(0.02)
        return list(self.everything())

    @staticmethod
    def tell(pids: Iterable[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def alive(self) -> Iterator[int]:
        """What has the worker's environment: the worker, its engines and their programs."""
        mark = f"{_MARK}={self.root}".encode()
        return _processes(lambda pid: mark in _words(pid, "environ"))

    def everything(self) -> Iterator[int]:
        """Its keepers, too: they have nothing of its environment, but the path of their folder."""
        mark, root = f"{_MARK}={self.root}".encode(), f"{self.root}/".encode()
        return _processes(
            lambda pid: (
                mark in _words(pid, "environ")
                or any(word.startswith(root) for word in _words(pid, "cmdline"))
            )
        )


def _processes(is_wanted: Callable[[int], bool]) -> Iterator[int]:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and _state(int(name)) not in "ZX" and is_wanted(int(name)):
                yield int(name)


def _words(pid: int, file: str) -> list[bytes]:
    return Path(f"/proc/{pid}/{file}").read_bytes().split(b"\0")


def _state(pid: int) -> str:
    """The letter of /proc; X if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


class ServerFleet(Project):
    """A repository whose runs go to a pool of its own on the server."""

    def __init__(self, top: Path, server: TemporalServer, files: dict[str, str]) -> None:
        self.top = top
        self.server = server
        self.pool = f"pool-{os.urandom(4).hex()}"
        self.ledger = top / "ledger"
        self.workers: list[Worker] = []
        (top / "here").mkdir()
        (top / "config" / "orchestrate").mkdir(parents=True)
        super().__init__(top / "here", files)
        self.timing(PATIENT)
        self.git("init", "-q", "--bare", str(top / "remote.git"))
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "one")

    def timing(self, timing: dict[str, int], **more: Any) -> None:
        path = self.top / "config" / "orchestrate" / "fleet.yaml"
        settings = {
            "address": self.server.address, "remote": str(self.top / "remote.git"),
            "publish": "step", "timing": timing, **more,
        }  # fmt: skip
        path.write_text(json.dumps(settings))
        path.chmod(0o600)

    @property
    def surroundings(self) -> dict[str, str]:
        return {
            "XDG_CONFIG_HOME": str(self.top / "config"),
            "XDG_STATE_HOME": str(self.top / "state"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "LEDGER": str(self.ledger),
            "GO": str(self.top / "go"),
            "USER": "tester",
        }

    def worker(
        self,
        name: str,
        slots: int = 2,
        stands_still: Literal["", "find", "start"] = "",
        pool: str = "",
        inside: Sequence[str] = (),
        **environment: str,
    ) -> Worker:
        """A worker of the pool; its name is its own on the whole server.

        `inside`: the command that starts it in a place of its own.
        """
        made = Worker(self, f"{name}-{self.pool}", pool or self.pool, slots)
        made.inside = (*inside,)
        made.environment |= environment
        self.workers.append(made)
        return made.start(stands_still)

    def close(self) -> None:
        for worker in reversed(self.workers):  # one may have the root of one before it
            worker.vanish()

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ("git", *who, *words), cwd=self.folder, check=True, capture_output=True, text=True,
            env={**os.environ, **self.surroundings},
        )  # fmt: skip
        return done.stdout.strip()

    def send(self, *words: str) -> Result:
        return self.run("run", *words, "--fleet", self.pool, timeout_s=LIMIT_S)

    def begin(self, *words: str) -> str:
        """A run that is not waited for."""
        return self.send(*words, "-d").assert_success().stdout.strip()

    def entries(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def await_entry(self, entry: str, times: int = 1) -> None:
        until(lambda: self.entries().count(entry) >= times)

    def allow(self) -> None:
        """Let the steps go on that wait for it."""
        (self.top / "go").write_text("")

    def wait(self, run: str, limit_s: float = LIMIT_S) -> Result:
        return self.run("wait", run, timeout_s=limit_s)

    def on_server(
        self, ask: Callable[[WorkflowHandle[Any, Any]], Coroutine[Any, Any, _T]], run: str
    ) -> _T:
        async def connected() -> _T:
            client = await Client.connect(self.server.address)
            return await ask(client.get_workflow_handle(run))

        return asyncio.run(connected())

    def pending(self, run: str) -> int:
        """How many activities of a run are scheduled or at work."""

        async def count(handle: Handle) -> int:
            return len((await handle.describe()).raw_description.pending_activities)

        return self.on_server(count, run)

    def history(self, run: str) -> list[str]:
        async def events(handle: Handle) -> list[str]:
            found = await handle.fetch_history()
            return [EventType.Name(event.event_type) for event in found.events]

        return self.on_server(events, run)
