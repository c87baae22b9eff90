"""`diff`, `rewind` and `fork` where files, folders and repositories are not as usual."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrate.checkpoints.capture import CaptureLimits
from tests.checkpoints.places import write
from tests.checkpoints.test_runs import SHAPES, Worked, works
from tests.edits.ledger import workflow

_NOT_KEPT = "pipe (neither a file nor a link)"


def test_what_was_never_captured_is_named(tmp_path: Path) -> None:
    """A pipe that was there at the beginning, by every command that could be taken to know it."""
    stage = Worked(tmp_path)
    os.mkfifo(stage.folder / "pipe")
    stage.play(SHAPES["recipe"])
    assert "left_out" not in stage.state()["steps"]["b"]["changed"]
    assert f"not recorded: {_NOT_KEPT}" in stage.run("diff", "latest", "b").assert_exit(0).stderr
    run_id = (stage.runs_folder / "latest").resolve().name
    forked = stage.run("fork", run_id, "--from", "b").assert_exit(0)
    assert f"not in the checkpoint: {_NOT_KEPT}" in forked.stderr
    done = stage.run("rewind", run_id, "b", "--yes").assert_exit(0)
    assert f"not recorded, left as they are: {_NOT_KEPT}" in done.stderr
    assert (stage.folder / "pipe").is_fifo()


def test_checkpoints_are_private_as_all_of_a_run_is(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    store = stage.runs_folder / "latest" / "checkpoints"
    assert [path for path in store.rglob("*") if path.is_file()]
    assert not [path for path in (store, *store.rglob("*")) if path.stat().st_mode & 0o077]


def test_why_there_is_no_checkpoint_is_said_once(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    write(stage.folder, ".git/index", "no index")
    told = stage.play(SHAPES["recipe"]).result.stderr
    assert told.count("no checkpoint of the workspace: git ls-files failed: fatal: ") == 1
    refused = stage.run("rewind", "latest", "b", "--yes").assert_exit(2).stderr
    assert "has no checkpoints of its workspace: git ls-files failed: " in refused
    assert "hint:" not in refused


def test_a_file_that_has_grown_too_large_is_not_told_as_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = CaptureLimits(file=4096)
    monkeypatch.setattr("orchestrate.checkpoints.store.CaptureLimits", lambda: small)
    stage = Worked(tmp_path)
    write(stage.folder, "large", "small")
    grows = '["sh", "-c", "head -c 5000 /dev/zero > large"]'
    stage.play(workflow(works("a"), f"  - {{name: grow, command: {grows}}}\n"))
    assert stage.state()["steps"]["grow"]["changed"]["names"] == ["by-a", "common"]
    told = stage.run("diff", "latest", "--files").assert_exit(0)
    assert "large" not in told.stdout
    assert "not recorded: large (larger than 0 MiB)" in told.stderr
    refused = stage.run("rewind", "latest", "a", "--yes").assert_exit(2).stderr
    assert "not whole in the checkpoints: large (larger than 0 MiB)\n" in refused


def test_after_checkpoints_were_removed_new_ones_are_taken(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    shutil.rmtree(stage.runs_folder / "latest" / "checkpoints")
    for command in (("diff", "latest", "b"), ("rewind", "latest", "b", "--yes")):
        assert "the checkpoints of run" in stage.run(*command).assert_exit(2).stderr
    # The first one has nothing to be compared with; those after it are told apart.
    write(stage.folder, "by-a-person", "mine")
    stage.resume("--redo", "b")
    assert stage.run("diff", "latest", "c", "--files").assert_exit(0).stdout == "M common\n"
    write(stage.folder, "common", "mine")
    stage.run("rewind", "latest", "c", "--yes").assert_exit(0)
    assert (stage.folder / "common").read_text() == "a\nb\nc\nb\n"


def test_a_fork_without_the_files_of_then_names_a_way(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    shutil.rmtree(stage.runs_folder / "latest" / "checkpoints" / "objects")
    refused = stage.run("fork", "latest", "--from", "b")
    assert refused.exit_code != 0
    assert "hint: fork: add --in-place" in refused.stderr
    stage.run("fork", "latest", "--from", "b", "--in-place").assert_exit(0)
