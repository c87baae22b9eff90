"""`orchestrate watch`: runs or checks a recipe again whenever a file of it changes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.watched_files import Snapshot, contents_of, files_of, take_snapshot
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.commands.run import run
from orchestrate.cli.main import tell
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.exits import HUNG_UP, INTERRUPTED, TERMINATED
from orchestrate.plan.visible import plural, visible
from orchestrate.record import field, mutable_record
from orchestrate.show.findings import count_line, draw
from orchestrate.show.output import answer, answer_json, finish_output, note, wants_colour

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.workspace import Workspace

_POLL_S = 0.25
# An editor may write several files, or one in several steps: this long nothing must have changed.
_QUIET_S = 0.3
# A recipe that changes its own files would run for ever, and cost money each time.
_MOST_BY_ITSELF = 3
_MOST_NAMES = 5
_MOST_ROUNDS = 1000
_SIGNALS = (HUNG_UP, INTERRUPTED, TERMINATED)
# What makes no sense again and again.
_NOT_WATCHED = ("dry_run", "detach", "events")


@mutable_record
class Watch:
    """What is watched, and what came of it so far."""

    file: str
    workspace: Workspace
    validates: bool
    as_json: bool
    flags: dict[str, Any]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    by_itself: int = 0


@click.command(short_help="Run a recipe again whenever a file of it changes.")
@click.option("--validate", "validates", is_flag=True,
              help="Only check the recipe, and run nothing.")  # fmt: skip
def watch(file: str, validates: bool, working_dir: str | None, as_json: bool, **flags: Any) -> int:
    """Run a recipe, and again whenever a file of it changes.

    Watched are the recipe and all that it includes or calls, its prompts and agents. A change
    during a run waits until the run ends. Ctrl-C ends it; a run that is at work is stopped so that
    it can be resumed. All flags of `run` are taken.
    """
    flags["working_dir"] = working_dir
    watched = Watch(file, workspace_of(working_dir), validates, as_json, flags)
    try:
        code = _watch(watched)
    except KeyboardInterrupt:
        code = INTERRUPTED
    note("stopped watching\n")
    if as_json:
        answer_json({"file": file, "count": watched.count, "rounds": watched.rounds})
    return code


# After the command's own: every flag of `run`, and its FILE.
watch.params += [parameter for parameter in run.params if parameter.name not in _NOT_WATCHED]


def _watch(watched: Watch) -> int:
    paths: list[str] = []
    changed: list[str] = []
    while True:
        # Taken before anything is read: what changes from now on is seen as a change.
        before = take_snapshot(paths)
        compilation = _compile(watched)
        paths = files_of(compilation, watched.workspace)
        before = Snapshot({**take_snapshot(paths).looks, **before.looks})
        contents = contents_of(before.looks)
        code = _round(watched, compilation, changed)
        if code in _SIGNALS:
            return code
        if compilation.program is None:
            # What is no part of it any more, because of a mistake, may become part of it again.
            paths = list(before.looks)
        changed = _await_change(watched, before, contents, paths)


def _compile(watched: Watch) -> Compilation:
    from orchestrate.app.definition import compile_definition, compiled

    compilation = compile_definition(watched.file, watched.workspace)
    if watched.count == 0 and not os.path.lexists(compilation.path):
        # A slip: nobody waits for that, and it is refused.
        compiled(watched.file, watched.workspace)
    return compilation


def _round(watched: Watch, compilation: Compilation, changed: list[str]) -> int:
    """Check or run once; mistakes are told, and the watch goes on."""
    watched.count += 1
    told: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "changed": changed,
        "valid": compilation.program is not None,
        "exit_code": None,
    }
    # Listed from its beginning: Ctrl-C may come at any moment.
    watched.rounds = [*watched.rounds, told][-_MOST_ROUNDS:]
    if watched.validates or compilation.program is None:
        code = _check(watched, compilation)
    else:
        code = _run(watched, told)
    told["exit_code"] = code
    return code


def _check(watched: Watch, compilation: Compilation) -> int:
    findings = compilation.diagnostics
    name = visible(watched.workspace.display(compilation.path.absolute()))
    note(draw(findings, compilation.dropped, colour=wants_colour(sys.stderr)))
    if not watched.as_json:
        valid = f"valid {compilation.dialect}" if compilation.program is not None else "not valid"
        also = f" ({count_line(findings)})" if findings else ""
        answer(f"{name}: {valid}{also}\n")
        finish_output()
    return compilation.exit_code


def _run(watched: Watch, told: dict[str, Any]) -> int:
    from contextlib import redirect_stdout
    from io import StringIO

    assert run.callback is not None
    arguments: dict[str, Any] = {"file": watched.file, "as_json": watched.as_json}
    arguments |= {str(p.name): False for p in run.params if p.name in _NOT_WATCHED}
    heard = StringIO()
    try:
        if not watched.as_json:
            code = int(run.callback(**arguments, **watched.flags))
            finish_output()
            return code
        with redirect_stdout(heard):
            code = int(run.callback(**arguments, **watched.flags))
        import json

        document = json.loads(heard.getvalue())
        told |= {name: document.get(name) for name in ("run_id", "status", "reason")}
        return code
    except OrchestrateError as error:
        if isinstance(error, UsageError) and watched.count == 1:
            # Flags do not change any more: nothing that is edited would help.
            raise
        # What kept a run from starting; the next change may mend it.
        tell(error, as_json=False)
        told["error"] = error.message
        return error.exit_code


def _await_change(
    watched: Watch, before: Snapshot, contents: dict[str, str], paths: list[str]
) -> list[str]:
    """Wait until something has really changed and all is quiet; the names of what changed."""
    seen = take_snapshot(paths)
    during = _changed_files(before, contents, seen, paths)
    watched.by_itself = watched.by_itself + 1 if during and not watched.validates else 0
    if during and watched.by_itself < _MOST_BY_ITSELF:
        _settle(paths)
        return _tell_change(watched, during)
    if during:
        what = f"{_names(watched, during)} changed during each of the last {_MOST_BY_ITSELF} runs"
        note(f"{what}: perhaps the recipe changes it itself\n")
        watched.by_itself = 0
        before, contents = seen, contents_of(paths)
    note(f"watching {plural(len(paths), 'file')}; Ctrl-C ends it\n")
    while True:
        time.sleep(_POLL_S)
        if take_snapshot(paths).changed_since(seen):
            seen = _settle(paths)
            changed = _changed_files(before, contents, seen, paths)
            if changed:
                return _tell_change(watched, changed)


def _settle(paths: list[str]) -> Snapshot:
    """Wait until nothing has changed for a moment."""
    last = take_snapshot(paths)
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _QUIET_S:
        time.sleep(_QUIET_S / 6)
        now = take_snapshot(paths)
        if now.changed_since(last):
            last, quiet_since = now, time.monotonic()
    return last


def _changed_files(
    before: Snapshot, contents: dict[str, str], now: Snapshot, paths: list[str]
) -> list[str]:
    """Those that hold something else than before; to be touched is no change."""
    candidates = [path for path in now.changed_since(before) if path in paths]
    fresh = contents_of(candidates)
    return [path for path in candidates if fresh[path] != contents.get(path, "")]


def _tell_change(watched: Watch, changed: list[str]) -> list[str]:
    note(f"\n{_names(watched, changed)} changed\n")
    return [watched.workspace.display(Path(path)) for path in changed]


def _names(watched: Watch, paths: list[str]) -> str:
    shown = [visible(watched.workspace.display(Path(path))) for path in paths[:_MOST_NAMES]]
    more = f" and {len(paths) - _MOST_NAMES} more" if len(paths) > _MOST_NAMES else ""
    return ", ".join(shown) + more
