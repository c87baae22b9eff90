"""What an agent does in one turn, as people read it: passages made from its program's events.

The words are fixed here, so that adapters can say them and every reader can show them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from orchestrate.record import record

# `said`, `thinking`: the model's words. `runs`: a tool begins. `wrote`: a tool that writes a file.
# `result`: what a tool gave. `note`: what the program says of itself (it waits, it failed).
Kind = Literal["said", "thinking", "runs", "wrote", "result", "note"]
# A tool runs, or it is the model's turn; '' before the first event and after the last.
Activity = Literal["", "tool", "model"]

MOST_RESULT_LINES = 3


@record
class Passage:
    """One thing that was said or done. The text is plain: masked, without control characters.

    While `is_open`, more of it may come: a later passage with its number stands in its place.
    """

    number: int
    kind: Kind
    text: str
    # Of `runs`, `wrote` and `result`: the tool, and the call that a result belongs to.
    tool: str = ""
    call: str = ""
    is_error: bool = False
    is_open: bool = False
    # How many lines of a result are missing behind its first one, or how many characters of
    # another text at its end.
    left_out: int = 0


@record
class Doing:
    """What goes on at the end of a transcript; `words` are the last that say something."""

    activity: Activity = ""
    words: str = ""


class Transcript(Protocol):
    """The transcript of one turn, fed with its program's output. Its memory is bounded."""

    @property
    def doing(self) -> Doing: ...

    def feed(self, data: bytes) -> list[Passage]:
        """The passages that are new, or have changed, with some more bytes of the output."""

    def finish(self) -> list[Passage]:
        """Those that end with the output."""


# The transcript of a turn with a backend, '' for a command; None if no program stands behind it.
TranscriptOf = Callable[[str], Transcript | None]
