"""The folder that stands for a run elsewhere: `fleet.json` says where it is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate.errors import StateError
from orchestrate.fleet.seat import Seat, seat_of
from orchestrate.record import record
from orchestrate.state.durable import dump_json, read_file, sync_folder, write_durably
from orchestrate.state.locks import hide_from_git
from orchestrate.state.runs import ELSEWHERE, FETCHED, Run, Runs, point_latest

_FORMAT = 1


@record
class Stub:
    """A run on a machine of a pool; `host` is '' where a server decides on which one."""

    seat: Seat
    host: str
    pool: str
    file: str

    @property
    def is_on_server(self) -> bool:
        return not self.host


def write_stub(runs: Runs, stub: Stub, *, is_new: bool = True) -> Run:
    """The folder of a run that was started elsewhere; a new one is `latest` from now on."""
    run = Run(stub.seat.run, runs.folder / stub.seat.run)
    runs.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    hide_from_git(runs.folder)
    os.mkdir(run.root, 0o700)
    document = {
        "format": _FORMAT, "host": stub.host, "pool": stub.pool, "file": stub.file,
        "seat": stub.seat.to_json(),
    }  # fmt: skip
    write_durably(run.root / ELSEWHERE, dump_json(document, indent=2))
    sync_folder(runs.folder)
    if is_new:
        point_latest(runs, run.id)
    return run


def read_stub(run: Run) -> Stub | None:
    """Where a run is; None if it is here."""
    return _read(run.root / ELSEWHERE)


def read_fetched(run: Run) -> Stub | None:
    """Where a run was that is here now, and has still published something there."""
    return _read(run.root / FETCHED)


def _read(path: Path) -> Stub | None:
    content = read_file(path)
    if content is None:
        return None
    try:
        document: Mapping[str, Any] = json.loads(content)
        if document["format"] != _FORMAT:
            raise StateError(f"{path} has a format that this version does not know")
        return Stub(seat_of(document["seat"]), document["host"], document["pool"], document["file"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} is damaged: {error}") from error


def retire_stub(folder: Path, *, has_published: bool) -> None:
    """The run is here now; what it has published elsewhere is removed with it one day."""
    if has_published:
        os.replace(folder / ELSEWHERE, folder / FETCHED)
    else:
        (folder / ELSEWHERE).unlink(missing_ok=True)
    sync_folder(folder)
