"""Dialect C: a list of steps with gotos and loops becomes blocks of nodes with total routes."""

from __future__ import annotations

from functools import partial
from typing import Any

from orchestrate.dialects.checks import is_checked, lower_check, with_rounds
from orchestrate.dialects.effects import ONCE, check_effect, has_effect, lost_rule
from orchestrate.dialects.inputs import lower_inputs, secrets_among, with_defaults
from orchestrate.dialects.limits import lower_limits, step_limits
from orchestrate.dialects.lowering import Lowering, constant_map, lower_secrets
from orchestrate.dialects.resolvers import with_resolver
from orchestrate.dialects.workflow.calls import lower_outputs
from orchestrate.dialects.workflow.checks import check_step_form, step_kinds
from orchestrate.dialects.workflow.loops import lower_each, lower_repeat, lower_resolver
from orchestrate.dialects.workflow.nesting import loop_of, loops_around
from orchestrate.dialects.workflow.ops import StepLowering, lower_op, lower_rules
from orchestrate.dialects.workflow.paths import check_folder, lower_pattern
from orchestrate.dialects.workflow.providers import Providers, read_providers
from orchestrate.dialects.workflow.scope import NAMESPACES, BlockScope, Resolver
from orchestrate.lang.dollar import parse_dollar
from orchestrate.plan.circles import MOST_VISITS, asking_in_circles, with_brakes
from orchestrate.plan.ends import step_failed, step_lost
from orchestrate.plan.expr import Text
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
    BlockId,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Label,
    Leave,
    Node,
    NodeId,
    OnFailure,
    Op,
    Plan,
    Run,
    Target,
    Wait,
)
from orchestrate.plan.settings import Folders, Limits
from orchestrate.record import mutable_record, record, replace
from orchestrate.source.located import LocatedMap, as_map

END = "_end"
# State keeps an item's lifecycle beside its steps (C 1.2), so no step in a loop can be called that.
_RESERVED_IN_LOOP = "lifecycle"


def lower_workflow(work: Lowering) -> Plan | None:
    """The plan of a workflow document; None when it has no usable step."""
    data = work.data
    top = _scope_of(work, data.get("steps"), "", (), None)
    lowering = _Workflow(
        work=work,
        providers=read_providers(work),
        strict=data.get("strict_flow", True),
        bodies=[],
    )
    _check_context(work)
    main = lowering.block("main", data.get("steps"), top, owner=None)
    folders = _lower_folders(work, top)
    inputs = lower_inputs(work, is_workflow=True)
    if main is None:
        return None
    plan = Plan(
        id=work.plan_id,
        dialect="workflow",
        name=str(data.get("name") or work.document.path.stem),
        title="",
        description="",
        version=str(data.get("version", "")),
        blocks=(main, *lowering.bodies),
        limits=lower_limits(work, Limits(), {}),
        context=with_defaults(inputs, constant_map(data.get("context"))),
        folders=folders,
        secrets=(*lower_secrets(work), *secrets_among(inputs)),
        inputs=inputs,
        outputs=lower_outputs(work, top),
    )
    _check_brakes(work, plan)
    return with_brakes(plan)


def _check_brakes(work: Lowering, plan: Plan) -> None:
    """A circle that asks an agent should say how long it may go on."""
    asking = next(asking_in_circles(plan), None)
    if asking is not None and plan.limits == Limits():
        work.report_at(
            "W107",
            f"step '{asking.name}' is on a circle and asks an agent, and nothing limits it",
            asking.span,
            hint=f'add limits: {{visits: 10}} (version: "1.4"), or calls, cost_usd, time; without '
            f"it the run ends when the step is reached {MOST_VISITS} times",
        )


def _check_context(work: Lowering) -> None:
    """Values of the context are inserted, never scanned again."""
    context = as_map(work.data.get("context"))
    for key, value in context.items():
        if isinstance(value, str) and any(
            variable.segments[0] in NAMESPACES for variable in parse_dollar(value).variables
        ):
            work.report(
                "W407",
                "values of the context are literal: '${' is not filled in here",
                context,
                key,
                hint="use the variable where the value is used, for example in a command",
            )


