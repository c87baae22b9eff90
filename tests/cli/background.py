"""Runs in the background for tests: started, waited for, killed, and never left behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from orchestrate.testing import Project
from tests.commands import Command
from tests.promises.processes import wait_until


@contextmanager
def started(project: Project, *arguments: str) -> Iterator[Command]:
    """The command in the background; at the end it and the programs of its run are ended."""
    with Command(*arguments, cwd=project.folder, stdout=DEVNULL, stderr=DEVNULL) as process:
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
