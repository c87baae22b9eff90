"""The data that the shell scanner builds: words, commands, and the frames that are open."""

from __future__ import annotations

import re

from orchestrate.lang.shell.argv import UNKNOWN, VALUE
from orchestrate.record import field, mutable_record, record
from orchestrate.regex import regex

QUOTED = "\2"
RESERVED = frozenset(map(chr, range(4)))  # control characters that the scanner uses as marks
PLAIN_SHELLS = frozenset({"sh", "dash", "ash"})  # no [[, no arrays, no $'…' to rely on

_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class UnclearError(Exception):
    """The scanner cannot tell how a shell would read on; the argument is the reason's code."""


class UnbalancedError(Exception):
    """A quote or a bracket is never closed."""


@record
class Word:
    """One word: `text` without quotes, and `bare`, alike but with quoted characters masked."""

    text: str
    bare: str
    holes: tuple[int, ...] = ()  # values that stand in the word itself
    inner: tuple[int, ...] = ()  # values inside its command substitutions
    elements: tuple[int, ...] = ()  # values inside its array literal
    uses: frozenset[str] = frozenset()  # the script's own variables that it expands

    @property
    def values(self) -> tuple[int, ...]:
        """All values that can shape the word."""
        return self.holes + self.inner + self.elements

    @property
    def may_vanish(self) -> bool:
        """Say whether the word may expand to nothing, so that the next one takes its place."""
        return not self.bare.strip(UNKNOWN)


@record
class Command:
    """One command of the script, with what the rules need to judge its values."""

    kind: str  # "simple", "test" for [[ ]], "for"
    words: tuple[Word, ...]
    redirects: tuple[tuple[str, Word], ...]
    piped: range  # values in the earlier commands of the same pipeline
    name: str = ""  # the loop's variable


@record
class Scan:
    """What the scanner found: a place for each value, troubles by value, and the commands."""

    places: tuple[str, ...]
    troubles: tuple[tuple[int, str], ...]
    commands: tuple[Command, ...]
    evaluated: frozenset[str]  # variables that arithmetic reads
    arrays: frozenset[str]
    document_uses: frozenset[str]  # variables that here-documents expand
    unread: frozenset[str]  # names in what could not be followed
    balanced: bool


@mutable_record
class Draft:
    """A word while it is being read."""

    text: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    holes: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)
    elements: list[int] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)

    def finish(self) -> Word:
        return Word(
            "".join(self.text),
            "".join(self.bare),
            tuple(self.holes),
            tuple(self.inner),
            tuple(self.elements),
            frozenset(self.uses),
        )


@mutable_record
class OpenBracket:
    """One open bracket or quote; only "commands" frames hold commands."""

    kind: str  # commands, array, double, arithmetic, parameter, pattern
    first: int  # how many values came before it
    start: int
    doom: str = ""  # why any value in here is in trouble
    quoted: bool = False  # opened inside double quotes
    statement: bool = False  # a compound command, not part of a word
    depth: int = 0
    mode: str = "simple"
    draft: Draft | None = None
    words: list[Word] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)
    operator: str = ""
    leading: bool = True  # the words so far are assignments
    closed: bool = False  # a compound command just ended
    timed: bool = False
    cases: int = 0
    pattern_open: bool = False
    loop: str = ""
    piped_from: int = 0
    command_from: int = 0
    uses: set[str] = field(default_factory=set)


@record
class HereDocument:
    """A here-document whose body is still to come."""

    frame: OpenBracket
    delimiter: str
    literal: bool
    tabs: bool


def split_assignment(bare: str) -> tuple[str, int] | None:
    """Give an assignment word's variable and where its value begins; None for another word.

    The end is -1 when a subscript is left open: the shell then reads on past blanks.
    """
    name = _NAME.match(bare)
    if name is None:
        return None
    end = name.end()
    if bare[end : end + 1] == "[":
        end = close_bracket(bare, end)
        if end < 0:
            return name[0], -1
    if bare[end : end + 1] == "+":
        end += 1
    return (name[0], end + 1) if bare[end : end + 1] == "=" else None


def close_bracket(bare: str, start: int) -> int:
    """Give the position after the bracket that closes the one at `start`, or -1."""
    depth = 0
    for index in range(start, len(bare)):
        if bare[index] == "[":
            depth += 1
        elif bare[index] == "]":
            depth -= 1
            if not depth:
                return index + 1
    return -1


def holes_before(word: Word, end: int) -> tuple[int, ...]:
    """Give the values of a word that stand before a position of its text, or might."""
    return word.holes[: word.text.count(VALUE, 0, end)] + (
        word.inner if UNKNOWN in word.text[:end] else ()
    )
