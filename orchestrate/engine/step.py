"""A step that is to be performed: where it stands, what it sees, and the events it can give."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from orchestrate.engine.faults import StepFault
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.scope import StepScope
from orchestrate.engine.texts import encode
from orchestrate.plan.nodes import FAILED, Ask, Label, Node, Plan, Retry
from orchestrate.state.calls import call_deadline
from orchestrate.state.events import AttemptEnded, StepFinished, StepStarted
from orchestrate.state.model import Frame, Here, Index
from orchestrate.state.runs import file_name_for
from orchestrate.state.times import timestamp

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,150}\Z")
TIMED_OUT = 124


class Step:
    """One visit of a node in a frame."""

    def __init__(self, rt: Runtime, frame: Frame) -> None:
        assert frame.here is not None
        place = rt.store.index.here(frame)
        self.rt = rt
        self.frame = frame
        self.here: Here = frame.here
        self.plan: Plan = place.plan
        self.node: Node = place.node
        # A running attempt is one that an earlier orchestrator announced.
        self.is_announced = self.here.phase == "running"
        self.attempt = self.here.attempt + (0 if self.is_announced else 1)
        self.began_at = self.here.since or rt.now()
        self.attempt_began_at = rt.now()
        # When its program ended, which may have been long before anybody looked.
        self.ended_at: float | None = None

    @cached_property
    def scope(self) -> StepScope:
        rt = self.rt
        store = rt.store
        return StepScope(
            store.index, store.state, self.frame, rt.facts, rt.restore_value, self.node
        )

    @cached_property
    def attempt_id(self) -> str:
        """The keeper's name for this attempt: the same after every resume, never used again."""
        return attempt_id(self.frame.key, self.node.name, self.here.visit, self.attempt)

    @cached_property
    def log_name(self) -> str:
        """What the files of this step under `logs/` begin with."""
        return log_name_of(self.rt.store.index, self.frame, self.node.name)

    def log(self, kind: str) -> Path:
        """A file of this step under `logs/`."""
        return Path(f"{self._log_base}.{kind}")

    @cached_property
    def _log_base(self) -> str:
        return f"{self.rt.logs}/{self.log_name}"

    @property
    def about(self) -> dict[str, Any]:
        """What was said about an attempt when it began."""
        found: dict[str, Any] = self.frame.steps.get(self.node.name, {})
        return found

    @property
    def timeout_s(self) -> float | None:
        """The step's own limit, and what the calls around it have left."""
        deadline = call_deadline(self.rt.store.index, self.frame)
        limits = [self._own_timeout_s]
        if deadline is not None:
            limits.append(max(deadline - self.rt.now(), 0.001))
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _own_timeout_s(self) -> float | None:
        return (
            self.node.timeout_s if self.node.timeout_s is not None else self.plan.defaults.timeout_s
        )

    @property
    def retry(self) -> Retry | None:
        if self.node.retry is not None or not isinstance(self.node.op, Ask):
            return self.node.retry
        return self.plan.defaults.retry

    @property
    def is_in_loop(self) -> bool:
        return self.frame.parent is not None

    def keep_answer(self, text: str) -> None:
        """The whole of an agent's answer, for people."""
        write_private(self.log("answer.txt"), encode(text))

    # What has happened.

    def announce(self, about: dict[str, Any] | None = None, *, is_begun: bool = False) -> None:
        """Say that an attempt is about to begin, and keep what an earlier one left.

        `is_begun`: it was begun before we came, and what was said about it then is lost.
        """
        if self.is_announced:
            return
        store = self.rt.store
        if not is_begun:
            if self.rt.options.backup_state:
                store.back_up(self.node.name)
            self._put_old_logs_aside()
        store.record(
            StepStarted(
                self.frame.key, self.node.id, self.here.visit, self.attempt, self.rt.now(),
                self.rt.secrets.data(about or {}),
            ),
            sync=False,
        )  # fmt: skip
        self.is_announced = True
        self.began_at = self.here.since
        store.checkpoint(is_due=not self.is_in_loop or mentions_run_root(self.node))

    def _put_old_logs_aside(self) -> None:
        """The files of an earlier attempt or visit stay, under its number."""
        if self.attempt == 1 and self.here.visit == 1:
            return
        number = 1
        while any(os.path.lexists(self.log(f"{number}.{kind}")) for kind in ("stdout", "stderr")):
            number += 1
        for kind in ("stdout", "stderr"):
            with suppress(OSError):
                os.rename(self.log(kind), self.log(f"{number}.{kind}"))

    @property
    def end_at(self) -> float:
        """When it ended, or now. The keeper has seen that on the wall clock, which may jump."""
        now = max(self.rt.now(), self.began_at)
        return now if self.ended_at is None else min(max(self.ended_at, self.began_at), now)

    def result(self, status: str, exit_code: int | None, **more: Any) -> dict[str, Any]:
        """The record of a step in the state; texts in it are masked."""
        now = self.end_at
        base = {
            "status": status,
            "exit_code": exit_code,
            "started_at": timestamp(self.began_at),
            "completed_at": timestamp(now),
            "duration_ms": round((now - self.began_at) * 1000),
            "attempts": self.attempt,
        }
        masked: dict[str, Any] = self.rt.secrets.data(more)
        return base | masked

    def failed(self, fault: StepFault, **more: Any) -> StepFinished:
        """The step cannot go on; nothing was started, or its output is no good."""
        error = {"message": fault.message, "exit_code": fault.exit_code}
        if fault.context:
            error["context"] = fault.context
        return self.finished(FAILED, self.result("failed", fault.exit_code, error=error, **more))

    def finished(
        self,
        label: Label,
        result: dict[str, Any],
        value: Any = None,
        *,
        has_value: bool = False,
        choice: Literal["", "continue", "stop"] = "",
    ) -> StepFinished:
        return StepFinished(
            self.frame.key, self.node.id, self.here.visit, self.rt.now(), label, result,
            value, has_value, choice,
        )  # fmt: skip

    def ended(
        self,
        why: Literal["failed", "lost", "stopped", "reminded"],
        result: dict[str, Any],
        rest_s: float = 0.0,
    ) -> AttemptEnded:
        return AttemptEnded(
            self.frame.key, self.node.id, self.here.visit, self.attempt, self.rt.now(), why,
            result, rest_s,
        )  # fmt: skip


