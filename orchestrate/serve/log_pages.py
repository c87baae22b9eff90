"""Pages of a log by line numbers, and a search over the whole of it; for files of any size."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from orchestrate.errors import UsageError
from orchestrate.record import record
from orchestrate.serve.problems import Problem
from orchestrate.state.runs import Run
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import Stream, find_entry, source_of

_BLOCK = 256 * 1024
MOST_LINES = 2000
# A line that is longer is cut: it is one of a program's, not of a person's.
_MOST_LINE = 4000
_MOST_PAGE = 2 * 1024 * 1024
_MOST_HITS = 500
_MOST_INDEXES = 32
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@record
class Page:
    """`first` is the number of the first line, from 1; `total` counts all that there are."""

    first: int
    lines: list[str]
    total: int
    size: int
    step: str
    # Does the last line of the file lack its end?
    is_open: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "lines": self.lines,
            "total": self.total,
            "size": self.size,
            "step": self.step,
            "open": self.is_open,
        }


class _Index:
    """Where the blocks of a growing file begin, in lines; made once and extended."""

    def __init__(self) -> None:
        # The number of line ends before each block.
        self.ends: list[int] = [0]
        self.done = 0

    def extend(self, file: BinaryIO, size: int) -> None:
        """Whole blocks only: the last part of the file may still grow."""
        if size < self.done:
            self.ends, self.done = [0], 0
        file.seek(self.done)
        while self.done + _BLOCK <= size:
            block = file.read(_BLOCK)
            if len(block) < _BLOCK:
                return
            self.done += _BLOCK
            self.ends.append(self.ends[-1] + block.count(b"\n"))


_indexes: OrderedDict[tuple[int, int], _Index] = OrderedDict()
_guard = Lock()


def log_source(
    run: Run, step: str | None, stream: Stream, *, raw: bool
) -> tuple[Path | bytes, str]:
    """The file, or the short text, that is meant; and the step's path."""
    if not step:
        return run.logs / "orchestrator.log", ""
    try:
        entry = find_entry(run, run_view(run).state, step)
    except UsageError as error:
        raise Problem(404, error.message, error.hint) from None
    return source_of(run, entry, stream, is_raw=raw), entry.path


def _open(source: Path | bytes) -> BinaryIO:
    if isinstance(source, bytes):
        return BytesIO(source)
    try:
        return os.fdopen(os.open(source, _OPEN), "rb", buffering=_BLOCK)
    except FileNotFoundError:
        return _open(b"")
    except OSError as error:
        raise Problem(409, f"the log cannot be read: {error.strerror}", exit_code=5) from None


def page_of(source: Path | bytes, step: str, first: int | None, limit: int) -> Page:
    """`limit` lines from `first` on, or the last ones."""
    with _open(source) as file:
        size = file.seek(0, os.SEEK_END)
        index = _index_of(file, size)
        total, is_open = _count(file, index, size)
        begin = max(1, total - limit + 1) if first is None else first
        lines = _lines_from(file, index, begin, limit)
        return Page(begin, lines, total, size, step, is_open)


def _index_of(file: BinaryIO, size: int) -> _Index:
    if isinstance(file, BytesIO):
        index = _Index()
        index.extend(file, size)
        return index
    found = os.fstat(file.fileno())
    with _guard:
        index = _indexes.setdefault((found.st_dev, found.st_ino), _Index())
        _indexes.move_to_end((found.st_dev, found.st_ino))
        if len(_indexes) > _MOST_INDEXES:
            _indexes.popitem(last=False)
        index.extend(file, size)
    return index


def _count(file: BinaryIO, index: _Index, size: int) -> tuple[int, bool]:
    file.seek(index.done)
    rest = file.read(max(0, size - index.done))
    is_open = not rest.endswith(b"\n") if rest else size > 0 and not _ends_line(file, index.done)
    return index.ends[-1] + rest.count(b"\n") + is_open, is_open


def _ends_line(file: BinaryIO, at: int) -> bool:
    file.seek(at - 1)
    return file.read(1) == b"\n"


def _lines_from(file: BinaryIO, index: _Index, first: int, limit: int) -> list[str]:
    # The last block in front of which there are fewer line ends than lines before the first one.
    block = max(0, bisect_right(index.ends, first - 2) - 1) if first > 1 else 0
    file.seek(block * _BLOCK)
    to_skip = first - 1 - index.ends[block]
    for _ in range(to_skip):
        if not file.readline():
            return []
    lines: list[str] = []
    taken = 0
    while len(lines) < limit and taken < _MOST_PAGE:
        line = file.readline()
        if not line:
            break
        taken += len(line)
        lines.append(shown(line))
    return lines


def shown(line: bytes) -> str:
    """A line as text, cut in the middle where it is very long."""
    line = line.rstrip(b"\r\n")
    if len(line) > _MOST_LINE:
        left = len(line) - _MOST_LINE
        half = _MOST_LINE // 2
        line = line[:half] + f" … {left} more bytes … ".encode() + line[-half:]
    return line.decode("utf-8", "replace")


def search(source: Path | bytes, step: str, needle: str, limit: int) -> dict[str, Any]:
    """The lines that have the text, whatever its case: the true count, and the first of them."""
    wanted = needle.lower().encode("utf-8", "surrogateescape")
    hits: list[dict[str, Any]] = []
    count = 0
    with _open(source) as file:
        for number, line in enumerate(file, 1):
            if wanted in line.lower():
                count += 1
                if len(hits) < min(limit, _MOST_HITS):
                    hits.append({"line": number, "text": shown(line)})
    return {"count": count, "hits": hits, "step": step}
