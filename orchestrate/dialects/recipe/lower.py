"""Dialect B: a flat or staged recipe becomes a plan of steps in order, with gates after stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.dialects.inputs import lower_inputs, secrets_among, with_defaults
from orchestrate.dialects.limits import lower_limits
from orchestrate.dialects.lowering import Lowering, constant_map, lower_secrets
from orchestrate.dialects.recipe.literals import check_context
from orchestrate.dialects.recipe.names import (
    ExpressionPlace,
    Names,
    collect_names,
    inner_steps,
    lower_condition,
    lower_text,
    lower_value,
    may_search,
    variables_surely_set_by,
    with_inner_steps,
)
from orchestrate.dialects.recipe.steps import lower_step
from orchestrate.dialects.recipe.written import Recipe, WrittenStep
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.expr import NOTHING, Cond, MapExpr, Text
from orchestrate.plan.flow import AT_END
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    SKIPPED,
    Abort,
    Ask,
    Block,
    Call,
    Finish,
    Gate,
    Goto,
    Node,
    NodeId,
    Plan,
    Run,
    Target,
    may_be_skipped,
)
from orchestrate.plan.settings import Defaults, Limits
from orchestrate.record import record, replace
from orchestrate.source.located import LocatedList, LocatedMap, as_map

STEP_TIMEOUT_S = 600.0
MAX_DEPTH = 5
MAX_TOTAL_STEPS = 100


@record
class _WrittenGate:
    """The approval of a stage as written."""

    approval: LocatedMap
    id: NodeId
    stage: str
    place: ExpressionPlace


def lower_recipe(work: Lowering) -> Plan | None:
    """The plan of a recipe document; None when it has no step at all."""
    data = work.data
    recipe = Recipe(work, Names(frozenset()))
    _check_mode(recipe)
    stages = list(_stages(recipe))
    steps = with_inner_steps([step for stage in stages for step in stage.steps])
    recipe.names = collect_names(work, steps, incomplete=_lost_names(recipe, steps))
    check_context(work, recipe.names)
    written = _arrange(recipe, stages)
    nodes = _with_conditions(recipe, stages, written, _lower_in_order(recipe, written))
    if not nodes:
        return None
    inputs = lower_inputs(work)
    recursion = data.get("recursion") or {}
    # What is not written is inherited from the caller; the main recipe has the defaults (B).
    own = Limits(
        max_depth=recursion.get("max_depth"),
        max_steps=recursion.get("max_total_steps"),
    )
    limits = lower_limits(work, own, {"steps": "recursion.max_total_steps"})
    _check_limits(work, with_default_limits(limits), nodes)
    return Plan(
        id=work.plan_id,
        dialect="recipe",
        name=str(data.get("name", "")),
        title=str(data.get("name", "")),
        description=str(data.get("description", "")),
        version=str(data.get("version", "")),
        blocks=(Block("main", nodes[0].id, nodes), *recipe.bodies),
        limits=limits,
        defaults=Defaults(timeout_s=STEP_TIMEOUT_S),
        context=with_defaults(inputs, constant_map(data.get("context"))),
        secrets=(*lower_secrets(work), *secrets_among(inputs)),
        inputs=inputs,
        outputs=_lower_outputs(recipe, len(steps)),
    )


def _lower_outputs(recipe: Recipe, position: int) -> MapExpr:
    """`outputs:` of the recipe, read when all steps are over."""
    if "outputs" not in recipe.work.data:
        return NOTHING
    place = ExpressionPlace(AT_END, position, gates=1, in_gate=True)
    lowered = lower_value(recipe.work, recipe.names, place, recipe.work.data, "outputs")
    return lowered if isinstance(lowered, MapExpr) else NOTHING


def with_default_limits(limits: Limits) -> Limits:
    """The limits of a main recipe."""
    return replace(
        limits,
        max_depth=MAX_DEPTH if limits.max_depth is None else limits.max_depth,
        max_steps=MAX_TOTAL_STEPS if limits.max_steps is None else limits.max_steps,
    )


def _lost_names(recipe: Recipe, steps: list[LocatedMap]) -> bool:
    """Did pruning, or a slip in a field's name, lose a field that names variables?"""
    return any(
        recipe.has_lost(container, key)
        for container in (recipe.work.data, *steps)
        for key in _NAMING_FIELDS
    )


