"""Number 25: no step writes into the run's folder, `.orchestrate/` or `.git/`, in any spelling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.testing import Project

COMMAND = """
version: "1.1"
steps:
  - name: Make
    command: [sh, -c, "touch started; echo hello"]
    output_file: {target}
"""
COMPUTED = """
version: "1.1"
context: {{where: {where}}}
steps:
  - name: Make
    command: [sh, -c, "touch started; echo hello"]
    output_file: "${{context.where}}"
"""
LITERAL = (
    ".orchestrate/runs/${run.id}/keeper/journal",
    ".orchestrate/config.yaml",
    "./.Orchestrate/x",
    ".git/hooks/pre-commit",
    "sub/.GIT/config",
    "${run.root}/state.json",
    "${run.root}/artifacts-not/x",
)


@pytest.mark.parametrize("target", LITERAL)
def test_truth_25_validate_refuses_a_written_path_with_its_place(
    tmp_path: Path, target: str
) -> None:
    project = Project(tmp_path, {"w.yaml": COMMAND.format(target=json.dumps(target))})
    said = project.run("validate", "w.yaml").assert_exit(2)
    assert "w.yaml:5:18: error E406" in said.stdout
    assert "no step may write" in said.stdout
    project.run("run", "w.yaml").assert_exit(2)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("key", ["processed_dir", "failed_dir", "inbox_dir"])
@pytest.mark.parametrize("folder", [".orchestrate", ".git/x", ".orchestrate/runs"])
def test_truth_25_queues_are_none_of_ours(tmp_path: Path, key: str, folder: str) -> None:
    text = COMMAND.format(target="out.txt") + f"{key}: {folder}\n"
    said = Project(tmp_path, {"w.yaml": text}).run("validate", "w.yaml").assert_exit(2)
    assert "E406" in said.stdout


def test_truth_25_moves_are_refused_by_validate_and_at_run_time(tmp_path: Path) -> None:
    text = """
    version: "1.2"
    context: {to: DEST}
    steps:
      - name: All
        for_each:
          items: ["a.task"]
          on_item_complete:
            success: {move_to: "TARGET"}
          steps:
            - name: One
              command: ["true"]
    """
    project = Project(tmp_path, {"w.yaml": text.replace("TARGET", ".git/x"), "a.task": "a\n"})
    assert "E406" in project.run("validate", "w.yaml").assert_exit(2).stdout
    computed = text.replace("TARGET", "${context.to}").replace("DEST", ".orchestrate/moved")
    project.write("w.yaml", computed)
    project.run("run", "w.yaml")
    assert (tmp_path / "a.task").exists()
    assert not (tmp_path / ".orchestrate" / "moved").exists()
    state = json.loads((tmp_path / ".orchestrate/runs/latest/state.json").read_text("utf-8"))
    assert "no step may write" in json.dumps(state)


@pytest.mark.parametrize(
    "where",
    [".git/config", ".GIT/config", "link/config", "new/../.git/x", ".orchestrate/locks/x",
     "kept/runs.txt/../x"],
)  # fmt: skip
def test_truth_25_a_computed_path_fails_the_step_before_it_starts(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    project = Project(tmp_path, {"w.yaml": COMPUTED.format(where=where)})
    project.run("run", "w.yaml").assert_exit(1)
    assert not (tmp_path / "started").exists()
    assert list((tmp_path / ".git").iterdir()) == []


@pytest.mark.parametrize("state_dir", ["kept", ".orchestrate/runs"])
def test_truth_25_the_run_s_folder_is_kept_wherever_it_lies(tmp_path: Path, state_dir: str) -> None:
    text = """
    version: "1.1"
    steps:
      - name: Id
        command: [sh, -c, "printf %s ${run.id}"]
        output_capture: text
      - name: Make
        command: [sh, -c, "touch started; echo hello"]
        output_file: STATE/${steps.Id.output}/events.jsonl
    """
    where = state_dir if state_dir == "kept" else "${context.s}"
    body = text.replace("STATE", where)
    project = Project(tmp_path, {"w.yaml": body})
    extra = ("--context", f"s={state_dir}")
    project.run("run", "w.yaml", "--state-dir", state_dir, *extra).assert_exit(1)
    assert not (tmp_path / "started").exists()


def test_truth_25_artifacts_stay_allowed(tmp_path: Path) -> None:
    text = COMMAND.format(target='"${run.root}/artifacts/deep/out.txt"')
    Project(tmp_path, {"w.yaml": text}).run("run", "w.yaml").assert_success()
    made = tmp_path / ".orchestrate/runs/latest/artifacts/deep/out.txt"
    assert made.read_text("utf-8") == "hello\n"


@pytest.mark.parametrize("flags", [("--clean-processed",), ("--archive-processed", "x.zip")])
def test_truth_25_the_folder_of_processed_tasks_leads_nowhere_of_ours(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    project = Project(tmp_path, {"w.yaml": COMMAND.format(target="out.txt")})
    project.run("run", "w.yaml").assert_success()
    (tmp_path / "processed").symlink_to(".orchestrate")
    said = project.run("run", "w.yaml", *flags).assert_exit(2)
    assert "processed_dir" in said.stderr
    assert (tmp_path / ".orchestrate/runs/latest/state.json").is_file()


def test_truth_25_runs_that_lie_in_the_processed_folder_are_not_emptied(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": COMMAND.format(target="out.txt")})
    project.run("run", "w.yaml", "--state-dir", "processed/runs").assert_success()
    again = ("run", "w.yaml", "--state-dir", "processed/runs", "--clean-processed")
    project.run(*again).assert_exit(2)
    assert (tmp_path / "processed/runs/latest/state.json").is_file()


@pytest.mark.parametrize("place", [".git/x.zip", ".orchestrate/x.zip"])
def test_truth_25_an_archive_goes_to_a_place_of_the_users(tmp_path: Path, place: str) -> None:
    project = Project(tmp_path, {"w.yaml": COMMAND.format(target="out.txt")})
    project.run("run", "w.yaml", "--archive-processed", place).assert_exit(2)
    assert not (tmp_path / "started").exists()
