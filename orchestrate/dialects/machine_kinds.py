"""The kinds of steps that a machine has: a prompt, a command, a gate, a call; with outcomes."""

from __future__ import annotations

from typing import Any, Literal

from orchestrate.agent_flags import OWN_FIELDS, flag_of_ours
from orchestrate.dialects.agents import check_agent
from orchestrate.dialects.calls import CallSite, find_plan
from orchestrate.dialects.commands import lower_command
from orchestrate.dialects.gates import lower_gate
from orchestrate.dialects.lowering import Lowering, constant_map
from orchestrate.dialects.machine_templates import Templates
from orchestrate.dialects.prompts import check_prompt_text
from orchestrate.dialects.resolvers import CONFLICTS, pool_of
from orchestrate.plan.data import Capture
from orchestrate.plan.expr import NOTHING, MapExpr, Text
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    INVALID,
    LOST,
    Abort,
    Ask,
    Call,
    Finish,
    Label,
    NamedAgent,
    NodeId,
    Op,
    RunAgent,
    Target,
)
from orchestrate.record import replace
from orchestrate.source.located import LocatedMap, as_map

Kind = Literal["prompt", "command", "approval", "call"]
_KINDS: tuple[Kind, ...] = ("prompt", "command", "approval", "call")
_ELSE = "*"
_PASSED, _FAILED, _COMPLETED = "passed", "failed", "completed"
_USUAL: dict[Kind, tuple[str, ...]] = {
    "prompt": (),
    "command": (_PASSED, _FAILED),
    "approval": ("approved", "denied"),
    "call": (_COMPLETED, _FAILED),
}
# Fields of a step that are settings of its agent, and what agents call them.
_SETTINGS = {
    "permissions": "permissions",
    "tools": "tools",
    "maxTurns": "max_turns",
    "agentArgs": "agent_args",
}
# Fields that have a meaning on some kinds only.
_OWN: dict[str, tuple[Kind, ...]] = {
    "model": ("prompt",),
    "permissions": ("prompt",),
    "tools": ("prompt",),
    "maxTurns": ("prompt",),
    "limits": ("prompt",),
    "agentArgs": ("prompt",),
    "with": ("call",),
    "spread": ("call",),
    "retry": ("prompt", "command", "call"),
    "onLost": ("prompt", "command"),
    "effect": ("prompt", "command"),
    "exits": ("command",),
    "timeout": ("prompt", "command", "call"),
    "check": ("prompt",),
    "produces": ("prompt",),
}


def kind_of(work: Lowering, step: LocatedMap, name: str) -> Kind:
    """What the step does; that it does several things, or has fields of another kind, is said."""
    kinds = [kind for kind in _KINDS if kind in step]
    if len(kinds) > 1:
        second = next(key for key in reversed(step) if key in kinds)
        work.report(
            "E209",
            f"step '{name}' has {' and '.join(kinds)}, but a step is only one of them",
            step,
            second,
            on_key=True,
            hint="make a step of each",
        )
    kind = kinds[0] if kinds else "prompt"
    for key, owners in _OWN.items():
        if key in step and kind not in owners and len(kinds) == 1:
            hint = "write it inside approval:" if (key, kind) == ("timeout", "approval") else ""
            work.report("E209", f"'{key}' has no meaning on a step with {kind}", step, key,
                        on_key=True, hint=hint or "remove it")  # fmt: skip
    return kind


def outcomes_of(work: Lowering, step: LocatedMap, kind: Kind) -> tuple[str, ...]:
    """The outcomes that the step declares, or those of its kind."""
    declared = tuple(step.get("outcomes") or ())
    if kind == "approval" and declared and set(declared) != set(_USUAL[kind]):
        work.report("E209", "the outcomes of a gate are approved and denied", step, "outcomes",
                    on_key=True, hint="leave them out")  # fmt: skip
        return _USUAL[kind]
    if kind == "command" and not declared:
        named = dict.fromkeys(str(label) for label in as_map(step.get("exits")).values())
        return tuple(dict.fromkeys((*named, *_missing_exits(step)))) or _USUAL[kind]
    return declared or _USUAL[kind]


def _missing_exits(step: LocatedMap) -> tuple[str, ...]:
    """The outcomes of exit codes that `exits` says nothing about."""
    exits = as_map(step.get("exits"))
    return (*(() if "0" in exits else (_PASSED,)), *(() if _ELSE in exits else (_FAILED,)))


