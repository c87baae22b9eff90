"""Says before a run starts whom it asks: each agent with its model and its permissions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.agents.registry import default_model
from orchestrate.agents.settings import names_of, step_config
from orchestrate.app.definitions.agent_definitions import (
    asks_in,
    configured_environment,
    constants,
    definition_before,
    is_stand_in,
)
from orchestrate.errors import OrchestrateError
from orchestrate.plan.nodes import Ask, BuiltinProvider, CommandTemplate, Node, Plan, RunAgent
from orchestrate.plan.visible import plural, visible
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

_MOST_LINES = 6


@record
class AskedAgent:
    """Whom some steps ask. `model` None: the program's own; `permissions` None: not ours to set."""

    agent: str
    backend: str | None
    model: str | None
    permissions: str | None
    # What else the steps say of their agent, each in words.
    others: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        if self.backend is None:
            return f"provider {visible(self.agent)}: a command of the definition"
        name = visible(self.agent)
        if self.backend != self.agent:
            name += f" ({visible(self.backend)})"
        if self.permissions is None:
            return f"agent {name}: no program is asked"
        model = "its own" if self.model is None else visible(self.model)
        others = "".join(f", {visible(one)}" for one in self.others)
        return f"agent {name}, model {model}, permissions {self.permissions}{others}"


def agents_asked(
    program: Program, workspace: Workspace, settings: RunSettings
) -> dict[AskedAgent, int]:
    """Everyone whom the steps of a program ask, and how many steps do; none for commands alone.

    What a step works out for itself is not known yet.
    """
    found: dict[AskedAgent, int] = {}
    for plan, node, op in asks_in(program):
        try:
            asked = _asked(plan, node, op, workspace, settings)
        except OrchestrateError:
            continue  # told when the run is refused, or when the step comes to it
        found[asked] = found.get(asked, 0) + (node.part_of is None)
    return found


def asked_by_step(
    program: Program, workspace: Workspace, settings: RunSettings
) -> dict[tuple[str, str], AskedAgent]:
    """The same by plan and node."""
    found: dict[tuple[str, str], AskedAgent] = {}
    for plan, node, op in asks_in(program):
        with suppress(OrchestrateError):
            found[plan.id, node.id] = _asked(plan, node, op, workspace, settings)
    return found


def _asked(
    plan: Plan, node: Node, op: Ask, workspace: Workspace, settings: RunSettings
) -> AskedAgent:
    if isinstance(op.agent, CommandTemplate):
        return AskedAgent(op.agent.name, None, None, None)
    definition = definition_before(node, op, workspace, settings)
    assert definition is not None
    backend = definition.backend
    if is_stand_in(backend):
        return AskedAgent(definition.name, backend, None, None)
    own = dict(definition.settings)
    permissions = own.get("permissions") or settings.permissions or "bypass"
    model = _model(plan, op, definition.model, own) or _default(backend, workspace, settings)
    return AskedAgent(definition.name, backend, model, permissions, tuple(_others(own)))


def _others(own: Mapping[str, Any]) -> Iterator[str]:
    """Settings of a step that bound or change what its agent does."""
    if "tools" in own:
        yield f"tools {' '.join(names_of(own['tools'])) or 'none'}"
    if "max_turns" in own:
        yield f"at most {own['max_turns']} turns"
    if own.get("agent_args"):
        yield f"arguments {shlex.join(map(str, own['agent_args']))}"


def _default(backend: str, workspace: Workspace, settings: RunSettings) -> str | None:
    """What the program will be told, with the environment that the configuration gives it."""
    configured = settings.agents.get(backend) or {}
    environment = configured_environment(backend, configured, os.environ)
    return default_model(backend, environment, workspace.root)


def _model(plan: Plan, op: Ask, defined: str | None, own: Mapping[str, Any]) -> str | None:
    match op.agent:
        case RunAgent(config):
            model = op.model or step_config(constants(config)).get("model")
            return plan.defaults.model if model is None else str(model)
        case BuiltinProvider(_, params):
            model = constants(params).get("model")
            return None if model is None else str(model)
        case _:
            return defined or own.get("model") or plan.defaults.model


def asked_lines(asked: Mapping[AskedAgent, int]) -> Iterator[str]:
    """A line for each, of many only the first."""
    for number, (one, steps) in enumerate(asked.items()):
        if number == _MOST_LINES:
            yield f"and {len(asked) - number} more"
            return
        several = f" ({plural(steps, 'step')})" if len(asked) > 1 else ""
        yield f"{one.words}{several}"


def asked_json(asked: Mapping[AskedAgent, int]) -> list[dict[str, Any]]:
    return [
        {"agent": one.agent, "backend": one.backend, "model": one.model,
         "permissions": one.permissions, "steps": steps,
         **({"others": list(one.others)} if one.others else {})}
        for one, steps in asked.items()
    ]  # fmt: skip
