"""Merging with markers: an agent is asked behind it in every dialect; a kill repeats nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrate.app.working import carry_out
from orchestrate.engine.runtime import Runtime
from orchestrate.fleet.host import ensure_mirror
from orchestrate.fleet.protocol import Order
from orchestrate.fleet.publish import publish
from orchestrate.fleet.seat import Seat, work_ref
from orchestrate.fleet.settings import FleetSettings
from orchestrate.fleet.spread import Spread, keep_order
from orchestrate.fleet.transport import require_git
from orchestrate.record import replace
from orchestrate.state.events import StepFinished
from orchestrate.state.result import StepResult
from orchestrate.testing import Project
from tests.fleet.test_fleet_16_sessions import CLAUDE

RECIPE = """
name: recipe
description: d
version: "1.0.0"
context: {names: [a, b], ticket: T-1}
steps:
  - id: each
    foreach: "{{names}}"
    parallel: true
    type: bash
    command: "true"
    spread:
      pool: desk
      resolve: {agent: merger, prompt: "For {{ticket}}, merge\\n{{conflicts}}"}
  - {id: then, type: bash, command: echo then > then.txt}
"""
MACHINE = """
id: machine
label: M
description: d
initialStep: call
steps:
  call:
    call: inner.yaml
    spread: {pool: desk, resolve: {agent: merger, prompt: "Merge:\\n{{conflicts}}"}}
    onOutcome:
      completed: {nextStep: then}
      failed: {action: exit, reason: broken, status: failed}
  then:
    command: echo then > then.txt
    onOutcome:
      passed: {action: exit, reason: done}
      failed: {action: exit, reason: wrong, status: failed}
"""
INNER = """
name: inner
description: d
version: "1.0.0"
steps:
  - {id: make, type: bash, command: "true"}
"""
MERGER = "---\nname: merger\ndescription: d\nbackend: claude-code\n---\nYou merge.\n"
FILES = {
    "recipe.yaml": RECIPE, "machine.yaml": MACHINE, "inner.yaml": INNER,
    ".orchestrate/agents/merger.md": MERGER,
}  # fmt: skip


@dataclass
class Elsewhere:
    """Machines that do every step at once, and have changed one file differently."""

    rt: Runtime
    text: str

    def follow(self, key: str, pool: str) -> list[StepFinished]:
        assert pool == "desk"
        here = self.rt.store.state.frames[key].here
        assert here is not None
        done = StepResult(status="completed", exit_code=0)
        return [StepFinished(key, here.node, here.visit, self.rt.now(), "@ok", done)]

    def end(self, key: str, how: str) -> None:
        pass

    def merge(self, keys: Sequence[str], *, marks: bool) -> Sequence[str]:
        assert keys
        assert marks
        (self.rt.workspace.root / "same.txt").write_text(self.text)
        return ["same.txt"]

    def wait_only(self, *, is_so: bool) -> None:
        pass


class Here(Project):
    """A folder whose user has a Claude Code that says `done` and keeps what it was told."""

    def __init__(self, top: Path) -> None:
        self.told = top / "told"
        (top / "here").mkdir()
        program = top / "claude"
        program.write_text(CLAUDE.replace("{python}", sys.executable))
        program.chmod(0o755)
        super().__init__(top / "here", FILES)

    @property
    def surroundings(self) -> dict[str, str]:
        more = {
            "PATH": f"{self.told.parent}{os.pathsep}{os.environ['PATH']}",
            "CLAUDE_CONFIG_DIR": str(self.told.parent / "claude-home"),
            "LEDGER": str(self.told),
        }
        return {**super().surroundings, **more}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def merge_as(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def take(rt: Runtime, *_: object) -> None:
        rt.spreader = Elsewhere(rt, text)

    monkeypatch.setattr(carry_out, "_take_place", take)


@pytest.mark.parametrize("file", ["recipe.yaml", "machine.yaml"])
def test_behind_the_agent_the_run_goes_on_as_it_would_have(
    here: Here, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    merge_as(monkeypatch, "no marker\n")
    here.run("run", file).assert_success()
    step = "each" if file == "recipe.yaml" else "call"
    assert here.told.read_text() == "same.txt after\n"
    assert (here.folder / "then.txt").exists()
    state = json.loads((here.folder / ".orchestrate/runs/latest/state.json").read_text())
    part = "resolve" if step == "each" else "resolve:completed"
    assert state["steps"][f"{step}:{part}"]["status"] == "completed"


@pytest.mark.parametrize("file", ["recipe.yaml", "machine.yaml"])
def test_a_marker_that_is_left_fails_the_step(
    here: Here, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    merge_as(monkeypatch, "<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n")
    failed = here.run("run", file)
    assert failed.exit_code == 1, failed.stderr
    assert "conflict markers are left in same.txt" in here.run("status").stdout
    assert not (here.folder / "then.txt").exists()


class Cut(Exception):
    """The run's process is killed here."""


