"""The flags that change a plan, as functions from program to program: `with_NAME` is --NAME.

A flag holds for every plan of the program, except context: a sub-recipe sees only what it is
passed (rulings §8). What a step says for itself wins over a flag that sets a default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from orchestrate.plan.ends import step_failed
from orchestrate.plan.expr import MapExpr
from orchestrate.plan.nodes import (
    FAILED,
    Block,
    Call,
    Dialect,
    Each,
    Label,
    Leave,
    Node,
    Plan,
    Program,
    Target,
    main_plan,
)
from orchestrate.plan.retries import OUTAGE_RETRY
from orchestrate.plan.settings import Retry
from orchestrate.record import replace

OnError = Literal["stop", "continue", "interactive"]


def with_model(program: Program, model: str) -> Program:
    return _each_plan(
        program, "machine", lambda plan: replace(plan, defaults=replace(plan.defaults, model=model))
    )


def with_default_model(program: Program, model: str) -> Program:
    """The model of plans that name none."""

    def choose(plan: Plan) -> Plan:
        if plan.defaults.model is not None:
            return plan
        return replace(plan, defaults=replace(plan.defaults, model=model))

    return _each_plan(_each_plan(program, "machine", choose), "recipe", choose)


# The limits of a run. A flag replaces what the main plan says, and what any other plan says of
# itself: a run that a called plan's limit has stopped goes on with it, too.


def _with_limit(name: str, program: Program, value: float) -> Program:
    def limit(plan: Plan) -> Plan:
        if plan.id != program.main and getattr(plan.limits, name) is None:
            return plan
        return replace(plan, limits=replace(plan.limits, **{name: value}))

    return replace(program, plans=tuple(limit(plan) for plan in program.plans))


def _with_default_limit(name: str, program: Program, value: float) -> Program:
    """What the configuration says where the file and the flags say nothing."""
    return replace(
        program,
        plans=tuple(
            replace(plan, limits=replace(plan.limits, **{name: value}))
            if plan.id == program.main
            else plan
            for plan in program.plans
        ),
    )


with_max_visits = partial(_with_limit, "max_visits")
with_max_cost = partial(_with_limit, "max_cost")
with_max_tokens = partial(_with_limit, "max_tokens")
with_max_time = partial(_with_limit, "max_time")
with_max_calls = partial(_with_limit, "max_calls")
with_default_max_steps = partial(_with_default_limit, "max_steps")
with_default_max_visits = partial(_with_default_limit, "max_visits")
with_default_max_cost = partial(_with_default_limit, "max_cost")
with_default_max_tokens = partial(_with_default_limit, "max_tokens")
with_default_max_time = partial(_with_default_limit, "max_time")
with_default_max_calls = partial(_with_default_limit, "max_calls")


def with_max_steps(program: Program, count: int) -> Program:
    """The steps of the run, and those that a step allows what it calls."""

    def widen(node: Node) -> Node:
        if not isinstance(node.op, Call) or node.op.max_steps is None:
            return node
        return replace(node, op=replace(node.op, max_steps=count))

    def walk(plan: Plan) -> Plan:
        blocks = (replace(b, nodes=tuple(widen(node) for node in b.nodes)) for b in plan.blocks)
        return replace(plan, blocks=tuple(blocks))

    limited = _with_limit("max_steps", program, count)
    return replace(limited, plans=tuple(walk(plan) for plan in limited.plans))


def with_max_restarts(program: Program, count: int) -> Program:
    return _each_plan(
        program,
        "machine",
        lambda plan: replace(plan, limits=replace(plan.limits, max_restarts=count)),
    )


def with_max_parallel(program: Program, count: int) -> Program:
    def change(plan: Plan) -> Plan:
        return replace(plan, limits=replace(plan.limits, max_parallel=count))

    return _each_plan(_each_plan(program, "recipe", change), "workflow", change)


def with_step_timeout(program: Program, seconds: float) -> Program:
    """The limit of steps without one of their own, in machines and recipes."""

    def limit(plan: Plan) -> Plan:
        return replace(plan, defaults=replace(plan.defaults, timeout_s=seconds))

    return _each_plan(_each_plan(program, "machine", limit), "recipe", limit)


def with_max_retries(program: Program, retries: int) -> Program:
    """The retries of a workflow's provider steps without their own: `Defaults.retry` is theirs."""
    retry = Retry(attempts=retries + 1, delay_s=0.0, when="exit-1-or-124")
    return _each_plan(
        program,
        "workflow",
        lambda plan: replace(plan, defaults=replace(plan.defaults, retry=retry)),
    )


def with_retry_delay(program: Program, delay_ms: int) -> Program:
    """The first pause after an outage, in steps that say nothing of retries themselves.

    A workflow's default retries are those of --max-retries, and get their pause here.
    """

    def pause(plan: Plan) -> Plan:
        if plan.defaults.retry is not None and plan.dialect != "workflow":
            return plan
        retry = replace(plan.defaults.retry or OUTAGE_RETRY, delay_s=delay_ms / 1000)
        return replace(plan, defaults=replace(plan.defaults, retry=retry))

    return replace(program, plans=tuple(pause(plan) for plan in program.plans))


def with_context(program: Program, values: MapExpr) -> Program:
    """Values laid over the context of the main plan."""
    merged = dict(main_plan(program).context.items) | dict(values.items)
    context = MapExpr(tuple(merged.items()))
    return replace(
        program,
        plans=tuple(
            replace(plan, context=context) if plan.id == program.main else plan
            for plan in program.plans
        ),
    )


def with_on_error(program: Program, choice: OnError) -> Program:
    """What becomes of failures that no handler of the author's takes.

    stop: as under `strict_flow`. continue: the run goes on and ends as failed. interactive: a
    person decides; the routes are those of stop. In each case a step that fails inside a loop
    fails its iteration (rulings §9).
    """
    return _each_plan(
        program,
        "workflow",
        lambda plan: replace(
            plan, blocks=tuple(_block_on_error(block, choice) for block in plan.blocks)
        ),
    )


def _block_on_error(block: Block, choice: OnError) -> Block:
    in_loop = block.owner is not None
    return replace(
        block, nodes=tuple(_node_on_error(node, choice, in_loop) for node in block.nodes)
    )


def _node_on_error(node: Node, choice: OnError, in_loop: bool) -> Node:
    if isinstance(node.op, Each):
        node = replace(node, op=replace(node.op, stop_on_failure=choice != "continue"))
    if node.on_failure == "handled":
        return node
    failed: Target = step_failed(node.part_of or node.name)
    if in_loop:
        failed = Leave(FAILED)
    elif choice == "continue":
        failed = node.follow
    routes: tuple[tuple[Label, Target], ...] = tuple(
        (label, failed if label == FAILED else target) for label, target in node.routes
    )
    treatment: dict[OnError, Literal["stop", "count", "ask"]] = {
        "stop": "stop",
        "continue": "count",
        "interactive": "ask",
    }
    return replace(node, routes=routes, on_failure=treatment[choice])


def _each_plan(program: Program, dialect: Dialect, change: Callable[[Plan], Plan]) -> Program:
    plans = tuple(change(plan) if plan.dialect == dialect else plan for plan in program.plans)
    return replace(program, plans=plans)
