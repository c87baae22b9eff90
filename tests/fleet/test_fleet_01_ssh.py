"""`ssh:` pools (fleet.md): machines that `ssh` leads to, here folders with a home of their own.

The `ssh` on the PATH is a script that runs what it is given in the home of that host, so that git
and orchestrate really start there, with another HOME and nothing of ours but the PATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.state.runs import Run
from orchestrate.testing import Project, Result
from orchestrate.view.follower import looks

pytestmark = pytest.mark.fleet

SSH = """\
#!/bin/sh
while :; do case "$1" in -o) shift 2;; -*) shift;; *) break;; esac; done
host=$1; shift
[ -d "{hosts}/$host" ] || { echo "ssh: Could not resolve hostname $host" >&2; exit 255; }
HOME="{hosts}/$host"; export HOME; unset XDG_CONFIG_HOME XDG_STATE_HOME
cd "$HOME" && exec /bin/sh -c "$*"
"""
WORKFLOW = """
version: "1.4"
name: w
inputs: {who: {default: you}}
steps:
  - name: Make
    command: ["sh", "-c", "echo hello ${inputs.who} > made.txt; pwd"]
  - name: Ask
    approval: {prompt: "Go on?"}
  - name: Then
    command: ["cat", "made.txt", "dirty.txt"]
"""
RECIPE = """
name: r
description: d
version: "1.0.0"
steps:
  - id: make
    type: bash
    command: echo made > made.txt
"""
MACHINE = """
id: m
label: M
description: d
initialStep: make
steps:
  make:
    command: echo made > made.txt
    onOutcome:
      passed: {action: exit, reason: done}
      failed: {action: exit, reason: broken, status: failed}
