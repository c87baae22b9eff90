"""Finds the agents that a run asks for, and refuses a run whose agents cannot be there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.agents.finding import Missing, missing_failure
from orchestrate.agents.registry import (
    PROGRAMS,
    WITHOUT_A_BILL,
    Equipment,
    find_program,
    make_agent,
    own_name,
    setting_faults,
)
from orchestrate.agents.stand_ins.human import Person, has_terminal
from orchestrate.agents.stand_ins.recording import record_turn
from orchestrate.app.scopes import NoScope
from orchestrate.app.secrets import refuse_unset
from orchestrate.diagnostics import closest
from orchestrate.dialects.agent_definitions import read_agent
from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.runtime import AgentDefinition
from orchestrate.errors import ConfigError, UsageError
from orchestrate.plan.expr import MapExpr, references
from orchestrate.plan.nodes import (
    Ask,
    BuiltinProvider,
    NamedAgent,
    Node,
    Plan,
    Program,
    RunAgent,
    main_plan,
)
from orchestrate.plan.override import BACKENDS
from orchestrate.record import replace
from orchestrate.source.json import parse_json
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.yaml import parse_yaml

if TYPE_CHECKING:
    from orchestrate.agents.base import Agent, Question, Reply, RunProgram
    from orchestrate.agents.registry import Equipment
    from orchestrate.app.settings import RunSettings
    from orchestrate.dialects.agent_definitions import AgentFile
    from orchestrate.engine.runtime import AgentDefinition
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

DEFAULT_BACKEND = "claude-code"
# The folder of a run that `replay` can answer from.
TURNS = "turns"


def backend_of(settings: RunSettings) -> str:
    return settings.backend or DEFAULT_BACKEND


def is_without_a_bill(backend: str) -> bool:
    """Does this backend stand in for every agent of a run?"""
    return backend in WITHOUT_A_BILL


# Before anything starts.


def refuse_unusable(
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    frozen: Mapping[str, AgentFile] = MappingProxyType({}),
) -> None:
    """Refuse a program whose agents are unknown, not installed or wrongly set (rulings §8, §9),
    or whose secrets are not set."""
    refuse_unset(program, workspace)
    if backend_of(settings) == "human" and not has_terminal():
        raise ConfigError(
            "the backend 'human' needs a terminal, and there is none: nobody can be asked",
            "start the run in a terminal",
        )
    seen: set[str] = set()
    for _, node, op in asks_in(program):
        definition = definition_before(node, op, workspace, settings, frozen)
        if definition is None or is_without_a_bill(definition.backend):
            continue
        fault = _fault(definition, settings)
        if fault and fault not in seen:
            seen.add(fault)
            span = node.span
            dialect = main_plan(program).dialect
            way = "ORCHESTRATE_BACKEND=" if dialect == "workflow" else "--backend "
            raise ConfigError(
                f"{span.file}:{span.line}: step '{node.name}': {fault}",
                f"to go through the run without an agent: {way}rehearsal",
            )


def refuse_settings(program: Program, workspace: Workspace, settings: RunSettings) -> None:
    """Refuse what `run` would refuse of the agents' settings; asks for no program."""
    for fault in faults_of_settings(program, workspace, settings):
        raise ConfigError(fault)


def faults_of_settings(
    program: Program, workspace: Workspace, settings: RunSettings
) -> Iterator[str]:
    """Settings of steps that their agents cannot take, each with its place."""
    permissions = settings.permissions or "bypass"
    for _, node, op in asks_in(program):
        try:
            definition = definition_before(node, op, workspace, settings)
        except ConfigError:
            # An agent that is unknown, or whose file is missing or wrong, is `run`'s to tell.
            continue
        if definition is None or is_without_a_bill(definition.backend):
            continue
        for fault in setting_faults(definition.backend, dict(definition.settings), permissions):
            yield f"{node.span.file}:{node.span.line}: step '{node.name}': {fault}"


def outcomes_of(program: Program) -> dict[str, tuple[str, ...]]:
    """The outcomes of every step that asks an agent, by the step's name."""
    found: dict[str, tuple[str, ...]] = {}
    for _, node, op in asks_in(program):
        found[node.name] = (*found.get(node.name, ()), *op.outcomes)
    return found


def asks_in(program: Program) -> Iterator[tuple[Plan, Node, Ask]]:
    """Every step that asks somebody."""
    for plan in program.plans:
        for block in plan.blocks:
            for node in block.nodes:
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
        case RunAgent():
            return AgentDefinition(backend_of(settings), backend_of(settings))
        case BuiltinProvider(name, params):
            _require_known(name, node)
            own = constants(params)
            own.pop("model", None)
            return AgentDefinition(name, stand_in(name, settings), settings=tuple(own.items()))
        case NamedAgent(name, config):
            return definition_of(name, constants(config), workspace, settings, frozen)
        case _:
            return None


def constants(values: MapExpr) -> dict[str, Any]:
    """The values that do not depend on the run."""
    return {
        key: evaluate(value, NoScope()) for key, value in values.items if not any(references(value))
    }


