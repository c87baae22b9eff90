"""A report of a long loop passes over what its items have in common, and says the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import LOCAL
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.record import replace
from orchestrate.state import alike
from orchestrate.state.model import Index
from orchestrate.state.runs import Run
from orchestrate.view.history import Chronicle, read_chronicle
from tests.engine.performing import running
from tests.state.definitions import command, workflow
from tests.state.folding import compiled

pytestmark = pytest.mark.faults

ITEMS = 700
LOOP = workflow(
    command("Before")
    + f"""\
  - name: Loop
    for_each:
      items: [{", ".join(map(str, range(ITEMS)))}]
      steps:
        - {{name: In, command: ["true"], on: {{failure: {{goto: Out}}}}}}
        - {{name: Out, command: ["true"]}}
"""
    + command("After")
)
# 700 items are two long stretches with a failure between, or one.
ACTS: dict[str, dict[str, Act]] = {
    "all well": {},
    "some fail": {f"Loop[{n}]/In:1.1": Act(3) for n in (350, 351, 698)},
    "some print": {f"Loop[{n}]/Out:1.1": Act(stdout=b'{"agent": "x"}') for n in (300, 301)},
}


def run_of(folder: Path, acts: dict[str, Act], text: str = LOOP) -> Run:
    with running(folder, compiled(text), executors={LOCAL: FakeExecutor(acts)}) as run:
        run.to_end()
        return run.store.run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which all went well, to be read."""
    return run_of(tmp_path_factory.mktemp("whole"), ACTS["all well"])


def told(run: Run, index: Index | None) -> tuple[Chronicle, list[Any]]:
    found = read_chronicle(run, index, 2e9, is_live=False)
    tallies = [
        (
            path, one.visits, one.attempts, one.statuses, pytest.approx(one.seconds, abs=1e-6),
            one.longest, one.last, one.error, one.items, one.examples, one.usage,
        )
        for path, one in found.tallies.by_path.items()
    ]  # fmt: skip
    trail = found.trail
    path = [] if trail is None else [trail.visits, trail.moves, trail.marks, trail.starts]
    return found, [found.events, found.notes, found.tallies.last_at, tallies, path]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[alike.Alike]:
    """What is passed over from here on."""
    passed: list[alike.Alike] = []
    find = alike._find_alike

    def count(*given: Any) -> Any:
        found = find(*given)
        if found is not None:
            passed.append(found)
        return found

    monkeypatch.setattr(alike, "_find_alike", count)
    return passed


@pytest.mark.parametrize("acts", ACTS.values(), ids=ACTS)
def test_it_says_what_reading_each_event_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: dict[str, Act]
) -> None:
    run = run_of(tmp_path, acts)
    index = Index(compiled(LOOP))
    passed = counted(monkeypatch)
    quick, short = told(run, index)
    assert sum(one.end - one.first for one in passed) > ITEMS / 2
    with monkeypatch.context() as patch:
        patch.setattr(alike, "_FEWEST", 10**9)
        slow, whole = told(run, Index(compiled(LOOP)))
    assert short == whole
    for path, tally in quick.tallies.by_path.items():
        other = slow.tallies.by_path[path]
        assert tally.bars[0].start == other.bars[0].start
        assert tally.bars[-1].end == other.bars[-1].end


def flip(content: bytearray, at: int) -> None:
    content[at] ^= 1


def cut(content: bytearray, at: int) -> None:
    del content[at:]


def drop_line(content: bytearray, at: int) -> None:
    start = content.rindex(b"\n", 0, at) + 1
    del content[start : content.index(b"\n", at) + 1]


@pytest.mark.parametrize("damage", [flip, cut, drop_line])
def test_damage_among_them_is_told_as_before(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Run,
    damage: Callable[[bytearray, int], None],
) -> None:
    run = replace(whole, root=tmp_path / whole.id)
    shutil.copytree(whole.root, run.root)
    content = bytearray(run.events.read_bytes())
    damage(content, len(content) * 4 // 5)
    run.events.write_bytes(content)
    short = told(run, Index(compiled(LOOP)))[1]
    monkeypatch.setattr(alike, "_FEWEST", 10**9)
    assert short == told(run, Index(compiled(LOOP)))[1]


@pytest.mark.parametrize(
    "text",
    [
        LOOP.replace("      items:", "      parallel: true\n      items:")
        .replace(", on: {failure: {goto: Out}}", "")
        .replace('"1.1"', '"1.4"'),
        LOOP.replace("name: In, command", "name: In, when: {exists: nothing}, command"),
    ],
    ids=["parallel", "skipped"],
)
def test_other_loops_are_told_item_by_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    run = run_of(tmp_path, {}, text)
    passed = counted(monkeypatch)
    found, _ = told(run, Index(compiled(text)))
    assert passed == []
    assert found.tallies.by_path["Loop[*]/Out"].visits == ITEMS


def test_without_the_plan_all_is_told(monkeypatch: pytest.MonkeyPatch, whole: Run) -> None:
    passed = counted(monkeypatch)
    found, _ = told(whole, None)
    assert passed == []
    assert found.tallies.by_path["Loop[*]/Out"].visits == ITEMS
