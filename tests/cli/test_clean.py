"""`clean`: removes what is old and nobody uses, and nothing else."""

from __future__ import annotations

import os
import pty
import shutil
import time
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, runs_folder, started
from tests.commands import Command

HELLO = 'version: "1.1"\nsteps: [{name: Hello, command: [echo, hello]}]\n'
DAY = 86400


def make_runs(project: Project, *ages: float) -> list[Path]:
    """Copies of the newest run, so many days old."""
    root = project.latest_run
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
    assert project.latest_run.exists()


def test_a_dry_run_removes_nothing(project: Project) -> None:
    old, young = make_runs(project, 8, 1)
    before = sorted(runs_folder(project).rglob("*"))
    shown = project.run("clean", "--older-than", "7d", "--dry-run").assert_success().stdout
    line = shown.splitlines()[0].split()
    assert (line[0], line[1], line[-1]) == (old.name, "completed", "w.yaml"), "as `runs` shows it"
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
    with Command(
        "clean", "--older-than", "7d", cwd=project.folder,
        stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 1000)
        (line,) = (line for line in shown.decode().splitlines() if old.name in line)
        assert line.split()[1] == "completed"
        assert line.endswith("w.yaml")
        assert old.exists()
        os.write(ours, typed.encode())
        assert process.wait(60) == 0
    os.close(ours)
    assert old.exists() is stays


def test_a_live_run_stays(tmp_path: Path) -> None:
    steps = "[{name: Slow, command: [sh, -c, 'touch begun; exec sleep 60']}]"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nsteps: {steps}\n'})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        root = project.latest_run
        for flags in (["--dry-run"], []):
            done = project.run("clean", "--older-than", "0s", "--json", *flags).assert_success()
            assert (done.json()["removed"], done.json()["in_use"]) == ([], [root.name])
        process.kill()
        process.wait()
        kept = project.run("clean", "--older-than", "0s").assert_success().stdout
        assert kept == f"removed 0 runs\nin use and kept: {root.name}\n", "its program still runs"
        assert root.exists()


def parked_and_killed(folder: Path) -> Project:
    """A project with a run that waits at a gate, one whose process is gone, and one that failed."""
    gate = """
        name: gated
        description: Waits at once
        version: 1.0.0
        context: {go: "no"}
        stages:
          - name: first
            steps: [{id: look, agent: reader, prompt: Look., condition: "{{go}} == 'yes'"}]
            approval: {required: true, prompt: "Go on?", timeout: 3600}
    """
    failing = 'version: "1.1"\nsteps: [{name: Bad, command: ["false"]}]\n'
    slow = 'version: "1.1"\nsteps: [{name: Slow, command: [sh, -c, "touch b; sleep 1"]}]\n'
    files = {"gate.yaml": gate, "bad.yaml": failing, "slow.yaml": slow}
    agent = "---\nname: reader\n---\nYou read.\n"
    project = Project(folder, {**files, ".orchestrate/agents/reader.md": agent})
    project.run("run", "gate.yaml", env={"CLAUDE_CLI_PATH": "/bin/true"}).assert_exit(6)
    project.run("run", "bad.yaml").assert_exit(1)
    with started(project, "run", "slow.yaml") as process:
        await_file(project, "b")
        process.kill()
        process.wait()
        for root in runs_folder(project).glob("2*"):
            # Their keepers live on for a moment, and would keep the runs by themselves.
            shutil.copytree(root, folder / root.name, ignore=shutil.ignore_patterns("keeper"))
    for copy in folder.glob("2*"):
        (runs_folder(project) / copy.name).rename(folder / f"old-{copy.name}")
        copy.rename(runs_folder(project) / copy.name)
    return project


def test_runs_that_can_go_on_stay_unless_they_are_named(tmp_path: Path) -> None:
    project = parked_and_killed(tmp_path)
    by_status = {
        run["status"]: run["run_id"] for run in project.run("runs", "--json").json()["runs"]
    }
    assert set(by_status) == {"paused", "interrupted", "failed"}
    planned = project.run("clean", "--older-than", "0s", "--dry-run").assert_success().stdout
    assert [line.split()[0] for line in planned.splitlines() if "yaml" in line] == [
        by_status["failed"]
    ]
    done = project.run("clean", "--older-than", "0s").assert_success().stdout
    for told in (planned, done):
        assert "can still be resumed and kept: 2 runs; to choose them, add " in told
        assert "--status interrupted --status paused\n" in told
    left = project.run("clean", "--keep", "0", "--json").assert_success().json()
    assert left["removed"] == []
    assert {one["status"]: one["run_id"] for one in left["left"]} == {
        status: by_status[status] for status in ("paused", "interrupted")
    }
    assert [one["stage"] for one in project.run("approvals", "--json").json()["approvals"]] == [
        "first"
    ]
    named = project.run("clean", "--older-than", "0s", "--status", "paused", "--json").json()
    assert (named["removed"], named["left"]) == ([by_status["paused"]], [])
    named = project.run("clean", "--older-than", "0s", "--status", "interrupted", "--json").json()
    assert (named["removed"], named["left"]) == ([by_status["interrupted"]], [])


def test_without_runs(tmp_path: Path) -> None:
    told = Project(tmp_path).run("clean", "--older-than", "1h").assert_success()
    assert told.stdout == "removed 0 runs\n"
    assert not (tmp_path / ".orchestrate").exists()
