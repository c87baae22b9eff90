"""Refuses a run that uses a variable which is certain to have no value, before the first step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.diagnostics import Diagnostic
from orchestrate.errors import DefinitionError
from orchestrate.exits import invalid_definition
from orchestrate.plan.expr import references_in
from orchestrate.plan.nodes import (
    Call,
    Each,
    Node,
    Plan,
    Program,
    is_conditional,
    main_plan,
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
class Undefined:
    """A reference to a variable that nothing sets before the step is reached."""

    plan: Plan
    node: Node
    ref: Ref
    # In a recipe that another one calls: nothing from outside gets there.
    is_called: bool = False


def refuse_undefined(compilation: Compilation, program: Program) -> None:
    """All of them as one error, each at its place; a step with a condition may never need it."""
    found = find_undefined(compilation, program)
    if found:
        raise DefinitionError(found, invalid_definition(main_plan(program).dialect))


def find_undefined(compilation: Compilation, program: Program) -> tuple[Diagnostic, ...]:
    return tuple(dict.fromkeys(_finding(one, compilation) for one in undefined_in(program)))


def undefined_in(program: Program) -> Iterator[Undefined]:
    """Those of the main plan, and of the recipes that it is certain to call."""
    plan = main_plan(program)
    yield from _in_plan(program, plan, set(), {(plan.id, frozenset())})


def _in_plan(program: Program, plan: Plan, given: set[str], seen: Seen) -> Iterator[Undefined]:
    if plan.dialect == "workflow":
        known = _told(plan) | given
        for node in (node for block in plan.blocks for node in block.nodes):
            yield from _missing(plan, node, "context", known)
            yield from _called(program, node, seen)
    elif plan.dialect == "recipe":
        yield from _in_recipe(program, plan, given, seen)


def _told(plan: Plan) -> set[str]:
    """What the plan has from the start; an input without a value is refused by itself."""
    return {key for key, _ in plan.context.items} | {one.name for one in plan.inputs}


def _in_recipe(program: Program, plan: Plan, given: set[str], seen: Seen) -> Iterator[Undefined]:
    """The steps in their order, with what has been set by then."""
    known = _told(plan) | given
    bodies = {block.id: block.nodes for block in plan.blocks}
    for node in plan.blocks[0].nodes:
        yield from _missing(plan, node, "var", known)
        inner: tuple[Node, ...] = ()
        if isinstance(node.op, Each):
            inner = bodies[node.op.body]
            within = known | {node.op.variable}
            for step in inner:
                if not is_conditional(node) and not _may_be_empty(node.op):
                    yield from _missing(plan, step, "var", within)
                    yield from _called(program, step, seen)
                within |= step.variables
            known |= {node.op.collect} if node.op.collect else set()
            if node.op.rounds is not None:
                known |= {key for key, _ in node.op.rounds.updates.items}
        yield from _called(program, node, seen)
        known |= {name for step in (node, *inner) for name in step.variables}


def _may_be_empty(each: Each) -> bool:
    """Is a condition asked before the first round?"""
    return each.rounds is not None and each.rounds.before is not None


def _called(program: Program, node: Node, seen: Seen) -> Iterator[Undefined]:
    op = node.op
    if not isinstance(op, Call) or is_conditional(node) or not isinstance(op.plan, str):
        return
    given = frozenset(key for key, _ in op.arguments.items)
    if (op.plan, given) not in seen:
        seen.add((op.plan, given))
        for one in _in_plan(program, plan_of(program, op.plan), set(given), seen):
            yield replace(one, is_called=True)


def _missing(plan: Plan, node: Node, namespace: str, known: set[str]) -> Iterator[Undefined]:
    if is_conditional(node):
        return
    op: Any = node.op
    if isinstance(op, Each) and op.rounds is not None:
        op = op.rounds.before  # what is asked after a round may have been set in it
    for ref in (r for part in (op, node.needs) for r in references_in(part)):
        is_asked = len(ref.path) > 1 and ref.path[0] == namespace and not ref.optional
        if is_asked and ref.path[1] not in known:
            yield Undefined(plan, node, ref)


def _finding(one: Undefined, compilation: Compilation) -> Diagnostic:
    """The warning that was given at that place becomes the error; else the step is named."""
    ref, span = one.ref, one.node.span
    hint = _way_out(one)
    for warning in compilation.diagnostics:
        if warning.code in ("W102", "W103") and ref.text in warning.message:
            near = warning.span
            if near.file == span.file and near.line >= span.line:
                return replace(warning, code=CODE, message=_message(one), hint=hint)
    sources = compilation.sources
    return sources.diagnostic(CODE, _message(one), sources.first_behind(span, ref.text), hint=hint)


def _message(one: Undefined) -> str:
    return f"{one.ref.text} has no value when step '{one.node.name}' needs it"


def _way_out(one: Undefined) -> str:
    name = one.ref.path[1]
    if one.is_called:
        return (
            f"pass it in the context: of the step that calls this recipe ({name}: …), "
            "or give it a value under context: in the file"
        )
    return f"pass --context {name}=VALUE, or give it a value under context: in the file"
