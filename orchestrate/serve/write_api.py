"""What the HTTP interface changes: starts, resumes, ends and answers."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.given.inputs import unset_secrets
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.estimate import estimate
from orchestrate.app.starting.prepare import prepare, rehearse
from orchestrate.errors import OrchestrateError
from orchestrate.plan.nodes import main_plan
from orchestrate.serve import actions, inbox
from orchestrate.serve.keys import make_private, serve_folder
from orchestrate.serve.problems import Problem
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.estimate import estimate_lines
from orchestrate.show.findings import draw
from orchestrate.state.durable import dump_json, parse_json, read_file, write_durably

if TYPE_CHECKING:
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.serve.operations import CheckedRequest
    from orchestrate.state.runs import Run

Json = dict[str, Any]


def _start_request(body: Json) -> actions.StartRequest:
    known = {name: body[name] for name in body if name not in ("recipe", "inputs", "workspace")}
    return actions.StartRequest(body["recipe"], body.get("inputs", {}), **known)


def start_run(asked: CheckedRequest) -> Json:
    workspace = asked.console.workspace(asked.body.get("workspace"))
    if not asked.key:
        asked.console.change(asked.who, asked.place, f"start {asked.body['recipe']}")
        return actions.start(workspace, _start_request(asked.body))
    return _once(asked, lambda: actions.start(workspace, _start_request(asked.body)))


def _once(asked: CheckedRequest, start: Any) -> Json:
    """What a key has started is on the disk: a client may ask again after any break.

    The note is made before the run. If this process dies in between, the key stays without an
    answer, and says so: a second run for one key would be worse.
    """
    folder = serve_folder(os.environ) / "starts"
    make_private(folder)
    body = sha256(dump_json(asked.body)).hexdigest()
    note = folder / sha256(asked.key.encode()).hexdigest()
    try:
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
    except FileExistsError:
        return _earlier(note, body)
    try:
        asked.console.change(asked.who, asked.place, f"start {asked.body['recipe']}")
        started: Json = start()
    except OrchestrateError:
        with suppress(OSError):
            note.unlink()  # nothing was started: the key is free again
        raise
    write_durably(note, dump_json([body, started]))
    return started


def _earlier(note: Path, body: str) -> Json:
    content = read_file(note)
    if not content:
        raise Problem(
            409,
            "this Idempotency-Key is being used, or its server died while it was",
            "look whether the run has started before you use another key",
        )
    before, started = parse_json(content)
    if before != body:
        raise Problem(409, "this Idempotency-Key was used with another body")
    found: Json = started
    return {**found, "already": True}


class _Heard:
    """What a dry run is warned of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def detail(self, text: str) -> None:
        self.texts.append(text.strip())

    def findings(self, found: tuple[Diagnostic, ...], dropped: int) -> None:
        self.texts.append(draw(found, dropped).strip())


def dry_run(asked: CheckedRequest) -> Json:
    """What would run, who would be asked how often, in which folder; nothing is started."""
    workspace = asked.console.workspace(asked.body.get("workspace"))
    request = _start_request(asked.body)
    entry = actions.find_entry(workspace, request.recipe)
    settings = RunSettings(
        input=tuple(f"{name}={value}" for name, value in request.inputs.items()),
        backend=request.backend or None,
        model=request.model or None,
        permissions=request.permissions or None,  # type: ignore[arg-type]
        session=request.session or None,
    )
    prepared = prepare(entry.id, workspace, settings, may_lack=True)
    heard = _Heard()
    lines, asks = rehearse(prepared, heard)
    expected = estimate(prepared).to_json()
    return {
        "recipe": entry.id,
        "workspace": str(workspace.root),
        "text": render_dry_run(prepared.program, unset_secrets(prepared.program)),
        "asked": asks,
        "lines": lines,
        "estimate": expected,
        "estimate_lines": list(estimate_lines(expected)),
        "notes": heard.texts,
        "most_steps": main_plan(prepared.program).limits.max_steps,
    }


def _run_of(asked: CheckedRequest, what: str) -> tuple[Any, Run]:
    workspace, run = asked.console.find(asked.given["run"])
    asked.console.change(asked.who, asked.place, what, run.id)
    return workspace, run


def resume_run(asked: CheckedRequest) -> Json:
    workspace, run = _run_of(asked, "resume")
    flags = ["--as-started"] if asked.body.get("as_started") else []
    return actions.resume(workspace, run, flags)


def cancel_run(asked: CheckedRequest) -> Json:
    return actions.cancel(asked.console, *_run_of(asked, "cancel"))


def stop_run(asked: CheckedRequest) -> Json:
    return actions.stop(asked.console, *_run_of(asked, "stop"))


def answer_run(asked: CheckedRequest) -> Json:
    """Record an answer; then go on with a parked run, unless `resume` is false."""
    workspace, run = _run_of(asked, f"answer {asked.body['value'][:20]}")
    return inbox.answer(workspace, run, asked.body)
