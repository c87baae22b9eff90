"""Refuses a run that uses a variable which is certain to have no value, before the first step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.diagnostics import Diagnostic
from orchestrate.errors import DefinitionError
from orchestrate.exits import invalid_definition
from orchestrate.plan.expr import references_in
from orchestrate.plan.nodes import (
    Block,
    Call,
    Each,
    Node,
    Plan,
    Program,
    Restart,
    block_of,
    is_conditional,
    main_plan,
    nodes_in,
    plan_of,
)
from orchestrate.record import record, replace

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.plan.expr import Ref

CODE = "E125"


# Plans with what their callers give them: each is looked at once, however many ways lead to it.
Seen = set[tuple[str, frozenset[str]]]


@record
class UndefinedUse:
    """A reference to a variable that nothing sets before its step, or the end, is reached."""

    plan: Plan
    # Without a node: in the plan's outputs.
    node: Node | None
    ref: Ref
    # The field of the step that calls the plan and alone hands values over to it; '' for the main
    # plan, which is told values from outside.
    handed_in: str = ""
    # In the condition of the stage that begins with the node.
    is_of_stage: bool = False


def refuse_undefined(compilation: Compilation, program: Program) -> None:
    """All of them as one error, each at its place.

    A step with a condition may never need what it uses; the condition itself is always looked at.
    """
    found = find_undefined(compilation, program)
    if found:
        raise DefinitionError(found, invalid_definition(main_plan(program).dialect))


def find_undefined(compilation: Compilation, program: Program) -> tuple[Diagnostic, ...]:
    return tuple(dict.fromkeys(_finding(one, compilation) for one in undefined_in(program)))


def undefined_in(program: Program) -> Iterator[UndefinedUse]:
    """Those of the main plan, and of the recipes that it is certain to call."""
    plan = main_plan(program)
    yield from _in_plan(program, plan, set(), {(plan.id, frozenset())})


def _in_plan(program: Program, plan: Plan, given: set[str], seen: Seen) -> Iterator[UndefinedUse]:
    if plan.dialect == "workflow":
        known = _told(plan) | given
        for node in nodes_in(plan):
            yield from _missing(plan, node, "context", known)
            yield from _missing_after_rounds(plan, node, "context", known)
            yield from _called(program, plan, node, seen)
        yield from _unset(plan, None, plan.outputs, "context", known)
    elif plan.dialect == "recipe":
        yield from _in_recipe(program, plan, given, seen)
    else:
        # Its own inputs are the compiler's matter; what it calls may lack a value.
        for node in (node for block in plan.blocks for node in block.nodes):
            yield from _called(program, plan, node, seen)
            for _, target in node.routes:
                if isinstance(target, Restart) and (target.plan, frozenset()) not in seen:
                    seen.add((target.plan, frozenset()))
                    yield from _in_plan(program, plan_of(program, target.plan), set(), seen)


def _told(plan: Plan) -> set[str]:
    """What the plan has from the start; an input without a value is refused by itself."""
    return {key for key, _ in plan.context.items} | {one.name for one in plan.inputs}


def _in_recipe(program: Program, plan: Plan, given: set[str], seen: Seen) -> Iterator[UndefinedUse]:
    known = _told(plan) | given
    yield from _in_steps(program, plan, plan.blocks[0], known, seen)
    yield from _unset(plan, None, plan.outputs, "var", known)


def _in_steps(
    program: Program, plan: Plan, block: Block, known: set[str], seen: Seen, *, certain: bool = True
) -> Iterator[UndefinedUse]:
    """The steps in their order, with what has been set by then: it is added to `known`."""
    for node in block.nodes:
        if certain:
            yield from _missing(plan, node, "var", known)
        if isinstance(node.op, Each):
            within = known | {node.op.variable}
            is_entered = certain and not is_conditional(node)
            body = block_of(plan, node.op.body)
            yield from _in_steps(program, plan, body, within, seen, certain=is_entered)
            if certain:
                yield from _missing_after_rounds(plan, node, "var", within)
            known |= within - {node.op.variable}
            known |= {node.op.collect} if node.op.collect else set()
            if node.op.rounds is not None:
                known |= {key for key, _ in node.op.rounds.updates.items}
        if certain:
            yield from _called(program, plan, node, seen)
        known |= node.variables


def _called(program: Program, caller: Plan, node: Node, seen: Seen) -> Iterator[UndefinedUse]:
    op = node.op
    if not isinstance(op, Call) or is_conditional(node) or not isinstance(op.plan, str):
        return
    given = frozenset(key for key, _ in op.arguments.items)
    if (op.plan, given) not in seen:
        seen.add((op.plan, given))
        field = "context" if caller.dialect == "recipe" else "with"
        for one in _in_plan(program, plan_of(program, op.plan), set(given), seen):
            yield replace(one, handed_in=one.handed_in or field)


def _missing(plan: Plan, node: Node, namespace: str, known: set[str]) -> Iterator[UndefinedUse]:
    for one in _unset(plan, node, node.stage_guard, namespace, known):
        yield replace(one, is_of_stage=True)
    if node.stage_guard or node.stage_head:
        return
    yield from _unset(plan, node, node.guard, namespace, known)
    if node.guard:
        return
    op: Any = node.op
    if isinstance(op, Each) and op.rounds is not None:
        op = op.rounds.before
    for part in (op, node.needs):
        yield from _unset(plan, node, part, namespace, known)


def _missing_after_rounds(
    plan: Plan, node: Node, namespace: str, known: set[str]
) -> Iterator[UndefinedUse]:
    """What is asked after a round, with what may have been set in it."""
    rounds = node.op.rounds if isinstance(node.op, Each) else None
    if rounds is None or is_conditional(node):
        return
    yield from _unset(plan, node, rounds.updates, namespace, known)
    known = known | {key for key, _ in rounds.updates.items}
    yield from _unset(plan, node, rounds.until, namespace, known)


def _unset(
    plan: Plan, node: Node | None, part: object, namespace: str, known: set[str]
) -> Iterator[UndefinedUse]:
    """The references in a part of a node, or in the plan's outputs, that have no value."""
    for ref in references_in(part):
        is_asked = len(ref.path) > 1 and ref.path[0] == namespace and not ref.optional
        if is_asked and ref.path[1] not in known:
            yield UndefinedUse(plan, None if node is None else _step_of(plan, node), ref)


