"""Files of the workspace are opened first and checked then, so that no link can mislead us."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Literal

from orchestrate.engine.faults import StepFault
from orchestrate.errors import explain
from orchestrate.record import record
from orchestrate.workspace import Workspace, path_fault

# Never wait for the other end of a FIFO, never take over a terminal, never leak to a program.
_SAFELY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _SAFELY
_PATH_ONLY = getattr(os, "O_PATH", 0)
_GET_PATH = getattr(fcntl, "F_GETPATH", None)


# These say nothing about a path: the machine has run out of something, or its disk is failing. A
# step that failed for that could send the run another way; so the run stops, and can be resumed.
_NOT_THE_PATHS = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
)


class PathFault(StepFault):
    """A path that cannot be used: it leads out of the workspace, or is not a regular file."""


def refusal(verb: str, workspace: Workspace, relative: str, error: OSError) -> Exception:
    """What an error of the system means: a fault of the step, or the end of the run for now."""
    if is_the_machines(error):
        return explain(verb, workspace.root / relative, error)
    return PathFault(f"cannot {verb} '{relative}': {error.strerror}")


def is_the_machines(error: OSError) -> bool:
    return error.errno in _NOT_THE_PATHS


@record
class Found:
    """What a name leads to, all links followed."""

    mode: int
    inside: bool


@record
class Folder:
    """An open folder; `root` is the real path of the workspace."""

    descriptor: int
    root: str
    # What may not be written to (`Workspace.keeps`).
    workspace: Workspace | None = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def is_inside(self) -> bool:
        """Does the folder still lie in the workspace, wherever links have led?"""
        return is_below(real_path_of(self.descriptor), self.root)

    def locate(self, name: str) -> Found:
        """What and where an entry is, without opening it: a FIFO's writers would notice that."""
        if _PATH_ONLY:
            descriptor = os.open(name, _PATH_ONLY | os.O_CLOEXEC, dir_fd=self.descriptor)
            try:
                inside = is_below(real_path_of(descriptor), self.root)
                return Found(os.fstat(descriptor).st_mode, inside)
            finally:
                os.close(descriptor)
        mode = os.stat(name, dir_fd=self.descriptor).st_mode
        here = os.path.join(real_path_of(self.descriptor), name)
        return Found(mode, is_below(os.path.realpath(here), self.root))


def open_root(workspace: Workspace) -> Folder:
    try:
        descriptor = os.open(workspace.root, _FOLDER)
    except OSError as error:
        if is_the_machines(error):
            raise explain("open", workspace.root, error) from error
        raise PathFault(f"cannot open the workspace: {error.strerror}") from error
    try:
        return Folder(descriptor, real_path_of(descriptor), workspace)
    except PathFault:
        os.close(descriptor)
        raise


def open_folder(parent: Folder, name: str) -> Folder:
    opened = os.open(name, _FOLDER, dir_fd=parent.descriptor)
    return Folder(opened, parent.root, parent.workspace)


def open_regular(workspace: Workspace, relative: str) -> BinaryIO:
    """Open a file of the workspace for reading; all but regular files in it are refused.

    The check is on what was opened: links may change before and after.
    """
    path = "/".join(split_path(relative))
    with open_root(workspace) as root:
        try:
            # Opening a FIFO or a device has effects, so one that can be seen is not opened.
            _require_regular(os.stat(path, dir_fd=root.descriptor).st_mode, relative)
            descriptor = os.open(path, os.O_RDONLY | _SAFELY, dir_fd=root.descriptor)
        except OSError as error:
            raise refusal("read", workspace, relative, error) from error
        return _checked(descriptor, root, relative, "rb")


def open_for_output(workspace: Workspace, relative: str) -> BinaryIO:
    """Open a file of the workspace for writing, emptied; parent folders are made.

    Nothing is created or emptied before its place is known to be in the workspace.
    """
    *parents, name = split_path(relative)
    with _make_all(workspace, parents, relative) as folder:
        try:
            _require_free_in(folder, name, relative)
            descriptor = _open_to_write(folder, name, relative)
            opened = _checked(descriptor, folder, relative, "wb")
        except OSError as error:
            raise refusal("write", workspace, relative, error) from error
    try:
        opened.truncate(0)
    except OSError as error:
        opened.close()
        raise refusal("write", workspace, relative, error) from error
    return opened


