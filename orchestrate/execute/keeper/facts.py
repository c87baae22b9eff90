"""What can be asked of a keeper and what can be known of an attempt, alive or after a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path

from orchestrate.errors import InternalError
from orchestrate.execute.base import Exit, Lost, NotStarted, Running
from orchestrate.execute.keeper.identity import has_identity
from orchestrate.execute.keeper.journal import breaks_in, read_facts
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    TAKES_SLOTS,
    WARDEN_LOCK,
    bytes_of,
    is_locked,
    pack,
)
from orchestrate.execute.reasons import COPIED
from orchestrate.record import record, replace
from orchestrate.regex import regex

ATTEMPT_ID = regex(r"[A-Za-z0-9_~%-][A-Za-z0-9._:/@\[\]()%~-]{0,199}\Z")


@record
class Request:
    """A job as the keeper takes it (`base.Job`): its paths are absolute.

    The `tee_path` is made or emptied in any case; with `tee_root` it is there already and must
    really lie below that folder. A `guarded` program is killed by the kernel even if its warden,
    the keeper and the keeper's guardian are all killed in the same instant; any other would then
    run until the run's next keeper finds it. Only a real fork can set the guard up.
    """

    attempt: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path | str
    stdout_path: Path | str
    stderr_path: Path | str
    stdin: Path | bytes | None = None
    tee_path: Path | str | None = None
    tee_root: Path | str | None = None
    timeout_s: float | None = None
    silence_s: float | None = None
    grace_s: float = 5.0
    secrets: tuple[str, ...] = ()
    guarded: bool = True
    lease_until: float | None = None
    slot: Path | str | None = None


@record
class Ended:
    """The exit is on record."""

    exit: Exit


@record
class Unsettled:
    """Claimed, no exit, and no process is left that could record one; it may be alive nevertheless.

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
    """`look`, for an earlier attempt: of a journal that is not whole it may be what is missing.

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
        return Lost("the keeper's journal was damaged, and it is unknown whether it was started")
    if is_announced and "gone" in breaks:
        return Lost("the keeper's journal was deleted, and it is unknown how it ended")
    if is_announced and "copy" in breaks:
        return Lost(COPIED)
    return found


def are_wardens_left(folder: Path) -> bool:
    return is_locked(str(folder / WARDEN_LOCK), also_shared=True)


def exit_of(body: bytes) -> Exit:
    values, _ = _read_json(body.decode("ascii"))
    for name in ("stdout", "stderr"):
        values[name] = None if values[name] is None else bytes_of(values[name])
    if "output_error" in values:
        # A keeper of an earlier version knew one fault of all outputs.
        values["stdout_fault"] = values.pop("output_error")
    return Exit(**values)


# What `json.loads` does, but for its search for encodings and blanks.
_read_json = json.JSONDecoder().raw_decode


def reason_of(body: bytes) -> str:
    return str(json.loads(body)["reason"])


class Packer:
    """Makes what travels of requests; mostly all of a run have the same environment."""

    def __init__(self) -> None:
        self._environment: tuple[dict[str, str], bytes] = ({}, b"")

    def pack(self, request: Request, takes: tuple[str, ...] = (TAKES_SLOTS,)) -> bytes:
        """`takes` is what the keeper says that it takes; without it a slot is the client's."""
        if not ATTEMPT_ID.match(request.attempt):
            raise InternalError(f"{request.attempt!r} cannot be the name of an attempt")
        env, packed_env = self._environment
        if env != request.env:
            packed_env = pack(bytes_of(text) for item in request.env.items() for text in item)
            # A copy, because a caller may change his.
            self._environment = (dict(request.env), packed_env)
        if TAKES_SLOTS not in takes and request.slot is not None:
            request = replace(request, slot=None)
        return _pack_request(request, packed_env)


def _pack_request(request: Request, packed_env: bytes) -> bytes:
    stdin = request.stdin
    # In the order of `REQUEST_FIELDS`.
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
    if request.lease_until is not None or request.slot is not None:
        fields["lease_until"] = _packed_number(request.lease_until)
    if request.slot is not None:
        fields["slot"] = _packed_path(request.slot)
    return pack(fields.values())


def _packed_number(number: float | None) -> bytes:
    return b"" if number is None else repr(float(number)).encode("ascii")


def _packed_path(path: Path | str) -> bytes:
    packed = os.fsencode(path)
    if not packed.startswith(b"/"):
        raise InternalError(f"the paths of a request must be absolute: {path}")
    return packed