def _fault(definition: AgentDefinition, settings: RunSettings) -> str:
    own = settings.agents.get(definition.backend) or {}
    environment = configured_environment(definition.backend, own, os.environ)
    found = find_program(definition.backend, environment)
    if isinstance(found, Missing):
        return missing_failure(found).message
    permissions = settings.permissions or "bypass"
    faults = setting_faults(definition.backend, dict(definition.settings), permissions)
    return faults[0] if faults else ""


def _require_known(name: str, node: Node) -> None:
    if name in BACKENDS:
        return
    near = closest(name, BACKENDS)
    also = f" (did you mean '{near}'?)" if near else ""
    raise ConfigError(
        f"{node.span.file}:{node.span.line}: the provider '{name}' is not known{also}",
        "declare it under `providers:` with the command that starts it",
    )


def stand_in(name: str, settings: RunSettings) -> str:
    """The backend that plays an agent: its own, unless the run has one that plays them all."""
    backend = backend_of(settings)
    return backend if is_without_a_bill(backend) else own_name(name)


# While it runs.


def agent_of(name: str, settings: RunSettings, run: Run, person: Person) -> Agent:
    """The agent of a name."""
    ours = stand_in(name, settings)
    agent = make_agent(ours, _equipment(settings, run, person))
    own = settings.agents.get(ours)
    return Configured(agent, own) if own and not is_without_a_bill(ours) else agent


class Configured:
    """An agent that is started as the configuration says (`agents:`)."""

    is_program = True
    asks_person = False

    def __init__(self, agent: Agent, own: Mapping[str, Any]) -> None:
        self._agent = agent
        self._own = own

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def chooses_session(self) -> bool:
        return self._agent.chooses_session

    def ask(self, question: Question, run: RunProgram) -> Reply:
        more = tuple(self._own.get("args") or ())
        models = self._own.get("models") or {}
        asked = replace(
            question,
            environment=configured_environment(self.name, self._own, question.environment),
            model=models.get(question.model or "", question.model),
        )
        return self._agent.ask(
            asked, lambda call: run(replace(call, argv=with_arguments(call.argv, more)))
        )

    def session_in(self, output: bytes, asked: str | None = None) -> str | None:
        return self._agent.session_in(output, asked)

    def has_session(self, session: str, environment: Mapping[str, str]) -> bool:
        own = configured_environment(self.name, self._own, environment)
        return self._agent.has_session(session, own)

    def last_words(self, output: bytes) -> str:
        return self._agent.last_words(output)

    def takeover(self, session: str, workspace: Path) -> tuple[str, ...] | None:
        return self._agent.takeover(session, workspace)


def with_arguments(argv: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """The user's own arguments come first: behind the program and its subcommand (`codex exec`)."""
    place = 2 if len(argv) > 1 and not argv[1].startswith("-") else 1
    return (*argv[:place], *more, *argv[place:])


def configured_environment(
    name: str, own: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment with the agent's own variables, and the program's place among them."""
    changed = {**environment, **(own.get("env") or {})}
    if own.get("path"):
        changed[PROGRAMS[name]().program.variable] = str(own["path"])
    return changed


def _equipment(settings: RunSettings, run: Run, person: Person) -> Equipment:
    script, recording = settings.script, settings.recording
    return Equipment(
        script=None if script is None else read_mapping("--script", script),
        person=person,
        recording=None if recording is None else run.root.parent / recording / TURNS,
    )


def read_mapping(flag: str, name: str) -> Any:
    """The data of a JSON or YAML file that a flag names."""
    path = Path(os.path.abspath(name))
    faults: list[ReadFault] = []
    try:
        source = read_source(path, name)
        parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
        data = parse(source.text, 0, faults.append)
    except ReadFault as fault:
        faults.append(fault)
        data = None
    if faults:
        where = f"{name}:{faults[0].line + 1}:{faults[0].column + 1}"
        raise UsageError(f"{flag}: {where}: {faults[0].message}", faults[0].hint)
    return data


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
    found = frozen.get(name) or read_agent(name, workspace)
    fields = {**found.fields, **step_config(config)}
    backend = backend_of(settings)
    if not is_without_a_bill(backend):
        backend = stand_in(str(fields.pop("backend", backend)), settings)
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


def step_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`agent_config` in our words; B writes models under `providers`, tools as modules."""
    own = {key: value for key, value in config.items() if key not in ("providers", "tools")}
    for provider in config.get("providers") or ():
        if isinstance(provider, Mapping):
            own |= provider.get("config") or {}
    tools = config.get("tools")
    if isinstance(tools, str):
        own["tools"] = tools
    elif tools is not None:
        own["tools"] = [
            tool.get("module", "") if isinstance(tool, Mapping) else tool for tool in tools
        ]
    return own


def keep_turn(run: Run, question: Question, reply: Reply) -> None:
    """Record a turn, so that `--backend replay` can give it again."""
    record_turn(run.root / TURNS, question, reply, time.time())
