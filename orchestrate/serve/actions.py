"""What the console does with runs: the very functions of the command line, or the command itself.

A run never lives in the server: `run -d` and `resume -d` are processes of their own, so that
killing the server touches none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrate.app.deciding.decide import decide
from orchestrate.app.definitions.recipes import recipes_of
from orchestrate.app.ending.end_run import cancel_run, stop_run
from orchestrate.record import record
from orchestrate.serve.problems import Problem
from orchestrate.state.elsewhere import is_shadow
from orchestrate.view.outcomes import ListedRecipe
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
_NAMED = ("session", "backend", "model", "permissions")
_START_S = 120.0
_END_S = 60.0
# By what an exit code of the command is answered.
_STATUSES = {1: 422, 2: 400, 5: 409, 70: 500}


@record
class StartRequest:
    """What is to be started; values are texts, as they are typed on a command line."""

    recipe: str
    inputs: Mapping[str, str]
    session: str = ""
    backend: str = ""
    model: str = ""
    permissions: str = ""
    allow_concurrent: bool = False

    @property
    def flags(self) -> list[str]:
        flags = [f"--input={name}={value}" for name, value in self.inputs.items()]
        named = [(name, getattr(self, name)) for name in _NAMED]
        flags += [f"--{name}={value}" for name, value in named if value]
        return flags + (["--allow-concurrent"] if self.allow_concurrent else [])


def find_entry(workspace: Workspace, recipe_id: str) -> ListedRecipe:
    """A recipe by its id alone, never by a path; ids with `_` for `-` are accepted."""
    known = {entry.id: entry for entry in recipes_of(workspace)}
    for wanted in (recipe_id, recipe_id.replace("_", "-")):
        if wanted in known:
            return known[wanted]
    raise Problem(404, f"Recipe not found: {recipe_id[:200]}", "see the list of recipes")


def start(workspace: Workspace, request: StartRequest) -> Json:
    """Start a run, in a process of its own: its id and folder."""
    entry = find_entry(workspace, request.recipe)
    found = command(workspace, "run", "-d", *request.flags, "--", entry.id)
    return {"run_id": found["run_id"], "recipe": entry.id, "workspace": str(workspace.root)}


def resume(workspace: Workspace, run: Run, flags: Sequence[str] = ()) -> Json:
    command(workspace, "resume", "-d", *flags, "--", run.id)
    return {"run_id": run.id, "status": run_view(run).status}


def command(workspace: Workspace, verb: str, *words: str) -> Json:
    """Give a command as its user would; its own words are the problem's."""
    # -P: nothing that lies in the workspace may stand in for our own modules.
    argv = [sys.executable, "-P", "-m", "orchestrate", verb, "--json",
            f"--working-dir={workspace.root}", *words]  # fmt: skip
    try:
        done = subprocess.run(
            argv, cwd=workspace.root, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_START_S, check=False, start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Problem(504, f"`orchestrate {verb}` has not answered in time") from None
    try:
        found = json.loads(done.stdout or b"{}")
    except ValueError:
        found = {}
    if done.returncode == 0 and isinstance(found, dict):
        return found
    said = found.get("error") if isinstance(found, dict) else None
    told = said if isinstance(said, dict) else {}
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    message = told.get("message") or (lines[0] if lines else f"`{verb}` failed")
    more = {"diagnostics": found["diagnostics"]} if "diagnostics" in found else {}
    raise Problem(
        _STATUSES.get(done.returncode, 409),
        str(message).removeprefix("orchestrate: "),
        str(told.get("hint", "")),
        exit_code=done.returncode,
        **more,
    )


def _end_elsewhere(workspace: Workspace, verb: str, run: Run) -> Json:
    found = command(workspace, verb, "--", run.id)
    return {"run_id": run.id, "status": found["status"], "message": found["message"]}


def cancel(console: Console, workspace: Workspace, run: Run) -> Json:
    if is_shadow(run):
        return _end_elsewhere(workspace, "cancel", run)
    again = console.place_of(workspace).command("cancel", run.id)
    message, status = cancel_run(run, again, time.monotonic() + _END_S, lambda _: None)
    return {"run_id": run.id, "status": status, "message": message}


def stop(console: Console, workspace: Workspace, run: Run) -> Json:
    if is_shadow(run):
        return _end_elsewhere(workspace, "stop", run)
    again = console.place_of(workspace).command("stop", run.id)
    message, view = stop_run(run, again, time.monotonic() + _END_S, lambda _: None)
    return {"run_id": run.id, "status": view.status, "message": message}


__all__ = ["StartRequest", "cancel", "decide", "find_entry", "resume", "start", "stop"]
