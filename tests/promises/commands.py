"""The real command in a process of its own, as a user starts it: awaited, killed, measured."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrate.testing import Project, Result
from tests.commands import Command
from tests.promises.processes import wait_until
from tests.promises.shapes import Shape
from tests.promises.trials import Trial

MEASURED = Path(__file__).resolve().parent.parent / "hostile" / "measured.py"
_PATIENCE_S = 600


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it used."""

    code: int
    stdout: str
    stderr: str
    max_rss_kb: int
    cpu_s: float


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "orchestrate", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", **(more or {})}


def workflow(top: Path, text: str, *, files: Mapping[str, str] | None = None) -> Trial:
    """A workspace with this one workflow."""
    return Trial(top, Shape("workflow", text, files=files or {}))


def do(trial: Trial, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
    return Project(trial.workspace).run(*arguments, env=env, timeout_s=_PATIENCE_S)


def measure(trial: Trial, *arguments: str) -> Done:
    """Run a command to its end, behind a small process that measures it (see `measured`)."""
    report = trial.top / "cost.json"
    measured = [sys.executable, "-I", "-S", str(MEASURED), str(report), str(_PATIENCE_S)]
    with _files(trial) as (out, err):
        subprocess.run(
            [*measured, *words(*arguments)],
            cwd=trial.workspace,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=True,
        )
    stdout, stderr = (trial.top / name for name in ("out", "err"))
    cost = json.loads(report.read_text())
    return Done(
        cost["exit_code"],
        stdout.read_text("utf-8", "replace"),
        stderr.read_text("utf-8", "replace"),
        round(cost["memory_mb"] * 1024),
        cost["cpu_s"],
    )


@contextmanager
def _files(trial: Trial) -> Iterator[tuple[int, int]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    out, err = (os.open(trial.top / name, flags, 0o600) for name in ("out", "err"))
    try:
        yield out, err
    finally:
        os.close(out)
        os.close(err)


@contextmanager
def doing(trial: Trial, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Command]:
    """A command that runs while the block does; what is left of it then is killed."""
    with Command(*arguments, cwd=trial.workspace, env=environment(env), is_leader=True) as process:
        try:
            yield process
        finally:
            # Not by its number: it may be somebody else's by now.
            process.kill()


def run_and_kill_at(trial: Trial, name: str) -> None:
    """Start the workflow and kill the orchestrator alone once a file has appeared."""
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, name)
        process.kill()
        process.wait()


def await_file(trial: Trial, name: str) -> None:
    path = trial.workspace / name
    wait_until(lambda: path.exists() and path.stat().st_size, f"{name} never appeared")


def await_lines(trial: Trial, number: int) -> None:
    wait_until(lambda: len(trial.lines()) >= number, f"{number} lines never came", 120.0)


def at_terminal(trial: Trial, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
    """Everything that a command writes when a person sits at its terminal."""
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        with suppress(OSError):  # the last of them has closed the other end
            while data := os.read(ours, 4096):
                seen.extend(data)

    reader = threading.Thread(target=read)
    with Command(
        *arguments, cwd=trial.workspace, env=environment(env),
        stdin=theirs, stdout=theirs, stderr=theirs, is_leader=True,
    ):  # fmt: skip
        os.close(theirs)
        reader.start()
    reader.join()
    os.close(ours)
    return bytes(seen)
