"""An answer becomes a value: JSON where it is JSON, else text (rulings §8)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from orchestrate.engine.capture import is_too_deep
from orchestrate.engine.masked_keys import pairs_hook
from orchestrate.record import record
from orchestrate.regex import regex

_FENCE = "```"
_OPENING = regex(r"[{\[]")
# A hostile text is all brackets, and each try may read to its end.
_MOST_OPENINGS = 1000


def structured(text: str) -> Any:
    """Without one enclosing fence it is JSON; else its last fenced `json` block is; else text."""
    lines = text.split("\n") if _FENCE in text else []
    blocks = list(_blocks(lines))
    value = _parse(blocks[0].content if _encloses(blocks, lines) else text)
    if value is not NO_JSON:
        return value
    fenced = [block for block in blocks if block.language == "json"]
    if fenced:
        value = _parse(fenced[-1].content)
        if value is not NO_JSON:
            return value
    return text


def find_json(text: str) -> Any:
    """What `parse_json` takes: the whole text, else the last fenced block, one of `json` before
    others, else the first object or array in the prose; `NO_JSON` if there is none."""
    value = _parse(text)
    if value is not NO_JSON:
        return value
    blocks = list(_blocks(text.split("\n"))) if _FENCE in text else []
    for block in sorted(blocks, key=lambda block: (block.language != "json", -block.first)):
        value = _parse(block.content)
        if value is not NO_JSON:
            return value
    return _first_in_prose(text)


def _first_in_prose(text: str) -> Any:
    decoder = json.JSONDecoder(
        parse_constant=_refuse, parse_float=_finite, object_pairs_hook=pairs_hook(text)
    )
    for opening in islice(_OPENING.finditer(text), _MOST_OPENINGS):
        try:
            value, _ = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        if not is_too_deep(value):
            return value
    return NO_JSON


@record
class _Block:
    """What stands between two fences, and the lines of these."""

    language: str
    content: str
    first: int
    last: int


def _encloses(blocks: list[_Block], lines: list[str]) -> bool:
    """Is the whole text one block?"""
    if len(blocks) != 1:
        return False
    outside = lines[: blocks[0].first] + lines[blocks[0].last + 1 :]
    return not any(line.strip() for line in outside)


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """The fenced blocks. Fences are lines of their own: JSON has no line break inside a string, so
    what looks like a fence in one is none."""
    number = 0
    while number < len(lines):
        opening = _opening(lines[number])
        start, number = number, number + 1
        if opening is None:
            continue
        fence, words = opening
        language = words[0].lower() if words else ""
        while number < len(lines) and not _closes(lines[number], fence, language):
            number += 1
        if number == len(lines):
            return
        # An agent may write the closing fence right behind the last bracket.
        inside = [*lines[start + 1 : number], lines[number].rstrip().rstrip("`")]
        yield _Block(language, "\n".join(inside), start, number)
        number += 1


def _opening(line: str) -> tuple[str, list[str]] | None:
    """The marks of a line that opens a block, and the words behind them."""
    bare = line.strip()
    words = bare.lstrip("`")
    fence = bare[: len(bare) - len(words)]
    return None if len(fence) < len(_FENCE) or "`" in words else (fence, words.split())


def _closes(line: str, fence: str, language: str) -> bool:
    bare = line.strip()
    if not bare.endswith(fence):
        return False
    return not bare.strip("`") or language in ("", "json")


NO_JSON: Any = object()


def _parse(text: str) -> Any:
    try:
        value = json.loads(
            text.strip().removeprefix("\ufeff"), parse_constant=_refuse, parse_float=_finite,
            object_pairs_hook=pairs_hook(text),
        )  # fmt: skip
    except (ValueError, RecursionError):
        return NO_JSON
    return NO_JSON if is_too_deep(value) else value


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _finite(number: str) -> float:
    """JSON has numbers that no float holds; as infinity they could not be written down again."""
    value = float(number)
    if math.isinf(value):
        raise ValueError(number)
    return value
