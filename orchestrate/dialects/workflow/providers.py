"""Providers: the templates a workflow declares, and the agents that need no declaration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.agent_names import PROVIDERS
from orchestrate.diagnostics import closest
from orchestrate.dialects.commands import Arguments, lower_arguments
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.workflow.scope import BlockScope, Resolver, VariablePlace
from orchestrate.lang.dollar import parse_dollar
from orchestrate.plan.expr import Expr, MapExpr, Ref, references
from orchestrate.plan.nodes import Agent, BuiltinProvider, CommandTemplate
from orchestrate.record import record
from orchestrate.source.located import LocatedMap, as_map


@record
class Template:
    """A declared provider: its arguments, and the parameters they mention."""

    declared: LocatedMap
    arguments: Arguments
    placeholders: tuple[str, ...]

    def takes_prompt(self) -> bool:
        """Does the prompt reach the program, as an argument or on standard input?"""
        in_argv = any(reference.path == ("prompt",) for reference in self.references())
        return in_argv or self.declared.get("input_mode") == "stdin"

    def references(self) -> Iterator[Ref]:
        for text in (*self.arguments.argv, *(text for _, text in self.arguments.values)):
            yield from references(text)


Providers = dict[str, Template]


def read_providers(work: Lowering) -> Providers:
    """The declared provider templates, each checked once."""
    providers: Providers = {}
    declared = work.data.get("providers") or {}
    for name, provider in declared.items():
        command = provider.get("command")
        if command is None:
            continue
        resolver = Resolver(work, BlockScope({}), None, in_template=True)
        arguments = lower_arguments(resolver, command)
        providers[name] = Template(provider, arguments, tuple(dict.fromkeys(resolver.placeholders)))
        if provider.get("input_mode") == "stdin":
            _check_stdin(work, command)
    return providers


def _check_stdin(work: Lowering, command: Any) -> None:
    for index, token in enumerate(command):
        for variable in parse_dollar(str(token)).variables:
            if variable.segments == ("PROMPT",):
                work.report_at(
                    "E414",
                    "a provider with input_mode: stdin cannot use ${PROMPT}",
                    work.span_inside(command, index, variable.start, variable.end),
                    hint="the prompt arrives on standard input: remove it, or use input_mode: argv",
                )


def lower_agent(
    work: Lowering, providers: Providers, step: LocatedMap, resolver: Resolver
) -> Agent:
    """Who answers a provider step, with its parameters merged (defaults < provider_params)."""
    name = step["provider"]
    own = step.get("provider_params") or LocatedMap(step.mark)
    template = providers.get(name)
    if template is None:
        _check_known(work, step, name)
        return BuiltinProvider(name, _params(own, resolver))
    defaults = template.declared.get("defaults") or LocatedMap(step.mark)
    merged: dict[str, Expr] = {
        key: resolver.tree(defaults, key) for key in defaults if key not in own
    }
    merged |= {key: resolver.tree(own, key) for key in own}
    _check_params(work, template, step, own, merged)
    _check_scope(work, template, step, resolver)
    return CommandTemplate(
        name=name,
        argv=template.arguments.argv,
        input_mode=template.declared.get("input_mode", "argv"),
        params=MapExpr(tuple(merged.items())),
        values=template.arguments.values,
    )


def _check_known(work: Lowering, step: LocatedMap, name: str) -> None:
    declared = as_map(work.data.get("providers"))
    for variable in parse_dollar(name).variables:
        work.report_at(
            "E121",
            "a provider cannot be chosen by a variable",
            work.span_inside(step, "provider", variable.start, variable.end),
            hint="name it; for a choice use one step for each provider, with `when`",
        )
        return
    if name not in PROVIDERS and name not in declared and name not in declared.lost:
        work.report_name(
            "W104",
            f"the provider '{name}' is not known",
            step,
            "provider",
            [*declared, *PROVIDERS],
            what="known providers",
        )


def _check_scope(work: Lowering, template: Template, step: LocatedMap, resolver: Resolver) -> None:
    """A template may use loops and results; whether they are there depends on who uses it."""
    for reference in template.references():
        shown = f"{reference.text} of provider '{step['provider']}'"
        head, *rest = reference.path
        scope = resolver.scope
        if (head == "loop" and not scope.in_loop) or (head == "item" and not scope.has_item):
            work.report(
                "E121",
                f"{shown} exists only inside a loop",
                step,
                "provider",
                hint="use this provider only in loops, or make it a parameter: ${name}",
            )
        elif head == "steps" and len(rest) > 1:
            resolver.check_result(
                VariablePlace(work, step, "provider"), shown, rest[0], tuple(rest[1:])
            )


def _params(own: LocatedMap, resolver: Resolver) -> MapExpr:
    return MapExpr(tuple((key, resolver.tree(own, key)) for key in own))


def _check_params(
    work: Lowering, template: Template, step: LocatedMap, own: LocatedMap, merged: dict[str, Expr]
) -> None:
    name = step["provider"]
    for key in template.placeholders:
        if key not in merged:
            work.report(
                "W402",
                f"'${{{key}}}' of provider '{name}' has no value: the step will fail",
                step,
                "provider",
                hint=f"set {key} under provider_params, or in the provider's defaults",
            )
    mentioned = {ref.path[1] for ref in template.references() if ref.path[0] == "param"}
    for key in own:
        if key not in mentioned:
            near = closest(key, mentioned)
            work.report(
                "W404",
                f"provider '{name}' does not use the parameter '{key}'",
                own,
                key,
                on_key=True,
                hint="" if near else f"add ${{{key}}} to its command, or remove it here",
                suggestion=near,
            )


def check_prompt(work: Lowering, providers: Providers, step: LocatedMap) -> None:
    """A prompt that reaches no agent, and an agent that gets none (both are legal in C)."""
    if work.findings.has_errors:
        # What is missing here may be what was refused.
        return
    template = providers.get(step["provider"])
    takes = template is None or template.takes_prompt()
    injects = as_map(step.get("depends_on")).get("inject")
    name = step["provider"]
    if not takes:
        needs = as_map(step.get("depends_on"))
        for key, container in (("prompt", step), ("input_file", step), ("inject", needs)):
            if container.get(key):
                work.report(
                    "W407",
                    f"'{key}' has no effect: the command of provider '{name}' has no ${{PROMPT}}",
                    container,
                    key,
                    on_key=True,
                    hint="add ${PROMPT} to its command, or set input_mode: stdin",
                )
    elif not {"prompt", "input_file"} & set(step) and not injects:
        work.report(
            "W407",
            f"step '{step.get('name', '?')}' asks '{name}' with an empty prompt",
            step,
            "provider",
            hint="write prompt:, or name the file that holds it: input_file: prompts/task.md",
        )
