"""Dialect A: a state machine of prompts becomes a plan whose routes are its transitions."""

from __future__ import annotations

from functools import partial

from orchestrate.diagnostics import closest
from orchestrate.dialects.checks import is_checked, lower_check, with_rounds
from orchestrate.dialects.effects import ONCE, check_effect, has_effect, lost_rule
from orchestrate.dialects.inputs import lower_inputs, secrets_among, with_defaults
from orchestrate.dialects.limits import lower_limits, step_limits
from orchestrate.dialects.lowering import Lowering, lower_secrets
from orchestrate.dialects.machine_kinds import (
    Kind,
    kind_of,
    lower_op,
    lower_resolver,
    outcomes_of,
    routes_of,
)
from orchestrate.dialects.machine_templates import Templates, templates_of
from orchestrate.dialects.resolvers import with_resolver
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.ends import CHECK_FAILED, OTHER, step_lost
from orchestrate.plan.expr import NOTHING, MapExpr
from orchestrate.plan.flow import AT_END
from orchestrate.plan.nodes import (
    Abort,
    Ask,
    Block,
    Finish,
    Goto,
    Label,
    Node,
    Plan,
    Restart,
    Target,
)
from orchestrate.plan.retries import OUTAGE_RETRY
from orchestrate.plan.settings import Defaults, Limits, Retry
from orchestrate.record import replace
from orchestrate.source.located import LocatedMap, as_map

# A §13.2: a step may work for a day before we call it hung.
STEP_TIMEOUT_S = 24 * 60 * 60.0


def lower_machine(work: Lowering) -> Plan | None:
    """The plan of a machine document; None when it has no step at all."""
    data = work.data
    steps = as_map(data.get("steps"))
    guardrails = as_map(data.get("guardrails"))
    exit_on_other = guardrails.get("exitOnOther", True)
    inputs = lower_inputs(work)
    templates = templates_of(work, tuple(one.name for one in inputs))
    nodes = tuple(
        node
        for name in steps
        if isinstance(steps[name], LocatedMap)
        for node in _lower_step(templates, steps, name, exit_on_other)
    )
    initial = data.get("initialStep")
    if initial is not None and initial not in steps and initial not in steps.lost:
        work.report_name(
            "E201",
            f"initialStep '{initial}' is not a step",
            data,
            "initialStep",
            steps,
            what="steps",
        )
        initial = None
    if not nodes:
        return None
    return Plan(
        id=work.plan_id,
        dialect="machine",
        name=str(data.get("id", "")),
        title=str(data.get("label", "")),
        description=str(data.get("description", "")),
        version="",
        blocks=(Block("main", initial or nodes[0].id, nodes),),
        limits=_lower_limits(work, guardrails),
        defaults=Defaults(
            model=data.get("model"), timeout_s=STEP_TIMEOUT_S, retry=_lower_retry(data)
        ),
        context=with_defaults(inputs, NOTHING),
        exit_on_other=exit_on_other,
        secrets=(*lower_secrets(work), *secrets_among(inputs)),
        inputs=inputs,
        outputs=_lower_outputs(templates),
    )


def _lower_outputs(templates: Templates) -> MapExpr:
    """`outputs:` are always templates, of inputs and of the results of steps."""
    if "outputs" not in templates.work.data:
        return NOTHING
    lowered = replace(templates, is_on=True, node=AT_END).tree(templates.work.data, "outputs")
    return lowered if isinstance(lowered, MapExpr) else NOTHING


def _lower_limits(work: Lowering, guardrails: LocatedMap) -> Limits:
    usual = Limits(
        max_visits=int(guardrails.get("maxStepVisits", 3)),
        max_steps=int(guardrails.get("maxTotalSteps", 100)),
    )
    elsewhere = {"visits": "guardrails.maxStepVisits", "steps": "guardrails.maxTotalSteps"}
    return lower_limits(work, usual, elsewhere)


def _lower_step(
    templates: Templates, steps: LocatedMap, name: str, exit_on_other: bool
) -> tuple[Node, ...]:
    step, work = steps[name], templates.work
    templates.node = name
    kind = kind_of(work, step, name)
    outcomes = outcomes_of(work, step, kind)
    transitions = as_map(step.get("onOutcome"))
    _check_coverage(work, step, name, outcomes, transitions, kind)
    routes: dict[Label, Target] = {}
    for outcome in outcomes:
        target = None
        if isinstance(transitions.get(outcome), LocatedMap):
            target = _lower_transition(work, steps, transitions, outcome, exit_on_other)
        routes[outcome] = target or Finish("", "exit")
    on_lost = lost_rule(step, "onLost")
    check_effect(work, step, "E209", "retry", "onLost")
    lost: Target = Goto(name) if on_lost == "retry" else step_lost(name)
    node = Node(
        id=name,
        name=name,
        op=lower_op(templates, step, name, kind, outcomes),
        routes=routes_of(kind, step, name, routes, lost),
        follow=Finish("", "exit"),
        span=work.span(steps, name, on_key=True),
        retry=ONCE if has_effect(step) else _lower_retry(step),
        effect=has_effect(step),
        timeout_s=seconds_of(step.get("timeout", 0)) or None,
        on_failure="stop" if kind == "prompt" else "handled",
        on_lost=on_lost,
        **step_limits(step),
    )
    if kind == "call":
        return with_resolver(node, step, partial(lower_resolver, templates))
    checks = kind == "prompt" and is_checked(step)
    return _with_checks(templates, step, node) if checks else (node,)