def write_private(path: Path, data: bytes) -> None:
    """A file for people, in the run's folder; it is never read again, so it need not be durable."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError), open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def log_name_of(index: Index, frame: Frame, name: str) -> str:
    """What the files of a frame's step under `logs/` begin with."""
    parts = [file_name_for(name)]
    while frame.parent is not None:
        if frame.is_iteration:
            loop = index.here(frame.parent).node.name
            parts.append(f"{file_name_for(loop)}.{frame.index}")
        else:
            parts.append(file_name_for(frame.owner))
        frame = frame.parent
    return ".".join(reversed(parts))


def attempt_id(frame_key: str, name: str, visit: int, attempt: int) -> str:
    """Readable where the names allow it, else a digest of them."""
    where = f"{frame_key}/{name}" if frame_key else name
    if not _PLAIN_ID.match(where):
        where = sha256(where.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{where}:{visit}.{attempt}"


def mentions_run_root(node: Node) -> bool:
    """Does the step look into the run's folder, where it expects a state that is current?"""
    known = _MENTIONS.get(id(node))
    if known is None or known[0] is not node:
        known = _MENTIONS[id(node)] = (node, "'run', 'root'" in repr(node.op))
    return known[1]


# Asked before each step of a loop: by identity, because hashing a node hashes all of it.
_MENTIONS: dict[int, tuple[Node, bool]] = {}