_NAMING_FIELDS = (
    "update_context",
    "while_steps",
    "context",
    "inputs",
    "output",
    "output_exit_code",
    "collect",
    "as",
    "foreach",
)


def _check_mode(recipe: Recipe) -> None:
    """A recipe is flat or staged (B), never both; without either it has no dialect."""
    work, data = recipe.work, recipe.work.data
    if "steps" in data and "stages" in data:
        second = next(key for key in reversed(data) if key in ("steps", "stages"))
        work.report(
            "E301",
            "a recipe has either 'steps' or 'stages', not both",
            data,
            second,
            on_key=True,
            hint="move the steps into a stage, or remove the stages",
        )


@record
class _Stage:
    """A group of steps; a flat recipe is one without a name."""

    name: str | None
    steps: list[LocatedMap]
    approval: LocatedMap | None = None
    written: LocatedMap | None = None


def _stages(recipe: Recipe) -> Iterator[_Stage]:
    """The stages in order, with a name for each."""
    data = recipe.work.data
    if data.get("steps"):
        yield _Stage(None, _maps(data["steps"]))
    seen: set[str] = set()
    for number, stage in enumerate(_maps(data.get("stages")), 1):
        name = str(stage.get("name", f"stage {number}"))
        if name in seen:
            recipe.work.report("E302", f"there are two stages '{name}'", stage, "name",
                               hint="approve and deny know a stage by its name")  # fmt: skip
        seen.add(name)
        approval = stage.get("approval")
        gate = approval if isinstance(approval, LocatedMap) else None
        if gate is not None and recipe.lacks(gate, "required"):
            hint = "add required: true to ask there, or required: false to leave it off"
            recipe.work.report("W407", f"the approval of stage '{name}' is off", stage, "approval",
                               on_key=True, hint=hint)  # fmt: skip
        yield _Stage(name, _maps(stage.get("steps")), gate, stage)


def _maps(value: Any) -> list[LocatedMap]:
    return [item for item in value or () if isinstance(item, LocatedMap)]


def _arrange(recipe: Recipe, stages: list[_Stage]) -> list[WrittenStep | _WrittenGate]:
    """Steps and gates in the order they run, each with an id of its own and its surroundings."""
    every = with_inner_steps([step for stage in stages for step in stage.steps])
    every = [step for step in every if "id" in step]
    by_id = {str(step["id"]): step for step in reversed(every)}
    taken: dict[NodeId, LocatedMap] = {}
    result: list[WrittenStep | _WrittenGate] = []
    steps: list[NodeId] = []
    gates = 0
    for stage in stages:
        for step in stage.steps:
            node = _name_step(recipe, step, taken)
            after = _lower_dependencies(recipe, step, taken, by_id)
            # The step runs only if those it depends on have succeeded.
            given = frozenset(
                name for other in after for name in variables_surely_set_by(taken[other])
            )
            taken[node] = step
            place = ExpressionPlace(node, len(steps), given, gates)
            steps.append(node)
            written = WrittenStep(step, node, stage.name, after, place)
            inner = _arrange_inner(recipe, written, taken, by_id)
            steps += [one.id for one in inner]
            result.append(replace(written, inner=inner))
            gates += sum("approval" in one.step for one in (written, *inner))
        if stage.approval is not None and stage.approval.get("required", False):
            assert stage.name is not None
            node = _free_id(f"approve:{stage.name}", taken)
            taken[node] = stage.approval
            place = ExpressionPlace(node, len(steps), gates=gates, in_gate=True)
            result.append(_WrittenGate(stage.approval, node, stage.name, place))
            gates += 1
    return result


