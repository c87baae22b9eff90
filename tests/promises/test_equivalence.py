"""Any workflow, killed anywhere and resumed, does and decides what it does undisturbed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import Shape
from tests.promises.trials import Trial

KILLED = -9
Step = dict[str, Any]


@dataclass(frozen=True)
class Kill:
    """In front of which change of a file the orchestrator, or its next resume, is killed."""

    changes: tuple[int, ...]


KILLS = st.lists(st.integers(1, 130), min_size=1, max_size=3).map(lambda n: Kill(tuple(n)))


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, Any]:
    """A few steps that lead forward, back at most once each, and always to an end."""
    names = (f"S{number}" for number in itertools.count(1))
    steps = [draw(_steps(names, depth=0)) for _ in range(draw(st.integers(2, 5)))]
    _add_jumps(draw, steps)
    return {
        "version": "1.1",
        "name": "any",
        "strict_flow": draw(st.booleans()),
        "context": {"word": "yes"},
        "steps": steps,
    }


@st.composite
def _steps(draw: st.DrawFn, names: Iterator[str], depth: int) -> Step:
    name = next(names)
    kinds = ["plain", "flaky", "skipped", "asked"] + ["loop"] * (depth < 2)
    match draw(st.sampled_from(kinds)):
        case "loop":
            inner = [draw(_steps(names, depth + 1)) for _ in range(draw(st.integers(1, 2)))]
            items = ["a", "b", "c"][: draw(st.integers(0, 3))]
            return {"name": name, "for_each": {"items": items, "steps": inner}}
        case "flaky":
            retries = {"max": 2, "delay_ms": draw(st.sampled_from([0, 20]))}
            return _act(name, f"count {name}; enough {name} 1", depth) | {"retries": retries}
        case "skipped":
            never = {"equals": {"left": "${context.word}", "right": "no"}}
            return _act(name, "echo never", depth) | {"when": never}
        case "asked":
            when = {"not_exists": f"made-{name}"}
            return _act(name, f"touch made-{name}; echo {name}", depth) | {"when": when}
        case _:
            rest = draw(st.sampled_from(["", "sleep 0.01; ", "sleep 0.04; "]))
            return _act(name, f"{rest}echo {name}", depth)


def _act(name: str, script: str, depth: int) -> Step:
    item = "${item}" if depth else "-"
    return {"name": name, "command": ["sh", "../act", name, item, script]}


def _add_jumps(draw: st.DrawFn, steps: list[Step]) -> None:
    """Some steps skip others; some fail the first time and lead back to an earlier one."""
    for place, step in enumerate(steps):
        if "command" not in step or "retries" in step:
            continue
        later = [other["name"] for other in steps[place + 1 :]] + ["_end"]
        match draw(st.sampled_from(["none", "none", "skip", "fail", "back"])):
            case "skip":
                step["on"] = {"success": {"goto": draw(st.sampled_from(later))}}
            case "fail":
                step["command"][4] += "; (exit 3)"
                step["on"] = {"failure": {"goto": draw(st.sampled_from(later))}}
            case "back":
                back = steps[draw(st.integers(0, place))]["name"]
                step["command"][4] += f"; count back-{place}; enough back-{place} 1"
                step["on"] = {"failure": {"goto": back}}
            case _:
                continue


def run_undisturbed(top: Path, shape: Shape, lane: Lane) -> Any:
    trial = Trial(top / "whole", shape)
    code = trial.go_on(lane)
    assert code == 0, trial.said()
    return trial.left(code)


def run_killed(top: Path, shape: Shape, kill: Kill, lane: Lane) -> tuple[Trial, int]:
    trial = Trial(top / "killed", shape)
    code = KILLED
    recorded: list[dict[str, Any]] = []
    for change in kill.changes:
        code = lane.run(trial.start_order(die_before=change))
        recorded = check_moment(trial)
        if code != KILLED:
            return trial, code
    while code == KILLED or trial.status() == "none":
        code = trial.go_on(lane)
        check_nothing_lost(recorded, trial)
    return trial, code


def judge(document: dict[str, Any], kill: Kill, top: Path, lanes: Lanes) -> None:
    shape = Shape("any", json.dumps(document, indent=1))
    note(shape.workflow)
    with lanes.one() as lane:
        reference = run_undisturbed(top, shape, lane)
        trial, code = run_killed(top, shape, kill, lane)
    try:
        check_same(reference, trial.left(code), trial.lost())
        assert not trial.lost(), "lost, though the keeper lived"
    finally:
        note(trial.said())


@pytest.fixture
def tops(quick_top: Path) -> Iterator[Path]:
    """A new folder for each example."""
    return (quick_top / str(number) for number in itertools.count())


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(document=workflows(), kill=KILLS)
def test_a_killed_workflow_is_equivalent(
    document: dict[str, Any], kill: Kill, tops: Iterator[Path], lanes: Lanes
) -> None:
    judge(document, kill, next(tops), lanes)


@pytest.mark.soak
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(document=workflows(), kill=KILLS)
def test_many_killed_workflows_are_equivalent(
    document: dict[str, Any], kill: Kill, tops: Iterator[Path], lanes: Lanes
) -> None:
    judge(document, kill, next(tops), lanes)
