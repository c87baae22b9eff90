"""YAML 1.2 text becomes located data, built from parser events with a stack of our own.

Events come from libyaml (ruamel.yaml.clib) where it is installed and from ruamel's pure parser
elsewhere. Composing them ourselves is the fastest way to exact positions, and it never recurses,
so nesting cannot crash us (docs/adr/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.record import mutable_record
from orchestrate.source.breaks import shield, unshielded
from orchestrate.source.libyaml import c_parser
from orchestrate.source.located import HOLE, LocatedList, LocatedMap, line_of, pack
from orchestrate.source.reader import ReadFault
from orchestrate.source.scalars import resolve_plain
from orchestrate.source.syntax import explain_syntax

MAX_DEPTH = 100
MAX_NODES = 1_000_000
# Aliases and includes repeat for nothing, but every value that is written out has to be read, and
# checked, which more than this many cannot be in two seconds. It is enough for 5,000 steps.
MAX_WRITTEN = 100_000

_CORE_TAGS = {
    "tag:yaml.org,2002:" + name: name
    for name in ("str", "int", "float", "bool", "null", "map", "seq")
}

Report = Callable[[ReadFault], None]


@mutable_record
class Allowance:
    """How many values the files of one compilation may still hold, taken together."""

    left: int = MAX_WRITTEN


_NO_KEY = object()
_DROPPED = object()  # the key of a value that was reported and is left out


def parse_yaml(text: str, source: int, report: Report, allowance: Allowance | None = None) -> Any:
    """The document's data. Mistakes that leave a tree go to `report`; others are raised."""
    try:
        return _compose(text, source, report, allowance or Allowance())
    except RecursionError:
        raise ReadFault("E011", f"nests deeper than {MAX_DEPTH} levels", _DEEP_HINT) from None
    except ReadFault:
        raise
    except Exception as error:  # noqa: BLE001 - parsers leak more than YAMLError on hostile text
        raise explain_syntax(error, text) from None


def _compose(text: str, source: int, report: Report, allowance: Allowance) -> Any:
    shielded, table = shield(text)
    try:
        events = unshielded(_event_reader(shielded), table)
        return _Builder(source, report, allowance).build(events)
    except Exception as error:
        # What the pure parser reports a second time counts once.
        if not _may_be_newer(error, shielded) or len(text) > _MOST_FOR_PURE:
            raise
    events = unshielded(pure_event_reader(shielded), table)
    return _Builder(source, report, allowance).build(events)


def _may_be_newer(error: Exception, text: str) -> bool:
    """Did the C parser stop at YAML 1.2, which it does not know? The pure one does.

    Inside brackets these are `[curl, http://host]` and `{prompt: ok?}`: a `:` or `?` that belongs
    to a word.
    """
    problem = str(getattr(error, "problem", ""))
    if "found unexpected ':'" in problem:
        return True
    mark = getattr(error, "problem_mark", None)
    if mark is None or not problem.startswith("did not find expected ',' or"):
        return False
    return text[mark.index : mark.index + 1] == "?"


# The pure parser needs a second for this much.
_MOST_FOR_PURE = 100_000
_DEEP_HINT = "no recipe needs that; is this the right file?"


def _event_reader(text: str) -> Callable[[], Any]:
    try:
        parser = c_parser()
    except ImportError:
        return pure_event_reader(text)
    reader: Callable[[], Any] = parser(text).get_event
    return reader


