"""An executor that starts no process: for tests of whatever runs programs.

    fake = FakeExecutor({"Build:1.1": Act(stdout=b"done\\n")})
    fake.run(job)                      an Exit with that output, as if a program had printed it
    fake.acts["Test:1.1"] = Act(after_s=None)      one that runs until it is ended
    fake.lose("Test:1.1", "its machine burnt")     `find` and `wait` say that it is lost
    fake.another()                     a client of the same records, as after a restart
    fake.jobs                          every job that was started, in order

It keeps the contract of `base.Executor` (`tests/execute/test_contract.py`): attempts are started
once, limits end them, outputs are masked, `wake` interrupts. Time is the real one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from signal import SIGTERM

from orchestrate.execute.base import Exit, Found, Job, Lost, NotStarted, Running, do_nothing
from orchestrate.execute.keeper.protocol import INLINE_LIMIT
from orchestrate.execute.masking import Mask
from orchestrate.record import mutable_record, record, replace


@record
class Act:
    """What a program does: prints `stdout` and `stderr`, works for a while, prints `last`, ends.

    `after_s` None: it never ends by itself. With `signal` it is killed by that, not by us.
    """

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    last: bytes = b""
    after_s: float | None = 0.0
    signal: int | None = None
    start_error: str = ""


def exit_with(code: int | None = 0, stdout: bytes = b"", stderr: bytes = b"") -> Exit:
    """How a program ends that nothing happened to; `replace` says what else is true of one."""
    now = time.time()
    return Exit(
        code=code, pid=0, started_at=now, ended_at=now, duration_s=0.0, max_rss_kb=0,
        stdout_bytes=len(stdout), stderr_bytes=len(stderr),
        stdout=stdout if len(stdout) <= INLINE_LIMIT else None,
        stderr=stderr if len(stderr) <= INLINE_LIMIT else None,
    )  # fmt: skip


@mutable_record
class _Attempt:
    job: Job
    act: Act
    began: float
    lease_until: float | None = None
    end: Exit | Lost | None = None
    # What is to start when it ends well, and the client that wants that.
    follower: tuple[FakeExecutor, Job] | None = None


class _Records:
    """What all clients of one fake share, as the clients of a keeper share its journal."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.attempts: dict[str, _Attempt] = {}
        # What was sent ahead and has begun, and the client that is to take it up.
        self.begun: dict[str, FakeExecutor] = {}
        self.jobs: list[Job] = []
        self.acts: dict[str, Act] = {}
        self.outputs: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}


