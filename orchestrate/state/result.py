"""What a run records about a step, a gate and its costs, and how each is written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar, Literal, TypeVar

from orchestrate.record import field_names, record
from orchestrate.state.sparse_record import SparseRecord

Json = Any
Status = Literal["pending", "running", "completed", "failed", "skipped"]
# Why an attempt was not the last one of its visit (`events.AttemptEnded`).
AttemptEnd = Literal[
    "failed", "lost", "stopped", "reminded", "void", "no-session", "budget", "quota"
]
_Figure = TypeVar("_Figure", int, float)


@record
class Denial:
    """Calls of one tool that permissions refused: of a step's visit, or with `step` of the run."""

    tool: str
    count: int
    step: str = ""

    def to_json(self) -> dict[str, Json]:
        whose = {"step": self.step} if self.step else {}
        return {**whose, "tool": self.tool, "count": self.count}


Denials = tuple[Denial, ...]


def read_denials(written: Iterable[Mapping[str, Json]]) -> Denials:
    return tuple(Denial(**denial) for denial in written)


class StepError(SparseRecord):
    """Why a step failed."""

    message: str = ""
    exit_code: int | None = None
    stdout_tail: Sequence[str] = ()
    stderr_tail: Sequence[str] = ()
    # Details by kind of failure; agents say that kind under `kind`.
    context: Mapping[str, Json] = {}

    @property
    def kind(self) -> str:
        return str(self.context.get("kind", ""))


class CallDebug(SparseRecord):
    """How a program was called: what helps to understand its step."""

    command: Sequence[str] = ()
    cwd: str = ""
    env_count: int = 0
    values: Mapping[str, str] = {}
    depends_on: Mapping[str, Sequence[str]] = {}
    files: Mapping[str, str] = {}
    injection: Mapping[str, Json] | None = None
    json_parse_error: Mapping[str, str] | None = None


@record
class RetryCount:
    """Which retry follows a failed attempt."""

    number: int
    of: int

    def to_json(self) -> dict[str, Json]:
        return {"number": self.number, "of": self.of}


