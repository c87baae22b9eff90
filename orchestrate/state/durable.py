"""Files that survive a kill, a power cut and a full disk: written whole or not at all.

Every file that is read again goes through `write_durably`. A reader sees the old file or the new
one, never a part of one, and when the function returns, the new one is on the disk. So the order
is: write durably, then announce.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from orchestrate.errors import InternalError, StateError, explain
from orchestrate.json_writer import json_writer
from orchestrate.regex import regex

_LEFTOVER = regex(r"\A\..+\.[0-9a-f]{12}\.tmp\Z")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_COMPACT = json_writer(allow_nan=False)
# Made once: `json.loads` would make one for each of a journal's lines.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def write_durably(path: Path, data: bytes, *, keep_previous: bool = False) -> None:
    """Replace the file by one that holds `data`, and return when that is on the disk.

    With `keep_previous` the content that was replaced stays beside it as `NAME.prev`. On an error
    the old file is untouched, with one exception that the message names: if only the folder cannot
    be synced, the new file stands but may not outlive a power cut.
    """
    temporary = _write_temporary(path, data)
    with _in_place_of(path, temporary):
        if keep_previous:
            _keep_previous(path)


def write_visibly(path: Path, data: bytes) -> None:
    """Replace a file for its readers; after a power cut it is the old one or the new one, whole.

    For what can be made again from a durable file: it saves the wait for the folder.
    """
    temporary = _write_temporary(path, data)
    with _in_place_of(path, temporary, sync=False):
        pass


def dump_json(value: object, *, indent: int | None = None) -> bytes:
    """The value as JSON in plain ASCII, with a newline at the end.

    A lone surrogate (half an emoji in an agent's answer, a byte of a file name that is not text) is
    written as its escape, so it neither breaks the file nor changes on the way back.
    """
    if indent is None:
        return compact_json(value) + b"\n"
    try:
        text = json.dumps(value, allow_nan=False, indent=indent, separators=(",", ": "))
    except (TypeError, ValueError, RecursionError) as error:
        raise InternalError(f"a value cannot be written as JSON: {error}") from error
    return text.encode("ascii") + b"\n"


def compact_json(value: object) -> bytes:
    """The value as `dump_json` writes it, without a newline at the end."""
    try:
        return _COMPACT(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InternalError(f"a value cannot be written as JSON: {error}") from error


def parse_json(data: bytes) -> Any:
    """The value of JSON that we wrote; `ValueError` for anything that we cannot have written."""
    try:
        return _DECODER.decode(data.decode("ascii"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_file(path: Path) -> bytes | None:
    """The content of a regular file, or None if there is none; links are not followed."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse("read", path, error)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        # Asked before it becomes a file, which a folder cannot.
        os.close(descriptor)
        raise StateError(f"{path} is not a regular file", "remove it")
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read()
        except OSError as error:
            _refuse("read", path, error)


def make_link_durably(path: Path, target: str) -> None:
    """Let `path` be a symbolic link to `target`, without a moment in which it is missing."""
    temporary = _temporary_name(path)
    with _in_place_of(path, temporary):
        os.symlink(target, temporary)


@contextmanager
def _in_place_of(path: Path, temporary: Path, *, sync: bool = True) -> Iterator[None]:
    """Rename a temporary file over a path once the block is done; on any fault keep the old one."""
    try:
        yield
        os.rename(temporary, path)
    except BaseException as error:
        _discard(temporary)
        if isinstance(error, OSError):
            _refuse("write", path, error)
        raise
    if sync:
        sync_folder(path.parent)


def make_private_folder(path: Path) -> None:
    """Make a folder that may be there already."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except OSError as error:
        _refuse("make", path, error)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writers left half-written. Only the holder of the folder's lock may."""
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if _LEFTOVER.match(e.name)]
    except OSError as error:
        _refuse("read", folder, error)
    for name in names:
        _discard(folder / name)


def sync_folder(folder: Path) -> None:
    """Bring the folder's list of names to the disk."""
    try:
        descriptor = os.open(folder, _FOLDER)
        try:
            sync_all(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        _refuse("sync", folder, error)


def write_out(descriptor: int, data: bytes) -> None:
    """Write until all is out: a single `write` may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_all(descriptor: int) -> None:
    """Bring content and metadata to the disk, not only to the disk's cache."""
    if sys.platform == "darwin":  # pragma: no cover
        _sync_darwin(descriptor)
    else:
        os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Bring content and size to the disk; times may lag."""
    if sys.platform == "darwin":  # pragma: no cover
        _sync_darwin(descriptor)
    else:
        os.fdatasync(descriptor)


def _write_temporary(path: Path, data: bytes) -> Path:
    """A synced file with the content, beside the one that it will replace."""
    temporary = _temporary_name(path)
    try:
        descriptor = os.open(temporary, _NEW_FILE, 0o600)
    except OSError as error:
        _refuse("write", path, error)
    try:
        try:
            write_out(descriptor, data)
            # Once only: after a failed fsync the kernel forgets the pages, and a second call would
            # report success for data that never reached the disk.
            sync_all(descriptor)
        finally:
            os.close(descriptor)
    except BaseException as error:
        _discard(temporary)
        if isinstance(error, OSError):
            _refuse("write", path, error)
        raise
    return temporary


def _keep_previous(path: Path) -> None:
    """Let `NAME.prev` be what `NAME` is now; the file is never changed in place, so a link does."""
    previous = path.with_name(path.name + ".prev")
    temporary = _temporary_name(previous)
    try:
        os.link(path, temporary, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError:
        # The file system has no hard links.
        content = read_file(path)
        if content is not None:
            write_durably(previous, content)
        return
    try:
        os.rename(temporary, previous)
    finally:
        # Two names of one file rename to a no-op, which leaves the temporary one.
        _discard(temporary)


def _temporary_name(path: Path) -> Path:
    """Random, because a pid is not unique between containers that share a folder."""
    return path.with_name(f".{path.name[:48]}.{os.urandom(6).hex()}.tmp")


def _discard(path: Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        # What matters is the first error; a leftover is removed at the next start.
        return


def _refuse(verb: str, path: Path, error: OSError) -> NoReturn:
    raise explain(verb, path, error) from error


def _sync_darwin(descriptor: int) -> None:  # pragma: no cover
    """On macOS `fsync` stops at the disk's cache; F_FULLFSYNC goes on, where it is supported."""
    import fcntl

    try:
        fcntl.fcntl(descriptor, 51)  # F_FULLFSYNC, whose name other systems do not know
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            raise
        os.fsync(descriptor)
