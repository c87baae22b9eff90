"""The seam between what is to be run and what runs it: a job, how it ended, an executor.

The engine knows these values and the protocol, never an implementation: `local` runs programs on
this machine through the run's keeper, `fake` pretends to, for tests. `tests/execute` holds both to
one contract. A job names nothing of the machine it is written on: its paths are relative to the
workspace, and its outputs are names that `Executor.read` takes.

    Executor.run(job)       Exit | Lost      the end
                            Running          not yet: the time is up, or `wake` was called
    Executor.find(attempt)  NotStarted | Running | Exit | Lost
    Executor.send_ahead(attempt, job)        starts with the end of that attempt, without a word
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from orchestrate.record import record

# The executor of this machine; where an attempt runs if nothing else is said.
LOCAL = "local"
# An executor that is silent for so long is reported to the user.
SAY_AFTER_S = 5.0


@record
class Job:
    """A program to run once: `attempt` is its name, under which it is never started again.

    `cwd` and `tee` are relative to the workspace; `env` is the whole environment, values included.
    `stdout` and `stderr` name the outputs, which are masked and exist once something was printed.
    `stdin` is bytes (kept off every disk), the name of an output that is there already, or nothing.
    `tee` is a file of the workspace, there already, that gets the stdout as well.
    `timeout_s` limits the whole attempt, `silence_s` the time in which it prints nothing, `lease_s`
    the time until `Executor.renew` must be called, again and again; it counts from the call of
    `run`. After each the program is ended, with `grace_s` to clean up, and its exit says why.
    `slot` is the ticket of one of the user's slots on this machine (`state/slots`), which the
    program holds while it runs: a lock, which only executors of this machine can take over.
    `secrets` are values, not names. A `guarded` program does not outlive its executor even where
    all of that is killed in the same instant; this costs as much as two or three quick programs.
    """

    attempt: str
    argv: tuple[str, ...]
    env: dict[str, str]
    stdout: str
    stderr: str
    cwd: str = "."
    stdin: bytes | str | None = None
    tee: str | None = None
    timeout_s: float | None = None
    silence_s: float | None = None
    lease_s: float | None = None
    grace_s: float = 5.0
    secrets: tuple[str, ...] = ()
    guarded: bool = True
    slot: str | None = None


@record
class Exit:
    """How a program ended. Exactly one of `code` and `signal` is set.

    `start_error` says why it could not be started (`code` is then 126 or 127). `stopped` is the
    reason given to `stop`. `fell_silent`: it was ended because it printed nothing for too long;
    `lease_expired`: because its lease was not renewed in time.
    `stdout_fault`, `stderr_fault` and `tee_fault` name the error (`ENOSPC`) by which an output or
    the `tee` could not be written whole, each for itself; `start_fault` that of a `start_error`.
    `stdout` and `stderr` are what was captured, masked, up to 8 KiB; None if there is more, and
    then `Executor.read` has it all. `survivors` counts processes that could not be killed.
    `watched`: an orchestrator was there to hear of it.
    """

    code: int | None
    pid: int
    started_at: float
    ended_at: float
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    stdout: bytes | None
    stderr: bytes | None
    max_rss_kb: int
    signal: int | None = None
    timed_out: bool = False
    fell_silent: bool = False
    stopped: str = ""
    start_error: str = ""
    start_fault: str = ""
    stdout_fault: str = ""
    stderr_fault: str = ""
    tee_fault: str = ""
    survivors: int = 0
    watched: bool = True
    lease_expired: bool = False


@record
class NotStarted:
    """The attempt never started, and may be started."""


@record
class Running:
    """It was started, and its end is still to come."""


@record
class Lost:
    """It was started, its exit is unknown, and it is proven dead; it is never started again."""

    reason: str


Found = NotStarted | Running | Exit | Lost


def do_nothing() -> None:
    """Nothing else is to be done."""


class Executor(Protocol):
    """Runs jobs, each at most once. Threads may share it; `wake` is also for signal handlers.

    A client in a hurry gets `errors.KeeperSilent` from one that does not answer.
    """

    @property
    def wakes(self) -> int:
        """How often `wake` was called so far, for `wait`."""

    def run(
        self, job: Job, timeout_s: float | None = None, meanwhile: Callable[[], None] = do_nothing
    ) -> Exit | Lost | Running:
        """Start a program, or adopt it if it is known, and wait for its end.

        `meanwhile` is called once, when the program was asked for.
        `Running` if that does not come in time, or `wake` is called: then `wait` goes on.
        """

    def send_ahead(self, before: str, job: Job | None) -> None:
        """Have a job started in the instant in which the attempt `before` ends well, if it does.

        That is: with 0, not ended by us, all of its output in its `Exit`. In any other case, when
        either attempt is stopped, `before` has ended already, its client goes or takes the job
        back (None), or for a reason of the executor's, the job never starts. `before` was begun by
        this client, which takes up what `has_begun` with `run`, and may `run` what has not.
        """

    def has_begun(self, attempt: str) -> bool:
        """Has a job begun that was sent ahead, and was not taken up yet?

        That is certain once the end of the one before it is known.
        """

    def start(self, job: Job) -> bool:
        """Start a program without waiting; False if its attempt was started before."""

    def find(self, attempt: str, *, is_announced: bool = True) -> Found:
        """What is known of an attempt, whichever client started it; a running one is adopted.

        Where records were damaged, an attempt that was `is_announced` may be what is missing.
        """

    def wait(
        self, attempt: str, timeout_s: float | None = None, wakes: int | None = None
    ) -> Exit | Lost | Running:
        """The end of an attempt that was started or adopted; `Running` if it does not come in time.

        `Running` also if `wake` is called. A client that looks at something before it waits says
        with `wakes` how many calls there were when it looked, so that none is missed.
        """

    def stop(self, attempt: str, reason: str, grace_s: float = 5.0) -> None:
        """End a program and all of its children: TERM, and KILL after the grace.

        Its exit comes through `wait`. A second call can only shorten the grace. Of two threads the
        one that stops may be ahead of the one that starts: then the program ends as it begins.
        """

    def renew(self, attempt: str, lease_s: float) -> bool:
        """Let a lease last for so many seconds from now; False if the program does not run.

        One whose lease has expired is being ended, whatever is said then; its exit will say so.
        """

    def wake(self) -> None:
        """Make every `run` and `wait` return: those that block, or else the next one."""

    def read(self, output: str, start: int = 0, size: int = -1) -> bytes:
        """What a program has printed so far, or a part of that; nothing if it printed nothing."""

    def close(self, *, is_over: bool = False) -> None:
        """Let go of it; what runs goes on, and can be found again by another client.

        `is_over`: nothing runs and nothing more will; return when the executor has gone, too.
        """
