"""Only runs and `latest` lie among the runs; the socket of a keeper is private from the start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from orchestrate.execute.keeper import boot
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.protocol import FOLDER, SOCKET
from orchestrate.execute.keeper.standard import socket
from orchestrate.state.runs import is_run_id
from orchestrate.testing import Project
from tests.recipes.fakes import Workshop, recipe, rule

WORKFLOW = """
    version: "1.1"
    name: w
    steps: [{name: A, command: ["true"]}]
"""
SLOW = recipe('steps: [{id: a, agent: helper, prompt: "STEP:a"}]')


def assert_only_runs(folder: Path) -> None:
    for name in os.listdir(folder):
        assert is_run_id(name) or name in ("latest", ".gitignore"), name


def test_truth_27_only_runs_and_latest_lie_among_the_runs(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": WORKFLOW})
    for _ in range(2):
        project.run("run", "w.yaml").assert_success()
    project.run("clean", "--older-than", "7d").assert_success()
    assert_only_runs(tmp_path / ".orchestrate" / "runs")


def test_truth_27_a_recipes_lock_lies_elsewhere(shop: Workshop) -> None:
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    shop.write("r.yaml", SLOW)
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(1)
        assert_only_runs(shop.runs_folder)
        shop.run("run", "r.yaml").assert_exit(5)
        # Wherever the runs are kept, it is the same workspace.
        shop.run("run", "r.yaml", "--state-dir", "elsewhere").assert_exit(5)
        go.touch()
        assert first.wait(60) == 0
    assert_only_runs(shop.runs_folder)
    assert shop.run("runs", "--json").json()
    shop.run("clean", "--older-than", "0d").assert_success()
    assert_only_runs(shop.runs_folder)
    shop.run("run", "r.yaml", "--state-dir", "elsewhere").assert_success()
    assert_only_runs(shop.folder / "elsewhere")


def test_truth_27_git_sees_no_locks(shop: Workshop) -> None:
    shop.play(SLOW)
    assert (shop.folder / ".orchestrate" / "locks" / ".gitignore").read_text() == "*\n"


def test_truth_27_the_keepers_socket_is_private(tmp_path: Path) -> None:
    with ensure_keeper(tmp_path) as keeper:
        mode = os.lstat(tmp_path / FOLDER / SOCKET).st_mode
        assert stat.S_IMODE(mode) == 0o600
        keeper.shutdown()


def test_truth_27_the_socket_is_private_before_anybody_can_knock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between `bind` and a later chmod others could knock: so no chmod."""
    seen: list[int] = []

    class Door(socket.socket):
        def listen(self, backlog: int = 0, /) -> None:
            seen.append(stat.S_IMODE(os.lstat(SOCKET).st_mode))
            super().listen(backlog)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "socket", Door)
    mask = os.umask(0)
    try:
        boot.open_listener().close()
    finally:
        assert os.umask(mask) == 0, "the mask stays as it was"
    assert seen == [0o600]
