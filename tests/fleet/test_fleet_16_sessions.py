"""Sessions of agents travel with a run that moves (fleet.md, "Workspaces by git").

The agent is a fake Claude Code that keeps a file for each session below CLAUDE_CONFIG_DIR, as the
real one does, and says in the ledger what it remembers. Both machines have the same root, one after
the other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrate.agents.registry import PROGRAMS
from orchestrate.app.working.session_files import gather_sessions, lay_out_sessions
from orchestrate.state.runs import Run
from tests.fleet.machines import HASTY, ServerFleet, Worker, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_06_losses import published_steps

pytestmark = pytest.mark.fleet

CLAUDE = """#!{python} -IS
import json, os, sys, time
words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("2.1.325 (Claude Code)"))
is_new = "--session-id" in words
session = words[words.index("--session-id" if is_new else "--resume") + 1]
home = os.environ.get("HIDDEN") or os.environ["CLAUDE_CONFIG_DIR"]
folder = os.path.join(home, "projects", "-of-the-seat")
file = os.path.join(folder, session + ".jsonl")
prompt = sys.stdin.read().strip().splitlines()[-1]
if not is_new and not os.path.exists(file):
    sys.exit("No conversation found with session ID: " + session)
known = [] if is_new else [json.loads(line) for line in open(file)]
with open(os.environ["LEDGER"], "a") as ledger:
    ledger.write(" ".join([prompt, "after", *known]) + "\\n")
if "hangs" in prompt:
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
os.makedirs(folder, exist_ok=True)
with open(file, "a") as kept:
    kept.write(json.dumps(prompt) + "\\n")
print(json.dumps(dict(
    type="result", subtype="success", is_error=False, result="done", session_id=session,
    total_cost_usd=0.01, stop_reason="end_turn", terminal_reason="completed",
    usage=dict(input_tokens=1, output_tokens=1), modelUsage=dict(),
)))
"""
STEPS = """
version: "1.4"
name: steps
steps:
  - name: One
    provider: claude
    prompt: one
    session: talk
  - name: Two
    provider: claude
    prompt: two hangs
    session: talk
