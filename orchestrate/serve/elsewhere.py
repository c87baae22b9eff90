"""Runs of the console's workspaces on other machines: what they publish is fetched while we serve.

A process of its own does that for each workspace that has such runs (`fleet/follow`): the server
neither waits for machines nor loads what speaks to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.state.runs import ELSEWHERE, Runs, list_runs

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.serve.console import Console

_LOOK_S = 2.0


class Elsewhere:
    """Starts what follows the runs of each workspace, and ends it with the server."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._followers: dict[Path, subprocess.Popen[bytes]] = {}
        # A folder that has not changed has no new runs.
        self._changed: dict[Path, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for follower in self._followers.values():
            follower.kill()
            follower.wait()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for workspace in self._console.workspaces:
                try:
                    runs = self._console.runs_of(workspace)
                    self._look(workspace.root, runs)
                except (OrchestrateError, OSError):
                    continue

    def _look(self, workspace: Path, runs: Runs) -> None:
        known = self._followers.get(runs.folder)
        if known is not None and known.poll() is None:
            return
        changed = os.stat(runs.folder).st_mtime_ns
        if known is None and self._changed.get(runs.folder) == changed:
            return
        self._changed[runs.folder] = changed
        if any(os.path.lexists(run.root / ELSEWHERE) for run in list_runs(runs)):
            self._followers[runs.folder] = _follow(workspace, runs.folder)


def _follow(workspace: Path, folder: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: what ends the server by a key ends it by way of us."""
    # -P: nothing that lies in the workspace may stand in for our own modules.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "orchestrate", "seat", "follow"], cwd=workspace,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as given:
        given.write(json.dumps({"folder": str(folder)}).encode())
    return process
