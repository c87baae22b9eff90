"""The steps of a recipe: prompts to agents, calls of other recipes, and loops over both."""

from __future__ import annotations

from functools import partial

from orchestrate.dialects.agents import check_agent
from orchestrate.dialects.checks import is_checked, lower_check, with_rounds
from orchestrate.dialects.effects import ONCE, has_effect, lost_rule
from orchestrate.dialects.gates import lower_gate
from orchestrate.dialects.limits import step_limits
from orchestrate.dialects.lowering import constant_map, lower_session
from orchestrate.dialects.prompts import check_prompt_text
from orchestrate.dialects.recipe.calls import lower_call
from orchestrate.dialects.recipe.kinds import (
    RecipeFiller,
    kind_of,
    lower_bash,
)
from orchestrate.dialects.recipe.literals import check_literals
from orchestrate.dialects.recipe.loops import (
    lower_items,
    reject_loop_fields,
    reject_while_fields,
    report_loop_field,
    spread_of_loop,
)
from orchestrate.dialects.recipe.names import (
    ExpressionPlace,
    loop_variable,
    lower_condition,
    lower_text,
    lower_value,
    reject_reserved_keys,
    variables_surely_set_by,
)
from orchestrate.dialects.recipe.written import Recipe, WrittenStep
from orchestrate.dialects.resolvers import CONFLICTS, with_resolver
from orchestrate.plan.data import Capture
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.ends import step_failed, step_lost
from orchestrate.plan.expr import NOTHING, Cond, ListExpr, MapExpr, Text
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Block,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Label,
    Leave,
    NamedAgent,
    Node,
    NodeId,
    OnFailure,
    Op,
    Rounds,
    Run,
    RunAgent,
    Target,
)
from orchestrate.plan.settings import Retry
from orchestrate.record import replace
from orchestrate.source.located import LocatedMap, as_map

MAX_ITERATIONS = 100


def lower_step(
    recipe: Recipe, written: WrittenStep, follow: Target, stop: Target | None = None
) -> tuple[Node, ...]:
    """The node of a step, with its rounds; the body of a loop is added to the recipe's blocks.
    `stop` is where a failure leads that nothing handles, if not to the end of the recipe."""
    step, work = written.step, recipe.work
    name = str(step.get("id", written.id))
    guard = lower_condition(work, recipe.names, written.place, step)
    on_failure, failed = _failure(step, name)
    if on_failure == "stop" and stop is not None:
        on_failure, failed = "handled", stop
    op: Op
    if "foreach" in step:
        op = _lower_loop(recipe, written)
    elif "while_condition" in step:
        op = _lower_rounds(recipe, written)
    else:
        reject_loop_fields(recipe, step)
        op = _lower_op(recipe, written, written.place)
    looping = isinstance(op, Each)
    node = Node(
        id=written.id,
        name=name,
        op=op,
        routes=(
            *_routes(op, name, follow, failed or follow),
            *_lost_route(op, step, written.id, name),
            *_skipped_route(guard, written.after, follow),
        ),
        follow=follow,
        span=work.span_of_name(step, "id") if "id" in step else work.span(step),
        guard=guard,
        after=written.after,
        retry=None if looping else _lower_retry(step),
        effect=has_effect(step) and not looping,
        timeout_s=None if looping else _timeout(step),
        output=step.get("output"),
        on_failure=on_failure,
        on_lost=lost_rule(step),
        stage=written.stage,
        **({} if looping else step_limits(step)),
    )
    if "spread" in step and isinstance(op, Each | Call):
        return with_resolver(node, step, partial(_lower_resolver, recipe, written.place))
    return _with_rounds(recipe, step, written.place, node)


def _lower_resolver(recipe: Recipe, place: ExpressionPlace, resolve: LocatedMap) -> Ask:
    """The agent that is asked where items are in conflict; the files are a variable there."""
    work, name = recipe.work, str(resolve["agent"])
    check_prompt_text(work, resolve)
    if name.strip():
        check_agent(work, resolve, name)
    place = replace(place, given=place.given | {CONFLICTS})
    prompt = lower_text(work, recipe.names, place, resolve, "prompt")
    return Ask(NamedAgent(name), prompt, "fresh")


