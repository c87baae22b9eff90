"""Tallies and the chart of a run: right for one step, small for a hundred thousand."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from orchestrate.show.report.timeline import draw_timeline, timeline_rows
from orchestrate.state.events import (
    AttemptEnded,
    CallExpired,
    CallOpened,
    GateOpened,
    LoopOpened,
    StepFinished,
    StepStarted,
)
from orchestrate.state.result import StepResult
from orchestrate.view.bars import Bar, merged
from orchestrate.view.history import Sitting
from orchestrate.view.step_totals import Tallies

RESULT = StepResult(status="completed", exit_code=0, duration_ms=500, output="x" * 1000)


def loop_of(items: int) -> Tallies:
    tallies = Tallies()
    tallies.hear(LoopOpened("", "L", 1, 0.0, [0] * items))
    for i in range(items):
        tallies.hear(StepStarted(f"L[{i}]", "L/Do", 1, 1, i + 0.0))
        is_bad = i % 1000 == 7
        result = RESULT | StepResult(status="failed") if is_bad else RESULT
        tallies.hear(StepFinished(f"L[{i}]", "L/Do", 1, i + 0.5, "@ok", result))
    tallies.close(float(items), is_live=False)
    return tallies


def test_a_huge_loop_makes_a_small_chart() -> None:
    tallies = loop_of(50_000)
    loop, step = tallies.by_path.values()
    assert (loop.path, loop.items, loop.bars) == ("L", 50_000, [Bar(0.0, 49_999.5, "span")])
    assert step.path == "L[*]/Do"
    assert step.statuses == {"completed": 49_950, "failed": 50}
    assert step.seconds == 25_000
    assert len(step.bars) < 5000
    assert len(step.examples) <= 4
    assert [one.is_failed for one in step.examples] == [True, True, True, False]
    chart = draw_timeline(timeline_rows([loop, step]), [Sitting(0.0, end=50_000.0)], 50_000.0)
    assert len(chart) < 20_000
    bars = ET.fromstring(chart).findall("{http://www.w3.org/2000/svg}rect")
    failed = [bar for bar in bars if bar.get("class") == "fail"]
    assert len(failed) >= 40, "what failed is not merged away"


def heard(items: list[Any], order: list[int]) -> Tallies:
    tallies = Tallies()
    tallies.hear(LoopOpened("", "L", 1, 0.0, items))
    for at, i in enumerate(order):
        frame = f"L[{i}]"
        tallies.hear(StepStarted(frame, "L/Do", 1, 1, at + 0.0))
        tallies.hear(StepFinished(frame, "L/Do", 1, at + 0.5, "@ok", RESULT))
    tallies.close(float(len(order)), is_live=False)
    return tallies


def test_truth_33_items_are_named_by_their_value_in_the_order_of_the_loop() -> None:
    tallies = heard(["docs/a.md", {"n": 2, "path": "b"}, 3, [1, 2]], [2, 0, 3, 1])
    step = tallies.by_path["L[*]/Do"]
    names = [row.name.strip() for row in timeline_rows(list(tallies.by_path.values()))]
    assert names == ["L", "L[*]/Do", "[0] docs/a.md", "[1] b", "[2] 3", "[3] [1, 2]"]
    assert [one.item for one in step.examples] == ["3", "docs/a.md", "[1, 2]", "b"]
    assert len(step.examples) == 4, "each of them has its answer"


def test_truth_33_of_many_items_only_the_whole_is_shown() -> None:
    step = heard([*range(21)], [*range(21)]).by_path["L[*]/Do"]
    assert step.by_item == {}
    assert len(step.examples) == 1


def test_truth_33_a_loop_that_is_entered_often_is_shown_as_a_whole() -> None:
    """Only some of its items would have names."""
    tallies = Tallies()
    for visit in range(1, 4):
        tallies.hear(LoopOpened("", "L", visit, 0.0, [*"abcdefghi"]))
        beyond = f":{visit}" if visit > 1 else ""
        tallies.hear(StepStarted(f"L{beyond}[0]", "L/Do", 1, 1, 0.0))
        tallies.hear(StepFinished(f"L{beyond}[0]", "L/Do", 1, 0.5, "@ok", RESULT))
    tallies.close(1.0, is_live=False)
    assert tallies.by_path["L[*]/Do"].by_item == {}


def test_time_in_which_nobody_worked_is_squeezed() -> None:
    tallies = loop_of(2)
    day = 86_400.0
    sittings = [Sitting(0.0, end=2.0), Sitting(day, end=day + 2.0)]
    chart = draw_timeline(timeline_rows(list(tallies.by_path.values())), sittings, day + 2.0)
    assert "no work on the run for 23h59m58s" in chart
    drawn = ET.fromstring(chart)
    bars = [b for b in drawn.iter("{http://www.w3.org/2000/svg}rect") if b.get("class") == "work"]
    assert all(float(bar.get("width", "0")) > 20 for bar in bars), "two seconds can still be seen"


def test_labels_of_gaps_and_of_the_grid_stand_in_rows_of_their_own() -> None:
    rows = timeline_rows(list(loop_of(15).by_path.values()))
    sittings = [Sitting(0.0, end=15.0), Sitting(28.9, end=44.0)]
    drawn = ET.fromstring(draw_timeline(rows, sittings, 44.0))
    space = "{http://www.w3.org/2000/svg}"
    small = [t for t in drawn.iter(f"{space}text") if t.get("class") == "small"]
    gaps = {float(t.get("y", "0")) for t in small if (t.text or "").startswith("+")}
    grid = {float(t.get("y", "0")) for t in small if not (t.text or "").startswith("+")}
    assert (len(gaps), len(grid)) == (1, 1)
    assert grid.pop() - gaps.pop() >= 13, "letters are 11 pixels high"


def test_merging_keeps_kinds_apart_and_order() -> None:
    bars = [Bar(0, 1, "work"), Bar(1.1, 2, "fail"), Bar(2.05, 3, "work"), Bar(9, 10, "work")]
    assert merged(bars, 2) == [Bar(0, 3, "work"), Bar(1.1, 2, "fail"), Bar(9, 10, "work")]
    assert merged([], 1) == []


def test_a_call_and_a_repeated_loop_have_one_path_each() -> None:
    tallies = Tallies()
    for frame, node in (("", "Do"), ("L:2[13]", "L/Do"), ("L[1]/C:2@3()", "Deep")):
        tallies.hear(StepStarted(frame, node, 1, 1, 0.0))
    assert list(tallies.by_path) == ["Do", "L[*]/Do", "L[*]/C/Deep"]


def test_a_retry_rests_and_a_lost_attempt_is_told_apart() -> None:
    tallies = Tallies()
    failed = StepResult(status="failed")
    tallies.hear(StepStarted("", "A", 1, 1, 0.0))
    tallies.hear(AttemptEnded("", "A", 1, 1, 1.0, "failed", failed, rest_s=2.0))
    tallies.hear(StepStarted("", "A", 1, 2, 3.0))
    tallies.hear(AttemptEnded("", "A", 1, 2, 4.0, "lost", failed))
    tallies.hear(StepStarted("", "A", 1, 3, 5.0))
    tallies.close(8.0, is_live=True)
    (tally,) = tallies.by_path.values()
    assert [(bar.kind, bar.start, bar.end) for bar in tally.bars] == [
        ("fail", 0, 1), ("rest", 1, 3), ("cut", 3, 4), ("open", 5, 8),
    ]  # fmt: skip
    assert (tally.visits, tally.attempts, tally.last) == (1, 3, "running")


def test_the_night_before_a_resume_is_no_work() -> None:
    """That an attempt was stopped is found out by the resume; how long it worked is known."""
    tallies = Tallies()
    stopped = StepResult(status="failed", duration_ms=2000)
    tallies.hear(StepStarted("", "A", 1, 1, 10.0))
    tallies.hear(AttemptEnded("", "A", 1, 1, 30000.0, "stopped", stopped))
    tallies.close(30001.0, is_live=False)
    (tally,) = tallies.by_path.values()
    assert [(bar.kind, bar.start, bar.end) for bar in tally.bars] == [("cut", 10, 12)]
    assert tally.seconds == 2


def test_an_expired_call_is_given_up_with_what_is_open_in_it() -> None:
    tallies = Tallies()
    tallies.hear(CallOpened("", "C", 1, 0.0, "inner.yaml", {}))
    tallies.hear(StepStarted("C()", "Do", 1, 1, 1.0))
    tallies.hear(GateOpened("C()", "Gate", 1, 1.0, "review", "Go?", "deny"))
    tallies.hear(StepStarted("", "Other", 1, 1, 2.0))
    tallies.hear(CallExpired("", "C", 1, 5.0, 5.0))
    tallies.close(9.0, is_live=True)
    found = {tally.path: tally for tally in tallies.by_path.values()}
    assert found["C"].error == "timed out after 5 s"
    assert [bar.kind for bar in found["C/Do"].bars] == ["cut"]
    assert [bar.kind for bar in found["C/Gate"].bars] == ["cut"]
    assert [bar.kind for bar in found["Other"].bars] == ["open"]