class StepResult(SparseRecord):
    """How a step stands or went: what is known of its newest attempt.

    A part of one says what a builder has to add, or what was known before the attempt began.
    """

    # Its course. `exit_code` is null while it runs.
    status: Status = "pending"
    exit_code: int | None = None
    started_at: str = ""
    completed_at: str = ""
    duration_ms: int = 0
    attempts: int = 1
    address: str = ""
    log: str | None = None
    last_attempt: AttemptEnd | None = None
    # The run that `run-step` has taken it from.
    from_run: str | None = None
    # The attempt from before an edit whose result was taken over.
    reused: str = ""
    # Which files were other ones afterwards, where the workspace has checkpoints.
    changed: Mapping[str, Json] | None = None
    error: StepError | None = None
    debug: CallDebug | None = None
    retry: RetryCount | None = None
    # Why it was skipped, or what a call ended with.
    reason: str = ""
    condition: str | None = None
    # What a program or an agent gave.
    output_capture: Literal["text", "lines", "json"] | None = None
    output: str = ""
    lines: Sequence[str] = ()
    json: Json = None
    truncated: bool = False
    # What a wait found.
    files: Sequence[str] = ()
    wait_duration_ms: int | None = None
    poll_count: int = 0
    timed_out: bool = False
    # Of a called recipe: its file, what it gave, and the results of its steps as JSON.
    recipe: str = ""
    outputs: Mapping[str, Json] = {}
    steps: Mapping[str, Json] = {}
    # The provider of a workflow, or the agent that was asked, and for what.
    provider: str | None = None
    agent: str | None = None
    backend: str = ""
    agent_version: str | None = None
    permissions: str | None = None
    model: str | None = None
    model_requested: str | None = None
    is_new_session: bool | None = None
    session_id: str | None = None
    # The id that a session was to have; it is used only once the agent has shown it.
    new_session_id: str | None = None
    prompt_length: int = 0
    prompt_sha256: str | None = None
    # What came of the turn: the outcome, or why its answer had none that could be read.
    response_length: int | None = None
    outcome: str | None = None
    outcome_description: str | None = None
    turn: Mapping[str, str] | None = None
    # What a person said about a gate.
    decision_message: str | None = None
    # What it used; what was not reported is unknown.
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    # Is the cost computed from prices of tokens?
    cost_computed: bool = False
    session_totals: Mapping[str, Json] | None = None
    denials: Denials = ()
    billed: bool = True
    metrics: Mapping[str, int] | None = None

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"exit_code", "json", "model"})
    INNER: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "error": StepError.from_json,
        "debug": CallDebug.from_json,
        "retry": lambda written: RetryCount(**written),
        "denials": read_denials,
    }

    @property
    def message(self) -> str:
        """Why it failed; '' if it did not."""
        return "" if self.error is None else self.error.message

    @property
    def context(self) -> Mapping[str, Json]:
        """The details of its failure."""
        return {} if self.error is None else self.error.context

    @property
    def is_turn(self) -> bool:
        """Was an agent asked, or a provider that a workflow declares?"""
        return self.agent is not None or self.provider is not None

    @property
    def tells_tokens(self) -> bool:
        return self.input_tokens is not None and self.output_tokens is not None

    @property
    def tokens(self) -> int:
        """Those that were reported, in and out."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@record
class Approval:
    """One visit of a gate: what was asked, and the decision once there is one."""

    stage: str
    # Expired: the recipe that asked ran out of time, and its caller has gone on.
    status: Literal["pending", "approved", "denied", "expired"]
    prompt: str
    requested_at: str
    expires_at: str | None
    default: str
    frame: str
    node: str
    visit: int
    decided_at: str | None = None
    decided_by: str = ""
    message: str = ""

    @property
    def visited(self) -> tuple[str, str, int]:
        """The visit that it is about: no two gates of a run have the same."""
        return self.frame, self.node, self.visit

    @property
    def question(self) -> dict[str, Json]:
        """What the decision needs to know."""
        asked = ("stage", "prompt", "requested_at", "expires_at", "default")
        return {name: getattr(self, name) for name in asked}

    def to_json(self) -> dict[str, Json]:
        names = field_names(self)[: 9 if self.status == "pending" else None]
        return {name: getattr(self, name) for name in names}


@record
class SkippedStep:
    """A step of a recipe that was skipped, and why."""

    id: str
    reason: str
    condition: str | None = None

    def to_json(self) -> dict[str, Json]:
        shown = {"id": self.id, "reason": self.reason, "condition": self.condition}
        return {name: value for name, value in shown.items() if value is not None}


@record
class Costs:
    """What the agents reported; turns that reported nothing are counted, not taken as free.

    A figure is None until the first turn reports it: unknown is not zero (rulings §7).
    """

    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int = 0
    unreported: int = 0
    tokens_unreported: int = 0
    # Of the turns: whose cost was computed from prices of tokens; and how many of those that did
    # not report it count in budgets for a certain amount, and for how much.
    computed: int = 0
    counted: int = 0
    counted_usd: float = 0.0
    # The same of tokens; one that told a part of them counts for the rest.
    tokens_counted: int = 0
    counted_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Those that were reported, in and out."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def with_turn(
        self, turn: StepResult, counted_usd: float | None = None, counted_tokens: int | None = None
    ) -> Costs:
        return Costs(
            _added(self.cost_usd, turn.cost_usd),
            _added(self.input_tokens, turn.input_tokens),
            _added(self.output_tokens, turn.output_tokens),
            self.turns + 1,
            self.unreported + (turn.cost_usd is None),
            self.tokens_unreported + (not turn.tells_tokens),
            self.computed + turn.cost_computed,
            self.counted + (counted_usd is not None),
            round(self.counted_usd + (counted_usd or 0.0), 10),
            self.tokens_counted + (counted_tokens is not None),
            self.counted_tokens + (counted_tokens or 0),
        )

    def to_json(self) -> dict[str, Json]:
        """What is known, and of the rest only what there is."""
        rare = ("computed", "counted", "counted_usd", "tokens_counted", "counted_tokens")
        shown = {name: getattr(self, name) for name in field_names(self)}
        return {name: value for name, value in shown.items() if value or name not in rare}


def _added(known: _Figure | None, reported: _Figure | None) -> _Figure | None:
    """The sum of what was reported, without the dust of binary fractions; None if nothing was."""
    if known is None or reported is None:
        return reported if known is None else known
    total = round(known + reported, 10)
    # A cost that cannot be is no report.
    return total if isfinite(total) else known