def _arrange_inner(
    recipe: Recipe,
    outer: WrittenStep,
    taken: dict[NodeId, LocatedMap],
    by_id: dict[str, LocatedMap],
) -> tuple[WrittenStep, ...]:
    """The steps of a `while` loop. Those behind the loop cannot depend on them: they have one
    result a round."""
    earlier = dict(taken)
    found: list[WrittenStep] = []
    for step in inner_steps(outer.step):
        node = _name_step(recipe, step, earlier)
        after = _lower_dependencies(recipe, step, earlier, by_id)
        given = frozenset(n for other in after for n in variables_surely_set_by(earlier[other]))
        earlier[node] = step
        number = outer.place.position + 1 + len(found)
        gates = outer.place.gates + sum("approval" in one.step for one in found)
        place = ExpressionPlace(node, number, outer.place.given | given, gates)
        if "while_condition" in step:
            recipe.work.report(
                "E305", "a loop cannot stand in a loop", step, "while_condition", on_key=True,
                hint="let a step call a recipe that has the inner loop",
            )  # fmt: skip
        found.append(WrittenStep(step, node, outer.stage, after, place))
    return tuple(found)


def _name_step(recipe: Recipe, step: LocatedMap, taken: dict[NodeId, LocatedMap]) -> NodeId:
    """The step's id; one that is missing or taken is replaced, so that the checks can go on."""
    wanted = str(step.get("id", f"step {len(taken) + 1}"))
    if wanted in taken:
        recipe.work.report(
            "E302",
            f"there are two steps '{wanted}'",
            step,
            "id",
            hint="ids are unique in the whole recipe, across its stages",
        )
    return _free_id(wanted, taken)


def _free_id(wanted: NodeId, taken: dict[NodeId, LocatedMap]) -> NodeId:
    return wanted if wanted not in taken else f"{wanted}#{len(taken) + 1}"


def _lower_dependencies(
    recipe: Recipe,
    step: LocatedMap,
    earlier: dict[NodeId, LocatedMap],
    by_id: dict[str, LocatedMap],
) -> tuple[NodeId, ...]:
    """`depends_on` may name earlier steps only, so that no circle is possible."""
    wanted = step.get("depends_on") or LocatedList(step.mark)
    own = step.get("id")
    found: dict[NodeId, None] = {}
    for index, name in enumerate(wanted):
        if name in earlier and name != own:
            found[name] = None
        elif name == own:
            recipe.work.report("E308", f"step '{own}' depends on itself", wanted, index,
                               hint="remove it")  # fmt: skip
        elif name in by_id:
            _report_later(recipe, step, wanted, index, by_id[name])
        else:
            _report_unknown(recipe, wanted, index, earlier, by_id)
    return tuple(found)


def _report_unknown(
    recipe: Recipe,
    wanted: LocatedList,
    index: int,
    earlier: dict[NodeId, LocatedMap],
    by_id: dict[str, LocatedMap],
) -> None:
    name = wanted[index]
    message = f"there is no step '{name}'"
    stages = {stage.get("name"): stage for stage in _maps(recipe.work.data.get("stages"))}
    if name in recipe.names.outputs:
        setter = recipe.names.outputs[name][0].step
        recipe.work.report("E308", f"'{name}' is not a step, but the result of one", wanted, index,
                           suggestion=setter)  # fmt: skip
    elif name in stages:
        steps = [step["id"] for step in _maps(stages[name].get("steps")) if "id" in step]
        hint = f"its last step is '{steps[-1]}'" if steps else ""
        recipe.work.report("E308", f"'{name}' is a stage, not a step", wanted, index, hint=hint)
    else:
        known = [name for name in earlier if name in by_id] if may_search(recipe.names) else []
        recipe.work.report_name("E308", message, wanted, index, known, what="earlier steps")


def _report_later(
    recipe: Recipe, step: LocatedMap, wanted: LocatedList, index: int, other: LocatedMap
) -> None:
    name, own = wanted[index], step.get("id")
    message = f"step '{name}' comes later than '{own}'"
    if own in (other.get("depends_on") or ()):
        message = f"steps '{own}' and '{name}' depend on each other"
    hint = "steps run in the order written: depend on earlier ones"
    recipe.work.report("E308", message, wanted, index, hint=hint)


