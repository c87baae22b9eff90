"""Findings about a definition: where, what, why it matters and what to write instead.

This module is pure data; `orchestrate.show.findings` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from orchestrate.codes import CODES
from orchestrate.record import field, mutable_record, record

Severity = Literal["error", "warning"]

# A hostile file can hold a million mistakes; no reader wants more than this many.
MOST_FINDINGS = 200


@record
class Span:
    """A place in a file; lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@record
class Diagnostic:
    """One finding. `excerpt` is the source line the span points into ('' when there is none)."""

    code: str
    message: str
    span: Span
    hint: str = ""
    suggestion: str = ""
    excerpt: str = ""

    @property
    def severity(self) -> Severity:
        return "error" if self.code.startswith("E") else "warning"

    @property
    def name(self) -> str:
        name, _ = CODES[self.code]
        return name


@mutable_record
class Findings:
    """Collects the findings of one compilation, each place and code once."""

    items: list[Diagnostic] = field(default_factory=list)
    dropped: int = 0
    has_errors: bool = False
    _seen: set[tuple[str, str, int, int, str]] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        """Nothing more will be shown, so where and why need not be worked out."""
        return self.has_errors and len(self.items) >= MOST_FINDINGS

    def add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        key = (diagnostic.code, span.file, span.line, span.column, diagnostic.message)
        if key in self._seen:
            return
        is_first_error = diagnostic.severity == "error" and not self.has_errors
        if len(self.items) >= MOST_FINDINGS:
            self.dropped += 1
            if not is_first_error:
                return
            # However many warnings there are, an error is told: it decides the exit code.
            self.items.pop()
        self.has_errors |= is_first_error
        self._seen.add(key)
        self.items.append(diagnostic)

    def in_reading_order(self) -> tuple[Diagnostic, ...]:
        """Files in the order they were first met, then top to bottom."""
        order: dict[str, int] = {}
        for item in self.items:
            order.setdefault(item.span.file, len(order))
        return tuple(
            sorted(
                self.items,
                key=lambda d: (order[d.span.file], d.span.line, d.span.column, d.code),
            )
        )


def closest(word: str, candidates: Iterable[object]) -> str:
    """The candidate that `word` is probably a slip of, or ''."""
    key = _folded(word)
    likely: list[tuple[int, str, str]] = []
    pairs = _pairs(key)
    slack = 2 + len(key) // 4
    for name in candidates:
        if not isinstance(name, str) or name == word or abs(len(name) - len(key)) > slack:
            continue
        other = _folded(name)
        if other == key:
            return name
        likely.append((-len(pairs & _pairs(other)), other, name))
    if not likely:
        return ""
    # Comparing exactly is slow, and a hostile file can have a thousand slips among a thousand
    # names: only the few that share most letter pairs are compared.
    from difflib import get_close_matches

    likely.sort()
    by_folded = {other: name for _, other, name in reversed(likely[:5])}
    match = get_close_matches(key, by_folded, n=1, cutoff=0.6)
    return by_folded[match[0]] if match else ""


def closest_file(name: str, others: Iterable[str]) -> str:
    """The file that `name` is probably a slip of; that both end in `.yaml` says nothing."""
    stems: dict[str, str] = {}
    for other in others:
        stems.setdefault(other.rpartition(".")[0] or other, other)
    stem = name.rpartition(".")[0] or name
    near = stems.get(stem) or stems.get(closest(stem, stems), "")
    if near:
        return near
    # Names of a letter or two are like none by the share of what is equal.
    slips = [other for other in stems if len(other) == len(stem) < 3 and _differ_once(stem, other)]
    return stems[slips[0]] if len(slips) == 1 else ""


def _differ_once(word: str, other: str) -> bool:
    return sum(mine != its for mine, its in zip(word, other, strict=True)) == 1


def _folded(word: str) -> str:
    return word[:200].lower().replace("_", "-")


@lru_cache(maxsize=4096)
def _pairs(word: str) -> frozenset[str]:
    return frozenset(word[i : i + 2] for i in range(-1, len(word)))


@record
class CheckedFile:
    """What a check found out about one file."""

    file: str
    dialect: str | None
    valid: bool
    exit_code: int
    steps: int
    # Those of `steps` that stand in a workflow's loops: `run` does not number them.
    looped: int
    diagnostics: tuple[Diagnostic, ...]
    dropped: int


def clipped(text: str) -> str:
    """What an author wrote, short enough for a message."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else flat[:57] + "…"


def distinct(files: Iterable[CheckedFile]) -> list[Diagnostic]:
    """All findings; one in a file that several others include is told once."""
    return list(dict.fromkeys(finding for file in files for finding in file.diagnostics))


def worst_code(files: Iterable[CheckedFile]) -> int:
    """The exit code of the worst of the files; 0 if all are valid."""
    return max((file.exit_code for file in files if not file.valid), default=0)
