"""Runs in the background for tests: started, waited for, killed, and never left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL

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
            if has_run(project) and project.latest_state["status"] == "running":
                project.run("cancel", "latest").assert_success()


def runs_folder(project: Project) -> Path:
    return project.folder / ".orchestrate" / "runs"


def has_run(project: Project) -> bool:
    return os.path.lexists(runs_folder(project) / "latest")


def await_file(project: Project, name: str) -> None:
    wait_until((project.folder / name).exists, f"{name} never appeared")
