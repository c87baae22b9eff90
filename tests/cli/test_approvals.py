"""`approvals`, `approve` and `deny`: each gate is decided once, by whoever comes first."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project, Result
from tests.commands import Command
from tests.conftest import TimePasses

# No agent is ever asked: the conditions do not hold. But one must seem to be installed.
ENV = {"CLAUDE_CLI_PATH": "/bin/true", "USER": "alice"}
AGENT = "---\nname: reader\n---\nYou read.\n"
RECIPE = """\
name: look-twice
description: Look at a file twice
version: 1.0.0
context:
  target: "src\\e[31m"
stages:
  - name: first look
    steps:
      - {id: look, agent: reader, prompt: Look., condition: "{{target}} == 'never'"}
    approval:
      required: true
      prompt: "Go on with {{target}}?\\nReally?"
      timeout: 3600
  - name: second look
    steps:
      - {id: again, agent: reader, prompt: Again., condition: "{{approval.message}} == 'never'"}
    approval:
      required: true
      prompt: Done?
      timeout: 3600
"""


def make_project(folder: Path, recipe: str = RECIPE) -> Project:
    return Project(folder, {"w.yaml": recipe, ".orchestrate/agents/reader.md": AGENT})


def command(project: Project, *arguments: str, code: int = 0) -> Result:
    return project.run(*arguments, env=ENV).assert_exit(code)


@pytest.fixture
def parked(tmp_path: Path) -> Project:
    """A run that waits at its first gate."""
    project = make_project(tmp_path)
    command(project, "run", "w.yaml", code=6)
    return project


def gates(project: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.latest_state["approvals"]
    return found


def decisions(project: Project) -> list[str]:
    lines = (project.latest_run / "events.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return [event["decision"] for event in events if event["on"] == "gate-decided"]


def test_from_gate_to_gate_to_the_end(parked: Project) -> None:
    run_id = parked.latest_run.name
    listed = command(parked, "approvals", "--json").json()["approvals"]
    assert [(one["run_id"], one["stage"]) for one in listed] == [(run_id, "first look")]
    assert listed[0]["prompt"] == "Go on with src\x1b[31m?\nReally?"
    assert listed[0]["default"] == "deny"
    shown = command(parked, "approvals").stdout
    assert "| Go on with src␛[31m?\n" in shown
    assert f"orchestrate approve {run_id} 'first look'" in shown
    view = command(parked, "status", "latest", "--json").json()
    assert (view["status"], view["current"][0]["phase"]) == ("paused", "asking")
    assert view["next"] == [f"orchestrate {verb} {run_id}" for verb in ("approve", "deny")]

    told = command(parked, "approve", "latest", "--message", "go on").stdout
    assert f"go on with it: orchestrate resume {run_id}" in told
    assert parked.latest_state["status"] == "paused"
    assert gates(parked)[0]["decided_by"] == "alice"
    assert command(parked, "approvals").stdout == "Nothing waits for an approval.\n"
    view = command(parked, "status", "latest", "--json").json()
    assert view["next"] == [f"orchestrate resume {run_id}"]
    assert view["reason"] == "stage 'first look' is approved; waits to be resumed"

    command(parked, "resume", "latest", code=6)
    assert [gate["status"] for gate in gates(parked)] == ["approved", "pending"]
    done = command(parked, "approve", "latest", "second look", "--json").json()
    assert (done["status"], done["next"]) == ("completed", None), "nothing is left to do"
    assert command(parked, "status", "latest", "--json").json()["status"] == "completed"
    assert "is completed" in command(parked, "resume", "latest").stdout


def test_a_denial_is_final(parked: Project) -> None:
    denied = command(parked, "deny", "latest", "--message", "no", "--json").json()
    assert (denied["decision"], denied["status"], denied["next"]) == ("denied", "failed", None)
    assert (parked.latest_state["status"], gates(parked)[0]["message"]) == ("failed", "no")
    view = command(parked, "status", "latest", "--json").json()
    assert (view["status"], view["next"]) == ("failed", [])
    assert "was denied" in command(parked, "resume", "latest", code=1).stdout
    assert "which is final" in command(parked, "cancel", "latest").stdout
    assert parked.latest_state["status"] == "failed"


def test_approve_may_go_on_at_once(parked: Project) -> None:
    result = command(parked, "approve", "latest", "--resume", "--json", code=6)
    assert result.json()["reason"] == "waits for an approval of 'second look'"


def test_what_cannot_be_decided(parked: Project) -> None:
    run_id = parked.latest_run.name
    wrong = command(parked, "approve", "latest", "frist look", code=2).stderr
    assert "does not wait for an approval of 'frist look' (did you mean 'first look'?)" in wrong
    assert "pending: 'first look'" in wrong
    command(parked, "approve", "latest")
    for verb in ("approve", "deny"):
        late = command(parked, verb, "latest", "--json", code=2).json()["error"]
        assert (
            f"stage 'first look' of run {run_id} was approved already, by alice" in late["message"]
        )
        assert late["hint"] == "nothing is pending"
    assert decisions(parked) == ["approved"]
    parked.write("w.yaml", RECIPE.replace("Done?", "Done now?"))
    assert "has changed: w.yaml" in command(parked, "resume", "latest", code=2).stderr
    assert "was approved already" in command(parked, "deny", "latest", code=2).stderr


TWINS = """\
version: "1.4"
name: twins
steps:
  - name: Each
    for_each:
      items: [p, q]
      parallel: 2
      steps:
        - name: Ask
          approval: {prompt: "go ${item}?"}
        - name: Done
          command: [touch, "went-${item}"]
