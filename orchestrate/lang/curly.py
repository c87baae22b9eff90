"""`{{a.b.c}}` in recipes: one pass over the text, and values are never scanned again."""

from __future__ import annotations

from orchestrate.diagnostics import closest
from orchestrate.plan.expr import Ref
from orchestrate.record import record
from orchestrate.regex import regex

# What B reserves, and our `approval` (rulings §8). No variable may take one of these names.
NAMESPACES: dict[str, tuple[str, ...]] = {
    "recipe": ("name", "version", "description"),
    "session": ("id", "started", "project"),
    "step": ("id", "index"),
    "approval": ("message",),
}

# The first word is a variable; the others are keys of whatever an agent answered.
_REFERENCE = regex(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)*)(\?)?\Z")
_OPENING = regex(r"\{\{+")
# A hostile text can hold millions of mistakes, and finding each one's place costs time.
_MOST_FAULTS = 20
_LITERAL = "for the text itself write \\{{"


def is_variable(name: str) -> bool:
    """Can `{{name}}` refer to a variable of this name?"""
    return _NAME.match(name) is not None


_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@record
class Fault:
    """A mistake in `text[start:end]`."""

    code: str
    message: str
    start: int
    end: int
    hint: str = ""
    suggestion: str = ""


@record
class Placed:
    """A reference and the place it was written at."""

    ref: Ref
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.ref.text


@record
class CurlyText:
    """Literal pieces and references, in order; what is malformed is in `faults` instead."""

    parts: tuple[str | Ref, ...]
    placed: tuple[Placed, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def lone(self) -> Ref | None:
        """The reference that is the whole text, which keeps its type."""
        match self.parts:
            case (Ref() as ref,):
                return ref
            case _:
                return None


def parse_template(text: str) -> CurlyText:
    """Split a text into literals and references. A lone `}}` is literal."""
    if "{{" not in text:
        return CurlyText((text,) if text else ())
    parts: list[str | Ref] = []
    placed: list[Placed] = []
    faults: list[Fault] = []
    position = 0
    close = -1
    while (opening := _OPENING.search(text, position)) and len(faults) < _MOST_FAULTS:
        # Of three or more braces the last two open, so that JSON around a variable is JSON.
        start = opening.end() - 2
        if opening.start() == start and text[start - 1 : start] == "\\":
            parts.append(text[position : start - 1] + "{{")
            position = start + 2
            continue
        if close < start + 2:
            close = text.find("}}", start + 2)
        following = text.find("{{", start + 2, close) if close >= 0 else -1
        if close < 0 or following >= 0:
            faults.append(_unclosed(start))
            if close < 0:
                break
            position = start + 2
            continue
        end = close + 2
        found = parse_reference(text[start:end], start)
        if start > position:
            parts.append(text[position:start])
        if isinstance(found, Fault):
            faults.append(found)
        else:
            parts.append(found)
            placed.append(Placed(found, start, end))
        position = end
    if position < len(text):
        parts.append(text[position:])
    return CurlyText(tuple(parts), tuple(placed), tuple(faults))


def parse_reference(written: str, start: int) -> Ref | Fault:
    """What one `{{…}}`, written at `start`, refers to."""
    inner = written[2:-2].strip()
    end = start + len(written)
    match = _REFERENCE.match(inner)
    if match is None:
        return _malformed(inner, written, start, end)
    segments = tuple(match[1].split("."))
    optional = match[2] is not None
    if segments[0] not in NAMESPACES:
        return Ref(("var", *segments), written, optional)
    members = NAMESPACES[segments[0]]
    if len(segments) == 2 and segments[1] in members:
        return Ref(segments, written, optional)
    return _unknown_member(segments, written, start, end)


def _unclosed(start: int) -> Fault:
    hint = f"close it with }}}}; {_LITERAL}"
    return Fault("E120", "'{{' is never closed", start, start + 2, hint)


def _unknown_member(segments: tuple[str, ...], written: str, start: int, end: int) -> Fault:
    space = segments[0]
    names = [f"{space}.{member}" for member in NAMESPACES[space]]
    known = ", ".join(f"{{{{{name}}}}}" for name in names)
    if len(segments) == 1:
        message = f"'{space}' is reserved and not a variable by itself"
        return Fault("E121", message, start, end, f"known: {known}")
    members = NAMESPACES[space]
    near = segments[1] if segments[1] in members else closest(segments[1], members)
    suggestion = f"{{{{{space}.{near}}}}}" if near else ""
    hint = "" if suggestion else f"known: {known}"
    return Fault("E121", f"{clip(written)} does not exist", start, end, hint, suggestion)


def _malformed(inner: str, written: str, start: int, end: int) -> Fault:
    message = f"'{clip(written)}' is not a variable"
    if not inner or inner == "?":
        hint = f"write {{{{name}}}}; {_LITERAL}"
        return Fault("E120", f"'{clip(written)}' names nothing", start, end, hint)
    flat = inner.replace("-", "_")
    if _REFERENCE.match(flat):
        hint = "a variable's name has letters, digits and _ only"
        return Fault("E120", message, start, end, hint, f"{{{{{clip(flat)}}}}}")
    return Fault("E120", message, start, end, _advise(inner))


_DEFAULT = regex(r"\sor\s|\|\||\?\?|:-|\|\s*default\b")
_KEY_IN_BRACKETS = regex(r"""\[\s*["']([A-Za-z0-9_-]+)["']\s*\]""")


def _advise(inner: str) -> str:
    """What the author of a malformed reference probably wants."""
    if inner[0] in "#/^&>!%":
        return "there are no blocks: use a step with a condition"
    if _DEFAULT.search(inner):
        return "there are no defaults here: give the variable a starting value under `context:`"
    before_filter, *filters = inner.split("|", 1)
    if filters:
        return f"filters are not supported: write {{{{{clip(before_filter.strip())}}}}}"
    if "(" in inner:
        return "functions are not supported: let an agent's answer hold what is needed"
    if "[" in inner:
        keys = _KEY_IN_BRACKETS.sub(r".\1", inner)
        if _REFERENCE.match(keys):
            return f"brackets are not supported: write {{{{{clip(keys)}}}}}"
        return "brackets are not supported: loop over a list with foreach"
    if any(sign in inner for sign in "+*/=<>&"):
        return "expressions are not supported: only the name of a variable can stand here"
    joined = "".join(inner.split())
    if "." in inner and joined != inner and _REFERENCE.match(joined):
        return f"write {{{{{clip(joined)}}}}}, without spaces inside"
    plain = joined.replace("?", "")
    if "?" in joined[:-1] and _REFERENCE.match(plain):
        return f"the ? stands at the end: {{{{{clip(plain)}?}}}}"
    return f"write {{{{name}}}} or {{{{name.key}}}}; {_LITERAL}"


def clip(text: str) -> str:
    """A text short enough for a message, on one line."""
    flat = " ".join(text[:200].split())
    return flat if len(flat) <= 60 else flat[:57] + "…"
