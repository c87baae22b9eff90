"""`run --worktree`: a run works in a git worktree of its own, and nothing of it is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.edits.ledger import asks, command, machine, recipe, workflow
from tests.edits.repositories import Repository, bytes_below
from tests.promises.processes import wait_until

MAKE = command("a", "cat tracked >> ledger; echo made > new")
COMMIT = command("b", "git add -A; git commit -q -m work")
FLOW = workflow(MAKE, COMMIT)


def test_edits_11_a_run_works_in_a_worktree(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", FLOW)
    before = bytes_below(stage.folder, without=(".git", ".orchestrate"))
    result = stage.run("run", "w.yaml", "--worktree").assert_success()
    assert bytes_below(stage.folder, without=(".git", ".orchestrate")) == before
    run_id = (stage.runs_folder / "latest").resolve().name
    assert stage.worktree.name == run_id
    assert stage.branches() == ["main", f"orchestrate/{run_id}"]
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["a", "one", "b"]
    assert "1 uncommitted file not in the worktree" in result.stderr
    status = stage.run("status", "--json").assert_success().json()
    assert status["worktree"]["path"] == str(stage.worktree)
    assert str(stage.worktree) in stage.run("status").stdout
    for words in (("logs", "latest", "a"), ("report",), ("why",), ("runs",)):
        stage.run(*words).assert_success()
    # What is advised works: after the merge nothing is lost with it.
    stage.advised(result, "merge:")
    assert (stage.folder / "new").exists()
    stage.advised(result, "remove:")
    assert not stage.worktree_exists()
    assert stage.branches() == ["main"]


@pytest.mark.parametrize("text", [recipe(asks("a"), asks("b")), machine("a", "b")])
def test_edits_11_agents_work_there_and_go_on_there(tmp_path: Path, text: str) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", text)
    stage.write("fail-b", "")
    code = 1 if "agent:" in text else 4
    flags = ("--worktree", "--with-changes", "--retry-delay", "0")
    stage.run("run", "w.yaml", *flags).assert_exit(code)
    ledger = stage.worktree / "ledger"
    assert ledger.read_text("utf-8").split()[:2] == ["a", "b"]
    (stage.worktree / "fail-b").unlink()
    ledger.unlink()
    stage.run("resume").assert_success()
    assert ledger.read_text("utf-8").split() == ["b"]
    assert stage.ran() == []


def test_edits_11_an_edit_is_made_where_the_run_was_started(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", workflow(command("a"), command("b", "exit 1")))
    stage.run("run", "w.yaml", "--worktree").assert_exit(1)
    stage.edit("exit 1", "true")
    told = stage.run("resume", "--edited").assert_success()
    assert "reuse 1, run 1: b" in told.stderr
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["a", "b", "b"]


def test_edits_11_changes_are_taken_along_on_request(tmp_path: Path) -> None:
    """Staged, unstaged, new, gone, a link, a mode, a name with a newline; ignored ones stay."""
    stage = Repository(tmp_path)
    for name in ("gone", "staged", "script", "was-file", "was-folder/a/b"):
        stage.write(name, "one\n")
    stage.git("add", "-A")
    stage.git("commit", "-q", "-m", "second")
    stage.write("w.yaml", workflow(command("a")))
    (stage.folder / "gone").unlink()
    (stage.folder / "was-file").unlink()
    stage.write("was-file/inside", "x\n")
    shutil.rmtree(stage.folder / "was-folder")
    stage.write("was-folder", "y\n")
    stage.git("init", "-q", str(stage.folder / "nested"))
    stage.write("nested/file", "z\n")
    stage.write("staged", "index\n")
    stage.git("add", "staged")
    stage.write("staged", "tree\n")
    stage.write("tracked", "two\n")
    stage.write("odd\nname", "x\n")
    stage.write("ignored", "secret\n")
    (stage.folder / "script").chmod(0o755)
    os.symlink("tracked", stage.folder / "link")
    os.mkfifo(stage.folder / "pipe")
    index = (stage.folder / ".git/index").read_bytes()
    told = stage.run("run", "w.yaml", "--worktree", "there", "--with-changes").assert_success()
    assert "not taken along: nested/" in told.stderr
    there = stage.worktree
    assert there.name == "there"
    assert (stage.folder / ".git/index").read_bytes() == index
    assert not (there / "gone").exists()
    assert not (there / "ignored").exists()
    assert (there / "was-file/inside").read_text("utf-8") == "x\n"
    assert (there / "was-folder").read_text("utf-8") == "y\n"
    assert (there / "staged").read_text("utf-8") == "tree\n"
    assert (there / "tracked").read_text("utf-8") == "two\n"
    assert (there / "odd\nname").exists()
    assert os.readlink(there / "link") == "tracked"
    assert os.access(there / "script", os.X_OK)


def test_edits_11_clean_keeps_what_is_not_merged(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", workflow(command("a", "echo x > new")))
    stage.run("run", "w.yaml", "--worktree").assert_success()
    for dry in (("--dry-run",), ()):
        cleaned = stage.run("clean", "--keep", "0", "--json", *dry).assert_success().json()
        assert len(cleaned["unmerged"]) == 1
        assert cleaned["removed"] == []
    assert (stage.worktree / "new").exists()
    assert "not merged, and kept" in stage.run("clean", "--keep", "0").stdout
    # Committed and still not merged.
    branch = stage.branches()[1]
    stage.git("add", "-A", folder=stage.worktree)
    stage.git("commit", "-q", "-m", "work", folder=stage.worktree)
    assert stage.run("clean", "--keep", "0", "--json").json()["removed"] == []
    assert stage.branches() == ["main", branch]
    stage.git("merge", "-q", branch)
    # It is merged, but something new lies in it.
    (stage.worktree / "more").write_text("x", "utf-8")
    assert stage.run("clean", "--keep", "0", "--json").json()["removed"] == []
    (stage.worktree / "more").unlink()
    (stage.worktree / "ignored").write_text("x", "utf-8")
    assert len(stage.run("clean", "--keep", "0", "--json").json()["removed"]) == 1
    assert stage.branches() == ["main"]
    assert not stage.worktree_exists()


def test_edits_11_clean_keeps_commits_of_a_worktree_that_was_removed(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", FLOW)
    stage.run("run", "w.yaml", "--worktree").assert_success()
    shutil.rmtree(stage.worktree)
    assert stage.run("clean", "--keep", "0", "--json").json()["removed"] == []
    assert len(stage.branches()) == 2


def test_edits_11_a_worktree_that_is_gone_is_told_with_the_way_out(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", workflow(command("a"), command("b", "test -e ok || exit 1")))
    stage.run("run", "w.yaml", "--worktree").assert_exit(1)
    shutil.rmtree(stage.worktree)
    stage.run("status").assert_success()
    refused = stage.run("resume").assert_exit(5)
    assert "the worktree of run" in refused.stderr
    stage.advised(refused, "hint: to make it again from its branch:")
    (stage.worktree / "ok").write_text("", "utf-8")
    stage.run("resume").assert_success()
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["b"]
    stage.run("resume", "--force-restart").assert_exit(1)
    assert len(stage.worktrees) == 2
    stage.run("cancel", "latest").assert_success()


def test_edits_11_worktrees_of_the_user_that_are_away_stay_known(tmp_path: Path) -> None:
    """Its folder may be on a disk that is not mounted: git's entry is all that is left of it."""
    stage = Repository(tmp_path)
    theirs = tmp_path / "theirs"
    stage.git("worktree", "add", "-q", "-b", "topic", str(theirs))
    theirs.rename(tmp_path / "away")
    before = bytes_below(stage.folder / ".git" / "worktrees")
    stage.write("w.yaml", workflow('  - {name: a, command: ["true"]}\n'))
    for how in ("whole", "removed by hand"):
        stage.run("run", "w.yaml", "--worktree").assert_success()
        if how == "removed by hand":
            shutil.rmtree(stage.worktree)
        assert len(stage.run("clean", "--keep", "0", "--json").json()["removed"]) == 1
        assert bytes_below(stage.folder / ".git" / "worktrees") == before
        assert stage.branches() == ["main", "topic"]


