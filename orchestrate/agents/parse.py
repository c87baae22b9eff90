"""Reading what agent programs print: one JSON object, an array of them, or JSON lines.

Which of the three it is depends on the program, its version and its user's own settings, so all are
accepted everywhere, in any order of keys. Lines that are not JSON (warnings, banners) are passed
over. Memory is bounded: a line is dropped when no sensible event is that long.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from orchestrate.regex import regex

Event = dict[str, Any]

# The longest answers are a few MB; tool output that an event repeats can be larger.
LONGEST_LINE = 64 << 20
LONGEST_WORDS = 200
_NO_TEXT = regex(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")
_ESCAPE = regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def read_events(path: Path, go_on: Callable[[], None] = lambda: None) -> Iterator[Event]:
    """The events in a program's output file, oldest first; none if it printed nothing.

    `go_on` is called before each line and may raise: there can be gigabytes.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        yield from _events(file, go_on)


def events_in(output: bytes) -> Iterator[Event]:
    """The events in a piece of output, oldest first."""
    yield from _events(io.BytesIO(output))


def _events(stream: BinaryIO, go_on: Callable[[], None] = lambda: None) -> Iterator[Event]:
    may_be_one_document = True
    for line in _lines(stream):
        go_on()
        found = events_on(line)
        if found:
            may_be_one_document = False
            yield from found
        elif may_be_one_document and line.strip()[:1] in (b"{", b"["):
            # A document over many lines? There is one at most, so that is tried only once.
            may_be_one_document = False
            behind = stream.tell()
            if found := _parse_document(line + stream.read(LONGEST_LINE)):
                yield from found
                return
            stream.seek(behind)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE):
        if line.endswith(b"\n") or len(line) < LONGEST_LINE:
            yield line
            continue
        while rest := stream.readline(LONGEST_LINE):
            if rest.endswith(b"\n"):
                break


def events_on(line: bytes) -> list[Event]:
    """The events on a line; none if it is not JSON."""
    text = line.removeprefix(b"\xef\xbb\xbf").strip()
    # Looking at both ends is much quicker than letting the parser find out.
    if text[:1] + text[-1:] not in (b"{}", b"[]"):
        return []
    return _events_of(_load(text.decode("utf-8", "replace")))


def _parse_document(data: bytes) -> list[Event]:
    try:
        value, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return []
    return _events_of(value)


def _events_of(value: Any) -> list[Event]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# Values out of events. A program may change its format, so nothing is taken for granted.


def text_at(value: Any, *keys: str | int) -> str:
    """The text that a path of keys leads to, or ''."""
    found = value_at(value, *keys)
    return found if isinstance(found, str) else ""


def whole_at(value: Any, *keys: str | int) -> int | None:
    """The whole number that a path of keys leads to."""
    found = value_at(value, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def number_at(value: Any, *keys: str | int) -> float | None:
    """The finite number that a path of keys leads to."""
    found = value_at(value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def map_at(value: Any, *keys: str | int) -> Event:
    """The mapping that a path of keys leads to, or an empty one."""
    found = value_at(value, *keys)
    return found if isinstance(found, dict) else {}


def list_at(value: Any, *keys: str | int) -> list[Any]:
    """The list that a path of keys leads to, or an empty one."""
    found = value_at(value, *keys)
    return found if isinstance(found, list) else []


def value_at(value: Any, *keys: str | int) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def total(*counts: int | None) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def plain_text(text: str) -> str:
    """The text without colours and other sequences that a terminal acts on."""
    return _ESCAPE.sub("", text)


def one_line(text: str, most: int = LONGEST_WORDS) -> str:
    """The text for a line on a terminal: no control characters, not too long."""
    line = " ".join(_NO_TEXT.sub(" ", plain_text(text)).split())
    return line if len(line) <= most else line[: most - 1] + "…"
