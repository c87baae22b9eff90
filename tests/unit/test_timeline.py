"""Tallies and the chart of a run: right for one step, small for a hundred thousand."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from orchestrate.show.report.timeline import draw_timeline
from orchestrate.view.history import Sitting
from orchestrate.view.step_totals import Bar, Tallies, merged

RESULT = {"status": "completed", "exit_code": 0, "duration_ms": 500, "output": "x" * 1000}


def loop_of(items: int) -> Tallies:
    tallies = Tallies()
    tallies.hear({"on": "loop-opened", "frame": "", "node": "L", "at": 0.0, "items": [0] * items})
    for i in range(items):
        at = {"frame": f"L[{i}]", "node": "L/Do", "visit": 1}
        tallies.hear({"on": "step-started", **at, "attempt": 1, "at": i + 0.0})
        is_bad = i % 1000 == 7
        result = {**RESULT, "status": "failed" if is_bad else "completed"}
        tallies.hear({"on": "step-finished", **at, "at": i + 0.5, "label": "@ok", "result": result})
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
    chart = draw_timeline([loop, step], [Sitting(0.0, end=50_000.0)], 50_000.0)
    assert len(chart) < 20_000
    bars = ET.fromstring(chart).findall("{http://www.w3.org/2000/svg}rect")
    failed = [bar for bar in bars if bar.get("class") == "fail"]
    assert len(failed) >= 40, "what failed is not merged away"


def test_time_in_which_nobody_worked_is_squeezed() -> None:
    tallies = loop_of(2)
    day = 86_400.0
    sittings = [Sitting(0.0, end=2.0), Sitting(day, end=day + 2.0)]
    chart = draw_timeline(list(tallies.by_path.values()), sittings, day + 2.0)
    assert "nobody worked on the run for 23h59m58s" in chart
    drawn = ET.fromstring(chart)
    bars = [b for b in drawn.iter("{http://www.w3.org/2000/svg}rect") if b.get("class") == "work"]
    assert all(float(bar.get("width", "0")) > 20 for bar in bars), "two seconds can still be seen"


def test_labels_of_gaps_and_of_the_grid_stand_in_rows_of_their_own() -> None:
    tallies = list(loop_of(15).by_path.values())
    sittings = [Sitting(0.0, end=15.0), Sitting(28.9, end=44.0)]
    drawn = ET.fromstring(draw_timeline(tallies, sittings, 44.0))
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
        at = {"frame": frame, "node": node, "visit": 1, "attempt": 1, "at": 0.0}
        tallies.hear({"on": "step-started", **at})
    assert list(tallies.by_path) == ["Do", "L[*]/Do", "L[*]/C/Deep"]


def test_a_retry_rests_and_a_lost_attempt_is_told_apart() -> None:
    tallies = Tallies()
    at = {"frame": "", "node": "A", "visit": 1}
    tallies.hear({"on": "step-started", **at, "attempt": 1, "at": 0.0})
    tallies.hear(
        {"on": "attempt-ended", **at, "attempt": 1, "at": 1.0, "why": "failed", "rest_s": 2.0,
         "result": {}}
    )  # fmt: skip
    tallies.hear({"on": "step-started", **at, "attempt": 2, "at": 3.0})
    tallies.hear(
        {"on": "attempt-ended", **at, "attempt": 2, "at": 4.0, "why": "lost", "result": {}}
    )
    tallies.hear({"on": "step-started", **at, "attempt": 3, "at": 5.0})
    tallies.close(8.0, is_live=True)
    (tally,) = tallies.by_path.values()
    assert [(bar.kind, bar.start, bar.end) for bar in tally.bars] == [
        ("fail", 0, 1), ("rest", 1, 3), ("cut", 3, 4), ("open", 5, 8),
    ]  # fmt: skip
    assert (tally.visits, tally.attempts, tally.last) == (1, 3, "running")
