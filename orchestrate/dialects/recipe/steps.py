"""The steps of a recipe: prompts to agents, calls of other recipes, and loops over both."""

from __future__ import annotations

from orchestrate.dialects.lowering import Lowering, constant_map
from orchestrate.dialects.prompts import check_prompt_text
from orchestrate.dialects.recipe.agents import check_agent
from orchestrate.dialects.recipe.calls import lower_call
from orchestrate.dialects.recipe.literals import check_literals
from orchestrate.dialects.recipe.names import (
    Names,
    Place,
    loop_variable,
    lower_condition,
    lower_text,
    read_template,
)
from orchestrate.lang.curly import clip
from orchestrate.plan.ends import step_failed, step_lost
from orchestrate.plan.expr import Cond, Expr, ListExpr, Ref, Text
from orchestrate.plan.nodes import (
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Ask,
    Block,
    Call,
    Each,
    Finish,
    Goto,
    Label,
    Leave,
    NamedAgent,
    Node,
    NodeId,
    OnFailure,
    Retry,
    Target,
)
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.source.advice import meant
from orchestrate.source.located import LocatedMap

MAX_ITERATIONS = 100
# Nobody misspells more fields of one step by hand.
_MOST_LOST = 20
_LOOP_FIELDS = ("as", "collect", "max_iterations", "parallel")


@mutable_record
class Recipe:
    """A recipe while its steps are lowered."""

    work: Lowering
    names: Names
    bodies: list[Block] = field(default_factory=list)

    def lacks(self, container: LocatedMap, key: str) -> bool:
        """Is a field missing, and not because the schema check took it out?"""
        return key not in container and not self.has_lost(container, key)

    def has_lost(self, container: LocatedMap, key: str) -> bool:
        """Did the schema check take out a field, or one that was meant to be it?"""
        if key in container.lost:
            return True
        return any(meant(lost, (key,), ()) == key for lost in container.lost[:_MOST_LOST])


@record
class Written:
    """One step as written, with what its surroundings say about it."""

    step: LocatedMap
    id: NodeId
    stage: str | None
    after: tuple[NodeId, ...]
    place: Place


def lower_step(recipe: Recipe, written: Written, follow: Target) -> Node:
    """The node of a step; the body of a loop is added to the recipe's blocks."""
    step, work = written.step, recipe.work
    name = str(step.get("id", written.id))
    guard = lower_condition(work, recipe.names, written.place, step)
    on_failure, failed = _failure(step, name)
    op: Ask | Call | Each
    if "foreach" in step:
        op = _lower_loop(recipe, written)
    else:
        _reject_loop_fields(recipe, step)
        op = _lower_op(recipe, written, written.place)
    looping = isinstance(op, Each)
    return Node(
        id=written.id,
        name=name,
        op=op,
        routes=(
            (OK, follow),
            (FAILED, failed or follow),
            *_lost_route(op, step, written.id, name),
            *_skipped_route(guard, written.after, follow),
        ),
        follow=follow,
        span=work.span_of_name(step, "id") if "id" in step else work.span(step),
        guard=guard,
        after=written.after,
        retry=None if looping else _lower_retry(step),
        timeout_s=None if looping else _timeout(step),
        output=step.get("output"),
        on_failure=on_failure,
        on_lost=step.get("on_lost", "retry"),
        stage=written.stage,
    )


def _failure(step: LocatedMap, name: str) -> tuple[OnFailure, Target | None]:
    """What `on_error` makes of a failure: no target means the next step."""
    match step.get("on_error", "fail"):
        case "continue":
            return "handled", None
        case "skip_remaining":
            return "handled", Finish("partial", "partial")
        case _:
            return "stop", step_failed(name)


def _lost_route(
    op: Ask | Call | Each, step: LocatedMap, node: NodeId, name: str
) -> tuple[tuple[Label, Target], ...]:
    """Only a prompt is lost by itself; the steps of a called recipe have rules of their own."""
    if not isinstance(op, Ask):
        return ()
    if step.get("on_lost", "retry") == "retry":
        return ((LOST, Goto(node)),)
    return ((LOST, step_lost(name)),)


