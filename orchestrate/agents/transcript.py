"""Makes the transcript of a turn from a program's output, as it comes.

An adapter says which pieces one event has; here they become passages: deltas are joined, results
find their calls, long texts are cut. Garbage is passed over, and memory is bounded whatever comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from orchestrate.agents.parse import Event, events_on, one_line, plain_text, text_at
from orchestrate.record import record, replace
from orchestrate.regex import regex
from orchestrate.transcript import MOST_RESULT_LINES, Activity, Doing, Kind, Passage

# Masks a text; of one that is not whole, what may be the beginning of a secret is held back.
Mask = Callable[[str, bool], str]
_LONGEST_LINE = 8 << 20
_LONGEST_TEXT = 40_000
_LONGEST_ID = 200
_MOST_CALLS = 200
_CONTROL = regex(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Which of a tool's inputs says what it does; else the first text among them.
_TELLING = ("command", "file_path", "filePath", "path", "pattern", "query", "url")


@record
class Piece:
    """What one event says: a passage, or with `is_delta` some more of the last one of its kind.

    `is_answer`: the turn's answer once more, which is not news if it was said already.
    """

    kind: Kind
    text: str = ""
    tool: str = ""
    call: str = ""
    is_error: bool = False
    is_delta: bool = False
    is_answer: bool = False


def call_piece(tool: str, call: str, inputs: Event, writers: Iterable[str] = ()) -> Piece:
    """A tool that begins; one of the `writers` writes the file that its inputs name."""
    named = next((value for key in _TELLING if (value := text_at(inputs, key))), "")
    shown = named or next((value for value in inputs.values() if isinstance(value, str)), "")
    return Piece("wrote" if tool in writers else "runs", one_line(shown), tool or "a tool", call)


def latest_text(pieces: Iterable[Piece]) -> str:
    """The last of some pieces as words; results, thoughts, deltas and repetitions have none."""
    words = ""
    for piece in pieces:
        if piece.kind in ("runs", "wrote"):
            words = f"{piece.tool}: {piece.text}"
        elif piece.kind in ("said", "note") and not piece.is_answer and not piece.is_delta:
            words = piece.text or words
    return words


def texts_in(content: Any) -> str:
    """The text of a message's content: a string, or parts that have some."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(filter(None, (text_at(part, "text") for part in parts)))


def unmasked(text: str, _: bool) -> str:
    return text


