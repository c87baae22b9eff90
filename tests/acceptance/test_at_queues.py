"""Task queues and status files: conventions that the orchestrator serves but never runs itself."""

from __future__ import annotations

import json
import os
import time
import zipfile
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.fakes import REPOSITORY, Stage


def test_at_004_status_files_are_written_and_read(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program(
        "engineer",
        """
        status = dict(
            schema="status/v1", correlation_id="feature-1", agent="engineer", run_id=argv[0],
            step="Implement", timestamp="2025-01-15T10:30:00Z", success=False, exit_code=1,
            outputs=["artifacts/engineer/implementation.py"],
            metrics=dict(files_modified=3, lines_added=150),
            next_actions=[dict(agent="qa", file="inbox/qa/review.task")], message="half done",
        )
        print(json.dumps(status))
        """,
    )
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Implement
            agent: engineer
            command: ["engineer", "${run.id}"]
            output_file: artifacts/engineer/status_Implement.json
            output_capture: json
          - name: Read
            command: ["cat", "artifacts/engineer/status_Implement.json"]
            output_capture: json
          - name: Decide
            command: ["echo", "${steps.Read.json.schema} ${steps.Read.json.next_actions.0.agent}"]
    """)
    status = json.loads((stage.folder / "artifacts/engineer/status_Implement.json").read_text())
    schema = json.loads((REPOSITORY / "schemas/status.schema.json").read_text())
    assert list(Draft202012Validator(schema).iter_errors(status)) == []
    assert played.step("Read")["json"] == status
    assert status["run_id"] == played.state["run_id"]
    assert played.step("Decide")["output"] == "status/v1 qa\n"
    # `success: false` in it is for people; the run goes by exit codes alone.
    assert played.state["status"] == "completed"


def test_at_005_a_task_is_visible_only_when_whole(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    inbox = stage.folder / "inbox"
    inbox.mkdir()

    def hand_in() -> None:
        half, task = inbox / "job.tmp", inbox / "job.task"
        half.write_text("first half, ")
        time.sleep(0.4)
        half.write_text("first half, second half")
        half.rename(task)

    with stage.once_started(hand_in):
        played = stage.play("""
            version: "1.1"
            steps:
              - {name: Start, command: ["touch", "started"]}
              - {name: Wait, wait_for: {glob: "inbox/*.task", poll_ms: 20, timeout_sec: 30}}
              - {name: Read, command: ["cat", "inbox/job.task"]}
        """)
    assert played.step("Wait")["files"] == ["inbox/job.task"]
    # It looked while there was only half a file under another name, and did not take it.
    assert played.step("Wait")["poll_count"] > 2
    assert played.step("Read")["output"] == "first half, second half"


def test_at_006_only_steps_move_tasks(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for name in ("done", "left", "bad"):
        stage.write(f"inbox/{name}.task", name)
    played = stage.play(
        """
        version: "1.1"
        steps:
          - name: Succeed
            command: ["sh", "-c", "mkdir -p processed/${run.timestamp_utc} && mv inbox/done.task processed/${run.timestamp_utc}/"]
          - name: Quarantine
            command: ["sh", "-c", "mkdir -p failed/${run.timestamp_utc} && mv inbox/bad.task failed/${run.timestamp_utc}/"]
          - name: Look
            command: ["cat", "inbox/left.task"]
            input_file: inbox/left.task
          - name: Fail
            command: ["false"]
            input_file: inbox/left.task
        """,  # noqa: E501
        exit_code=1,
    )
    stamp = played.state["run_id"].partition("-")[0]
    assert stage.snapshot() == [
        "failed", f"failed/{stamp}", f"failed/{stamp}/bad.task",
        "inbox", "inbox/left.task",
        "processed", f"processed/{stamp}", f"processed/{stamp}/done.task",
        "w.yaml",
    ]  # fmt: skip


LIST_PROCESSED = """
    version: "1.1"
    {more}
    steps:
      - {{name: Look, command: ["find", "{folder}", "-mindepth", "1"]}}
      - {{name: Make, command: ["sh", "-c", "mkdir -p {folder}/b; echo new > {folder}/b/new.task"]}}
      - {{name: End, command: ["{end}"]}}
"""
PLAIN = LIST_PROCESSED.format(more="", folder="processed", end="true")


def fill_processed(stage: Stage, folder: str = "processed") -> None:
    stage.write(f"{folder}/20250101T000000Z/old.task", "old")
    stage.write(f"{folder}/.hidden", "old")
    (stage.top / "outside").mkdir()
    (stage.top / "outside/me.txt").write_text("precious")
    os.symlink(stage.top / "outside", stage.folder / folder / "link")


def test_at_011_clean_processed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    played = stage.play(PLAIN, "--clean-processed")
    # Emptied before the run, and only emptied: the folder is there, and no link was followed.
    assert played.step("Look")["output"] == ""
    assert (stage.folder / "processed/b/new.task").exists()
    assert (tmp_path / "outside/me.txt").read_text() == "precious"


def test_at_011_without_the_flag_nothing_goes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    assert "old.task" in stage.play(PLAIN).step("Look")["output"]


def test_at_011_the_configured_folder_counts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage, "work/done")
    stage.write("processed/mine.txt", "kept")
    text = LIST_PROCESSED.format(more="processed_dir: work/done", folder="work/done", end="true")
    assert stage.play(text, "--clean-processed").step("Look")["output"] == ""
    assert (stage.folder / "processed/mine.txt").exists()


def test_at_012_archive_processed_on_success(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    stage.play(PLAIN, "--archive-processed", "output.zip")
    with zipfile.ZipFile(stage.folder / "output.zip") as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        new = next(name for name in names if name.endswith("b/new.task"))
        assert archive.read(new) == b"new\n"
        assert any(name.endswith("20250101T000000Z/old.task") for name in names)
        assert all(b"precious" not in archive.read(name) for name in names)
    # The archive is a copy.
    assert (stage.folder / "processed/b/new.task").exists()


def test_at_012_the_archive_has_a_default_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    played = stage.play(PLAIN, "--archive-processed")
    assert zipfile.is_zipfile(played.root / "processed.zip")


def test_at_012_no_archive_of_a_failed_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    text = LIST_PROCESSED.format(more="", folder="processed", end="false")
    played = stage.play(text, "--archive-processed", "output.zip", exit_code=1)
    assert not (stage.folder / "output.zip").exists()
    assert not (played.root / "processed.zip").exists()


@pytest.mark.parametrize("place", ["processed/output.zip", "inside/output.zip"])
def test_at_012_the_archive_stays_out_of_the_folder(tmp_path: Path, place: str) -> None:
    stage = Stage(tmp_path)
    fill_processed(stage)
    os.symlink("processed", stage.folder / "inside")
    workflow = 'version: "1.1"\nsteps: [{name: A, command: ["touch", "started"]}]'
    stage.refuse(workflow, "--archive-processed", place)
    assert (stage.folder / "processed/20250101T000000Z/old.task").exists()


def test_at_016_clean_processed_stays_in_the_workspace(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious")
    step = 'steps: [{name: A, command: ["touch", "started"]}]'
    for folder in ("../outside", str(outside)):
        stage.refuse(f'version: "1.1"\nprocessed_dir: {folder}\n{step}', "--clean-processed")
    os.symlink(outside, stage.folder / "processed")
    stage.refuse(f'version: "1.1"\n{step}', "--clean-processed")
    assert (outside / "precious.txt").read_text() == "precious"