def _with_rounds(
    recipe: Recipe, step: LocatedMap, place: ExpressionPlace, node: Node
) -> tuple[Node, ...]:
    if not isinstance(node.op, Ask) or not is_checked(step):
        return (node,)
    # A check runs behind the answer, which it may read.
    behind = replace(place, given=place.given | frozenset(variables_surely_set_by(step)))
    return with_rounds(lower_check(RecipeFiller(recipe, behind), step, node))


def _routes(op: Op, name: str, follow: Target, failed: Target) -> tuple[tuple[Label, Target], ...]:
    """A gate that is denied ends the run, whatever `on_error` says (rulings §8)."""
    if isinstance(op, Gate):
        return ((APPROVED, follow), (DENIED, Abort("denied", f"step '{name}' was denied")))
    return ((OK, follow), (FAILED, failed))


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
    op: Op, step: LocatedMap, node: NodeId, name: str
) -> tuple[tuple[Label, Target], ...]:
    """Only programs are lost by themselves; the steps of a called recipe have their own rules."""
    if not isinstance(op, Ask | Run):
        return ()
    if lost_rule(step) == "retry":
        return ((LOST, Goto(node)),)
    return ((LOST, step_lost(name)),)


def _skipped_route(
    guard: Cond | None, after: tuple[NodeId, ...], follow: Target
) -> tuple[tuple[Label, Target], ...]:
    return ((SKIPPED, follow),) if guard is not None or after else ()


def _timeout(step: LocatedMap) -> float | None:
    return seconds_of(step["timeout"]) or None if "timeout" in step else None


def _lower_retry(step: LocatedMap) -> Retry | None:
    retry = step.get("retry")
    if has_effect(step):
        return ONCE
    if retry is None:
        return None
    return Retry(
        attempts=int(retry.get("max_attempts", 3)),
        delay_s=seconds_of(retry.get("initial_delay", 5)),
        when="any" if step.get("type") == "bash" else "transient",
        backoff=retry.get("backoff", "exponential"),
        max_delay_s=seconds_of(retry.get("max_delay", 300)),
        jitter=True,
    )


# Loops:


def _lower_loop(recipe: Recipe, written: WrittenStep) -> Each:
    step = written.step
    if "while_condition" in step:
        message = "a step loops either by 'foreach' or by 'while_condition'"
        hint = "keep one of them; a recipe that the loop calls may have the other"
        report_loop_field(recipe, step, "while_condition", message, hint)
    else:
        reject_while_fields(recipe, step)
    variable = loop_variable(step)
    items = lower_items(recipe, written)
    place = written.place
    inside = replace(place, given=place.given | {variable})
    if "output" in step and step["output"] == step.get("collect"):
        recipe.work.report("W407", "'output' and 'collect' name the same variable", step, "output",
                           hint="remove output: the list has the last result too")  # fmt: skip
    body = Block(
        id=f"{written.id}/body",
        entry=f"{written.id}[]",
        nodes=_lower_iteration(recipe, written, inside),
        owner=written.id,
    )
    recipe.bodies.append(body)
    return Each(
        items=items,
        variable=variable,
        body=body.id,
        stop_on_failure=True,
        parallel=step.get("parallel", False),
        limit=int(step.get("max_iterations", MAX_ITERATIONS)),
        collect=step.get("collect"),
        spread=spread_of_loop(recipe, step),
    )


_OWN_FIELDS = (
    "type", "agent", "mode", "session", "prompt", "recipe", "context", "agent_config",
    "parse_json", "timeout", "retry", "recursion", "on_lost", "command", "cwd", "env",
    "output_exit_code", "approval", "check", "produces", "effect", "limits",
)  # fmt: skip