def _lower_folders(work: Lowering, scope: BlockScope) -> Folders:
    data = work.data
    for key in ("inbox_dir", "processed_dir", "failed_dir"):
        if key in data:
            check_folder(Resolver(work, scope, None), data, key)
    return Folders(
        inbox=data.get("inbox_dir", "inbox"),
        processed=data.get("processed_dir", "processed"),
        failed=data.get("failed_dir", "failed"),
        task_extension=data.get("task_extension", ".task"),
    )


def _scope_of(
    work: Lowering, steps: Any, prefix: str, variables: tuple[str, ...], outer: BlockScope | None
) -> BlockScope:
    """The steps of a block by name; a second one of the same name is reported and left out."""
    named: dict[str, LocatedMap] = {}
    repeated: set[str] = set()
    for step in steps or ():
        name = step.get("name")
        if name is None:
            continue
        if name == END or (outer is not None and name == _RESERVED_IN_LOOP):
            what = "the end of the run" if name == END else "an item's record in the state"
            work.report(
                "E403",
                f"a step cannot be called '{name}': that name means {what}",
                step,
                "name",
                hint="choose another name",
            )
        elif name in named:
            repeated.add(name)
            first = work.span(named[name], "name")
            work.report(
                "E402",
                f"another step is called '{name}' already, at {first.file}:{first.line}",
                step,
                "name",
                hint="give each step of a block its own name",
            )
        else:
            named[name] = step
    return BlockScope(named, prefix, variables, outer, frozenset(repeated))


@record
class _Handlers:
    """The targets that `on:` names, as far as they are good."""

    ok: Target | None = None
    failed: Target | None = None


