"""What running programs said last and do now, and how long ago: read along from their outputs."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

from orchestrate.plan.visible import visible
from orchestrate.record import field, mutable_record, record
from orchestrate.show.live.picture import RunningProgram
from orchestrate.show.transcript_text import last_line_of
from orchestrate.transcript import Activity, Doing, Passage, Transcript, TranscriptOf
from orchestrate.view.transcripts import TurnFollower, merge

# Of an output that was not read along, only the end: events can be long, and a tool that began
# before that is not known.
_TAIL = 256 * 1024
_MOST_LINES = 3


@record
class Tail:
    """The end of a program's output. `silent_s` None: there is no program that could speak."""

    words: str
    silent_s: float | None
    has_spoken: bool
    activity: Activity = ""
    # Of an agent: the last things that it said and did, a line each.
    lines: tuple[str, ...] = ()


_NOBODY = Tail("", None, False)


@mutable_record
class _Read:
    """An output as far as it was read."""

    transcript: Transcript
    size: int = 0
    passages: deque[Passage] = field(default_factory=lambda: deque(maxlen=_MOST_LINES))


class Tails:
    """Reads along with outputs: of each only what is new, and only while it is shown."""

    def __init__(self, logs: Path, transcript_of: TranscriptOf) -> None:
        self._logs = logs
        self._transcript_of = transcript_of
        self._known: dict[str, _Read] = {}

    def of(self, program: RunningProgram, now: float) -> Tail:
        if self._transcript_of(program.backend) is None:
            return _NOBODY
        files = [self._stamp(f"{program.log}.{stream}") for stream in ("stdout", "stderr")]
        heard = [found for found in files if found is not None]
        if not heard:
            return Tail("", now - program.began, False)
        spoke_at = max(at for _, _, at in heard) / 1e9
        said = [(self._doing(name, size, program.backend), at) for name, size, at in heard]
        if not program.backend:
            # What was said last counts; but the events of an agent say more than its warnings.
            said.sort(key=lambda found: -found[1])
        words = next((doing.words for doing, _ in said if doing.words), "")
        activity: Activity = next((doing.activity for doing, _ in said if doing.activity), "")
        silent_s = max(0.0, now - max(spoke_at, program.began))
        known = self._known.get(f"{program.log}.stdout") if program.backend else None
        last = () if known is None else tuple(map(last_line_of, known.passages))
        return Tail(visible(words), silent_s, True, activity, last)

    def forget_all_but(self, programs: list[RunningProgram]) -> None:
        """Only what is shown is remembered."""
        shown = {f"{p.log}.{stream}" for p in programs for stream in ("stdout", "stderr")}
        for name in self._known.keys() - shown:
            del self._known[name]

    def _stamp(self, name: str) -> tuple[str, int, int] | None:
        try:
            found = os.lstat(self._logs / name)
        except OSError:
            return None
        return (name, found.st_size, found.st_mtime_ns) if found.st_size else None

    def _doing(self, name: str, size: int, backend: str) -> Doing:
        known = self._known.get(name)
        if known is None or not 0 <= size - known.size <= _TAIL:
            backend = "" if name.endswith(".stderr") else backend
            transcript = self._transcript_of(backend)
            assert transcript is not None
            known = self._known[name] = _Read(transcript, max(0, size - _TAIL))
        if size > known.size:
            follower = TurnFollower(self._logs / name, known.transcript, known.size)
            while news := follower.news():
                merge(known.passages, news)
            known.size = follower.offset
            follower.close()
        return known.transcript.doing
