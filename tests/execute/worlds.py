"""Executors under test: each world can make a program do what an `Act` says, and go wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from orchestrate.execute import local
from orchestrate.execute.base import Executor, Job
from orchestrate.execute.liveness import is_keeper_alive, keeper_pid
from orchestrate.record import replace
from orchestrate.testing import Act, FakeExecutor

PATIENCE_S = 60.0


def wait_until(is_so: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.005)


def job_of(attempt: str, argv: tuple[str, ...] = ("program",), **more: Any) -> Job:
    return Job(
        attempt=attempt,
        argv=argv,
        env={"PATH": os.environ["PATH"]},
        stdout=f"{attempt}.stdout",
        stderr=f"{attempt}.stderr",
        **more,
    )


class World(Protocol):
    """An executor's surroundings."""

    @property
    def executor(self) -> Executor: ...

    def job(self, attempt: str, act: Act, **more: Any) -> Job:
        """A job whose program will do so."""

    def starts_of(self, attempt: str) -> int:
        """How often its program was really started."""

    def another(self) -> Executor:
        """Another client of the same run, as after a restart of the orchestrator."""

    def let_go(self, attempt: str) -> None:
        """Let a program that never ends by itself go on to its end."""

    def lose(self, attempt: str) -> None:
        """End a program, and all who could say how it ended."""

    def file(self, name: str) -> bytes:
        """A file of the workspace."""

    def end(self) -> None:
        """Close all clients, and leave nothing running."""


class FakeWorld:
    def __init__(self) -> None:
        self.executor = FakeExecutor()

    def job(self, attempt: str, act: Act, **more: Any) -> Job:
        self.executor.acts.setdefault(attempt, act)
        return job_of(attempt, **more)

    def starts_of(self, attempt: str) -> int:
        return [job.attempt for job in self.executor.jobs].count(attempt)

    def another(self) -> Executor:
        return self.executor.another()

    def let_go(self, attempt: str) -> None:
        records = self.executor._records
        with records.changed:
            found = records.attempts[attempt]
            found.act = replace(found.act, after_s=0.0)
            records.changed.notify_all()

    def lose(self, attempt: str) -> None:
        self.executor.lose(attempt)

    def file(self, name: str) -> bytes:
        return self.executor.files[name]

    def end(self) -> None:
        """Nothing is left of it."""


class LocalWorld:
    """Real programs: shell scripts that do what an act says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        (self.run_dir / "logs").mkdir(parents=True, mode=0o700)
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self._clients: list[Executor] = []
        self.executor = self.another()

    def job(self, attempt: str, act: Act, **more: Any) -> Job:
        texts = []
        for kind, text in (("out", act.stdout), ("err", act.stderr), ("last", act.last)):
            texts.append(self.folder / f"{attempt}.{kind}.text")
            texts[-1].write_bytes(text)
        lines = [
            f"echo started >> '{self.folder / attempt}.starts'",
            f"cat '{texts[0]}'",
            f"cat '{texts[1]}' >&2",
            f"until test -e '{self._gate(attempt)}'; do sleep 0.05; done"
            if act.after_s is None
            else f"sleep {act.after_s}",
            f"cat '{texts[2]}'",
            f"exit {act.code}" if act.signal is None else f"kill -{act.signal} $$",
        ]
        if more.get("tee") is not None:
            (self.workspace / more["tee"]).touch()
        argv = ("/nowhere/program",) if act.start_error else ("sh", "-c", "\n".join(lines))
        return job_of(attempt, argv, **more)

    def starts_of(self, attempt: str) -> int:
        path = self.folder / f"{attempt}.starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def another(self) -> Executor:
        self._clients.append(local.LocalExecutor(self.run_dir, self.workspace))
        return self._clients[-1]

    def _gate(self, attempt: str) -> Path:
        return self.folder / f"{attempt}.go"

    def let_go(self, attempt: str) -> None:
        self._gate(attempt).touch()

    def lose(self, attempt: str) -> None:
        wait_until(lambda: self.starts_of(attempt))
        pid = keeper_pid(self.run_dir)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_keeper_alive(self.run_dir))

    def file(self, name: str) -> bytes:
        return (self.workspace / name).read_bytes()

    def end(self) -> None:
        for client in self._clients:
            client.close()
        if is_keeper_alive(self.run_dir):
            local.end_programs(self.run_dir, "the test is over")
        assert not is_keeper_alive(self.run_dir)
