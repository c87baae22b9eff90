"""Runs in the background for tests: started, waited for, killed, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrate.testing import Project

PATIENCE_S = 30.0


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


@contextmanager
def started(project: Project, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command in the background; at the end it and the programs of its run are ended."""
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrate", *arguments],
        cwd=project.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if latest(project) is not None and state_of(project)["status"] == "running":
                project.run("cancel", "latest").assert_success()


def runs_folder(project: Project) -> Path:
    return project.folder / ".orchestrate" / "runs"


def latest(project: Project) -> Path | None:
    link = runs_folder(project) / "latest"
    return runs_folder(project) / os.readlink(link) if os.path.lexists(link) else None


def latest_root(project: Project) -> Path:
    root = latest(project)
    assert root is not None, "there is no run"
    return root


def state_of(project: Project) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((latest_root(project) / "state.json").read_text("utf-8"))
    return state


def await_file(project: Project, name: str) -> None:
    wait_until((project.folder / name).exists, f"{name} never appeared")


def is_alive(pid: int) -> bool:
    """Does a process still run? One that only waits to be collected does not."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return found.rpartition(")")[2].split()[0] != "Z"
