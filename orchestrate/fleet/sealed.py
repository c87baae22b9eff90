"""A run folder as it is published where keys are set: each file sealed, under its own name.

    orchestrate-sealed ID
    the sealed bytes

A file is sealed for its path, so that none can be put in the place of another, and always to the
same bytes, so that what has not changed is not published again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrate.errors import ConfigError
from orchestrate.fleet.keys import Keys, SealError

_MARK = b"orchestrate-sealed "
_LONGEST_NAME = 80


def seal_files(folder: Path, files: Iterable[str], keys: Keys, target: Path) -> None:
    """Let another folder have the sealed files of a run folder, and nothing else."""
    wanted = set(files)
    for name in set(_files_below(target)) - wanted:
        (target / name).unlink()
    for name in sorted(wanted):
        sealed = keys.seal_alike((folder / name).read_bytes(), os.fsencode(name))
        content = _MARK + keys.first.encode() + b"\n" + sealed
        path = target / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_bytes(content)


def open_files(folder: Path, keys: Keys | None, *, is_ours_alone: bool) -> None:
    """Open the sealed files of a folder in place.

    With `is_ours_alone`, only who has a key can have published it: what is not sealed is refused.
    """
    for name in _files_below(folder):
        path = folder / name
        content = path.read_bytes()
        if not content.startswith(_MARK):
            if keys is not None and is_ours_alone:
                raise SealError(f"{name} of the published run is not encrypted, and `keys` is set")
            continue
        key, _, sealed = content[len(_MARK) :].partition(b"\n")
        named = key[:_LONGEST_NAME].decode("ascii", "replace")
        if keys is None:
            raise ConfigError(
                f"the run was published with the key '{named}'",
                "`keys` in fleet.yaml names the file that has it",
            )
        path.write_bytes(keys.open(named, sealed, os.fsencode(name)))


def _files_below(folder: Path) -> Iterator[str]:
    for inside, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(inside, name), folder)
