"""Every exit code and every way a run ends, in one table; nothing else knows a code by its number.

An end travels as its kind, from the plan's routes and the engine through the events and the state
to what shows it. Its reason is for people: it is rendered here or by the dialect, and never read
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from orchestrate.record import field, record

# What a command exits with, `MEANINGS` says when; above 128 as a shell reports signals.
DONE = 0
FAILED = 1
UNUSABLE = 2
LIMIT = 3
AGENT_FAILED = 4
ENVIRONMENT = 5
PARKED = 6
ABANDONED = 7
BUG = 70
TIME_IS_UP = 124
HUNG_UP = 129
INTERRUPTED = 130
OUTPUT_CLOSED = 141
TERMINATED = 143

MEANINGS: dict[tuple[int, ...], str] = {
    (DONE,): "done; the run finished",
    (FAILED,): "a step of a recipe or workflow failed, an approval was denied, or the run was "
    "cancelled; a machine is invalid",
    (UNUSABLE,): "a recipe, a workflow or a file of no dialect is invalid; bad usage, such as an "
    "unknown flag or run; a machine's outcome was unreadable after the reminder",
    (LIMIT,): "a guardrail or limit was reached",
    (AGENT_FAILED,): "a machine's agent failed",
    (ENVIRONMENT,): "configuration: an unknown agent, a program that is not installed, a lock that "
    "another process holds, a state or a program's output that cannot be read or written",
    (PARKED,): "the run waits for a person: for an approval, because a step was lost, or because a "
    "limit of cost, tokens, time or calls, or an agent's usage limit, was reached",
    (ABANDONED,): "`wait`, `attach`, `answer`: no process works on the run, but it has not ended; "
    "`resume` goes on",
    (BUG,): "a bug in orchestrate",
    (TIME_IS_UP,): "`wait --timeout`: the time is up",
    (HUNG_UP, INTERRUPTED, TERMINATED): "ended by SIGHUP, SIGINT, SIGTERM",
    (OUTPUT_CLOSED,): "the reader of stdout went away, as `head` does",
}

# What a step's result has as its `exit_code` where no program gave one (C). A program that a
# signal ended has `of_signal`.
STEP_FAILED = 1
STEP_UNUSABLE = 2
STEP_OVER_LIMIT = 3
STEP_TIMED_OUT = 124
NOT_EXECUTABLE = 126
NOT_FOUND = 127
STEP_STOPPED = 130


def of_signal(number: int) -> int:
    """As a shell reports a program that a signal ended."""
    return 128 + number


def invalid_definition(dialect: str | None) -> int:
    """What a command exits with that was given a definition with errors."""
    return FAILED if dialect == "machine" else UNUSABLE


EndStatus = Literal["completed", "failed", "cancelled", "paused"]
# How a plan comes to its end by itself, and what makes it give up.
FinishKind = Literal["completed", "exit", "partial", "exit-failed"]
AbortKind = Literal["failed", "denied", "orchestration-error", "agent", "lost", "check-failed"]
# The bounds of a plan. A flag widens a guardrail for its `resume`; a "limit" stands in the recipe
# alone.
LimitKind = Literal[
    "guardrail-visits", "guardrail-steps", "guardrail-restarts", "limit", "no-progress"
]
# What a run may use up; it parks before an agent is asked once more.
BudgetKind = Literal["max-cost", "max-tokens", "max-time", "max-calls"]
# The same in other scopes: a visit of a step, a day of a recipe or of the user; a cost that is not
# known where the user wants to know all; and an account's usage limit that is not waited for.
OtherBudgetKind = Literal["step-limit", "day-limit", "unknown-cost", "quota"]
StopKind = Literal["interrupted", "hung-up", "terminated"]
# What keeps a run from going on from outside of it.
FaultKind = Literal["session-locked", "environment", "state", "upgrade", "bug"]
EndKind = (
    FinishKind
    | AbortKind
    | LimitKind
    | BudgetKind
    | OtherBudgetKind
    | StopKind
    | FaultKind
    | Literal["failures", "gate", "approved", "left", "rewound", "cancelled"]
)


@record
class End:
    """What an end makes of the run, and of the command that carried it out."""

    status: EndStatus
    code: int


ENDS: dict[EndKind, End] = {
    # The plan came to its end, at an exit of a machine's author, or early (`skip_remaining`).
    "completed": End("completed", DONE),
    "exit": End("completed", DONE),
    "partial": End("completed", DONE),
    # The author's exit says that the run has failed (`status: failed`).
    "exit-failed": End("failed", FAILED),
    # It came to its end although steps had failed (`--on-error continue`).
    "failures": End("failed", FAILED),
    "failed": End("failed", FAILED),
    "denied": End("failed", FAILED),
    "orchestration-error": End("failed", UNUSABLE),
    "agent": End("failed", AGENT_FAILED),
    "guardrail-visits": End("failed", LIMIT),
    "guardrail-steps": End("failed", LIMIT),
    "guardrail-restarts": End("failed", LIMIT),
    "limit": End("failed", LIMIT),
    # Round after round a circle of agents has come to nothing.
    "no-progress": End("failed", LIMIT),
    # What an agent did has not held, as often as it was told so.
    "check-failed": End("failed", LIMIT),
    # A person has to decide: about a gate, or whether a step that was lost is started anew.
    "gate": End("paused", PARKED),
    "lost": End("paused", PARKED),
    # A gate was approved from outside, and no process carries the run out.
    "approved": End("paused", PARKED),
    # A budget is used up: who resumes the run says how much more it may take.
    "max-cost": End("paused", PARKED),
    "max-tokens": End("paused", PARKED),
    "max-time": End("paused", PARKED),
    "max-calls": End("paused", PARKED),
    "step-limit": End("paused", PARKED),
    "day-limit": End("paused", PARKED),
    "unknown-cost": End("paused", PARKED),
    "quota": End("paused", PARKED),
    "interrupted": End("paused", INTERRUPTED),
    "hung-up": End("paused", HUNG_UP),
    "terminated": End("paused", TERMINATED),
    # The person who was the agent closed the input.
    "left": End("paused", INTERRUPTED),
    # `rewind` put it back to before a step; the reason says which.
    "rewound": End("paused", INTERRUPTED),
    "session-locked": End("paused", ENVIRONMENT),
    "environment": End("paused", ENVIRONMENT),
    "state": End("paused", ENVIRONMENT),
    "upgrade": End("paused", ENVIRONMENT),
    "bug": End("paused", BUG),
    "cancelled": End("cancelled", FAILED),
}
BUDGETS: tuple[EndKind, ...] = (
    "max-cost", "max-tokens", "max-time", "max-calls", "step-limit", "day-limit", "unknown-cost",
    "quota",
)  # fmt: skip
# A person asked for these.
STOPPED: tuple[EndKind, ...] = ("interrupted", "hung-up", "terminated", "left", "rewound")
_BY_SIGNAL = ("interrupted", "terminated")


@record
class Ending:
    """How a run has stopped, for good or until it is resumed."""

    status: EndStatus
    reason: str
    code: int
    kind: EndKind
    # Of a budget that is used up: what was spent and reserved, and what would be needed; of a limit
    # on steps what is `needed`, if known. Without progress: the `last` turn.
    budget: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tells(self) -> bool:
        """Does the reason say more than the status?"""
        return self.kind != "completed" and self.reason not in ("", self.status)


def end(kind: EndKind, reason: str, budget: Mapping[str, Any] | None = None) -> Ending:
    """The ending of a kind, with a reason that was rendered elsewhere."""
    found = ENDS[kind]
    return Ending(found.status, reason, found.code, kind, budget or {})


# The ends whose reasons are ours.


def some_failed() -> Ending:
    return end("failures", "some steps failed")


def stopped_by(number: int) -> Ending:
    """The end that a signal asked for."""
    kinds: dict[int, StopKind] = {TERMINATED: "terminated", HUNG_UP: "hung-up"}
    kind = kinds.get(of_signal(number), "interrupted")
    by_interrupt, by_termination = _BY_SIGNAL
    return end(kind, by_termination if kind == "terminated" else by_interrupt)


def cancelled_by(user: str) -> Ending:
    return end("cancelled", f"cancelled by {user}")


def visits_exceeded(step: str) -> Ending:
    return end("guardrail-visits", f"max-step-visits-exceeded:{step}")


def steps_exceeded(reason: str = "max-total-steps", needed: int = 0) -> Ending:
    """`needed`: the fewest steps with which the run gets any further, where they are known."""
    return end("guardrail-steps", reason, {"needed": needed} if needed else None)


def restarts_exceeded(most: int) -> Ending:
    return end("guardrail-restarts", f"max-restarts-exceeded:{most}")


def waits_for_person(
    lost: Iterable[str], gates: Iterable[str], quota: Iterable[str] = ()
) -> Ending:
    """Parked: what is said about steps that were lost and about usage limits, and the gates that
    ask, by their names."""
    words, limits = list(lost), list(quota)
    kind: EndKind = "lost" if words else "quota" if limits else "gate"
    shown = ", ".join(f"'{gate}'" for gate in gates)
    asked = [f"waits for an approval of {shown}"] if shown else []
    return end(kind, "; ".join([*words, *limits, *asked]))


def waits_to_be_resumed(gate: str, decision: str, *, by_timeout: bool) -> Ending:
    """Parked: `gate` is what the gate is called, such as `stage 'planning'`."""
    by = " by timeout" if by_timeout else ""
    return end("approved", f"{gate} is {decision}{by}; waits to be resumed")


# Before 0.2 an end was recorded without its kind: only here is the kind read from its words.

_FINISHES: dict[str, FinishKind] = {
    "completed": "completed",
    "_end": "completed",
    "partial": "partial",
}
_GUARDRAILS: dict[str, LimitKind] = {
    "max-step-visits-exceeded": "guardrail-visits",
    "max-total-steps": "guardrail-steps",
    "max-restarts-exceeded": "guardrail-restarts",
}
_BY_CODE: dict[tuple[EndStatus, int], EndKind] = {
    ("failed", FAILED): "failed",
    ("failed", UNUSABLE): "orchestration-error",
    ("failed", AGENT_FAILED): "agent",
    ("paused", PARKED): "lost",
    ("paused", HUNG_UP): "hung-up",
    ("paused", INTERRUPTED): "interrupted",
    ("paused", TERMINATED): "terminated",
    ("paused", BUG): "bug",
}


def usual_finish(reason: str) -> FinishKind:
    """What a plan's finish means where only its reason is given."""
    return _FINISHES.get(reason, "exit")


def older_end(status: EndStatus, reason: str, code: int) -> EndKind:
    """The kind of an end that was recorded before 0.2."""
    match status:
        case "completed":
            return usual_finish(reason)
        case "cancelled":
            return "cancelled"
        case "failed" if code == LIMIT:
            return _GUARDRAILS.get(reason.partition(":")[0], "limit")
        case "failed" if reason == some_failed().reason:
            return "failures"
        case "paused" if code == PARKED and reason.startswith("waits for"):
            return "gate"
        case "paused" if code == PARKED and reason.endswith("waits to be resumed"):
            return "approved"
        case "paused" if code == ENVIRONMENT and reason.startswith("session "):
            return "session-locked"
        case "failed" | "paused":
            return _BY_CODE.get((status, code), "environment")