def _with_checks(templates: Templates, step: LocatedMap, node: Node) -> tuple[Node, ...]:
    """The step with its rounds; what it gives up with is not an outcome that the agent may say."""
    assert isinstance(node.op, Ask)
    routes = dict(node.routes)
    given_up = routes.pop(CHECK_FAILED, None) or Abort(
        "check-failed", f"{CHECK_FAILED}:{node.name}"
    )
    own = tuple(outcome for outcome in node.op.outcomes if outcome != CHECK_FAILED)
    asking = replace(node, op=replace(node.op, outcomes=own), routes=tuple(routes.items()))
    checked = _checked_outcomes(templates.work, as_map(step.get("check")), node.name, own)
    check = lower_check(templates, step, asking)
    return with_rounds(replace(check, outcomes=checked, given_up=given_up, on_failure="handled"))


def _checked_outcomes(
    work: Lowering, written: LocatedMap, name: str, outcomes: tuple[Label, ...]
) -> tuple[Label, ...]:
    """The outcomes that are checked: all but `other`, or those that the check names."""
    named = written.get("outcomes")
    if named is None:
        return tuple(outcome for outcome in outcomes if outcome != OTHER)
    for index, outcome in enumerate(named):
        if outcome == OTHER:
            work.report("E202", "'other' is never checked: the agent says that it has given up",
                        named, index, hint="remove it")  # fmt: skip
        elif outcome not in outcomes:
            work.report_name(
                "E202", f"'{outcome}' is not an outcome of step '{name}'", named, index, outcomes,
                what="outcomes",
            )  # fmt: skip
    return tuple(outcome for outcome in named if outcome in outcomes and outcome != OTHER)


def _lower_retry(holder: LocatedMap) -> Retry | None:
    """An author's own rule also tries again what ran out of time (rulings §7)."""
    if "retry" not in holder:
        return None
    retry = as_map(holder["retry"])
    return Retry(
        attempts=int(retry.get("maxAttempts", OUTAGE_RETRY.attempts)),
        delay_s=seconds_of(retry.get("initialDelay", OUTAGE_RETRY.delay_s)),
        when="transient",
        backoff=retry.get("backoff", OUTAGE_RETRY.backoff),
        max_delay_s=seconds_of(retry.get("maxDelay", OUTAGE_RETRY.max_delay_s or 0.0)),
        jitter=True,
    )


def _check_coverage(
    work: Lowering,
    step: LocatedMap,
    name: str,
    outcomes: tuple[str, ...],
    transitions: LocatedMap,
    kind: Kind,
) -> None:
    """A §8 rule 2, and the ruling that an outcome must have a transition."""
    if ("outcomes" not in step and kind == "prompt") or "onOutcome" not in step:
        return
    if "outcomes" in step and _lost_outcomes(work, name):
        return
    given = [*transitions, *transitions.lost]
    missing = [outcome for outcome in outcomes if outcome not in given]
    for outcome in transitions:
        if outcome not in outcomes:
            near = closest(outcome, missing)
            if near:
                missing.remove(near)  # one slip is one finding
            work.report(
                "E202",
                f"'{outcome}' is not an outcome of step '{name}'",
                transitions,
                outcome,
                on_key=True,
                hint="" if near else _declare(outcomes),
                suggestion=near,
            )
    for index, outcome in enumerate(outcomes):
        if outcome in missing:
            work.report(
                "E207",
                f"outcome '{outcome}' of step '{name}' has no transition",
                step.get("outcomes", step),
                index if "outcomes" in step else "onOutcome",
                on_key="outcomes" not in step,
                hint=f"add `{outcome}: {{nextStep: …}}` to onOutcome, or an exit",
            )
    if outcomes and OTHER not in outcomes and kind == "prompt":
        work.report(
            "W203",
            f"step '{name}' has no outcome 'other'",
            step,
            "outcomes",
            on_key=True,
            hint="add it, with {action: exit, reason: user-provided-other}: without it the agent "
            "has no way out of an unforeseen situation",
        )


def _declare(outcomes: tuple[str, ...]) -> str:
    shown = ", ".join(outcomes[:12]) + (", …" if len(outcomes) > 12 else "")
    return f"remove it, or add it to the step's outcomes, which are: {shown}"


def _lost_outcomes(work: Lowering, name: str) -> bool:
    """Did the schema refuse one of the step's outcomes? Then what was meant is unknown."""
    if work.data is work.document.data:
        return False
    written = work.document.data["steps"][name]["outcomes"]
    return any(not isinstance(word, str) or any(c in word for c in " ,") for word in written)


