"""Starts the program that a request asks for, in a session of its own, with nothing inherited."""

from __future__ import annotations

import errno
import os
import stat
import sys

from orchestrate.execute.keeper.protocol import text_of, unpack, write_all
from orchestrate.execute.keeper.standard import IGNORED_BY_PYTHON, signal
from orchestrate.execute.keeper.tree import die_with_parent

# As `exits` has them, which would take the keeper too long to import.
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_IGNORED_BY_US = [*IGNORED_BY_PYTHON, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
# The C library asks about each signal that is not named before it resets it.
_EVERY_SIGNAL = list(signal.valid_signals())
# Our own stdin; many programs may read the same nothing.
_NOTHING = 0


class StartFault(Exception):
    """A program that could not be started: the exit code that says so, and why."""

    def __init__(self, what: str, name: bytes, error: Exception) -> None:
        number = getattr(error, "errno", None) or errno.EINVAL
        super().__init__(f"{what}: {os.strerror(number)}: {text_of(name)}")
        missing = what == "program" and number in (errno.ENOENT, errno.ENOTDIR)
        self.code = NOT_FOUND if missing else NOT_EXECUTABLE
        self.name = errno.errorcode.get(number, "EINVAL")


def name_of(error: OSError) -> str:
    """An error's name, which is the same on every system and can be read in a record."""
    return errno.errorcode.get(error.errno or errno.EIO, "EIO")


class Launch:
    """A program that is ready to start: all is done that can be done before its claim is durable.

    That is next to everything, but none of it may show: nothing is written and nothing started.
    The warden goes to the program's directory itself, because only forking could spare it that.
    """

    def __init__(self, request: dict[str, bytes], env: dict[bytes, bytes], scratch: str) -> None:
        self._env = env
        self._argv = unpack(request["argv"])
        self._cwd = request["cwd"]
        self._is_guarded = bool(request["guarded"])
        self._stdin = _NOTHING
        self.fault: StartFault | None = None
        self._program = self._argv[0] if self._argv else b""
        self._candidates: list[bytes] = []
        try:
            self._stdin = _open_stdin(request["stdin"], scratch)
        except StartFault as fault:
            self.fault = fault

    def look_around(self) -> None:
        """Go where the program is to start, and find it; nothing else may run before it starts."""
        if self.fault is not None:
            return
        try:
            _enter(self._cwd)
        except StartFault as fault:
            self.fault = fault
        self._candidates = _candidates(self._program, self._env)

    def start(self, out: int, err: int) -> int:
        """Start it; its process id. The caller collects it."""
        if self.fault is not None:
            raise self.fault
        begin = _spawn if _CAN_SPAWN and not self._is_guarded else _fork
        failed: OSError | None = None
        try:
            for path in self._candidates:
                try:
                    return begin(path, self._argv, self._env, (self._stdin, out, err))
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                        failed = failed or error
        except ValueError as error:  # a zero byte where there can be none
            raise StartFault("program", self._program, error) from None
        missing = FileNotFoundError(errno.ENOENT, "no such program")
        raise StartFault("program", self._program, failed or missing)

    def close(self) -> None:
        if self._stdin != _NOTHING:
            os.close(self._stdin)
            self._stdin = _NOTHING


def _candidates(program: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """The files that the program's name may mean, by the PATH that it is given itself."""
    if b"/" in program:
        return [program]
    if not program:
        return []
    folders = env.get(b"PATH", os.defpath.encode("ascii")).split(b":")
    paths = [os.path.join(folder, program) for folder in folders]
    return [path for path in paths if os.path.lexists(path)]


def _enter(cwd: bytes) -> None:
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        raise StartFault("cwd", cwd, error) from None


def _spawn(
    path: bytes, argv: list[bytes], env: dict[bytes, bytes], files: tuple[int, int, int]
) -> int:
    """Without a copy of this process, which would cost more than all the rest."""
    return os.posix_spawn(
        path,
        argv,
        env,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files) if fd != number
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_EVERY_SIGNAL,
    )


# Elsewhere Python may lack `setsid` for it.
_CAN_SPAWN = sys.platform == "linux"


def _fork(
    path: bytes, argv: list[bytes], env: dict[bytes, bytes], files: tuple[int, int, int]
) -> int:
    """By hand, because only a program itself can ask the kernel to be killed with its parent."""
    parent = os.getpid()
    answer, answer_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        number = errno.EINVAL
        try:
            die_with_parent(parent)
            os.setsid()
            for standard, fd in enumerate(files):
                os.dup2(fd, standard)
            for ignored in _IGNORED_BY_US:
                signal.signal(ignored, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(path, argv, env)
        except OSError as error:
            number = error.errno or number
        finally:
            os.write(answer_end, b"%d" % number)
            os._exit(NOT_EXECUTABLE)
    os.close(answer_end)
    failure = os.read(answer, 16)  # the end closes when the program takes over
    os.close(answer)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), "cannot be executed")
    return pid


def _open_stdin(stdin: bytes, scratch: str) -> int:
    """A file, text of the request (which must not touch a disk), or nothing."""
    if not stdin:
        return _NOTHING
    try:
        if stdin[:1] == b"/":
            return _open_file(stdin[1:])
        fd = _nameless_file(scratch)
        write_all(fd, stdin[1:])
        os.lseek(fd, 0, os.SEEK_SET)
        return fd
    except (OSError, ValueError) as error:
        name = stdin[1:] if stdin[:1] == b"/" else b"(text)"
        raise StartFault("stdin", name, error) from None


def _open_file(path: bytes) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    os.set_blocking(fd, True)
    return fd


def _nameless_file(folder: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stdin", os.MFD_CLOEXEC)
    path = os.path.join(folder, f"stdin-{os.getpid()}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd
