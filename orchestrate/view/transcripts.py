"""The transcript of an attempt, read from its log: as it stands, or again and again as it grows."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.record import field_names, record
from orchestrate.transcript import Doing, Passage, Transcript, TranscriptOf

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.state.runs import Run
    from orchestrate.view.step_logs import StepLog

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_BLOCK = 256 * 1024
_NOTHING = Doing()


@record
class TurnTranscript:
    """The passages of a turn, and how many earlier ones are left out."""

    passages: tuple[Passage, ...] = ()
    left_out: int = 0
    doing: Doing = _NOTHING


def read_turn(
    run: Run, entry: StepLog, transcript_of: TranscriptOf, most: int = 1000
) -> TurnTranscript:
    """The last passages of the attempt that `entry` is about; none if no program stood behind it.

    Its whole log is read, in blocks; an attempt that is over has nothing open in the end.
    """
    follower = follow_turn(run, entry, transcript_of)
    if follower is None:
        return TurnTranscript()
    try:
        found: deque[Passage] = deque(maxlen=most)
        while news := follower.news():
            merge(found, news)
        doing = follower.doing
        if not entry.is_running:
            merge(found, follower.finish())
    finally:
        follower.close()
    return TurnTranscript((*found,), found[0].number if found else 0, doing)


def as_json(passage: Passage) -> dict[str, Any]:
    """A passage for programs, without what it does not have."""
    given = {name: getattr(passage, name) for name in field_names(passage)}
    return {name: value for name, value in given.items() if value or name in ("number", "text")}


def follow_turn(run: Run, entry: StepLog, transcript_of: TranscriptOf) -> TurnFollower | None:
    """Reads along while the attempt is at work; None if no program stands behind the step."""
    transcript = transcript_of(entry.result.backend)
    path = run.logs / f"{entry.files}.stdout"
    return None if transcript is None else TurnFollower(path, transcript)


def merge(found: deque[Passage], news: list[Passage]) -> None:
    """Add passages; one that has changed takes the place of the newest, which it was."""
    for passage in news:
        if found and found[-1].number == passage.number:
            found[-1] = passage
        else:
            found.append(passage)


class TurnFollower:
    """Feeds a transcript with what a log has got since the last look."""

    def __init__(self, path: Path, transcript: Transcript, offset: int = 0) -> None:
        self._path = path
        self._transcript = transcript
        self._descriptor = -1
        self.offset = offset

    @property
    def doing(self) -> Doing:
        return self._transcript.doing

    @property
    def is_there(self) -> bool:
        """Is there a log to read?"""
        if self._descriptor < 0:
            with suppress(OSError):
                self._descriptor = os.open(self._path, _FLAGS)
        return self._descriptor >= 0

    def news(self) -> list[Passage]:
        """The passages that are new or have changed; [] when the log has nothing more for now."""
        while data := self._read():
            if passages := self._transcript.feed(data):
                return passages
        return []

    def finish(self) -> list[Passage]:
        """What is open when nothing more will come."""
        return self._transcript.finish()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bytes:
        if not self.is_there:
            return b""
        try:
            data = os.pread(self._descriptor, _BLOCK, self.offset)
        except OSError:
            return b""
        self.offset += len(data)
        return data
