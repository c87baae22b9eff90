"""Small things that trials found: the time between TERM and KILL, and runs outside the tree."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from orchestrate.errors import explain
from orchestrate.testing import Project
from tests.acceptance.fakes import Stage
from tests.machines.fakes import git

STUBBORN = """
    version: "1.1"
    name: stubborn
    steps:
      - name: Stay
        command: [sh, -c, 'trap "" TERM; touch started; while :; do sleep 0.05; done']
        timeout_sec: 5
"""


@pytest.mark.parametrize("grace", ["0", "2"])
def test_truth_33_the_grace_before_a_kill_is_a_setting(tmp_path: Path, grace: str) -> None:
    stage = Stage(tmp_path)
    stage.write(".orchestrate/config.yaml", f"kill_grace: {grace}\n")

    began = time.monotonic()
    played = stage.play(STUBBORN, exit_code=1)
    took = time.monotonic() - began

    assert played.step("Stay")["exit_code"] == 124
    assert played.state["settings"]["kill_grace"] == float(grace)
    # It ignores TERM: only the KILL after the grace ends it.
    assert played.step("Stay")["duration_ms"] >= 1000 * (5 + float(grace))
    assert took >= 5 + float(grace)


CLEANS = """
version: "1.1"
name: cleans
steps:
  - {name: Clean, command: [git, clean, -qfdx, --exclude, w.yaml]}
  - {name: After, command: [echo, still here]}
"""


@pytest.mark.parametrize("flags", ["-qfdx", "-fdx"])
def test_truth_33_a_run_that_git_clean_removed_names_the_way_out(
    tmp_path: Path, flags: str
) -> None:
    stage = Stage(tmp_path)
    git(stage.folder, "init", "-q")
    stage.write("w.yaml", CLEANS.replace("-qfdx", flags))

    told = stage.run("run", "w.yaml").assert_exit(5).stderr

    assert "the run's folder is gone: start a new run" in told
    assert "`state_dir` in the configuration" in told
    assert "orchestrate resume" not in told, "there is nothing to resume"


LOSES_LOGS = """
version: "1.1"
name: w
steps:
  - {name: Free, command: [bash, -c, "rm -rf .orchestrate/runs/$$(readlink .orchestrate/runs/latest)/logs"]}
  - {name: Count, command: [seq, "1", "20000"]}
"""  # noqa: E501


def test_truth_33_a_run_whose_logs_were_deleted_can_be_resumed(tmp_path: Path) -> None:
    """As for room on the disk: it was said to be gone, and no resume could go on with it."""
    project = Project(tmp_path, {"w.yaml": LOSES_LOGS})
    told = project.run("run", "w.yaml").assert_exit(5).stderr
    assert "keep other programs from changing the run's files, then run the step again" in told
    assert "start a new run" not in told
    logs = project.latest_run / "logs"
    fault = explain("write", logs / "A.prompt.txt", OSError(errno.ENOENT, ""))
    assert fault.hint == "the run has lost its folder logs/, which a resume makes anew"
    project.run("resume").assert_success()
    assert project.run("logs", "Count").stdout.splitlines()[-1] == "20000"


def test_truth_33_runs_outside_the_tree_survive_git_clean(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write(".orchestrate/config.yaml", "state_dir: ../runs\n")
    git(stage.folder, "init", "-q")
    stage.write("w.yaml", CLEANS)

    stage.run("run", "w.yaml").assert_success()

    assert (stage.top / "runs" / "latest" / "state.json").exists()


def test_truth_33_init_offers_a_place_outside_the_tree(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.run("init", "--yes").assert_success()

    settings = (stage.folder / ".orchestrate/config.yaml").read_text("utf-8")
    assert "git clean -fdx" in settings
    assert "../runs" in settings
    assert "kill_grace" in settings
