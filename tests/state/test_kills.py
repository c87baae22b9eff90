"""Killed with SIGKILL at every system call, a writer loses nothing that it announced."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.durable import dump_json, parse_json, remove_leftovers, write_durably
from orchestrate.state.journal import Journal, read_tail
from tests.state.children import EVENTS, NEW, OLD
from tests.state.killing import sweep

pytestmark = pytest.mark.faults

BOTH_WAYS = pytest.mark.parametrize("by_hook", [False, True], ids=["traced", "hook"])
FIRST = [{"n": 1}, {"n": 2}]


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    numbers = itertools.count()

    def make() -> Path:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        write_durably(folder / "state.json", dump_json(OLD))
        with Journal.open(folder / "events.jsonl") as journal:
            journal.append(FIRST)
        return folder

    return make


@BOTH_WAYS
def test_a_killed_write_leaves_the_old_state_or_the_new_one(
    fresh: Callable[[], Path], by_hook: bool
) -> None:
    folders: list[Path] = []
    seen = set()

    def prepare() -> Path:
        folders.append(fresh())
        return folders[-1]

    for killed in sweep("write", prepare, by_hook=by_hook):
        folder = folders[-1]
        state = parse_json((folder / "state.json").read_bytes())
        assert state in (OLD, NEW), killed
        if "written" in killed.said:
            assert state == NEW, killed
        seen.add(state["version"])
        previous = folder / "state.json.prev"
        if previous.exists():
            assert parse_json(previous.read_bytes()) == OLD, killed
        remove_leftovers(folder)
        allowed = {"state.json", "state.json.prev", "events.jsonl"}
        assert set(os.listdir(folder)) <= allowed, killed
        write_durably(folder / "state.json", dump_json(NEW), keep_previous=True)
        assert parse_json((folder / "state.json").read_bytes()) == NEW
    assert seen == {"old", "new"}


def test_a_killed_append_leaves_whole_events_and_all_announced_ones(
    fresh: Callable[[], Path],
) -> None:
    folders: list[Path] = []
    whole: list[Any] = [*FIRST, *itertools.chain(*EVENTS)]
    seen = set()

    def prepare() -> Path:
        folders.append(fresh())
        return folders[-1]

    for killed in sweep("append", prepare, by_hook=False):
        path = folders[-1] / "events.jsonl"
        announced = max([2, *[int(line.split()[1]) for line in killed.said if line != "end"]])
        found = [entry.event for entry in read_tail(path)]
        assert found == whole[: len(found)], killed
        assert len(found) >= announced, killed
        seen.add(len(found))
        with Journal.open(path) as journal:
            assert journal.append([{"after": True}]) == len(found) + 1
        assert [entry.event for entry in read_tail(path, len(found))] == [{"after": True}]
    assert seen == {2, 5, 6}
