"""The agents that we know by name; an adapter is loaded when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.agent_names import own_name
from orchestrate.agents.base import Agent, Permissions
from orchestrate.agents.finding import Missing
from orchestrate.agents.finding import find_program as _find
from orchestrate.errors import ConfigError
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.agents.adapter import Adapter
    from orchestrate.agents.stand_ins.human import Person


@record
class Equipment:
    """What stand-ins need: a script, a person, a recording."""

    # The parsed script of a rehearsal.
    script: object = None
    person: Person | None = None
    recording: Path | None = None


BARE_HANDS = Equipment()


def _adapter(module: str, name: str) -> Adapter:
    adapter: Adapter = getattr(import_module(f"orchestrate.agents.{module}"), name)
    return adapter


def _adapting() -> Any:
    """What all adapters have in common: a run of commands needs none of it."""
    return import_module("orchestrate.agents.adapter")


def _stand_in(module: str) -> Any:
    return import_module(f"orchestrate.agents.stand_ins.{module}")


def _rehearsal(equipment: Equipment) -> Agent:
    module = _stand_in("rehearsal")
    script = equipment.script
    agent: Agent = module.RehearsalAgent(
        module.EMPTY_SCRIPT if script is None else module.parse_script(script)
    )
    return agent


def _human(equipment: Equipment) -> Agent:
    if equipment.person is None:
        raise ConfigError("the backend 'human' needs a person to ask")
    agent: Agent = _stand_in("human").Human(equipment.person)
    return agent


def _replay(equipment: Equipment) -> Agent:
    if equipment.recording is None:
        raise ConfigError("the backend 'replay' needs a recording to answer from")
    agent: Agent = _stand_in("replay").Replay(equipment.recording)
    return agent


PROGRAMS: dict[str, Callable[[], Adapter]] = {
    "claude-code": partial(_adapter, "claude", "CLAUDE_CODE"),
    "github-copilot": partial(_adapter, "copilot", "COPILOT"),
    "cursor": partial(_adapter, "cursor", "CURSOR"),
    "opencode": partial(_adapter, "opencode", "OPENCODE"),
    "codex": partial(_adapter, "codex", "CODEX"),
    "gemini": partial(_adapter, "gemini", "GEMINI"),
    "qwen": partial(_adapter, "qwen", "QWEN"),
}
STAND_INS: dict[str, Callable[[Equipment], Agent]] = {
    "rehearsal": _rehearsal,
    "human": _human,
    "replay": _replay,
}


def make_agent(name: str, equipment: Equipment = BARE_HANDS) -> Agent:
    """The agent of a name or an alias."""
    ours = own_name(name)
    if ours in PROGRAMS:
        program: Agent = _adapting().ProgramAgent(PROGRAMS[ours]())
        return program
    return STAND_INS[ours](equipment)


def is_program(name: str) -> bool:
    return own_name(name) in PROGRAMS


def find_program(name: str, environment: Mapping[str, str]) -> Path | Missing:
    """Where the program of an agent is, or where it was looked for (`missing_failure` tells)."""
    return _find(PROGRAMS[own_name(name)]().program, environment)


def program_version(name: str, path: Path) -> tuple[str, ...]:
    """The command that prints a program's version; `version_in` reads its output."""
    own_name(name)
    return (str(path), "--version")


def untried(name: str) -> str:
    """Why an agent is known from documentation only, or ''."""
    ours = own_name(name)
    return PROGRAMS[ours]().untried if ours in PROGRAMS else ""


def default_model(name: str, environment: Mapping[str, str], workspace: Path) -> str | None:
    """The model that a program is told where no step names one; None if it is told none."""
    return PROGRAMS[own_name(name)]().default_model(environment, workspace)


def setting_faults(
    name: str, settings: Mapping[str, Any], permissions: Permissions = "bypass"
) -> tuple[str, ...]:
    """Why a step cannot be asked of an agent like this, known before anything starts."""
    ours = own_name(name)
    if ours not in PROGRAMS:
        return ()
    faults: tuple[str, ...] = _adapting().step_faults(PROGRAMS[ours](), settings, permissions)
    return faults
