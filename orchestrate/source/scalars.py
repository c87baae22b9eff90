"""What a plain scalar means: the core schema of YAML 1.2, and nothing of 1.1.

So `on`, `yes`, `1_000`, `12:30` and dates are strings, and a number is what JSON calls one.
"""

from __future__ import annotations

from orchestrate.regex import regex
from orchestrate.source.reader import ReadFault

_INTEGER = regex(r"[-+]?[0-9]+\Z")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_JSON = frozenset(
    sign + word
    for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
    for sign in ("", "-", "+")
)
_NUMBER_STARTS = frozenset("+-.0123456789")
# Longer numbers are not meant; Python itself refuses to convert more than 4,300 digits.
_MOST_DIGITS = 300

_ORDINARY = "write an ordinary number, or quote it to mean text"

Scalar = str | int | float | bool | None


def resolve_plain(text: str) -> Scalar:
    """The value of an unquoted scalar; raises `ReadFault` for numbers JSON cannot hold."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.match(text):
        return int(_bounded(text))
    if text.startswith(("0x", "0o")):
        return _resolve_based(text)
    if text in _NOT_JSON:
        raise ReadFault("E014", f"{text} is not a number JSON can hold", _ORDINARY)
    if _FLOAT.match(text):
        value = float(_bounded(text))
        if value in (float("inf"), float("-inf")):
            raise ReadFault("E014", f"{text[:40]} is too large a number", _ORDINARY)
        return value
    return text


def _resolve_based(text: str) -> Scalar:
    base = 16 if text[1] == "x" else 8
    try:
        return int(_bounded(text[2:]), base) if "_" not in text else text
    except ValueError:
        return text


def _bounded(text: str) -> str:
    if len(text) > _MOST_DIGITS:
        raise ReadFault("E014", f"a number of {len(text)} digits is too long", _ORDINARY)
    return text
