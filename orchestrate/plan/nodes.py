"""The plan: six ops, five targets, and routes that leave nothing to policy.

A `Program` is everything a run needs to know. Each `Plan` (one recipe) has blocks; a block has
nodes; a node performs one op and reports a label; its routes say where each label leads. Routes
are *total*: every label the op can report has a target. So the engine holds no policy:
fall-through, `on:`, `strict_flow`, `on_error`, `exitOnOther` and command-line overrides are all
compiled here.

Invariants (proved by `plan/check.py`):
  * node and block ids are unique within a plan; every block's entry is one of its nodes;
  * a node's routes name each of `labels_of(node)` once, and nothing else;
  * `Goto` leads to a node of the same block or of an enclosing one, never into a loop's body;
  * `Leave` occurs only in the body of an `Each`; each body belongs to exactly one `Each`;
  * plans named by `Call` and `Restart` exist in the program.
"""

from __future__ import annotations

from typing import Literal

from orchestrate.diagnostics import Span
from orchestrate.exits import AbortKind, FinishKind
from orchestrate.plan.expr import NOTHING, Cond, Expr, MapExpr, Text
from orchestrate.record import record

NodeId = str
BlockId = str
PlanId = str
Label = str

OK: Label = "@ok"
FAILED: Label = "@failed"
SKIPPED: Label = "@skipped"
INVALID: Label = "@invalid"
APPROVED: Label = "@approved"
DENIED: Label = "@denied"
LOST: Label = "@lost"

Dialect = Literal["machine", "recipe", "workflow"]


# Targets: where a label leads.


@record
class Goto:
    """Go on at a node; one in an enclosing block leaves the loops in between."""

    node: NodeId


@record
class Leave:
    """End this iteration of the enclosing loop, which sees the label."""

    label: Label


@record
class Finish:
    """End the plan successfully. In a called plan, the caller goes on."""

    reason: str
    end: FinishKind = "completed"


@record
class Abort:
    """End the plan as failed. A caller sees `@failed`, except that `denied` ends the whole run."""

    kind: AbortKind
    reason: str


@record
class Restart:
    """Give up the session and start a plan afresh in a new one (A §3.2)."""

    plan: PlanId


Target = Goto | Leave | Finish | Abort | Restart


# Agents: who answers an Ask.


@record
class RunAgent:
    """Whoever the run was started with (`--backend`, configuration)."""


@record
class NamedAgent:
    """An agent definition file, found by name when the run starts (dialect B)."""

    name: str
    config: MapExpr = NOTHING


@record
class BuiltinProvider:
    """One of the agents we know, with parameters (dialect C, not declared in the file)."""

    name: str
    params: MapExpr = NOTHING


@record
class CommandTemplate:
    """A provider declared in the file: an argument list with placeholders.

    Tokens may refer to ("prompt",) and ("param", key) besides the usual scopes; `values` are as
    in `Run`.
    """

    name: str
    argv: tuple[Text, ...]
    input_mode: Literal["argv", "stdin"]
    params: MapExpr = NOTHING
    values: tuple[tuple[str, Text], ...] = ()


Agent = RunAgent | NamedAgent | BuiltinProvider | CommandTemplate


# What an op reads and keeps.


@record
class FileText:
    """The literal contents of a file, read when the step runs."""

    path: Text


@record
class Inject:
    """How the files a step depends on are shown to the agent (C 1.1.1).

    `sections` is the object form with its `Required:` / `Optional (if available):` headings;
    `inject: true` gives the flat list.
    """

    mode: Literal["list", "content"]
    instruction: str
    position: Literal["prepend", "append"]
    sections: bool


@record
class FileNeeds:
    """Files that must (or may) exist right before a step starts."""

    required: tuple[Text, ...] = ()
    optional: tuple[Text, ...] = ()
    inject: Inject | None = None


@record
class Require:
    """An assertion on a captured JSON value (C 1.3). `equals` holds only with `has_equals`."""

    pointer: str
    exists: bool = True
    has_equals: bool = False
    equals: str | int | float | bool | None = None
    type: str | None = None


@record
class Capture:
    """What becomes of a program's standard output."""

    mode: Literal["text", "lines", "json"] = "text"
    allow_parse_error: bool = False
    schema: Text | None = None
    require: tuple[Require, ...] = ()
    output_file: Text | None = None


@record
class Environment:
    """`secrets` are taken from our own environment; `variables` win over them (C)."""

    variables: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


INHERIT = Environment()


# Ops: what a node does.


@record
class Ask:
    """Send a prompt to an agent. With `outcomes`, the answer must end in one of them (A §2)."""

    agent: Agent
    prompt: Text | FileText
    session: Literal["shared", "fresh"]
    outcomes: tuple[str, ...] = ()
    model: str | None = None
    capture: Capture = Capture()
    environment: Environment = INHERIT

    @property
    def gives_value(self) -> bool:
        """Is the answer a value, structured where it is JSON (B)? Else it is a program's output."""
        return isinstance(self.agent, NamedAgent)


