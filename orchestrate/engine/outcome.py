"""How an agent is told to report an outcome, and how its report is read (A §2.2-2.4)."""

from __future__ import annotations

import json
import re
from typing import Any

from orchestrate.engine.texts import clip
from orchestrate.record import record

OTHER = "other"
PLACEHOLDER = "<brief description>"
_SCANNED_LINES = 5
_FENCE = re.compile(r"\A`{3,}[A-Za-z]*\s*|\s*`{3,}\Z")
_LONGEST_SHOWN = 500
# Deeper than this is no outcome; and the parser must not run out of stack over it.
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


def read_outcome(text: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable:
    """The outcome in the last lines of an answer. Only the newest candidate is tried (rulings)."""
    lines = text.rstrip().split("\n")[-_SCANNED_LINES:]
    for line in reversed(lines):
        candidate = _unfenced(line.strip())
        if candidate.startswith("{") and candidate.endswith("}"):
            return _parse(candidate, outcomes)
    return Unreadable("No JSON block found in response")


def _unfenced(line: str) -> str:
    return _FENCE.sub("", line).strip() if "`" in line else line


def _parse(candidate: str, outcomes: tuple[str, ...]) -> Outcome | Unreadable:
    shown = clip(candidate, _LONGEST_SHOWN)
    try:
        if candidate.count("{") > _DEEPEST or candidate.count("[") > _DEEPEST:
            raise ValueError("nested too deeply")
        data = json.loads(candidate, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"Invalid JSON: {clip(str(error), 200)}", shown)
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
        raise _Duplicate("a key is there twice")
    return data


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
