"""Addresses: what frames, steps and attempts are called in keys, attempt ids, file names and texts.

`restart-1/Loop:2[3]/Call@2()/Step:2.1` is the first attempt of the second visit of `Step`, in the
second try of `Call`, at item 3 of the second entry into `Loop`, after the machine's first restart.
`edit-1/` in front of all that: it ran anew after the run's first edit or redo. Numbers that say
"the first time" are left out. Every spelling below is read back by `parse`, and no two addresses
share an attempt id or a log name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from orchestrate.digest import sha256_of
from orchestrate.record import record, replace
from orchestrate.regex import regex

if TYPE_CHECKING:
    from orchestrate.state.result import StepResult

# In a name these would be read as part of the address: what is special everywhere, and a number
# that would pass for a visit or an attempt.
_SPECIAL = regex(r"[%/\[\]()]|[:@](?=[0-9]+(?:\.[0-9]+)?\Z)")
_ESCAPE = regex(r"%([0-9A-F]{2})")

_NUMBER = r"[1-9][0-9]{0,8}"
_NAME = r"(?P<name>[^/\[\]()]+?)"
_AGAIN = rf"(?::(?P<again>{_NUMBER}))?"
_VISIT = rf"(?::(?P<visit>{_NUMBER}))?"
_TRIES = rf"(?:@(?P<tries>{_NUMBER}))?"
_INDEX = rf"\[(?P<index>0|{_NUMBER}|\*)\]"
_ATTEMPT = rf"(?::(?P<visit>{_NUMBER})(?:\.(?P<attempt>{_NUMBER}))?)?"

_EDIT = regex(rf"edit-({_NUMBER})\Z")
_RESTART = regex(rf"restart-({_NUMBER})\Z")
_BEGINNING = regex(rf"(?:edit|restart)-{_NUMBER}\Z")
_ITEM = regex(rf"{_NAME}{_AGAIN}{_INDEX}\Z", re.DOTALL)
_ITEM_THAT_CALLS = regex(rf"{_NAME}{_AGAIN}{_INDEX}{_VISIT}{_TRIES}\(\)\Z", re.DOTALL)
_CALL = regex(rf"{_NAME}{_VISIT}{_TRIES}(?:\(\))?\Z", re.DOTALL)
_ITEM_THAT_IS_A_STEP = regex(rf"{_NAME}{_AGAIN}{_INDEX}{_ATTEMPT}\Z", re.DOTALL)
_STEP = regex(rf"{_NAME}{_ATTEMPT}\Z", re.DOTALL)

_TYPED_VISIT = regex(rf"@({_NUMBER})\Z")
_PLAIN_ID = regex(r"[A-Za-z0-9_%-][A-Za-z0-9._:/@\[\]()%-]{0,150}\Z")
_PLAIN_NAME = regex(r"[A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)*\Z")
# As parts of a file name these mean an item and a restart.
_TAKEN_NAME = regex(r"(?:[0-9]+|(?:restart|edit)-[0-9]+)\Z", re.IGNORECASE)
_LONGEST_NAME = 100
# What notifies of a run's end is started under ids that begin so; those of a step never do.
NOTIFICATION = "notify~"
# File systems take 255 bytes; endings such as `.answer.txt` and temporary names need some.
_LONGEST_FILE = 180


@record
class Item:
    """An item of a loop; `visit` counts how often the loop was entered. No index: every item."""

    loop: str
    index: int | None
    visit: int = 1

    @property
    def text(self) -> str:
        index = "*" if self.index is None else self.index
        return f"{_escaped(self.loop)}{_beyond_first(':', self.visit)}[{index}]"


@record
class Called:
    """The plan that a step calls; `tries` counts the calls of one visit."""

    step: str
    visit: int = 1
    tries: int = 1

    @property
    def numbers(self) -> str:
        return _beyond_first(":", self.visit) + _beyond_first("@", self.tries)

    @property
    def text(self) -> str:
        return f"{_escaped(self.step)}{self.numbers}()"


@record
class FrameKey:
    """Where a frame is: the items and calls that lead to it, outermost first."""

    restart: int = 0
    parts: tuple[Item | Called, ...] = ()
    # After how many edits of the run; no address is used for two questions.
    edit: int = 0

    @staticmethod
    @lru_cache(256)
    def parse(text: str) -> FrameKey:
        """The frame of a key; a `ValueError` if that is none. It is mostly asked for again."""
        segments = text.split("/") if text else []
        edit = _EDIT.match(segments[0]) if segments else None
        segments = segments[edit is not None :]
        restart = _RESTART.match(segments[0]) if segments else None
        parts = [part for segment in segments[restart is not None :] for part in _parts_of(segment)]
        return FrameKey(
            0 if restart is None else int(restart[1]),
            tuple(parts),
            0 if edit is None else int(edit[1]),
        )

    @property
    def text(self) -> str:
        """The key of the frame in the journal and the state: '' for the main block."""
        return "/".join([*self.begins, *(part.text for part in self.parts)])

    @property
    def begins(self) -> list[str]:
        """What stands before the items and calls."""
        edit = [f"edit-{self.edit}"] if self.edit else []
        return [*edit, f"restart-{self.restart}"] if self.restart else edit

    def covers(self, other: FrameKey) -> bool:
        """Is the other frame meant by this one, or inside it? What is left open may be anything."""
        may_be = self.restart in (0, other.restart) and self.edit in (0, other.edit)
        may_be = may_be and len(self.parts) <= len(other.parts)
        return may_be and all(map(_covers, self.parts, other.parts))

    def item(self, loop: str, index: int, visit: int) -> FrameKey:
        return FrameKey(self.restart, (*self.parts, Item(loop, index, visit)), self.edit)

    def call(self, step: str, visit: int, tries: int) -> FrameKey:
        return FrameKey(self.restart, (*self.parts, Called(step, visit, tries)), self.edit)

    def step(self, name: str, visit: int | None = None, attempt: int | None = None) -> Address:
        return Address(self, name, visit, attempt)


@record
class Address:
    """A step in its frame; with `visit` one visit of it, with `attempt` too one attempt."""

    frame: FrameKey
    name: str
    visit: int | None = None
    attempt: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that one of our spellings means; a `ValueError` for any other."""
        before, slash, last = text.rpartition("/")
        frame = FrameKey.parse(before)
        if slash and not before:
            raise ValueError(f"'{text}' begins with a slash")
        found = _ITEM_THAT_IS_A_STEP.match(last)
        if found is not None:
            item = _item(found)
            frame = FrameKey(frame.restart, (*frame.parts, item), frame.edit)
            return cls(frame, item.loop, _number(found["visit"]), _number(found["attempt"]))
        found = _STEP.match(last)
        if found is None:
            raise ValueError(f"'{last}' is not a step")
        name = _unescaped(found["name"])
        return cls(frame, name, _number(found["visit"]), _number(found["attempt"]))

    @classmethod
    def typed(cls, text: str) -> Self:
        """The address that a person means, who may write a visit as `STEP@2`, too."""
        return cls.parse(_TYPED_VISIT.sub(r":\1", text))

    @property
    def text(self) -> str:
        """In full, as the journal and the state have it."""
        return self._place + self._numbers

    @property
    def shown(self) -> str:
        """As people read and type it: a call needs no mark where a step follows in it, the only
        step of a recipe's loop is not named twice, and a step is the same after an edit."""
        frame = self.frame
        if frame.edit and self.visit is None:
            frame = replace(frame, edit=0)
        words = frame.begins
        parts = list(frame.parts)
        while parts:
            part = parts.pop(0)
            follows = parts[0] if parts else None
            if isinstance(part, Called):
                is_clear = len(words) > bool(frame.edit) or not _BEGINNING.match(part.step)
                words.append(part.text.removesuffix("()") if is_clear else part.text)
            elif isinstance(follows, Called) and follows.step == part.loop:
                words.append(f"{part.text}{follows.numbers}()")
                parts.pop(0)
            elif follows is None and part.loop == self.name:
                return "/".join([*words, part.text + self._numbers])
            else:
                words.append(part.text)
        return "/".join([*words, self._own])

    @property
    def dotted(self) -> str:
        """As results lie in the state: `Loop.3.Step`."""
        words: list[str] = []
        for part in self.frame.parts:
            match part:
                case Item(loop, index):
                    words += (loop, "*" if index is None else str(index))
                case Called(step):
                    words.append(step)
        return ".".join([*words, self.name])

    @property
    def step(self) -> Address:
        """The step itself, whichever visit and attempt."""
        return Address(self.frame, self.name)

    @property
    def of_all_items(self) -> Address:
        """The step in every item of its loops, entry into them, call, and edit: `Loop[*]/Step`."""
        parts = tuple(
            replace(part, visit=1, index=None)
            if isinstance(part, Item)
            else replace(part, visit=1, tries=1)
            for part in self.frame.parts
        )
        return Address(FrameKey(self.frame.restart, parts), self.name)

    def covers(self, other: Address) -> bool:
        """Is the other address meant by this one? What this one leaves open may be anything: the
        items, and every number that is not said or only says "the first time". Where an attempt is
        said, every number counts."""
        if self.attempt is not None and not self._has_open_items:
            return self == other
        return (
            self.name == other.name
            and self.visit in (None, other.visit)
            and self.attempt in (None, other.attempt)
            and len(self.frame.parts) == len(other.frame.parts)
            and self.frame.covers(other.frame)
        )

    def contains(self, other: Address) -> bool:
        """Is the other one inside this loop, or in the plan that this step calls?"""
        depth, parts = len(self.frame.parts), other.frame.parts
        is_deeper = len(parts) > depth and self.name == _name_of(parts[depth])
        return is_deeper and self.frame.covers(other.frame)

    @property
    def outermost(self) -> str:
        """The step of the main block that it belongs to."""
        return _name_of(self.frame.parts[0]) if self.frame.parts else self.name

    @property
    def is_of_loop(self) -> bool:
        return any(isinstance(part, Item) for part in self.frame.parts)

    @property
    def attempt_id(self) -> str:
        """The keeper's name for the attempt: the same after every resume, never used again."""
        where = self._place.replace(" ", "%20")
        if not _PLAIN_ID.match(where):
            where = f"~{_digest(where, 32)}"
        return f"{where}:{self.visit or 1}.{self.attempt or 1}"

    def log_name(self, twins: frozenset[str] = frozenset()) -> str:
        """What the files of the attempt under `logs/` begin with.

        `twins` are names of the run's steps that differ in nothing but upper and lower case: some
        file systems do not tell them apart.
        """
        words = self.frame.begins
        for part in self.frame.parts:
            again = _beyond_first("+", part.visit)
            match part:
                case Item(loop, index):
                    words += (_log_word(loop, twins) + again, str(index))
                case Called(step, _, tries):
                    words.append(_log_word(step, twins) + again + _beyond_first("@", tries))
        own = _beyond_first("+", self.visit or 1) + _beyond_first("@", self.attempt or 1)
        name = ".".join([*words, _log_word(self.name, twins) + own])
        if len(name) <= _LONGEST_FILE:
            return name
        return f"{name[: _LONGEST_FILE - 34]}~~{_digest(name, 32)}"

    @property
    def _has_open_items(self) -> bool:
        return any(isinstance(part, Item) and part.index is None for part in self.frame.parts)

    @property
    def _place(self) -> str:
        """The step itself in full, whichever visit and attempt."""
        frame, own = self.frame.text, _escaped(self.name)
        return f"{frame}/{own}" if frame else own

    @property
    def _numbers(self) -> str:
        if self.visit is None:
            return ""
        return f":{self.visit}" if self.attempt is None else f":{self.visit}.{self.attempt}"

    @property
    def _own(self) -> str:
        return _escaped(self.name) + self._numbers


