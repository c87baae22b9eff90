"""What a dry run says of steps in every dialect: who does them, under which rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrate.plan.data import FileText
from orchestrate.plan.durations import as_written
from orchestrate.plan.expr import Expr, ListExpr, MapExpr, Ref, Text, show
from orchestrate.plan.nodes import (
    OK,
    Ask,
    Block,
    BuiltinProvider,
    Call,
    CommandTemplate,
    Each,
    Gate,
    Goto,
    Label,
    NamedAgent,
    Node,
    Op,
    Plan,
    Program,
    Rounds,
    Run,
    Target,
    Wait,
    nodes_in,
    plan_of,
    target_of,
)
from orchestrate.plan.settings import Retry
from orchestrate.plan.visible import clip, plural, visible

LONGEST = 120


def performer(program: Program, node: Node) -> str:
    """Who or what does the step."""
    match node.op:
        case Ask(agent=agent, prompt=prompt):
            who = "agent"
            if isinstance(agent, NamedAgent):
                who = f"agent {visible(agent.name)}"
            elif isinstance(agent, BuiltinProvider | CommandTemplate):
                who = f"provider {visible(agent.name)}"
            if node.op.session_name is not None:
                who += f", session {visible(node.op.session_name)}"
            asks = f" < {visible(show(prompt.path))}" if isinstance(prompt, FileText) else ""
            return who + asks
        case Run():
            return command(node.op, _given(program, node))
        case Wait():
            return (
                f"wait for {plural(node.op.min_count, 'file')} {visible(show(node.op.pattern))} "
                f"(at most {as_written(node.op.timeout_s)}, every {node.op.poll_ms} ms)"
            )
        case Gate():
            return "approval"
        case Each(rounds=Rounds() as rounds):
            return f"repeat {rounds_words(node.op, rounds)}"
        case Each():
            return f"for each {loop_words(node.op)}"
        case Call(plan=plan):
            spread = f", spread over {visible(node.op.spread)}" if node.op.spread else ""
            if not isinstance(plan, str):
                return f"recipe {visible(show(plan))}{spread}"
            name = plan_of(program, plan).name
            return f"recipe {visible(name)}{'' if name == plan else f' ({visible(plan)})'}{spread}"


def _given(program: Program, node: Node) -> dict[str, Expr]:
    """What the variables of the plan that a node stands in are known to be."""
    plans = (plan for plan in program.plans if any(one is node for one in nodes_in(plan)))
    return dict(next(plans).context.items)


def command(run: Run, given: Mapping[str, Expr]) -> str:
    """The command line with the author's variables, where a script gets them by other names."""
    if run.is_list and (name := _list_name(run)) in given:
        value = given[name]
        words = [show(word) for word in value.items] if isinstance(value, ListExpr) else []
        return (
            f"command {first_line(' '.join(words))}"
            if words
            else f"nothing: {visible(name)} is empty"
        )
    line = " ".join(show(argument) for argument in run.argv)
    for name, value in run.values:
        line = line.replace(f"${{{name}}}", show(value))
    return f"command {first_line(line)}"


def _list_name(run: Run) -> str:
    """The variable that is the whole argument list."""
    return next((part.path[-1] for part in run.argv[0].parts if isinstance(part, Ref)), "")


def rounds_words(loop: Each, rounds: Rounds) -> str:
    words = [
        f"{word} {clip(visible(show(condition)), LONGEST)}"
        for word, condition in (("while", rounds.before), ("until", rounds.until))
        if condition is not None
    ]
    return f"{', '.join(words)}, at most {plural(loop.limit or 0, 'round')}"


def loop_words(loop: Each) -> str:
    words = [f"{visible(loop.variable)} in {clip(visible(show(loop.items)), LONGEST)}"]
    if loop.limit is not None:
        words.append(f"at most {plural(loop.limit, 'item')}")
    if loop.parallel:
        is_all = loop.parallel is True
        words.append("in parallel" if is_all else f"at most {loop.parallel} at once")
    if loop.spread:
        words.append(f"spread over {visible(loop.spread)}")
    return ", ".join(words)


def asked_lines(op: Op, pad: str) -> Iterator[str]:
    """What an agent is asked with which settings, and what a called file is given."""
    if isinstance(op, Ask) and isinstance(op.prompt, Text):
        yield f"{pad}Prompt: {short(op.prompt)}"
    if isinstance(op, Ask) and isinstance(op.agent, NamedAgent):
        yield from _values_line("Agent config", op.agent.config, pad)
    elif isinstance(op, Ask) and isinstance(op.agent, BuiltinProvider | CommandTemplate):
        yield from _values_line("Parameters", op.agent.params, pad)
    elif isinstance(op, Call):
        yield from _values_line("Context" if op.keeps_context else "With", op.arguments, pad)


def _values_line(word: str, values: MapExpr, pad: str) -> Iterator[str]:
    if values.items:
        yield f"{pad}{word}: {clip(visible(show(values)), LONGEST)}"


def rule_lines(node: Node, pad: str) -> Iterator[str]:
    if node.timeout_s is not None:
        yield f"{pad}  Timeout: {as_written(node.timeout_s)}"
    if node.retry is not None:
        yield f"{pad}  Retries: {retry(node.retry)}"


def retry(retry: Retry) -> str:
    pause = f", {as_written(retry.delay_s)} apart" if retry.delay_s else ""
    return f"{retry.attempts - 1}{pause}"


def context_lines(plan: Plan) -> Iterator[str]:
    told = {one.name for one in plan.inputs}
    items = [item for item in plan.context.items if item[0] not in told]
    if items:
        yield "  Context:"
        for key, value in items:
            yield f"    {visible(key)}: {clip(visible(show(value)), LONGEST)}"


def short(prompt: Text) -> str:
    return first_line(show(prompt))


def first_line(text: str) -> str:
    lines = text.strip("\n").split("\n")
    more = f" ({plural(len(lines), 'line')})" if len(lines) > 1 else ""
    return clip(visible(lines[0]), LONGEST) + more


def gate_lines(gate: Gate, pad: str) -> Iterator[str]:
    limit = "waits for a decision"
    if gate.timeout_s is not None:
        limit = f"after {as_written(gate.timeout_s)}: {gate.default}"
    yield f"{pad}(approval) {limit}"
    yield f"{pad}  Prompt: {short(gate.prompt)}"


def check_lines(
    program: Program, block: Block, node: Node, pad: str, given_up: str
) -> Iterator[str]:
    """What is checked after an answer, how often the agent may mend it, and what follows then."""
    parts = [part for part in block.nodes if part.part_of == node.id]
    if not parts:
        return
    # Each outcome that is checked has its own rounds, and one check more than that.
    asks = sum(isinstance(part.op, Ask) for part in parts)
    rounds, last = asks // (len(parts) - 2 * asks), parts[-1]
    needed = last.needs.required if last.needs else ()
    what = [f"file {visible(show(file))}" for file in needed]
    if last.op != Run((Text(("true",)),)):
        what.append(performer(program, last))
    yield f"{pad}Check: {'; '.join(what)} (at most {plural(rounds, 'round')}{given_up})"


def once_checked(block: Block, node: Node, label: Label) -> Target:
    """Where a label leads, if its check passes."""
    target = target_of(node, label)
    checks = (part for part in block.nodes if part.part_of == node.id and target == Goto(part.id))
    return next((target_of(check, OK) for check in checks), target)
