"""`approvals` and `inbox` show what a decision is about: the changed files, and inside them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.testing import Project

SECRET = "sesame-open-123"
GATES = """
    version: "1.4"
    name: w
    secrets: [WORD]
    steps:
      - {name: A, command: [bash, -c, "printf 'two\\n' >> f.txt; printf %s $WORD > n.txt"]}
      - {name: G, approval: {prompt: "First?"}}
      - {name: B, command: [bash, -c, "echo three > later.txt"]}
      - {name: H, approval: {prompt: "Second?"}}
"""
ONE = 'version: "1.1"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("WORD", SECRET)
    (tmp_path / "work").mkdir()
    made = Project(tmp_path / "work", {"w.yaml": GATES, "f.txt": "one\n"})
    for words in (["init", "-q"], ["add", "f.txt", "w.yaml"], ["commit", "-qm", "begin"]):
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", *who, *words], cwd=made.folder, check=True, env=dict(os.environ))
    made.run("run", "w.yaml").assert_exit(6)
    return made


@pytest.mark.parametrize("command", ["approvals", "inbox"])
def test_a_gate_lists_the_changed_files_and_on_request_their_lines(
    project: Project, command: str
) -> None:
    plain = project.run(command).assert_success().stdout
    assert "modified  f.txt +1 -0" in plain
    assert "+two" not in plain
    whole = project.run(command, "--diff").assert_success().stdout
    assert "             +two\n" in whole
    assert SECRET not in whole
    assert "n.txt +1 -0\n             @@ -0,0 +1,1 @@\n             +***" in whole


def test_programs_get_the_hunks_with_the_files(project: Project) -> None:
    (gate,) = json.loads(project.run("approvals", "--json").stdout)["approvals"]
    assert all("hunks" not in one for one in gate["files"])
    (gate,) = json.loads(project.run("approvals", "--json", "--diff").stdout)["approvals"]
    assert {one["path"]: one["hunks"] for one in gate["files"]}["f.txt"].endswith("\n+two\n")
    (asked,) = json.loads(project.run("inbox", "--json", "--diff").stdout)["questions"]
    assert asked["evidence"]["files"] == gate["files"]


def test_a_later_gate_shows_what_came_since_the_one_before(project: Project) -> None:
    project.run("approve").assert_success()
    project.run("resume").assert_exit(6)
    told = project.run("approvals", "--diff").assert_success().stdout
    assert "changed  since gate 'G', as git tells:" in told
    assert "+three" in told
    assert "n.txt" not in told


def test_workspaces_that_are_gone_are_told_in_one_line(project: Project, tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / name).mkdir()
        other = Project(tmp_path / name, {"w.yaml": ONE})
        other.run("run", "w.yaml").assert_success()
        other.folder.rename(tmp_path / f"{name}-moved")
    (line,) = project.run("inbox").assert_success().stderr.splitlines()
    assert line.startswith("orchestrate: 5 workspaces are gone: ")
    assert line.endswith(", …")