def pure_event_reader(text: str) -> Callable[[], Any]:
    """Events from ruamel's pure Python parser: slower, for machines without the C part."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    _, parser = yaml.get_constructor_parser(text)

    def read() -> Any:
        event = parser.get_event()
        value = getattr(event, "value", None)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                # The C parser refuses \ud800 and the like itself.
                message = "not valid YAML: half of a surrogate pair is not text"
                raise _at(ReadFault("E006", message, "write the character itself"), event) from None
        return event

    return read


class _Frame:
    """A container that is still open, with what an alias to it would cost."""

    __slots__ = ("anchor", "container", "height", "key", "key_mark", "nodes_before")

    def __init__(self, container: Any, anchor: str | None, nodes_before: int) -> None:
        self.container = container
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.height = 0
        self.key: Any = _NO_KEY
        self.key_mark = 0


class _Builder:
    """Turns one event stream into located data; the open containers are the stack."""

    def __init__(self, source: int, report: Report, allowance: Allowance) -> None:
        self.source = source
        self.report = report
        self.allowance = allowance
        self.stack: list[_Frame] = []
        self.nodes = 0
        # Those of `nodes` that were not written but repeated by an alias.
        self.repeated = 0
        self.limit = min(allowance.left, MAX_NODES)
        # anchor -> (value, nodes in it, levels below it); None while it is still open
        self.anchors: dict[str, tuple[Any, int, int] | None] = {}
        self.root: Any = _NO_KEY
        self.documents = 0
        self.repeats = 0

    def build(self, next_event: Callable[[], Any]) -> Any:
        try:
            return self._build(next_event)
        finally:
            self.allowance.left -= self.nodes - self.repeated

    def _build(self, next_event: Callable[[], Any]) -> Any:
        actions = {
            "ScalarEvent": self.scalar,
            "MappingStartEvent": self.open_map,
            "SequenceStartEvent": self.open_list,
            "MappingEndEvent": self.close,
            "SequenceEndEvent": self.close,
            "AliasEvent": self.alias,
            "DocumentStartEvent": self.document,
        }
        by_type: dict[type, Callable[[Any], None] | None] = {}
        while True:
            event = next_event()
            kind = type(event)
            if kind not in by_type:
                by_type[kind] = actions.get(kind.__name__)
                if kind.__name__ == "StreamEndEvent":
                    break
            action = by_type[kind]
            if action is not None:
                action(event)
        if self.root is _NO_KEY:
            raise ReadFault("E005", "is empty", _EMPTY_HINT)
        return self.root

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _at(
                ReadFault("E015", "a second document begins here", "keep one recipe per file"),
                event,
            )

    def scalar(self, event: Any) -> None:
        mark = event.start_mark
        position = pack(self.source, mark.line, mark.column)
        text = event.value
        plain = event.implicit[0]
        stack = self.stack
        frame = stack[-1] if stack else None
        if frame is not None and frame.key is _NO_KEY and type(frame.container) is LocatedMap:
            self._key(frame, event, text, position, plain)
            return
        value: Any = text
        try:
            if event.tag is not None and not event.implicit[1]:
                value = _tagged_scalar(str(event.tag), text)
            elif plain:
                value = resolve_plain(text)
        except ReadFault as fault:
            self.report(_at(fault, event))
            if fault.code in ("E009", "E014"):
                value = HOLE  # as text it would only draw a second finding
        self._count(event)
        self._place(value, position, event.anchor, 1, 0)

    def _key(self, frame: _Frame, event: Any, text: str, position: int, plain: bool) -> None:
        self._count(event)
        frame.key_mark = position
        frame.key = text
        if plain and text == "<<":
            self.report(_at(ReadFault("E008", "merge keys (<<) are not YAML 1.2", _MERGE), event))
            frame.key = _DROPPED
        elif plain:
            self._check_key(text, event)
        if text in frame.container:
            self.report(_at(self._repeated(frame.container, text), event))
            frame.key = _DROPPED
        if event.anchor is not None:
            self.anchors[event.anchor] = (text, 1, 0)

    def _repeated(self, container: LocatedMap, key: str) -> ReadFault:
        self.repeats += 1
        first = "in this mapping"
        # Looking a mark up walks the mapping: not for every one of a million repetitions.
        if self.repeats < 100:
            first = f"in line {line_of(container.key_mark(key)) + 1}"
        return ReadFault("E007", f"the key '{key}' is already set {first}", "keep one of the two")

    def _check_key(self, text: str, event: Any) -> None:
        try:
            is_text = isinstance(resolve_plain(text), str)
        except ReadFault:
            is_text = False
        # Exit codes are whole numbers wherever people write them.
        is_code = text.isdecimal() and len(self.stack) > 1 and self.stack[-2].key == "exits"
        if not is_text and not is_code:
            shown = text or "(empty)"
            fault = ReadFault("E013", f"a key must be text, and {shown} is not", f'write "{text}":')
            self.report(_at(fault, event))

    def open_map(self, event: Any) -> None:
        self._open(LocatedMap(self._position(event)), event)

    def open_list(self, event: Any) -> None:
        self._open(LocatedList(self._position(event)), event)

    def _position(self, event: Any) -> int:
        mark = event.start_mark
        return pack(self.source, mark.line, mark.column)

    def _open(self, container: Any, event: Any) -> None:
        stack = self.stack
        if stack and stack[-1].key is _NO_KEY and type(stack[-1].container) is LocatedMap:
            raise self._key_fault(stack[-1].container, event)
        if len(stack) >= MAX_DEPTH:
            raise _at(ReadFault("E011", f"nests deeper than {MAX_DEPTH} levels", _DEEP_HINT), event)
        tag = event.tag
        if tag is not None and not event.implicit:
            expected = "map" if type(container) is LocatedMap else "seq"
            if _CORE_TAGS.get(str(tag)) != expected:
                self.report(_at(_tag_fault(str(tag)), event))
        self._count(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        stack.append(_Frame(container, event.anchor, self.nodes - 1))

    def _key_fault(self, outer: LocatedMap, event: Any) -> ReadFault:
        """A container where a key should be; most often a template without quotes."""
        if not outer and outer.mark == self._position(event) - 1:
            message = "{{ opens a template only inside quotes; without them it is a mapping"
            fault = _at(ReadFault("E013", message, 'write the whole value as "{{name}}"'), event)
            fault.column, fault.length = fault.column - 1, 2
            return fault
        message = "a key must be text, not a list or a mapping"
        return _at(ReadFault("E013", message, "quote it, or write it as text"), event)

    def close(self, _event: Any) -> None:
        frame = self.stack.pop()
        self._place(
            frame.container,
            frame.container.mark,
            frame.anchor,
            self.nodes - frame.nodes_before,
            frame.height + 1,
        )

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise _at(_alias_fault(event.anchor, self.anchors), event)
        known = self.anchors[event.anchor]
        if known is None:
            raise _at(
                ReadFault(
                    "E010",
                    f"the anchor &{event.anchor} contains itself",
                    "an alias cannot stand inside its own anchor",
                    length=len(event.anchor) + 1,
                ),
                event,
            )
        value, nodes, height = known
        if len(self.stack) + height > MAX_DEPTH:
            raise _at(ReadFault("E011", f"nests deeper than {MAX_DEPTH} levels", _DEEP_HINT), event)
        self.nodes += nodes - 1
        self.repeated += nodes - 1
        self.limit = min(self.allowance.left + self.repeated, MAX_NODES)
        self._count(event)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.key is _NO_KEY and type(frame.container) is LocatedMap:
            if not isinstance(value, str):
                raise _at(ReadFault("E013", "a key must be text", "write the key out"), event)
            self._key(frame, event, value, self._position(event), plain=False)
            return
        self._place(value, self._position(event), None, nodes, height)

    def _count(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > self.limit:
            raise _at(too_many(written=self.nodes <= MAX_NODES), event)

    def _place(
        self, value: Any, position: int, anchor: str | None, nodes: int, height: int
    ) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, nodes, height)
        if not self.stack:
            self.root = value
            if value is None:
                raise ReadFault("E005", "is empty", _EMPTY_HINT)
            return
        frame = self.stack[-1]
        if height > frame.height:
            frame.height = height
        container = frame.container
        if type(container) is LocatedMap:
            if frame.key is not _DROPPED:
                container[frame.key] = value
                marks = container.marks
                marks.append(frame.key_mark)
                marks.append(position)
            frame.key = _NO_KEY
        else:
            container.append(value)
            container.marks.append(position)


def too_many(*, written: bool) -> ReadFault:
    """Why a document is too large to be read: what was written, or what aliases made of it."""
    if written:
        message = f"holds, with its includes, more than {MAX_WRITTEN:,} values"
        return ReadFault("E012", message, "move lists of data into files that the steps read")
    message = f"expands to more than {MAX_NODES:,} values"
    hint = "aliases multiply what they repeat; is this the right file?"
    return ReadFault("E012", message, hint)


_EMPTY_HINT = "a recipe has steps; `orchestrate list` shows some to start from"
_MERGE = 'write $include: "#/path/of/the/mapping" instead'


def _at(fault: ReadFault, event: Any) -> ReadFault:
    fault.line, fault.column = event.start_mark.line, event.start_mark.column
    return fault


def _alias_fault(name: str, anchors: Iterable[str]) -> ReadFault:
    near = closest(name, anchors)
    hint = f"did you mean *{near}?" if near else "quote the text if the * belongs to it"
    message = f"the alias *{name} has no anchor &{name} before it"
    return ReadFault("E010", message, hint, length=len(name) + 1)


def _tag_fault(tag: str, text: str = "") -> ReadFault:
    short = tag.replace("tag:yaml.org,2002:", "!!")
    message = f"the tag {short} is not allowed"
    hint = "remove it; plain values suffice"
    if tag == "!include" and text and len(text) < 200:
        hint = f"write {{$include: {text}}}"
    return ReadFault("E009", message, hint, length=len(short))


def _tagged_scalar(tag: str, text: str) -> Any:
    if tag in ("!", "tag:yaml.org,2002:str"):
        return text
    name = _CORE_TAGS.get(tag)
    value = resolve_plain(text) if name in ("int", "float", "bool", "null") else None
    matches = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    if name is None or not matches.get(name, False):
        raise _tag_fault(tag, text)
    return value
