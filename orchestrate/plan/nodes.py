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

from collections.abc import Iterator
from typing import Literal

from orchestrate.diagnostics import Span
from orchestrate.exits import AbortKind, FinishKind
from orchestrate.plan.data import INHERIT, Capture, Environment, FileNeeds, FileText
from orchestrate.plan.expr import NOTHING, Cond, Expr, MapExpr, Text
from orchestrate.plan.settings import Defaults, Folders, Input, Limits, Retry, Secret
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
CONFLICT: Label = "@conflict"

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
    """End the plan, successfully unless `end` says otherwise; a caller goes on."""

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
    """The run's own agent (`--backend`, configuration), with settings of the step."""

    settings: MapExpr = NOTHING


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


# Ops: what a node does.


@record
class Ask:
    """Send a prompt to an agent. With `outcomes`, the answer must end in one of them (A §2).

    Steps with the same `session_name` go on in one session; inside an item of a parallel loop, and
    in a called plan, the name is the item's or the plan's own. A `kept` session is a visit's and
    that of its rounds, whose `task` is the step's own prompt: a new session is told that first.
    With `resolves` the files have conflict markers, of which none may be left behind the answer.
    """

    agent: Agent
    prompt: Text | FileText
    session: Literal["shared", "fresh", "kept"]
    outcomes: tuple[str, ...] = ()
    model: str | None = None
    capture: Capture = Capture()
    environment: Environment = INHERIT
    session_name: str | None = None
    task: Text | FileText | None = None
    resolves: bool = False

    @property
    def gives_value(self) -> bool:
        """Is the answer a value, structured where it is JSON (B)? Else it is a program's output."""
        return isinstance(self.agent, NamedAgent) or bool(self.capture.value)


@record
class Run:
    """Start a program. `values` are environment variables that carry values into a shell script;
    those in `integers` stand in its arithmetic, which would evaluate anything else.

    With `exits`, the exit code is the label: of the pairs the first that names it, or `*`. What
    never came to an exit code is `@failed`. `exit_code` is the variable that keeps it (B).
    With `is_list`, `argv` is one reference to an argument list; an empty one runs nothing.
    """

    argv: tuple[Text, ...]
    values: tuple[tuple[str, Text], ...] = ()
    stdin: FileText | None = None
    capture: Capture = Capture()
    environment: Environment = INHERIT
    exits: tuple[tuple[str, Label], ...] = ()
    integers: tuple[str, ...] = ()
    exit_code: str | None = None
    cwd: Text | None = None
    is_list: bool = False


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
    # A step of its own, whose result later steps read; else it belongs to the stage before it.
    is_step: bool = False


@record
class ItemMoves:
    """Where an item's file goes when its iteration has ended (C 1.2)."""

    success: Text | None
    failure: Text | None


@record
class Rounds:
    """What makes a loop without items go on: `before` holds at the start of each round, or `until`
    does not at the end of the last; `updates` are variables that are set in between."""

    before: Cond | None = None
    until: Cond | None = None
    updates: MapExpr = NOTHING


@record
class Each:
    """Run a block once per item. `stop_on_failure`: the first failed iteration ends the loop.
    With `rounds` there are no items, and `limit` bounds the rounds.

    `parallel` is the most items at once; True is as many as the run allows. `spread` is the pool
    whose machines take the items of a run on a fleet. With `has_resolver` an agent is asked where
    their changes are in conflict: the label says so.
    """

    items: Expr
    variable: str
    body: BlockId
    stop_on_failure: bool
    parallel: bool | int = False
    limit: int | None = None
    collect: str | None = None
    moves: ItemMoves | None = None
    rounds: Rounds | None = None
    spread: str = ""
    has_resolver: bool = False


@record
class Call:
    """Run another plan with a context of its own. A `Text` path is compiled when it is reached.

    Its result is `{status, reason, outputs}`, or with `keeps_context` the final context of a
    recipe (B). With `outcomes` the label is the reason that it ended with, if that is one of them,
    or else `completed` or `failed`. `spread` and `has_resolver` are as in `Each`.
    """

    plan: PlanId | Text
    arguments: MapExpr
    max_depth: int | None = None
    max_steps: int | None = None
    outcomes: tuple[str, ...] = ()
    keeps_context: bool = True
    spread: str = ""
    has_resolver: bool = False


