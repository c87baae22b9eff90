"""What can be asked of a keeper and what can be known of an attempt, alive or after a crash."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from orchestrate.errors import InternalError
from orchestrate.execute.keeper.identity import COPIED, has_identity
from orchestrate.execute.keeper.journal import breaks_in, read_facts
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    REQUEST_FIELDS,
    WARDEN_LOCK,
    bytes_of,
    is_locked,
    pack,
)
from orchestrate.record import record

ATTEMPT_ID = re.compile(r"[A-Za-z0-9_~%-][A-Za-z0-9._:/@\[\]()%~-]{0,199}\Z")


@record
class Request:
    """A program to run. Paths are absolute; `env` is the whole environment, values included.

    `stdin` is a regular file, bytes (kept off every disk), or nothing. Output goes, masked, to
    `stdout_path` and `stderr_path`, which are made when there is output; stdout also to `tee_path`,
    which is made or emptied in any case; with `tee_root` it is there already and must really lie
    below that folder. `timeout_s` limits the whole attempt, `silence_s` the time in which it prints
    nothing. `secrets` are values, not names. A `guarded` program is killed by the kernel
    even if its warden, the keeper and the keeper's guardian are all killed in the same instant; any
    other would then run until the run's next keeper finds it. The guard costs as much as two or
    three quick programs, because only a real fork can set it up.
    """

    attempt: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    stdout_path: Path
    stderr_path: Path
    stdin: Path | bytes | None = None
    tee_path: Path | None = None
    tee_root: Path | None = None
    timeout_s: float | None = None
    silence_s: float | None = None
    grace_s: float = 5.0
    secrets: tuple[str, ...] = ()
    guarded: bool = True


@record
class Exit:
    """How a program ended. Exactly one of `code` and `signal` is set.

    `start_error` says why it could not be started (`code` is then 126 or 127). `stopped` is the
    reason given to `stop`. `fell_silent`: it was ended because it printed nothing for too long.
    `stdout_fault`, `stderr_fault` and `tee_fault` name the error (`ENOSPC`) by which the log or the
    `tee_path` could not be written whole, each for itself; `start_fault` that of a `start_error`.
    `stdout` and `stderr` are what was captured, masked, up to 8 KiB; None if there is more, and
    then the file has it all. `survivors` counts processes that could not be killed. `watched`: an
    orchestrator was there to hear of it.
    """

    code: int | None
    signal: int | None
    timed_out: bool
    stopped: str
    start_error: str
    start_fault: str
    stdout_fault: str
    stderr_fault: str
    tee_fault: str
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
    fell_silent: bool = False
    watched: bool = True


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
    """Claimed, no exit, and proven dead by a keeper; it is never started again."""

    reason: str


@record
class Unsettled:
    """Claimed, no exit, and nobody is left who could record one; it may be alive nevertheless.

    The run's next keeper ends what is left of it, and then says `Lost`.
    """


Look = NotStarted | Running | Ended | Lost | Unsettled


def look(run_dir: Path, attempt: str) -> Look:
    """What is known about an attempt; the locks are read first: a free one makes the rest final."""
    folder = run_dir / FOLDER
    alive = is_locked(str(folder / KEEPER_LOCK))
    ending = are_wardens_left(folder)
    known = read_facts(str(folder / JOURNAL), attempt)
    if "exit" in known:
        return Ended(exit_of(known["exit"]))
    if "lost" in known:
        return Lost(reason_of(known["lost"]))
    if "claim" not in known:
        return NotStarted()
    return Running() if alive or ending else Unsettled()


def look_again(run_dir: Path, attempt: str, *, is_announced: bool = True) -> Look:
    """`look`, for an attempt of before: of a journal that is not whole it may be what is missing.

    What was announced before a journal was deleted or copied may have been started, and was if it
    was not the last; of a torn one even that may be lost.
    """
    found = look(run_dir, attempt)
    if not isinstance(found, NotStarted):
        return found
    path = run_dir / FOLDER / JOURNAL
    breaks = breaks_in(str(path))
    if not path.exists() and has_identity(str(run_dir)):
        breaks.add("gone")
    if "torn" in breaks:
        return Lost("the keeper's journal was damaged, and nobody knows whether it was started")
    if is_announced and "gone" in breaks:
        return Lost("the keeper's journal was deleted, and nobody knows how it ended")
    if is_announced and "copy" in breaks:
        return Lost(COPIED)
    return found


def is_keeper_alive(run_dir: Path) -> bool:
    """May programs of this run still be running?"""
    folder = run_dir / FOLDER
    return is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder)


def are_wardens_left(folder: Path) -> bool:
    return is_locked(str(folder / WARDEN_LOCK), also_shared=True)


def exit_of(body: bytes) -> Exit:
    values, _ = _read_json(body.decode("ascii"))
    for name in ("stdout", "stderr"):
        values[name] = None if values[name] is None else bytes_of(values[name])
    return Exit(**values)


# What `json.loads` does, but for its search for encodings and blanks.
_read_json = json.JSONDecoder().raw_decode


def reason_of(body: bytes) -> str:
    return str(json.loads(body)["reason"])


def pack_environment(env: dict[str, str]) -> bytes:
    return pack(bytes_of(text) for item in env.items() for text in item)


def pack_request(request: Request, packed_env: bytes) -> bytes:
    """What travels."""
    stdin = request.stdin
    fields = {
        "cwd": _packed_path(request.cwd),
        "stdout_path": _packed_path(request.stdout_path),
        "stderr_path": _packed_path(request.stderr_path),
        "tee_path": _packed_path(request.tee_path) if request.tee_path is not None else b"",
        "tee_root": _packed_path(request.tee_root) if request.tee_root is not None else b"",
        "stdin": b"=" + stdin if isinstance(stdin, bytes) else b"",
        "timeout_s": _packed_number(request.timeout_s),
        "silence_s": _packed_number(request.silence_s),
        "grace_s": _packed_number(request.grace_s),
        "guarded": b"1" if request.guarded else b"",
        "secrets": pack(map(bytes_of, request.secrets)),
        "env": packed_env,
        "argv": pack(map(bytes_of, request.argv)),
    }
    if isinstance(stdin, Path):
        fields["stdin"] = b"/" + _packed_path(stdin)
    return pack(fields[name] for name in REQUEST_FIELDS)


def _packed_number(number: float | None) -> bytes:
    return b"" if number is None else repr(float(number)).encode("ascii")


def _packed_path(path: Path) -> bytes:
    packed = os.fsencode(path)
    if not packed.startswith(b"/"):
        raise InternalError(f"the paths of a request must be absolute: {path}")
    return packed