@dataclass
class World:
    """A seat with what two items have published, each with its own line in one file."""

    top: Path

    def __post_init__(self) -> None:
        self.program = require_git()
        self.keys = ["Each[0]", "Each[1]"]
        remote = self.top / "remote.git"
        self.git(self.top, "init", "-q", "--bare", str(remote))
        self.seat = Seat("20260101T000000Z-abcdef", str(self.top), "m", remote=str(remote))
        ensure_mirror(self.seat, is_sha256=False)
        tree = self.top / "made"
        self.git(self.top, "init", "-q", str(tree))
        for text, ref in [
            ("first", work_ref(self.seat.run)),
            *((key, replace(self.seat, item=key).work) for key in self.keys),
        ]:
            (tree / "same.txt").write_text(f"{text}\n")
            if text != "first":
                (tree / f"{text}.txt").write_text(f"{text}\n")
            self.git(tree, "add", "-A")
            self.git(tree, "commit", "-q", "-m", text)
            self.git(tree, "push", "-q", str(remote), f"HEAD:{ref}")
            self.git(tree, "reset", "-q", "--hard", "HEAD~" if text != "first" else "HEAD")
        self.git(
            self.seat.repository, "fetch", "-q", str(remote), f"+{self.seat.work}:{self.seat.work}"
        )
        words = (
            "worktree",
            "add",
            "-q",
            "-b",
            self.seat.branch,
            str(self.seat.tree),
            self.seat.work,
        )
        self.git(self.seat.repository, *words)
        self.seat.folder.mkdir(parents=True)
        self.seat.indexes.mkdir(parents=True)
        (self.seat.folder / "state.json").write_text("{}\n")
        order = Order(self.seat.run, "desk", str(remote), "m", "", "step", "r.yaml")
        keep_order(self.seat, order)

    @staticmethod
    def git(folder: Path, *words: str) -> None:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True)

    def merge(self, *, marks: bool, until: str = "") -> list[str]:
        """By a process that is killed as it publishes `until`."""

        def publish_now(what: str) -> None:
            if until and what.startswith(until):
                raise Cut
            publish(self.seat, self.seat.folder, self.program, what)

        state = SimpleNamespace(settings={"seat": self.seat.to_json()})
        store: Any = SimpleNamespace(
            state=state, run=SimpleNamespace(root=self.seat.folder), look=lambda do: do(state)
        )
        publisher: Any = SimpleNamespace(publish_now=publish_now)
        nothing: Any = None
        items: Any = SimpleNamespace(address_of=lambda _: self.seat.remote)
        settings = FleetSettings(path=Path())
        spread = Spread(store, publisher, nothing, settings, lambda: items, nothing)
        return [*spread.merge(self.keys, marks=marks)]

    @property
    def same(self) -> str:
        return (self.seat.tree / "same.txt").read_text()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_without_an_agent_nothing_is_merged(world: World) -> None:
    assert world.merge(marks=False) == ["same.txt"]
    assert world.same == "first\n"
    assert not (world.seat.tree / "Each[0].txt").exists()


def test_a_kill_amid_the_merge_marks_nothing_twice(world: World) -> None:
    with pytest.raises(Cut):
        world.merge(marks=True, until="with conflicts")
    marked = world.same
    assert marked.count("<<<<<<< ") == 1
    # Half of it may be there, or none.
    (world.seat.tree / "same.txt").write_text("first\n")
    (world.seat.tree / "Each[1].txt").unlink()
    assert world.merge(marks=True) == ["same.txt"]
    assert world.same == marked
    assert (world.seat.tree / "Each[1].txt").exists()
    # And again, before its event was recorded.
    assert world.merge(marks=True) == ["same.txt"]
    assert world.same == marked
    # Other items are merged for themselves.
    world.keys.pop()
    assert world.merge(marks=True) == ["same.txt"]
    assert world.same != marked
