"""Programs are found where their variable says, in their usual places, and on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrate.agents.finding import (
    KnownProgram,
    Missing,
    find_program,
    missing_failure,
    version_in,
)
from orchestrate.agents.registry import PROGRAMS
from orchestrate.agents.registry import find_program as find_by_name

TOOL = KnownProgram("Tool", ("tool", "tool-cli"), "TOOL_PATH", ("~/.tool/tool",), "make tool")


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_variable_wins(tmp_path: Path) -> None:
    named = executable(tmp_path / "named" / "my-tool")
    executable(tmp_path / ".tool" / "tool")
    environment = {"TOOL_PATH": str(named), "HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert find_program(TOOL, environment) == named


def test_a_variable_may_start_at_home(tmp_path: Path) -> None:
    named = executable(tmp_path / "mine" / "tool")
    assert find_program(TOOL, {"TOOL_PATH": "~/mine/tool", "HOME": str(tmp_path)}) == named


def test_a_variable_that_leads_nowhere_is_not_made_up_for(tmp_path: Path) -> None:
    executable(tmp_path / "tool")
    missing = find_program(TOOL, {"TOOL_PATH": "/nowhere/tool", "PATH": str(tmp_path)})
    assert isinstance(missing, Missing)
    message = missing_failure(missing).message
    assert "TOOL_PATH (/nowhere/tool)" in message
    assert "on PATH" not in message


def test_the_usual_place_comes_before_path(tmp_path: Path) -> None:
    usual = executable(tmp_path / ".tool" / "tool")
    executable(tmp_path / "bin" / "tool")
    environment = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    assert find_program(TOOL, environment) == usual


def test_path_is_searched_in_order_and_for_each_name(tmp_path: Path) -> None:
    executable(tmp_path / "b" / "tool")
    first = executable(tmp_path / "a" / "tool-cli")
    folders = os.pathsep.join(str(tmp_path / name) for name in ("empty", "a", "b"))
    assert find_program(TOOL, {"PATH": folders}) == first


@pytest.mark.parametrize("folder", ["", ".", "bin", "./bin"])
def test_relative_folders_of_path_are_not_searched(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be folders of the workspace, and anybody may have put a `claude` there."""
    executable(tmp_path / "tool")
    executable(tmp_path / "bin" / "tool")
    monkeypatch.chdir(tmp_path)
    assert isinstance(find_program(TOOL, {"PATH": folder}), Missing)


def test_files_that_cannot_be_started_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tool").write_text("not executable")
    (tmp_path / "b" / "tool").mkdir(parents=True)
    found = executable(tmp_path / "c" / "tool")
    folders = os.pathsep.join(str(tmp_path / name) for name in "abc")
    assert find_program(TOOL, {"PATH": folders}) == found


def test_a_missing_program_says_where_it_was_looked_for_and_how_to_get_it(tmp_path: Path) -> None:
    missing = find_program(TOOL, {"HOME": str(tmp_path), "PATH": "/no/such/folder"})
    assert isinstance(missing, Missing)
    failure = missing_failure(missing)
    assert failure.kind == "not-installed"
    for part in ("Tool", "~/.tool/tool", "/no/such/folder", "make tool", "TOOL_PATH"):
        assert part in failure.message
    assert missing.expected == tmp_path / ".tool" / "tool"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_can_be_missing(name: str, tmp_path: Path) -> None:
    missing = find_by_name(name, {"HOME": str(tmp_path), "PATH": str(tmp_path)})
    assert isinstance(missing, Missing)
    assert missing.expected.is_absolute()
    assert missing.program.install in missing_failure(missing).message


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("2.1.325 (Claude Code)\n", "2.1.325"),
        ("WARNING: no aliases\ncodex-cli 0.166.0\n", "0.166.0"),
        ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update'.", "1.0.102"),
        ("1.18.33", "1.18.33"),
        ("2026.02-abc\n", "2026.02-abc"),
        ("unknown build\nx", "unknown build"),
        ("", ""),
    ],
)
def test_the_version_is_read(printed: str, version: str) -> None:
    assert version_in(printed) == version
