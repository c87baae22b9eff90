"""What a dry run says of steps in every dialect: who does them, under which rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orchestrate.plan.data import FileText
from orchestrate.plan.durations import as_written
from orchestrate.plan.expr import CARRIER, Const, Expr, ListExpr, MapExpr, Ref, Text, show
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
from orchestrate.show.plan_head import visit_limit_words

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
        case Run(cwd=cwd, stdin=stdin):
            line = command(node.op, _given(program, node))
            line += f" < {visible(show(stdin.path))}" if stdin is not None else ""
            return line + (f", in {visible(show(cwd))}" if cwd is not None else "")
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
    return f"command {_command_line(run)}"


def _command_line(program: Run | CommandTemplate) -> str:
    line = " ".join(show(argument) for argument in program.argv)
    for name, value in program.values:
        line = line.replace(f"${{{name}}}", show(value))
    return first_line(line)


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
        if isinstance(op.agent, CommandTemplate):
            stdin = ", the prompt by stdin" if op.agent.input_mode == "stdin" else ""
            yield f"{pad}Program: {_command_line(op.agent)}{stdin}"
        yield from _values_line("Parameters", op.agent.params, pad)
    elif isinstance(op, Call):
        yield from _values_line("Context" if op.keeps_context else "With", op.arguments, pad)
        most = {"max_depth": op.max_depth, "max_total_steps": op.max_steps}
        if shown := [f"{name}={value}" for name, value in most.items() if value is not None]:
            yield f"{pad}Recursion: {', '.join(shown)}"
    if isinstance(op, Ask | Run):
        named = [(name, Const(value)) for name, value in op.environment.variables]
        yield from _values_line("Environment", MapExpr((*named, *_set_by_author(op))), pad)


def _set_by_author(op: Ask | Run) -> list[tuple[str, Expr]]:
    """The variables of `env:`, without those that carry values into a script."""
    values = op.values if isinstance(op, Run) else ()
    return [(name, value) for name, value in values if not name.startswith(CARRIER)]


def update_lines(loop: Each, pad: str) -> Iterator[str]:
    if loop.rounds is not None:
        yield from _values_line("Update", loop.rounds.updates, pad)


def _values_line(word: str, values: MapExpr, pad: str) -> Iterator[str]:
    if values.items:
        yield f"{pad}{word}: {clip(visible(show(values)), LONGEST)}"


def rule_lines(node: Node, pad: str) -> Iterator[str]:
    """The rules around a step, whoever does it."""
    if node.timeout_s is not None:
        yield f"{pad}Timeout: {as_written(node.timeout_s)}"
    if node.retry is not None:
        yield f"{pad}Retries: {retry(node.retry)}"
    if budgets := visit_limit_words(node):
        yield f"{pad}Limits of a visit: {budgets}"
    if node.effect:
        yield f"{pad}Effect: never runs twice by itself"
    elif node.on_lost == "stop":
        yield f"{pad}If lost: waits for a person"


def retry(retry: Retry) -> str:
    words = [str(retry.attempts - 1)]
    if retry.delay_s:
        words.append(f"{as_written(retry.delay_s)} apart")
        if retry.backoff != "none":
            words.append(f"{retry.backoff} backoff")
        if retry.max_delay_s is not None:
            words.append(f"at most {as_written(retry.max_delay_s)}")
    return ", ".join(words)


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
    own_time = last.timeout_s if last.timeout_s != node.timeout_s else None
    most = "" if own_time is None else f", {as_written(own_time)} each"
    what = [f"file {visible(show(file))}" for file in needed]
    if last.op != Run((Text(("true",)),)):
        what.append(performer(program, last))
    after = "".join(f"after {visible(one)}, " for one in _narrowed(node, parts))
    how_often = f"{after}at most {plural(rounds, 'round')}{most}{given_up}"
    yield f"{pad}Check: {'; '.join(what)} ({how_often})"


def _narrowed(node: Node, parts: Iterable[Node]) -> list[Label]:
    """The outcomes that are checked, where these are not all but `other`."""
    checks = {Goto(part.id) for part in parts}
    outcomes = node.op.outcomes if isinstance(node.op, Ask) else ()
    checked = [one for one in outcomes if target_of(node, one) in checks]
    return [] if {*outcomes} - {*checked} <= {"other"} else checked


def once_checked(block: Block, node: Node, label: Label) -> Target:
    """Where a label leads, if its check passes."""
    target = target_of(node, label)
    checks = (part for part in block.nodes if part.part_of == node.id and target == Goto(part.id))
    return next((target_of(check, OK) for check in checks), target)
