"""Attempts of a keeper that died: makes sure that they are dead, then says so."""

from __future__ import annotations

import time

from orchestrate.process import tree
from orchestrate.process.journal import Journal
from orchestrate.process.protocol import MARKER, Refused

_END_PATIENCE_S = 15.0


def settle_lost(journal: Journal) -> None:
    mark = f"{MARKER}={journal.token}:".encode("ascii")
    if tree.end_marked(mark, _END_PATIENCE_S):
        raise Refused("processes of an earlier attempt cannot be ended")
    for attempt in sorted(journal.unsettled):
        journal.reserve(1)
        reason = "its keeper ended without recording an exit"
        journal.append("lost", attempt, {"reason": reason, "at": time.time()})
    journal.unsettled = set()
