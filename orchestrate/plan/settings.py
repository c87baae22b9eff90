"""What holds around the steps of a plan: retries, limits, defaults, folders, secrets, inputs."""

from __future__ import annotations

from typing import Literal

from orchestrate.diagnostics import Span
from orchestrate.plan.expr import Expr, Scalar
from orchestrate.record import record


@record
class Retry:
    """Try again after a failure. `when` says which: any, C's exit codes 1 and 124, an outage of the
    agent's service, or transient (that, and time that has run out)."""

    attempts: int
    delay_s: float
    when: Literal["any", "exit-1-or-124", "outage", "transient"]
    backoff: Literal["none", "linear", "exponential"] = "none"
    max_delay_s: float | None = None
    jitter: bool = False


# How many items of a parallel loop run at once where nothing says how many.
PARALLEL_ITEMS = 8


@record
class Limits:
    """Bounds on a plan's execution; None means no bound."""

    max_visits: int | None = None
    max_steps: int | None = None
    max_restarts: int | None = None
    max_depth: int | None = None
    # Of a parallel loop's items at once; a loop that says how many is bounded by it, too.
    max_parallel: int | None = None
    # Rounds of a circle of agents that may come to nothing.
    no_progress: int | None = None
    # Those that park the run; the limits of a called plan hold for the call.
    max_cost: float | None = None
    max_tokens: int | None = None
    max_time: float | None = None
    max_calls: int | None = None
    # The same for all runs of the file in one day of the user's.
    day_cost: float | None = None
    day_tokens: int | None = None
    day_calls: int | None = None


@record
class Defaults:
    """What holds for nodes that say nothing themselves."""

    model: str | None = None
    timeout_s: float | None = None
    retry: Retry | None = None


@record
class Folders:
    """A workflow's task queues."""

    inbox: str = "inbox"
    processed: str = "processed"
    failed: str = "failed"
    task_extension: str = ".task"


@record
class Secret:
    """A variable of our environment that must be set before the run starts; it is masked."""

    name: str
    span: Span


InputType = Literal["string", "integer", "number", "boolean", "list", "object", "path", "command"]


@record
class Input:
    """A value that a run is told. `default` None: it must be given."""

    name: str
    span: Span
    type: InputType = "string"
    description: str = ""
    default: Expr | None = None
    enum: tuple[Scalar, ...] = ()
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False

    @property
    def variable(self) -> str:
        """Where a secret's value comes from."""
        return f"ORCHESTRATE_INPUT_{self.name.upper()}"
