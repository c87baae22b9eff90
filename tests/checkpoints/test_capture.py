"""What is captured of a workspace, and what is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.checkpoints.capture import CaptureLimits
from orchestrate.checkpoints.model import (
    Checkpoint,
    CheckpointError,
    LeftOut,
    checkpoint_from_json,
    checkpoint_to_json,
)
from orchestrate.checkpoints.store import Store, open_store, size_of
from tests.checkpoints.places import git, inside_git, photograph, repository, write


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return repository(tmp_path / "place", a="one\n", sub__b="two\n", _gitignore="")


def names(store: Store, checkpoint: Checkpoint) -> set[str]:
    return set(store.files(checkpoint.tree))


def test_changes_are_what_was_done_and_the_repository_is_untouched(
    store: Store, place: Path
) -> None:
    write(place, "a", "changed before the run\n")
    git(place, "status")
    before = inside_git(place)
    first = store.capture(place)
    write(place, "a", "changed again\n")
    write(place, "new\nline", "x")
    os.unlink(place / "sub" / "b")
    os.chmod(place / "_gitignore", 0o755)
    os.symlink("nowhere", place / "link")
    second = store.capture(place)
    assert inside_git(place) == before
    assert {(c.path, c.kind) for c in store.changes(first.tree, second.tree)} == {
        ("a", "changed"),
        ("new\nline", "added"),
        ("sub/b", "deleted"),
        ("_gitignore", "mode"),
        ("link", "added"),
    }
    assert store.changes(second.tree, store.capture(place).tree) == ()
    assert b"-changed before the run\n+changed again\n" in store.patch(first.tree, second.tree)
    assert first.head == git(place, "rev-parse", "HEAD")
    assert first.branch == git(place, "symbolic-ref", "HEAD")


def test_the_store_stands_on_its_own(store: Store, place: Path, tmp_path: Path) -> None:
    checkpoint = store.capture(place)
    store.close()
    assert not (store.folder / "pending").exists()
    other = tmp_path / "other"
    other.mkdir()
    (place / ".git" / "objects").rename(tmp_path / "gone")
    store.export(checkpoint.tree, other)
    assert photograph(other)["sub/b"][1] == b"two\n"
    assert size_of(store.folder.parent) > 0


def test_a_copy_that_a_kill_broke_off_is_finished_by_who_needs_it(
    store: Store, place: Path, tmp_path: Path
) -> None:
    checkpoint = store.capture(place)
    store.close()
    for pack in (store.folder / "objects" / "pack").iterdir():
        pack.unlink()
    (store.folder / "pending").write_text(f"{checkpoint.tree}\n{place}/.git/objects\n")
    other = tmp_path / "other"
    other.mkdir()
    Store(store.folder, store.program).export(checkpoint.tree, other)
    assert photograph(other)["a"][1] == b"one\n"


@pytest.mark.parametrize("is_git", [True, False])
def test_ignored_files_are_not_in_it(store: Store, tmp_path: Path, is_git: bool) -> None:
    place = tmp_path / "any"
    place.mkdir()
    if is_git:
        git(place, "init", "-q")
    write(place, ".gitignore", "*.log\n")
    write(place, "a.log", "x")
    write(place, "a", "x")
    assert names(store, store.capture(place)) == {".gitignore", "a"}
    # What is ignored later is out of sight, not deleted.
    write(place, ".gitignore", "*.log\na\n")
    later = store.capture(place)
    assert names(store, later) == {".gitignore"}
    assert later.now_ignored == ("a",)
    os.rename(place / ".gitignore", place / "renamed")
    assert names(store, store.capture(place)) == {"renamed", "a", "a.log"}


def test_the_users_own_rules_count(
    store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "home/.config/git/ignore", "*.mine\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    write(place, ".git/info/exclude", "*.here\n")
    for name in ("a.mine", "b.here", "c"):
        write(place, name, "x")
    assert names(store, store.capture(place)) == {"a", "sub/b", "_gitignore", "c"}
    write(place, ".git/info/exclude", "")
    assert "b.here" in names(store, store.capture(place))


def test_what_is_tracked_counts_although_a_rule_ignores_it(store: Store, place: Path) -> None:
    write(place, ".gitignore", "*.log\n")
    write(place, "kept.log", "x")
    git(place, "add", "-f", "kept.log")
    first = store.capture(place)
    assert "kept.log" in names(store, first)
    write(place, "later.log", "x")
    git(place, "add", "-f", "later.log")
    second = store.capture(place)
    assert second.index != first.index
    assert "later.log" in names(store, second)
    git(place, "rm", "-q", "--cached", "kept.log")
    assert "kept.log" not in names(store, store.capture(place))


def test_what_is_tracked_although_ignored_is_seen_when_it_is_back(
    store: Store, place: Path
) -> None:
    write(place, ".gitignore", "sub/\n")
    first = store.capture(place)
    content = (place / "sub" / "b").read_bytes()
    (place / "sub" / "b").unlink()
    assert "sub/b" not in store.files(store.capture(place).tree)
    write(place, "sub/b", content)
    assert store.capture(place).tree == first.tree


def test_rules_that_begin_to_ignore_a_tracked_file_do_not_hide_it(
    store: Store, place: Path
) -> None:
    first = store.capture(place)
    write(place, ".gitignore", "sub/\n")
    second = store.capture(place)
    assert [one.path for one in store.changes(first.tree, second.tree)] == [".gitignore"]
    assert second.now_ignored == ()


def test_bytes_are_kept_whatever_attributes_say(store: Store, place: Path, tmp_path: Path) -> None:
    git(place, "config", "filter.shout.clean", "touch was-run; tr a-z A-Z")
    git(place, "config", "filter.shout.required", "true")
    write(place, ".gitattributes", "*.txt text eol=crlf filter=shout ident\n*.u encoding=UTF-16\n")
    write(place, "a.txt", b"$Id$ one\r\ntwo\n")
    checkpoint = store.capture(place)
    other = tmp_path / "other"
    other.mkdir()
    store.export(checkpoint.tree, other)
    assert (other / "a.txt").read_bytes() == b"$Id$ one\r\ntwo\n"
    assert not (place / "was-run").exists()


def test_variables_of_the_users_git_lead_nowhere(
    store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = repository(tmp_path / "elsewhere", theirs="x")
    before = inside_git(elsewhere)
    monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(elsewhere))
    monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(elsewhere / ".git" / "objects"))
    assert names(store, store.capture(place)) == {"a", "sub/b", "_gitignore"}
    assert inside_git(elsewhere) == before


def test_nested_repositories_are_noted_and_not_entered(store: Store, place: Path) -> None:
    nested = repository(place / "nested", inner="x")
    git(place, "init", "-q", "young")
    first = store.capture(place)
    assert [(one.path, one.head, one.is_dirty) for one in first.nested] == [
        ("nested", git(nested, "rev-parse", "HEAD"), False),
        ("young", "", True),
    ]
    assert names(store, first) == {"a", "sub/b", "_gitignore"}
    write(nested, "inner", "changed")
    assert store.capture(place).nested[0].is_dirty


def test_submodules_are_as_nested_ones(store: Store, place: Path, tmp_path: Path) -> None:
    repository(tmp_path / "library", inner="x")
    git(place, "submodule", "add", "-q", str(tmp_path / "library"), "library")
    git(place, "commit", "-q", "-m", "with a library")
    before = inside_git(place)
    checkpoint = store.capture(place)
    assert [one.path for one in checkpoint.nested] == ["library"]
    assert names(store, checkpoint) == {"a", "sub/b", "_gitignore", ".gitmodules"}
    assert inside_git(place) == before


def test_a_sparse_index_is_read_without_writing(store: Store, place: Path) -> None:
    """Git makes trees to look into one, also where it only reads."""
    places = (place, repository(place / "nested", a="x", sub__deep__b="x"))
    for one in places:
        git(one, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
        write(one, "in/new", f"{one}")
        git(one, "add", "--sparse", "in/new")
    before = [photograph(one / ".git") for one in places]
    assert names(store, store.capture(place)) == {"a", "_gitignore", "in/new"}
    assert [photograph(one / ".git") for one in places] == before


def test_a_repository_with_sha256(store: Store, tmp_path: Path) -> None:
    place = repository(tmp_path / "place", "--object-format=sha256", a="one\n")
    first = store.capture(place)
    assert len(first.tree) == 64
    write(place, "a", "two\n")
    assert [c.path for c in store.changes(first.tree, store.capture(place).tree)] == ["a"]
    store.close()
    store.export(first.tree, write(tmp_path, "other/x", "").parent)
    assert (tmp_path / "other" / "a").read_text() == "one\n"


def test_a_workspace_below_the_top_is_all_that_is_captured(store: Store, place: Path) -> None:
    write(place, ".gitignore", "*.log\n")
    write(place, "sub/x.log", "x")
    below = place / "sub"
    first = store.capture(below)
    assert names(store, first) == {"b"}
    write(place, "a", "changed outside")
    assert store.capture(below).tree == first.tree
    os.unlink(below / "b")
    assert names(store, store.capture(below)) == set()


def test_what_is_hidden_from_the_users_git_is_seen(store: Store, place: Path) -> None:
    """Flags of the index hide changes; conflicts and intentions are no files yet."""
    git(place, "update-index", "--assume-unchanged", "a")
    write(place, "a", "changed in secret")
    git(place, "update-index", "--skip-worktree", "sub/b")
    os.unlink(place / "sub" / "b")
    write(place, "meant", "x")
    git(place, "add", "-N", "meant")
    checkpoint = store.capture(place)
    store.close()
    assert names(store, checkpoint) == {"a", "_gitignore", "meant"}
    assert b"changed in secret" in store.patch(git_empty(store), checkpoint.tree)


def git_empty(store: Store) -> str:
    return git(store.folder, "--git-dir=.", "mktree")


def test_a_conflict_is_captured_as_the_file_that_it_is(store: Store, place: Path) -> None:
    git(place, "checkout", "-q", "-b", "other")
    write(place, "a", "theirs\n")
    git(place, "commit", "-qam", "theirs")
    git(place, "checkout", "-q", "-")
    write(place, "a", "ours\n")
    git(place, "commit", "-qam", "ours")
    with pytest.raises(Exception, match="merge"):
        git(place, "merge", "-q", "other")
    checkpoint = store.capture(place)
    assert b"<<<<<<<" in store.patch(git_empty(store), checkpoint.tree)


def test_what_is_left_out_is_named(store: Store, place: Path) -> None:
    write(place, "a", b"x" * 3_000_000)
    write(place, "b1", b"y" * 900_000)
    write(place, "b2", b"z" * 900_000)
    checkpoint = store.capture(place, limits=CaptureLimits(file=2 << 20, total=1 << 20))
    assert checkpoint.left_out == (
        LeftOut("a", "larger than 2 MiB"),
        LeftOut("b2", "the checkpoint has 1 MiB already"),
    )
    assert not any(one.is_special for one in checkpoint.left_out)
    assert names(store, checkpoint) == {"b1", "sub/b", "_gitignore"}
    assert checkpoint_from_json(checkpoint_to_json(checkpoint)) == checkpoint


def test_files_whose_names_git_refuses_are_named(store: Store, place: Path) -> None:
    """They would be `.git` or its like on some system, and no checkpoint can have them."""
    for name in (".GIT/config", "git~1", ".git.", "sub/.gitignore"):
        write(place, name, "x")
    os.symlink("a", place / ".gitmodules")
    checkpoint = store.capture(place)
    assert named(checkpoint) == [".GIT/config", ".git.", ".gitmodules", "git~1"]
    assert not any(one.is_special for one in checkpoint.left_out)
    assert named(store.capture(place)) == named(checkpoint)
    assert "sub/.gitignore" in store.files(checkpoint.tree)


def test_pipes_and_sockets_are_named(store: Store, place: Path) -> None:
    """Git says nothing of them. Those in ignored folders and nested repositories do not count."""
    write(place, ".gitignore", "out/\n")
    for name in ("pipe", "sub/pipe", "out/pipe", "nested/pipe", "new/deep/pipe"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(place / name)
    git(place / "nested", "init", "-q")
    first = store.capture(place)
    assert named(first) == ["new/deep/pipe", "pipe", "sub/pipe"]
    assert all(one.is_special for one in first.left_out)
    assert named(store.capture(place)) == named(first)
    os.mkfifo(place / "new/later")  # and nothing else has changed
    assert named(store.capture(place)) == ["new/deep/pipe", "new/later", "pipe", "sub/pipe"]
    os.unlink(place / "pipe")
    shutil.rmtree(place / "new")
    write(place, "pipe", "a file now")
    assert named(store.capture(place)) == ["sub/pipe"]
    os.mkfifo(place / "by.sock")
    write(place, ".gitignore", "sub/\n*.sock\n")
    assert named(store.capture(place)) == ["out/pipe"]


def test_pipes_are_named_below_the_top_and_without_git(
    store: Store, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "other").mkdir()
    plain = open_store(tmp_path / "other")
    assert plain is not None
    for one, folder in ((store, place / "sub"), (plain, tmp_path / "plain")):
        write(folder, "b", "content")
        assert named(one.capture(folder)) == []
        os.mkfifo(folder / "pipe")
        assert named(one.capture(folder)) == ["pipe"]
        write(folder, "b", "changed, and the folder is as it was")
        assert named(one.capture(folder)) == ["pipe"]
        one.close()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, place: Path) -> None:
    """None of its files is taken for deleted in silence."""
    ran = as_one_of_many(
        tmp_path,
        place,
        "(at / 'sub').chmod(0); (at / 'made').mkdir(mode=0); "
        "found = store.capture(at); (at / 'sub').chmod(0o755); "
        "print(sorted(one.path for one in found.left_out if not one.is_special))",
    )
    assert ran == "['made/', 'sub/']"


def named(checkpoint: Checkpoint) -> list[str]:
    return [one.path for one in checkpoint.left_out]


def as_one_of_many(tmp_path: Path, place: Path, deeds: str) -> str:
    """What a user prints who may not read everything; `at` is the place."""
    child = (
        "import sys; from pathlib import Path; "
        "from orchestrate.checkpoints.store import open_store; "
        "at = Path(sys.argv[1]); store = open_store(Path(sys.argv[2])); store.capture(at); "
    )
    # Root may, unless that is taken away.
    rights = "-dac_override,-dac_read_search"
    given = ("setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}") * (os.geteuid() == 0)
    (tmp_path / "theirs").mkdir()
    done = subprocess.run(
        [*given, sys.executable, "-c", child + deeds, str(place), str(tmp_path / "theirs")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_folder_that_becomes_a_repository_is_captured_whole(store: Store, place: Path) -> None:
    """What git tracks is no repository of its own to it: nothing of it is left out."""
    store.capture(place)
    git(place / "sub", "init", "-q")
    write(place, "sub/b", "changed")
    write(place, "sub/new", "new")
    taken = store.capture(place)
    assert {"sub/b", "sub/new"} <= names(store, taken)
    assert taken.nested == ()


@pytest.mark.skipif(shutil.which("strace") is None, reason="syncs are seen by strace")
def test_what_is_captured_is_on_the_disk_before_it_is_told(tmp_path: Path, place: Path) -> None:
    """Each object is written out before it has its name, and a sync follows the last of them."""
    (tmp_path / "run").mkdir()
    child = (
        "import sys; from pathlib import Path; "
        "from orchestrate.checkpoints.store import open_store; "
        "store = open_store(Path(sys.argv[1])); store.capture(Path(sys.argv[2])); "
        "(Path(sys.argv[2]) / 'new').write_text('x'); store.capture(Path(sys.argv[2]))"
    )
    log = tmp_path / "calls"
    traced = "trace=fsync,sync_file_range,link,linkat,rename,renameat,renameat2"
    subprocess.run(
        ["strace", "-f", "-qq", "-y", "-o", str(log), "-e", traced,
         sys.executable, "-c", child, str(tmp_path / "run"), str(place)],
        check=True,
    )  # fmt: skip
    calls = log.read_text("utf-8").splitlines()
    named = [n for n, line in enumerate(calls) if "tmp_obj_" in line and " sync_" not in line]
    written = [n for n, line in enumerate(calls) if "tmp_obj_" in line and "sync_file_" in line]
    head = [n for n, line in enumerate(calls) if "fsync(" in line and "/.HEAD." in line]
    assert named, "no object was made"
    assert len(written) == len(named)
    assert all(first < second for first, second in zip(written, named, strict=True))
    assert head[-1] > named[-1]


def test_a_damaged_index_of_ours_is_made_anew(store: Store, place: Path) -> None:
    first = store.capture(place)
    (store.folder / "index").write_bytes(b"DIRC and nothing else")
    (store.folder / "index.lock").write_bytes(b"")
    later = Store(store.folder, store.program)
    assert later.capture(place).tree == first.tree
    later.close()


def test_a_work_tree_beside_the_repository(store: Store, place: Path, tmp_path: Path) -> None:
    git(place, "worktree", "add", "-q", str(tmp_path / "beside"))
    before = inside_git(place)
    write(tmp_path / "beside", "new", "x")
    checkpoint = store.capture(tmp_path / "beside")
    assert names(store, checkpoint) == {"a", "sub/b", "_gitignore", "new"}
    assert checkpoint.branch == "refs/heads/beside"
    assert inside_git(place) == before


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match="has format 2; this orchestrate reads 1"):
        checkpoint_from_json({"format": 2, "tree": "x"})


def test_without_git_there_is_no_store(tmp_path: Path) -> None:
    assert open_store(tmp_path, {"PATH": str(tmp_path)}) is None
