"""A run without an engine: events go in as the journal has them, `state.json` comes out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from orchestrate.compile import compile_file, require_program
from orchestrate.engine.ready import Task, ready
from orchestrate.plan.nodes import Program
from orchestrate.state.apply import apply, start
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import decode
from orchestrate.state.events import RunStarted, event_from_json, event_to_json
from orchestrate.state.model import Frame, Index, NodePlace, RunState
from orchestrate.state.times import timestamp
from orchestrate.workspace import Workspace

RUN_ID = "20260101T000000Z-abcdef"
STARTED = 1_000_000.0
Json = dict[str, Any]


def compiled(text: str, **files: str) -> Program:
    """The program of a definition; `files` are the recipes that it calls, without `.yaml`."""
    return _compiled(text, tuple(sorted(files.items())))


@cache
def _compiled(text: str, files: tuple[tuple[str, str], ...]) -> Program:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for other, content in files:
            (folder / f"{other}.yaml").write_text(content, "utf-8")
        path = folder / "main.yaml"
        path.write_text(text, "utf-8")
        return require_program(compile_file(path, Workspace(folder)))


def first_event(program: Program, context: Mapping[str, Any]) -> Json:
    plan = next(plan for plan in program.plans if plan.id == program.main)
    return {
        "on": "run-started",
        "at": STARTED,
        "run_id": RUN_ID,
        "workspace": "/workspace",
        "definition": program.main,
        "plan": program.main,
        "dialect": plan.dialect,
        "schema_version": "1.1.1",
        "checksum": "sha256:0",
        "sources": {},
        "context": dict(context),
        "settings": {},
        "version": "0",
    }


class Folding:
    """The state of a run, and every event that led to it."""

    def __init__(self, program: Program, context: Mapping[str, Any] | None = None) -> None:
        self.program = program
        self.index = Index(program)
        first = first_event(program, context or {})
        event = event_from_json(json.loads(json.dumps(first)))
        assert isinstance(event, RunStarted)
        self.state: RunState = start(self.index, event)
        self.events: list[Json] = [first]
        self._encoder = Encoder(self.index)

    @classmethod
    def of(cls, text: str, context: Mapping[str, Any] | None = None, **files: str) -> Self:
        return cls(compiled(text, **files), context)

    @property
    def now(self) -> float:
        return STARTED + len(self.events)

    def give(self, on: str, frame: Frame | None = None, **fields: Any) -> Self:
        """Fold an event in, read as from the disk; of a frame's cursor if one is named."""
        written: Json = {"on": on}
        if frame is not None:
            assert frame.here is not None
            written |= {"frame": frame.key, "node": frame.here.node, "visit": frame.here.visit}
        return self.fold(written | {"at": self.now} | fields)

    def fold(self, written: Json) -> Self:
        text = json.dumps(written)
        event = event_from_json(json.loads(text))
        assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
        before = event_to_json(event)
        apply(self.index, self.state, event)
        assert event_to_json(event) == before, "an event is never changed"
        self.state.seq += 1
        self.events.append(written)
        return self

    # What is said of the step at a cursor.

    def begin(self, frame: Frame | None = None, **fields: Any) -> Self:
        at = self._at(frame)
        assert at.here is not None
        return self.give("step-started", at, attempt=at.here.attempt + 1, **fields)

    def finish(
        self,
        label: str = "@ok",
        frame: Frame | None = None,
        result: Json | None = None,
        **more: Any,
    ) -> Self:
        """An attempt at the step, from its beginning to its label."""
        at = self._at(frame)
        assert at.here is not None
        if at.here.phase != "running" and label != "@skipped":
            self.begin(at)
        times = {"started_at": timestamp(at.here.since), "completed_at": timestamp(self.now)}
        told = result_of(label, at.here.attempt) | times | (result or {})
        return self.give("step-finished", at, label=label, result=told, **more)

    def cut(self, why: str, frame: Frame | None = None, **fields: Any) -> Self:
        """The attempt that is running is not the last word."""
        at = self._at(frame)
        assert at.here is not None
        result = {"status": "failed", "exit_code": 1, "attempts": at.here.attempt}
        fields.setdefault("result", result)
        return self.give("attempt-ended", at, attempt=at.here.attempt, why=why, **fields)

    def _at(self, frame: Frame | None) -> Frame:
        if frame is not None:
            return frame
        (task,) = self.tasks
        return task.frame

    # What has become of it.

    @property
    def tasks(self) -> list[Task]:
        return ready(self.state)

    @property
    def ahead(self) -> list[str]:
        """What is to be done next, as `KIND FRAME STEP`; the main frame has no name."""
        return [
            " ".join(filter(None, (task.kind, task.frame.key, self.place(task.frame).node.name)))
            for task in self.tasks
        ]

    def place(self, frame: Frame) -> NodePlace:
        return self.index.here(frame)

    @property
    def content(self) -> bytes:
        """`state.json`, by an encoder that has seen all states before this one."""
        return self._encoder.encode(self.state)

    @property
    def document(self) -> Json:
        found: Json = json.loads(self.content)
        return found

    @property
    def ending(self) -> tuple[str, str, int] | None:
        ending = self.state.ending
        return None if ending is None else (ending.status, ending.reason, ending.code)

    def reread(self) -> RunState:
        """The state from its file."""
        return decode(Index(self.program), Encoder(self.index).encode(self.state), RUN_ID)


def result_of(label: str, attempt: int) -> Json:
    status = {"@failed": "failed", "@invalid": "failed", "@skipped": "skipped"}
    result: Json = {"status": status.get(label, "completed"), "attempts": attempt}
    match result["status"]:
        case "failed":
            error = {"message": "it failed", "exit_code": 1, "context": {}}
            return result | {"exit_code": 1, "error": error}
        case "skipped":
            return {"status": "skipped", "exit_code": 0, "reason": "not wanted"}
        case _:
            return result | {"exit_code": 0, "output": "done"}
