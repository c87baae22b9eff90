"""A program's output on its way from a pipe, through the mask, into files and the exit record."""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from orchestrate.execute.keeper.launch import StartFault, name_of
from orchestrate.execute.keeper.protocol import INLINE_LIMIT, sync, text_of, write_all
from orchestrate.execute.masking import Mask, Stream

_CHUNK = 1 << 16
_OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


class Target:
    """One file that output goes to. Its trouble is its own: another target still gets all of it."""

    def __init__(self) -> None:
        self.fd: int | None = None
        self.error = ""  # the name of the first fault, e.g. ENOSPC; what follows is not written

    def write(self, data: bytes) -> None:
        if self.fd is None or self.error:
            return
        try:
            write_all(self.fd, data)
        except OSError as error:
            self.fail(error)

    def close(self, *, is_synced: bool) -> None:
        if self.fd is None:
            return
        try:
            if is_synced:
                sync(self.fd)
        except OSError as error:
            self.fail(error)
        try:
            os.close(self.fd)
        except OSError as error:  # where the disk is a network's, it may say only now what it lacks
            self.fail(error)
        self.fd = None

    def fail(self, error: OSError) -> None:
        self.error = self.error or name_of(error)


class Sink:
    """One output stream. Its file is made when there is something to put into it."""

    def __init__(self, pipe: tuple[int, int], path: bytes, mask: Mask) -> None:
        self.fd, self.program_end = pipe
        self.is_open = True
        self.size = 0
        self.log = Target()
        self.tee = Target()
        self._path = path
        self._stream = Stream(mask)
        self._start = b""

    def pump(self) -> bool:
        """Move what has arrived, at most a chunk; False when nothing is there now."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._keep(self._stream.feed(data))
        else:
            self.close_pipe()
        return bool(data)

    def close_pipe(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.fd)

    def finish(self) -> str | None:
        """Make the output durable; as text if it is short enough for the exit record."""
        while self.is_open and self.pump():
            pass
        self.close_pipe()  # a process outside the tree may hold the other end
        self._keep(self._stream.finish())
        is_short = self.size <= INLINE_LIMIT
        self.log.close(is_synced=not is_short)
        self.tee.close(is_synced=True)
        return text_of(self._start) if is_short else None

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if len(self._start) <= INLINE_LIMIT:
            self._start += data[: INLINE_LIMIT + 1]
        # A file that cannot be written is read for all the same: a full disk must not hang the
        # program.
        if self.log.fd is None and not self.log.error:
            try:
                self.log.fd = os.open(self._path, _OUTPUT_FLAGS, 0o600)
            except OSError as error:
                self.log.fail(error)
        self.log.write(data)
        self.tee.write(data)


def make_pipe() -> tuple[int, int]:
    """Our end, which never blocks, and the program's."""
    ours, programs = os.pipe()
    os.set_blocking(ours, False)
    return ours, programs


def open_tee(path: bytes, root: bytes) -> int | None:
    """The author's output file, opened before anything starts; a FIFO or device is refused.

    With a `root` the file is there already, and what was opened must lie below the root: its
    maker has checked that, but links may have changed since.
    """
    if not path:
        return None
    flags = _EXISTING_FLAGS if root else _OUTPUT_FLAGS | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if root and not (_real_path(fd) + b"/").startswith(root.rstrip(b"/") + b"/"):
                raise OSError(errno.EXDEV, "outside the workspace")
            os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd
    except (OSError, ValueError) as error:
        raise StartFault("output_file", path, error) from None


_EXISTING_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _real_path(fd: int) -> bytes:
    """Where an open file really is."""
    get_path = getattr(fcntl, "F_GETPATH", None)  # macOS
    if get_path is not None:
        found: bytes = fcntl.fcntl(fd, get_path, b"\0" * 1024)
        return found.partition(b"\0")[0]
    return os.readlink(b"/proc/self/fd/%d" % fd)
