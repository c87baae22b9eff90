"""What `run --dry-run` shows: the recipe's structure in its author's words (A §19.3)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from orchestrate.plan.durations import as_written
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    OK,
    Abort,
    Agent,
    Ask,
    Block,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Leave,
    Node,
    Plan,
    Program,
    Restart,
    Run,
    RunAgent,
    Target,
    block_of,
    main_plan,
    nodes_in,
    plan_of,
    target_of,
)
from orchestrate.plan.settings import PARALLEL_ITEMS
from orchestrate.plan.visible import visible
from orchestrate.show.dry_run_parts import (
    asked_lines,
    check_lines,
    context_lines,
    first_line,
    gate_lines,
    loop_words,
    once_checked,
    performer,
    retry,
    rounds_words,
    rule_lines,
    update_lines,
)
from orchestrate.show.plan_head import head_lines
from orchestrate.show.plan_text import show_require

# A §13.2; shown only when a flag set another.
_A_DAY = 24 * 60 * 60.0


def render_dry_run(program: Program, unset: Container[str] = ()) -> str:
    """The main plan and then every plan it can reach. `unset`: variables that secrets lack."""
    main = main_plan(program)
    plans = [main, *(plan for plan in program.plans if plan is not main)]
    return "\n\n".join("\n".join(_plan_lines(program, plan, unset)) for plan in plans) + "\n"


def _plan_lines(program: Program, plan: Plan, unset: Container[str]) -> Iterator[str]:
    head = tuple(head_lines(program, plan, unset))
    match plan.dialect:
        case "machine":
            yield from _machine_lines(program, plan, head)
        case "recipe":
            yield from _recipe_lines(program, plan, head)
        case "workflow":
            yield from _workflow_lines(program, plan, head)


# Machines: the layout is A's, to the letter.


def _machine_lines(program: Program, plan: Plan, head: Iterable[str]) -> Iterator[str]:
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
        yield f"  Step timeout: {as_written(plan.defaults.timeout_s)}"
    if plan.defaults.retry is not None:
        yield f"  Retries: {retry(plan.defaults.retry)}"
    yield from head
    yield ""
    yield "  Steps:"
    block = plan.blocks[0]
    # The initial step comes first, wherever an include has put it.
    steps = [node for node in block.nodes if node.part_of is None]
    for node in sorted(steps, key=lambda node: node.id != block.entry):
        yield f"    {visible(node.name)}{' (initial)' if node.id == block.entry else ''}"
        if isinstance(node.op, Ask) and node.op.resolves:
            yield f"      {performer(program, node)}"
            yield from asked_lines(node.op, "      ")
        elif isinstance(node.op, Ask):
            targets = ((one, once_checked(block, node, one)) for one in node.op.outcomes)
            arrows = (
                f"{visible(outcome)} → {_machine_target(program, target)}"
                for outcome, target in targets
            )
            yield f"      Outcomes: {', '.join(arrows)}"
            yield from _machine_check_lines(program, block, node)
            default = f"(default: {plan.defaults.model})" if plan.defaults.model else "(default)"
            yield f"      Model: {visible(node.op.model or default)}"
            yield from _agent_lines(node.op.agent)
        elif isinstance(node.op, Run | Gate | Call):
            yield from _machine_work_lines(program, node)
        yield from rule_lines(node, "      ")


_AGENT_WORDS = {
    "permissions": "Permissions",
    "tools": "Tools",
    "max_turns": "Turns at most",
    "agent_args": "Arguments",
}


def _agent_lines(agent: Agent) -> Iterator[str]:
    """What a machine's step says of its agent."""
    if isinstance(agent, RunAgent):
        for key, value in agent.settings.items:
            shown = show(value).removeprefix("[").removesuffix("]")
            yield f"      {_AGENT_WORDS.get(key, key)}: {visible(shown)}"


def _machine_check_lines(program: Program, block: Block, node: Node) -> Iterator[str]:
    last = next((part for part in reversed(block.nodes) if part.part_of == node.id), None)
    if last is not None:
        given_up = f", then → {_machine_target(program, target_of(last, FAILED))}"
        yield from check_lines(program, block, node, "      ", given_up)


