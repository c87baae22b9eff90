"""Puts the files of a workspace back to a checkpoint, and back again if anything goes wrong.

What is to be done is written down first (`restore.json`), with what was there. Each file is
replaced by one rename. On an error, and by the command that finds the note after a kill, everything
is put back from the safety checkpoint; what another program has changed meanwhile is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrate.checkpoints.blobs import Blobs
from orchestrate.checkpoints.model import FORMAT, Change, Checkpoint, CheckpointError, id_of
from orchestrate.checkpoints.rooted import Rooted
from orchestrate.checkpoints.store import Store
from orchestrate.record import field, mutable_record, record
from orchestrate.state.durable import dump_json, parse_json, read_file, sync_folder, write_durably

_NOTE = "restore.json"
_LATER = "once that is repaired, `orchestrate resume` and `rewind` undo it before anything else"


@record
class Kept:
    """A file that stays as it is although the checkpoint has it otherwise, and why."""

    path: str
    reason: str


@mutable_record
class Restoration:
    """What would be done to the files; `partial` are those that a checkpoint has not whole."""

    now: Checkpoint
    target: Checkpoint
    write: list[Change] = field(default_factory=list)
    delete: list[Change] = field(default_factory=list)
    keep: list[Kept] = field(default_factory=list)
    partial: list[Kept] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.write or self.delete)


def plan_restoration(
    store: Store, workspace: Path, now: Checkpoint, target: Checkpoint, added: Collection[str]
) -> Restoration:
    """What leads from the files of `now` to those of `target`.

    `added` are the paths that later checkpoints of this run have added: nothing else is deleted.
    """
    changes = store.changes(now.tree, target.tree)
    gone = [change.path for change in changes if change.kind == "deleted"]
    ignored = store.ignored_then(workspace, target.tree, gone) if gone else frozenset()
    plan = Restoration(now, target)
    left_out = (*target.left_out, *now.left_out)
    for change in changes:
        if reason := next((o.reason for o in left_out if _is_below(change.path, o.path)), ""):
            plan.partial.append(Kept(change.path, reason))
            continue
        reason = _why_kept(change, workspace, now, target, added, ignored)
        if reason:
            plan.keep.append(Kept(change.path, reason))
        elif change.kind == "deleted":
            plan.delete.append(change)
        else:
            plan.write.append(change)
    _refuse_what_is_in_the_way(workspace, plan)
    return plan


def _why_kept(
    change: Change,
    workspace: Path,
    now: Checkpoint,
    target: Checkpoint,
    added: Collection[str],
    ignored: Collection[str],
) -> str:
    """Why a file is left as it is, or ''."""
    path = change.path
    if any(_is_below(path, nested.path) for nested in (*now.nested, *target.nested)):
        return "in a repository of its own"
    if change.kind == "added":
        # Not captured, and there: a rule ignores it now. A folder is looked at as a whole.
        place = workspace / path
        is_folder = place.is_dir() and not place.is_symlink()
        is_there = (
            os.path.lexists(place) and not is_folder and not _is_behind_link(place, workspace)
        )
        return "ignored now" if is_there else ""
    if change.kind == "deleted":
        if path not in added:
            return "not of this run"
        if path in ignored:
            return "ignored then"
    return ""


def _is_behind_link(place: Path, workspace: Path) -> bool:
    return any(above.is_symlink() for above in place.parents if above.is_relative_to(workspace))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _refuse_what_is_in_the_way(workspace: Path, plan: Restoration) -> None:
    """A folder where a file is to be, or a file where a folder is: only what is deleted may go."""
    goes = {change.path for change in plan.delete}
    for change in plan.write:
        parts = change.path.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            found = workspace / above
            is_folder = found.is_dir() and not found.is_symlink()
            if os.path.lexists(found) and not is_folder and above not in goes:
                raise CheckpointError(f"{above} is in the way of {change.path}", "move it away")
        place = workspace / change.path
        if place.is_dir() and not place.is_symlink():
            for folder, _, names in os.walk(place):
                inside = [os.path.relpath(os.path.join(folder, name), workspace) for name in names]
                if left := [name for name in inside if name not in goes]:
                    raise CheckpointError(
                        f"{left[0]} is in the way of {change.path}", "move it away"
                    )


@record
class _Touched:
    """One file: what it was, and what it is to be. A missing side has no object."""

    path: str
    old: str
    old_mode: str
    new: str
    new_mode: str
    # Those of the file that is there now.
    permissions: int | None


@record
class _Note:
    """What is being done: enough to put everything back from the safety checkpoint."""

    workspace: Path
    token: str
    touched: tuple[_Touched, ...]

    @property
    def files(self) -> Rooted:
        return Rooted(self.workspace, self.token)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "workspace": os.fspath(self.workspace),
            "token": self.token,
            "touched": [
                [one.path, one.old, one.old_mode, one.new, one.new_mode, one.permissions]
                for one in self.touched
            ],
        }


def carry_out(
    store: Store,
    workspace: Path,
    plan: Restoration,
    record: Callable[[str], None] = lambda _: None,
) -> None:
    """Put the files back; on any error all of them are as they were before.

    `record` puts on record that they are; it is given a token, by which `put_back_interrupted` is
    told that a kill came too late to undo it.
    """
    store.complete()
    token = os.urandom(6).hex()
    files = Rooted(workspace, token)
    touched = [
        _Touched(
            one.path, one.old, one.old_mode, one.new, one.new_mode, files.permissions(one.path)
        )
        for one in (*plan.delete, *plan.write)
    ]
    note = _Note(workspace, token, tuple(touched))
    with Blobs(store) as blobs:
        blobs.require([oid for one in touched for oid in (one.old, one.new) if oid])
        write_durably(store.folder / _NOTE, dump_json(note.to_json()))
        try:
            _do(note, blobs)
            record(token)
        except BaseException as error:
            try:
                _put_back(note, blobs)
            except CheckpointError as lack:
                raise CheckpointError(
                    f"{lack.message}; what was begun could not be undone", _LATER
                ) from error
            _forget(store)
            if isinstance(error, CheckpointError):
                what = f"{error.message}; everything is as it was"
                raise CheckpointError(what, error.hint) from error
            raise
    _forget(store)


def put_back_interrupted(store: Store, on_record: str = "") -> bool:
    """Put back what a killed process left half-done; was there anything?

    `on_record` is the token of the last restoration that is on record: that one is done.
    """
    content = read_file(store.folder / _NOTE)
    if content is None:
        return False
    found = parse_json(content)
    if found["format"] != FORMAT:
        raise CheckpointError(
            f"a newer orchestrate (format {found['format']}) was putting files back here",
            "finish that with it: orchestrate rewind",
        )
    if found["token"] == on_record:
        _forget(store)
        return False
    store.complete()
    touched = tuple(_Touched(*facts) for facts in found["touched"])
    with Blobs(store) as blobs:
        _put_back(_Note(Path(found["workspace"]), found["token"], touched), blobs)
    _forget(store)
    return True


def _do(note: _Note, blobs: Blobs) -> None:
    """First what goes, then what comes: a folder may become a file, and a file a folder."""
    files = note.files
    for one in note.touched:
        if not one.new:
            with _naming("delete", one.path):
                _require_old(files, one)
                files.delete(one.path)
    for one in note.touched:
        if one.new:
            with _naming("write", one.path):
                _require_old(files, one)
                files.write(one.path, one.new_mode, blobs.read(one.new), one.permissions)


def _require_old(files: Rooted, one: _Touched) -> None:
    """The file is unchanged since the safety checkpoint, which has what it was."""
    found = files.content(one.path)
    is_same = found is None if not one.old else _is(found, one.old_mode, one.old)
    if not is_same:
        raise CheckpointError(f"{one.path} was changed while files were put back", "try again")


def _put_back(note: _Note, blobs: Blobs) -> None:
    """Let every touched file be what it was; what others have written meanwhile stays theirs."""
    files = note.files
    for one in note.touched:
        with _naming("delete", one.path):
            files.sweep(one.path)
            if one.new and not one.old and _is(files.content(one.path), one.new_mode, one.new):
                files.delete(one.path)
            elif one.new and not one.old:
                files.remove_empty(one.path.rpartition("/")[0])
    for one in note.touched:
        with _naming("write", one.path):
            found = files.content(one.path)
            is_ours = found is None or (one.new and _is(found, one.new_mode, one.new))
            if one.old and is_ours:
                files.write(one.path, one.old_mode, blobs.read(one.old), one.permissions)
                if one.permissions is not None:
                    files.set_permissions(one.path, one.permissions)


@contextmanager
def _naming(verb: str, path: str) -> Iterator[None]:
    """Let an error of the system name the file that it is about."""
    try:
        yield
    except OSError as error:
        what = f"cannot {verb} {path}: {error.strerror or error}"
        raise CheckpointError(what, "once that is repaired, try again") from error


def _is(found: tuple[str, bytes] | None, mode: str, oid: str) -> bool:
    return found is not None and found[0] == mode and id_of(found[1], len(oid)) == oid


def _forget(store: Store) -> None:
    (store.folder / _NOTE).unlink(missing_ok=True)
    sync_folder(store.folder)