def lower_op(
    templates: Templates, step: LocatedMap, name: NodeId, kind: Kind, outcomes: tuple[str, ...]
) -> Op:
    match kind:
        case "prompt":
            check_prompt_text(templates.work, step)
            return Ask(
                agent=RunAgent(_lower_settings(templates.work, step)),
                prompt=templates.text(step, "prompt") if "prompt" in step else Text(("",)),
                session="shared",
                outcomes=outcomes,
                model=step.get("model"),
            )
        case "command":
            exits = _lower_exits(templates.work, step, name, outcomes)
            run = lower_command(templates, step)
            return replace(run, capture=Capture(from_end=True), exits=exits)
        case "approval":
            return lower_gate(templates, as_map(step["approval"]), name)
        case "call":
            return _lower_call(templates, step, name, outcomes)


def _lower_settings(work: Lowering, step: LocatedMap) -> MapExpr:
    """What the step says of its agent, in the words that agents know."""
    arguments = step.get("agentArgs")
    if arguments and not str(arguments[0]).startswith("-"):
        message = f"agentArgs begins with '{arguments[0]}', which is not a flag"
        work.report("E209", message, arguments, 0,
                    hint="write the flag before its value: [--add-dir, ../shared]")  # fmt: skip
    for index, argument in enumerate(arguments or ()):
        if own := flag_of_ours(str(argument)):
            work.report("E209", f"'{own}' is set by orchestrate", arguments, index,
                        hint=OWN_FIELDS)  # fmt: skip
    return constant_map({ours: step[key] for key, ours in _SETTINGS.items() if key in step})


def _lower_exits(
    work: Lowering, step: LocatedMap, name: str, outcomes: tuple[str, ...]
) -> tuple[tuple[str, Label], ...]:
    written = as_map(step.get("exits"))
    labels: dict[str, Any] = {"0": _PASSED} | dict(written)
    labels[_ELSE] = labels.pop(_ELSE, _FAILED)
    for code, label in labels.items():
        if label not in outcomes:
            holder, key = (written, code) if code in written else (step, "outcomes")
            what = "every other exit code" if code == _ELSE else f"exit code {code}"
            work.report("E202", f"{what} is '{label}', which is not an outcome of step '{name}'",
                        holder, key, on_key=holder is step,
                        hint="add it to the outcomes, or say in exits what it is")  # fmt: skip
    return tuple((code, str(label)) for code, label in labels.items())


def _lower_call(
    templates: Templates, step: LocatedMap, name: str, outcomes: tuple[str, ...]
) -> Call:
    work = templates.work
    for wanted in _USUAL["call"]:
        if wanted not in outcomes:
            work.report("E202", f"the call of step '{name}' may end as '{wanted}', which is not "
                        "one of its outcomes", step, "outcomes", on_key=True,
                        hint="add it, or leave the outcomes out")  # fmt: skip
    plan = find_plan(work, step, "call")
    # What a call is given is always filled in, whatever the machine's prompts are.
    values = replace(templates, is_on=True).tree(step, "with") if "with" in step else NOTHING
    arguments = values if isinstance(values, MapExpr) else NOTHING
    if plan is not None:
        holder = step.get("with", step)
        work.calls.append(CallSite(work, step, "call", holder, plan, arguments))
    return Call(
        plan or Text(()), arguments, outcomes=outcomes, keeps_context=False,
        spread=pool_of(step),
    )  # fmt: skip


def lower_resolver(templates: Templates, resolve: LocatedMap) -> Ask:
    """The agent that is asked where what was called has changed the same as others."""
    check_prompt_text(templates.work, resolve)
    name = str(resolve["agent"])
    if name.strip():
        check_agent(templates.work, resolve, name)
    # As what a call is given, it is always filled in.
    filled = replace(templates, is_on=True, inputs=(*templates.inputs, CONFLICTS))
    return Ask(NamedAgent(name), filled.text(resolve, "prompt"), "fresh")


def routes_of(
    kind: Kind, step: LocatedMap, name: NodeId, outcomes: dict[Label, Target], lost: Target
) -> tuple[tuple[Label, Target], ...]:
    """Where each label of the step's op leads, by what the author says of its outcomes."""
    match kind:
        case "prompt":
            return (
                *outcomes.items(),
                (INVALID, Abort("orchestration-error", "orchestration-error")),
                (FAILED, Abort("agent", f"the agent failed in step '{name}'")),
                (LOST, lost),
            )
        case "command":
            # What never came to an exit code has failed as every other code would.
            otherwise = as_map(step.get("exits")).get(_ELSE, _FAILED)
            failed = outcomes.get(_FAILED, outcomes.get(otherwise, Finish("", "exit")))
            return (*outcomes.items(), (FAILED, failed), (LOST, lost))
        case "approval":
            return ((APPROVED, outcomes["approved"]), (DENIED, outcomes["denied"]))
        case "call":
            return (*outcomes.items(), (FAILED, outcomes.get(_FAILED, Finish("", "exit"))))
