"""The command under watch: every attempt to start, connect or write something is told and refused.

    python watched.py COMMAND... + COMMAND... + ...

Attempts go to stderr as `ATTEMPT event arguments`. An audit hook cannot be taken out again.
"""

from __future__ import annotations

import os
import sys

# Prefixes of audit events (docs.python.org/3/library/audit_events.html).
FORBIDDEN = (
    "subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.system", "os.startfile",
    "pty.spawn", "socket.", "ssl.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.",
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.chown", "os.chflags", "os.utime", "os.setxattr", "os.removexattr", "os.mkfifo",
    "os.mknod", "os.kill", "os.killpg", "os.putenv", "os.unsetenv", "shutil.", "tempfile.",
    "fcntl.flock", "fcntl.lockf", "sqlite3.", "ctypes.dlopen", "pickle.", "builtins.input", "exec?",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Forbidden(BaseException):
    """Not an `Exception`: nothing may catch it on the way out."""


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if not writes and not (isinstance(flags, int) and flags & WRITING):
            return
    elif not event.startswith(FORBIDDEN):
        return
    sys.stderr.write(f"ATTEMPT {event} {arguments!r}\n")
    raise Forbidden(event)


def main() -> None:
    from orchestrate.cli.main import run_command

    sys.addaudithook(watch)
    words = sys.argv[1:]
    while words:
        end = words.index("+") if "+" in words else len(words)
        code = run_command(words[:end])
        sys.stderr.write(f"ENDED {code} {' '.join(words[:end])}\n")
        words = words[end + 1 :]


if __name__ == "__main__":
    main()
