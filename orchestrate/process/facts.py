"""What can be asked of a keeper and what can be known of an attempt, alive or after a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path

from orchestrate.errors import InternalError
from orchestrate.process.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    WARDEN_LOCK,
    Message,
    bytes_of,
    is_locked,
    read_lines,
    text_of,
)
from orchestrate.record import field_names, record


@record
class Request:
    """A program to run. Paths are absolute; `env` is the whole environment, values included.

    `stdin` is a regular file, bytes (kept off every disk), or nothing. Output goes, masked, to
    `stdout_path` and `stderr_path`, which are made when there is output; stdout also to `tee_path`,
    which is made or emptied in any case. `secrets` are values, not names. A `guarded` program is
    killed by the kernel even if keeper and warden are killed in the same instant, which costs a
    few milliseconds; any other would then run until the run's next keeper finds it.
    """

    attempt: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    stdout_path: Path
    stderr_path: Path
    stdin: Path | bytes | None = None
    tee_path: Path | None = None
    timeout_s: float | None = None
    grace_s: float = 5.0
    secrets: tuple[str, ...] = ()
    guarded: bool = True


@record
class Exit:
    """How a program ended. Exactly one of `code` and `signal` is set.

    `start_error` says why it could not be started (`code` is then 126 or 127). `stopped` is the
    reason given to `stop`. `output_error`: some output could not be written (a full disk).
    `stdout` and `stderr` are what was captured, masked, up to 8 KiB; None if there is more, and
    then the file has it all. `survivors` counts processes that could not be killed.
    """

    code: int | None
    signal: int | None
    timed_out: bool
    stopped: str
    start_error: str
    output_error: str
    pid: int
    started_at: float
    ended_at: float
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    stdout: bytes | None
    stderr: bytes | None
    max_rss_kb: int
    survivors: int


@record
class NotStarted:
    """There is no claim: the attempt never started and may be started."""


@record
class Running:
    """Claimed, and its keeper lives (or its warden is still ending it): wait."""


@record
class Ended:
    """The exit is on record."""

    exit: Exit


@record
class Lost:
    """Claimed, no exit, and nobody is left who could record one; it is never started again."""

    reason: str


Look = NotStarted | Running | Ended | Lost


def look(run_dir: Path, attempt: str) -> Look:
    """What is known about an attempt; the locks are read first: a free one makes the rest final."""
    folder = run_dir / FOLDER
    alive = is_locked(str(folder / KEEPER_LOCK))
    ending = are_wardens_left(folder)
    name = attempt.encode("ascii")
    claimed = False
    for kind, whose, body in reversed(read_lines(str(folder / JOURNAL))[0]):
        if whose == name and kind == b"exit":
            return Ended(exit_of(json.loads(body)))
        if whose == name and kind == b"lost":
            return Lost(str(json.loads(body)["reason"]))
        claimed = claimed or (whose == name and kind == b"claim")
    if not claimed:
        return NotStarted()
    return Running() if alive or ending else Lost("its keeper ended without recording an exit")


def are_wardens_left(folder: Path) -> bool:
    return is_locked(str(folder / WARDEN_LOCK), also_shared=True)


def exit_of(data: Message) -> Exit:
    values = {name: data[name] for name in Exit.__match_args__}
    for name in ("stdout", "stderr"):
        values[name] = None if values[name] is None else bytes_of(values[name])
    return Exit(**values)


def as_message(request: Request) -> Message:
    """What travels: text that JSON can carry."""
    message: Message = {name: getattr(request, name) for name in field_names(request)}
    stdin = message.pop("stdin")
    message["stdin"] = text_of(stdin) if isinstance(stdin, bytes) else None
    message["stdin_path"] = stdin if isinstance(stdin, Path) else None
    for name in ("cwd", "stdout_path", "stderr_path", "tee_path", "stdin_path"):
        path = message[name]
        if path is not None and not path.is_absolute():
            raise InternalError(f"{name} must be absolute: {path}")
        message[name] = None if path is None else text_of(os.fsencode(path))
    message["env"] = dict(request.env)
    return message