"""


def test_gates_of_one_name_are_decided_one_by_one(tmp_path: Path) -> None:
    """Approving the one that is shown first must not let another one pass."""
    project = Project(tmp_path, {"w.yaml": TWINS})
    said = project.run("run", "w.yaml").assert_exit(6).stderr
    assert "'Each[0]/Ask'" in said
    waiting = project.run("approvals", "--json").json()["approvals"]
    names = {gate["prompt"]: gate["name"] for gate in waiting}
    assert names == {"go p?": "Each[0]/Ask", "go q?": "Each[1]/Ask"}
    shown = project.run("status").stdout
    for name in names.values():
        assert f"approve {project.latest_run.name} '{name}'" in shown
    for unclear in (["latest"], ["latest", "Ask"]):
        refused = project.run("approve", *unclear).assert_exit(2).stderr
        assert "'Each[0]/Ask'" in refused
    project.run("approve", "latest", "Each[1]/Ask").assert_success()
    left = project.run("approvals", "--json").json()["approvals"]
    assert [(gate["prompt"], gate["name"]) for gate in left] == [("go p?", "Ask")]
    project.run("resume", "latest").assert_exit(6)
    assert (tmp_path / "went-q").exists()
    assert not (tmp_path / "went-p").exists()
    # Now one is left, and needs no name.
    project.run("approve", "latest", "--resume").assert_success()
    assert (tmp_path / "went-p").exists()


def test_a_run_without_gates(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("w.yaml", 'version: "1.1"\nsteps: [{name: Hello, command: [echo, hi]}]\n')
    command(project, "run", "w.yaml")
    told = command(project, "approve", "latest", code=2).stderr
    assert "waits for no approval: it is completed" in told
    told = command(project, "approve", "x", code=2).stderr
    assert "does not wait for an approval of 'x'" in told
    told = command(project, "deny", "x", code=2).stderr
    assert "there is no run 'x'" in told, "a denial is final: its run has to be named"


def test_two_who_decide_at_once(parked: Project) -> None:
    """Exactly one wins, whoever that is; the others are told what was decided."""
    all_of_them = [
        Command(verb, "latest", "--json", cwd=parked.folder, env=os.environ | ENV)
        for verb in ("approve", "deny", "approve", "deny")
    ]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in all_of_them]
    codes = [process.returncode for process in all_of_them]
    assert sorted(codes) == [0, 2, 2, 2], answers
    won = answers[codes.index(0)]["decision"]
    assert decisions(parked) == [won]
    for code, answer in zip(codes, answers, strict=True):
        if code:
            assert f"was {won} already" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("looker", "default"),
    [("status", "deny"), ("approvals", "approve"), ("approve", "deny"), ("deny", "approve")],
)
def test_whoever_looks_next_applies_the_clock(
    tmp_path: Path, time_passes: TimePasses, looker: str, default: str
) -> None:
    status, decided = {"deny": ("failed", "denied"), "approve": ("paused", "approved")}[default]
    timed = RECIPE.replace("timeout: 3600", f"timeout: 3600\n      default: {default}", 1)
    project = make_project(tmp_path, timed)
    command(project, "run", "w.yaml", code=6)
    time_passes(3601)
    if looker == "approvals":
        assert command(project, "approvals", "--json").json() == {"approvals": []}
    elif looker == "status":
        assert command(project, "status", "latest", "--json").json()["status"] == status
    else:
        late = command(project, looker, "latest", code=2).stderr
        assert f"has expired and is {decided}" in late
    assert (project.latest_state["status"], gates(project)[0]["decided_by"]) == (status, "timeout")
    assert decisions(project) == [decided]


@contextmanager
def at_terminal(project: Project) -> Iterator[int]:
    """A run with a person before it; ends with the terminal."""
    ours, theirs = pty.openpty()
    process = Command(
        "run", "w.yaml", cwd=project.folder, env=os.environ | ENV,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def await_prompt(terminal: int) -> None:
    said = b""
    while b"[a]pprove" not in said:
        said += os.read(terminal, 4096)


def test_a_run_that_asks_at_a_terminal(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with at_terminal(project) as terminal:
        await_prompt(terminal)
        listed = command(project, "approvals", "--json").json()["approvals"]
        assert [one["at_terminal"] for one in listed] == [True]
        os.write(terminal, b"a fine\n")
        await_prompt(terminal)
        assert decisions(project) == ["approved"]
    # The terminal is gone, and the run with it: now the second gate can be decided here.
    command(project, "deny", "latest", "second look")
    assert decisions(project) == ["approved", "denied"]
    assert project.latest_state["status"] == "failed"


def test_a_run_that_asks_at_a_terminal_can_be_cancelled(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with at_terminal(project) as terminal:
        await_prompt(terminal)
        command(project, "cancel", "latest")
        assert project.latest_state["status"] == "cancelled"
    assert command(project, "approvals", "--json").json() == {"approvals": []}
    assert (
        "waits for no approval: it is cancelled"
        in command(project, "approve", "latest", code=2).stderr
    )


def test_a_gate_is_found_though_the_state_file_is_cut(parked: Project) -> None:
    root = parked.latest_run
    whole = command(parked, "runs", "--json").json()["runs"]
    state = (root / "state.json").read_bytes()
    (root / "state.json").write_bytes(state[:100])
    listed = command(parked, "approvals", "--json").json()["approvals"]
    assert [(one["run_id"], one["stage"]) for one in listed] == [(root.name, "first look")]
    assert command(parked, "runs", "--json").json()["runs"] == whole
    (line,) = command(parked, "runs").stdout.splitlines()
    assert line.split()[:2] == [root.name, "paused"]
    assert line.endswith("w.yaml")
    (root / "events.jsonl").write_bytes(b"")
    (line,) = command(parked, "runs").stdout.splitlines()
    assert line.split()[1] == "damaged", "neither says anything"
    assert "Nothing waits" in command(parked, "approvals").stdout


def test_repair_goes_back_to_the_state_before(parked: Project) -> None:
    """Both files are cut within the first event; the state before and the definition are there."""
    root = parked.latest_run
    command(parked, "approve", "latest")
    assert (root / "state.json.prev").exists()
    for name in ("state.json", "events.jsonl"):
        (root / name).write_bytes((root / name).read_bytes()[:60])
    for verb in ("status", "resume"):
        refused = parked.run(verb, "latest", env=ENV)
        assert refused.exit_code == 5
        assert f"orchestrate resume {root.name} --repair" in refused.stderr
    repaired = parked.run("resume", "latest", "--repair", env=ENV)
    assert "went back to state.json.prev at event" in repaired.stderr
    assert repaired.exit_code == 6, repaired.stderr
    # The gate that was open then has been decided: that stands on its ballot, and is not lost.
    assert "'second look'" in repaired.stderr
    command(parked, "approve", "latest", "--resume")
