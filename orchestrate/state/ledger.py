"""The user's ledger: every call of an agent that may cost something, over all runs and workspaces.

A line tells the instant at which money was set aside; there is a file for each day of UTC, to which
lines are only added. A day's budget is of the calendar day of the process that asks: processes in
two time zones have other days, but each sees all that was spent in its own. A later line about a
call replaces an earlier one. A call is written when money is set aside for it, and again when it is
known what it has cost: before the run's own journal says so, so that a run that was killed in
between writes the same once more. One lock keeps two runs from spending the same dollar of a day's
budget. What a user spends in one home no other user sees.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrate.errors import explain
from orchestrate.record import field_names, record
from orchestrate.state.durable import dump_json, parse_json
from orchestrate.state.locks import user_state_folder, wait_for_instant

_FOLDER = "spending"
_DAY = "%Y-%m-%d"
_HOUR_S = 3600.0
# More than any figure of one call.
_MOST = 1e15


@record
class LedgerEntry:
    """One call. What it did not report is None; what is reserved counts until it is settled.

    `recipes` are the plans around the step, the run's own first.
    """

    call: str
    at: float
    run: str
    workspace: str
    recipes: tuple[str, ...]
    step: str
    agent: str = ""
    model: str | None = None
    reserved_usd: float = 0.0
    is_settled: bool = False
    cost_usd: float | None = None
    # What unknown costs and tokens count for, and whether a known cost was computed from prices.
    counted_usd: float | None = None
    counted_tokens: int | None = None
    is_computed: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    reserved_tokens: int = 0
    # The run's folder; and whether what was set aside was given back, without a call.
    root: str = ""
    is_void: bool = False
    # What its program itself may spend, where that is more than was set aside.
    cap_usd: float | None = None

    @property
    def tells_tokens(self) -> bool:
        return self.input_tokens is not None and self.output_tokens is not None

    @property
    def is_turned_away(self) -> bool:
        """Has it told that it took nothing, as one does that meets a usage limit or an outage? That
        says nothing of what the next one will take."""
        has_told = self.cost_usd is not None or self.tells_tokens
        return has_told and not self.cost_usd and not self.tokens

    @property
    def day(self) -> str:
        return day_of(self.at)

    @property
    def tokens(self) -> int:
        return (self.input_tokens or 0) + (self.output_tokens or 0)


def day_of(at: float) -> str:
    """The calendar day by the local clock."""
    return time.strftime(_DAY, time.localtime(at))


def day_around(at: float) -> tuple[float, float]:
    """When the calendar day of the local clock begins and ends: seldom it has 23 or 25 hours."""
    year, month, day, *_ = time.localtime(at)
    return _midnight(year, month, day), _midnight(year, month, day + 1)


def _midnight(year: int, month: int, day: int) -> float:
    """The first one of a day: where clocks are set back at 1:00, there is another an hour later."""
    last = time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
    return last - _HOUR_S if day_of(last - 1) == day_of(last) else last


class Ledger:
    """Reads each file as far as it has grown, and adds to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, int] = {}
        self._known: dict[str, dict[str, LedgerEntry]] = {}

    def today(self, now: float) -> list[LedgerEntry]:
        """The calls of the local calendar day."""
        begin, end = day_around(now)
        return [entry for entry in self.since(begin) if entry.at < end]

    def since(self, start: float) -> Iterator[LedgerEntry]:
        """The calls since an instant, by days in the order in which they were first written."""
        first = _name_of(start)
        for name in self._names():
            if name >= first:
                yield from (entry for entry in self._calls(name) if entry.at >= start)

    def _calls(self, name: str) -> list[LedgerEntry]:
        known = self._known.setdefault(name, {})
        for line in self._more(name):
            try:
                entry = _entry(parse_json(line))
            except (ValueError, TypeError, KeyError):
                continue  # a kill has torn it, or it was damaged
            if entry.is_void:
                known.pop(entry.call, None)
            else:
                known[entry.call] = entry
        return list(known.values())

    def _more(self, name: str) -> list[bytes]:
        """The whole lines that were added since the last look."""
        start = self._read.get(name, 0)
        try:
            with self._path(name).open("rb") as file:
                file.seek(start)
                content = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise explain("read", self._path(name), error) from error
        whole = content[: content.rfind(b"\n") + 1]
        self._read[name] = start + len(whole)
        return whole.split(b"\n")[:-1]

    def _names(self) -> list[str]:
        try:
            return sorted(path.stem for path in self.folder.glob("*.jsonl"))
        except OSError as error:
            raise explain("read", self.folder, error) from error

    def write(self, entry: LedgerEntry) -> None:
        """Add what is known of a call; on the disk when this returns."""
        line = dump_json({name: getattr(entry, name) for name in field_names(entry)})
        path = self._path(_name_of(entry.at))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                is_torn = end and os.pread(file.fileno(), 1, end - 1) != b"\n"
                file.write(b"\n" + line if is_torn else line)
                os.fdatasync(file.fileno())
        except OSError as error:
            raise explain("write", path, error) from error

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Be the only one who sets money aside; held for an instant only."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.folder / "ledger.lock"
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise explain("open", self.folder, error) from error
        try:
            wait_for_instant(lock, "the ledger of your costs")
            yield
        finally:
            os.close(lock)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"


def _name_of(at: float) -> str:
    """What the file is called that tells of an instant: the day of UTC."""
    return time.strftime(_DAY, time.gmtime(at))


def ledger_of(environment: Mapping[str, str]) -> Ledger:
    """The ledger of the user whose environment this is."""
    return Ledger(user_state_folder(environment) / _FOLDER)


def _entry(written: Any) -> LedgerEntry:
    """What a line says; `ValueError` and the like for what no run has written."""
    if not isinstance(written, dict):
        raise TypeError
    known = LedgerEntry.__match_args__
    fields = {name: value for name, value in written.items() if name in known}
    entry = LedgerEntry(**{**fields, "recipes": tuple(written["recipes"])})
    texts = (entry.call, entry.run, entry.workspace, entry.step, entry.agent, entry.root)
    dollars = (entry.reserved_usd, entry.cost_usd, entry.counted_usd, entry.cap_usd)
    tokens = (
        entry.reserved_tokens, entry.counted_tokens, entry.input_tokens, entry.output_tokens
    )  # fmt: skip
    figures = [figure for figure in (*dollars, *tokens) if figure is not None]
    if not all(isinstance(text, str) for text in (*texts, *entry.recipes, entry.model or "")):
        raise TypeError
    # Below nothing, or without end, it would make room in budgets, or never leave any.
    if not all(0 <= figure < _MOST for figure in (entry.at, *figures)):
        raise ValueError
    return entry
