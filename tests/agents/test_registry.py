"""The registry knows the same names as the command line, and loads no more than it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.agent_names import BACKENDS, PROVIDERS, own_name
from orchestrate.agents.base import Agent
from orchestrate.agents.keys import KEYS
from orchestrate.agents.registry import (
    PROGRAMS,
    STAND_INS,
    Equipment,
    is_program,
    make_agent,
    program_version,
    untried,
)
from orchestrate.agents.stand_ins.human import Person
from orchestrate.errors import ConfigError
from orchestrate.source.schema import load_schema

EQUIPMENT = Equipment(
    script={"a": ["done"]},
    person=Person(lambda _: None, lambda _text: None, is_terminal=False),
    recording=Path("recording"),
)


def test_names_are_those_of_the_command_line() -> None:
    assert set(BACKENDS.values()) == {*PROGRAMS, *STAND_INS}


def test_every_provider_that_needs_no_declaration_is_a_program() -> None:
    assert {own_name(name) for name in PROVIDERS} == set(PROGRAMS)


def test_every_program_has_keys_and_slots() -> None:
    slots = load_schema("config")["$defs"]["concurrent"]["properties"]
    assert set(slots) == {"total", *PROGRAMS}
    assert set(KEYS) == set(PROGRAMS)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_agent_can_be_made(name: str) -> None:
    agent: Agent = make_agent(name, EQUIPMENT)
    assert agent.name == own_name(name)
    assert agent.session_in(b"") is None
    assert is_program(name) is (own_name(name) in PROGRAMS)


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(ConfigError, match="did you mean 'claude'") as raised:
        make_agent("claud")
    assert "codex" in raised.value.hint


@pytest.mark.parametrize("name", ["replay", "human"])
def test_what_is_missing_is_said(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        make_agent(name)


def test_only_cursor_is_untried() -> None:
    assert [name for name in (*PROGRAMS, *STAND_INS) if untried(name)] == ["cursor"]


def test_the_version_is_asked_with_a_command() -> None:
    assert program_version("claude", Path("/x/claude")) == ("/x/claude", "--version")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_person_can_take_a_session_over(name: str) -> None:
    agent = make_agent(name)
    command = agent.takeover("7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11")
    assert command is not None
    assert "7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11" in " ".join(command)
    assert agent.takeover("--evil; rm -rf") is None


def test_the_registry_alone_loads_no_adapter() -> None:
    program = (
        "import sys, orchestrate.agents.registry\n"
        "print(*[m for m in sys.modules if m.startswith('orchestrate.agents.')])\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    adapters = {"claude", "codex", "gemini", "copilot", "cursor", "opencode", "qwen"}
    others = {"rehearsal", "human", "replay", "recording"}
    assert "orchestrate.agents.registry" in loaded
    assert not {f"orchestrate.agents.{name}" for name in adapters | others} & set(loaded)


def test_help_loads_no_agents() -> None:
    program = (
        "import sys\n"
        "from orchestrate.cli.main import run_command\n"
        "run_command(['--help'])\n"
        "print(*[m for m in sys.modules if m.startswith('orchestrate.agents')], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.split() == []
