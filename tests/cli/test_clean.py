"""`clean`: removes what is old and nobody uses, and nothing else."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, latest_root, runs_folder, started

HELLO = 'version: "1.1"\nsteps: [{name: Hello, command: [echo, hello]}]\n'
DAY = 86400


def make_runs(project: Project, *ages: float) -> list[Path]:
    """Copies of the newest run, so many days old."""
    root = latest_root(project)
    made = []
    for number, age in enumerate(ages):
        copy = root.parent / f"202001{number + 1:02}T000000Z-aaaaaa"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns("keeper"))
        # A run's files know whose they are.
        state = (copy / "state.json").read_text("utf-8")
        (copy / "state.json").write_text(state.replace(root.name, copy.name), "utf-8")
        then = time.time() - age * DAY
        for path in (*copy.rglob("*"), copy):
            os.utime(path, (then, then), follow_symlinks=False)
        made.append(copy)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path, {"w.yaml": HELLO})
    made.run("run", "w.yaml").assert_success()
    return made


def test_old_runs_go_and_young_ones_stay(project: Project) -> None:
    young, older, oldest = make_runs(project, 6, 8, 30)
    told = project.run("clean", "--older-than", "1w").assert_success().stdout
    assert told.startswith("removed 2 runs, freed ")
    assert [path.exists() for path in (young, older, oldest)] == [True, False, False]
    assert latest_root(project).exists()


def test_a_dry_run_removes_nothing(project: Project) -> None:
    old, young = make_runs(project, 8, 1)
    before = sorted(runs_folder(project).rglob("*"))
    shown = project.run("clean", "--older-than", "7d", "--dry-run").assert_success().stdout
    assert shown.splitlines()[0] == old.name
    assert "would remove 1 run, would free" in shown
    assert young.name not in shown
    listed = project.run("clean", "--older-than", "7d", "--dry-run", "--json").json()
    assert (listed["dry_run"], listed["removed"]) == (True, [old.name])
    assert listed["freed_bytes"] > 0
    assert sorted(runs_folder(project).rglob("*")) == before


def test_the_age_comes_from_flag_or_variable(project: Project) -> None:
    (old,) = make_runs(project, 8)
    neither = project.run("clean").assert_exit(2)
    assert "--older-than 7d" in neither.stderr
    assert "ORCHESTRATE_KEEP_RUNS" in neither.stderr
    days = {"ORCHESTRATE_KEEP_RUNS": "30"}
    assert project.run("clean", "--json", env=days).assert_success().json()["removed"] == []
    days = {"ORCHESTRATE_KEEP_RUNS": "7"}
    assert project.run("clean", "--json", env=days).assert_success().json()["removed"] == [old.name]


@pytest.mark.parametrize("age", ["soon", "7", "d", "-1d", "7 days", "1e3s", ""])
def test_what_is_no_age(project: Project, age: str) -> None:
    result = project.run("clean", f"--older-than={age}", "--json").assert_exit(2)
    assert "is not an age" in result.json()["error"]["message"]


def test_some_are_kept_by_number_or_status(project: Project) -> None:
    one, two, three = make_runs(project, 30, 20, 10)
    kept = project.run("clean", "--older-than", "0s", "--keep", "2", "--json").json()
    assert kept["removed"] == [one.name, two.name], "oldest first; the newest two stay"
    assert three.exists()
    none = project.run("clean", "--older-than", "0s", "--status", "failed", "--json").json()
    assert (none["removed"], none["in_use"]) == ([], [])
    project.run("clean", "--older-than", "0s", "--status", "completed").assert_success()
    assert not three.exists()


def test_a_number_alone_is_enough(project: Project) -> None:
    one, two = make_runs(project, 30, 20)
    planned = project.run("clean", "--keep", "2", "--dry-run", "--json").assert_success().json()
    assert planned["removed"] == [one.name]
    days = {"ORCHESTRATE_KEEP_RUNS": "25"}
    done = project.run("clean", "--keep", "0", "--json", env=days).assert_success().json()
    assert done["removed"] == [one.name], "the age of the configuration counts as well"
    assert two.exists()


@pytest.mark.parametrize(("typed", "stays"), [("n\n", True), ("\x04", True), ("y\n", False)])
def test_at_a_terminal_it_shows_and_asks(project: Project, typed: str, stays: bool) -> None:
    (old,) = make_runs(project, 30)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "orchestrate", "clean", "--older-than", "7d"]
    with subprocess.Popen(
        command, cwd=project.folder, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    ) as process:
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 1000)
        assert old.name.encode() in shown
        assert old.exists()
        os.write(ours, typed.encode())
        assert process.wait(30) == 0
    os.close(ours)
    assert old.exists() is stays


def test_a_live_run_stays(tmp_path: Path) -> None:
    steps = "[{name: Slow, command: [sh, -c, 'touch begun; exec sleep 60']}]"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nsteps: {steps}\n'})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        root = latest_root(project)
        for flags in (["--dry-run"], []):
            done = project.run("clean", "--older-than", "0s", "--json", *flags).assert_success()
            assert (done.json()["removed"], done.json()["in_use"]) == ([], [root.name])
        process.kill()
        process.wait()
        kept = project.run("clean", "--older-than", "0s").assert_success().stdout
        assert kept == f"removed 0 runs\nin use and kept: {root.name}\n", "its program still runs"
        assert root.exists()


def test_without_runs(tmp_path: Path) -> None:
    told = Project(tmp_path).run("clean", "--older-than", "1h").assert_success()
    assert told.stdout == "removed 0 runs\n"
    assert not (tmp_path / ".orchestrate").exists()
