"""A step that is to be performed: where it stands, what it sees, and the events it can give."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.engine.faults import Halted, StepFault
from orchestrate.engine.once import once
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.scope import StepScope
from orchestrate.engine.stop import LONGEST_NAP_S
from orchestrate.engine.texts import encode
from orchestrate.errors import explain
from orchestrate.execute.reasons import ANOTHER_FAILED
from orchestrate.exits import STEP_STOPPED
from orchestrate.plan.nodes import FAILED, Ask, Label, Node, Plan, Run
from orchestrate.plan.retries import OUTAGE_RETRY
from orchestrate.plan.settings import Retry
from orchestrate.state.address import Address
from orchestrate.state.calls import call_deadline
from orchestrate.state.events import AttemptEnded, StepFinished, StepStarted
from orchestrate.state.items_away import is_in_stopping_loop
from orchestrate.state.model import Frame, Visit, attempt_address, attempt_names
from orchestrate.state.names import AttemptNames
from orchestrate.state.result import AttemptEnd, Status, StepError, StepResult
from orchestrate.state.times import timestamp

if TYPE_CHECKING:
    from orchestrate.engine.inject import Needed

NOTHING = StepResult()


class Step:
    """One visit of a node in a frame."""

    def __init__(self, rt: Runtime, frame: Frame) -> None:
        assert frame.here is not None
        place = rt.store.index.here(frame)
        self.rt = rt
        self.frame = frame
        self.here: Visit = frame.here
        self.plan: Plan = place.plan
        self.node: Node = place.node
        # A running attempt is one that an earlier orchestrator announced.
        self.is_announced = self.here.phase == "running"
        self.attempt = self.here.attempt + (0 if self.is_announced else 1)
        self.began_at = self.here.since or rt.now()
        self.attempt_began_at = rt.now()
        # When its program ended, which may have been long before we looked.
        self.ended_at: float | None = None
        # The files that it depends on, once they were found.
        self.needed: Needed | None = None
        # What it is asked, and after an edit why it runs anew (`engine/keys`, `engine/reuse`).
        self.key: dict[str, Any] = {}
        self.why: dict[str, Any] = {}

    @once
    def scope(self) -> StepScope:
        rt = self.rt
        store = rt.store
        return StepScope(
            store.index, store.state, self.frame, rt.facts, rt.restore_value, self.node
        )

    @property
    def own_name(self) -> str:
        """The author's name of the step; a round has that of its step."""
        own = self.node.part_of
        return self.rt.store.index.place(self.frame.plan, own).node.name if own else self.node.name

    @once
    def address(self) -> Address:
        return attempt_address(self.frame, self.here, self.node.name, self.attempt)

    @once
    def _names(self) -> AttemptNames:
        twins = self.rt.store.index.twins
        return attempt_names(self.frame, self.here, self.node.name, self.attempt, twins)

    @property
    def attempt_id(self) -> str:
        return self._names.attempt_id

    @once
    def log_name(self) -> str:
        """What the files of this attempt under `logs/` begin with; no other attempt has them."""
        if self.is_announced and self.about.log:
            return self.about.log
        return self._names.log_name

    def log(self, kind: str) -> Path:
        """A file of this attempt under `logs/`."""
        return Path(f"{self._log_base}.{kind}")

    def output(self, kind: str) -> str:
        """The same file as executors know it."""
        return f"{self.log_name}.{kind}"

    @once
    def _log_base(self) -> str:
        return f"{self.rt.logs}/{self.log_name}"

    @property
    def about(self) -> StepResult:
        """What was said about an attempt when it began."""
        return self.frame.steps.get(self.node.name, NOTHING)

    @property
    def timeout_s(self) -> float | None:
        """The step's own limit, and what the calls around it have left."""
        own = self._own_timeout_s
        deadline = call_deadline(self.rt.store.index, self.frame)
        if deadline is None:
            return own
        left = max(deadline - self.rt.now(), 0.001)
        return left if own is None else min(own, left)

    @property
    def _own_timeout_s(self) -> float | None:
        return (
            self.node.timeout_s if self.node.timeout_s is not None else self.plan.defaults.timeout_s
        )

    @property
    def is_rehearsed(self) -> bool:
        """Is it only gone through, so that nothing is started, changed or waited for?"""
        rehearsal = self.rt.rehearsal
        runs = isinstance(self.node.op, Run) and rehearsal is not None and rehearsal.runs_commands
        return rehearsal is not None and not runs

    @property
    def retry(self) -> Retry | None:
        if self.is_rehearsed:
            return None
        if self.node.retry is not None or not isinstance(self.node.op, Ask):
            return self.node.retry
        default = self.plan.defaults.retry
        return OUTAGE_RETRY if default is None else default

    # Whether it is still to go on, which changes while its thread is at work.

    @property
    def why_useless(self) -> str:
        """Why nobody waits for its result any more: the run stops, or another item of a loop around
        it has failed; '' as long as it matters."""
        if self.rt.stop.is_requested:
            return self.rt.stop.reason
        is_over = self.rt.store.state.ending is not None or is_in_stopping_loop(self.frame)
        return ANOTHER_FAILED if is_over else ""

    def halt_if_useless(self) -> None:
        """To be asked last before it begins: what was made ready for it may have taken a while."""
        if self.why_useless:
            raise Halted

    def rest(self, seconds: float) -> bool:
        """Sleep; True as soon as the step is of no more use."""
        until = time.monotonic() + seconds
        while not self.why_useless:
            left = until - time.monotonic()
            if left <= 0:
                return False
            self.rt.rest(min(left, LONGEST_NAP_S))
        return True

    def over(self) -> Callable[[], Literal["", "stopped", "timeout"]]:
        """Tells from now on why a person need not answer: what ends a program ends a question."""
        timeout_s = self.timeout_s
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s

        def is_over() -> Literal["", "stopped", "timeout"]:
            may_finish = self.rt.rules.lets_finish and not self.rt.stop.is_requested
            if self.why_useless and not may_finish:
                return "stopped"
            return "timeout" if time.monotonic() >= until else ""

        return is_over

    def keep_answer(self, text: str) -> None:
        """The whole of an agent's answer, for people: all of it, or the run stops."""
        self._keep("answer.txt", text)

    def keep_prompt(self, text: str) -> None:
        """What is sent to an agent, secrets masked: all of it, or the run stops before it is."""
        self._keep("prompt.txt", self.rt.secrets.text(text))

    def _keep(self, kind: str, text: str) -> None:
        path = self.log(kind)
        try:
            _write_private(path, encode(text))
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)  # half a text would be shown as the text
            raise explain("write", path, error) from error

    # What has happened.

    def announce(
        self, about: StepResult = NOTHING, *, is_begun: bool = False, is_program: bool = False
    ) -> None:
        """Say that an attempt is about to begin; of an `is_program` once it was asked for.

        `is_begun`: it was begun before we came, and what was said about it then is lost.
        """
        if self.is_announced:
            return
        store = self.rt.store
        at = self.rt.now()
        if is_begun and self.attempt_id in self.rt.exits:
            began_at = self.rt.exits[self.attempt_id].started_at
            at = min(max(began_at, store.state.updated_at), at)
        if not is_begun and self.rt.options.backup_state:
            store.back_up(self.node.name)
        started = StepStarted(
            self.frame.key, self.node.id, self.here.visit, self.attempt, at,
            NOTHING.plus(log=self._own_log) | self._masked(about), key=self.key, why=self.why,
        )  # fmt: skip
        if is_program:
            store.fold(started)
        else:
            store.record(started, sync=False)
        self.is_announced = True
        self.began_at = self.here.since
        if not is_program or mentions_run_root(self.node):
            # Else while the program runs (`run_program`).
            store.checkpoint(is_due=mentions_run_root(self.node))

    @property
    def _own_log(self) -> str | None:
        """What its files are called, where the address alone does not say it."""
        names, log_name = self._names, self.log_name
        if log_name == names.log_name:
            return names.own_log
        return None if log_name == self.address.log_name() else log_name

    def _masked(self, part: StepResult) -> StepResult:
        if not self.rt.secrets.values:
            return part
        return StepResult.from_json(self.rt.secrets.data(part.to_json()))

    @property
    def end_at(self) -> float:
        """When it ended, or now. The executor has seen that on the wall clock, which may jump."""
        now = max(self.rt.now(), self.began_at)
        return now if self.ended_at is None else min(max(self.ended_at, self.began_at), now)

    def result(
        self, status: Status, exit_code: int | None, more: StepResult = NOTHING
    ) -> StepResult:
        """The record of a step in the state; texts in it are masked."""
        now = self.end_at
        course = StepResult(
            status=status,
            exit_code=exit_code,
            started_at=timestamp(self.began_at),
            completed_at=timestamp(now),
            duration_ms=round((now - self.began_at) * 1000),
            attempts=self.attempt,
            address=self._names.text,
        )
        return course.plus(log=self._own_log) | self._masked(more)

    def stopped(self, why: str, more: StepResult = NOTHING) -> AttemptEnded:
        """We have ended the attempt ourselves: it counts for nothing."""
        error = StepError(message=f"stopped: {why}", exit_code=STEP_STOPPED)
        result = self.result("failed", STEP_STOPPED, StepResult(error=error) | more)
        return self.ended("stopped", result)

    def failed(self, fault: StepFault) -> StepFinished:
        """The step cannot go on; nothing was started, or its output cannot be used."""
        code = fault.exit_code
        error = StepError(message=fault.message, exit_code=code)
        if fault.context:
            error |= StepError(context=fault.context)
        return self.finished(FAILED, self.result("failed", code, StepResult(error=error)))

    def finished(
        self,
        label: Label,
        result: StepResult,
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
        why: AttemptEnd,
        result: StepResult,
        rest_s: float = 0.0,
        *,
        losses: int = 0,
        waits: bool = False,
    ) -> AttemptEnded:
        return AttemptEnded(
            self.frame.key, self.node.id, self.here.visit, self.attempt, self.rt.now(), why,
            result, rest_s, losses=losses, waits=waits,
        )  # fmt: skip


def write_private(path: Path, data: bytes) -> None:
    """A file for people, in the run's folder; it is never read again, so it need not be durable."""
    with suppress(OSError):
        _write_private(path, data)


def _write_private(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def mentions_run_root(node: Node) -> bool:
    """Does the step look into the run's folder, where it expects a state that is current?"""
    known = _MENTIONS.get(id(node))
    if known is None or known[0] is not node:
        known = _MENTIONS[id(node)] = (node, "'run', 'root'" in repr(node.op))
    return known[1]


# Asked before each step of a loop: by identity, because hashing a node hashes all of it.
_MENTIONS: dict[int, tuple[Node, bool]] = {}
