"""`make test ARGS=--cpu` lists the seconds of processor time that tests and files took.

What a test has started counts, as far as it is or was a child of ours: a keeper outlives the
command that started it and has no parent then, so that only `time make test` sees its share.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")


class CpuListing:
    """A plugin, in the process that prints and in those that test."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._by_test: Counter[str] = Counter()
        self._before = _spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _spent_s()
        # An attribute of a report comes along when xdist sends it.
        report.__dict__["cpu_s"] = now - self._before
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._by_test[report.nodeid] += report.__dict__["cpu_s"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_file: Counter[str] = Counter()
        for name, seconds in self._by_test.items():
            by_file[name.partition("::")[0]] += seconds
        for title, spent in (("files", by_file), ("tests", self._by_test)):
            terminalreporter.section(f"{title}: {sum(spent.values()):.0f} s of processor time")
            for name, seconds in spent.most_common(self._number):
                terminalreporter.write_line(f"{seconds:8.2f} {name}")


def _spent_s() -> float:
    return sum(os.times()[:4]) + sum(map(_spent_by, _children()))


def _children() -> Iterator[int]:
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, thread.read_text("ascii").split())


def _spent_by(pid: int) -> float:
    """The seconds of a child that lives, and of those that it has waited for."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0