def _skipped_route(
    guard: Cond | None, after: tuple[NodeId, ...], follow: Target
) -> tuple[tuple[Label, Target], ...]:
    return ((SKIPPED, follow),) if guard is not None or after else ()


def _timeout(step: LocatedMap) -> float | None:
    return float(step["timeout"]) if "timeout" in step else None


def _lower_retry(step: LocatedMap) -> Retry | None:
    retry = step.get("retry")
    if retry is None:
        return None
    return Retry(
        attempts=int(retry.get("max_attempts", 3)),
        delay_s=float(retry.get("initial_delay", 5)),
        when="transient",
        backoff=retry.get("backoff", "exponential"),
        max_delay_s=float(retry.get("max_delay", 300)),
        jitter=True,
    )


# Loops:


_WITHOUT_LOOP = {"collect": 'write output: instead, or add foreach: "{{list}}"'}


def _reject_loop_fields(recipe: Recipe, step: LocatedMap) -> None:
    if not recipe.lacks(step, "foreach"):
        return
    for key in _LOOP_FIELDS:
        if key in step:
            recipe.work.report(
                "E305",
                f"'{key}' has no meaning without 'foreach'",
                step,
                key,
                on_key=True,
                hint=_WITHOUT_LOOP.get(key, 'add foreach: "{{list}}", or remove it'),
            )


def _lower_loop(recipe: Recipe, written: Written) -> Each:
    step = written.step
    variable = loop_variable(step)
    items = _lower_items(recipe, written)
    place = written.place
    inside = replace(place, given=place.given | {variable})
    if "output" in step and step["output"] == step.get("collect"):
        recipe.work.report("W407", "'output' and 'collect' name the same variable", step, "output",
                           hint="remove output: the list has the last result too")  # fmt: skip
    body = Block(
        id=f"{written.id}/body",
        entry=f"{written.id}[]",
        nodes=(_lower_iteration(recipe, written, inside),),
        owner=written.id,
    )
    recipe.bodies.append(body)
    return Each(
        items=items,
        variable=variable,
        body=body.id,
        stop_on_failure=True,
        parallel=bool(step.get("parallel", False)),
        limit=int(step.get("max_iterations", MAX_ITERATIONS)),
        collect=step.get("collect"),
    )


def _lower_iteration(recipe: Recipe, written: Written, inside: Place) -> Node:
    """One turn of the loop: what fails here fails the loop, and `on_error` is asked there."""
    step = written.step
    node = f"{written.id}[]"
    name = str(step.get("id", written.id))
    op = _lower_op(recipe, written, inside)
    return Node(
        id=node,
        name=name,
        op=op,
        routes=((OK, Leave(OK)), (FAILED, Leave(FAILED)), *_lost_route(op, step, node, name)),
        follow=Leave(OK),
        span=recipe.work.span(step, "foreach", on_key=True),
        retry=_lower_retry(step),
        timeout_s=_timeout(step),
        on_failure="handled",
        on_lost=step.get("on_lost", "retry"),
        stage=written.stage,
    )


def _lower_items(recipe: Recipe, written: Written) -> Expr:
    step = written.step
    template = read_template(recipe.work, recipe.names, written.place, step, "foreach")
    around = "".join(part for part in template.parts if isinstance(part, str))
    if len(template.placed) == 1 and not around.strip():
        ref = template.placed[0].ref
        _check_list(recipe, written, ref)
        return ref
    if not template.faults:
        text = str(step["foreach"]).strip().strip("${}")
        fix = f"{{{{{text}}}}}" if text.replace(".", "_").isidentifier() else "{{files}}"
        if template.placed:
            fix = clip(template.placed[0].ref.text)
        recipe.work.report("E306", "'foreach' is not exactly one variable", step, "foreach",
                           hint=f'write foreach: "{fix}"')  # fmt: skip
    return ListExpr(())


