"""Starts the program that a request asks for, in a session of its own, with nothing inherited."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from functools import partial
from typing import Any

from orchestrate.process.protocol import bytes_of, write_all
from orchestrate.process.tree import die_with_parent

NOT_FOUND, NOT_EXECUTABLE = 127, 126


class StartFault(Exception):
    """A program that could not be started: the exit code that says so, and why."""

    def __init__(self, what: str, name: str, error: Exception) -> None:
        number = getattr(error, "errno", None) or errno.EINVAL
        super().__init__(f"{what}: {os.strerror(number)}: {name}")
        missing = what == "program" and number in (errno.ENOENT, errno.ENOTDIR)
        self.code = NOT_FOUND if missing else NOT_EXECUTABLE


def launch(request: dict[str, Any], out: int, err: int, scratch: str) -> int:
    """Start the program; its process id. The caller collects it."""
    argv = [bytes_of(word) for word in request["argv"]]
    program = request["argv"][0] if argv else ""
    try:
        stdin = _open_stdin(request, scratch)
    except (OSError, ValueError) as error:
        raise StartFault("stdin", request["stdin_path"] or "(text)", error) from None
    # It needs a real fork, which costs more than the start itself; without it Python uses vfork.
    guard = partial(die_with_parent, os.getpid()) if request["guarded"] else None
    try:
        if not program:
            raise FileNotFoundError(errno.ENOENT, "no program")
        process = subprocess.Popen(
            argv,
            env={bytes_of(name): bytes_of(value) for name, value in request["env"].items()},
            cwd=bytes_of(request["cwd"]),
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=guard,  # noqa: PLW1509 - a warden has one thread
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        cwd = bytes_of(request["cwd"])
        if getattr(error, "filename", None) == cwd != argv[0]:
            raise StartFault("cwd", request["cwd"], error) from None
        raise StartFault("program", program, error) from None
    finally:
        os.close(stdin)
    # We wait for it ourselves, together with its orphans.
    process.returncode = 0
    return process.pid


def _open_stdin(request: dict[str, Any], scratch: str) -> int:
    """A file, text of the request (which must not touch a disk), or nothing."""
    if request["stdin_path"] is not None:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(bytes_of(request["stdin_path"]), flags)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file")
        os.set_blocking(fd, True)
        return fd
    if request["stdin"] is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = _nameless_file(scratch)
    write_all(fd, bytes_of(request["stdin"]))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _nameless_file(folder: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stdin", os.MFD_CLOEXEC)
    path = os.path.join(folder, f"stdin-{os.getpid()}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd
