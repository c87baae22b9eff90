"""A workflow step's op, and the rules around it: guard, dependencies, retries, timeout."""

from __future__ import annotations

from typing import Any

from orchestrate.dialects.commands import lower_command
from orchestrate.dialects.gates import lower_gate
from orchestrate.dialects.lowering import Lowering, lower_session
from orchestrate.dialects.prompts import check_prompt_text
from orchestrate.dialects.workflow.calls import lower_call
from orchestrate.dialects.workflow.checks import Kind
from orchestrate.dialects.workflow.paths import lower_path, lower_pattern, lower_target
from orchestrate.dialects.workflow.providers import Providers, check_prompt, lower_agent
from orchestrate.dialects.workflow.scope import Resolver
from orchestrate.plan.data import Capture, Environment, FileNeeds, FileText, Inject, Require
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.expr import Compare, Cond, Const, Exists, Expr, Text, references
from orchestrate.plan.nodes import Agent, Ask, CommandTemplate, Op, Wait
from orchestrate.plan.settings import Retry
from orchestrate.record import record, replace
from orchestrate.source.located import LocatedMap, as_map

LIST_INSTRUCTION = "The following files are required inputs for this task:"
CONTENT_INSTRUCTION = "The following file contents are provided for context:"


@record
class StepLowering:
    """One step with what is needed to lower it."""

    work: Lowering
    step: LocatedMap
    kind: Kind | None
    resolver: Resolver
    providers: Providers


@record
class Rules:
    guard: Cond | None
    needs: FileNeeds | None
    retry: Retry | None
    timeout_s: float | None


def lower_op(one: StepLowering) -> Op:
    """Ask, Run or Wait."""
    step = one.step
    match one.kind:
        case "provider":
            agent = lower_agent(one.work, one.providers, step, one.resolver)
            check_prompt(one.work, one.providers, step)
            prompt: Text | FileText = Text(())
            if "prompt" in step:
                check_prompt_text(one.work, step)
                prompt = one.resolver.text(step, "prompt")
            elif "input_file" in step:
                prompt = FileText(lower_path(one.resolver, step, "input_file"))
            return Ask(
                agent=agent,
                prompt=prompt,
                session="fresh",
                capture=_capture(one),
                environment=_environment(one),
                session_name=_session(one, agent),
            )
        case "wait_for":
            return _wait(one)
        case "approval":
            name = str(step.get("name", "?"))
            return lower_gate(one.resolver, as_map(step.get("approval")), name)
        case "call":
            return lower_call(one.resolver, step)
        case _:
            return _run(one)


def _session(one: StepLowering, agent: Agent) -> str | None:
    if isinstance(agent, CommandTemplate) and "session" in one.step:
        one.work.report(
            "E126",
            f"provider '{agent.name}' is a command of this file, which has no sessions",
            one.step,
            "session",
            on_key=True,
            hint="remove session, or use one of the agents we know",
        )
        return None
    return lower_session(one.work, one.step, str(one.step.get("provider", "")))


def _run(one: StepLowering) -> Op:
    step = one.step
    stdin = FileText(lower_path(one.resolver, step, "input_file")) if "input_file" in step else None
    return replace(
        lower_command(one.resolver, step),
        stdin=stdin,
        capture=_capture(one),
        environment=_environment(one),
    )


def _wait(one: StepLowering) -> Op:
    wait = one.step["wait_for"]
    pattern = Text(())
    if "glob" in wait:
        pattern = lower_pattern(one.resolver, wait, "glob")
    return Wait(
        pattern=pattern,
        timeout_s=_seconds(one, wait) or 300.0,
        poll_ms=int(wait.get("poll_ms", 500)),
        min_count=int(wait.get("min_count", 1)),
    )


def _capture(one: StepLowering) -> Capture:
    step, resolver = one.step, one.resolver
    schema = lower_path(resolver, step, "output_schema") if "output_schema" in step else None
    output = lower_target(resolver, step, "output_file") if "output_file" in step else None
    return Capture(
        mode=step.get("output_capture", "text"),
        allow_parse_error=step.get("allow_parse_error", False),
        schema=schema,
        require=tuple(_require(item) for item in step.get("output_require") or ()),
        output_file=output,
    )


def _require(item: LocatedMap) -> Require:
    return Require(
        pointer=item.get("pointer", ""),
        exists=item.get("exists", True),
        has_equals="equals" in item,
        equals=item.get("equals"),
        type=item.get("type"),
    )


def _environment(one: StepLowering) -> Environment:
    variables = one.step.get("env") or {}
    for key, value in variables.items():
        if "${" in value:
            one.work.report(
                "W407",
                "env values are literal: '${' is not filled in here",
                variables,
                key,
                hint="use the variable in the command: a program gets env as it is written",
            )
    return Environment(tuple(variables.items()), tuple(one.step.get("secrets") or ()))


def lower_rules(one: StepLowering) -> Rules:
    step = one.step
    timeout = _seconds(one, step)
    return Rules(
        guard=lower_when(one, step, "when"),
        needs=_needs(one),
        retry=_retry(one),
        timeout_s=timeout if one.kind in ("provider", "command", "call") else None,
    )


def _seconds(one: StepLowering, holder: LocatedMap) -> float | None:
    """`timeout_sec`; a text such as 90s is for newer versions."""
    written = holder.get("timeout_sec")
    version = str(one.work.data.get("version", ""))
    if isinstance(written, str) and seconds_of(written) and version != "1.4":
        one.work.report(
            "E109",
            f'a duration such as {written} needs version "1.4"; this file says "{version}"',
            holder,
            "timeout_sec",
            hint='write version: "1.4" at the top, or seconds',
        )
    return None if written is None else seconds_of(written) or None


def _retry(one: StepLowering) -> Retry | None:
    """Providers retry C's exit codes 1 and 124; a command that asks for retries, any failure."""
    retries = one.step.get("retries")
    if retries is None or one.kind not in ("provider", "command", "call"):
        return None
    return Retry(
        attempts=int(retries.get("max", 0)) + 1,
        delay_s=float(retries.get("delay_ms", 0)) / 1000,
        when="exit-1-or-124" if one.kind == "provider" else "any",
    )


def lower_when(one: StepLowering, container: LocatedMap, key: str) -> Cond | None:
    """A condition, under `when` or `until`; None without one, or after a report."""
    when = container.get(key)
    if when is None:
        return None
    if len(when) != 1:
        if when or not when.lost:
            problem = "no condition" if not when else f"{len(when)} conditions"
            one.work.report(
                "E409",
                f"'{key}' has {problem}",
                container,
                key,
                on_key=True,
                hint="give it exactly one of: equals, exists, not_exists",
            )
        return None
    if "equals" in when:
        equals = when["equals"]
        left, right = _side(one, equals, "left"), _side(one, equals, "right")
        if not equals.lost and not any((*references(left), *references(right))):
            one.work.report(
                "W407",
                "'equals' compares two fixed texts, so it always decides the same",
                when,
                "equals",
                on_key=True,
                hint="a variable is written ${context.name} or ${steps.Name.output}",
            )
        return Compare(left, "==", right)
    wanted = "exists" if "exists" in when else "not_exists"
    return Exists(lower_pattern(one.resolver, when, wanted), negated=wanted == "not_exists")


def _side(one: StepLowering, equals: Any, key: str) -> Expr:
    value = equals.get(key, "")
    return one.resolver.text(equals, key) if isinstance(value, str) and value else Const(value)


def _needs(one: StepLowering) -> FileNeeds | None:
    needs = one.step.get("depends_on")
    if needs is None:
        return None
    patterns = {
        key: tuple(
            lower_pattern(one.resolver, needs[key], index) for index in range(len(needs[key]))
        )
        for key in ("required", "optional")
        if needs.get(key)
    }
    return FileNeeds(
        required=patterns.get("required", ()),
        optional=patterns.get("optional", ()),
        inject=_inject(one, needs),
    )


def _inject(one: StepLowering, needs: LocatedMap) -> Inject | None:
    """`inject: true` is the flat list; the object form has headed sections (rulings §9)."""
    inject = needs.get("inject", False)
    if isinstance(inject, bool):
        return Inject("list", LIST_INSTRUCTION, "prepend", sections=False) if inject else None
    mode = inject.get("mode", "none")
    if mode == "none":
        return None
    default = LIST_INSTRUCTION if mode == "list" else CONTENT_INSTRUCTION
    if "${" in inject.get("instruction", ""):
        one.work.report(
            "W407",
            "an instruction is literal: '${' is not filled in here",
            inject,
            "instruction",
            hint="write the text out",
        )
    return Inject(
        mode=mode,
        instruction=inject.get("instruction", default),
        position=inject.get("position", "prepend"),
        sections=True,
    )
