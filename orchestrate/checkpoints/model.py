"""What a checkpoint says, and how it is written down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from orchestrate.errors import StateError
from orchestrate.record import record

# The version of what is written down; a newer one is refused by name.
FORMAT = 1
# Where a run's folder has them.
CHECKPOINTS = "checkpoints"
_SHA1_LENGTH = 40


class CheckpointError(StateError):
    """A checkpoint cannot be taken, read or restored."""


@record
class LeftOut:
    """A file that is not in the checkpoint although it should be, and why."""

    path: str
    reason: str
    # A pipe or a socket has no content that could be kept: nothing is lost with it.
    is_special: bool = False


@record
class Nested:
    """A repository inside the workspace: noted, and never entered."""

    path: str
    head: str
    is_dirty: bool


@record
class Checkpoint:
    """The files of a workspace at one moment; all paths are relative to it.

    `head`, `branch` and `index` say how the user's repository stood: the commit, the reference that
    HEAD names, a digest of what is staged.
    """

    tree: str
    head: str = ""
    branch: str = ""
    index: str = ""
    nested: tuple[Nested, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    # Captured before, and ignored now: not deleted, only out of sight.
    now_ignored: tuple[str, ...] = ()


def nested_changes(old: Checkpoint, new: Checkpoint) -> list[str]:
    """The repositories inside that are not known to be the same in both checkpoints, and why.

    Of one with changes of its own it is not known which: no checkpoint has its files.
    """
    before, after = ({one.path: one for one in side.nested} for side in (old, new))
    found = []
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path), after.get(path)
        if was is None or now is None:
            found.append(f"{path} (new)" if was is None else f"{path} (gone)")
        elif was.head != now.head:
            found.append(f"{path} (was at {was.head[:12] or 'no commit'})")
        elif was.is_dirty or now.is_dirty:
            found.append(f"{path} (was {'changed' if was.is_dirty else 'unchanged'} then)")
    return found


def left_out_of(*sides: Checkpoint) -> list[LeftOut]:
    """What is in none of some checkpoints as it was; each path once."""
    return [*{one.path: one for side in sides for one in side.left_out}.values()]


ChangeKind = Literal["added", "changed", "deleted", "mode"]


@record
class Change:
    """How a file differs between two checkpoints; a side without the file has an empty object."""

    path: str
    kind: ChangeKind
    old: str = ""
    new: str = ""
    old_mode: str = ""
    new_mode: str = ""


def known_changes(changes: Iterable[Change], old: Checkpoint, new: Checkpoint) -> list[Change]:
    """Those that were made, as far as the two checkpoints tell: a file that is not whole in one of
    them, or is ignored now, is not gone."""
    absent = {one.path for one in left_out_of(old, new) if not one.is_special}
    return [
        one
        for one in changes
        if one.path not in absent and not (one.kind == "deleted" and one.path in new.now_ignored)
    ]


def checkpoint_to_json(one: Checkpoint) -> dict[str, Any]:
    """Only what is not as usual: most checkpoints are a tree and where HEAD stood."""
    document: dict[str, Any] = {"format": FORMAT, "tree": one.tree}
    for name in ("head", "branch", "index"):
        if value := getattr(one, name):
            document[name] = value
    if one.nested:
        document["nested"] = [
            {"path": found.path, "head": found.head, "dirty": found.is_dirty}
            for found in one.nested
        ]
    if one.left_out:
        document["left_out"] = [
            {"path": left.path, "reason": left.reason, "special": left.is_special}
            for left in one.left_out
        ]
    if one.now_ignored:
        document["now_ignored"] = list(one.now_ignored)
    return document


def checkpoint_from_json(document: Mapping[str, Any]) -> Checkpoint:
    """A checkpoint as it was written down; one of a newer orchestrate is refused by name."""
    if document["format"] != FORMAT:
        raise CheckpointError(
            f"this checkpoint has format {document['format']}; this orchestrate reads {FORMAT}",
            "use the orchestrate that wrote it, or a newer one",
        )
    return Checkpoint(
        tree=document["tree"],
        head=document.get("head", ""),
        branch=document.get("branch", ""),
        index=document.get("index", ""),
        nested=tuple(
            Nested(found["path"], found["head"], found["dirty"])
            for found in document.get("nested", ())
        ),
        left_out=tuple(
            LeftOut(left["path"], left["reason"], left["special"])
            for left in document.get("left_out", ())
        ),
        now_ignored=tuple(document.get("now_ignored", ())),
    )


def id_of(content: bytes, length: int) -> str:
    """What git calls a file with that content."""
    # Every run loads this module, and OpenSSL takes as long as ten quick steps.
    from hashlib import sha1, sha256

    digest = (sha1 if length == _SHA1_LENGTH else sha256)(b"blob %d\0" % len(content) + content)
    return digest.hexdigest()
