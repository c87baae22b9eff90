"""A fork, and a step that is tried, begin with the files as they were, in a place of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.ledger import asks, command, machine, recipe, workflow
from tests.edits.repositories import Repository, bytes_below
from tests.edits.test_edits_12_fork import untouched

NAMES = ("a", "b", "c")
# Each agent writes what git does not know, changes and deletes what it does, and lets `ignored` be.
CLAUDE = """
import os, re
def answer(prompt):
    name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    with open("tracked", "a") as tracked:
        tracked.write(name + "\\n")
    os.makedirs("new", exist_ok=True)
    with open("new/" + name, "w") as new:
        new.write(name)
    if name == "a":
        os.unlink("goes")
        os.symlink("tracked", "link")
        os.chmod("script", 0o755)
    with open("ignored", "w") as ignored:
        ignored.write("secret")
    return "did " + name + '\\n{"outcome": "done"}'
"""
TEXTS = {
    "workflow": workflow(
        *(f"  - {{name: {n}, provider: claude, input_file: {n}.md}}\n" for n in NAMES)
    ),
    "recipe": recipe(*map(asks, NAMES)),
    "machine": machine(*NAMES),
}


def staged(folder: Path) -> Repository:
    stage = Repository(folder)
    stage.claude(CLAUDE)
    for name in ("goes", "script"):
        stage.write(name, name)
    for name in NAMES:
        stage.write(f"{name}.md", f"STEP:{name} do it")
    stage.git("add", "goes", "script")
    stage.git("commit", "-q", "-m", "more")
    return stage


@pytest.mark.parametrize("dialect", TEXTS)
def test_edits_13_a_fork_begins_with_the_files_of_before_the_step(
    tmp_path: Path, dialect: str
) -> None:
    stage = staged(tmp_path)
    stage.write("mine", "not committed")
    stage.play(TEXTS[dialect])
    with untouched(stage) as origin:
        before = bytes_below(stage.folder, without=(".orchestrate",))
        told = stage.run("fork", origin, "--from", "b").assert_success()
        # Nothing but git's branch and worktree entry is new there.
        now = bytes_below(stage.folder, without=(".orchestrate",))
        assert {n: v for n, v in now.items() if not n.startswith(".git/")} == {
            n: v for n, v in before.items() if not n.startswith(".git/")
        }
    assert "its files are as they were before 'b'" in told.stderr
    tree = stage.worktree
    assert (tree / "ledger").read_text("utf-8").split() == ["a", "b", "c"]
    assert (tree / "tracked").read_text("utf-8") == "one\na\nb\nc\n"
    assert (tree / "mine").read_text("utf-8") == "not committed"
    assert not (tree / "goes").exists()
    assert (tree / "link").readlink() == Path("tracked")
    assert (tree / "script").stat().st_mode & 0o100
    # The fork's own first checkpoint says the same: ignored files are nowhere.
    names = stage.run("diff", "latest", "--files").assert_success().stdout.split()
    assert "new/a" not in names
    assert "new/b" in names


def test_edits_13_filters_of_the_workspace_are_not_asked(tmp_path: Path) -> None:
    """The files of a fork come from the checkpoint: how they differ from HEAD does not matter."""
    stage = staged(tmp_path)
    stage.write(".git/info/attributes", ".gitignore filter=broken\n")
    stage.git("config", "filter.broken.clean", "false")
    stage.git("config", "filter.broken.smudge", "cat")
    stage.git("config", "filter.broken.required", "true")
    stage.play(TEXTS["recipe"])
    # As long as it was: git would have to read it.
    stage.write(".gitignore", "IGNORED\n")
    stage.run("fork", "latest", "--from", "b").assert_success()


def test_edits_13_from_a_second_visit_and_from_a_fork(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    stage.play(TEXTS["machine"])
    stage.resume("--redo", "b")
    with untouched(stage) as origin:
        stage.run("fork", origin, "--from", "b").assert_success()
    first = stage.worktree
    # Before `b` was done again, not before it was done first.
    assert (first / "ledger").read_text("utf-8").split() == ["a", "b", "c", "b", "c"]
    with untouched(stage) as fork:
        stage.run("fork", fork, "--from", "a", "--worktree", "second").assert_success()
    second = stage.top / "workspace.worktrees" / "second"
    # The fork took `a` over: the files of before it are in what it took over, too.
    assert (second / "ledger").read_text("utf-8").split() == ["a", "b", "c"]
    assert not (second / "goes").exists()


@pytest.mark.parametrize("dialect", TEXTS)
def test_edits_13_a_run_that_was_rewound_has_no_files_of_later(
    tmp_path: Path, dialect: str
) -> None:
    """It stands before `b`, which is done again in a fork from a later step, too."""
    stage = staged(tmp_path)
    stage.play(TEXTS[dialect])
    stage.run("rewind", "latest", "b", "--yes").assert_success()
    told = stage.run("fork", "latest", "--from", "c").assert_success().stderr
    assert "from step b on" in told
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["a", "b", "c"]


QUICK = {
    "workflow": workflow(command("a", "echo a > made"), command("b", "cat made"), command("c")),
    "recipe": recipe(
        '  - {id: a, type: bash, command: "echo a >> ledger; echo a > made"}\n',
        '  - {id: b, type: bash, command: "echo b >> ledger; cat made"}\n',
        '  - {id: c, type: bash, command: "echo c >> ledger"}\n',
    ),
}


@pytest.mark.parametrize("dialect", QUICK)
def test_edits_13_quick_commands_that_share_a_checkpoint_are_done_again(
    tmp_path: Path, dialect: str, captured_once: None
) -> None:
    """The result of `a` would stand without the file that it made."""
    stage = staged(tmp_path)
    stage.play(QUICK[dialect])
    assert "shares its checkpoint" in stage.run("rewind", "latest", "c", "--yes").stderr
    with untouched(stage) as origin:
        told = stage.run("fork", origin, "--from", "c").assert_success()
    assert "from step a on" in told.stderr
    assert "a, b too: done again with 'c', as they share a checkpoint" in told.stderr
    assert (stage.worktree / "made").read_text("utf-8") == "a\n"
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["a", "b", "c"]
    kept = ("--accept", "a", "--accept", "b")
    lacking = stage.run("fork", origin, "--from", "c", *kept).assert_success()
    assert "from step c on" in lacking.stderr
    assert "what a, b did to them is not there" in lacking.stderr


def test_edits_13_without_checkpoints_the_files_are_those_of_the_commit(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    stage.play(TEXTS["recipe"], "--checkpoints", "off")
    told = stage.run("fork", "--from", "b").assert_success()
    assert "its files are those of the commit: the run has no checkpoint" in told.stderr
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["b", "c"]


@pytest.mark.parametrize("dialect", TEXTS)
def test_edits_13_a_step_is_tried_in_a_worktree(tmp_path: Path, dialect: str) -> None:
    stage = staged(tmp_path)
    stage.play(TEXTS[dialect])
    stage.write("by-me", "since")
    with untouched(stage) as origin:
        before = bytes_below(stage.folder, without=(".orchestrate", ".git"))
        told = stage.run("run-step", "b", "--run", origin).assert_success()
        assert bytes_below(stage.folder, without=(".orchestrate", ".git")) == before
        assert (stage.runs_folder / "latest").resolve().name == origin
    tree = stage.worktree
    assert (tree / "ledger").read_text("utf-8").split() == ["a", "b"]
    assert not (tree / "new" / "c").exists()
    assert (tree / "by-me").read_text("utf-8") == "since"
    assert "remove: git" in told.stderr


def test_edits_13_a_prompt_file_is_tried_as_it_is_now(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    stage.write("b.md", "STEP:b at first")
    stage.play(workflow(command("a"), "  - {name: b, provider: claude, input_file: b.md}\n"))
    stage.write("b.md", "STEP:b better")
    stage.run("run-step", "b", "--run", "latest").assert_success()
    assert "better" in stage.calls("claude")[-1].stdin


def test_edits_13_a_step_that_changes_nothing_leaves_nothing(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    stage.play(workflow('  - {name: a, command: ["true"]}\n'))
    told = stage.run("run-step", "a", "--run", "latest").assert_success()
    assert "the worktree that it was tried in is removed" in told.stderr
    assert not stage.worktree_exists()
    assert stage.branches() == ["main"]
