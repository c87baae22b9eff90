"""A reset time that cannot be is ignored, and a resumed wait is told and can be ended."""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.failures import failure_of
from orchestrate.agents.parse import number_at
from orchestrate.engine.stop import Stop
from orchestrate.show.live.picture import passed
from orchestrate.state.times import duration, local_time, seconds_of, timestamp
from tests.machines.fakes import Scene, said
from tests.promises.processes import wait_until
from tests.truth.test_truth_14_sessions import DIALECTS, MACHINE, scene_of

NOW = 1_794_912_000.0
HOUR = 3600
LIMITED: dict[str, Any] = {"error": "API Error: 429 slow down", "status": 429}


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        (NOW + HOUR, NOW + HOUR),
        ((NOW + HOUR) * 1000, NOW + HOUR),
        ((NOW + HOUR) * 1000_000, None),
        (NOW + 400 * 86400, None),
        (NOW - 2 * HOUR, None),
        (0.0, None),
        (-1e308, None),
        (1e308, None),
        (math.inf, None),
        (math.nan, None),
    ],
)
def test_truth_15_only_a_plausible_reset_time_is_taken(told: float, taken: float | None) -> None:
    assert failure_of("slow down", NOW, status=429, retry_at=told).retry_at == taken


@pytest.mark.parametrize(
    "words",
    [
        "usage limit, resets at 2026-99-99T99:99:99Z",
        "usage limit, resets 0000-00-00T00:00Z",
        f"usage limit, retry after {'9' * 400} s",
        "usage limit, resets 3pm (America/Argentina)",
        "usage limit reached|9999999999",
    ],
)
def test_truth_15_words_about_a_time_that_cannot_be_break_nothing(words: str) -> None:
    at = failure_of(words, NOW).retry_at
    assert at is None or NOW <= at <= NOW + 86400


def test_truth_15_a_number_too_large_is_no_number() -> None:
    assert number_at({"at": 10**400}, "at") is None
    assert number_at({"at": 1e400}, "at") is None


@pytest.mark.parametrize(
    "seconds", [0.0, 1.8e12, 1.8e15, 1e308, -1e308, -6.3e10, math.inf, math.nan]
)
def test_truth_15_any_moment_can_be_shown(seconds: float) -> None:
    text = timestamp(seconds)
    assert timestamp(seconds_of(text)) == text
    assert local_time(text)
    if not math.isnan(seconds):
        assert duration(seconds)
        assert passed(seconds)


@pytest.mark.parametrize("text", ["58848-07-10T20:23:20.000Z", "-12-07-10T20:23:20.000Z"])
def test_truth_15_a_year_of_other_digits_is_read(text: str) -> None:
    assert local_time(text)


@pytest.mark.parametrize("seconds", [2.5e6, 1e12, 1e308, math.inf])
def test_truth_15_a_rest_may_be_longer_than_the_system_waits_at_once(seconds: float) -> None:
    stop = Stop()
    try:
        signal.signal(signal.SIGALRM, lambda *_: stop.request(signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert stop.rest(seconds)
        assert not stop.wait_for(0, seconds)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        stop.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_milliseconds_are_read_as_such(tmp_path: Path, dialect: str) -> None:
    reset = int(time.time()) + 3
    line = {**LIMITED, "resets_at": reset * 1000}
    scene, text, flags = scene_of(tmp_path, dialect, line, said("done"))
    scene.play(text, *flags, "--retry-delay", "10")
    (ended,) = scene.happened("attempt-ended")
    assert ended["rest_s"] < 10
    assert time.time() >= reset


def test_truth_15_a_reset_time_that_is_no_number_is_ignored(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {**LIMITED, "resets_at": 10**400}, said("done"))
    scene.play(MACHINE, "--retry-delay", "10")
    assert len(scene.ledger()) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "ahead_s", [-HOUR, 9 * 86400, 3650 * 86400, 1e15], ids=["past", "9d", "10y", "absurd"]
)
def test_truth_15_a_distrusted_reset_time_parks_the_run(
    tmp_path: Path, dialect: str, ahead_s: float
) -> None:
    line = {**LIMITED, "resets_at": int(time.time() + ahead_s)}
    scene, text, flags = scene_of(tmp_path, dialect, line, said("done"))
    parked = scene.play(text, *flags, exit_code=6)
    assert "says that its usage limit ends" in parked.state["reason"]
    assert "orchestrate resume " in parked.result.stderr
    assert len(scene.ledger()) == 1
    scene.run("status").assert_success()
    scene.run("status", "--json").assert_success()
    (asked,) = json.loads(scene.run("inbox", "--json").assert_success().stdout)["questions"]
    assert (asked["kind"], asked["choices"][0]["value"]) == ("limit", "resume")
    scene.run("resume", "latest").assert_success()
    assert len(scene.ledger()) == 2
    assert [event["why"] for event in scene.happened("attempt-ended")] == ["quota"]
    assert scene.ledger()[1].session == scene.ledger()[0].session


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_a_quota_is_not_waited_for_if_the_user_says_so(
    tmp_path: Path, dialect: str
) -> None:
    line = {**LIMITED, "resets_at": int(time.time()) + 4000}
    scene, text, flags = scene_of(tmp_path, dialect, line, said("done"))
    parked = scene.play(text, *flags, "--no-wait-for-quota", exit_code=6)
    assert parked.state["reason"].startswith("the usage limit of claude-code is reached until ")
    # It holds for a resume, until that says otherwise.
    scene.run("resume", "latest").assert_exit(6)
    assert len(scene.ledger()) == 1
    scene.run("resume", "latest", "--retry-delay", "0", "--wait-for-quota").assert_success()
    assert len(scene.ledger()) == 2


ENDLESS = (
    "retry: {maxAttempts: 3, initialDelay: 1794912899000, maxDelay: 1794912899000}\ninitialStep"
)


def test_truth_15_an_endless_pause_can_be_looked_at_and_ended(tmp_path: Path) -> None:
    scene = Scene(tmp_path, LIMITED, said("done"))
    stop_while_resting(scene, MACHINE.replace("initialStep", ENDLESS))
    assert "waits until 9999-12-31" in scene.run("status").assert_success().stdout
    scene.run("status", "--json").assert_success()
    with scene.command("resume", "latest") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        told = next(line for line in lines if "waits until" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert "for retry 1 of 2 (rate-limit (429)); Ctrl-C stops, --retry-delay 0 tries now" in told
    scene.run("resume", "latest", "--retry-delay", "0").assert_success()
    assert len(scene.ledger()) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_resume_says_that_it_waits_and_can_try_now(tmp_path: Path, dialect: str) -> None:
    line = {**LIMITED, "resets_at": int(time.time()) + 4000}
    scene, text, flags = scene_of(tmp_path, dialect, line, said("done"))
    stop_while_resting(scene, text, *flags)
    with scene.command("resume", "latest") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        told = next(line for line in lines if "waits until" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert told.startswith("only waits until ")
    assert "for quota (rate-limit (429)); Ctrl-C stops, --retry-delay 0 tries now" in told
    assert len(scene.ledger()) == 1
    result = scene.run("resume", "latest", "--retry-delay", "0").assert_success()
    assert "waits until" not in result.stderr
    assert len(scene.ledger()) == 2


def rests(scene: Scene) -> bool:
    return bool(scene.happened("attempt-ended"))


def stop_while_resting(scene: Scene, text: str, *flags: str) -> None:
    with scene.started(text, *flags) as process:
        wait_until(lambda: bool(scene.ledger()) and rests(scene), "it does not rest")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
