"""What a machine's step says of its agent is what the agent is held to, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.agent_flags import flag_of_ours
from orchestrate.agents.adapter import ProgramTurn
from orchestrate.agents.base import Question
from orchestrate.agents.registry import PROGRAMS, setting_faults
from tests.machines.fakes import Scene, said

TWO = """
id: two
label: Two
description: One that only looks, and one that works
initialStep: look
steps:
  look:
    prompt: Look.
    permissions: read-only
    tools: [Read, Grep]
    maxTurns: 7
    timeout: 5m
    agentArgs: [--add-dir, ../shared]
    check: {command: ["test", -e, made], rounds: 1}
    outcomes: [done, other]
    onOutcome:
      done: {nextStep: work}
      other: {action: exit, reason: other}
  work:
    prompt: Work.
    outcomes: [done, other]
    onOutcome:
      done: {action: exit, reason: done}
      other: {action: exit, reason: other}
"""
SETTINGS = (
    "permissions: read-only", "tools: [Read, Grep]", "maxTurns: 7",
    "agentArgs: [--add-dir, ../shared]",
)  # fmt: skip


def test_a_step_holds_its_agent_to_its_settings(tmp_path: Path) -> None:
    """Also in the round that a check asks for, and not in the next step."""
    scene = Scene(tmp_path, said("done"), said("done", run=["touch made"]), said("done"))
    played = scene.play(TWO)
    first, again, last = scene.ledger()
    for call in (first, again):
        words = call.argv
        assert words[words.index("--permission-mode") + 1] == "dontAsk"
        assert "--tools=Read,Grep" in words
        assert words[words.index("--max-turns") + 1] == "7"
        assert words[words.index("--add-dir") + 1] == "../shared"
        assert "--dangerously-skip-permissions" not in words
    assert "--dangerously-skip-permissions" in last.argv
    assert not {"--max-turns", "--add-dir"} & set(last.argv)
    assert played.state["steps"]["look"]["permissions"] == "read-only"
    told = "permissions read-only, tools Read Grep, at most 7 turns, arguments --add-dir ../shared"
    assert told in played.result.stderr
    scene.run("report", "-o", "report.md").assert_success()
    report = (scene.folder / "report.md").read_text()
    for line in (
        'tools: ["Read", "Grep"]', "maxTurns: 7", 'agentArgs: ["--add-dir", "../shared"]',
        "permissions: read-only",
    ):  # fmt: skip
        assert report.count(f"\n{line}\n") == 1


def test_they_are_shown_before(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("two.yaml", TWO)
    dry = scene.run("run", "two.yaml", "--dry-run").assert_success()
    for line in ("Permissions: read-only", "Tools: Read, Grep", "Turns at most: 7",
                 "Arguments: --add-dir, ../shared", "Timeout: 5m"):  # fmt: skip
        assert f"      {line}\n" in dry.stdout
    plan = scene.run("plan", "two.yaml").assert_success().stdout
    assert "max_turns: 7" in plan


@pytest.mark.parametrize(
    ("backend", "setting"),
    [
        ("codex", "tools: [Read, Grep]"),
        ("codex", "maxTurns: 7"),
        ("gemini", "maxTurns: 7"),
        ("gemini", "tools: [Read, Grep]"),
        ("cursor", "permissions: edit"),
        ("codex", "agentArgs: [-c, sandbox_mode=danger-full-access]"),
        ("codex", "agentArgs: [--config=approval_policy=never]"),
        ("claude-code", "agentArgs: [-c]"),
        ("gemini", "agentArgs: [-y]"),
        ("qwen", "agentArgs: [-mfast]"),
    ],
)
def test_what_a_program_cannot_be_held_to_is_refused(
    tmp_path: Path, backend: str, setting: str
) -> None:
    scene = Scene(tmp_path)
    text = TWO
    for line in SETTINGS:
        text = text.replace(f"    {line}\n", "")
    scene.write("two.yaml", text.replace("prompt: Look.", f"prompt: Look.\n    {setting}"))
    told = scene.run("run", "two.yaml", "--backend", backend, "--dry-run").assert_exit(5).stderr
    assert "two.yaml:8:5: error E128: step 'look': " in told
    assert told.count("E128") == 1, "a round of the check has the settings of its step"
    assert "max_turns" not in told
    assert scene.ledger() == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_flag_that_we_give_is_ours(name: str) -> None:
    """`-c` of Codex sets one of many things; those that are ours are refused by their names."""
    adapter = PROGRAMS[name]()
    for permissions in adapter.permissions:
        for is_new in (True, False):
            question = Question(
                "Do it.", Path("/w"), {}, session="s", is_new_session=is_new, system_prompt="x",
                schema="{}", schema_file=Path("s"), usage_file=Path("u"), version="99.0.0",
            )  # fmt: skip
            call = adapter.make_call(ProgramTurn(question, "m", None, permissions))
            given = {word.partition("=")[0] for word in call.arguments if word[:1] == "-"}
            free = given - {"-", "-c" if name == "codex" else "-"}
            assert [flag for flag in free if not flag_of_ours(flag, adapter.own_flags)] == []
            for flag in free:
                assert setting_faults(name, {"agent_args": [flag]})
    assert setting_faults(name, {"agent_args": ["--some-flag", "value"]}) == ()
