"""How an agent is told to report an outcome, and how its report is read (A §2.2-2.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from orchestrate.engine.texts import clip
from orchestrate.record import record
from orchestrate.regex import regex

OTHER = "other"
PLACEHOLDER = "<brief description>"
_SCANNED_LINES = 5
_TOLERATED_LINES = 40
# In characters; an object with an outcome is short, and reading takes at most 40 times that.
_LONGEST_TOLERATED = 64 * 1024
_LONGEST_LABEL = 80
_LONGEST_MARKS = 40
_FENCE = "```"
# Not from `string`, which takes a millisecond to load.
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# White space, bullets, quote marks, emphasis, code.
_MARKS = " \t\r-+*_~`>\u2022\u00b7\"'\u201c\u201d\u2018\u2019\u00ab\u00bb"
_NUMBERED = regex(r"\A\d{1,3}[.)](?=\s|\Z)")
_NAMED = regex(r'"outcome"\s{0,40}:\s{0,40}"([^"\n]{1,200})"')
_LONGEST_SHOWN = 500
# Deeper than this is not an outcome; and the parser must not run out of stack over it.
_DEEPEST = 50


@record
class Outcome:
    """What the agent reported; `description` only for `other`."""

    name: str
    description: str | None = None


@record
class Unreadable:
    """Why there is no outcome; `malformed` is the line that was tried, if there was one."""

    error: str
    malformed: str = ""


class _Duplicate(ValueError):
    pass


def with_outcome_block(prompt: str, outcomes: tuple[str, ...]) -> str:
    """The whole prompt of a step: the author's text, two newlines, and what to end with."""
    return prompt + _outcome_block(outcomes)


def bare(prompt: str, outcomes: tuple[str, ...]) -> str:
    """The author's text of a whole prompt: a person is shown the outcomes in another way."""
    return prompt.removesuffix(_outcome_block(outcomes))


def _outcome_block(outcomes: tuple[str, ...]) -> str:
    return (
        "\n\nEnd your response with one of these JSON blocks on the last line:\n\n"
        f"{_examples(outcomes)}"
    )


def reminder(error: str, outcomes: tuple[str, ...]) -> str:
    """What is sent to the same session when the first answer could not be read."""
    return (
        "Your previous response did not include the required JSON outcome block.\n"
        "Please respond now with ONLY the JSON outcome on a single line.\n\n"
        f"Error: {error}\n\nValid responses:\n\n{_examples(outcomes)}\n\n"
        "Respond with ONLY the JSON block, nothing else."
    )


def _examples(outcomes: tuple[str, ...]) -> str:
    lines = [json.dumps({"outcome": name}) for name in sorted(set(outcomes) - {OTHER})]
    if OTHER in outcomes:
        lines.append(json.dumps({"outcome": OTHER, "otherDescription": PLACEHOLDER}))
    return "\n".join(lines)