def test_edits_11_where_there_can_be_none_it_is_refused(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("w.yaml", workflow(command("a")))
    stage.run("run", "w.yaml", "--with-changes").assert_exit(2)
    stage.run("run", "w.yaml", "--worktree", "../x").assert_exit(2)
    (tmp_path / "workspace.worktrees/taken").mkdir(parents=True)
    taken = stage.run("run", "w.yaml", "--worktree", "taken").assert_exit(2)
    assert "exists already" in taken.stderr
    programs = str(tmp_path / "programs")
    none = stage.run("run", "w.yaml", "--worktree", env={"PATH": programs}).assert_exit(5)
    assert "git, which is not installed" in none.stderr
    theirs = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    none = stage.run("run", "w.yaml", "--worktree", env=theirs).assert_exit(5)
    assert f"git config --global --add safe.directory {stage.folder}\n" in none.stderr
    shutil.rmtree(stage.folder / ".git")
    none = stage.run("run", "w.yaml", "--worktree").assert_exit(2)
    assert "needs a git repository" in none.stderr
    stage.git("init", "-q")
    unborn = stage.run("run", "w.yaml", "--worktree").assert_exit(2)
    assert "has none yet" in unborn.stderr
    assert not stage.has_runs()


def test_edits_11_from_a_detached_head_and_a_folder_inside(tmp_path: Path) -> None:
    """The workspace is a folder of the repository, which is a worktree of a bare one."""
    stage = Repository(tmp_path)
    bare = tmp_path / "bare.git"
    stage.git("clone", "-q", "--bare", str(stage.folder), str(bare))
    tree = tmp_path / "tree"
    stage.git("worktree", "add", "-q", "--detach", str(tree), folder=bare)
    (tree / "inner").mkdir()
    (tree / "inner/w.yaml").write_text(workflow(command("a", "pwd >> ledger")), "utf-8")
    file = str(tree / "inner/w.yaml")
    stage.run(
        "run", file, "--worktree", "there", "--working-dir", str(tree / "inner")
    ).assert_success()
    there = tmp_path / "tree.worktrees/there/inner"
    assert (there / "ledger").read_text("utf-8").split() == ["a", str(there)]
    assert (tree / "inner/.orchestrate/runs").exists()
    assert not (there / ".orchestrate/runs").exists()
    stage.run("run", "w.yaml", "--worktree", "--working-dir", str(bare)).assert_exit(2)


def test_edits_11_the_configuration_prepares_it(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    stage.git("init", "-q", folder=other)
    (other / "file").write_text("x", "utf-8")
    stage.git("add", "-A", folder=other)
    stage.git("commit", "-q", "-m", "x", folder=other)
    stage.git("submodule", "-q", "add", str(other), "sub")
    stage.git("commit", "-q", "-m", "sub")
    stage.write("w.yaml", workflow(command("a", "cat sub/file >> ledger || exit 1")))
    empty = stage.run("run", "w.yaml", "--worktree", "first").assert_exit(1)
    assert "empty in the worktree: submodule sub" in empty.stderr
    config = "worktree:\n  folder: ../elsewhere\n  prepare:\n  - {}\n"
    stage.write(".orchestrate/config.yaml", config.format('["sh", "-c", "echo why; exit 3"]'))
    failed = stage.run("run", "w.yaml", "--worktree", "second").assert_exit(5)
    assert "ended with 3" in failed.stderr
    root = (stage.runs_folder / "latest").resolve()
    assert "why" in (root / "logs/worktree.log").read_text("utf-8")
    # Repaired, the same run goes on, in a worktree that was made anew.
    fill = '["git", "submodule", "-q", "update", "--init"]'
    stage.write(".orchestrate/config.yaml", config.format(fill))
    stage.run("resume").assert_success()
    there = tmp_path / "elsewhere/second"
    assert (there / "ledger").read_text("utf-8").split() == ["a", "x"]


def test_edits_11_a_worktree_inside_is_no_uncommitted_file(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write(".orchestrate/config.yaml", "worktree: {folder: inside}\n")
    stage.write("w.yaml", workflow(command("a")))
    stage.git("add", "-A")
    stage.git("commit", "-q", "-m", "all")
    assert "uncommitted" not in stage.run("run", "w.yaml", "--worktree").assert_success().stderr
    stage.write("tracked", "changed")
    told = stage.run("run", "w.yaml", "--worktree").assert_success().stderr
    assert "  1 uncommitted file not in the worktree" in told


def test_edits_11_a_second_live_run_is_offered_one(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.write("r.yaml", recipe(asks("a")))
    stage.program("claude", "open('started', 'w'); time.sleep(600)", version="2.1.325")
    with stage.started(recipe(asks("a"))):
        stage.await_file("started")
        refused = stage.run("run", "r.yaml").assert_exit(5)
        assert "--worktree" in refused.stderr
        with stage.command("run", "r.yaml", "--worktree", "beside"):
            there = tmp_path / "workspace.worktrees/beside/started"
            wait_until(there.exists, "the second run never began")
        stage.run("cancel", "latest").assert_success()
    for run in stage.run("runs", "--json").json()["runs"]:
        stage.run("stop", run["run_id"])


@pytest.mark.parametrize("call", range(1, 7))
def test_edits_11_a_start_that_is_killed_goes_on(tmp_path: Path, call: int) -> None:
    """Killed at each call of git, before and after it did its work: the resume makes it whole."""
    stage = Repository(tmp_path)
    stage.write("w.yaml", FLOW)
    stage.write("tracked", "two\n")
    real = shutil.which("git")
    count = tmp_path / "count"
    script = (
        f"#!/bin/sh\necho >> {count}\nn=$(wc -l < {count})\n"
        f'[ "$n" -eq {call} ] && [ -e {tmp_path}/early ] && kill -9 $PPID\n{real} "$@"; code=$?\n'
        f'[ "$n" -eq {call} ] && [ ! -e {tmp_path}/early ] && kill -9 $PPID\nexit $code\n'
    )
    for moment in ("early", "late"):
        fake = tmp_path / "programs/git"
        fake.write_text(script, "utf-8")
        fake.chmod(0o755)
        count.write_text("", "utf-8")
        (tmp_path / "early").unlink(missing_ok=True)
        if moment == "early":
            (tmp_path / "early").write_text("", "utf-8")
        flags = ("--worktree", moment, "--with-changes")
        with stage.command("run", "w.yaml", *flags) as process:
            process.wait(60)
        fake.unlink()
        there = tmp_path / "workspace.worktrees" / moment
        if process.returncode == -9 and not _has_begun(stage, moment):
            stage.run("run", "w.yaml", *flags).assert_success()  # nothing was left behind
        elif process.returncode == -9:
            stage.run("resume").assert_success()
        ledger = (there / "ledger").read_text("utf-8").split()
        assert ledger == ["a", "two", "b"]


def _has_begun(stage: Repository, name: str) -> bool:
    if not stage.has_runs():
        return False
    tree = stage.state()["engine"]["worktree"]
    return str(tree["path"]).endswith(name)
