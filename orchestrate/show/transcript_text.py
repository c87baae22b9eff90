"""A turn as lines: what the agent says, `>` what it runs and writes, `|` what that gave."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from orchestrate.plan.visible import plural, visible, visible_lines
from orchestrate.show.printing import read_source
from orchestrate.view.step_logs import source_of
from orchestrate.view.transcripts import follow_turn

if TYPE_CHECKING:
    from orchestrate.state.runs import Run
    from orchestrate.transcript import Passage, TranscriptOf
    from orchestrate.view.step_logs import StepLog

_MOST_THOUGHTS = 3


class PassageLines:
    """Makes lines of passages as they come; of one that is open, those that are whole."""

    def __init__(self) -> None:
        self._number = -1
        self._shown = 0
        self.last_said = ""

    def of(self, passages: Iterable[Passage]) -> Iterator[str]:
        for passage in passages:
            if passage.number != self._number:
                self._number, self._shown = passage.number, 0
            if passage.kind == "said":
                self.last_said = passage.text
            lines = _lines_of(passage)
            whole = lines[:-1] if passage.is_open else lines
            yield from whole[self._shown :]
            self._shown = max(self._shown, len(whole))


def _lines_of(passage: Passage) -> list[str]:
    lines = visible_lines(passage.text).rstrip("\n").split("\n")
    match passage.kind:
        case "said":
            more = f"[… {passage.left_out:,} more characters]" if passage.left_out else ""
            return [*lines, *filter(None, [more])]
        case "thinking" if passage.is_open:
            return []
        case "thinking":
            hidden = len(lines) - _MOST_THOUGHTS
            more = f"~ … ({plural(hidden, 'more line')})" if hidden > 0 else ""
            return [*(f"~ {line}" for line in lines[:_MOST_THOUGHTS]), *filter(None, [more])]
        case "runs":
            return [f"> {visible(passage.tool)}: {visible(passage.text)}"]
        case "wrote":
            return [f"> writes {visible(passage.text)}"]
        case "result":
            if passage.left_out:
                lines[0] += f" … (+{plural(passage.left_out, 'line')})"
            mark = "!" if passage.is_error else "|"
            return [f"  {mark} {line}".rstrip() for line in lines]
        case "note":
            return [f"- {visible(passage.text)}"]


def last_line_of(passage: Passage) -> str:
    """The end of a passage, which is where a person reads along."""
    return next((line for line in reversed(_lines_of(passage)) if line.strip()), "~ …")


def turn_lines(run: Run, entry: StepLog, transcript_of: TranscriptOf) -> Iterator[str] | None:
    """What the agent of an attempt did and answered; None if there are no events of it."""
    is_agents = entry.result.agent is not None and entry.result.backend
    follower = follow_turn(run, entry, transcript_of) if is_agents else None
    if follower is None or not follower.is_there:
        return None

    def lines() -> Iterator[str]:
        made = PassageLines()
        try:
            while news := follower.news():
                yield from made.of(news)
        finally:
            follower.close()
        if entry.is_running:
            return
        yield from made.of(follower.finish())
        # What was not said as it is kept: by a program that gives its answer in a form of its own.
        if entry.result.response_length is not None:
            answer = read_source(source_of(run, entry, "stdout"), None).strip()
            said = made.last_said.strip()
            if answer and not (said and answer.startswith(said)):
                yield from visible_lines(answer).split("\n")

    return lines()


def last_turn_lines(run: Run, entry: StepLog, transcript_of: TranscriptOf, most: int) -> list[str]:
    """The end of a transcript, for one who is told that the turn has failed."""
    lines = turn_lines(run, entry, transcript_of)
    return [] if lines is None else [*deque(lines, maxlen=most)]
