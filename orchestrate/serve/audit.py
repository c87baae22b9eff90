"""The record of changes: who asked the console for what, and from where."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Literal

from orchestrate.state.durable import dump_json
from orchestrate.state.locks import user_state_folder
from orchestrate.state.times import timestamp

Who = Literal["page", "key", "protocol"]


def note_change(
    environment: Mapping[str, str], who: Who, place: str, what: str, run: str = ""
) -> None:
    """Add a line to `audit.jsonl`; one write, so that lines of several servers do not mix."""
    folder = user_state_folder(environment)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = {"at": timestamp(time.time()), "who": who, "from": place, "what": what, "run": run}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder / "audit.jsonl", flags, 0o600)
    try:
        os.write(descriptor, dump_json(told).rstrip() + b"\n")
    finally:
        os.close(descriptor)