"""


class Fleet(Project):
    """A repository here, and machines that `ssh` knows."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.hosts = top / "hosts"
        folder = top / "here"
        for made in (folder, self.hosts / "alpha", top / "bin", top / "config" / "orchestrate"):
            made.mkdir(parents=True)
        super().__init__(folder, {"w.yaml": WORKFLOW, "r.yaml": RECIPE, "m.yaml": MACHINE})
        self._program("ssh", SSH.replace("{hosts}", str(self.hosts)))
        self._program("orchestrate", f'#!/bin/sh\nexec "{sys.executable}" -m orchestrate "$@"\n')
        self.settings("pools:\n  desk: {ssh: [alpha]}\n")
        self.git("init", "-q")
        self.commit("one")

    @property
    def surroundings(self) -> dict[str, str]:
        root = str(Path(__file__).parents[2])
        return {
            "PATH": f"{self.top / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.top / "config"),
            "XDG_STATE_HOME": str(self.top / "state"),
            "PYTHONPATH": root,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

    def _program(self, name: str, text: str) -> None:
        path = self.top / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def settings(self, text: str, mode: int = 0o600) -> Path:
        path = self.top / "config" / "orchestrate" / "fleet.yaml"
        path.write_text(text)
        path.chmod(mode)
        return path

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        done = subprocess.run(
            ("git", *who, *words), cwd=self.folder, check=True, capture_output=True, text=True,
            env={**os.environ, **self.surroundings},
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def seats(self, host: str = "alpha") -> list[str]:
        folder = self.hosts / host / "orchestrate-seats" / "seats"
        return sorted(os.listdir(folder)) if folder.exists() else []

    def send(self, *words: str) -> Result:
        return self.run("run", *words, "--fleet", "desk", timeout_s=120)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def only_run(fleet: Fleet) -> str:
    runs = fleet.run("runs", "--json").assert_success().json()["runs"]
    assert len(runs) == 1
    found: str = runs[0]["run_id"]
    return found


def test_fleet_a_run_goes_there_parks_is_decided_and_comes_back(fleet: Fleet) -> None:
    (fleet.folder / "dirty.txt").write_text("dirty\n")
    before = _bytes_below(fleet.folder / ".git")
    sent = fleet.send("w.yaml", "-i", "who=me", "--yes").assert_exit(6)
    assert "on alpha" in sent.stderr
    assert _bytes_below(fleet.folder / ".git") == before, "submitting has changed the repository"
    assert not (fleet.folder / "made.txt").exists()
    run = only_run(fleet)
    assert fleet.seats() == [run]
    status = fleet.run("status", "--json").assert_success().json()
    assert (status["run_id"], status["status"]) == (run, "paused")
    assert status["on_machine"] == "alpha"
    # What it advises works here as it stands.
    told = fleet.run("status").assert_success().stdout
    assert f"orchestrate approve {run}\n" in told
    approved = fleet.run("approve", run, "-m", "fine").assert_success()
    assert "goes on by itself" in approved.stdout
    assert "resume" not in approved.stdout
    fleet.run("wait", run, timeout_s=120).assert_success()
    assert fleet.run("logs", run, "Then").assert_success().stdout == "hello me\ndirty\n"
    head, index = fleet.git("rev-parse", "HEAD"), (fleet.folder / ".git" / "index").read_bytes()
    fetched = fleet.run("fetch", run, "--json").assert_success().json()
    assert (fetched["status"], fetched["is_here"]) == ("completed", True)
    assert fleet.git("show", f"orchestrate/{run}:made.txt") == "hello me"
    assert fleet.git("merge-base", "HEAD", f"orchestrate/{run}") == head
    assert fleet.git("rev-parse", "HEAD") == head
    assert (fleet.folder / ".git" / "index").read_bytes() == index
    assert not (fleet.folder / "made.txt").exists()
    # It is a run of this workspace now, and its seat is gone.
    assert fleet.seats() == []
    here = fleet.run("status", run, "--json").assert_success().json()
    assert here["status"] == "completed"
    fleet.run("fetch", run).assert_exit(2)


@pytest.mark.parametrize("file", ["r.yaml", "m.yaml"])
def test_fleet_other_dialects_run_there_too(fleet: Fleet, file: str) -> None:
    fleet.send(file).assert_success()
    run = only_run(fleet)
    page = fleet.run("report", run, "-o", "page.md").assert_success()
    assert page.stdout == ""
    assert run in (fleet.folder / "page.md").read_text()
    fleet.run("fetch").assert_success()
    assert fleet.git("show", f"orchestrate/{run}:made.txt") == "made"


def test_fleet_a_failed_run_stays_there_and_goes_on_there(fleet: Fleet) -> None:
    fleet.write(
        "f.yaml",
        """
        version: "1.1"
        name: f
        steps:
          - name: Try
            command: ["sh", "-c", "test -e ../../may-pass"]
        """,
    )
    fleet.commit("two")
    fleet.send("f.yaml").assert_exit(1)
    run = only_run(fleet)
    found = fleet.run("fetch", run, "--json").assert_success().json()
    assert not found["is_here"]
    assert fleet.seats() == [run]
    assert fleet.run("runs", "--json").json()["runs"][0]["status"] == "failed"
    (fleet.hosts / "alpha" / "orchestrate-seats" / "may-pass").write_text("")
    fleet.run("resume", run, timeout_s=120).assert_success()
    assert fleet.run("fetch", run, "--json").assert_success().json()["is_here"]


def test_fleet_what_was_not_published_at_the_end_is_fetched_all_the_same(fleet: Fleet) -> None:
    """As when the process is killed, or not yet done with it: the run has ended before that."""
    fleet.send("r.yaml").assert_success()
    run = only_run(fleet)
    top = fleet.hosts / "alpha" / "orchestrate-seats"
    (mirror,) = (top / "mirrors").iterdir()
    for _ in looks(Run(run, top / "states" / run / run), within_s=60):
        pass  # until its process is gone
    state = f"refs/orchestrate/{run}/state"
    subprocess.run(("git", "update-ref", "-d", state), cwd=mirror, check=True)
    assert fleet.run("fetch", run, "--json").assert_success().json()["is_here"]
    assert fleet.run("status", run, "--json").json()["status"] == "completed"
    assert fleet.git("show", f"orchestrate/{run}:made.txt") == "made"


def test_fleet_untracked_files_are_named_and_need_a_yes(fleet: Fleet) -> None:
    (fleet.folder / "secret.txt").write_text("x")
    refused = fleet.send("r.yaml").assert_exit(2)
    assert "secret.txt" in refused.stderr
    assert "--yes" in refused.stderr
    assert fleet.seats() == []
    assert fleet.run("runs", "--json").json()["runs"] == []


def test_fleet_no_free_slot_is_refused_by_name(fleet: Fleet) -> None:
    fleet.settings("pools:\n  desk: {ssh: [alpha], slots: 1}\n")
    fleet.write(
        "long.yaml",
        """
        version: "1.1"
        name: long
        steps:
          - name: Long
            command: ["sh", "-c", "while ! test -e ../../over; do sleep 0.1; done"]
        """,
    )
    fleet.commit("two")
    fleet.send("long.yaml", "-d").assert_success()
    refused = fleet.send("r.yaml").assert_exit(5)
    assert "alpha has no free slot of 1" in refused.stderr
    run = only_run(fleet)
    stopped = fleet.run("cancel", run, timeout_s=120).assert_success()
    assert "cancel" in stopped.stdout
    fleet.send("r.yaml").assert_success()


def test_fleet_a_host_that_does_not_answer_is_named(fleet: Fleet) -> None:
    fleet.send("r.yaml").assert_success()
    run = only_run(fleet)
    (fleet.hosts / "alpha").rename(fleet.hosts / "gone")
    listed = fleet.run("runs", "--json").assert_success()
    assert listed.json()["runs"][0]["status"] == "unknown"
    assert "alpha does not answer" in listed.stderr
    asked = fleet.run("status", run).assert_exit(5)
    assert "alpha does not answer" in asked.stderr
    assert "Traceback" not in asked.stderr
    refused = fleet.send("r.yaml").assert_exit(5)
    assert "alpha does not answer" in refused.stderr


def test_fleet_clean_gives_back_the_seat_or_keeps_the_stub(fleet: Fleet) -> None:
    fleet.send("w.yaml", "-i", "who=me").assert_exit(6)
    run = only_run(fleet)
    clean = ("clean", "--older-than", "0s", "--json")
    kept = fleet.run(*clean).assert_success().json()
    assert kept["left"] == [{"run_id": run, "status": "unknown"}]
    (fleet.hosts / "alpha").rename(fleet.hosts / "gone")
    silent = fleet.run(*clean, "--status", "unknown").assert_exit(5)
    assert "alpha does not answer" in silent.stderr
    assert only_run(fleet) == run
    (fleet.hosts / "gone").rename(fleet.hosts / "alpha")
    assert fleet.seats() == [run]
    removed = fleet.run(*clean, "--status", "unknown").assert_success().json()
    assert removed["removed"] == [run]
    assert fleet.seats() == []
    assert fleet.run("runs", "--json").json()["runs"] == []


def test_fleet_clean_leaves_a_seat_that_is_worked_in(fleet: Fleet) -> None:
    fleet.write(
        "long.yaml",
        """
        version: "1.1"
        name: long
        steps:
          - name: Long
            command: ["sh", "-c", "while ! test -e ../../over; do sleep 0.1; done"]
        """,
    )
    fleet.commit("two")
    fleet.send("long.yaml", "-d").assert_success()
    run = only_run(fleet)
    refused = fleet.run("clean", "--older-than", "0s", "--status", "unknown").assert_exit(5)
    assert f"run {run} is at work" in refused.stderr
    assert fleet.seats() == [run]
    (fleet.hosts / "alpha" / "orchestrate-seats" / "over").write_text("")
    fleet.run("wait", run, timeout_s=120).assert_success()


def test_fleet_what_cannot_start_there_leaves_nothing(fleet: Fleet) -> None:
    fleet.settings("pools:\n  desk: {ssh: [alpha], prepare: [sh, -c, 'echo no >&2; exit 3']}\n")
    refused = fleet.send("r.yaml").assert_exit(5)
    assert "exit code 3\n  hint: no\n" in refused.stderr
    assert fleet.seats() == []
    fleet.settings("pools:\n  desk: {ssh: [alpha]}\n")
    fleet.write("s.yaml", RECIPE + "secrets: [NOT_SET_ANYWHERE]\n")
    fleet.commit("two")
    missing = fleet.send("s.yaml").assert_exit(5)
    assert "NOT_SET_ANYWHERE" in missing.stderr
    assert fleet.seats() == []
    assert fleet.run("runs", "--json").json()["runs"] == []


def test_fleet_edits_and_forks_are_for_runs_that_are_here(fleet: Fleet) -> None:
    fleet.send("w.yaml", "--detach").assert_success()
    run = only_run(fleet)
    refused = fleet.run("resume", run, "--redo", "Make").assert_exit(2)
    assert f"orchestrate fetch {run}" in refused.stderr


@pytest.mark.parametrize(
    ("text", "mode", "code", "told"),
    [
        (None, 0o600, 5, "does not exist"),
        ("pools: {desk: {ssh: [alpha]}}\n", 0o644, 5, "chmod 600"),
        ("pools: {other: {ssh: [alpha]}}\n", 0o600, 2, "no pool 'desk'"),
        ("pools: {desk: {ssh: [-oProxyCommand=x]}}\n", 0o600, 5, "fleet.yaml:1:"),
        ("pool: {}\n", 0o600, 5, "did you mean 'pools'"),
        ("pools: {desk: {ssh: []}}\n", 0o600, 5, "fleet.yaml:1:"),
    ],
)
def test_fleet_settings(fleet: Fleet, text: str | None, mode: int, code: int, told: str) -> None:
    path = fleet.settings(text or "", mode)
    if text is None:
        path.unlink()
    refused = fleet.send("r.yaml").assert_exit(code)
    assert told in refused.stderr
    assert fleet.seats() == []


def test_fleet_the_settings_of_the_docs_hold(fleet: Fleet) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "run-on-another-machine.md"
    shown = page.read_text().partition("```yaml fragment\n")[2].partition("```")[0]
    fleet.settings(shown)
    assert "host-a does not answer" in fleet.send("r.yaml").assert_exit(5).stderr


@pytest.mark.parametrize("flag", ["--events", "--quiet", "--verbose", "--raw"])
def test_fleet_a_flag_that_would_have_no_effect_is_refused(fleet: Fleet, flag: str) -> None:
    refused = fleet.send("r.yaml", flag).assert_exit(2)
    assert "cannot be used with --fleet" in refused.stderr
    assert fleet.seats() == []


def test_fleet_needs_a_repository(fleet: Fleet) -> None:
    (fleet.folder / ".git").rename(fleet.top / "git")
    refused = fleet.send("r.yaml").assert_exit(2)
    assert "git repository" in refused.stderr


def test_fleet_another_protocol_is_refused(fleet: Fleet) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "orchestrate", "seat", "offer"),
        input=json.dumps({"protocol": 99}), capture_output=True, text=True, check=False,
        env={**os.environ, **fleet.surroundings}, cwd=fleet.folder,
    )  # fmt: skip
    assert done.returncode == 5
    assert "protocol" in json.loads(done.stdout)["error"]["message"]


def _bytes_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
