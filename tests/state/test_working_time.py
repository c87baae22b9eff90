"""How long a run has worked: each second once, however many attempts were at work in it."""

from __future__ import annotations

import pytest

from orchestrate.state.result import StepResult
from orchestrate.state.times import timestamp
from orchestrate.state.working_time import Unwatched, WorkingTime


def test_seconds_of_several_attempts_count_once() -> None:
    worked = WorkingTime().begun(10.0).begun(12.0).ended(15.0, 0.0)
    assert worked.until(16.0) == 6.0
    assert worked.ended(20.0, 0.0).until(99.0) == 10.0, "pauses do not count"


def test_a_clock_that_was_set_back_takes_nothing_away() -> None:
    assert WorkingTime(5.0).begun(10.0).ended(3.0, 0.0).seconds == 5.0


def test_what_runs_when_a_sitting_ends_is_counted_up_to_then() -> None:
    assert WorkingTime().begun(10.0).left(14.0) == WorkingTime(4.0, 0, 14.0)


def of(began: float, ended: float) -> StepResult:
    return StepResult(started_at=timestamp(began), completed_at=timestamp(ended))


@pytest.mark.parametrize(
    ("began", "ended", "seconds"),
    [
        (900.0, 1030.0, 30.0),  # it began before the kill, at 1000
        (1010.0, 1030.0, 20.0),  # sent ahead, it began after the kill
        (900.0, 1200.0, 100.0),  # it still ran at the resume, at 1100
        (1150.0, 1200.0, 0.0),  # it began after the resume
        (900.0, 950.0, 0.0),
    ],
)
def test_what_went_on_after_a_kill_is_counted(began: float, ended: float, seconds: float) -> None:
    assert Unwatched(1000.0, 1100.0).seconds_of(of(began, ended)) == seconds


def test_two_attempts_after_a_kill_do_not_count_the_same_seconds() -> None:
    killed = Unwatched(1000.0, 1100.0)
    later = killed.until_end(of(900.0, 1030.0))
    assert killed.seconds_of(of(900.0, 1030.0)) == 30.0
    assert later.seconds_of(of(900.0, 1050.0)) == 20.0
    assert later.seconds_of(of(900.0, 1020.0)) == 0.0


def test_without_a_kill_nothing_went_on() -> None:
    assert Unwatched(1100.0, 1100.0).seconds_of(of(900.0, 1200.0)) == 0.0
    assert Unwatched().until_end(of(900.0, 1200.0)) == Unwatched()