@mutable_record
class _Workflow:
    """Lowers blocks; loops add their bodies to `bodies`."""

    work: Lowering
    providers: Providers
    strict: bool
    bodies: list[Block]

    def block(
        self, block_id: BlockId, steps: Any, scope: BlockScope, owner: NodeId | None
    ) -> Block | None:
        """The nodes of a list of steps, each followed by the next."""
        listed = [step for step in steps or () if scope.has(step)]
        end: Target = Leave(OK) if owner is not None else Finish("completed")
        nodes: list[Node] = []
        for position, step in enumerate(listed):
            follow: Target = end
            if position + 1 < len(listed):
                follow = Goto(scope.prefix + listed[position + 1]["name"])
            nodes += self.nodes(step, scope, follow)
        for step in steps or ():
            if not scope.has(step):
                self.only_check(step, scope)
        if not nodes:
            return None
        return Block(block_id, nodes[0].id, tuple(nodes), owner)

    def only_check(self, step: LocatedMap, scope: BlockScope) -> None:
        """Look for the mistakes of a step whose name is unusable; no node comes of it."""
        bodies, uses = len(self.bodies), len(self.work.uses)
        self.nodes(step, scope, Finish(END))
        del self.bodies[bodies:]
        del self.work.uses[uses:]

    def nodes(self, step: LocatedMap, scope: BlockScope, follow: Target) -> tuple[Node, ...]:
        """The step, with its rounds."""
        name = step.get("name", "?")
        node_id = scope.prefix + name
        resolver = Resolver(self.work, scope, node_id)
        kinds = step_kinds(self.work, step)
        kind = kinds[0] if len(kinds) == 1 else None
        check_step_form(self.work, step, kind)
        check_effect(self.work, step, "E408", "retries", "on_lost")
        one = StepLowering(self.work, step, kind, resolver, self.providers)
        op: Op = Run((Text(("true",)),))
        for each_kind in kinds:
            op = self.op(replace(one, kind=each_kind), node_id, scope)
        rules = lower_rules(one)
        handlers = self.handlers(step, scope)
        on_failure, failed = self.failure(step, handlers, scope, follow)
        routes: list[tuple[Label, Target]] = [(OK, handlers.ok or follow), (FAILED, failed)]
        if isinstance(op, Gate):
            # Whatever becomes of failures: only the author's own handler lets a denied run go on.
            denied = handlers.failed or Abort("denied", f"step '{name}' was denied")
            on_failure = "handled"
            routes = [(APPROVED, handlers.ok or follow), (DENIED, denied)]
        elif not isinstance(op, Each | Wait | Call):
            again = Goto(node_id)
            lost = step_lost(name)
            routes.append((LOST, again if lost_rule(step) == "retry" else lost))
        if rules.guard is not None:
            routes.append((SKIPPED, follow))
        node = Node(
            id=node_id,
            name=name,
            op=op,
            routes=tuple(routes),
            follow=follow,
            span=self.work.span_of_name(step, "name"),
            guard=rules.guard,
            needs=rules.needs,
            retry=ONCE if has_effect(step) else rules.retry,
            timeout_s=rules.timeout_s,
            on_failure=on_failure,
            on_lost=lost_rule(step),
            effect=has_effect(step),
            role=step.get("agent"),
            **step_limits(step),
        )
        if isinstance(op, Each):
            return with_resolver(node, as_map(step.get("for_each")), partial(lower_resolver, one))
        if not isinstance(op, Ask) or not is_checked(step):
            return (node,)
        file_at = partial(lower_pattern, resolver)
        return with_rounds(lower_check(resolver, step, node, file_at))

    def op(self, one: StepLowering, node_id: NodeId, scope: BlockScope) -> Op:
        if one.kind in ("for_each", "repeat"):
            return self.loop(one, node_id, scope)
        return lower_op(one)

    def failure(
        self, step: LocatedMap, handlers: _Handlers, scope: BlockScope, follow: Target
    ) -> tuple[OnFailure, Target]:
        """A handler, else the policy. In a loop a failure ends the iteration (rulings §9)."""
        if handlers.failed is not None:
            return "handled", handlers.failed
        if scope.in_loop:
            return ("stop" if self.strict else "tolerate"), Leave(FAILED)
        if self.strict:
            return "stop", step_failed(str(step.get("name")))
        return "tolerate", follow

    def handlers(self, step: LocatedMap, scope: BlockScope) -> _Handlers:
        """`on.always` overrides `on.success` and `on.failure`."""
        on = as_map(step.get("on"))
        targets = {event: self.goto(on, event, scope) for event in on}
        if "always" in on:
            for event in ("success", "failure"):
                if event in on:
                    self.work.report(
                        "W406",
                        f"on.{event} is never used: on.always overrides it",
                        on,
                        event,
                        on_key=True,
                        hint=f"remove {event}, or remove always",
                    )
            return _Handlers(targets["always"], targets["always"])
        return _Handlers(targets.get("success"), targets.get("failure"))

    def goto(self, on: LocatedMap, event: str, scope: BlockScope) -> Target | None:
        handler = on[event] or {}
        name = handler.get("goto")
        if name is None:
            return None
        if scope.leaves_parallel(name) and (name == END or scope.find(name) is not None):
            self.work.report(
                "E418",
                f"goto '{name}' leaves a loop whose items run at the same time",
                handler,
                "goto",
                hint="let the item fail or end, and decide behind the loop",
            )
            return None
        if name == END:
            return Finish(END)
        found = scope.find(name)
        if found is not None:
            return Goto(found[0])
        loops = loops_around(self.work.data.get("steps"), name)
        if loops:
            nearest = next((loop for loop in reversed(loops) if scope.find(loop)), loops[0])
            self.work.report(
                "E405",
                f"goto cannot jump into a loop: '{name}' is inside '{loops[-1]}'",
                handler,
                "goto",
                hint=f"jump to the loop itself: goto: {nearest}",
            )
        elif "${" in name:
            self.work.report(
                "E404",
                "a goto cannot be computed: variables are not filled in here",
                handler,
                "goto",
                hint="name the step; to choose one, use steps with `when`",
            )
        else:
            self.work.report_name(
                "E404",
                f"goto target '{name}' is not a step",
                handler,
                "goto",
                [*scope.names(), END],
                what="steps",
            )
        return None

    def loop(self, one: StepLowering, node_id: NodeId, scope: BlockScope) -> Op:
        """An Each node; its body is an ordinary block whose scope lies inside this one."""
        loop = loop_of(one.step)
        own = (loop.get("as", "item"),) if one.kind == "for_each" else ()
        inner = replace(
            _scope_of(self.work, loop.get("steps"), f"{node_id}/", (*scope.variables, *own), scope),
            parallel=bool(loop.get("parallel", False)),
        )
        body_id = f"{node_id}/"
        # Reserve the place, so that outer bodies come before the ones inside them.
        position = len(self.bodies)
        body = self.block(body_id, loop.get("steps"), inner, owner=node_id)
        if body is not None:
            self.bodies.insert(position, body)
        inside = Resolver(self.work, inner, None)
        if one.kind == "repeat":
            return lower_repeat(one, body_id, inside)
        return lower_each(one, body_id, stop_on_failure=self.strict, inside=inside)
