"""A program as text: everything in it, in the order written, nothing twice.

Goldens compare this text, so it is complete and deterministic. What equals its default is left
out; only prompts of several lines are cut to their first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrate.diagnostics import Span
from orchestrate.exits import usual_finish
from orchestrate.plan.data import Capture, Environment, FileNeeds, FileText, Require
from orchestrate.plan.expr import MapExpr, Ref, Text
from orchestrate.plan.nodes import (
    Abort,
    Agent,
    Ask,
    Block,
    BuiltinProvider,
    Call,
    CommandTemplate,
    Each,
    Finish,
    Gate,
    Goto,
    Leave,
    NamedAgent,
    Node,
    Op,
    Plan,
    Program,
    Restart,
    Run,
    RunAgent,
    Target,
    Wait,
    main_plan,
)
from orchestrate.plan.settings import Defaults, Folders, Input, Limits, Retry
from orchestrate.plan.visible import plural, visible
from orchestrate.record import field_names
from orchestrate.show.expression_text import (
    show_condition,
    show_expression,
    show_parts,
    show_reference,
    show_scalar,
    show_seconds,
    show_string,
    show_text,
)
from orchestrate.show.plan_head import kind_words

_INDENT = "  "
_LONG_PROMPT = 100


def render_text(program: Program) -> str:
    """The main plan, the plans it can reach, and the files that went into them."""
    main = main_plan(program)
    plans = [main, *(plan for plan in program.plans if plan is not main)]
    parts = ["\n".join(_plan_lines(plan)) for plan in plans]
    if program.files:
        files = [f"  {visible(file.path)} sha256:{file.sha256[:12]}" for file in program.files]
        parts.append("\n".join(["files", *files]))
    return "\n\n".join(parts) + "\n"


def _plan_lines(plan: Plan) -> Iterator[str]:
    yield f"{plan.dialect} {visible(plan.id)}"
    for word in ("name", "title", "description", "version"):
        if value := getattr(plan, word):
            yield f"  {word}: {show_string(value)}"
    yield from _settings("limits", plan.limits, Limits())
    yield from _settings("defaults", plan.defaults, Defaults(), apart=("retry",))
    if plan.defaults.retry is not None:
        yield f"  default retry: {_show_retry(plan.defaults.retry)}"
    if plan.dialect == "machine" or not plan.exit_on_other:
        yield f"  exit_on_other: {str(plan.exit_on_other).lower()}"
    if plan.folders is not None:
        yield from _settings("folders", plan.folders, None)
    for secret in plan.secrets:
        yield f"  secret {visible(secret.name)}  [{_show_place(secret.span)}]"
    for one in plan.inputs:
        yield f"  input {show_input(one)}  [{_show_place(one.span)}]"
    yield from _map_lines("outputs", plan.outputs, _INDENT)
    yield from _map_lines("context", plan.context, _INDENT)
    blocks = {block.id: block for block in plan.blocks}
    yield from _block_lines(plan.blocks[0], blocks, _INDENT)


def show_input(one: Input) -> str:
    """What an input takes, on one line."""
    words = [visible(one.name), one.type]
    if one.secret:
        words.append(f"secret, from {one.variable}")
    elif one.default is None:
        words.append("required")
    else:
        words.append(f"default {show_expression(one.default)}")
    about = f": {visible(one.description)}" if one.description else ""
    return ", ".join((*words, *kind_words(one))) + about


def _show_place(span: Span) -> str:
    return f"{visible(span.file)}:{span.line}:{span.column}+{span.length}"


def _settings(
    title: str, value: Limits | Defaults | Folders, default: Limits | Defaults | None,
    *, apart: tuple[str, ...] = (),
) -> Iterator[str]:  # fmt: skip
    """A flat record on one line, without what equals its default."""
    pairs = [
        f"{name}={show_scalar(getattr(value, name))}"
        for name in field_names(value)
        if name not in apart and (default is None or getattr(value, name) != getattr(default, name))
    ]
    if pairs:
        yield f"  {title}: {' '.join(pairs)}"


def _block_lines(block: Block, blocks: dict[str, Block], pad: str) -> Iterator[str]:
    yield f"{pad}block {visible(block.id)}, starts at {visible(block.entry)}"
    for node in block.nodes:
        yield from _node_lines(node, blocks, pad + _INDENT)


def _node_lines(node: Node, blocks: dict[str, Block], pad: str) -> Iterator[str]:
    inner = pad + _INDENT
    title = "" if node.name == node.id else f" named {show_string(node.name)}"
    yield f"{pad}{visible(node.id)}{title}  [{_show_place(node.span)}]"
    for word in ("stage", "stage_head", "role", "part_of"):
        if (value := getattr(node, word)) is not None:
            yield f"{inner}{word}: {show_string(value)}"
    for word, guard in (("stage when", node.stage_guard), ("when", node.guard)):
        if guard is not None:
            yield f"{inner}{word} {show_condition(guard)}"
    if node.after:
        yield f"{inner}after {', '.join(map(visible, node.after))}"
    if node.needs is not None:
        yield from _needs_lines(node.needs, inner)
    yield from _op_lines(node.op, inner)
    if node.retry is not None:
        yield f"{inner}retry: {_show_retry(node.retry)}"
    if node.timeout_s is not None:
        yield f"{inner}timeout: {show_seconds(node.timeout_s)}"
    if node.output is not None:
        yield f"{inner}output: {visible(node.output)}"
    for word in ("most_visits", "most_cost", "most_tokens"):
        if (value := getattr(node, word)) is not None:
            yield f"{inner}{word.replace('_', ' ')}: {value:g}"
    if node.on_failure != "stop":
        yield f"{inner}on failure: {node.on_failure}"
    if node.effect:
        yield f"{inner}has an effect: never twice by itself"
    elif node.on_lost != "retry":
        yield f"{inner}on lost: {node.on_lost}"
    for label, target in node.routes:
        yield f"{inner}{visible(label)} -> {show_target(target)}"
    yield f"{inner}follow -> {show_target(node.follow)}"
    if isinstance(node.op, Each):
        yield from _block_lines(blocks[node.op.body], blocks, inner)


def _op_lines(op: Op, pad: str) -> Iterator[str]:
    inner = pad + _INDENT
    match op:
        case Ask():
            yield from _ask_lines(op, pad)
        case Run():
            yield f"{pad}run{' the list' if op.is_list else ''}"
            yield from _argv_lines(op.argv, inner)
            for name, value in op.values:
                kind = "integer" if name in op.integers else "value"
                yield f"{inner}{kind} {visible(name)} = {show_text(value)}"
            if op.cwd is not None:
                yield f"{inner}in folder {show_text(op.cwd)}"
            if op.exit_code is not None:
                yield f"{inner}exit code: {visible(op.exit_code)}"
            if op.stdin is not None:
                yield f"{inner}stdin: file {show_text(op.stdin.path)}"
            yield from _capture_lines(op.capture, inner)
            yield from _environment_lines(op.environment, inner)
            if op.exits:
                yield (
                    inner + "exits: " + ", ".join(f"{n} {visible(label)}" for n, label in op.exits)
                )
        case Wait():
            yield (
                f"{pad}wait for {op.min_count} x {show_text(op.pattern)}, "
                f"at most {show_seconds(op.timeout_s)}, every {op.poll_ms} ms"
            )
        case Gate():
            wait = "without limit"
            if op.timeout_s is not None:
                wait = f"at most {show_seconds(op.timeout_s)}"
            kind = "gate as a step" if op.is_step else "gate"
            yield f"{pad}{kind} {show_string(op.stage)}, {wait}, then {op.default}"
            yield from _prompt_lines(op.prompt, inner)
        case Each():
            yield from _each_lines(op, pad)
        case Call():
            plan = visible(op.plan) if isinstance(op.plan, str) else f"at {show_text(op.plan)}"
            words = [f"call {plan}", *([] if op.keeps_context else ["for its outputs"])]
            yield pad + ", ".join(words + _spread_words(op))
            yield from _map_lines("with", op.arguments, inner)
            if op.outcomes:
                yield f"{inner}outcomes: {', '.join(map(visible, op.outcomes))}"
            for word, limit_of in (("max_depth", op.max_depth), ("max_steps", op.max_steps)):
                if limit_of is not None:
                    yield f"{inner}{word}: {limit_of}"


def _ask_lines(op: Ask, pad: str) -> Iterator[str]:
    inner = pad + _INDENT
    session = f"{op.session} session"
    if op.session_name is not None:
        session = f"session {show_string(op.session_name)}"
    yield f"{pad}ask {_show_agent(op.agent)}, {session}{', resolving' if op.resolves else ''}"
    match op.agent:
        case (
            RunAgent(settings=settings)
            | NamedAgent(config=settings)
            | BuiltinProvider(params=settings)
        ):
            yield from _map_lines("with", settings, inner)
        case CommandTemplate():
            yield from _argv_lines(op.agent.argv, inner)
            yield from _map_lines("with", op.agent.params, inner)
    if isinstance(op.prompt, FileText):
        yield f"{inner}prompt: file {show_text(op.prompt.path)}"
    else:
        yield from _prompt_lines(op.prompt, inner)
    if op.outcomes:
        yield f"{inner}outcomes: {', '.join(map(visible, op.outcomes))}"
    if op.model is not None:
        yield f"{inner}model: {visible(op.model)}"
    yield from _capture_lines(op.capture, inner)
    yield from _environment_lines(op.environment, inner)


def _each_lines(op: Each, pad: str) -> Iterator[str]:
    at_once = "in parallel" if op.parallel is True else f"at most {op.parallel} at once"
    words = [*([at_once] if op.parallel else []), *_spread_words(op)]
    words += [f"at most {op.limit} items"] if op.limit is not None else []
    words.append("stop on failure" if op.stop_on_failure else "go on after failures")
    if op.rounds is None:
        yield f"{pad}each {visible(op.variable)} in {show_expression(op.items)}, {', '.join(words)}"
    else:
        yield f"{pad}rounds, at most {op.limit}"
        for word, condition in (("while", op.rounds.before), ("until", op.rounds.until)):
            if condition is not None:
                yield f"{pad}  {word} {show_condition(condition)}"
        yield from _map_lines("update", op.rounds.updates, pad + _INDENT)
    if op.collect is not None:
        yield f"{pad}  collect: {visible(op.collect)}"
    if op.moves is not None:
        for word, place in (("success", op.moves.success), ("failure", op.moves.failure)):
            if place is not None:
                yield f"{pad}  after {word} move to {show_text(place)}"


def _spread_words(op: Each | Call) -> list[str]:
    words = [f"spread over {visible(op.spread)}"] if op.spread else []
    return [*words, "an agent resolves conflicts"] if op.has_resolver else words


def _show_agent(agent: Agent) -> str:
    match agent:
        case RunAgent():
            return "the run's agent"
        case NamedAgent(name):
            return f"agent {show_string(name)}"
        case BuiltinProvider(name):
            return f"provider {show_string(name)}"
        case CommandTemplate(name, _, input_mode):
            return f"declared provider {show_string(name)} by {input_mode}"


def _prompt_lines(prompt: Text, pad: str) -> Iterator[str]:
    shown = show_parts(prompt)
    first, _, rest = shown.lstrip("\n").partition("\n")
    if rest.strip() or len(first) > _LONG_PROMPT:
        lines = plural(len(shown.rstrip("\n").split("\n")), "line")
        cut = first if len(first) <= _LONG_PROMPT else first[: _LONG_PROMPT - 1] + "…"
        yield f"{pad}prompt: {show_string(cut)} ({lines}, {len(shown)} characters)"
        for place in dict.fromkeys(show_reference(p) for p in prompt.parts if isinstance(p, Ref)):
            yield f"{pad}  uses {place}"
    else:
        yield f"{pad}prompt: {show_text(prompt)}"


def _argv_lines(argv: Iterable[Text], pad: str) -> Iterator[str]:
    """One argument per line; a script of several lines as a block."""
    for argument in argv:
        shown = show_parts(argument)
        if "\n" in shown.rstrip("\n"):
            yield f"{pad}|"
            yield from (f"{pad}  {visible(line)}".rstrip() for line in shown.split("\n"))
        else:
            yield f"{pad}{show_text(argument)}"


def _needs_lines(needs: FileNeeds, pad: str) -> Iterator[str]:
    for word, paths in (("required", needs.required), ("optional", needs.optional)):
        for path in paths:
            yield f"{pad}needs {word} {show_text(path)}"
    if (inject := needs.inject) is not None:
        form = "in sections" if inject.sections else "as a flat list"
        words = f"{inject.mode}, {inject.position}, {form}"
        yield f"{pad}inject {words}: {show_string(inject.instruction)}"


def _capture_lines(capture: Capture, pad: str) -> Iterator[str]:
    if capture.mode != "text" or capture.allow_parse_error:
        lenient = ", parse errors allowed" if capture.allow_parse_error else ""
        yield f"{pad}capture: {capture.mode}{lenient}"
    if capture.value not in ("", "any"):
        # That there is a value at all is said by the variable that takes it.
        yield f"{pad}value: {capture.value}"
    if capture.from_end:
        yield f"{pad}keep the end of it"
    if capture.schema is not None:
        yield f"{pad}schema: {show_text(capture.schema)}"
    for require in capture.require:
        yield f"{pad}require {show_require(require)}"
    if capture.output_file is not None:
        yield f"{pad}output file: {show_text(capture.output_file)}"


def show_require(require: Require) -> str:
    words = [show_string(require.pointer), "exists" if require.exists else "is absent"]
    if require.has_equals:
        words.append(f"equals {show_scalar(require.equals)}")
    if require.type is not None:
        words.append(f"type {require.type}")
    return ", ".join(words)


def _environment_lines(environment: Environment, pad: str) -> Iterator[str]:
    for name, value in environment.variables:
        yield f"{pad}env {visible(name)} = {show_string(value)}"
    if environment.secrets:
        yield f"{pad}secrets: {', '.join(map(visible, environment.secrets))}"


def _map_lines(title: str, value: MapExpr, pad: str) -> Iterator[str]:
    if value.items:
        yield f"{pad}{title}:"
        for key, item in value.items:
            yield f"{pad}  {visible(key)}: {show_expression(item)}"


def show_target(target: Target) -> str:
    match target:
        case Goto(node):
            return visible(node)
        case Leave(label):
            return f"end of item, {visible(label)}"
        case Finish(reason, kind):
            shown = "" if kind == usual_finish(reason) else f"{kind} "
            return f"FINISH {shown}{show_string(reason)}"
        case Abort(kind, reason):
            return f"ABORT {kind} {show_string(reason)}"
        case Restart(plan):
            return f"RESTART {visible(plan)}"


def _show_retry(retry: Retry) -> str:
    pause = show_seconds(retry.delay_s)
    words = [plural(retry.attempts, "attempt"), f"{pause} apart", f"when {retry.when}"]
    if retry.backoff != "none":
        words.append(f"{retry.backoff} backoff")
    if retry.max_delay_s is not None:
        words.append(f"at most {show_seconds(retry.max_delay_s)}")
    if retry.jitter:
        words.append("jitter")
    return ", ".join(words)
