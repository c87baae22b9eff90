"""What was reused is shown as such everywhere: from which run, and what it saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.repositories import Repository
from tests.edits.test_edits_12_fork import TEXTS


@pytest.mark.parametrize("dialect", TEXTS)
def test_edits_14_a_fork_tells_where_it_is_from_and_what_that_saved(
    tmp_path: Path, dialect: str, captured_each: None
) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS[dialect])
    origin = (stage.runs_folder / "latest").resolve().name
    told = stage.run("fork", "--from", "b", "--verbose").assert_success()
    (line,) = [line for line in told.stderr.splitlines() if f" in run {origin} (" in line]
    assert "a reused: " in line if dialect == "machine" else "a: reused, completed" in line
    asked = stage.run("diff", "latest", "a").assert_exit(2).stderr
    assert f"step 'a' was taken over from run {origin}\n" in asked
    words = f"1 step of run {origin}, which had "
    assert words in told.stderr
    if dialect != "workflow":
        assert line.endswith(", saves $0.0100")
        assert f"{words}cost $0.0100 and taken " in told.stderr
    assert words in stage.run("status").stdout
    status = stage.run("status", "--json").json()
    report = stage.run("report", "--json").json()
    for name in ("forked", "worktree", "reused"):
        assert report[name] == status[name]
    assert report["reused"]["from_run"] == origin
    assert report["reused"]["saved_ms"] == stage.state()["steps"]["a"]["duration_ms"]
    assert {one["step"]: one["status"] for one in report["steps"]}["a"] == "reused"
    for form in ("md", "html"):
        text = stage.run("report", "--format", form).assert_success().stdout
        plain = text.replace("\\", "")
        assert f"run {origin}, from step b on" in plain
        assert words in plain
        assert stage.worktree.name in plain


def test_edits_14_files_stand_with_their_steps(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["recipe"])
    steps = {one["step"]: one for one in stage.run("report", "--json").json()["steps"]}
    assert all(steps[name]["changed"] == ["ledger"] for name in "abc")
    assert "1 file changed: ledger" in stage.run("report", "--format", "md").stdout.replace(
        "\\", ""
    )
    assert "1 file changed" in stage.run("status").stdout


def test_edits_14_the_answer_of_a_resume_marks_them(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["recipe"])
    steps = stage.run("resume", "--redo", "c", "--json").assert_success().json()["steps"]
    assert [name for name in "abc" if "reused" in steps[name]] == ["a", "b"]
