"""What a JSON Schema says about a value, as plain data; also the program that says it.

Some schemas take for ever on some values: a pattern like `^(a+)+$`, `uniqueItems` over thousands of
objects. So only a check that is certain to be quick is made by us (`is_quick`); any other is made
by this module as a program of the keeper's, which can be ended (`orchestrate.engine.outputs`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.engine.texts import clip, sendable, show_json
from orchestrate.record import field, record
from orchestrate.regex import regex

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MOST_ERRORS = 20
_LONGEST_MESSAGE = 300
# Keywords that look at everything below them again, or may refer to themselves without end.
_SLOW = frozenset(
    ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties", "extends")
)
_MOST_PARTS = 500
# Measured: a million of these is less than a second.
_MOST_WORK = 1_000_000
_QUANTIFIER = regex(r"[*+?]|\{\d*,\d*\}")


@record
class SchemaVerdict:
    """`unusable` says what is wrong with the schema itself, `errors` how the value breaks it."""

    unusable: str = ""
    errors: list[str] = field(default_factory=list)


def judge(schema: Any, value: Any) -> SchemaVerdict:
    """Hold a value against a schema. Nothing is ever fetched."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    declared = schema.get("$schema") if isinstance(schema, dict) else None
    kind: Any = Draft202012Validator
    if declared is not None:
        find: Any = validator_for
        kind = find(schema, default=None) if isinstance(declared, str) else None
        if kind is None:
            return SchemaVerdict(f"$schema is {show_json(declared)}, which is not supported")
    try:
        kind.check_schema(schema)
        errors = list(
            islice(kind(schema, registry=Registry()).iter_errors(value), _MOST_ERRORS + 1)
        )
    except SchemaError as error:
        return SchemaVerdict(f"{_pointer(error.absolute_path)}: {_clean(error.message)}")
    except Unresolvable as error:
        return SchemaVerdict(f"'{error.ref}' is not in the file, and nothing is fetched")
    except RecursionError:
        return SchemaVerdict("it refers to itself without end")
    except re.error as error:
        return SchemaVerdict(f"a pattern is not a valid regular expression: {error}")
    shown = [_explain(error) for error in errors[:_MOST_ERRORS]]
    return SchemaVerdict(errors=[*shown, "… and more"] if len(errors) > _MOST_ERRORS else shown)


# Is it certain to be quick?


def is_quick(schema: Any, value: Any) -> bool:
    """Is a check certain to take less than about a second? A no proves nothing."""
    parts = list(islice(_parts(schema, schema), _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS:
        return False
    size = _size_of(value)
    work = size.parts * len(parts)
    for part in parts:
        if not isinstance(part, dict):
            continue
        if not _SLOW.isdisjoint(part) or ("$id" in part and part is not schema):
            return False
        reference = part.get("$ref", "#/")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return False
        if part.get("uniqueItems"):
            work += size.parts * size.longest_list
        work += sum(size.texts * _steps(pattern, size.longest_text) for pattern in _patterns(part))
    return work <= _MOST_WORK


def _parts(schema: Any, whole: Any) -> Iterator[Any]:
    """Everything in a schema, with what it refers to in its place: endlessly, if to itself."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            reference = part.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/"):
                waiting.append(_target(whole, reference))


def _target(whole: Any, reference: str) -> Any:
    found = whole
    for token in reference.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


@record
class _Size:
    """How much of a value there is to look at: each part once for itself, and once for each that is
    around it, whose errors would show it."""

    parts: int
    texts: int
    longest_list: int
    longest_text: int


def _size_of(value: Any) -> _Size:
    parts = texts = longest_list = longest_text = 0
    level, depth = [value], 0
    while level:
        depth += 1
        below: list[Any] = []
        for part in level:
            if isinstance(part, list):
                longest_list = max(longest_list, len(part))
                below += part
            elif isinstance(part, dict):
                below += part.values()
                below += part
            elif isinstance(part, str):
                texts += 1
                longest_text = max(longest_text, len(part))
                parts += depth * (len(part) // 100)
        parts += depth * len(level)
        level = below
    return _Size(parts, texts, longest_list, longest_text)


def _patterns(part: dict[str, Any]) -> Iterator[str]:
    own = part.get("pattern")
    if isinstance(own, str):
        yield own
    several = part.get("patternProperties")
    if isinstance(several, dict):
        yield from several


def _steps(pattern: str, length: int) -> int:
    """The most work of a pattern: each choice may be tried at each place of the text."""
    if re.search(r"[(|]|\\[1-9]", pattern):
        return _MOST_WORK + 1
    choices = len(_QUANTIFIER.findall(pattern)) + (not pattern.startswith("^"))
    # A step of a pattern is a fiftieth of a step of a check.
    return 1 + int(min(length, 10_000) ** min(choices, 20)) // 50


# How the value breaks the schema, in words.


def _explain(error: ValidationError) -> str:
    """Where and what is wrong, in JSON's words; the library's are Python's (True, None)."""
    wanted: Any = error.validator_value
    instance: Any = error.instance
    where = _pointer(error.absolute_path)
    match error.validator:
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return f"{where}: is {type_of(instance)}, not {' or '.join(map(article, names))}"
        case "enum":
            return f"{where}: is {show_json(instance)}, not one of {show_json(wanted, 200)}"
        case "const":
            return f"{where}: is {show_json(instance)}, not {show_json(wanted)}"
        case "required" if missing := [key for key in wanted if key not in instance]:
            # One error per missing key; its message begins with that key.
            key = next((k for k in missing if error.message.startswith(repr(k))), missing[0])
            return f"{_pointer([*error.absolute_path, key])}: is missing"
        case _:
            return f"{where}: {_clean(error.message)}"


def _pointer(path: Iterable[str | int]) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return sendable("".join(f"/{part}" for part in parts)) or "(top)"


def _clean(message: str) -> str:
    return clip(sendable(message), _LONGEST_MESSAGE)


def type_of(value: Any) -> str:
    """What a value is in JSON's words, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def article(name: str) -> str:
    if name == "null":
        return name
    return f"an {name}" if name[0] in "aio" else f"a {name}"


# The program: schema and value come on standard input, the verdict goes to standard output.

# Its path is ours: it must find the same packages, wherever they are.
_SCRIPT = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main()"


def command() -> tuple[str, ...]:
    """How the check is started as a program."""
    words = (sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _SCRIPT.format(__name__))
    place = str(Path(__file__).parents[2])
    return (*words, json.dumps([*map(os.path.abspath, sys.path), place]))


def question_of(schema: Any, value: Any) -> bytes:
    return json.dumps([schema, value]).encode("ascii")


def verdict_of(output: bytes) -> SchemaVerdict:
    """What the program said; `ValueError` if that is nothing it says."""
    unusable, errors = json.loads(output)
    return SchemaVerdict(str(unusable), [str(error) for error in errors])


def main() -> None:
    schema, value = json.load(sys.stdin)
    verdict = judge(schema, value)
    json.dump([verdict.unusable, verdict.errors], sys.stdout)