def _lower_transition(
    work: Lowering, steps: LocatedMap, transitions: LocatedMap, outcome: str, exit_on_other: bool
) -> Target | None:
    """Exactly one of the three forms of A §1, or None after a report."""
    transition = transitions[outcome]
    action = transition.get("action")
    if transition.lost and "nextStep" not in transition:
        return None  # what is missing may be what was refused
    if ("nextStep" in transition) == ("action" in transition):
        problem = (
            "both nextStep and action" if "nextStep" in transition else "no nextStep or action"
        )
        work.report(
            "E206",
            f"the transition of '{outcome}' has {problem}",
            transitions,
            outcome,
            on_key=True,
            hint=_FORMS,
        )
        return None
    if "nextStep" in transition:
        return _lower_next_step(work, steps, transitions, outcome, exit_on_other)
    if action == "exit":
        return _lower_exit(work, transitions, outcome)
    if outcome == OTHER and exit_on_other:
        work.report(
            "E205",
            "'other' must exit, unless exitOnOther is false",
            transitions,
            OTHER,
            on_key=True,
            hint=_OTHER_FORM,
        )
    return _lower_restart(work, transition)


_FORMS = (
    "write one of {nextStep: STEP}, {action: exit, reason: TEXT}, "
    "{action: restart-new-session, recipeId: ID}"
)
_OTHER_FORM = (
    "write {action: exit, reason: user-provided-other}, or set guardrails: {exitOnOther: false}"
)


def _lower_next_step(
    work: Lowering, steps: LocatedMap, transitions: LocatedMap, outcome: str, exit_on_other: bool
) -> Target | None:
    transition = transitions[outcome]
    _reject_beside(work, transition, "nextStep", ("reason", "recipeId", "status"))
    if outcome == OTHER and exit_on_other:
        work.report(
            "E205",
            "'other' must exit, unless exitOnOther is false",
            transition,
            "nextStep",
            on_key=True,
            hint=_OTHER_FORM,
        )
    name = transition["nextStep"]
    if name in steps:
        return Goto(name)
    if name in _ENDS:
        work.report(
            "E203",
            f"nextStep '{name}' is not a step",
            transition,
            "nextStep",
            hint="to end the recipe write {action: exit, reason: TEXT}",
        )
    elif name not in steps.lost:
        work.report_name(
            "E203", f"nextStep '{name}' is not a step", transition, "nextStep", steps, what="steps"
        )
    return None


# What people write for the end of a recipe where there is no step of that name.
_ENDS = frozenset(("_end", "end", "END", "exit", "finish", "done", "stop", ""))


def _lower_exit(work: Lowering, transitions: LocatedMap, outcome: str) -> Target:
    transition = transitions[outcome]
    _reject_beside(work, transition, "action: exit", ("recipeId",))
    reason = transition.get("reason")
    if reason is None or not reason.strip():
        code = "E205" if outcome == OTHER else "E204"
        at = "reason" if reason is not None else "action"
        example = "user-provided-other" if outcome == OTHER else "changes-committed"
        work.report(
            code,
            f"the exit of '{outcome}' has no reason",
            transition,
            at,
            hint=f"say in a few words why the recipe ends, e.g. reason: {example}",
        )
    failed = transition.get("status") == "failed"
    return Finish(str(reason or ""), "exit-failed" if failed else "exit")


def _lower_restart(work: Lowering, transition: LocatedMap) -> Target | None:
    _reject_beside(work, transition, "action: restart-new-session", ("reason", "status"))
    recipe_id = transition.get("recipeId")
    if recipe_id is None:
        work.report(
            "E206",
            "restart-new-session needs a recipeId",
            transition,
            "action",
            hint="name the recipe that the new session runs",
        )
        return None
    own = work.data.get("id")
    plan = work.plan_id if recipe_id == own else work.library.by_id(recipe_id)
    if plan is not None and work.library.dialect_of(plan) != "machine":
        work.report(
            "E208",
            f"'{recipe_id}' is a {work.library.dialect_of(plan)}, not a machine",
            transition,
            "recipeId",
            hint="a machine can restart only as a machine, one with `initialStep`",
        )
        return None
    if plan is None:
        ids = [*work.library.known_ids(), *([own] if isinstance(own, str) else [])]
        # The examples in the catalogue's folders are not machines.
        known = [name for name in dict.fromkeys(ids) if "/" not in name or "/" in recipe_id]
        work.report_name(
            "E208",
            f"there is no recipe '{recipe_id}'",
            transition,
            "recipeId",
            known,
            what="recipes",
        )
        return None
    return Restart(plan)


def _reject_beside(
    work: Lowering, transition: LocatedMap, form: str, keys: tuple[str, ...]
) -> None:
    for key in keys:
        if key in transition:
            work.report(
                "E206",
                f"'{key}' has no meaning beside {form}",
                transition,
                key,
                on_key=True,
                hint="remove it",
            )
