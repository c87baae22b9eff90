"""A program reduced to one step of it, so that the step can be a run of its own (`run-step`).

What the step needs of other steps is given to it: each of those stays as a node in front of it,
which is recorded as finished when the run starts and is never performed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from orchestrate.app.given.settings import RunSettings
from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.plan.ends import step_failed
from orchestrate.plan.expr import Compare, Const, MapExpr, Text, references_in
from orchestrate.plan.nodes import (
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Block,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Label,
    Leave,
    Node,
    Plan,
    PlanId,
    Program,
    Restart,
    Run,
    Target,
    block_of,
    labels_of,
    main_plan,
    nodes_in,
    plan_of,
)
from orchestrate.record import record, replace
from orchestrate.state.address import Address, file_name_for

_MOST_NAMES = 12


@record
class Needs:
    """What a step refers to besides itself: results of other steps, variables of the plan."""

    steps: tuple[str, ...]
    variables: tuple[str, ...]


def as_started(program: Program, settings: RunSettings) -> Program:
    """The program of a run from its definition: reduced if the run is one of a single step."""
    single = settings.run_step
    if single is None or "#" in program.main:
        return program
    return reduce_to(program, single["step"], single["given"])


def find_step(program: Program, name: str) -> Node:
    """The step of the main block that is called so; visit, attempt and restart do not matter."""
    plan = main_plan(program)
    nodes = [node for node in plan.blocks[0].nodes if not isinstance(node.op, Gate)]
    steps = {node.name: node for node in nodes if node.is_step}
    if name in steps:
        return steps[name]
    with suppress(ValueError):
        at = Address.parse(name)
        if not at.frame.parts and at.name in steps:
            return steps[at.name]
        if at.frame.parts and at.outermost in steps:
            raise _not_alone(name, steps[at.outermost])
    for block in plan.blocks[1:]:
        if any(name in (node.name, node.id) for node in block.nodes):
            raise _not_alone(name, steps[_outermost(plan, block)])
    if any(name == node.name and node.is_step for node in plan.blocks[0].nodes):
        raise UsageError(f"step '{name}' asks a person: there is nothing to run alone")
    near = closest(name, steps)
    also = f" (did you mean '{near}'?)" if near else ""
    shown = ", ".join(list(steps)[:_MOST_NAMES]) + (", …" if len(steps) > _MOST_NAMES else "")
    raise UsageError(f"'{plan.id}' has no step '{name}'{also}", f"its steps: {shown}")


def _not_alone(name: str, outer: Node) -> UsageError:
    """A step inside a loop or a called recipe has no item or context without it."""
    what, lack = "call", "context"
    if isinstance(outer.op, Each):
        what, lack = "loop", "item" if outer.op.rounds is None else "round"
    return UsageError(
        f"step '{name}' is inside the {what} '{outer.name}': without it there is no {lack}",
        f"run the whole {what}: orchestrate run-step {outer.name} --workflow FILE",
    )


def _outermost(plan: Plan, block: Block) -> str:
    """The name of the loop of the main block that a block lies in."""
    main = {node.id: node.name for node in plan.blocks[0].nodes}
    while block.owner not in main:
        block = next(b for b in plan.blocks if any(n.id == block.owner for n in b.nodes))
    return main[block.owner]


def reduce_to(program: Program, name: str, given: Sequence[str]) -> Program:
    """The program of this one step: whatever it reports, the run ends with it.

    The plan gets an id of its own, so that the whole plan can never be taken for it.
    """
    plan = main_plan(program)
    step = find_step(program, name)
    blocks = _blocks_below(plan, step)
    kept = {node.id for block in blocks for node in block.nodes} | {step.id}
    parts = [node for node in plan.blocks[0].nodes if node.part_of == step.id]
    own = {part.id for part in parts}
    nodes = [_alone(step, own), *(_alone(part, own) for part in parts)]
    for other in reversed([find_step(program, other) for other in given]):
        nodes.insert(0, _given(other, nodes[0].id))
    bodies = tuple(
        replace(block, nodes=tuple(_within(node, kept) for node in block.nodes)) for block in blocks
    )
    reduced = replace(
        plan,
        id=f"{plan.id}#{file_name_for(name)}",
        blocks=(Block(plan.blocks[0].id, nodes[0].id, tuple(nodes)), *bodies),
        outputs=_outputs_of(plan, nodes),
    )
    others = _reachable(program, reduced)
    return replace(program, main=reduced.id, plans=(reduced, *others))


def _outputs_of(plan: Plan, nodes: list[Node]) -> MapExpr:
    """What the steps that are left can give: other steps will not run."""
    steps = {node.name for node in nodes_in(plan)}
    gone = steps - {node.name for node in nodes}
    set_elsewhere = {name for node in nodes_in(plan) for name in node.variables} - {
        name for node in nodes for name in node.variables
    }
    lost = {("steps", name) for name in gone} | {("var", name) for name in set_elsewhere}
    kept = (
        (name, value)
        for name, value in plan.outputs.items
        if not any(ref.path[:2] in lost for ref in references_in(value))
    )
    return MapExpr(tuple(kept))


def _blocks_below(plan: Plan, node: Node) -> list[Block]:
    """The bodies of the loop that a node is, outer ones first."""
    if not isinstance(node.op, Each):
        return []
    body_id = node.op.body
    body = block_of(plan, body_id)
    return [body, *(inner for each in body.nodes for inner in _blocks_below(plan, each))]


def _alone(step: Node, parts: set[str]) -> Node:
    """The step without its neighbours: good ends finish, a failure fails the run. Its checks and
    rounds stay what they are."""
    end = Finish("completed")
    step = replace(step, follow=end, after=(), on_failure="stop")
    routes: list[tuple[Label, Target]] = []
    before = dict(step.routes)
    for label in labels_of(step):
        target: Target = before[label]
        if isinstance(target, Goto) and target.node in parts:
            pass
        elif label in (OK, SKIPPED):
            target = end
        elif label == FAILED and not isinstance(target, Abort):
            target = step_failed(step.part_of or step.name)
        elif label != LOST and not isinstance(target, Abort | Finish):
            # An outcome of a machine that leads on: its name says how it ended.
            target = Finish(label, "exit")
        routes.append((label, target))
    return replace(step, routes=tuple(routes))


def _given(other: Node, following: str) -> Node:
    """A step whose result is known. Its condition never holds: it cannot be performed again."""
    node = replace(
        other,
        op=Run((Text(("false",)),)),
        guard=Compare(Const("given"), "==", Const("performed")),
        after=(),
        needs=None,
        follow=Goto(following),
        on_failure="handled",
        output=None,
    )
    return replace(node, routes=tuple((label, Goto(following)) for label in labels_of(node)))


def _within(node: Node, kept: set[str]) -> Node:
    """A step of the loop; a way out of the loop to a step that is not here ends the run."""

    def lead(target: Target) -> Target:
        match target:
            case Goto(name) if name not in kept:
                return Finish(f"went on to '{name}'", "exit")
            case Goto() | Leave() | Finish() | Abort() | Restart():
                return target

    routes = tuple((label, lead(target)) for label, target in node.routes)
    return replace(node, routes=routes, follow=lead(node.follow))


def _reachable(program: Program, start: Plan) -> list[Plan]:
    """The plans that a plan can call, itself excluded."""
    found: dict[PlanId, Plan] = {}
    waiting = [start]
    while waiting:
        for node in nodes_in(waiting.pop()):
            named = [target.plan for _, target in node.routes if isinstance(target, Restart)]
            if isinstance(node.op, Call) and isinstance(node.op.plan, str):
                named.append(node.op.plan)
            for plan_id in named:
                if plan_id not in found:
                    found[plan_id] = plan_of(program, plan_id)
                    waiting.append(found[plan_id])
    return list(found.values())


def needs_of(program: Program, name: str) -> Needs:
    """What a step cannot do without and does not have: not what is optional, or in the context."""
    plan = main_plan(program)
    step = find_step(program, name)
    blocks = _blocks_below(plan, step)
    inner = [node for block in blocks for node in block.nodes]
    inner_steps = {node.name for node in inner}
    variables = {key for key, _ in plan.context.items} | {
        name for node in inner for name in node.variables
    }
    variables |= {node.op.variable for node in (step, *inner) if isinstance(node.op, Each)}
    steps: dict[str, None] = {}
    unset: dict[str, None] = {}
    for node in (step, *inner):
        for ref in (r for part in (node.op, node.guard, node.needs) for r in references_in(part)):
            match ref.path:
                case ("steps", other, *_) if node is step or other not in inner_steps:
                    steps[other] = None
                case ("var", variable, *_) if variable not in variables and not ref.optional:
                    unset[variable] = None
                case _:
                    pass
    if name in steps:
        raise UsageError(
            f"step '{name}' refers to its own earlier result", "run the workflow as a whole"
        )
    return Needs(tuple(steps), tuple(unset))


def context_uses(program: Program, name: str) -> tuple[str, ...]:
    """The variables of a workflow's context that a step refers to and that are not set."""
    plan = main_plan(program)
    step = find_step(program, name)
    inner = [node for block in _blocks_below(plan, step) for node in block.nodes]
    known = {key for key, _ in plan.context.items}
    refs = (r for n in (step, *inner) for p in (n.op, n.guard, n.needs) for r in references_in(p))
    used = [ref.path[1] for ref in refs if ref.path[0] == "context" and len(ref.path) > 1]
    return tuple(dict.fromkeys(key for key in used if key not in known))