def outcome_schema(outcomes: tuple[str, ...]) -> dict[str, Any]:
    """The answer to a reminder as a JSON Schema, for programs that hold their model to one.

    Services want every property required and none besides; so a description may be null, and that
    `other` needs one is said in words, and checked when it is read.
    """
    names = sorted(set(outcomes))
    properties: dict[str, Any] = {"outcome": {"type": "string", "enum": names}}
    if OTHER in names:
        properties["otherDescription"] = {
            "type": ["string", "null"],
            "description": f"Why, if the outcome is '{OTHER}': never blank then. Else null.",
        }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_outcome(text: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable:
    """The outcome in the last lines of an answer: by the letter first, then with tolerance."""
    found = _read_strictly(text, outcomes)
    if isinstance(found, Outcome):
        return found
    tolerated = _read_tolerantly(text, outcomes)
    if isinstance(tolerated, Outcome) or (tolerated is not None and not found.malformed):
        return tolerated
    return found


def _read_strictly(text: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable:
    """A line that is an object. Only the newest candidate is tried (rulings §7).

    What it says holds, whatever prose around it says: an agent may name the outcomes it ruled out.
    """
    lines = text.rstrip().rsplit("\n", _SCANNED_LINES)[-_SCANNED_LINES:]
    for line in reversed(lines):
        candidate = _unfenced(line.strip())
        if candidate.startswith("{") and candidate.endswith("}"):
            return _validate(_parse(candidate), candidate, outcomes)
    return Unreadable("No JSON block found in response")


def _unfenced(line: str) -> str:
    """Without the fence marks around it; a regular expression would take its time over blanks."""
    if line.startswith(_FENCE):
        line = line.lstrip("`").lstrip(_LETTERS).lstrip()
    if line.endswith(_FENCE):
        line = line.rstrip("`").rstrip()
    return line


# The tolerant reading: the last object, whatever an author of Markdown may put around it.


def _read_tolerantly(text: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable | None:
    """The last object of an answer. None if it has more than marks around it on its lines.

    It must be the only one: of two that differ, one was quoted, supposed or overtaken.
    """
    lines = text.rstrip().rsplit("\n", _TOLERATED_LINES)[-_TOLERATED_LINES:]
    window = "\n".join(_unquoted(line) for line in lines)
    if len(window) > _LONGEST_TOLERATED:
        window = window[-_LONGEST_TOLERATED:].partition("\n")[2]
    end = window.rfind("}")
    if end < 0 or window.rfind("{") > end:
        return None
    if window[end + 1 :].lstrip()[:1] == "]":
        return None  # an item of an array is not the answer's own object
    after = window[end + 1 :].partition("\n")[0]
    if len(after) > _LONGEST_MARKS or after.strip(_MARKS) not in ("", ".", "\u3002"):
        return None
    for start in _starts(window[: end + 1]):
        data = _parse(window[start : end + 1])
        if not isinstance(data, _Fault):
            found = _validate(data, window[start : end + 1], outcomes)
            if isinstance(found, Outcome) and not _is_only(found, window[:start], outcomes):
                return Unreadable("The response has several outcomes that differ")
            return found
    return None


def _is_only(found: Outcome, before: str, outcomes: tuple[str, ...]) -> bool:
    """Does nothing before an outcome name another one, whatever object that stands in?"""
    names = {place[1] for place in _NAMED.finditer(before)}
    return names.isdisjoint({*outcomes} - {found.name})


def _unquoted(line: str) -> str:
    """Without the marks of a quotation; no line inside an object can begin with one."""
    return line.lstrip(" \t\r>") if line.lstrip()[:1] == ">" else line


def _starts(text: str) -> Iterator[int]:
    """Where an object may begin, the nearest first: the first brace of a line, behind marks."""
    line_end = len(text)
    while line_end > 0:
        line_start = text.rfind("\n", 0, line_end) + 1
        brace = text.find("{", line_start, line_end)
        if brace >= 0 and _is_decoration(text[line_start:brace]):
            yield brace
        line_end = line_start - 1


def _is_decoration(before: str) -> bool:
    """Is it only a bullet, a fence, emphasis, a quote mark, or a label like 'Outcome:'?"""
    if len(before) > _LONGEST_LABEL + _LONGEST_MARKS:
        return False
    words = _NUMBERED.sub("", before.strip(_MARKS)).strip(_MARKS)
    if not words:
        return True
    if _FENCE in before:
        return words.isalnum()
    return words.endswith((":", "\uff1a")) and len(words) <= _LONGEST_LABEL and "}" not in words


class _Fault(ValueError):
    """Why a text cannot be read as our JSON."""


def _parse(candidate: str) -> Any:
    """The JSON value, or a `_Fault` that says why there is none."""
    try:
        if candidate.count("{") > _DEEPEST or candidate.count("[") > _DEEPEST:
            return _Fault("nested too deeply")
        return json.loads(candidate, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return _Fault(str(error))


def _validate(data: Any, candidate: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable:
    shown = clip(candidate, _LONGEST_SHOWN)
    if isinstance(data, _Fault):
        return Unreadable(f"Invalid JSON: {clip(str(data), 200)}", shown)
    name = data.get("outcome") if isinstance(data, dict) else None
    if not isinstance(name, str):
        return Unreadable("The JSON block has no 'outcome' that is a string", shown)
    if name not in outcomes:
        valid = ", ".join(sorted(outcomes))
        return Unreadable(f"Outcome '{clip(name, 100)}' is not one of: {valid}", shown)
    if name != OTHER:
        return Outcome(name)
    description = data.get("otherDescription")
    if not isinstance(description, str) or description.strip() in ("", PLACEHOLDER):
        return Unreadable("Outcome 'other' needs an otherDescription that says why", shown)
    return Outcome(name, description)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _Duplicate("a key appears twice")
    return data


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