@lru_cache(64)
def address_of(frame_key: str, name: str, visit: int, attempt: int) -> Address:
    """An attempt at a frame's step. Of a quick step it is asked for several times."""
    return Address(FrameKey.parse(frame_key), name, visit, attempt)


def is_inside(key: str, outer: str) -> bool:
    """Is a frame inside another one, by their keys? No name has a slash in a key."""
    return key.startswith(f"{outer}/")


def file_name_for(step: str, twins: Collection[str] = ()) -> str:
    """A step's name as part of a file name: itself where it can be, else readable and unique."""
    if len(step) <= _LONGEST_NAME and _PLAIN_NAME.match(step) and step not in twins:
        return step
    return _readable_digest(step)


@lru_cache(256)
def _log_word(step: str, twins: frozenset[str]) -> str:
    return _readable_digest(step) if _TAKEN_NAME.match(step) else file_name_for(step, twins)


def _readable_digest(step: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", step)[:60].strip("-")
    return f"{readable}~{_digest(step, 16)}"


def name_in_block(node: str, block: str) -> str:
    """The author's name of a step, from the ids of its node and of the block that it stands in."""
    if block.endswith("/") and node.startswith(block):
        return node[len(block) :]
    if block.endswith("/body") and node.startswith(block.removesuffix("/body") + "[]"):
        return node.replace("[]", "", 1)  # the step itself, or a round of it
    return node


def name_of_node(node: str) -> str:
    """The author's name of a step, from its node's id alone: no dialect allows `/` in a name."""
    return node.rpartition("/")[2].replace("[]", "")


def gate_words(stage: str, node: str, name: str = "") -> str:
    """What a gate is called: `step 'Ask'` where it is a step, else `stage 'planning'`.

    `name` is a longer one, where several gates have this one.
    """
    return f"{'step' if name_of_node(node) == stage else 'stage'} '{name or stage}'"


def shown_path(frame_key: str, node: str) -> str:
    """How people name the step of a node, `Loop[3]/Step`; every command that takes a step does."""
    return FrameKey.parse(frame_key).step(name_of_node(node)).shown


def log_name_in(result: StepResult) -> str:
    """What the files of the attempt that a result tells of begin with; '' if it has none."""
    if result.log is not None:
        return result.log
    return Address.parse(result.address).log_name() if result.address else ""


def _covers(part: Item | Called, other: Item | Called) -> bool:
    match part, other:
        case Item(loop, index, visit), Item():
            fits = index in (None, other.index)
            return fits and loop == other.loop and visit in (1, other.visit)
        case Called(step, visit, tries), Called():
            fits = tries in (1, other.tries)
            return fits and step == other.step and visit in (1, other.visit)
        case _:
            return False


def _name_of(part: Item | Called) -> str:
    return part.loop if isinstance(part, Item) else part.step


def _parts_of(segment: str) -> tuple[Item | Called, ...]:
    found = _ITEM.match(segment)
    if found is not None:
        return (_item(found),)
    found = _ITEM_THAT_CALLS.match(segment)
    if found is not None:
        item = _item(found)
        return item, Called(item.loop, _number(found["visit"]) or 1, _number(found["tries"]) or 1)
    found = _CALL.match(segment)
    if found is None:
        raise ValueError(f"'{segment}' is neither an item of a loop nor a call")
    name = _unescaped(found["name"])
    return (Called(name, _number(found["visit"]) or 1, _number(found["tries"]) or 1),)


def _item(found: re.Match[str]) -> Item:
    index = None if found["index"] == "*" else int(found["index"])
    return Item(_unescaped(found["name"]), index, _number(found["again"]) or 1)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def _beyond_first(mark: str, number: int) -> str:
    return f"{mark}{number}" if number > 1 else ""


@lru_cache(256)
def _escaped(name: str) -> str:
    """The name with what would be read as more than a name in `%XX`."""
    if _PLAIN_NAME.match(name):
        return name
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", name)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def _digest(text: str, length: int) -> str:
    return sha256_of(text.encode("utf-8", "surrogatepass"))[:length]
