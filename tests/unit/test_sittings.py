"""How long a process worked on a run, also where it was killed and its program adopted."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.state import events as on
from orchestrate.state.journal import Journal
from orchestrate.state.result import StepResult
from orchestrate.state.runs import Run
from orchestrate.state.times import timestamp
from orchestrate.view.history import read_chronicle

STARTED = on.RunStarted(
    at=100.0, run_id="r", workspace="", definition="d.yaml", plan="d.yaml", dialect="workflow",
    schema_version="1.3", checksum="", sources={}, context={}, settings={}, version="0",
)  # fmt: skip
WORKING = on.StepStarted("", "A", 1, 1, 101.0)
RESUMED = on.RunResumed(110.0)


def ended_at(at: float) -> on.StepFinished:
    result = StepResult(status="completed", completed_at=timestamp(at))
    return on.StepFinished("", "A", 1, max(at, 110.5), "@ok", result)


def lost_at(at: float) -> on.AttemptEnded:
    result = StepResult(status="failed", completed_at=timestamp(at))
    return on.AttemptEnded("", "A", 1, 1, 110.5, "lost", result)


@pytest.mark.parametrize(
    ("event", "end"),
    [
        (ended_at(107.0), 107.0),  # it ended while nobody watched
        (ended_at(115.0), 110.0),  # it was adopted at work
        (lost_at(110.2), 101.0),  # when it was lost, nobody knows
    ],
)
def test_the_end_of_a_sitting_that_was_killed(
    tmp_path: Path, event: on.StepFinished | on.AttemptEnded, end: float
) -> None:
    run = Run("r", tmp_path)
    with Journal.open(run.events) as journal:
        journal.append([on.event_to_json(one) for one in (STARTED, WORKING, RESUMED, event)])
    chronicle = read_chronicle(run, None, 120.0, is_live=False)
    assert [sitting.end for sitting in chronicle.sittings] == [end, None]
