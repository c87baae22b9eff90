"""`${a.b.c}` in workflows: one pass over the text, escapes first, values never scanned again."""

from __future__ import annotations

import re

from orchestrate.diagnostics import clipped
from orchestrate.record import record
from orchestrate.regex import regex

# A step's name may have single spaces inside, a key of JSON data any letters.
_SEGMENT = r"[\w-]+(?: [\w-]+)*"
_VARIABLE = regex(rf"{_SEGMENT}(?:\.{_SEGMENT})*\Z")
_SHELL_EXPANSION = regex(r"[!#]?[A-Za-z_][A-Za-z0-9_]*(?:[:#%/^,@?+=-].*|\[.*\].*)\Z", re.DOTALL)
# A hostile text can hold millions of mistakes, and finding each one's place costs time.
_MOST_FAULTS = 20
_INDEX = regex(r"\[['\"]?([\w-]+)['\"]?\]")


@record
class Variable:
    """A `${…}` in a text, with the place it was written at."""

    segments: tuple[str, ...]
    text: str
    start: int
    end: int


@record
class DollarFault:
    """What is wrong with a `${…}`."""

    message: str
    start: int
    end: int
    hint: str = ""
    # It looks like the shell's ${…}, which helps only where a shell reads the text.
    of_shell: bool = False


@record
class DollarText:
    """Literal pieces (escapes already resolved) and variables, in order."""

    parts: tuple[str | Variable, ...]
    faults: tuple[DollarFault, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(part for part in self.parts if isinstance(part, Variable))


def parse_dollar(text: str) -> DollarText:
    """Split a text into literals and variables; `$$` is a literal `$`."""
    if "$" not in text:
        return DollarText((text,) if text else (), ())
    parts: list[str | Variable] = []
    faults: list[DollarFault] = []
    literal: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and len(faults) < _MOST_FAULTS:
        literal.append(text[position:dollar])
        following = text[dollar + 1 : dollar + 2]
        if following != "{":
            literal.append("$")
            position = dollar + (2 if following == "$" else 1)
            continue
        end = text.find("}", dollar)
        if end < 0:
            faults.append(
                DollarFault(
                    "'${' is never closed", dollar, dollar + 2, "close it with } or write $${"
                )
            )
            # The rest stays, so that a path or an argument does not seem to be empty as well.
            literal.append(text[dollar:])
            position = len(text)
            break
        position = end + 1
        inner = text[dollar + 2 : end]
        if _VARIABLE.match(inner):
            if literal_text := "".join(literal):
                parts.append(literal_text)
            literal.clear()
            variable = Variable(tuple(inner.split(".")), text[dollar:position], dollar, position)
            parts.append(variable)
        else:
            literal.append(text[dollar:position])
            faults.append(_malformed(inner, text[dollar:position], dollar, position))
    literal.append(text[position:])
    if literal_text := "".join(literal):
        parts.append(literal_text)
    return DollarText(tuple(parts), tuple(faults))


def _malformed(inner: str, shown: str, start: int, end: int) -> DollarFault:
    message = f"'{clipped(shown)}' is not a variable"
    if not inner.strip():
        return DollarFault("'${}' names nothing", start, end, "write $${} for the text itself")
    if inner.strip() != inner and _VARIABLE.match(inner.strip()):
        return DollarFault(message, start, end, f"write ${{{inner.strip()}}} without spaces")
    with_dots = _INDEX.sub(r".\1", inner)
    # A name without a dot before the bracket is rather an array of the shell.
    if "." in inner.partition("[")[0] and _VARIABLE.match(with_dots):
        return DollarFault(message, start, end, f"write ${{{with_dots}}}")
    if _SHELL_EXPANSION.match(inner):
        return DollarFault(
            message,
            start,
            end,
            f"for the shell's own expansion write ${clipped(shown)}",
            of_shell=True,
        )
    return DollarFault(
        message, start, end, "variables look like ${context.name} or ${steps.Name.output}"
    )
