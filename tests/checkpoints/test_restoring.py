"""The way back: exact, without a trace in the user's repository, and nothing ignored is touched."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrate.checkpoints.model import Checkpoint, CheckpointError
from orchestrate.checkpoints.restore import (
    Restoration,
    carry_out,
    plan_restoration,
    put_back_interrupted,
)
from orchestrate.checkpoints.rooted import Rooted
from orchestrate.checkpoints.store import Store, open_store
from orchestrate.errors import StateError
from tests.checkpoints.histories import History
from tests.checkpoints.places import git, inside_git, photograph, repository, write

pytestmark = pytest.mark.faults

Photograph = dict[str, tuple[str, bytes]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return repository(tmp_path / "place", a="one\n", sub__b="two\n", keep="three\n")


def way_back(
    store: Store, place: Path, target: Checkpoint, between: list[Checkpoint]
) -> Restoration:
    """The plan that leads from now to a checkpoint, as `rewind` makes it."""
    now = store.capture(place)
    added = {
        path
        for one in (*between, now)
        for path in store.files(one.tree).keys() - store.files(target.tree).keys()
    }
    return plan_restoration(store, place, now, target, added)


def without_git(found: Photograph) -> Photograph:
    return {name: what for name, what in found.items() if name.split("/")[0] != ".git"}


def test_files_are_as_they_were(store: Store, place: Path) -> None:
    write(place, ".gitignore", "*.log\n")
    write(place, "a.log", "ignored")
    before = without_git(photograph(place))
    target = store.capture(place)
    write(place, "a", "spoilt")
    os.unlink(place / "sub" / "b")
    (place / "sub").rmdir()
    write(place, "sub", "a file now")
    write(place, "new/folder/x", "x")
    os.chmod(place / "keep", 0o755)
    theirs = inside_git(place)
    carry_out(store, place, way_back(store, place, target, []))
    assert without_git(photograph(place)) == before
    assert not (place / "new").exists()
    assert inside_git(place) == theirs
    assert store.capture(place).tree == target.tree


def test_what_a_person_made_is_not_deleted(store: Store, place: Path) -> None:
    target = store.capture(place)
    write(place, "by-the-run", "x")
    last = store.capture(place)
    write(place, "by-a-person", "x")
    now = store.capture(place)
    added = store.files(last.tree).keys() - store.files(target.tree).keys()
    plan = plan_restoration(store, place, now, target, added)
    assert [one.path for one in plan.delete] == ["by-the-run"]
    assert [(one.path, one.reason) for one in plan.keep] == [("by-a-person", "not of this run")]


def test_rules_that_were_renamed_cost_no_ignored_file(store: Store, place: Path) -> None:
    write(place, ".gitignore", "secret\nbuild/\n")
    write(place, "secret", "x")
    write(place, "build/out", "x")
    target = store.capture(place)
    os.rename(place / ".gitignore", place / "renamed")
    plan = way_back(store, place, target, [])
    assert {one.path for one in plan.keep} == {"secret", "build/out"}
    carry_out(store, place, plan)
    assert (place / "secret").read_text() == (place / "build" / "out").read_text() == "x"
    assert (place / ".gitignore").exists()


def test_rules_of_a_repository_that_is_made_anew_are_known(store: Store, place: Path) -> None:
    """They were nowhere but under `.git`."""
    write(place, ".git/info/exclude", "own\n")
    write(place, "own", "ignored")
    target = store.capture(place)
    shutil.rmtree(place / ".git")
    git(place, "init", "-q")
    write(place, "new", "of the run")
    carry_out(store, place, way_back(store, place, target, [store.capture(place)]))
    assert (place / "own").read_text() == "ignored"
    assert not (place / "new").exists()


def test_what_is_ignored_now_is_not_touched(store: Store, place: Path) -> None:
    write(place, "config", "first")
    target = store.capture(place)
    write(place, ".gitignore", "config\n")
    write(place, "config", "mine alone")
    plan = way_back(store, place, target, [])
    assert [(one.path, one.reason) for one in plan.keep] == [("config", "ignored now")]
    carry_out(store, place, plan)
    assert (place / "config").read_text() == "mine alone"


def test_a_link_leads_no_one_out(store: Store, place: Path, tmp_path: Path) -> None:
    target = store.capture(place)
    write(tmp_path, "outside/b", "theirs")
    os.unlink(place / "sub" / "b")
    (place / "sub").rmdir()
    os.symlink(tmp_path / "outside", place / "sub")
    carry_out(store, place, way_back(store, place, target, []))
    assert (place / "sub" / "b").read_text() == "two\n"
    assert (tmp_path / "outside" / "b").read_text() == "theirs"


def test_what_is_in_the_way_and_not_ours_is_refused(store: Store, place: Path) -> None:
    target = store.capture(place)
    os.unlink(place / "a")
    write(place, ".gitignore", "*.log\n")
    write(place, "a/x.log", "ignored")
    before = photograph(place)
    with pytest.raises(CheckpointError, match=r"a/x.log is in the way of a"):
        way_back(store, place, target, [])
    assert photograph(place) == before


def test_a_change_meanwhile_is_nobodys_loss(store: Store, place: Path) -> None:
    target = store.capture(place)
    write(place, "a", "by the run")
    write(place, "sub/b", "by the run")
    plan = way_back(store, place, target, [])
    write(place, "sub/b", "by a person, just now")
    before = photograph(place)
    with pytest.raises(CheckpointError, match="sub/b was changed"):
        carry_out(store, place, plan)
    assert photograph(place) == before


@pytest.mark.parametrize("stays", [False, True])
def test_an_error_of_the_system_names_the_file(
    store: Store, place: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """Where it `stays`, what was done cannot be undone before it is gone."""
    target = store.capture(place)
    write(place, "a", "by the run")
    write(place, "sub/b", "by the run")
    before = photograph(place)
    plan = way_back(store, place, target, [])
    real, refused = Rooted.write, ["sub/b"]

    def may_refuse(files: Rooted, path: str, mode: str, content: bytes, among: int | None) -> None:
        if path in refused:
            refused.extend(["a"] if stays else [])
            raise OSError(errno.EROFS, "Read-only file system")
        real(files, path, mode, content, among)

    monkeypatch.setattr(Rooted, "write", may_refuse)
    told = "cannot write sub/b: Read-only file system; everything is as it was"
    if stays:
        told = "cannot write a: Read-only file system; what was begun could not be undone"
    with pytest.raises(CheckpointError, match=told):
        carry_out(store, place, plan)
    monkeypatch.undo()
    assert put_back_interrupted(store) == stays
    assert photograph(place) == before


class Dead(BaseException):
    """The process is killed."""


_CALLS = ("rename", "unlink", "mkdir", "rmdir", "symlink", "write", "fsync", "fchmod", "open")


def stopping_at(monkeypatch: pytest.MonkeyPatch, number: int, *, killed: bool) -> list[int]:
    """Let the nth call that may change something fail; after a kill nothing happens any more."""
    count = [0]

    def wrapped(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            if killed and count[0] >= number:
                raise Dead
            if count[0] == number:
                raise OSError(errno.ENOSPC, "no space left on device")
            return real(*arguments, **named)

        return call

    for name in _CALLS:
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    return count


@pytest.mark.parametrize("killed", [True, False])
def test_stopped_at_every_call_it_leaves_everything_as_it_was(
    store: Store, place: Path, killed: bool
) -> None:
    """Killed, the next one puts everything back; on an error it is put back at once."""
    target = store.capture(place)
    spoil(place)
    plan = way_back(store, place, target, [])
    store.complete()
    before = photograph(place)
    for number in itertools.count(1):
        is_done = False
        with pytest.MonkeyPatch.context() as patched:
            count = stopping_at(patched, number, killed=killed)
            with suppress(Dead, OSError, StateError):
                carry_out(store, place, plan)
                is_done = True
        put_back_interrupted(Store(store.folder, store.program))
        if is_done or photograph(place) != before:
            # It came through, or only the end of its note was left to do.
            assert store.capture(place).tree == target.tree, f"call {number}"
            spoil(place)
        assert photograph(place) == before, f"call {number}"
        if count[0] < number:
            break
    assert number > 20


def test_a_capture_that_is_killed_at_any_call_harms_nothing(store: Store, place: Path) -> None:
    """The next one captures what is there; workspace and repository are as they were."""
    first = store.capture(place)
    store.complete()
    for number in itertools.count(1):
        write(place, "a", f"changed {number}")
        write(place, f"new-{number}", "new")
        before, theirs = photograph(place), inside_git(place)
        with pytest.MonkeyPatch.context() as patched:
            count = stopping_at(patched, number, killed=True)
            with suppress(Dead):
                Store(store.folder, store.program).capture(place)
        again = Store(store.folder, store.program)
        taken = again.capture(place)
        again.close()
        assert photograph(place) == before, f"call {number}"
        assert inside_git(place) == theirs, f"call {number}"
        seen = {f"new-{one}" for one in range(1, number + 1)} | {"a", "keep", "sub/b"}
        assert store.files(taken.tree).keys() == seen, f"call {number}"
        assert f"+changed {number}\n".encode() in store.patch(first.tree, taken.tree)
        if count[0] < number:
            break
    assert number > 5


def spoil(place: Path) -> None:
    write(place, "a", "spoilt")
    os.chmod(place / "keep", 0o700)
    os.unlink(place / "sub" / "b")
    (place / "sub").rmdir()
    os.symlink("nowhere", place / "sub")
    write(place, "new/x", "x")


def _live_and_go_back(folder: Path, seed: int) -> None:
    """One history: after it every checkpoint is gone back to."""
    history = History(folder / "place", seed)
    place = history.folder
    (folder / "run").mkdir()
    store = open_store(folder / "run")
    assert store is not None
    taken: list[tuple[Checkpoint, Photograph]] = []
    for _ in range(3):
        _killed(history.chance, partial(store.capture, place))
        store.close()
        store = Store(store.folder, store.program)
        taken.append((store.capture(place), photograph(place)))
        history.live(history.chance.randrange(1, 8))
    for number in range(len(taken) - 1, -1, -1):
        target, _ = taken[number]
        now = store.capture(place)
        theirs, before = inside_git(place), photograph(place)
        captured = store.files(now.tree)
        plan = None
        with suppress(CheckpointError):
            plan = way_back(store, place, target, [one for one, _ in taken[number:]])
        if plan is None:  # something that is not ours is in the way
            assert photograph(place) == before
            continue
        _killed(history.chance, partial(carry_out, store, place, plan))
        assert inside_git(place) == theirs
        put_back_interrupted(Store(store.folder, store.program))
        if photograph(place) == before:  # else the kill came too late
            carry_out(store, place, plan)
        after = photograph(place)
        assert inside_git(place) == theirs
        for name, what in before.items():
            if name not in captured and name.split("/")[0] != ".git":
                assert after.get(name) == what, f"{name!r} was not captured, and is not as it was"
        kept = {one.path for one in (*plan.keep, *plan.partial)}
        wanted = store.files(target.tree)
        arrived = store.files(store.capture(place).tree)
        # What was ignored until now stays, and may be seen by the rules that are back.
        hidden = before.keys() - captured.keys()
        for name in (wanted.keys() | arrived.keys()) - hidden:
            if name not in kept and not _is_out_of_sight(place, name, wanted):
                assert arrived.get(name) == wanted.get(name), name
    store.close()


def _killed(chance: random.Random, act: Callable[[], object]) -> None:
    """Do something that a kill ends at any of its calls, or not at all."""
    with pytest.MonkeyPatch.context() as patched, suppress(Dead):
        stopping_at(patched, chance.randrange(1, 80), killed=True)
        act()


def _is_out_of_sight(place: Path, name: str, wanted: dict[str, tuple[str, str]]) -> bool:
    """Written back, and ignored by rules that are back, too (it was tracked then)."""
    return name in wanted and os.path.lexists(place / name) and name not in _seen(place)


def _seen(place: Path) -> set[str]:
    if not (place / ".git").exists():
        return set()
    listed = git(place, "ls-files", "-co", "--exclude-standard", "-z", "--", ".")
    return set(listed.split("\0"))


# In 138 a file lies where a pipe was: neither is put back.
@pytest.mark.parametrize("seed", [*range(6), 138])
def test_histories(tmp_path: Path, seed: int) -> None:
    _live_and_go_back(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6, 200))
def test_all_histories(tmp_path: Path, seed: int) -> None:
    _live_and_go_back(tmp_path, seed)
