"""B's conditions: comparisons of variables and quoted strings, joined from left to right."""

from __future__ import annotations

import re
from typing import Literal

from orchestrate.lang.curly import Fault, Placed, clip, parse_reference, parse_template
from orchestrate.plan.expr import Chain, Compare, Const, Expr
from orchestrate.record import record

Joint = Literal["and", "or"]


@record
class Condition:
    """A parsed condition; `cond` is None when there are faults. `mixed`: both `and` and `or`."""

    cond: Compare | Chain | None
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


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<variable>\{\{.*?\}\})
      | (?P<string>'[^']*'|"[^"]*")
      | (?P<operator>==(?!=)|!=(?!=))
      | (?P<joint>(?:and|or)\b)
      | (?P<word>[^\W\d]\w*+(?:\.\w[\w-]*+)*(?!\s*\())
      | (?P<end>\Z)
      | (?P<other>\{\{|['"]|[<>=!]+|&&?|\|\|?|[-+]?\d[\w.]*|\.?\s*[^\W\d]\w*\s*\(|.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_COMPARE = "write {{name}} == 'value'"
_JOIN = "join comparisons with `and` or `or`"
_ORDERS = ("<", ">", "<=", ">=", "=<", "=>")
_INSTEAD = {
    "=": "==", "===": "==", "!==": "!=", "<>": "!=", "&&": "and", "&": "and", "||": "or", "|": "or",
}  # fmt: skip
# Quotes that a word processor makes of straight ones.
_CURLED = "\u2018\u2019\u201c\u201d\u00b4`"
_WORDS = ("in", "is", "contains", "startswith", "endswith", "matches")
_ORDER = "`and` and `or` are evaluated from left to right; use two steps for more"
_MOST_COMPARISONS = 1000
_SPLIT = "use several steps"
_FUNCTIONS = "let an agent's answer hold a field to compare"


def parse_condition(text: str) -> Condition:
    """The condition, or its first fault (E123; E309 without a variable; E120/E121 inside one)."""
    placed: list[Placed] = []
    try:
        tokens = _Tokens(text)
        first = _comparison(tokens, placed)
        rest: list[tuple[Joint, Compare]] = []
        while (joint := _joint(tokens)) is not None:
            if len(rest) >= _MOST_COMPARISONS:
                raise _Malformed(_fault(tokens.last, "the condition is too long", _SPLIT))
            rest.append((joint, _comparison(tokens, placed)))
    except _Malformed as malformed:
        return Condition(None, (), (malformed.fault,))
    if not placed:
        fault = Fault("E309", "the condition has no variable, so it never changes", 0, len(text),
                      "compare a variable: {{name}} == 'value'")  # fmt: skip
        return Condition(None, (), (fault,))
    mixed = len({word for word, _ in rest}) > 1
    return Condition(Chain(first, tuple(rest)) if rest else first, tuple(placed), (), mixed)


class _Tokens:
    """The text, read one token at a time; `last` is the token before `next`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.last = _Token("start", "", 0)
        self.next = self._read(0)

    def take(self) -> _Token:
        self.last = self.next
        self.next = self._read(self.last.end)
        return self.last

    def _read(self, position: int) -> _Token:
        match = _TOKEN.match(self.text, position)
        assert match is not None  # `.` takes whatever the others leave
        assert match.lastgroup is not None
        return _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))


def _comparison(tokens: _Tokens, placed: list[Placed]) -> Compare:
    left = _value(tokens, placed)
    token = tokens.next
    if token.kind != "operator":
        raise _Malformed(_no_operator(tokens))
    tokens.take()
    right = _value(tokens, placed)
    return Compare(left, "==" if token.text == "==" else "!=", right)


def _joint(tokens: _Tokens) -> Joint | None:
    token = tokens.next
    if token.kind == "end":
        return None
    if token.kind == "joint":
        tokens.take()
        return "and" if token.text == "and" else "or"
    if token.kind == "operator":
        raise _Malformed(_fault(token, "a comparison has two sides", _JOIN))
    if token.kind in ("variable", "string"):
        raise _Malformed(_fault(token, "'and' or 'or' is missing before this", _JOIN))
    if _is_plain(token):
        raise _Malformed(_fault(token, f"'{clip(token.text)}' is neither 'and' nor 'or'", _JOIN))
    raise _Malformed(_explain(token))


def _value(tokens: _Tokens, placed: list[Placed]) -> Expr:
    token = tokens.next
    if token.kind == "variable":
        found = parse_reference(token.text, token.start)
        if isinstance(found, Fault):
            raise _Malformed(found)
        placed.append(Placed(found, token.start, token.end))
        tokens.take()
        return found
    if token.kind == "string":
        inner = token.text[1:-1]
        if quoted := parse_template(inner).placed:
            hint = f"write {clip(quoted[0].ref.text)} without quotes"
            raise _Malformed(_fault(token, "a variable inside quotes stays text", hint))
        tokens.take()
        return Const(inner)
    raise _Malformed(_no_value(tokens))


def _fault(token: _Token, message: str, hint: str = "", suggestion: str = "") -> Fault:
    return Fault("E123", message, token.start, token.end, hint, suggestion)


def _no_value(tokens: _Tokens) -> Fault:
    token, last = tokens.next, tokens.last
    if token.kind not in ("end", "joint", "operator"):
        return _explain(token)
    if last.kind == "start":
        return _fault(token, "there is no value to compare", _COMPARE)
    wanted = "comparison" if last.kind == "joint" else "value"
    return _fault(last, f"there is no {wanted} after '{last.text}'", _COMPARE)


def _no_operator(tokens: _Tokens) -> Fault:
    token, value = tokens.next, tokens.last
    if token.kind in ("end", "joint"):
        hint = f"write {clip(value.text)} == 'true'"
        return _fault(value, "a value alone is no comparison", hint)
    if token.kind in ("variable", "string"):
        return _fault(token, "'==' or '!=' is missing before this", _COMPARE)
    if _is_plain(token):
        return _fault(token, f"'{clip(token.text)}' is not an operator", _COMPARE)
    return _explain(token)


def _is_plain(token: _Token) -> bool:
    """A word that nothing better is known about."""
    return token.kind == "word" and token.text.lower() not in ("and", "or", "not", *_WORDS)


def _explain(token: _Token) -> Fault:
    """What is wrong with a token that B's grammar does not know."""
    text = token.text
    shown = clip(text)
    lowered = text.lower()
    if text == "{{":
        return _fault(token, "'{{' is never closed", "close it with }}")
    if text in ("'", '"'):
        return _fault(token, "the quote is never closed", f"close it with {text}")
    if text in _INSTEAD:
        return _fault(token, f"'{text}' is not an operator", suggestion=_INSTEAD[text])
    if lowered in ("and", "or"):
        return _fault(token, f"'{text}' is not in lower case", suggestion=lowered)
    if lowered == "not" or text == "!":
        return _fault(token, f"'{text}' is not supported", "write {{name}} != 'true'")
    if text in _ORDERS or lowered in _WORDS:
        hint = f"only == and != compare, and as text; {_FUNCTIONS}"
        return _fault(token, f"'{text}' is not supported", hint)
    if text in ("(", ")"):
        return _fault(token, "parentheses are not supported", _ORDER)
    if text.endswith("("):
        return _fault(token, f"'{shown})' is not supported: there are no functions", _FUNCTIONS)
    if text[0] in _CURLED:
        return _fault(token, f"{text[0]} is not a quote", "write straight quotes: 'value'")
    if token.kind == "word":
        hint = f"write '{shown}' for the text"
        if lowered not in ("true", "false", "null", "none"):
            hint += f", {{{{{shown}}}}} for a variable"
        return _fault(token, f"'{shown}' is not quoted", hint)
    if any(character.isdigit() for character in text[:2]):
        return _fault(token, f"'{shown}' is not quoted", f"values compare as text: write '{shown}'")
    return _fault(token, f"'{shown}' has no meaning in a condition", _COMPARE)
