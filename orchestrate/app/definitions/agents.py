"""Finds the agents that a run asks for, and refuses a run whose agents cannot be there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.agents.definition import AgentDefinition
from orchestrate.agents.finding import Missing, missing_failure
from orchestrate.agents.registry import (
    Equipment,
    find_program,
    make_agent,
    setting_faults,
)
from orchestrate.agents.stand_ins.human import Person, has_terminal
from orchestrate.agents.stand_ins.recording import record_turn
from orchestrate.app.definitions.agent_definitions import (
    asks_in,
    backend_of,
    configured_environment,
    definition_before,
    in_its_words,
    is_stand_in,
    stand_in,
)
from orchestrate.app.given.data_files import read_given_file
from orchestrate.app.secrets import refuse_unset
from orchestrate.errors import ConfigError
from orchestrate.plan.nodes import (
    Program,
    main_plan,
)
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.agents.base import Agent, Question, Reply, RunProgram, Used
    from orchestrate.agents.definition import AgentDefinition
    from orchestrate.agents.registry import Equipment
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.dialects.agent_definitions import AgentFile
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

# The folder of a run that `replay` can answer from.
TURNS = "turns"


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
            "the backend 'human' needs a terminal to ask at, and there is none",
            "start the run in a terminal",
        )
    seen: set[str] = set()
    for plan, node, op in asks_in(program):
        definition = definition_before(node, op, workspace, settings, frozen)
        if definition is None or is_stand_in(definition.backend):
            continue
        fault = _fault(definition, settings)
        if fault and fault not in seen:
            seen.add(fault)
            span = node.span
            dialect = main_plan(program).dialect
            way = "ORCHESTRATE_BACKEND=" if dialect == "workflow" else "--backend "
            raise ConfigError(
                f"{span.file}:{span.line}: step '{node.name}': {in_its_words(fault, plan)}",
                f"to go through the run without an agent: {way}rehearsal",
            )


def _fault(definition: AgentDefinition, settings: RunSettings) -> str:
    own = settings.agents.get(definition.backend) or {}
    environment = configured_environment(definition.backend, own, os.environ)
    found = find_program(definition.backend, environment)
    if isinstance(found, Missing):
        return missing_failure(found).message
    permissions = settings.permissions or "bypass"
    faults = setting_faults(definition.backend, dict(definition.settings), permissions)
    return faults[0] if faults else ""


# While it runs.


def agent_of(name: str, settings: RunSettings, run: Run, person: Person) -> Agent:
    """The agent of a name."""
    ours = stand_in(name, settings)
    agent = make_agent(ours, _equipment(settings, run, person))
    own = settings.agents.get(ours)
    return Configured(agent, own) if own and not is_stand_in(ours) else agent


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

    @property
    def forks_sessions(self) -> bool:
        return self._agent.forks_sessions

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

    def used_in(self, output: bytes) -> list[Used]:
        return self._agent.used_in(output)

    def has_session(self, session: str, environment: Mapping[str, str]) -> bool:
        own = configured_environment(self.name, self._own, environment)
        return self._agent.has_session(session, own)

    def takeover(self, session: str) -> tuple[str, ...] | None:
        return self._agent.takeover(session)


def with_arguments(argv: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """The user's own arguments come first: behind the program and its subcommand (`codex exec`)."""
    place = 2 if len(argv) > 1 and not argv[1].startswith("-") else 1
    return (*argv[:place], *more, *argv[place:])


def _equipment(settings: RunSettings, run: Run, person: Person) -> Equipment:
    script, recording = settings.script, settings.recording
    return Equipment(
        script=None if script is None else read_given_file("--script", script, script),
        person=person,
        recording=None if recording is None else run.root.parent / recording / TURNS,
    )


def keep_turn(run: Run, question: Question, reply: Reply) -> None:
    """Record a turn, so that `--backend replay` can give it again."""
    record_turn(run.root / TURNS, question, reply, time.time())
