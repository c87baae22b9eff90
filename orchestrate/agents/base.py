"""The seam between the engine and what answers a prompt: a `Question` in, a `Reply` out.

An agent that is a program says how it is called (`Invocation`) and what its output means; it never
starts anything itself. The engine does, through the keeper, so that a program which outlived the
orchestrator is adopted and its output read as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from orchestrate.record import field, record

Permissions = Literal["bypass", "edit", "default", "read-only"]

# Why an agent did not answer. `is_transient` says which of them another try may cure.
FailureKind = Literal[
    "rate-limit",  # told to come back later; `retry_at` says when, where the program knows
    "overloaded",  # the service has trouble
    "network",  # the service was not reached
    "timeout",  # our own limit ended it
    "silent",  # it said nothing for longer than it may, and we ended it
    "auth",  # no key, a wrong one, no permission
    "invalid-request",  # the service or the program refused what it was sent
    "refused",  # the model or a permission rule refused to do it
    "limit",  # a limit of turns or context
    "budget",  # it has spent what it was allowed to
    "session",  # the session does not exist, is in use, or belongs elsewhere
    "not-installed",  # the program is not there or cannot be started
    "empty",  # it ended well, and said nothing
    "crash",  # anything else
    "stopped",  # we ended it
]
TRANSIENT: frozenset[FailureKind] = frozenset(
    {"rate-limit", "overloaded", "network", "timeout", "silent"}
)
# Those of them that are the service's, and pass by themselves.
OUTAGES: frozenset[FailureKind] = frozenset({"rate-limit", "overloaded", "network"})


@record
class Question:
    """One turn. `session` is the id to use: chosen by us for a new one, or the one to resume."""

    prompt: str
    workspace: Path
    environment: Mapping[str, str]
    session: str | None = None
    is_new_session: bool = True
    # A new session begins as a copy of this one, which stays as it is.
    fork_of: str = ""
    # The session's last turn has no end, so that how much of it was kept is unknown.
    is_after_cut: bool = False
    model: str | None = None
    system_prompt: str | None = None
    permissions: Permissions = "bypass"
    # What a step says about its agent beyond all this: tools, and the parameters of a provider.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # What the program printed when it was asked for its version; '' if it was not.
    version: str = ""
    # Where a program that tells its usage in a file may write that file; nothing is there yet.
    usage_file: Path | None = None
    # What the program itself may spend in this turn, where it can be held to that.
    budget_usd: float | None = None
    # What the answer has to be as a JSON Schema, for programs that can hold their model to one; and
    # a file that has it.
    schema: str = ""
    schema_file: Path | None = None
    # For agents without a bill, which answer from these instead of thinking.
    step: str = ""
    visit: int = 1
    # Which prompt of this visit it is: 1, then 2 for the reminder.
    turn: int = 1
    # The step's address in the run, where the same step can stand in several (loops, restarts).
    place: str = ""
    outcomes: tuple[str, ...] = ()
    # How often the step was visited before the last restart, where each session counts anew.
    earlier_visits: int = 0
    # What a rehearsal answers without a script: an outcome (or `@failed`), and a text, None where
    # any will do.
    rehearsed: Callable[[], tuple[str, str | None]] = lambda: ("", None)
    # The prompt without the words for machines at its end, for a person who picks from `outcomes`.
    shown: str = ""
    # Why a person need not answer any more, as the kind of failure that it is; '' as long as they
    # are waited for.
    over: Callable[[], Literal["", "stopped", "timeout"]] = lambda: ""


@record
class Invocation:
    """A program to start: the whole environment, and the prompt on standard input."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    stdin: bytes = b""
    # Printed for people instead of `argv` where that would show the prompt.
    shown: tuple[str, ...] = ()
    # A file that the program's first start makes: two first starts at once would spoil it.
    made_first: Path | None = None


@record
class Finished:
    """How a program ended, and where its (masked) output is. Exactly one of `code`, `signal`."""

    code: int | None
    signal: int | None
    stdout: Path
    stderr: Path
    timed_out: bool = False
    fell_silent: bool = False
    stopped: str = ""
    # We ended it, because it had used more than it may.
    is_over_budget: bool = False
    start_error: str = ""
    # Called again and again while the output is read; raises if that is to end.
    go_on: Callable[[], None] = lambda: None


@record
class Used:
    """What a message has taken, as a program tells while it works; a later one with the same id
    replaces it. `cached` are tokens that it has read again, at a price of their own. The model is
    '' and the cost None where the program does not tell them."""

    message: str
    model: str
    read: int
    cached: int
    written: int
    cost_usd: float | None = None


@record
class Failure:
    """Why there is no answer. `retry_at` is seconds since 1970; `distrusted` is a time that the
    program told instead, and at which no limit can end."""

    kind: FailureKind
    message: str
    http_status: int | None = None
    retry_at: float | None = None
    distrusted: float | None = None

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT

    @property
    def is_outage(self) -> bool:
        return self.kind in OUTAGES


@record
class Reply:
    """An answer, or a failure; never both. What a program does not report is None, never zero.

    `session` is the one that the turn was in; after a failure only if it is known to be there.
    With `counts_up`, tokens and cost are the session's running totals, not this turn's.
    """

    text: str = ""
    failure: Failure | None = None
    session: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tokens_count_up: bool = False
    cost_counts_up: bool = False
    # The tool of each call that a permission rule refused, as far as the program tells.
    denied: tuple[str, ...] = ()

    @property
    def is_answer(self) -> bool:
        return self.failure is None


# Starts a program, or adopts the one that an earlier orchestrator started for the same turn.
RunProgram = Callable[[Invocation], Finished]


class Agent(Protocol):
    """What answers prompts. Agents hold no state between calls: the engine keeps what matters."""

    @property
    def name(self) -> str:
        """Our name for it, as in `--backend`."""

    @property
    def chooses_session(self) -> bool:
        """Does the agent make up session ids itself, so that a new one is learned from its answer?

        Otherwise the engine chooses a UUID and gives it as `Question.session`.
        """

    @property
    def forks_sessions(self) -> bool:
        """Can a new session begin as a copy of another, also of one from another folder?"""

    @property
    def is_program(self) -> bool:
        """Is it a program, which has sessions and may cost something?"""

    @property
    def asks_person(self) -> bool:
        """Does a person answer, who may take long, and whom others should be able to see wait?"""

    def ask(self, question: Question, run: RunProgram) -> Reply:
        """Answer one question. Stand-ins never call `run`."""

    def session_in(self, output: bytes, asked: str | None = None) -> str | None:
        """The session id, as soon as a part of the program's output shows that there is one.

        `asked` is the id that the program was given, for programs that do not repeat it.
        """

    def used_in(self, output: bytes) -> list[Used]:
        """What a part of a program's output tells of what its messages have taken so far."""

    def has_session(self, session: str, environment: Mapping[str, str]) -> bool:
        """Is the session's own file there? False where we do not know how to look."""

    def takeover(self, session: str) -> tuple[str, ...] | None:
        """The command with which a person goes on in the session by hand, if there is one."""
