"""What `run --dry-run` shows: the recipe's structure in its author's words (A §19.3)."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.plan.expr import Text, show
from orchestrate.plan.nodes import (
    FAILED,
    OK,
    Abort,
    Ask,
    Block,
    BuiltinProvider,
    Call,
    CommandTemplate,
    Each,
    FileText,
    Finish,
    Gate,
    Goto,
    Leave,
    NamedAgent,
    Node,
    Plan,
    Program,
    Restart,
    Retry,
    Run,
    Target,
    Wait,
    main_plan,
    plan_of,
    target_of,
)
from orchestrate.plan.visible import clip, plural, visible
from orchestrate.show.plan_text import show_require, show_seconds

_LONGEST = 120
# A §13.2; shown only when a flag set another.
_A_DAY = 24 * 60 * 60.0


def render_dry_run(program: Program) -> str:
    """The main plan and then every plan it can reach."""
    main = main_plan(program)
    plans = [main, *(plan for plan in program.plans if plan is not main)]
    return "\n\n".join("\n".join(_plan_lines(program, plan)) for plan in plans) + "\n"


def _plan_lines(program: Program, plan: Plan) -> Iterator[str]:
    match plan.dialect:
        case "machine":
            yield from _machine_lines(program, plan)
        case "recipe":
            yield from _recipe_lines(program, plan)
        case "workflow":
            yield from _workflow_lines(program, plan)


# Machines: the layout is A's, to the letter.


def _machine_lines(program: Program, plan: Plan) -> Iterator[str]:
    limits = plan.limits
    guardrails = f"maxStepVisits={limits.max_visits}, maxTotalSteps={limits.max_steps}"
    guardrails += f", exitOnOther={str(plan.exit_on_other).lower()}"
    if limits.max_restarts is not None:
        guardrails += f", maxRestarts={limits.max_restarts}"
    yield f"Recipe: {visible(plan.name)}"
    yield f"  Label: {visible(plan.title)}"
    yield f"  Description: {visible(plan.description)}"
    yield f"  Guardrails: {guardrails}"
    if plan.defaults.model is not None:
        yield f"  Model: {visible(plan.defaults.model)}"
    if plan.defaults.timeout_s not in (None, _A_DAY):
        yield f"  Step timeout: {show_seconds(plan.defaults.timeout_s)}"
    if plan.defaults.retry is not None:
        yield f"  Retries: {_retry(plan.defaults.retry)}"
    yield from _secret_lines(plan)
    yield ""
    yield "  Steps:"
    block = plan.blocks[0]
    # The initial step comes first, wherever an include has put it.
    for node in sorted(block.nodes, key=lambda node: node.id != block.entry):
        yield f"    {visible(node.name)}{' (initial)' if node.id == block.entry else ''}"
        if isinstance(node.op, Ask):
            arrows = (
                f"{visible(outcome)} → {_machine_target(program, target_of(node, outcome))}"
                for outcome in node.op.outcomes
            )
            yield f"      Outcomes: {', '.join(arrows)}"
            default = f"(default: {plan.defaults.model})" if plan.defaults.model else "(default)"
            yield f"      Model: {visible(node.op.model or default)}"
        if node.retry is not None:
            yield f"      Retries: {_retry(node.retry)}"


def _secret_lines(plan: Plan) -> Iterator[str]:
    if plan.secrets:
        yield f"  Secrets: {', '.join(visible(secret.name) for secret in plan.secrets)}"


def _machine_target(program: Program, target: Target) -> str:
    match target:
        case Goto(node):
            return visible(node)
        case Restart(plan):
            return f"RESTART({visible(plan_of(program, plan).name)})"
        case Finish() | Abort() | Leave():
            return "EXIT"


# Recipes.


def _recipe_lines(program: Program, plan: Plan) -> Iterator[str]:
    yield f"Recipe: {visible(plan.name)}"
    yield f"  Description: {visible(plan.description)}"
    yield f"  Version: {visible(plan.version)}"
    limits = {
        "max_depth": plan.limits.max_depth,
        "max_total_steps": plan.limits.max_steps,
        "max_parallel": plan.limits.max_parallel,
    }
    shown = (f"{name}={'no limit' if most is None else most}" for name, most in limits.items())
    yield f"  Limits: {', '.join(shown)}"
    if plan.defaults.timeout_s is not None:
        yield f"  Step timeout: {show_seconds(plan.defaults.timeout_s)}"
    yield from _secret_lines(plan)
    yield from _context_lines(plan)
    yield ""
    staged = any(node.stage is not None for node in plan.blocks[0].nodes)
    yield "  Stages:" if staged else "  Steps:"
    stage = None
    for node in plan.blocks[0].nodes:
        if node.stage is not None and node.stage != stage:
            stage = node.stage
            yield f"    {visible(stage)}"
        pad = "      " if staged else "    "
        if isinstance(node.op, Gate):
            yield from _gate_lines(node.op, pad)
        else:
            yield from _recipe_step_lines(program, plan, node, pad)


def _gate_lines(gate: Gate, pad: str) -> Iterator[str]:
    limit = "waits until somebody decides"
    if gate.timeout_s is not None:
        limit = f"after {show_seconds(gate.timeout_s)}: {gate.default}"
    yield f"{pad}(approval) {limit}"
    yield f"{pad}  Prompt: {_short(gate.prompt)}"


def _recipe_step_lines(program: Program, plan: Plan, node: Node, pad: str) -> Iterator[str]:
    op, inside = node.op, node
    loop = op if isinstance(op, Each) else None
    if loop is not None:
        inside = _body(plan, loop).nodes[0]
    yield f"{pad}{visible(node.name)}: {_performer(program, inside)}"
    if node.guard is not None:
        yield f"{pad}  When: {visible(show(node.guard))}"
    if node.after:
        yield f"{pad}  After: {', '.join(map(visible, node.after))}"
    if loop is not None:
        yield f"{pad}  For each: {_loop(loop)}"
        if loop.collect is not None:
            yield f"{pad}  Collect: {visible(loop.collect)}"
    if isinstance(inside.op, Ask) and isinstance(inside.op.prompt, Text):
        yield f"{pad}  Prompt: {_short(inside.op.prompt)}"
    if isinstance(inside.op, Call) and inside.op.arguments.items:
        yield f"{pad}  Context: {clip(visible(show(inside.op.arguments)), _LONGEST)}"
    yield from _rule_lines(inside, pad)
    if node.output is not None:
        yield f"{pad}  Output: {visible(node.output)}"
    if not isinstance(target := target_of(node, FAILED), Abort):
        rest = "skip all that is left" if isinstance(target, Finish) else "go on"
        # The last step goes on to the end as well; only skip_remaining ends a run as partial.
        if target == node.follow:
            rest = "go on"
        yield f"{pad}  On failure: {rest}"


# Workflows.


def _workflow_lines(program: Program, plan: Plan) -> Iterator[str]:
    yield f"Workflow: {visible(plan.name)}"
    yield f"  Version: {visible(plan.version)}"
    if plan.folders is not None:
        folders = plan.folders
        yield (
            f"  Folders: inbox={visible(folders.inbox)}, processed={visible(folders.processed)}, "
            f"failed={visible(folders.failed)}, tasks=*{visible(folders.task_extension)}"
        )
    if plan.defaults.retry is not None:
        yield f"  Provider retries: {_retry(plan.defaults.retry)}"
    yield from _secret_lines(plan)
    yield from _context_lines(plan)
    yield ""
    yield "  Steps:"
    yield from _workflow_block_lines(program, plan, plan.blocks[0], "    ")


def _workflow_block_lines(program: Program, plan: Plan, block: Block, pad: str) -> Iterator[str]:
    for node in block.nodes:
        role = f" (agent: {visible(node.role)})" if node.role is not None else ""
        yield f"{pad}{visible(node.name)}: {_performer(program, node)}{role}"
        if node.guard is not None:
            yield f"{pad}  When: {visible(show(node.guard))}"
        yield from _need_lines(node, pad)
        yield from _rule_lines(node, pad)
        yield from _result_lines(node, pad)
        yield from _handler_lines(plan, node, pad)
        if isinstance(node.op, Each):
            yield from _move_lines(node.op, pad)
            yield f"{pad}  Steps:"
            yield from _workflow_block_lines(program, plan, _body(plan, node.op), pad + "    ")


def _need_lines(node: Node, pad: str) -> Iterator[str]:
    if node.needs is None:
        return
    for word, paths in (("Requires", node.needs.required), ("Uses", node.needs.optional)):
        if paths:
            yield f"{pad}  {word}: {', '.join(visible(show(path)) for path in paths)}"
    if node.needs.inject is not None:
        yield f"{pad}  Injects: {node.needs.inject.mode}, {node.needs.inject.position}"


def _result_lines(node: Node, pad: str) -> Iterator[str]:
    if not isinstance(node.op, Ask | Run):
        return
    capture = node.op.capture
    kept = f" → {visible(show(capture.output_file))}" if capture.output_file is not None else ""
    if capture.mode != "text" or kept:
        yield f"{pad}  Output: {capture.mode}{kept}"
    if capture.schema is not None:
        yield f"{pad}  Schema: {visible(show(capture.schema))}"
    for require in capture.require:
        yield f"{pad}  Asserts: {show_require(require)}"
    if node.op.environment.secrets:
        yield f"{pad}  Secrets: {', '.join(map(visible, node.op.environment.secrets))}"


def _move_lines(loop: Each, pad: str) -> Iterator[str]:
    if loop.moves is not None:
        places = (("success", loop.moves.success), ("failure", loop.moves.failure))
        arrows = (f"{word} → {visible(show(to))}" for word, to in places if to is not None)
        yield f"{pad}  Item's file: {', '.join(arrows)}"


def _handler_lines(plan: Plan, node: Node, pad: str) -> Iterator[str]:
    """`on:` as it was written, and how a failure without a handler is treated."""
    arrows = []
    if (done := target_of(node, OK)) != node.follow:
        arrows.append(f"success → {_workflow_target(plan, done)}")
    if node.on_failure == "handled":
        arrows.append(f"failure → {_workflow_target(plan, target_of(node, FAILED))}")
    if arrows:
        yield f"{pad}  On: {', '.join(arrows)}"
    treatment = {"tolerate": "go on", "count": "go on, end as failed", "ask": "ask a person"}
    if node.on_failure in treatment:
        yield f"{pad}  On failure: {treatment[node.on_failure]}"


def _workflow_target(plan: Plan, target: Target) -> str:
    match target:
        case Goto(node_id):
            nodes = (node for block in plan.blocks for node in block.nodes)
            return visible(next(node.name for node in nodes if node.id == node_id))
        case Leave(label):
            return "next item" if label == OK else "item fails"
        case Finish():
            return "END"
        case Abort():
            return "FAIL"
        case Restart(other):
            return f"RESTART({visible(other)})"


# What several dialects share.


def _performer(program: Program, node: Node) -> str:
    """Who or what does the step."""
    match node.op:
        case Ask(agent=agent, prompt=prompt):
            who = "agent"
            if isinstance(agent, NamedAgent):
                who = f"agent {visible(agent.name)}"
            elif isinstance(agent, BuiltinProvider | CommandTemplate):
                who = f"provider {visible(agent.name)}"
            asks = f" < {visible(show(prompt.path))}" if isinstance(prompt, FileText) else ""
            return who + asks
        case Run():
            return f"command {_command(node.op)}"
        case Wait():
            return (
                f"wait for {plural(node.op.min_count, 'file')} {visible(show(node.op.pattern))} "
                f"(at most {show_seconds(node.op.timeout_s)}, every {node.op.poll_ms} ms)"
            )
        case Gate():
            return "approval"
        case Each():
            return f"for each {_loop(node.op)}"
        case Call(plan=plan):
            name = plan_of(program, plan).name if isinstance(plan, str) else show(plan)
            return f"recipe {visible(name)}"


def _command(run: Run) -> str:
    """The command line with the author's variables, where a script gets them by other names."""
    words = " ".join(show(argument) for argument in run.argv)
    for name, value in run.values:
        words = words.replace(f"${{{name}}}", show(value))
    return _first_line(words)