def _step_of(plan: Plan, node: Node) -> Node:
    """The step that a check or a round is of: people know no other."""
    nodes = nodes_in(plan)
    return next((one for one in nodes if one.id == node.part_of), node)


def _finding(one: UndefinedUse, compilation: Compilation) -> Diagnostic:
    """The warning that was given at that place becomes the error; else the step is named."""
    ref, hint = one.ref, _way_out(one)
    span = one.plan.blocks[0].nodes[0].span if one.node is None else one.node.span
    warnings = [
        warning
        for warning in compilation.diagnostics
        if warning.code in ("W102", "W103")
        and ref.text in warning.message
        and warning.span.file == span.file
    ]
    if one.is_of_stage:
        # A stage's condition stands before its steps.
        warnings = [w for w in reversed(warnings) if w.span.line <= span.line]
    elif one.node is not None:
        warnings = [w for w in warnings if w.span.line >= span.line]
    for warning in warnings:
        return replace(warning, code=CODE, message=_message(one), hint=hint)
    sources = compilation.sources
    return sources.diagnostic(CODE, _message(one), sources.first_behind(span, ref.text), hint=hint)


def _message(one: UndefinedUse) -> str:
    if one.node is None:
        return f"{one.ref.text} has no value for the outputs"
    if one.is_of_stage:
        return f"{one.ref.text} has no value when stage '{one.node.stage}' begins"
    return f"{one.ref.text} has no value when step '{one.node.name}' needs it"


def _way_out(one: UndefinedUse) -> str:
    name = one.ref.path[1]
    if one.handed_in:
        return (
            f"pass it under {one.handed_in}: of the step that calls this file ({name}: …), "
            "or give it a value under context: in the file"
        )
    return f"pass --context {name}=VALUE, or give it a value under context: in the file"
