"""What a YAML parser chokes on, told in words that lead to the mistake.

Both parsers name the rule of the grammar that failed and the place where they noticed. An author
wants the slip itself, which often stands earlier: the quote that was opened, the colon without a
space. The parsers word things differently, so we look for what their wordings share.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from orchestrate.diagnostics import clipped
from orchestrate.regex import regex
from orchestrate.source.brackets import balance, depth_at_line, open_bracket, open_quote
from orchestrate.source.invisible import HINT, in_the_way, name_of
from orchestrate.source.located import Source
from orchestrate.source.reader import ReadFault

_GLUED = regex(r"(\s*(?:- )?)([A-Za-z_][\w.-]*):([^\s/].*)")
_KEY = regex(r"\s*(?:- +)*[^\s:#][^:#]*: +")
_HEADER = regex(r"(?:: +|- +)([|>])[-+0-9]*\s*$")
# A line so far above is never meant.
_FAR = 5000
# YAML's own limit for a key that is not introduced by `? `.
_LONGEST_KEY = 1024
_CLOSING = {"[": "]", "{": "}"}
_INCLUDE = regex(r"\$include: +(\S+)(?: +#.*)?")
_VARIABLE = regex(r"""(?:\$\{[^{}]*+\}|[^,\[\]{}"'])++""")


def explain_syntax(error: Exception, text: str) -> ReadFault:
    """The fault for whatever a parser raised."""
    trouble = _Trouble(error, text)
    unseen = _unseen(trouble)
    if unseen is not None:
        return unseen
    for words, explanation in _EXPLANATIONS:
        if any(word in trouble.wording for word in words):
            fault = explanation(trouble)
            if fault is not None:
                return fault
    return trouble.fault(trouble.wording or "cannot be read")


class _Trouble:
    """A parser's complaint: its words, the place it noticed, and where its context began."""

    def __init__(self, error: Exception, text: str) -> None:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        context = getattr(error, "context", None)
        self.wording = " ".join(str(problem).split())
        if context and context != problem:
            self.wording += f" ({' '.join(str(context).split())})"
        self.source = Source("", Path(), text)
        self.begin = _place(error, "context_mark")
        self.line, self.column = _place(error, "problem_mark") or self.begin or (0, 0)

    def text_of(self, line: int) -> str:
        return self.source.line(line) if line >= 0 else ""

    @property
    def here(self) -> str:
        """The rest of the line at the place where the parser noticed."""
        return self.text_of(self.line)[self.column :]

    @property
    def before(self) -> str:
        return self.text_of(self.line)[: self.column]

    def line_above(self, line: int = -1) -> int:
        """The nearest line above that is neither blank nor a comment, or -1."""
        number = (line if line >= 0 else self.line) - 1
        while number >= max(0, self.line - _FAR) and re.match(r"\s*(#.*)?$", self.text_of(number)):
            number -= 1
        return number

    def fault(
        self,
        message: str,
        hint: str = "",
        *,
        at: tuple[int, int] | None = None,
        length: int = 0,
    ) -> ReadFault:
        line, column = at or (self.line, self.column)
        length = length or self.source.token_length(line, column)
        return ReadFault("E006", f"not valid YAML: {message}", hint, line, column, length)


def _place(error: Exception, name: str) -> tuple[int, int] | None:
    mark = getattr(error, name, None)
    return (int(mark.line), int(mark.column)) if mark is not None else None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _unseen(trouble: _Trouble) -> ReadFault | None:
    """A space that is none, on the line of the trouble or on the one above."""
    lines = [trouble.begin[0]] if trouble.begin is not None else []
    for line in (*lines, trouble.line, trouble.line_above()):
        column = in_the_way(trouble.text_of(line))
        if column >= 0:
            name = name_of(trouble.text_of(line)[column])
            return trouble.fault(f"{name} stands here", HINT, at=(line, column), length=1)
    return None


def _glued_colon(trouble: _Trouble, line: int) -> ReadFault | None:
    found = _GLUED.fullmatch(trouble.text_of(line).rstrip())
    if found is None:
        return None
    lead, key, value = found.groups()
    return trouble.fault(
        f"a space is missing after '{key}:'",
        f"write `{key}: {clipped(value)}`",
        at=(line, len(lead)),
        length=len(key) + 1 + len(value),
    )


def _quoted(text: str) -> str:
    """The text as YAML can hold it; single quotes leave everything inside them alone."""
    flat = clipped(text)
    if '"' in flat or "\\" in flat:
        flat = flat.replace("'", "''")
        return f"'{flat}'"
    return f'"{flat}"'


def _no_colon(trouble: _Trouble) -> ReadFault | None:
    """A line among keys that is not a `key: value`."""
    line, column = trouble.begin or (trouble.line, trouble.column)
    glued = _glued_colon(trouble, line)
    if glued is not None:
        return glued
    header = _HEADER.search(trouble.text_of(line - 1))
    if header is not None:
        return trouble.fault(
            f"the text of {header[1]} must be indented more than its key",
            "indent every line of it",
            at=(line, column),
        )
    return trouble.fault(
        "this line is not a `key: value`",
        "add the colon; or, if it continues a text, indent it more than the key of that text",
        at=(line, column),
    )


def _second_colon(trouble: _Trouble) -> ReadFault | None:
    """A colon where the parser was in the middle of a plain value."""
    same_line = _KEY.match(trouble.before)
    if same_line is not None:
        start = same_line.end()
        value = trouble.text_of(trouble.line)[start:].rstrip()
        include = _INCLUDE.fullmatch(value)
        if include is not None:
            return trouble.fault(
                "an $include on the line of its key needs braces",
                f"write {{$include: {include[1]}}}",
                at=(trouble.line, start),
                length=include.end(1),
            )
        return trouble.fault(
            "a text that contains ': ' must be quoted",
            f"write {_quoted(value)}",
            at=(trouble.line, start),
            length=len(value),
        )
    if len(trouble.before.strip()) > _LONGEST_KEY:
        return trouble.fault(f"a key has at most {_LONGEST_KEY:,} characters", "use a short name")
    above = trouble.line_above()
    if above < 0:
        return None
    glued = _glued_colon(trouble, above)
    if glued is not None:
        return glued
    text = trouble.text_of(trouble.line)
    at = (trouble.line, _indent(text))
    if _indent(text) > _indent(trouble.text_of(above)):
        parent = trouble.text_of(trouble.line_above(above)).rstrip()
        if parent.endswith(":") and _indent(parent) == _indent(trouble.text_of(above)):
            return trouble.fault(
                f"this key is not indented below `{clipped(parent)}`, but the next one is",
                f"begin it in column {_indent(text) + 1}, like the line below it",
                at=(above, _indent(parent)),
            )
        return trouble.fault(
            "this key is indented below a key that has a value already",
            f"begin it in column {_indent(trouble.text_of(above)) + 1}, like the line above",
            at=at,
        )
    return trouble.fault(
        f"line {above + 1} above this key is not a `key: value`", "give that line a colon", at=at
    )


def _spaces(number: int) -> str:
    return "1 space" if number == 1 else f"{number} spaces"


def _open_quote(trouble: _Trouble) -> ReadFault | None:
    if "end of stream" not in trouble.wording and "document indicator" not in trouble.wording:
        return None
    line, column = trouble.begin or (trouble.line, trouble.column)
    quote = trouble.text_of(line)[column : column + 1]
    return trouble.fault(
        "the quote that opens here is never closed", f"close it with {quote}", at=(line, column)
    )


def _bad_escape(trouble: _Trouble) -> ReadFault | None:
    column = trouble.column
    line = trouble.text_of(trouble.line)
    if line[column : column + 1] != "\\":
        column = max(column - 1, 0)
    escape = line[column : column + 2]
    return trouble.fault(
        f"{escape} has no meaning inside double quotes",
        f"write \\{escape}, or use single quotes, which leave backslashes alone",
        at=(trouble.line, column),
        length=2,
    )


def _tab(trouble: _Trouble) -> ReadFault | None:
    if not trouble.here.startswith("\t"):
        return None
    return trouble.fault("a tab cannot indent", "use spaces", length=1)


def _bad_start(trouble: _Trouble) -> ReadFault | None:
    character = trouble.here[:1]
    source = trouble.source
    if not trouble.here.strip() or re.match(r"-(\s|$)", trouble.here):
        bracket = open_bracket(source.text, source.offset(trouble.line, trouble.column))
        return _not_closed(trouble, source.line_and_column(bracket)) if bracket >= 0 else None
    value = trouble.here.rstrip()
    depth = depth_at_line(source.text, source.offset(trouble.line, 0))
    if depth + balance(trouble.before) > 0:
        value = re.split(r"[,\]}]", value, maxsplit=1)[0].rstrip()
    return trouble.fault(
        f"a value cannot begin with {character} unless it is quoted",
        f"write {_quoted(value)}",
        length=len(value),
    )


def _bad_name(trouble: _Trouble) -> ReadFault | None:
    """Markdown's *emphasis*, or an & that is part of a text."""
    line, column = trouble.begin or (trouble.line, trouble.column)
    value = trouble.text_of(line)[column:].rstrip()
    return trouble.fault(
        f"a value cannot begin with {value[:1]} unless it is quoted",
        f"write {_quoted(value)}",
        at=(line, column),
        length=len(value),
    )


def _inline_list(trouble: _Trouble) -> ReadFault | None:
    return trouble.fault(
        "a list with dashes cannot begin on the line of its key",
        "begin it on the next line; or, if the dash belongs to a text, quote the text",
    )


def _block_header(trouble: _Trouble) -> ReadFault | None:
    start = len(trouble.before) + len(trouble.here) - len(trouble.here.lstrip())
    return trouble.fault(
        "the text of | and > begins on the next line",
        "move it there and indent it more than the key, or leave the | or > out",
        at=(trouble.line, start),
        length=len(trouble.here.strip()),
    )


def _brackets(trouble: _Trouble) -> ReadFault | None:
    """Inside [ ] or { }."""
    if trouble.begin is None:
        return None
    line, column = trouble.begin
    opener = trouble.text_of(line)[column : column + 1]
    closer = _CLOSING.get(opener)
    if closer is None:
        return None
    variable = _bare_variable(trouble)
    if variable is not None:
        return variable
    if trouble.line > line:
        return _not_closed(trouble, trouble.begin)
    if trouble.here[:1] in ("]", "}"):
        return trouble.fault(f"{trouble.here[0]} cannot close a {opener}", f"write {closer}")
    return trouble.fault(f"a comma or {closer} is missing before this")


def _not_closed(trouble: _Trouble, at: tuple[int, int]) -> ReadFault:
    """The bracket there, unless a quote inside it swallowed its other half."""
    for line in range(at[0], min(trouble.line, at[0] + _FAR)):
        column = open_quote(trouble.text_of(line))
        if column >= 0 and (line, column) > at:
            quote = trouble.text_of(line)[column]
            return trouble.fault(
                "the quote that opens here is not closed",
                f"close it with {quote}",
                at=(line, column),
            )
    opener = trouble.text_of(at[0])[at[1]]
    other = "put a comma between its entries"
    if trouble.here.startswith("-") and not trouble.text_of(at[0])[at[1] + 1 :].strip():
        other = f"leave the {opener} out if the lines with dashes belong to it"
    return trouble.fault(
        f"the {opener} that opens here is not closed",
        f"close it with {_CLOSING[opener]}, or {other}",
        at=at,
    )


def _bare_variable(trouble: _Trouble) -> ReadFault | None:
    """`${name}` without quotes: its brace is one more bracket here."""
    if not (trouble.before.endswith("$") and trouble.here.startswith("{")):
        return None
    start = re.search(r"""[^,\[\]{}"']*\Z""", trouble.before[-_FAR:])
    text = trouble.text_of(trouble.line)
    begin = trouble.column - (len(start[0]) if start is not None else 1)
    found = _VARIABLE.match(text, begin)
    if found is None or found.end() <= trouble.column:
        return None
    value = re.sub(r"\A.*: |\A\s+", "", found[0]).strip()
    return trouble.fault(
        "a text that contains { must be quoted here",
        f"put it in quotes: {_quoted(value)}",
        at=(trouble.line, text.index(value, begin)),
        length=len(value),
    )


def _block(trouble: _Trouble) -> ReadFault | None:
    """Among the keys of a mapping or the items of a list."""
    here, before = trouble.here, trouble.before.strip()
    if here[:1] in ("]", "}"):
        return trouble.fault(f"there is no open bracket for this {here[0]}", "remove it")
    if before.endswith(('"', "'")):
        quote = before[-1]
        inside = "''" if quote == "'" else '\\"'
        return trouble.fault(
            "the value ended at the quote before this",
            f"inside the quotes write {inside} for a {quote}; or a quote further up is not closed",
            length=len(here.rstrip()),
        )
    if before:
        return None
    levels = _levels_above(trouble)
    if not levels:
        return None
    if trouble.column not in levels:
        shown = ", ".join(str(level) for level in levels[:-1])
        shown = f"{shown} or {levels[-1]}" if shown else str(levels[-1])
        return trouble.fault(
            f"this line is indented by {_spaces(trouble.column)}, which fits no line above",
            f"indent it like the line it belongs beside: by {shown} spaces",
        )
    if here.startswith("- "):
        return trouble.fault(
            "a list item stands among keys",
            "put it below the key it belongs to, as in `steps:`, or indent it",
        )
    return trouble.fault(
        "a key stands among list items",
        "indent it like the first key of its item, or give it a dash of its own",
    )


def _levels_above(trouble: _Trouble) -> list[int]:
    """The indentations at which something is still open at this line, outermost first."""
    levels: set[int] = set()
    lowest = 1 << 24
    for number in range(trouble.line - 1, max(-1, trouble.line - _FAR), -1):
        text = trouble.text_of(number)
        if re.match(r"\s*(#.*)?$", text):
            continue
        indent = _indent(text)
        if indent < lowest:
            lowest = indent
            levels.add(indent)
            item = re.match(r" *(?:- +)+", text)
            if item is not None:
                levels.add(item.end())
        if lowest == 0:
            break
    return sorted(levels)


_EXPLANATIONS: tuple[tuple[tuple[str, ...], Callable[[_Trouble], ReadFault | None]], ...] = (
    (("tab", "cannot start any token"), _tab),
    (("cannot start any token", "node content"), _bad_start),
    (("scanning an alias", "scanning an anchor"), _bad_name),
    (("simple key",), _no_colon),
    (("mapping values are not allowed",), _second_colon),
    (("quoted scalar",), _open_quote),
    (("escape character",), _bad_escape),
    (("sequence entries are not allowed",), _inline_list),
    (("scanning a block scalar",), _block_header),
    (("parsing a flow",), _brackets),
    (("parsing a block",), _block),
)
