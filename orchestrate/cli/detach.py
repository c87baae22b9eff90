"""`-d`: starts a run in a process of its own, and says how to watch it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.app.starting.detach import LOG, DetachedRun, Starter, detach
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json, note

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.view.place import Place


def detached(settings: RunSettings, place: Place, as_json: bool) -> Starter | int | None:
    """With `-d`, in the new process its starter, and in the command its exit code; else None."""
    if not settings.detach:
        return None
    if settings.live:
        raise UsageError("--detach and --live exclude each other")
    result = detach(_flush)
    return result if isinstance(result, Starter) else _tell(result, place, as_json)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _tell(child: DetachedRun, place: Place, as_json: bool) -> int:
    run_id = os.path.basename(child.root)
    if not child.root:
        return child.exit_code()
    if child.is_interrupted:
        # The run had just begun, and stops in good order.
        code = child.exit_code()
        note(f"run {run_id} was interrupted\n")
        note(f"  go on:  {place.command('resume', run_id)}\n")
        return code
    if as_json:
        root = child.root
        log = os.path.join(root, "logs", LOG)
        answer_json({"run_id": run_id, "run_root": root, "pid": child.process, "log": log})
        return 0
    answer(f"{run_id}\n")
    note(f"  watch:  {place.command('attach', run_id)}\n")
    note(f"  wait:   {place.command('wait', run_id)}\n")
    return 0