def _body(plan: Plan, loop: Each) -> Block:
    return next(block for block in plan.blocks if block.id == loop.body)


def _loop(loop: Each) -> str:
    words = [f"{visible(loop.variable)} in {clip(visible(show(loop.items)), _LONGEST)}"]
    if loop.limit is not None:
        words.append(f"at most {plural(loop.limit, 'item')}")
    if loop.parallel:
        words.append("in parallel")
    return ", ".join(words)


def _rule_lines(node: Node, pad: str) -> Iterator[str]:
    if node.timeout_s is not None:
        yield f"{pad}  Timeout: {show_seconds(node.timeout_s)}"
    if node.retry is not None:
        yield f"{pad}  Retries: {_retry(node.retry)}"


def _retry(retry: Retry) -> str:
    pause = f", {show_seconds(retry.delay_s)} apart" if retry.delay_s else ""
    return f"{retry.attempts - 1}{pause}"


def _context_lines(plan: Plan) -> Iterator[str]:
    if plan.context.items:
        yield "  Context:"
        for key, value in plan.context.items:
            yield f"    {visible(key)}: {clip(visible(show(value)), _LONGEST)}"


def _short(prompt: Text) -> str:
    return _first_line(show(prompt))


def _first_line(text: str) -> str:
    lines = text.strip("\n").split("\n")
    more = f" ({plural(len(lines), 'line')})" if len(lines) > 1 else ""
    return clip(visible(lines[0]), _LONGEST) + more
