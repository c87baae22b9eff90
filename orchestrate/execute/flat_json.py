"""Flat JSON objects in ASCII, written without the json module.

The keeper's half of the package writes its records with it: importing `json` would double the time
that a keeper takes to start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Scalar = str | int | float | None


class _Escapes(dict[int, str]):
    """How JSON in ASCII writes each character that it does not write as it is; made on demand."""

    def __missing__(self, code: int) -> str:
        if 0x20 <= code < 0x7F:
            spelling = chr(code)
        elif code > 0xFFFF:
            high, low = divmod(code - 0x10000, 0x400)
            spelling = f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
        else:
            spelling = f"\\u{code:04x}"
        self[code] = spelling
        return spelling


_SHORT = {'"': '\\"', "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ESCAPES = _Escapes({ord(character): spelling for character, spelling in _SHORT.items()})


def json_text(text: str) -> str:
    """The inside of a JSON string, in ASCII; lone surrogates stay what they are."""
    return text.translate(_ESCAPES)


def json_of(fields: Mapping[str, Scalar]) -> bytes:
    """A flat JSON object."""
    parts = []
    for name, value in fields.items():
        if isinstance(value, str):
            parts.append(f'"{name}":"{json_text(value)}"')
        elif value is None:
            parts.append(f'"{name}":null')
        elif isinstance(value, bool):
            parts.append(f'"{name}":{"true" if value else "false"}')
        else:
            parts.append(f'"{name}":{value!r}')
    return b"{%b}" % ",".join(parts).encode("ascii")
