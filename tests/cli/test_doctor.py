"""`doctor` says what is there, what is not, and what to do."""

from __future__ import annotations

from pathlib import Path

from orchestrate.testing import Project

FAKE = '#!/bin/sh\necho "9.8.7 (Fake)"\n'


def program(folder: Path, name: str, text: str = FAKE) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_agents_are_named_with_version_and_place(tmp_path: Path) -> None:
    claude = program(tmp_path, "my-claude")
    cursor = program(tmp_path, "cursor-agent")
    env = {"CLAUDE_CLI_PATH": claude, "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    result = Project(tmp_path).run("doctor", env=env).assert_success()
    lines = result.stdout.splitlines()
    assert any("claude-code" in line and f"9.8.7 at {claude}" in line for line in lines)
    assert any("codex" in line and "not installed" in line for line in lines)
    assert f"9.8.7 at {cursor}" in result.stdout
    after = result.stdout.partition(cursor)[2].splitlines()[1]
    assert "documentation" in after, "Cursor is marked as untried"


def test_json_is_one_document(tmp_path: Path) -> None:
    findings = Project(tmp_path).run("doctor", "--json").assert_success().json()["findings"]
    by_name = {finding["name"]: finding for finding in findings}
    assert by_name["runs"]["ok"]
    assert {"python", "git", "configuration", "claude-code", "opencode"} <= set(by_name)


def test_a_broken_configuration_is_a_fault(tmp_path: Path) -> None:
    project = Project(tmp_path, {".orchestrate/config.yaml": "bakend: codex\n"})
    result = project.run("doctor").assert_exit(5)
    assert "configuration" in result.stdout


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    Project(tmp_path).run("doctor").assert_success()
    assert list(tmp_path.iterdir()) == []


def test_a_default_agent_that_is_not_installed_is_told(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CLAUDE_CLI_PATH": ""}
    project = Project(tmp_path)
    lines = project.run("doctor", env=env).assert_success().stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line[4:].startswith("agents "))
    assert lines[at].startswith("--")
    assert "claude-code is not installed" in lines[at]
    assert "--backend rehearsal" in lines[at + 1]
    env = {**env, "ORCHESTRATE_BACKEND": "rehearsal"}
    findings = project.run("doctor", "--json", env=env).assert_success().json()["findings"]
    assert next(one["ok"] for one in findings if one["name"] == "agents")
    env = {**env, "ORCHESTRATE_BACKEND": "", "CLAUDE_CLI_PATH": program(tmp_path, "my-claude")}
    findings = project.run("doctor", "--json", env=env).assert_success().json()["findings"]
    assert next(one["ok"] for one in findings if one["name"] == "agents")