Op = Ask | Run | Wait | Gate | Each | Call


# Nodes, blocks, plans.


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
    `part_of` is the step whose round or check this is; it counts as no step of its own.
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
    part_of: NodeId | None = None
    # How often it may be reached in one frame where the plan has no limit on visits.
    most_visits: int | None = None
    # The condition of the stage that begins here; asked once. The other steps of the stage name
    # this one: they are skipped if the stage is.
    stage_guard: Cond | None = None
    stage_head: NodeId | None = None
    # A payment, a push, a message: it never runs twice by itself.
    effect: bool = False
    # What an agent may use in one visit, all attempts and reminders of it together.
    most_cost: float | None = None
    most_tokens: int | None = None

    @property
    def is_step(self) -> bool:
        """Is it a step of the author's? The gate of a stage is none, nor is a round of a step."""
        is_stage_gate = isinstance(self.op, Gate) and not self.op.is_step
        return self.part_of is None and not is_stage_gate

    @property
    def variables(self) -> set[str]:
        """The variables that it sets."""
        code = self.op.exit_code if isinstance(self.op, Run) else None
        return {name for name in (self.output, code) if name is not None}


@record
class Block:
    """Nodes in the order they were written; `owner` is the `Each` node whose body this is."""

    id: BlockId
    entry: NodeId
    nodes: tuple[Node, ...]
    owner: NodeId | None = None


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
    inputs: tuple[Input, ...] = ()
    # What the plan gives when it has finished.
    outputs: MapExpr = NOTHING


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


def block_of(plan: Plan, block_id: BlockId) -> Block:
    return next(block for block in plan.blocks if block.id == block_id)


def nodes_in(plan: Plan) -> Iterator[Node]:
    """The nodes of all blocks, as they were written."""
    for block in plan.blocks:
        yield from block.nodes


def all_nodes(program: Program) -> Iterator[Node]:
    for plan in program.plans:
        yield from nodes_in(plan)


def may_be_skipped(node: Node) -> bool:
    """Is there a condition, of the step, of its stage or of what it depends on?"""
    return is_conditional(node) or bool(node.after)


def is_conditional(node: Node) -> bool:
    return bool(node.guard or node.stage_guard or node.stage_head)


def labels_of(node: Node) -> tuple[Label, ...]:
    """The labels a node can report: its op's, and `@skipped` when something may skip it."""
    skipped = (SKIPPED,) if may_be_skipped(node) else ()
    return (*_labels_of_op(node.op), *skipped)


def _labels_of_op(op: Op) -> tuple[Label, ...]:
    match op:
        case Ask(outcomes=outcomes) if outcomes:
            return (*outcomes, INVALID, FAILED, LOST)
        case Run(exits=exits) if exits:
            return (*dict.fromkeys(label for _, label in exits), FAILED, LOST)
        case Ask() | Run():
            return (OK, FAILED, LOST)
        case Call(outcomes=outcomes) if outcomes:
            return (*outcomes, FAILED, *_conflicts_of(op))
        case Each() | Call():
            return (OK, FAILED, *_conflicts_of(op))
        case Wait():
            return (OK, FAILED)
        case Gate():
            return (APPROVED, DENIED)


def conflict_of(op: Each | Call, label: Label) -> Label:
    """What is reported where an agent resolves conflicts and the run then goes on as by a label."""
    return f"{CONFLICT}:{label}" if isinstance(op, Call) and op.outcomes else CONFLICT


def _conflicts_of(op: Each | Call) -> tuple[Label, ...]:
    outcomes = op.outcomes if isinstance(op, Call) else ()
    return tuple(conflict_of(op, one) for one in outcomes or (OK,)) if op.has_resolver else ()


def target_of(node: Node, label: Label) -> Target:
    return dict(node.routes)[label]
