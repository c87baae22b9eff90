"""The agents that we know by name; an adapter is loaded when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.agents.adapter import Adapter, ProgramAgent, step_faults
from orchestrate.agents.base import Agent, Permissions
from orchestrate.agents.finding import Missing
from orchestrate.agents.finding import find_program as _find
from orchestrate.agents.settings import COMMON, Setting
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.agents.stand_ins.human import Person


@record
class Equipment:
    """What agents that are no programs need: a script, a person, a recording."""

    # The parsed script of a rehearsal.
    script: object = None
    person: Person | None = None
    recording: Path | None = None


BARE_HANDS = Equipment()


def _claude_code() -> Adapter:
    from orchestrate.agents.claude import CLAUDE_CODE

    return CLAUDE_CODE


def _codex() -> Adapter:
    from orchestrate.agents.codex import CODEX

    return CODEX


def _gemini() -> Adapter:
    from orchestrate.agents.gemini import GEMINI

    return GEMINI


def _copilot() -> Adapter:
    from orchestrate.agents.copilot import COPILOT

    return COPILOT


def _cursor() -> Adapter:
    from orchestrate.agents.cursor import CURSOR

    return CURSOR


def _opencode() -> Adapter:
    from orchestrate.agents.opencode import OPENCODE

    return OPENCODE


def _qwen() -> Adapter:
    from orchestrate.agents.qwen import QWEN

    return QWEN


def _rehearsal(equipment: Equipment) -> Agent:
    from orchestrate.agents.stand_ins.rehearsal import EMPTY_SCRIPT, Rehearsal, parse_script

    return Rehearsal(EMPTY_SCRIPT if equipment.script is None else parse_script(equipment.script))


def _human(equipment: Equipment) -> Agent:
    from orchestrate.agents.stand_ins.human import Human

    if equipment.person is None:
        raise ConfigError("the backend 'human' needs somebody to ask")
    return Human(equipment.person)


def _replay(equipment: Equipment) -> Agent:
    from orchestrate.agents.stand_ins.replay import Replay

    if equipment.recording is None:
        raise ConfigError("the backend 'replay' needs a recording to answer from")
    return Replay(equipment.recording)


PROGRAMS: dict[str, Callable[[], Adapter]] = {
    "claude-code": _claude_code,
    "github-copilot": _copilot,
    "cursor": _cursor,
    "opencode": _opencode,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
}
WITHOUT_A_BILL: dict[str, Callable[[Equipment], Agent]] = {
    "rehearsal": _rehearsal,
    "human": _human,
    "replay": _replay,
}
ALIASES = {"claude": "claude-code", "copilot": "github-copilot"}


def known_agents() -> tuple[str, ...]:
    return (*PROGRAMS, *WITHOUT_A_BILL)


def own_name(name: str) -> str:
    """Our name of an agent that somebody calls so."""
    ours = ALIASES.get(name, name)
    if ours in PROGRAMS or ours in WITHOUT_A_BILL:
        return ours
    near = closest(name, [*known_agents(), *ALIASES])
    also = f" (did you mean '{near}'?)" if near else ""
    raise ConfigError(f"there is no agent '{name}'{also}", f"known: {', '.join(known_agents())}")


def make_agent(name: str, equipment: Equipment = BARE_HANDS) -> Agent:
    """The agent of a name or an alias."""
    ours = own_name(name)
    if ours in PROGRAMS:
        return ProgramAgent(PROGRAMS[ours]())
    return WITHOUT_A_BILL[ours](equipment)


def is_program(name: str) -> bool:
    return own_name(name) in PROGRAMS


def find_program(name: str, environment: Mapping[str, str]) -> Path | Missing:
    """Where the program of an agent is, or where it was looked for (`missing_failure` tells)."""
    return _find(PROGRAMS[own_name(name)]().program, environment)


def program_version(name: str, path: Path) -> tuple[str, ...]:
    """The command that prints a program's version, for whoever runs it; `version_in` reads that."""
    own_name(name)
    return (str(path), "--version")


def untried(name: str) -> str:
    """Why an agent is known from documentation only, or ''."""
    ours = own_name(name)
    return PROGRAMS[ours]().untried if ours in PROGRAMS else ""


def default_model(name: str, environment: Mapping[str, str], workspace: Path) -> str | None:
    """The model that a program is told where no step names one; None if it is told none."""
    return PROGRAMS[own_name(name)]().default_model(environment, workspace)


def supported_settings(name: str) -> Mapping[str, Setting]:
    """The settings that an agent can take. Those that start nothing need none, and take any."""
    ours = own_name(name)
    return {**COMMON, **PROGRAMS[ours]().settings} if ours in PROGRAMS else {}


def setting_faults(
    name: str, settings: Mapping[str, Any], permissions: Permissions = "bypass"
) -> tuple[str, ...]:
    """Why a step cannot be asked of an agent like this, known before anything starts."""
    ours = own_name(name)
    return step_faults(PROGRAMS[ours](), settings, permissions) if ours in PROGRAMS else ()