@record
class Run:
    """Start a program. `values` are environment variables that carry values into a shell script."""

    argv: tuple[Text, ...]
    values: tuple[tuple[str, Text], ...] = ()
    stdin: FileText | None = None
    capture: Capture = Capture()
    environment: Environment = INHERIT


@record
class Wait:
    """Wait until enough files match a pattern."""

    pattern: Text
    timeout_s: float
    poll_ms: int
    min_count: int


@record
class Gate:
    """Ask a person. `timeout_s` None waits for ever."""

    stage: str
    prompt: Text
    timeout_s: float | None
    default: Literal["approve", "deny"]


@record
class ItemMoves:
    """Where an item's file goes when its iteration has ended (C 1.2)."""

    success: Text | None
    failure: Text | None


@record
class Each:
    """Run a block once per item. `stop_on_failure`: the first failed iteration ends the loop."""

    items: Expr
    variable: str
    body: BlockId
    stop_on_failure: bool
    parallel: bool = False
    limit: int | None = None
    collect: str | None = None
    moves: ItemMoves | None = None


@record
class Call:
    """Run another plan with a context of its own. A `Text` path is compiled when it is reached."""

    plan: PlanId | Text
    arguments: MapExpr
    max_depth: int | None = None
    max_steps: int | None = None


Op = Ask | Run | Wait | Gate | Each | Call


# Nodes, blocks, plans.


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


# How a failure is treated, so that `--on-error` can be a function from plan to plan:
#   handled  the author's own handler routes it      stop   the run ends as failed
#   tolerate the run goes on and may end completed   count  the run goes on and ends as failed
#   ask      a person decides
OnFailure = Literal["handled", "stop", "tolerate", "count", "ask"]


@record
class Node:
    """One step: an op, where each of its labels leads, and the rules around it.

    `name` is the author's; `id` is unique in the plan (`Loop/Step` inside a loop). `follow` is
    where going on in order leads, whatever the routes say. `after` names steps of which none may
    have been skipped or failed (B `depends_on`). `timeout_s` and `retry` None mean the plan's
    defaults. `output` is the variable that keeps the result.
    """

    id: NodeId
    name: str
    op: Op
    routes: tuple[tuple[Label, Target], ...]
    follow: Target
    span: Span
    guard: Cond | None = None
    after: tuple[NodeId, ...] = ()
    needs: FileNeeds | None = None
    retry: Retry | None = None
    timeout_s: float | None = None
    output: str | None = None
    on_failure: OnFailure = "stop"
    on_lost: Literal["retry", "stop"] = "retry"
    stage: str | None = None
    role: str | None = None


@record
class Block:
    """Nodes in the order they were written; `owner` is the `Each` node whose body this is."""

    id: BlockId
    entry: NodeId
    nodes: tuple[Node, ...]
    owner: NodeId | None = None


@record
class Limits:
    """Bounds on a plan's execution; None is no bound."""

    max_visits: int | None = None
    max_steps: int | None = None
    max_restarts: int | None = None
    max_depth: int | None = None
    max_parallel: int = 8

    @property
    def are_guardrails(self) -> bool:
        """Are they a machine's (A §2.6)? Those also bound visits, and a flag widens them."""
        return self.max_visits is not None


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


@record
class Plan:
    """One compiled recipe. `blocks[0]` is the main block."""

    id: PlanId
    dialect: Dialect
    name: str
    title: str
    description: str
    version: str
    blocks: tuple[Block, ...]
    limits: Limits
    defaults: Defaults = Defaults()
    context: MapExpr = NOTHING
    exit_on_other: bool = True
    folders: Folders | None = None
    secrets: tuple[Secret, ...] = ()


@record
class SourceFile:
    """A file that went into the program, with its checksum."""

    path: str
    sha256: str


@record
class Program:
    """Everything that can run: the plan asked for and all plans it can reach."""

    main: PlanId
    plans: tuple[Plan, ...]
    files: tuple[SourceFile, ...] = ()


def plan_of(program: Program, plan_id: PlanId) -> Plan:
    return next(plan for plan in program.plans if plan.id == plan_id)


def main_plan(program: Program) -> Plan:
    return plan_of(program, program.main)


def labels_of(node: Node) -> tuple[Label, ...]:
    """The labels a node can report: its op's, and `@skipped` when something may skip it."""
    skipped = (SKIPPED,) if node.guard is not None or node.after else ()
    return (*_labels_of_op(node.op), *skipped)


def _labels_of_op(op: Op) -> tuple[Label, ...]:
    match op:
        case Ask(outcomes=outcomes) if outcomes:
            return (*outcomes, INVALID, FAILED, LOST)
        case Ask() | Run():
            return (OK, FAILED, LOST)
        case Wait() | Each() | Call():
            return (OK, FAILED)
        case Gate():
            return (APPROVED, DENIED)


def target_of(node: Node, label: Label) -> Target:
    return dict(node.routes)[label]
