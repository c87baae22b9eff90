"""Whom the steps of a program ask, as far as it is known before they run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.agent_names import BACKENDS, own_name
from orchestrate.agents.definition import AgentDefinition
from orchestrate.agents.registry import PROGRAMS, STAND_INS, setting_faults
from orchestrate.agents.settings import step_config
from orchestrate.app.given.scopes import ConstantScope
from orchestrate.diagnostics import Span, closest
from orchestrate.dialects.agent_definitions import AgentFile, NoAgentError, read_agent
from orchestrate.engine.evaluate import evaluate
from orchestrate.errors import ConfigError
from orchestrate.plan.expr import MapExpr, references
from orchestrate.plan.nodes import (
    Ask,
    BuiltinProvider,
    NamedAgent,
    Node,
    Plan,
    Program,
    RunAgent,
    nodes_in,
)
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.workspace import Workspace

DEFAULT_BACKEND = "claude-code"


def backend_of(settings: RunSettings) -> str:
    return settings.backend or DEFAULT_BACKEND


def is_stand_in(backend: str) -> bool:
    """Does this backend stand in for every agent of a run?"""
    return backend in STAND_INS


def stand_in(name: str, settings: RunSettings) -> str:
    """The backend that plays an agent: its own, unless the run has one that plays them all."""
    backend = backend_of(settings)
    return backend if is_stand_in(backend) else own_name(name)


def refuse_settings(program: Program, workspace: Workspace, settings: RunSettings) -> None:
    """Refuse what `run` would refuse of the agents' settings; asks for no program."""
    for fault in faults_of_settings(program, workspace, settings):
        raise ConfigError(f"{fault.span.file}:{fault.span.line}: {fault.message}")


@record
class SettingFault:
    """Something that an agent cannot be asked for: the step, and the setting as it is written."""

    span: Span
    message: str
    # '' where no setting of the step is at fault: it is the agent's file or the run.
    setting: str


def gives_settings(program: Program) -> bool:
    """Is there a step that tells its agent more than what to do?"""
    return any(True for _, _, op in asks_in(program) for _ in _own_settings(op))


def faults_of_settings(
    program: Program, workspace: Workspace, settings: RunSettings
) -> Iterator[SettingFault]:
    """Settings of steps that their agents cannot take, each with its place."""
    permissions = settings.permissions or "bypass"
    files = _files_of(program, workspace, settings)
    for plan, node, op in asks_in(program):
        if node.part_of is not None:
            continue  # a round of a check has the settings of its step
        if isinstance(op.agent, NamedAgent) and op.agent.name not in files:
            continue
        try:
            definition = definition_before(node, op, workspace, settings, files)
        except ConfigError:
            # An agent that is unknown, or whose file is missing or wrong, is `run`'s to tell.
            continue
        if definition is None or is_stand_in(definition.backend):
            continue
        given = dict(definition.settings)
        for fault in setting_faults(definition.backend, given, permissions):
            told = f"step '{node.name}': {in_its_words(fault, plan)}"
            own = (key for key in _own_settings(op) if key in given)
            one = (
                key for key in own if fault in setting_faults(definition.backend, {key: given[key]})
            )
            yield SettingFault(node.span, told, in_its_words(next(one, ""), plan))


def _files_of(
    program: Program, workspace: Workspace, settings: RunSettings
) -> dict[str, AgentFile]:
    """The files of its agents that can be read, each looked for once."""
    agents = (op.agent for _, _, op in asks_in(program))
    files = {}
    for name in {agent.name for agent in agents if isinstance(agent, NamedAgent)}:
        with suppress(ConfigError):
            files[name] = _agent_file(name, workspace, settings)
    return files


def _own_settings(op: Ask) -> Iterator[str]:
    """What the step itself gives its agent, not the agent's file."""
    match op.agent:
        case NamedAgent(_, config) | RunAgent(config):
            yield from step_config(constants(config))
        case BuiltinProvider(_, params):
            yield from constants(params)
        case _:
            pass