def _lower_rounds(recipe: Recipe, written: WrittenStep) -> Each:
    """`while_condition`: the step itself, or its `while_steps`, once a round."""
    step, work, names = written.step, recipe.work, recipe.names
    for key in ("as", "parallel", "max_iterations", "spread"):
        if key in step:
            hint = "write max_while_iterations:" if key == "max_iterations" else "remove it"
            report_loop_field(recipe, step, key, f"'{key}' belongs to 'foreach'", hint)
    if written.inner or not recipe.lacks(step, "while_steps"):
        nodes = _lower_body(recipe, written)
    else:
        nodes = _lower_iteration(recipe, written, written.place, output=step.get("output"))
    ended = replace(written.place, given=written.place.given | _set_in_a_round(written))
    before = lower_condition(work, names, written.place, step, "while_condition")
    until = lower_condition(work, names, ended, step, "break_when")
    updates = NOTHING
    if "update_context" in step:
        reject_reserved_keys(work, step["update_context"])
        lowered = lower_value(work, names, ended, step, "update_context")
        updates = lowered if isinstance(lowered, MapExpr) else NOTHING
    body = Block(f"{written.id}/body", nodes[0].id, nodes, written.id)
    recipe.bodies.append(body)
    return Each(
        items=ListExpr(()),
        variable="",
        body=body.id,
        stop_on_failure=True,
        limit=int(step.get("max_while_iterations", MAX_ITERATIONS)),
        collect=step.get("collect"),
        rounds=Rounds(before, until, updates),
    )


def _lower_body(recipe: Recipe, written: WrittenStep) -> tuple[Node, ...]:
    for key in _OWN_FIELDS:
        if key in written.step:
            message = f"'{key}' has no meaning beside 'while_steps'"
            report_loop_field(recipe, written.step, key, message, "write it on the steps below")
    if not written.inner:
        # The schema refused them, and has said so.
        ask = Ask(RunAgent(), Text(()), "fresh")
        return _lower_iteration(recipe, written, written.place, op=ask)
    follows: list[Target] = [Goto(item.id) for item in written.inner[1:]]
    follows.append(Leave(OK))
    pairs = zip(written.inner, follows, strict=True)
    return tuple(
        node for item, follow in pairs for node in lower_step(recipe, item, follow, Leave(FAILED))
    )


def _set_in_a_round(written: WrittenStep) -> frozenset[str]:
    """The variables that have a value once a round is over: those of steps that surely succeed."""
    found: set[str] = set()
    succeeding: set[str] = set()
    for step in [item.step for item in written.inner] or [written.step]:
        if "condition" in step or step.get("on_error") == "continue":
            continue
        if succeeding.issuperset(step.get("depends_on") or ()):
            succeeding.add(str(step.get("id")))
            found.update(variables_surely_set_by(step))
    return frozenset(found)


def _lower_iteration(
    recipe: Recipe,
    written: WrittenStep,
    inside: ExpressionPlace,
    output: str | None = None,
    op: Op | None = None,
) -> tuple[Node, ...]:
    """One turn of the loop: what fails here fails the loop, and `on_error` is asked there."""
    step = written.step
    node = f"{written.id}[]"
    name = str(step.get("id", written.id))
    op = op or _lower_op(recipe, written, inside)
    one = Node(
        id=node,
        name=name,
        op=op,
        routes=(
            *_routes(op, name, Leave(OK), Leave(FAILED)),
            *_lost_route(op, step, node, name),
        ),
        follow=Leave(OK),
        span=recipe.work.span(step, _loop_key(step), on_key=True),
        retry=_lower_retry(step),
        effect=has_effect(step),
        timeout_s=_timeout(step),
        output=output,
        on_failure="handled",
        on_lost=lost_rule(step),
        stage=written.stage,
        **step_limits(step),
    )
    return _with_rounds(recipe, step, inside, one)


def _loop_key(step: LocatedMap) -> str:
    return "foreach" if "foreach" in step else "while_condition"


# Kinds of step:


def _lower_op(recipe: Recipe, written: WrittenStep, place: ExpressionPlace) -> Op:
    step = written.step
    match kind_of(recipe, step):
        case "recipe":
            return lower_call(recipe.work, recipe.names, step, place)
        case "bash" if "command" in step:
            return lower_bash(recipe, step, place)
        case "approval":
            name = str(step.get("id", written.id))
            return lower_gate(RecipeFiller(recipe, place), as_map(step.get("approval")), name)
        case _:
            return _lower_prompt(recipe, step, place)


def _lower_prompt(recipe: Recipe, step: LocatedMap, place: ExpressionPlace) -> Ask:
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
    config = constant_map(step.get("agent_config"))
    agent: NamedAgent | RunAgent = NamedAgent(name, config)
    capture = Capture(value="json") if step.get("parse_json", False) else Capture()
    if recipe.lacks(step, "agent"):
        agent = RunAgent(config)
        capture = replace(capture, value=capture.value or "any")
    session = lower_session(work, step, name)
    return Ask(agent, prompt, "fresh", capture=capture, session_name=session)