def require_free(workspace: Workspace, relative: str) -> None:
    """Refuse a path to write to that is the run's own, orchestrate's or git's; nothing is made."""
    _require_free(os.path.realpath(workspace.root.joinpath(*split_path(relative))),
                  workspace, relative)  # fmt: skip


def make_folders(workspace: Workspace, relative: str) -> Folder:
    """Open a folder of the workspace; it and those above it are made where they are missing."""
    require_free(workspace, relative)
    folder = _make_all(workspace, split_path(relative), relative)
    try:
        _require_free(real_path_of(folder.descriptor), workspace, relative)
    except PathFault:
        os.close(folder.descriptor)
        raise
    return folder


def split_path(text: str) -> list[str]:
    """The components of a path in the workspace; a `PathFault` for all other paths."""
    fault = path_fault(text)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not fault and not parts:
        fault = "names no file"
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        fault = "has characters that no file name can have"
    if fault:
        raise PathFault(f"the path '{text}' {fault}")
    return parts


def encode_path(path: str) -> bytes:
    """The bytes of a path, by which paths are ordered."""
    return os.fsencode(path)


def is_below(path: str, root: str) -> bool:
    """Does a real path lie in the root (or is it the root)? By components: /ab is not in /a."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def real_path_of(descriptor: int) -> str:
    """Where an open file really is; on systems that cannot tell, nothing is trusted."""
    try:
        if _GET_PATH is not None:
            buffer = fcntl.fcntl(descriptor, _GET_PATH, b"\0" * 1024)
            return os.fsdecode(buffer.partition(b"\0")[0])
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError as error:
        raise PathFault(
            f"cannot tell where a file is: {error.strerror} (is /proc there?)"
        ) from error


def _require_regular(mode: int, relative: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise PathFault(f"'{relative}' is {kind}")


def _require_inside(descriptor: int, folder: Folder, relative: str) -> None:
    if not is_below(real_path_of(descriptor), folder.root):
        raise PathFault(f"'{relative}' leads out of the workspace through a link")


def _require_free(real: str, workspace: Workspace | None, relative: str) -> None:
    whose = workspace.keeps(real) if workspace is not None else ""
    if whose:
        raise PathFault(f"'{relative}' leads into {whose}, where no step may write")


def _require_free_in(folder: Folder, name: str, relative: str) -> None:
    real = os.path.join(real_path_of(folder.descriptor), name)
    _require_free(real, folder.workspace, relative)


def _checked(descriptor: int, folder: Folder, relative: str, mode: Literal["rb", "wb"]) -> BinaryIO:
    """The open file, if it is regular and in the workspace."""
    try:
        _require_regular(os.fstat(descriptor).st_mode, relative)
        _require_inside(descriptor, folder, relative)
        if mode == "wb":
            _require_free(real_path_of(descriptor), folder.workspace, relative)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)


def _make_all(workspace: Workspace, names: list[str], relative: str) -> Folder:
    folder = open_root(workspace)
    for name in names:
        try:
            inner = _make_folder(folder, name, relative)
        except OSError as error:
            raise refusal("write", workspace, relative, error) from error
        finally:
            os.close(folder.descriptor)
        folder = inner
    return folder


def _make_folder(parent: Folder, name: str, relative: str) -> Folder:
    try:
        folder = open_folder(parent, name)
    except FileNotFoundError:
        _require_free_in(parent, name, relative)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent.descriptor)
        folder = open_folder(parent, name)
    try:
        _require_inside(folder.descriptor, folder, relative)
    except PathFault:
        os.close(folder.descriptor)
        raise
    return folder


def _open_to_write(folder: Folder, name: str, relative: str) -> int:
    """Create through no link: one that dangles would make a file wherever it points."""
    flags = os.O_WRONLY | _SAFELY
    with suppress(FileNotFoundError):
        _require_regular(os.stat(name, dir_fd=folder.descriptor).st_mode, relative)
    try:
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder.descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
    return os.open(name, flags, dir_fd=folder.descriptor)
