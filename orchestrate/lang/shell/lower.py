"""Lower a shell script so that values reach it as environment variables and never as code.

Each value is replaced by a reference that is quoted for its place; where the shell would evaluate
the value, or where the place cannot be told, the script is refused with the rewrite to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from orchestrate.lang.shell.argv import (
    POSIX_SHELLS,
    InlineCode,
    ScriptPlace,
    find_script,
)
from orchestrate.lang.shell.inline import find_inline_code
from orchestrate.lang.shell.rules import judge
from orchestrate.lang.shell.scan import scan
from orchestrate.plan.expr import CARRIER
from orchestrate.record import record

__all__ = [
    "POSIX_SHELLS",
    "InlineCode",
    "LoweredScript",
    "ScriptPlace",
    "ShellFault",
    "describe_trouble",
    "find_inline_code",
    "find_script",
    "lower_script",
]

LONGEST = 128 * 1024  # Linux takes no longer argument

_REFERENCES = {
    "bare": '"${{{}}}"',
    "double": "${{{}}}",
    "single": "'\"${{{}}}\"'",
    "ansi": "'\"${{{}}}\"$'",
    "comment": "${{{}}}",
    "arithmetic": "${{{}}}",
}

_ARGUMENT = "Pass it as an argument: sh -c 'printf %s \"$1\"' sh VALUE."
_QUOTE = 'Assign it first, NAME=VALUE in a line of its own, and write "$NAME" in this place.'
_STDIN = "Write the value to a file or to standard input, and let the command read it from there."
_COMPUTE = "Compute with expr, as in $(expr VALUE + 1), which takes its operands literally."
_PRINT = "Write the text with printf '%s\\n' 'TEXT VALUE' instead of a here-document."
_FILE = "Move the script to a file and pass it the value as an argument."
_PLAIN = "Write this part in plain sh, or move the script to a file and pass it the value."

_TEXTS: dict[str, tuple[str, str]] = {
    "alias": ("stands after an alias, which changes how the script is read", _PLAIN),
    "ansi": ("stands in or after a $'…', which not every sh reads alike", _PLAIN),
    "arithmetic": ("stands in arithmetic, which would evaluate it", _COMPUTE),
    "backslash": ("stands right after a backslash", "Remove the backslash; a value is quoted."),
    "backtick": ("stands in backticks", "Write $(…) instead of backticks."),
    "brackets": ("stands in [[ … ]], which not every sh has", "Write [ … ] instead of [[ … ]]."),
    "builtin": ("is given to a builtin that evaluates its words", _STDIN),
    "continuation": ("stands after a line that is broken inside an operator", _PLAIN),
    "control": ("stands in a script with control characters", "Remove the control characters."),
    "count": (
        "is compared as a number by a test that evaluates it",
        "Write [ VALUE -eq 1 ] in sh or bash, which takes its operands literally.",
    ),
    "deep": ("stands in a script that is nested too deeply to follow", _PLAIN),
    "document": ("stands in a here-document", _PRINT),
    "after-document": ("stands after a here-document whose end is not certain", _PRINT),
    "dollar": ("stands right after a dollar sign", "Write \\$ or '$' for a plain dollar sign."),
    "eval": ("is an argument of eval, which would execute it", "Run the command without eval."),
    "fed": (
        "is fed to a program that would execute it",
        "Write the value to a file, and let the command read it from there.",
    ),
    "format": ("is the format of a printf with another value", "Write printf '%s' VALUE."),
    "function": ("names a function", "Give the function a fixed name and pass it the value."),
    "kept": (
        "is kept in a variable that the script evaluates (arithmetic, eval or another shell)",
        _COMPUTE,
    ),
    "handed": ("is part of a command line for another shell", _STDIN),
    "long": ("stands in a script that is too long for a command line", _FILE),
    "name": (
        "names a variable or an array element, which would evaluate it",
        "Use a fixed variable name and assign the value: NAME=VALUE.",
    ),
    "nested": ("is part of the script of another shell", _ARGUMENT),
    "operator": ("stands where test may take it for an operator", "Write [ VALUE = TEXT ]."),
    "option": (
        "stands where the program's options cannot be told from its command",
        "Put -- before the words that are not options.",
    ),
    "parameter": ("stands in the shell's own ${…}", _QUOTE),
    "pattern": ("stands in a parenthesised pattern", _QUOTE),
    "piped": ("is fed to a shell, which would execute it", _ARGUMENT),
    "program": (
        "is the program that would run",
        "Write the program's name in the script, or choose it with case VALUE in ….",
    ),
    "quotes-in-parameter": ("stands after a ${…} whose quotes shells read differently", _QUOTE),
    "remote": ("is part of a command line for a remote shell", _STDIN),
    "setting": (
        "is a setting of git, which may run it as a command",
        "Give this setting a fixed value.",
    ),
    "source": ("is an argument of source or `.`, which would execute it", _STDIN),
    "steering": (
        "is assigned to a variable that decides what the shell executes",
        "Give this variable a fixed value.",
    ),
    "subscript": (
        "stands in an array subscript, which would evaluate it",
        "Use a fixed subscript, or keep the value in a variable of its own.",
    ),
    "syntax": ("stands in or after a command that cannot be followed", _PLAIN),
    "trap": (
        "is part of a trap, which would execute it",
        "Assign it to a variable and write the trap's action in single quotes.",
    ),
    "unread": ("is kept in a variable that stands where the script cannot be followed", _PLAIN),
    "unbalanced": ("stands in a script whose quotes do not balance", "Close every quote."),
}


@record
class ShellFault:
    """Why the value in one place is refused or doubtful, and what to write instead."""

    hole: int
    reason: str
    rewrite: str


@record
class LoweredScript:
    """A script whose values are references; with faults the text is empty, so it does nothing.

    The values of `integers` must be whole numbers: the shell's arithmetic evaluates them.
    """

    text: str
    names: tuple[str, ...]
    faults: tuple[ShellFault, ...]
    cautions: tuple[ShellFault, ...]
    integers: tuple[str, ...] = ()


def lower_script(
    literals: Sequence[str],
    *,
    prefix: str = CARRIER,
    shell: str = "bash",
    may_calculate: bool = False,
) -> LoweredScript:
    """Join the literals with one quoted environment reference for each value between them.

    `may_calculate`: the caller sees to it that values in arithmetic are whole numbers.
    """
    return _lower(tuple(literals), prefix, shell, may_calculate)


# Large files are written by programs, and repeat their scripts with other values in the holes.
@lru_cache(maxsize=256)
def _lower(
    literals: tuple[str, ...], prefix: str, shell: str, may_calculate: bool
) -> LoweredScript:
    total = len(literals) - 1
    names = tuple(f"{prefix}{hole}" for hole in range(total))
    if not total:
        return LoweredScript(literals[0], (), (), ())
    if sum(map(len, literals)) > LONGEST:
        return LoweredScript("", names, _explain(dict.fromkeys(range(total), "long")), ())
    # Most files have no script with values; they do not pay for loading the scanner.
    scanned = scan(literals, shell)
    if not scanned.balanced:
        return LoweredScript("", names, _explain(dict.fromkeys(range(total), "unbalanced")), ())
    verdict = judge(scanned, shell)
    troubles: dict[int, str] = {}
    numbers = {hole for hole, place in enumerate(scanned.places) if place == "arithmetic"}
    for hole, code in (*scanned.troubles, *verdict.troubles):
        if may_calculate and code == "arithmetic" and hole in numbers:
            continue
        if scanned.places[hole] != "comment" or code == "control":
            troubles.setdefault(hole, code)
    cautions = dict(item for item in verdict.cautions if item[0] not in troubles)
    return LoweredScript(
        "" if troubles else _join(literals, scanned.places, names),
        names,
        _explain(troubles),
        tuple(_doubt(hole, interpreter) for hole, interpreter in sorted(cautions.items())),
        tuple(names[hole] for hole in sorted(numbers)),
    )


def _join(literals: Sequence[str], places: Sequence[str], names: Sequence[str]) -> str:
    pieces = [literals[0]]
    for literal, place, name in zip(literals[1:], places, names, strict=True):
        pieces.append(_REFERENCES[place].format(name))
        pieces.append(literal)
    return "".join(pieces)


def describe_trouble(code: str) -> tuple[str, str]:
    """Give the reason and the rewrite for a value in trouble."""
    return _TEXTS[code]


def _explain(troubles: dict[int, str]) -> tuple[ShellFault, ...]:
    return tuple(ShellFault(hole, *_TEXTS[code]) for hole, code in sorted(troubles.items()))


def _doubt(hole: int, interpreter: str) -> ShellFault:
    return ShellFault(
        hole,
        f"stands in the program text of {interpreter}, which would read it as code",
        "Pass it as an argument or in the environment, and let the program read it from there.",
    )
