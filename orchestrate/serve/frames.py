"""Frames of the protocol that are not larger than a client takes: cut texts, paged history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orchestrate.serve.sessions import cut

Json = dict[str, Any]
DEFAULT_KB, LEAST_KB, MOST_KB = 200, 50, 250
# What stands around the texts of a page.
_AROUND = 4096


def fitting(message: Json, most: int) -> str:
    """The message as text; its longest texts are cut in the middle until it fits."""
    text = _dumped(message)
    most_text = most
    while len(text.encode()) > most and most_text > 64:
        most_text //= 2
        text = _dumped(_shortened(message, most_text))
    return text


def _dumped(message: Json) -> str:
    # A lone surrogate, of a broken file name say, is no UTF-8: JSON can escape it.
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":"))
    return text


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, dict):
        return {name: _shortened(inner, most) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner, most) for inner in value[: max(1, most // 64)]]
    return value


def pages(session_id: str, news: list[Json], total: int, most: int) -> Iterator[Json]:
    """`session_history` in as many frames as it takes; the last one is complete."""
    page: list[Json] = []
    size = 0
    room = most - _AROUND
    groups: list[list[Json]] = []
    for message in news:
        length = len(_dumped(message).encode())
        short = message
        if length > room:
            short = {**message, "text": cut(message["text"], room // 4)}
            length = len(_dumped(short).encode())
        if page and size + length > room:
            groups.append(page)
            page, size = [], 0
        page.append(short)
        size += length + 1
    groups.append(page)
    for number, group in enumerate(groups, 1):
        yield {
            "type": "session_history",
            "session_id": session_id,
            "messages": group,
            "first_seq": group[0]["seq"] if group else None,
            "last_seq": group[-1]["seq"] if group else total,
            "next_seq": (group[-1]["seq"] if group else total) + 1,
            "is_complete": number == len(groups),
            "gap": None,
        }