def _machine_work_lines(program: Program, node: Node) -> Iterator[str]:
    """A command, a gate or a call: what is done, and where each outcome leads."""
    if isinstance(node.op, Gate):
        yield from gate_lines(node.op, "      ")
    else:
        yield f"      {performer(program, node)}"
        yield from asked_lines(node.op, "      ")
    shown = {APPROVED: "approved", DENIED: "denied"}
    arrows = (
        f"{visible(shown.get(label, label))} → {_machine_target(program, target)}"
        for label, target in node.routes
        if label in shown or not label.startswith("@")
    )
    yield f"      Outcomes: {', '.join(arrows)}"


def _machine_target(program: Program, target: Target) -> str:
    match target:
        case Goto(node):
            return visible(node)
        case Restart(plan):
            return f"RESTART({visible(plan_of(program, plan).name)})"
        case Finish(end="exit-failed"):
            return "EXIT(failed)"
        case Finish() | Abort() | Leave():
            return "EXIT"


# Recipes.


def _recipe_lines(program: Program, plan: Plan, head: Iterable[str]) -> Iterator[str]:
    yield f"Recipe: {visible(plan.name)}"
    yield f"  Description: {visible(plan.description)}"
    yield f"  Version: {visible(plan.version)}"
    limits = {
        "max_depth": plan.limits.max_depth,
        "max_total_steps": plan.limits.max_steps,
        "max_parallel": plan.limits.max_parallel or PARALLEL_ITEMS,
    }
    shown = (f"{name}={'no limit' if most is None else most}" for name, most in limits.items())
    yield f"  Limits: {', '.join(shown)}"
    if plan.defaults.timeout_s is not None:
        yield f"  Step timeout: {as_written(plan.defaults.timeout_s)}"
    yield from head
    yield from context_lines(plan)
    yield ""
    staged = any(node.stage is not None for node in plan.blocks[0].nodes)
    yield "  Stages:" if staged else "  Steps:"
    stage = None
    for node in _steps(plan.blocks[0]):
        if node.stage is not None and node.stage != stage:
            stage = node.stage
            when = "" if node.stage_guard is None else f", when {visible(show(node.stage_guard))}"
            yield f"    {visible(stage)}{when}"
        pad = "      " if staged else "    "
        if isinstance(node.op, Gate) and not node.op.is_step:
            yield from gate_lines(node.op, pad)
        else:
            yield from _recipe_step_lines(program, plan, node, pad)


def _steps(block: Block) -> list[Node]:
    """Without rounds and checks, which belong to their steps."""
    return [node for node in block.nodes if node.part_of is None]


def _recipe_step_lines(program: Program, plan: Plan, node: Node, pad: str) -> Iterator[str]:
    op, inside = node.op, node
    loop = op if isinstance(op, Each) else None
    block = block_of(plan, loop.body) if loop is not None else plan.blocks[0]
    inner = _steps(block) if loop is not None else []
    has_steps = any(one.name != node.name for one in inner)
    if inner and not has_steps:
        inside = inner[0]
    yield f"{pad}{visible(node.name)}: {performer(program, inside)}"
    if node.guard is not None:
        yield f"{pad}  When: {visible(show(node.guard))}"
    if node.after:
        yield f"{pad}  After: {', '.join(map(visible, node.after))}"
    if loop is not None:
        if loop.rounds is None:
            yield f"{pad}  For each: {loop_words(loop)}"
        elif not has_steps:
            yield f"{pad}  Repeat: {rounds_words(loop, loop.rounds)}"
        yield from update_lines(loop, f"{pad}  ")
        if loop.collect is not None:
            yield f"{pad}  Collect: {visible(loop.collect)}"
    yield from asked_lines(inside.op, f"{pad}  ")
    if isinstance(inside.op, Ask):
        yield from check_lines(program, _block_of(plan, inside), inside, f"{pad}  ", "")
    if isinstance(inside.op, Gate):
        yield from gate_lines(inside.op, f"{pad}  ")
    yield from rule_lines(inside, f"{pad}  ")
    is_json = isinstance(inside.op, Ask | Run) and inside.op.capture.value == "json"
    words = [*([] if node.output is None else [visible(node.output)]), *["must be JSON"] * is_json]
    if words:
        yield f"{pad}  Output: {', '.join(words)}"
    if isinstance(inside.op, Run) and inside.op.exit_code is not None:
        yield f"{pad}  Exit code: {visible(inside.op.exit_code)}"
    if isinstance(node.op, Gate):
        return
    if not isinstance(target := target_of(node, FAILED), Abort | Leave):
        rest = "skip all that is left" if isinstance(target, Finish) else "go on"
        # The last step goes on to the end as well; only skip_remaining ends a run as partial.
        if target == node.follow:
            rest = "go on"
        yield f"{pad}  On failure: {rest}"
    for one in inner if has_steps else ():
        yield from _recipe_step_lines(program, plan, one, f"{pad}    ")