class EventTranscript:
    """The transcript of a program that prints events, one a line."""

    def __init__(
        self, pieces_of: Callable[[Event], Iterable[Piece]], mask: Mask = unmasked
    ) -> None:
        self._pieces_of = pieces_of
        self._mask = mask
        self._lines = _Lines()
        self._next = 0
        # The passage that deltas go on with, its text so far, and how much more there was.
        self._open: Passage | None = None
        self._text = ""
        self._more = 0
        # The calls that have no result yet, oldest first.
        self._calls: dict[str, Passage] = {}
        self._last_said = ""
        # The newest passage of words that are whole.
        self._said: Passage | None = None
        # The newest note.
        self._noted: Passage | None = None
        self._activity: Activity = ""
        self._words = ""
        # What `feed` answers with, by number.
        self._changed: dict[int, Passage] = {}

    @property
    def doing(self) -> Doing:
        return Doing("tool" if self._calls else self._activity, self._words)

    def feed(self, data: bytes) -> list[Passage]:
        for line in self._lines.cut(data):
            self._read(line)
        if self._open is not None:
            self._show(is_whole=False)
        return self._take_changed()

    def finish(self) -> list[Passage]:
        self._read(self._lines.rest())
        self._close()
        self._calls.clear()
        self._activity = ""
        return self._take_changed()

    def _take_changed(self) -> list[Passage]:
        changed, self._changed = self._changed, {}
        return [*changed.values()]

    def _read(self, line: bytes | int) -> None:
        if isinstance(line, int):
            self._add(Piece("note", f"an event of {line:,} bytes is left out"))
            return
        events = events_on(line)
        for event in events:
            self._activity = "model"
            for piece in self._pieces_of(event):
                self._add(piece)
        text = line.strip()
        # What stands beside the events is a warning or a banner; of a torn event nothing is shown.
        if text and not events and text[:1] not in b"{[" and text[-1:] not in b"}]":
            self._add(Piece("note", text.decode("utf-8", "replace")))

    def _add(self, piece: Piece) -> None:
        if len(piece.call) > _LONGEST_ID:
            piece = replace(piece, call=piece.call[:_LONGEST_ID])
        match piece.kind:
            case "said" | "thinking":
                self._speak(piece)
            case "result":
                self._end_call(piece)
            case "note":
                self._tell(piece)
            case "runs" | "wrote":
                self._begin_call(piece)

    def _speak(self, piece: Piece) -> None:
        if self._open is None or self._open.kind != piece.kind or piece.is_answer:
            self._close()
        if piece.is_answer and self._is_known(piece.text):
            return
        if piece.is_delta:
            if self._open is None:
                self._open = Passage(self._number(), piece.kind, "", is_open=True)
            room = _LONGEST_TEXT - len(self._text)
            self._text += piece.text[:room]
            self._more += max(0, len(piece.text) - room)
        elif piece.text.strip():
            # The whole of what came in pieces stands in the place of them.
            if self._open is None:
                self._open = Passage(self._number(), piece.kind, "")
            self._text = piece.text[:_LONGEST_TEXT]
            self._more = len(piece.text) - len(self._text)
            self._close()

    def _is_known(self, answer: str) -> bool:
        text = self._clean(answer, is_whole=True).strip()
        said = self._last_said
        return not text or bool(
            said and (text.endswith(said) or text[:_LONGEST_TEXT].strip() == said)
        )

    def _show(self, *, is_whole: bool) -> None:
        assert self._open is not None
        text = self._clean(self._text, is_whole=is_whole)
        if not text.strip():
            return
        passage = replace(self._open, text=text, left_out=self._more, is_open=not is_whole)
        self._put(passage)
        if passage.kind == "said":
            self._words = one_line(text)
            self._last_said = text.strip()
            self._said = passage

    def _close(self) -> None:
        if self._open is not None:
            self._show(is_whole=True)
            self._open, self._text, self._more = None, "", 0

    def _begin_call(self, piece: Piece) -> None:
        self._close()
        if piece.call in self._calls:
            return
        passage = self._tell(piece)
        if passage is not None and piece.call:
            self._calls[piece.call] = passage
            if len(self._calls) > _MOST_CALLS:
                del self._calls[next(iter(self._calls))]

    def _end_call(self, piece: Piece) -> None:
        self._close()
        began = self._calls.pop(piece.call, None)
        text, hidden = piece.text, 0
        if len(text) > 2 * _LONGEST_TEXT:
            # Of megabytes only the lines are counted that are not shown anyway.
            hidden = text.count("\n", _LONGEST_TEXT, -_LONGEST_TEXT)
            text = f"{text[:_LONGEST_TEXT]}\n{text[-_LONGEST_TEXT:]}"
        clean = self._clean(text, is_whole=True)
        lines = [line for line in clean.splitlines() if line.strip()]
        is_quiet = not lines or (began is not None and began.kind == "wrote")
        if is_quiet and not piece.is_error:
            return
        left_out = max(0, len(lines) + hidden - MOST_RESULT_LINES)
        if len(lines) > MOST_RESULT_LINES:
            lines = [lines[0], *lines[1 - MOST_RESULT_LINES :]]
        tool = piece.tool or ("" if began is None else began.tool)
        shown = "\n".join(map(one_line, lines))
        found = Passage(self._number(), "result", shown, one_line(tool), piece.call, piece.is_error)
        self._put(replace(found, left_out=left_out))

    def _tell(self, piece: Piece) -> Passage | None:
        self._close()
        text = _message_in(piece.text) if piece.kind == "note" else piece.text
        text, tool = one_line(self._mask(text, True)), one_line(piece.tool)
        if not text and not tool:
            return None
        self._words = f"{tool}: {text}" if tool else text
        again = self._told_before(piece, text) if piece.kind == "note" else None
        if again is not None:
            is_error = again.is_error or piece.is_error
            passage = replace(again, kind="note", text=text, is_error=is_error)
        else:
            passage = Passage(self._number(), piece.kind, text, tool, piece.call, piece.is_error)
        self._noted = passage if piece.kind == "note" else None
        return self._put(passage)

    def _told_before(self, piece: Piece, text: str) -> Passage | None:
        """Programs tell of an error when it comes, and once more when they end by it.

        Some have it said by the agent first.
        """
        for told in (self._noted, self._said if piece.is_error else None):
            is_newest = told is not None and told.number + 1 == self._next
            if told is not None and is_newest and one_line(told.text) == text:
                return told
        return None

    def _put(self, passage: Passage) -> Passage:
        self._changed[passage.number] = passage
        return passage

    def _clean(self, text: str, *, is_whole: bool) -> str:
        plain = plain_text(self._mask(text, is_whole)).replace("\r\n", "\n")
        return _CONTROL.sub("", plain)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1


def _message_in(text: str) -> str:
    """A service's own words where a program passes on the whole of its error."""
    document = text[text.find("{") : text.rfind("}") + 1]
    for error in events_on(document.encode("utf-8", "replace")):
        text = text_at(error, "error", "message") or text_at(error, "message") or text
    return text


class LineTranscript:
    """The transcript of a program that prints plain text: a passage a line."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._next = 0
        self._words = ""

    @property
    def doing(self) -> Doing:
        return Doing("", self._words)

    def feed(self, data: bytes) -> list[Passage]:
        found = self._passages(self._lines.cut(data))
        if begun := self._lines.begun:
            self._words = _now_said(begun) or self._words
        return found

    def finish(self) -> list[Passage]:
        return self._passages([self._lines.rest()])

    def _passages(self, lines: Iterable[bytes | int]) -> list[Passage]:
        found = []
        for line in lines:
            text = f"({line:,} bytes)" if isinstance(line, int) else _now_said(line)
            if text:
                found.append(Passage(self._next, "said", text))
                self._next += 1
                self._words = text
        return found


def _now_said(line: bytes) -> str:
    """What a line says; of one that was drawn over, what it says now."""
    parts = reversed(line[-_LONGEST_TEXT:].decode("utf-8", "replace").split("\r"))
    return next(filter(None, map(one_line, parts)), "")


class _Lines:
    """Cuts an output into lines; of one that is too long, only its length is kept."""

    def __init__(self) -> None:
        self.begun = b""
        self._dropped = 0

    def cut(self, data: bytes) -> Iterator[bytes | int]:
        *whole, last = data.split(b"\n")
        for line in whole:
            self._extend(line)
            yield self._dropped or self.begun
            self.begun, self._dropped = b"", 0
        self._extend(last)

    def rest(self) -> bytes | int:
        last = self._dropped or self.begun
        self.begun, self._dropped = b"", 0
        return last

    def _extend(self, data: bytes) -> None:
        if self._dropped or len(self.begun) + len(data) > _LONGEST_LINE:
            self._dropped += len(self.begun) + len(data)
            self.begun = b""
        elif data:
            self.begun += data
