"""Runs what the configuration wants done in a new worktree before a run begins there."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.errors import ConfigError
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    import subprocess

    from orchestrate.app.working.reporter import Reporter
    from orchestrate.engine.stop import Stop
    from orchestrate.state.runs import Run
    from orchestrate.state.worktree import Worktree

_LOG = "worktree.log"
_LOOK_S = 0.1
_GRACE_S = 5.0


def run_prepare(
    run: Run, tree: Worktree, commands: Sequence[Sequence[str]], reporter: Reporter, stop: Stop
) -> bool:
    """One after the other, in the place where the run's steps will work, until one fails; False if
    a signal came first."""
    for command in commands:
        shown = " ".join(command)
        reporter.detail(f"  prepare: {visible(shown)}\n")
        code = _run(run, tree, command, stop)
        if stop.is_requested:
            return False
        if code:
            again = reporter.place.command("resume", run.id)
            raise ConfigError(
                f"`{visible(shown)}` (worktree: prepare:) ended with {code}",
                f"its output: {visible(str(run.logs / _LOG))}\n"
                f"when that is repaired: {visible(again)}",
            )
    return True


def _run(run: Run, tree: Worktree, command: Sequence[str], stop: Stop) -> int:
    import subprocess  # which few runs need

    with open(run.logs / _LOG, "ab") as log:
        try:
            # Its own group: what it has started ends with it.
            process = subprocess.Popen(
                list(command), cwd=tree.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            log.write(f"{command[0]}: {error.strerror}\n".encode())
            return 127
        while True:
            try:
                return process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                if stop.is_requested:
                    return _end(process)
            except BaseException:
                _end(process)
                raise


def _end(process: subprocess.Popen[bytes]) -> int:
    import subprocess

    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