def _block_of(plan: Plan, node: Node) -> Block:
    return next(block for block in plan.blocks if node in block.nodes)


# Workflows.


def _workflow_lines(program: Program, plan: Plan, head: Iterable[str]) -> Iterator[str]:
    yield f"Workflow: {visible(plan.name)}"
    yield f"  Version: {visible(plan.version)}"
    if plan.folders is not None:
        folders = plan.folders
        yield (
            f"  Folders: inbox={visible(folders.inbox)}, processed={visible(folders.processed)}, "
            f"failed={visible(folders.failed)}, tasks=*{visible(folders.task_extension)}"
        )
    if plan.defaults.retry is not None:
        yield f"  Provider retries: {retry(plan.defaults.retry)}"
    yield from head
    yield from context_lines(plan)
    yield ""
    yield "  Steps:"
    yield from _workflow_block_lines(program, plan, plan.blocks[0], "    ")


def _workflow_block_lines(program: Program, plan: Plan, block: Block, pad: str) -> Iterator[str]:
    for node in _steps(block):
        role = f" (agent: {visible(node.role)})" if node.role is not None else ""
        yield f"{pad}{visible(node.name)}: {performer(program, node)}{role}"
        if node.guard is not None:
            yield f"{pad}  When: {visible(show(node.guard))}"
        yield from asked_lines(node.op, f"{pad}  ")
        yield from _need_lines(node, pad)
        yield from rule_lines(node, f"{pad}  ")
        yield from _result_lines(node, pad)
        yield from check_lines(program, block, node, f"{pad}  ", "")
        if isinstance(node.op, Gate):
            yield from gate_lines(node.op, f"{pad}  ")
        yield from _handler_lines(plan, block, node, pad)
        if isinstance(node.op, Each):
            yield from _move_lines(node.op, pad)
            yield f"{pad}  Steps:"
            yield from _workflow_block_lines(
                program, plan, block_of(plan, node.op.body), pad + "    "
            )


def _need_lines(node: Node, pad: str) -> Iterator[str]:
    if node.needs is None:
        return
    for word, paths in (("Requires", node.needs.required), ("Uses", node.needs.optional)):
        if paths:
            yield f"{pad}  {word}: {', '.join(visible(show(path)) for path in paths)}"
    if node.needs.inject is not None:
        inject = node.needs.inject
        said = first_line(inject.instruction)
        yield f"{pad}  Injects: {inject.mode}, {inject.position}: {said}"


def _result_lines(node: Node, pad: str) -> Iterator[str]:
    if not isinstance(node.op, Ask | Run):
        return
    capture = node.op.capture
    kept = f" → {visible(show(capture.output_file))}" if capture.output_file is not None else ""
    if capture.mode != "text" or kept:
        lenient = " or text" if capture.allow_parse_error else ""
        yield f"{pad}  Output: {capture.mode}{lenient}{kept}"
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


def _handler_lines(plan: Plan, block: Block, node: Node, pad: str) -> Iterator[str]:
    """`on:` as it was written, and how a failure without a handler is treated."""
    arrows = []
    good, bad = (APPROVED, DENIED) if isinstance(node.op, Gate) else (OK, FAILED)
    if (done := once_checked(block, node, good)) != node.follow:
        arrows.append(f"success → {_workflow_target(plan, done)}")
    # A gate that nothing handles ends the run, as its lines say.
    is_end = isinstance(node.op, Gate) and isinstance(target_of(node, bad), Abort)
    if node.on_failure == "handled" and not is_end:
        arrows.append(f"failure → {_workflow_target(plan, target_of(node, bad))}")
    if arrows:
        yield f"{pad}  On: {', '.join(arrows)}"
    treatment = {"tolerate": "go on", "count": "go on, end as failed", "ask": "ask a person"}
    if node.on_failure in treatment:
        yield f"{pad}  On failure: {treatment[node.on_failure]}"


def _workflow_target(plan: Plan, target: Target) -> str:
    match target:
        case Goto(node_id):
            nodes = nodes_in(plan)
            return visible(next(node.name for node in nodes if node.id == node_id))
        case Leave(label):
            return "next item" if label == OK else "item fails"
        case Finish():
            return "END"
        case Abort():
            return "FAIL"
        case Restart(other):
            return f"RESTART({visible(other)})"
