"""`make fleet-demo`: a server, two workers, a loop of 16 items; one of the machines is lost.

All of it is on this computer, in a scratch folder that is removed at the end: a Temporal server on
loopback, two `orchestrate worker`, and a run with `--fleet`. The items are rounds of one run, which
is on one machine at a time. Each item notes in a ledger, outside the run, that it begins: the
ledger shows what was done once, and what was announced as lost and begun again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ITEMS = 16
_LOST_AFTER = 5
RECIPE = f"""\
version: "1.4"
name: items
steps:
  - name: Items
    for_each:
      items: [{", ".join(f"item-{number:02}" for number in range(1, ITEMS + 1))}]
      as: item
      steps:
        - name: Work
          command: ["sh", "-c", "echo ${{item}} >> $LEDGER; sleep 0.5; echo done > ${{item}}.txt"]
"""
# Short, so that a lost machine is noticed within half a minute; yours may be patient.
TIMING = {"lease": 12, "grace": 4, "beat": 1, "heartbeat_timeout": 19, "lost_after": 2}
# How the log announces that a machine was lost.
LOSS = "no longer responds: what it did"
_PATIENCE_S = 180.0


class Demo:
    """What was started, and how to end it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.ledger = scratch / "ledger"
        self.project = scratch / "project"
        self.started: list[subprocess.Popen[str]] = []
        os.environ |= {
            "XDG_CONFIG_HOME": str(scratch / "config"), "XDG_STATE_HOME": str(scratch / "state"),
            "LEDGER": str(self.ledger),
        }  # fmt: skip
        for role in ("GIT_AUTHOR", "GIT_COMMITTER"):
            os.environ |= {f"{role}_NAME": "demo", f"{role}_EMAIL": "demo@example.invalid"}

    def make_project(self, port: int) -> None:
        """A repository, a bare one that carries runs, and the settings that name both."""
        self.project.mkdir()
        (self.project / "items.yaml").write_text(RECIPE)
        remote = str(self.scratch / "remote.git")
        for words in (["init", "-q", "--bare", remote], ["init", "-q"], ["add", "."],
                      ["commit", "-qm", "Begin"]):  # fmt: skip
            subprocess.run(["git", *words], cwd=self.project, check=True)
        file = self.scratch / "config" / "orchestrate" / "fleet.yaml"
        file.parent.mkdir(parents=True)
        settings = {"address": f"127.0.0.1:{port}", "remote": remote, "publish": "step",
                    "timing": TIMING}  # fmt: skip
        file.write_text(json.dumps(settings, indent=1))
        file.chmod(0o600)

    def start_server(self, port: int) -> None:
        program = Path(sys.executable).with_name("temporal")
        words = [str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port",
                 str(port), "--db-filename", str(self.scratch / "temporal.db"),
                 "--log-level", "error"]  # fmt: skip
        self._start(words)
        until(lambda: _answers(port), "the server did not start")

    def start_worker(self, name: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "orchestrate", "worker", "--pools", "desk", "--root",
                 str(self.scratch / name), "--name", name]  # fmt: skip
        worker = self._start(words)
        assert worker.stdout is not None
        line = worker.stdout.readline()
        print(line or f"the worker {name} did not start\n", end="", flush=True)
        if not line:
            sys.exit(1)
        return worker

    def _start(self, words: list[str]) -> subprocess.Popen[str]:
        with (self.scratch / "log").open("a") as log:
            started = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True,
                cwd=self.scratch, start_new_session=True,
            )  # fmt: skip
        self.started.append(started)
        return started

    def orchestrate(self, *words: str) -> str:
        print(f"$ orchestrate {' '.join(words)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "orchestrate", *words], cwd=self.project, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
        )  # fmt: skip
        print(done.stdout, end="", flush=True)
        if done.returncode != 0:
            sys.exit(f"the demo broke: exit code {done.returncode}")
        return done.stdout

    def entries(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []

    def lose(self, name: str) -> None:
        """Kill a worker and all that works for it, as a power cut would."""
        while found := list(_processes_of(str(self.scratch / name))):
            for pid in found:
                _kill(pid)
            time.sleep(0.05)

    def machine(self) -> str:
        """Where the run is: only one of the two has a seat for it."""
        names = [
            name for name in ("one", "two") if any((self.scratch / name).glob("seats/*"))
        ]  # fmt: skip
        return names[0]

    def close(self) -> None:
        """End what was started, the server last, and wait for it."""
        for name in ("one", "two"):
            self.lose(name)
        for started in reversed(self.started):
            if started.poll() is None:
                started.kill()
            started.wait()
            if started.stdout is not None:
                started.stdout.close()


def _processes_of(root: str) -> list[int]:
    """A worker, its keepers, engines and programs: each has the root in its words or its folder."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().decode("utf-8", "replace")
            folder = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        if name.isdigit() and (f"{root}\0" in words or f"{root}/" in f"{words} {folder}/"):
            found.append(int(name))
    return [pid for pid in found if pid != os.getpid()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _answers(port: int) -> bool:
    with socket.socket() as asks:
        return asks.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def until(condition: Callable[[], bool], otherwise: str) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > give_up:
            sys.exit(f"the demo broke: {otherwise}")
        time.sleep(0.1)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def show(demo: Demo, log: str) -> int:
    """The ledger: each item once, or twice where a loss was announced; 0 if it is so."""
    counts = Counter(demo.entries())
    losses = [line for line in log.splitlines() if LOSS in line]
    for item in sorted(counts):
        twice = "  begun again" if counts[item] > 1 else ""
        print(f"  {item}  {'*' * counts[item]}{twice}")
    again = sum(counts.values()) - len(counts)
    print(f"{len(counts)} of {ITEMS} items, {again} begun again, because:", *losses, sep="\n  ")
    return int(len(counts) != ITEMS or max(counts.values()) > 2 or len(losses) != 1)


def main() -> int:
    demo = Demo(Path(tempfile.mkdtemp(prefix="orchestrate-fleet-demo-")))
    try:
        port = _free_port()
        say("A server, and two workers of the pool `desk`")
        demo.make_project(port)
        demo.start_server(port)
        for name in ("one", "two"):
            demo.start_worker(name)
        say(f"A run of {ITEMS} items")
        run = demo.orchestrate("run", "items.yaml", "--fleet", "desk", "-d").strip()
        until(lambda: len(demo.entries()) >= _LOST_AFTER, "no item began")
        name = demo.machine()
        say(f"Machine `{name}`, which works on it, loses its power; the other one goes on")
        demo.lose(name)
        demo.orchestrate("wait", run)
        log = demo.orchestrate("logs", run)
        say("The ledger that the items wrote as they began")
        return show(demo, log)
    finally:
        demo.close()
        shutil.rmtree(demo.scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