def in_its_words(fault: str, plan: Plan) -> str:
    """What is wrong with a setting, as the dialect spells that."""
    if plan.dialect == "machine":
        for ours, theirs in (("max_turns", "maxTurns"), ("agent_args", "agentArgs")):
            fault = fault.replace(ours, theirs)
    return fault


def asks_in(program: Program) -> Iterator[tuple[Plan, Node, Ask]]:
    """Every step that asks an agent or a person."""
    for plan in program.plans:
        for node in nodes_in(plan):
            if isinstance(node.op, Ask):
                yield plan, node, node.op


def definition_before(
    node: Node,
    op: Ask,
    workspace: Workspace,
    settings: RunSettings,
    frozen: Mapping[str, AgentFile] = MappingProxyType({}),
) -> AgentDefinition | None:
    """Who will be asked, as far as it is known before values are; None for declared commands."""
    match op.agent:
        case RunAgent(config):
            backend = backend_of(settings)
            own = step_config(constants(config))
            own.pop("model", None)
            return AgentDefinition(backend, backend, settings=tuple(own.items()))
        case BuiltinProvider(name, params):
            if settings.backend != "rehearsal":
                _require_known(name, node)
            own = constants(params)
            own.pop("model", None)
            return AgentDefinition(name, stand_in(name, settings), settings=tuple(own.items()))
        case NamedAgent(name, config):
            try:
                return definition_of(name, constants(config), workspace, settings, frozen)
            except NoAgentError as error:
                way = shlex.join(("orchestrate", "init", "--agents-of", node.span.file))
                where = f"{node.span.file}:{node.span.line}"
                hint = f"{error.hint}; `{way}` writes a stub"
                raise ConfigError(f"{where}: {error.message}", hint) from error
        case _:
            return None


def definition_of(
    name: str,
    config: Mapping[str, Any],
    workspace: Workspace,
    settings: RunSettings,
    frozen: Mapping[str, AgentFile] = MappingProxyType({}),
) -> AgentDefinition:
    """The agent that a recipe names: its file, overlaid by the step's `agent_config` (B).

    A run has `frozen` what the file said when it started.
    """
    found = frozen.get(name) or _agent_file(name, workspace, settings)
    fields = {**found.fields, **step_config(config)}
    backend = backend_of(settings)
    if not is_stand_in(backend):
        backend = stand_in(str(fields.pop("backend", backend)), settings)
        if is_stand_in(backend) and backend != "human":
            raise ConfigError(
                f"agent '{name}': the backend '{backend}' plays every agent of a run, not one",
                f"give it to the run: --backend {backend}",
            )
    fields.pop("backend", None)
    model = fields.pop("model", None)
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"the model of agent '{name}' is not a name: {model!r}")
    for key in ("name", "description"):
        fields.pop(key, None)
    return AgentDefinition(
        name=name,
        backend=backend,
        model=None if model == "inherit" else model,
        system_prompt=found.body.strip() or None,
        settings=tuple(fields.items()),
    )


def _agent_file(name: str, workspace: Workspace, settings: RunSettings) -> AgentFile:
    """A rehearsal can do without the file: its agent reads no system prompt."""
    try:
        return read_agent(name, workspace)
    except ConfigError:
        if settings.backend != "rehearsal":
            raise
        return AgentFile({}, "")


def constants(values: MapExpr) -> dict[str, Any]:
    """The values that do not depend on the run."""
    return {
        key: evaluate(value, ConstantScope())
        for key, value in values.items
        if not any(references(value))
    }


def _require_known(name: str, node: Node) -> None:
    if name in BACKENDS:
        return
    near = closest(name, BACKENDS)
    also = f" (did you mean '{near}'?)" if near else ""
    raise ConfigError(
        f"{node.span.file}:{node.span.line}: the provider '{name}' is not known{also}",
        "declare it under `providers:` with the command that starts it",
    )


def configured_environment(
    name: str, own: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment with the agent's own variables, and the program's place among them."""
    changed = {**environment, **(own.get("env") or {})}
    if own.get("path"):
        changed[PROGRAMS[name]().program.variable] = str(own["path"])
    return changed
