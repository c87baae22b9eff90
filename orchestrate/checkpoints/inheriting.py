"""Lets one run's store have what another's has: for a run that begins with the other's files.

Objects never change, so that links to them do where the file system has any. The other store is
only read.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from orchestrate.state.durable import read_file, sync_folder, write_visibly

# What makes a folder a store. (`pending` names a copy that the new store finishes for itself.)
_FILES = ("config", "info/attributes")
# Half-written objects, and what is lent by others.
_NOBODYS = ("tmp_", "alternates")


def inherit(source: Path, target: Path) -> None:
    """Give the store `target`, which may not be there yet, all objects of the store `source`."""
    _make(source, target)
    for folder, _, names in os.walk(source / "objects"):
        place = target / "objects" / os.path.relpath(folder, source / "objects")
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A pack is there for git once its index is: that one comes last.
        for name in sorted(names, key=lambda one: one.endswith(".idx")):
            if not name.startswith(_NOBODYS):
                _link(Path(folder, name), place / name)
        sync_folder(place)
    if (pending := read_file(source / "pending")) is not None:
        write_visibly(target / "pending", pending)


def borrow(source: Path, target: Path) -> None:
    """Make a store that reads the objects of another where they lie: for a short time."""
    _make(source, target)
    lenders = [os.fsencode(source / "objects")]
    if (pending := read_file(source / "pending")) is not None:
        lenders.append(pending.splitlines()[1])
    (target / "objects" / "info").mkdir(mode=0o700)
    write_visibly(target / "objects" / "info" / "alternates", b"\n".join([*lenders, b""]))


def _make(source: Path, target: Path) -> None:
    """A store as the other one is, without its objects."""
    for name in ("", "objects", "objects/pack", "refs", "info"):
        (target / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _FILES:
        write_visibly(target / name, (source / name).read_bytes())
    write_visibly(target / "HEAD", b"ref: refs/heads/none\n")


def _link(source: Path, target: Path) -> None:
    # Gone: the run that works there has just tidied up. There: both stores have it.
    with suppress(FileNotFoundError, FileExistsError):
        try:
            os.link(source, target, follow_symlinks=False)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:  # another disk, or one without links
            shutil.copy2(source, target)
