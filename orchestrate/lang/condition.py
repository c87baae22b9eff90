"""Conditions of recipes: comparisons and variables, joined by `and`, `or` and `not`.

chain      = unary { ("and" | "or") unary }          from left to right (B)
unary      = "not" unary | "(" chain ")" | value [ operator value ]
operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in"
value      = {{variable}} | name | 'text' | number | true | false | null | "[" values "]"
"""

from __future__ import annotations

import re
from typing import Literal, cast

from orchestrate.lang.curly import Fault, Placed, clip, parse_reference, parse_template
from orchestrate.plan.expr import (
    Chain,
    Comparator,
    Compare,
    Cond,
    Const,
    Expr,
    ListExpr,
    Not,
    Ref,
    Truth,
)
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.regex import regex

Joint = Literal["and", "or"]


@record
class Condition:
    """A parsed condition; `cond` is None when there are faults. `mixed`: `and` beside `or` without
    parentheses."""

    cond: Cond | None
    placed: tuple[Placed, ...] = ()
    faults: tuple[Fault, ...] = ()
    mixed: bool = False


@record
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class _Malformed(Exception):
    """Carries the first fault out of the parser."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


_TOKEN = regex(
    r"""\s*(?:
        (?P<variable>\{\{.*?\}\})
      | (?P<string>'[^']*'|"[^"]*")
      | (?P<operator>(?:==|!=|<=|>=)(?![=<>])|[<>](?![=<>])|in\b|not\s+in\b)
      | (?P<joint>(?:and|or)\b)
      | (?P<not>not\b)
      | (?P<constant>(?:true|false|null)\b(?!\s*[.(]))
      | (?P<number>[-+]?\d{1,300}(?:\.\d{1,300})?(?:[eE][-+]?\d{1,3})?(?![\w.]))
      | (?P<word>[^\W\d]\w*+(?:\.\w[\w-]*+)*(?!\s*\())
      | (?P<bracket>[()\[\],])
      | (?P<end>\Z)
      | (?P<other>\{\{|['"]|[<>=!]+|&&?|\|\|?|[-+]?\d[\w.]*|\.?\s*[^\W\d]\w*\s*\(|.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_COMPARE = "write {{name}} == 'value'"
_JOIN = "join conditions with `and` or `or`"
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_INSTEAD = {
    "=": "==", "===": "==", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">=", "!": "not",
    "&&": "and", "&": "and", "||": "or", "|": "or", "is": "==",
}  # fmt: skip
# Quotes that a word processor makes of straight ones.
_CURLED = "\u2018\u2019\u201c\u201d\u00b4`"
_FOREIGN_WORDS = ("is", "contains", "startswith", "endswith", "matches")
_LOWER = ("and", "or", "not", "in", "true", "false", "null")
_MOST_COMPARISONS = 1000
_DEEPEST = 50
_SPLIT = "use several steps"
_FUNCTIONS = "let an agent's answer hold a field to compare"
_VALUES = ("variable", "string", "constant", "number")


def parse_condition(text: str) -> Condition:
    """The condition, or its first fault (E123; E309 without a variable; E120/E121 inside one)."""
    parser = _Parser(text)
    try:
        parser.next = parser.read(0)
        cond = parser.chain(0)
        if parser.next.kind != "end":
            raise _Malformed(_no_joint(parser.next))
    except _Malformed as malformed:
        return Condition(None, (), (malformed.fault,))
    if not parser.placed:
        fault = Fault("E309", "the condition has no variable, so it never changes", 0, len(text),
                      "compare a variable: {{name}} == 'value'")  # fmt: skip
        return Condition(None, (), (fault,))
    return Condition(cond, tuple(parser.placed), (), parser.mixed)


@mutable_record
class _Parser:
    """The text, read one token at a time; `last` is the token before `next`."""

    text: str
    last: _Token = _Token("start", "", 0)
    next: _Token = _Token("start", "", 0)
    placed: list[Placed] = field(default_factory=list)
    mixed: bool = False
    comparisons: int = 0

    def take(self) -> _Token:
        self.last = self.next
        self.next = self.read(self.last.end)
        return self.last

    def read(self, position: int) -> _Token:
        match = _TOKEN.match(self.text, position)
        assert match is not None  # `.` takes whatever the others leave
        assert match.lastgroup is not None
        return _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))

    def chain(self, depth: int) -> Cond:
        first = self.unary(depth)
        rest: list[tuple[Joint, Cond]] = []
        while self.next.kind == "joint":
            joint: Joint = "and" if self.take().text == "and" else "or"
            rest.append((joint, self.unary(depth)))
        self.mixed |= len({word for word, _ in rest}) > 1
        return Chain(first, tuple(rest)) if rest else first

    def unary(self, depth: int) -> Cond:
        token = self.next
        if depth > _DEEPEST:
            raise _Malformed(_fault(token, "the condition is nested too deep", _SPLIT))
        if token.kind == "not":
            self.take()
            return Not(self.unary(depth + 1))
        if token.text != "(":
            return self.comparison()
        self.take()
        inner = self.chain(depth + 1)
        if self.next.text != ")":
            if self.next.kind == "end":
                raise _Malformed(_fault(token, "'(' is never closed", "close it with )"))
            raise _Malformed(_no_joint(self.next))
        self.take()
        return inner

    def comparison(self) -> Cond:
        self.comparisons += 1
        if self.comparisons > _MOST_COMPARISONS:
            raise _Malformed(_fault(self.last, "the condition is too long", _SPLIT))
        left = self.value()
        token = self.next
        if token.kind != "operator":
            if isinstance(left, Ref) and _may_stand_alone(token):
                return Truth(left)
            raise _Malformed(_no_operator(self))
        self.take()
        return Compare(left, cast(Comparator, " ".join(token.text.split())), self.value())

    def value(self) -> Expr:
        token = self.next
        match token.kind:
            case "variable" | "word" if token.kind == "variable" or _is_plain(token):
                self.take()
                return self.reference(token)
            case "string":
                inner = token.text[1:-1]
                if quoted := parse_template(inner).placed:
                    hint = f"write {clip(quoted[0].ref.text)} without quotes"
                    fault = _fault(token, "a variable inside quotes stays text", hint)
                    raise _Malformed(fault)
                self.take()
                return Const(inner)
            case "constant":
                return Const(_CONSTANTS[self.take().text])
            case "number":
                written = self.take().text
                is_whole = written.lstrip("+-").isdigit()
                return Const(int(written) if is_whole else float(written))
            case "bracket" if token.text == "[":
                return self.listed()
            case _:
                raise _Malformed(_no_value(self))

    def reference(self, token: _Token) -> Ref:
        """A variable; a bare name means the same, and must be known (`is_bare`)."""
        written = token.text if token.kind == "variable" else f"{{{{{token.text}}}}}"
        found = parse_reference(written, token.start)
        if isinstance(found, Fault):
            raise _Malformed(replace(found, end=token.end))
        found = replace(found, text=token.text)
        self.placed.append(Placed(found, token.start, token.end))
        return found

    def listed(self) -> Expr:
        opening = self.take()
        items: list[Expr] = []
        while self.next.text != "]":
            if items:
                if self.next.text != ",":
                    raise _Malformed(_fault(opening, "'[' is never closed", "close it with ]"))
                self.take()
            if self.next.text == "[":
                raise _Malformed(_fault(self.next, "a list in a list has no meaning here"))
            items.append(self.value())
        self.take()
        return ListExpr(tuple(items))


def is_bare(ref: Ref) -> bool:
    """Was the variable written without braces? Then it may also be a text without quotes."""
    return not ref.text.startswith("{{")


def explain_bare(word: str) -> tuple[str, str]:
    """What to say of a bare name that is not a variable: a message and a hint."""
    shown = clip(word)
    hint = f"write '{shown}' for the text"
    if word.lower() != "none":
        hint += f", {{{{{shown}}}}} for a variable"
    return f"'{shown}' is not quoted", hint


def _may_stand_alone(following: _Token) -> bool:
    return following.kind in ("end", "joint") or following.text == ")"


def _fault(token: _Token, message: str, hint: str = "", suggestion: str = "") -> Fault:
    return Fault("E123", message, token.start, token.end, hint, suggestion)


def _no_joint(token: _Token) -> Fault:
    """Something follows a condition that is complete."""
    if token.kind == "operator":
        return _fault(token, "a comparison has two sides", _JOIN)
    if token.kind in _VALUES or token.kind == "not" or token.text == "(":
        return _fault(token, "'and' or 'or' is missing before this", _JOIN)
    if token.text == ")":
        return _fault(token, "no '(' comes before this", "remove it")
    if _is_plain(token):
        return _fault(token, f"'{clip(token.text)}' is neither 'and' nor 'or'", _JOIN)
    return _explain(token)


def _no_value(parser: _Parser) -> Fault:
    token, last = parser.next, parser.last
    if token.kind not in ("end", "joint", "operator", "bracket"):
        return _explain(token)
    if last.kind == "start":
        return _fault(token, "there is no value to compare", _COMPARE)
    wanted = "comparison" if last.kind in ("joint", "not") or last.text == "(" else "value"
    return _fault(last, f"there is no {wanted} after '{last.text}'", _COMPARE)


def _no_operator(parser: _Parser) -> Fault:
    token, value = parser.next, parser.last
    if _may_stand_alone(token):
        return _fault(value, "a value alone is not a comparison", _COMPARE)
    if token.kind in _VALUES:
        return _fault(token, "'==' or '!=' is missing before this", _COMPARE)
    if _is_plain(token):
        return _fault(token, f"'{clip(token.text)}' is not an operator", _COMPARE)
    return _explain(token)


def _is_plain(token: _Token) -> bool:
    """A word that nothing better is known about."""
    return token.kind == "word" and token.text.lower() not in (*_LOWER, *_FOREIGN_WORDS)


def _explain(token: _Token) -> Fault:
    """What is wrong with a token that the grammar does not know."""
    text = token.text
    shown = clip(text)
    lowered = text.lower()
    if text == "{{":
        return _fault(token, "'{{' is never closed", "close it with }}")
    if text in ("'", '"'):
        return _fault(token, "the quote is never closed", f"close it with {text}")
    if lowered in _INSTEAD:
        return _fault(token, f"'{text}' is not an operator", suggestion=_INSTEAD[lowered])
    if lowered in _LOWER and lowered != text:
        return _fault(token, f"'{text}' is not in lower case", suggestion=lowered)
    if lowered in _FOREIGN_WORDS:
        hint = "write 'part' in {{name}} to look into a text or a list"
        return _fault(token, f"'{text}' is not supported", hint)
    if text.endswith("("):
        hint = _FUNCTIONS
        if lowered.strip(" .(") in ("contains", "includes"):
            hint = "write 'part' in {{name}} to look into a text or a list"
        return _fault(token, f"'{shown})' is not supported: there are no functions", hint)
    if text[0] in _CURLED:
        return _fault(token, f"{text[0]} is not a quote", "write straight quotes: 'value'")
    if any(character.isdigit() for character in text[:2]):
        return _fault(token, f"'{shown}' is not quoted", f"it is not a number: write '{shown}'")
    return _fault(token, f"'{shown}' has no meaning in a condition", _COMPARE)