def _check_list(recipe: Recipe, written: Written, ref: Ref) -> None:
    """Can the variable of a loop be a list at all?"""
    step, names, name = written.step, recipe.names, ref.path[1]
    if ref.path[0] != "var":
        recipe.work.report("E306", f"{ref.text} is never a list", step, "foreach",
                           hint="name a variable of the context or a result")  # fmt: skip
    elif name in names.context and name not in names.outputs and name not in written.place.given:
        value = recipe.work.data["context"]
        for key in ref.path[1:]:
            value = value.get(key) if isinstance(value, dict) else None
        # An empty text is how B's recipes write an input that has to be given.
        if not isinstance(value, list) and value not in (None, ""):
            message = f"{ref.text} is not a list in this recipe's context"
            recipe.work.report("W303", message, step, "foreach",
                               hint=f"write {ref.path[-1]}: [one, two] there")  # fmt: skip


# Kinds of step:


def _lower_op(recipe: Recipe, written: Written, place: Place) -> Ask | Call:
    step = written.step
    kind = step.get("type", "agent")
    if "type" in step or recipe.lacks(step, "type"):
        _check_fields(recipe, step, _KINDS[kind])
    elif "recipe" in step:
        # The schema rejected `type`: what it should say can be seen, and need not be said twice.
        kind = "recipe"
    if kind == "recipe":
        return lower_call(recipe.work, recipe.names, step, place)
    return _lower_prompt(recipe, step, place)


@record
class _Kind:
    code: str
    name: str
    needs: tuple[str, ...]
    foreign: tuple[str, ...]
    way_out: str


_KINDS = {
    "agent": _Kind(
        "E303", "an agent step", ("agent", "prompt"), ("recipe", "context", "recursion"),
        "add type: recipe to call another recipe",
    ),
    "recipe": _Kind(
        "E304", "a recipe step", ("recipe",), ("agent", "mode", "prompt", "agent_config"),
        "remove type: recipe to ask an agent",
    ),
}  # fmt: skip
_EXAMPLES = {
    "agent": "add agent: NAME",
    "prompt": "add prompt: and say what the agent is to do",
    "recipe": "add recipe: path/to/other.yaml",
}
_FILL = {
    "agent": "name an agent",
    "prompt": "say what the agent is to do",
    "recipe": "name the file of a recipe",
}
_ELSEWHERE = {
    "context": "write it under `context:` at the top of the file, for all steps",
    "recursion": "write it at the top of the file, for the whole recipe",
}


def _check_fields(recipe: Recipe, step: LocatedMap, kind: _Kind) -> None:
    """An accepted field is enforced; one without a meaning on this kind of step is rejected."""
    work = recipe.work
    foreign = [key for key in kind.foreign if key in step]
    # A step written wholly in the other kind's fields has one mistake, its type.
    confused = bool(foreign) and not any(key in step for key in kind.needs)
    for key in foreign[:1] if confused else foreign:
        hint = kind.way_out if confused else _ELSEWHERE.get(key, "remove it")
        work.report(kind.code, f"'{key}' has no meaning on {kind.name}", step, key, on_key=True,
                    hint=hint)  # fmt: skip
    for key in kind.needs:
        if recipe.lacks(step, key) and not confused:
            at = "id" if "id" in step else None
            work.report(kind.code, f"{kind.name} needs '{key}'", step, at, hint=_EXAMPLES[key])
        elif key in step and not str(step[key]).strip():
            work.report(kind.code, f"'{key}' is blank", step, key, hint=_FILL[key])
    if kind.name == "a recipe step" and "on_lost" in step:
        work.report(
            kind.code,
            f"'on_lost' has no meaning on {kind.name}",
            step,
            "on_lost",
            on_key=True,
            hint="set it on the steps of the recipe that is called",
        )


def _lower_prompt(recipe: Recipe, step: LocatedMap, place: Place) -> Ask:
    work = recipe.work
    prompt = Text(())
    if "prompt" in step:
        prompt = lower_text(work, recipe.names, place, step, "prompt")
    check_prompt_text(work, step)
    check_literals(work, step)
    if "mode" in step:
        prompt = Text((f"MODE: {step['mode']}\n\n", *prompt.parts))
    name = str(step.get("agent", ""))
    if name.strip():
        check_agent(work, step, name)
    agent = NamedAgent(name, constant_map(step.get("agent_config")))
    return Ask(agent=agent, prompt=prompt, session="fresh")