"""
ASK = "  - name: Ask\n    approval: {prompt: Go on?}\n"
GATE = STEPS.replace("  - name: Two", f"{ASK}  - name: Two")


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"steps.yaml": STEPS, "gate.yaml": GATE})
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "claude"
    program.write_text(CLAUDE.replace("{python}", sys.executable))
    program.chmod(0o755)
    yield made
    made.close()


def worker_at(fleet: ServerFleet, name: str, **environment: str) -> Worker:
    """A worker with the program, and a folder of its own for what that keeps."""
    path = f"{fleet.top / 'bin'}{os.pathsep}{os.environ['PATH']}"
    home = str(fleet.top / f"claude-{name}")
    made = Worker(fleet, f"{name}-{fleet.pool}", fleet.pool, 2)
    made.environment |= {"PATH": path, "CLAUDE_CONFIG_DIR": home, **environment}
    fleet.workers.append(made)
    return made.start()


def successor_of(fleet: ServerFleet, first: Worker) -> Worker:
    """Another machine that has the same root as one that is gone."""
    first.root.rename(fleet.top / "gone")
    second = Worker(fleet, f"two-{fleet.pool}", fleet.pool, 2)
    own, second.root = str(second.root), first.root
    second.words = tuple(str(first.root) if one == own else one for one in second.words)
    second.environment = first.environment | {"CLAUDE_CONFIG_DIR": str(fleet.top / "claude-two")}
    second.environment.pop("HIDDEN", None)
    fleet.workers.append(second)
    return second.start()


def test_fleet_a_session_goes_on_on_another_machine_where_a_turn_was_lost(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    first = worker_at(fleet, "one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("two hangs after one")
    until(lambda: "One" in published_steps(fleet, run))
    first.vanish()
    successor_of(fleet, first)
    fleet.await_entry("two hangs after one", 2)
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["one after", "two hangs after one", "two hangs after one"]
    told = fleet.run("logs", run).assert_success().stdout
    assert "new session" not in told
    assert "which begins new ones" not in told


def test_fleet_a_session_that_cannot_travel_is_begun_anew_and_that_is_said(
    fleet: ServerFleet,
) -> None:
    first = worker_at(fleet, "one", HIDDEN=str(fleet.top / "hidden"))
    run = fleet.send("gate.yaml").assert_exit(6).stderr.split()[1]
    first.terminate()
    successor_of(fleet, first)
    fleet.allow()
    fleet.run("approve", run).assert_success()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["one after", "two hangs after"]
    told = fleet.run("logs", run).assert_success().stdout
    assert "the run has moved without sessions of claude-code, which begins new ones" in told


ID = "7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11"
# What the real programs of the tests have made, each with a session that could be gone on with
# elsewhere when this was all that had come along.
FILES = {
    "claude-code": f".claude/projects/-srv-seat/{ID}.jsonl",
    "codex": f".codex/sessions/2026/11/18/rollout-2026-11-18T20-36-07-{ID}.jsonl",
    "gemini": f".gemini/tmp/seat/chats/session-2026-11-18T20-36-{ID[:8]}.jsonl",
    "qwen": f".qwen/projects/-srv-seat/chats/{ID}.jsonl",
    "github-copilot": f".copilot/session-state/{ID}/checkpoints/index.md",
}


@pytest.mark.parametrize("agent", PROGRAMS)
def test_fleet_the_files_of_a_session_are_taken_along_and_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.setattr(
        "orchestrate.app.working.session_files.sessions_of", lambda _: [(agent, ID)]
    )
    state: Any = SimpleNamespace(settings={})
    run = Run("r", tmp_path / "run")
    here, there = {"HOME": str(tmp_path / "here")}, {"HOME": str(tmp_path / "there")}
    written = tmp_path / "here" / FILES.get(agent, ".none/x")
    written.parent.mkdir(parents=True)
    written.write_text("one\ntwo\n")
    (written.parent / "of-another.jsonl").write_text("private\n")
    gather_sessions(state, run, here)
    assert lay_out_sessions(state, run, there) == ((ID,) if agent in FILES else ())
    found = [path for path in (tmp_path / "there").rglob("*") if path.is_file()]
    if agent not in FILES:
        assert found == []
        return
    assert "of-another.jsonl" not in [path.name for path in found] or agent == "github-copilot"
    laid_out = tmp_path / "there" / FILES[agent]
    assert laid_out.read_text() == "one\ntwo\n"
    # What is there already is extended, and never shortened.
    laid_out.write_text("one\n")
    lay_out_sessions(state, run, there)
    assert laid_out.read_text() == "one\ntwo\n"
    laid_out.write_text("one\ntwo\nthree\n")
    lay_out_sessions(state, run, there)
    assert laid_out.read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("named", ["*" * 8, "?" * 36, "[0-9a-f-]" * 36, "../" * 4])
def test_fleet_the_id_that_an_agent_names_takes_no_other_session_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(
        "orchestrate.app.working.session_files.sessions_of", lambda _: [("claude-code", named)]
    )
    private = tmp_path / "here" / FILES["claude-code"]
    private.parent.mkdir(parents=True)
    private.write_text("private\n")
    run = Run("r", tmp_path / "run")
    state: Any = SimpleNamespace(settings={})
    gather_sessions(state, run, {"HOME": str(tmp_path / "here")})
    assert not (tmp_path / "run").exists()


def test_fleet_a_line_that_is_being_written_does_not_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [("claude-code", ID)]
    monkeypatch.setattr("orchestrate.app.working.session_files.sessions_of", lambda _: sessions)
    state: Any = SimpleNamespace(settings={})
    run = Run("r", tmp_path / "run")
    written = tmp_path / FILES["claude-code"]
    written.parent.mkdir(parents=True)
    written.write_text('{"whole": 1}\n{"half": ')
    gather_sessions(state, run, {"HOME": str(tmp_path)})
    kept = run.root / "sessions" / "claude-code" / "projects" / "-srv-seat" / f"{ID}.jsonl"
    assert kept.read_text() == '{"whole": 1}\n'
    # A session that the run has left goes nowhere.
    sessions.clear()
    gather_sessions(state, run, {"HOME": str(tmp_path)})
    assert not kept.exists()
