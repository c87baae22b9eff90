"""Changes files below a folder without following a link on the way to them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrate.state.durable import write_out

_TOP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _TOP | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# There is nothing at the path, or something else is on the way to it.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
PLAIN, EXECUTABLE, LINK = "100644", "100755", "120000"


class Rooted:
    """The files below one folder; `token` is in the name of the temporary ones."""

    def __init__(self, root: Path, token: str) -> None:
        self._root = root
        self._temporary = f".orchestrate-{token}"

    def content(self, path: str) -> tuple[str, bytes] | None:
        """What a file or link is: its mode as git has it, and its bytes; None for all else."""
        try:
            with self._parent(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return LINK, os.fsencode(os.readlink(name, dir_fd=folder))
                if not stat.S_ISREG(found.st_mode):
                    return None
                with open(os.open(name, _READ, dir_fd=folder), "rb") as file:
                    return EXECUTABLE if found.st_mode & 0o100 else PLAIN, file.read()
        except OSError as error:
            if error.errno in _NOTHING:
                return None
            raise

    def write(self, path: str, mode: str, content: bytes, permissions: int | None) -> None:
        """Let a path be a file or link with that content, from one moment to the next.

        `permissions` are those that a file has there already; a new one gets the user's usual ones.
        """
        with self._parent(path, make=True) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=folder)
            if mode == LINK:
                os.symlink(content, self._temporary, dir_fd=folder)
            else:
                self._fill(folder, mode, content, permissions)
            with suppress(FileNotFoundError, NotADirectoryError):
                # A folder that is empty may go; one that is not is an error.
                os.rmdir(name, dir_fd=folder)
            os.rename(self._temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def _fill(self, folder: int, mode: str, content: bytes, permissions: int | None) -> None:
        usual = 0o777 if mode == EXECUTABLE else 0o666
        descriptor = os.open(self._temporary, _NEW, usual, dir_fd=folder)
        try:
            write_out(descriptor, content)
            if permissions is not None:
                runs = (permissions & 0o444) >> 2 if mode == EXECUTABLE else 0
                os.fchmod(descriptor, permissions & ~0o111 | runs)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def set_permissions(self, path: str, permissions: int) -> None:
        """Give a file exactly these."""
        with self._parent(path) as (folder, name):
            descriptor = os.open(name, _READ, dir_fd=folder)
            try:
                os.fchmod(descriptor, permissions)
            finally:
                os.close(descriptor)

    def delete(self, path: str) -> None:
        """Remove a file, and the folders above it that are empty then."""
        with self._parent(path) as (folder, name), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        self.remove_empty(path.rpartition("/")[0])

    def remove_empty(self, path: str) -> None:
        """Remove a folder and those above it, as far as they are empty; never the topmost."""
        while path:
            try:
                with self._parent(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return
            path = path.rpartition("/")[0]

    def sweep(self, path: str) -> None:
        """Remove the temporary file that a kill may have left beside a path."""
        with suppress(OSError), self._parent(path) as (folder, _):
            os.unlink(self._temporary, dir_fd=folder)

    def permissions(self, path: str) -> int | None:
        """Those of a regular file."""
        try:
            with self._parent(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NOTHING:
                return None
            raise
        return stat.S_IMODE(found.st_mode) if stat.S_ISREG(found.st_mode) else None

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that a file lies in, and the file's name there."""
        *above, name = path.split("/")
        folder = os.open(self._root, _TOP)
        try:
            for part in above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)
