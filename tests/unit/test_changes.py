"""What git tells of a run's changes: lines of each file, hunks, and what came after a gate."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrate.record import replace
from orchestrate.state.result import Approval
from orchestrate.state.times import timestamp
from orchestrate.view.changes import FileChange, find_changes, last_gate
from orchestrate.view.history import Sitting
from orchestrate.view.hunks import MOST_CHARS, hunks_of

# Far from each other, so that whole seconds of a commit's time leave no doubt.
BEGAN, ASKED, NOW = 1_700_000_000.0, 1_700_001_000.0, 1_700_002_000.0


def git(folder: Path, *arguments: str, at: float = BEGAN - 100) -> str:
    dates = {f"GIT_{who}_DATE": f"@{int(at)} +0000" for who in ("AUTHOR", "COMMITTER")}
    names = {f"GIT_{who}_{what}": "a@example.org"
             for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}  # fmt: skip
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **dates, **names},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "old.txt").write_text("one\ntwo\nthree\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def write(path: Path, text: str, at: float) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(int(at * 10**9) + 1, int(at * 10**9) + 1))


def commit(tree: Path, name: str, text: str, at: float) -> None:
    write(tree / name, text, at)
    git(tree, "add", name, at=at)
    git(tree, "commit", "-qm", f"change {name}", at=at)


def gate(at: float, *, decided: bool = True) -> Approval:
    asked = Approval("ask", "pending", "?", timestamp(at), None, "deny", "", "ask", 1)
    return replace(asked, status="approved", decided_at=timestamp(at + 1)) if decided else asked


def counted(files: list[FileChange]) -> dict[str, tuple[str, str]]:
    return {one.path: (one.what, one.counted) for one in files}


def test_each_file_has_its_lines(tree: Path) -> None:
    sitting = Sitting(BEGAN, git(tree, "rev-parse", "HEAD"))
    commit(tree, "kept.txt", "a\nb\n", BEGAN + 10)
    write(tree / "old.txt", "one\n2\nthree\nfour\n", BEGAN + 20)
    write(tree / "sub" / "new.txt", "x\ny\nz\n", BEGAN + 30)
    write(tree / "picture", "\0\1", BEGAN + 40)
    found = find_changes(tree, [sitting], NOW)
    assert counted(found.listed) == {
        "kept.txt": ("added", "+2 -0"),
        "old.txt": ("modified", "+2 -1"),
        "sub/new.txt": ("new", "+3 -0"),
        "picture": ("new", ""),
    }


def test_only_what_came_after_the_gate_was_asked(tree: Path) -> None:
    sitting = Sitting(BEGAN, git(tree, "rev-parse", "HEAD"))
    commit(tree, "seen.txt", "a\n", BEGAN + 10)
    write(tree / "seen-too.txt", "a\n", BEGAN + 20)
    commit(tree, "later.txt", "b\n", ASKED + 10)
    write(tree / "later-too.txt", "b\n", ASKED + 20)
    asked = last_gate([gate(ASKED), gate(NOW, decided=False)])
    whole, since = (find_changes(tree, [sitting], NOW, one) for one in (None, asked))
    assert {one.path for one in whole.listed} == {
        "seen.txt", "seen-too.txt", "later.txt", "later-too.txt",
    }  # fmt: skip
    assert {one.path for one in since.listed} == {"later.txt", "later-too.txt"}
    assert since.how[0] == "Since gate 'ask' was asked."


def test_a_gate_between_two_sittings(tree: Path) -> None:
    first = git(tree, "rev-parse", "HEAD")
    commit(tree, "seen.txt", "a\n", BEGAN + 10)
    parked = git(tree, "rev-parse", "HEAD")
    commit(tree, "by-hand.txt", "h\n", ASKED + 100)
    resumed = git(tree, "rev-parse", "HEAD")
    commit(tree, "later.txt", "b\n", ASKED + 600)
    sittings = [Sitting(BEGAN, first, ASKED + 1, parked), Sitting(ASKED + 500, resumed)]
    assert {one.path for one in find_changes(tree, sittings, NOW, gate(ASKED)).listed} == {
        "later.txt"
    }


def test_without_a_log_of_head_the_whole_sitting_is_shown(tree: Path) -> None:
    sitting = Sitting(BEGAN, git(tree, "rev-parse", "HEAD"))
    commit(tree, "seen.txt", "a\n", BEGAN + 10)
    shutil.rmtree(tree / ".git" / "logs")
    assert "seen.txt" in counted(find_changes(tree, [sitting], NOW, gate(ASKED)).listed)


def test_hunks_of_committed_changed_and_new_files(tree: Path) -> None:
    sittings = [Sitting(BEGAN, git(tree, "rev-parse", "HEAD"))]
    commit(tree, "old.txt", "one\n2\nthree\n", BEGAN + 10)
    write(tree / "old.txt", "one\n2\n3\n", BEGAN + 20)
    write(tree / "new.txt", "<b>\n", BEGAN + 30)
    found = find_changes(tree, sittings, NOW).files
    hunks = {(one.path, one.is_committed): hunks_of(tree, one, sittings) for one in found}
    assert "-two\n+2\n" in hunks["old.txt", True]
    assert "-three\n+3\n" in hunks["old.txt", False]
    assert hunks["new.txt", False] == "@@ -0,0 +1,1 @@\n+<b>\n"
    assert all(one.startswith("@@ ") for one in hunks.values())


def test_a_long_hunk_is_cut_and_a_binary_one_is_not_shown(tree: Path) -> None:
    write(tree / "long.txt", "x" * 99 + "\n" * 100_000, BEGAN + 10)
    write(tree / "binary", "\0", BEGAN + 10)
    sittings = [Sitting(BEGAN, git(tree, "rev-parse", "HEAD"))]
    found = {one.path: one for one in find_changes(tree, sittings, NOW).files}
    long = hunks_of(tree, found["long.txt"], sittings)
    assert len(long) < MOST_CHARS + 100
    assert long.endswith("characters more\n")
    assert "not text" in hunks_of(tree, found["binary"], sittings)


def test_before_the_first_commit_lines_are_known(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path / "a.txt", "1\n2\n", BEGAN + 10)
    git(tmp_path, "add", ".")
    assert counted(find_changes(tmp_path, [Sitting(BEGAN)], NOW).listed) == {
        "a.txt": ("added", "+2 -0")
    }


def test_a_link_to_a_secret_is_not_followed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("other") / "secret"
    secret.write_text("hush\n")
    (tree / "link").symlink_to(secret)
    change = FileChange("link", "new", is_committed=False)
    assert "hush" not in hunks_of(tree, change, [])


def test_looking_runs_no_program_and_writes_nothing(tree: Path) -> None:
    """A filter, an external diff and a text conversion would be the repository's programs."""
    trap = f"touch {tree / '.git' / 'trapped'}; cat"
    for name in ("filter.x.clean", "filter.x.smudge", "diff.x.command", "diff.x.textconv",
                 "diff.external", "core.fsmonitor"):  # fmt: skip
        git(tree, "config", name, trap)
    (tree / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    write(tree / "old.txt", "changed\n", BEGAN + 10)
    sittings = [Sitting(BEGAN, git(tree, "-c", "core.fsmonitor=false", "rev-parse", "HEAD"))]
    before = {path: path.read_bytes() for path in (tree / ".git").rglob("*") if path.is_file()}
    for change in find_changes(tree, sittings, NOW, gate(ASKED)).files:
        hunks_of(tree, change, sittings)
    after = {path: path.read_bytes() for path in (tree / ".git").rglob("*") if path.is_file()}
    assert before == after


def test_that_nothing_was_committed_is_said_of_the_whole_run(tree: Path) -> None:
    first = git(tree, "rev-parse", "HEAD")
    sittings = [Sitting(BEGAN, first, BEGAN + 1, first), Sitting(BEGAN + 2, first)]
    told = find_changes(tree, sittings, NOW).how
    assert [words for words in told if "ommitted" in words][:1] == [
        f"Nothing was committed: HEAD stayed at {first[:12]}."
    ]
    commit(tree, "new.txt", "new\n", BEGAN + 10)
    told = find_changes(tree, sittings, NOW).how
    assert not [words for words in told if "Nothing was committed" in words]
    assert [words for words in told if f"difference from {first[:12]}" in words]