class FakeExecutor:
    """One client. What no `acts` entry describes ends at once, and well, without a word.

    `outputs` has what was printed, by name, `files` what went to a `tee`.
    """

    def __init__(
        self, acts: Mapping[str, Act] | None = None, *, records: _Records | None = None
    ) -> None:
        self._records = records or _Records()
        self.acts.update(acts or {})
        self._wakes = self._answered_wakes = 0
        # What was stopped before it was started, and why.
        self._early_stops: dict[str, str] = {}

    @property
    def acts(self) -> dict[str, Act]:
        return self._records.acts

    @property
    def jobs(self) -> list[Job]:
        return self._records.jobs

    @property
    def outputs(self) -> dict[str, bytes]:
        return self._records.outputs

    @property
    def files(self) -> dict[str, bytes]:
        return self._records.files

    def another(self) -> FakeExecutor:
        """A client of the same records."""
        return FakeExecutor(records=self._records)

    def lose(self, attempt: str, reason: str = "the fake lost it") -> None:
        """Let a program that runs be lost."""
        with self._records.changed:
            found = self._records.attempts[attempt]
            found.end = found.end or Lost(reason)
            self._records.changed.notify_all()

    # The contract.

    @property
    def wakes(self) -> int:
        return self._wakes

    def run(
        self, job: Job, timeout_s: float | None = None, meanwhile: Callable[[], None] = do_nothing
    ) -> Exit | Lost | Running:
        self.start(job)
        self._records.begun.pop(job.attempt, None)
        meanwhile()
        return self.wait(job.attempt, timeout_s)

    def send_ahead(self, before: str, job: Job | None) -> None:
        with self._records.changed:
            found = self._records.attempts.get(before)
            if found is not None and self._end_of(found) is None:
                found.follower = None if job is None else (self, job)

    def has_begun(self, attempt: str) -> bool:
        with self._records.changed:
            return self._records.begun.get(attempt) is self

    def start(self, job: Job) -> bool:
        records = self._records
        with records.changed:
            if job.attempt in records.attempts:
                return False
            act = self.acts.get(job.attempt, Act())
            attempt = _Attempt(job, act, time.monotonic())
            if job.lease_s is not None:
                attempt.lease_until = attempt.began + job.lease_s
            records.attempts[job.attempt] = attempt
            records.jobs.append(job)
            if job.tee is not None:
                records.files[job.tee] = b""
            self._print(job, act.stdout, act.stderr)
            if act.start_error:
                attempt.end = replace(exit_with(127), start_error=act.start_error)
            elif job.attempt in self._early_stops:
                self._finish(
                    attempt, replace(_killed(), stopped=self._early_stops.pop(job.attempt))
                )
            return True

    def find(self, attempt: str, *, is_announced: bool = True) -> Found:  # noqa: ARG002
        with self._records.changed:
            found = self._records.attempts.get(attempt)
            if found is None:
                return NotStarted()
            return self._end_of(found) or Running()

    def wait(
        self, attempt: str, timeout_s: float | None = None, wakes: int | None = None
    ) -> Exit | Lost | Running:
        known = self._answered_wakes if wakes is None else wakes
        give_up = None if timeout_s is None else time.monotonic() + timeout_s
        changed = self._records.changed
        with changed:
            found = self._records.attempts[attempt]
            while (end := self._end_of(found)) is None:
                now = time.monotonic()
                if self._wakes > known or (give_up is not None and now >= give_up):
                    self._answered_wakes = self._wakes
                    return Running()
                # `wake` takes no lock, so it cannot notify: look for it now and then.
                until = [at for at in (give_up, self._due(found)[0], now + 0.01) if at is not None]
                changed.wait(max(min(until) - now, 0.0005))
            return end

    def stop(self, attempt: str, reason: str, grace_s: float = 5.0) -> None:  # noqa: ARG002
        with self._records.changed:
            found = self._records.attempts.get(attempt)
            for before in self._records.attempts.values():
                if before.follower is not None and before.follower[1].attempt == attempt:
                    before.follower = None
            if found is None:
                self._early_stops[attempt] = reason
            elif self._end_of(found) is None:
                self._finish(found, replace(_killed(), stopped=reason))

    def renew(self, attempt: str, lease_s: float) -> bool:
        with self._records.changed:
            found = self._records.attempts.get(attempt)
            if found is None or self._end_of(found) is not None:
                return False
            if found.lease_until is not None:
                found.lease_until = max(found.lease_until, time.monotonic() + lease_s)
            return True

    def wake(self) -> None:
        self._wakes += 1

    def read(self, output: str, start: int = 0, size: int = -1) -> bytes:
        with self._records.changed:
            for found in list(self._records.attempts.values()):
                self._end_of(found)
            content = self.outputs.get(output, b"")
        return content[start:] if size < 0 else content[start : start + size]

    def close(self, *, is_over: bool = False) -> None:  # noqa: ARG002
        with self._records.changed:
            for found in list(self._records.attempts.values()):
                self._end_of(found)
                if found.follower is not None and found.follower[0] is self:
                    found.follower = None

    # What time does to a program.

    def _due(self, found: _Attempt) -> tuple[float | None, Exit]:
        """When it ends, if nothing comes between, and how."""
        job, act = found.job, found.act
        ended = exit_with(act.code)
        if act.signal is not None:
            ended = replace(ended, code=None, signal=act.signal)
        lease_s = None if found.lease_until is None else found.lease_until - found.began
        ends: list[tuple[float | None, Exit]] = [
            (lease_s, replace(_killed(), lease_expired=True)),
            (act.after_s, ended),
            (job.timeout_s, replace(_killed(), timed_out=True)),
            (job.silence_s, replace(_killed(), fell_silent=True)),
        ]
        after_s, end = min(
            ((after, end) for after, end in ends if after is not None),
            key=lambda pair: pair[0],
            default=(None, ended),
        )
        return None if after_s is None else found.began + after_s, end

    def _end_of(self, found: _Attempt) -> Exit | Lost | None:
        if found.end is None:
            due, end = self._due(found)
            if due is not None and time.monotonic() >= due:
                if end.code is not None:
                    self._print(found.job, found.act.last, b"")
                self._finish(found, end)
        return found.end

    def _finish(self, found: _Attempt, end: Exit) -> None:
        out, err = (self.outputs.get(name, b"") for name in (found.job.stdout, found.job.stderr))
        whole = exit_with(None, out, err)
        found.end = replace(
            end,
            stdout=whole.stdout,
            stderr=whole.stderr,
            stdout_bytes=len(out),
            stderr_bytes=len(err),
            duration_s=time.monotonic() - found.began,
        )
        follower, found.follower = found.follower, None
        is_whole = whole.stdout is not None and whole.stderr is not None
        if follower is not None and end.code == 0 and not end.start_error and is_whole:
            client, job = follower
            if client.start(job):
                self._records.begun[job.attempt] = client
        self._records.changed.notify_all()

    def _print(self, job: Job, out: bytes, err: bytes) -> None:
        mask = Mask(job.secrets)
        for name, text in ((job.stdout, out), (job.stderr, err)):
            if text:
                self.outputs[name] = self.outputs.get(name, b"") + mask.apply(text)
        if job.tee is not None:
            self.files[job.tee] += mask.apply(out)


def _killed() -> Exit:
    return replace(exit_with(None), signal=int(SIGTERM))