def _lower_in_order(recipe: Recipe, written: list[WrittenStep | _WrittenGate]) -> tuple[Node, ...]:
    """Each step leads to the one after it, the last one to the end."""
    follows: list[Target] = [Goto(item.id) for item in written[1:]]
    follows.append(Finish("completed"))
    nodes: list[Node] = []
    for item, follow in zip(written, follows, strict=bool(written)):
        if isinstance(item, WrittenStep):
            nodes += lower_step(recipe, item, follow)
        else:
            nodes.append(_lower_gate(recipe, item, follow))
    return tuple(nodes)


def _with_conditions(
    recipe: Recipe,
    stages: list[_Stage],
    written: list[WrittenStep | _WrittenGate],
    nodes: tuple[Node, ...],
) -> tuple[Node, ...]:
    """The condition of a stage stands at its first step; all others, its gate too, follow that."""
    guards: dict[str | None, tuple[NodeId, Cond]] = {}
    for stage in stages:
        first = next((item for item in written if item.stage == stage.name), None)
        if first is not None and stage.written is not None:
            guard = lower_condition(recipe.work, recipe.names, first.place, stage.written)
            if guard is not None:
                guards[stage.name] = first.id, guard

    def guarded(node: Node) -> Node:
        if node.stage not in guards or node.part_of is not None:
            return node
        head, guard = guards[node.stage]
        routes = node.routes
        if SKIPPED not in dict(routes):
            routes = (*routes, (SKIPPED, node.follow))
        if node.id == head:
            return replace(node, routes=routes, stage_guard=guard)
        return replace(node, routes=routes, stage_head=head)

    return tuple(guarded(node) for node in nodes) if guards else nodes


def _check_limits(work: Lowering, limits: Limits, nodes: tuple[Node, ...]) -> None:
    """Steps that run in any case, and calls, must fit into the limits; loops may be empty."""
    certain = [
        node
        for node in nodes
        if isinstance(node.op, Ask | Call | Run)
        and node.part_of is None
        and not may_be_skipped(node)
    ]
    most = limits.max_steps
    if most is not None and len(certain) > most:
        over = certain[most]
        place, key = "recursion", "max_total_steps"
        if "steps" in as_map(work.data.get("limits")):
            place, key = "limits", "steps"
        message = f"step '{over.name}' never runs: {place}.{key} is {most}"
        hint = f"write {place}: {{ {key}: {len(certain)} }} or more"
        work.report_at("W304", message, over.span, hint=hint)
    # A step's own limit may be higher than the recipe's.
    calling = next(
        (node for node in nodes if isinstance(node.op, Call) and node.op.max_depth is None), None
    )
    if calling is not None and limits.max_depth == 1:
        message = f"step '{calling.name}' can call nothing: recursion.max_depth is 1"
        hint = "this recipe is depth 1, the one it calls depth 2: write max_depth: 2 or more"
        work.report_at("W304", message, calling.span, hint=hint)


def _lower_gate(recipe: Recipe, gate: _WrittenGate, follow: Target) -> Node:
    work, approval = recipe.work, gate.approval
    prompt = Text(())
    if str(approval.get("prompt", "")).strip():
        prompt = lower_text(work, recipe.names, gate.place, approval, "prompt")
    elif "prompt" in approval or recipe.lacks(approval, "prompt"):
        at = "prompt" if "prompt" in approval else "required"
        hint = "add prompt: and say what is to be approved"
        work.report("E310", f"the approval of stage '{gate.stage}' asks nothing", approval, at,
                    on_key=at == "required", hint=hint)  # fmt: skip
    timeout = seconds_of(approval.get("timeout", 0))
    if not timeout and ("timeout" in approval or recipe.lacks(approval, "timeout")):
        at = "timeout" if "timeout" in approval else "required"
        work.report(
            "W105",
            f"the approval of stage '{gate.stage}' waits for ever",
            approval,
            at,
            on_key=True,
            hint="add timeout: 86400 to let `default` decide after a day",
        )
    return Node(
        id=gate.id,
        name=gate.stage,
        op=Gate(gate.stage, prompt, timeout or None, approval.get("default", "deny")),
        routes=(
            (APPROVED, follow),
            (DENIED, Abort("denied", f"stage '{gate.stage}' was denied")),
        ),
        follow=follow,
        span=work.span(approval, "required", on_key=True),
        stage=gate.stage,
    )
