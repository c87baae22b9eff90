"""What a worker has promised: which activity stands for which sitting, on disk before it begins.

ROOT/
  worker.lock    held by the one worker of the root
  worker.id      a random name: by it a worker knows polls of its predecessor for its own
  notes/         a file for each sitting that is not reported yet
  sittings/RUN/  the keeper of a run's sittings, and what the engine said in each
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrate.digest import digest_of
from orchestrate.fleet.protocol import Decision, Order, Sitting, Timing, Wish
from orchestrate.record import record
from orchestrate.state.durable import dump_json, read_file, sync_folder, write_durably


@record
class Note:
    """A sitting, and the activity whose end it will be."""

    workflow_id: str
    workflow_run: str
    activity: str
    sitting: Sitting


class SittingNotes:
    """The notes of a worker's root."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "notes"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def add(self, note: Note) -> None:
        """One for each activity: a sitting may be asked for again by another one."""
        document = {
            "workflow_id": note.workflow_id, "workflow_run": note.workflow_run,
            "activity": note.activity, "sitting": asdict(note.sitting),
        }  # fmt: skip
        write_durably(self._path(note), dump_json(document))
        sync_folder(self._folder)

    def remove(self, note: Note) -> None:
        self._path(note).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Note]:
        for name in sorted(os.listdir(self._folder)):
            content = read_file(self._folder / name) if name.endswith(".json") else None
            if content is not None:
                document = json.loads(content)
                yield Note(
                    document["workflow_id"], document["workflow_run"], document["activity"],
                    sitting_of(document["sitting"]),
                )  # fmt: skip

    def _path(self, note: Note) -> Path:
        named = f"{note.workflow_run}/{note.activity}/{note.sitting.key}"
        return self._folder / f"{digest_of(named.encode())[-32:]}.json"


def sitting_of(document: dict[str, Any]) -> Sitting:
    """A sitting as it was written down."""
    wish = dict(document["wish"])
    return Sitting(
        key=document["key"],
        order=order_of(document["order"]),
        wish=Wish(**{**wish, "decisions": [Decision(**one) for one in wish["decisions"]]}),
        is_again=document["is_again"],
    )


def order_of(document: Mapping[str, Any]) -> Order:
    """An order as it was written down."""
    return Order(**{**document, "timing": Timing(**document["timing"])})
