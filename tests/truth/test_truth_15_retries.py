"""Outages of an agent's service are waited out by default, in all dialects (rulings §7)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine.prompts import CUT_OFF
from orchestrate.plan.retries import OUTAGE_RETRY, retry_delay
from tests.machines.fakes import Scene, said
from tests.promises.processes import wait_until
from tests.truth.test_truth_14_sessions import DIALECTS, FAILED, MACHINE, scene_of

OVERLOADED: dict[str, Any] = {"error": "API Error: 529 overloaded", "status": 529}
LIMITED: dict[str, Any] = {"error": "API Error: 429 slow down", "status": 429}
OFFLINE: dict[str, Any] = {"error": "API Error: Unable to connect to API (ECONNREFUSED)"}
QUICK = ("--retry-delay", "10")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_five_outages_are_waited_out(tmp_path: Path, dialect: str) -> None:
    lines = (OVERLOADED, LIMITED, OFFLINE, OVERLOADED, OVERLOADED, said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines)
    played = scene.play(text, *flags, *QUICK)
    calls = scene.ledger()
    assert len(calls) == 6
    assert {call.session for call in calls} == {calls[0].session}, "it was not the same session"
    assert calls[1].prompt == CUT_OFF + calls[0].prompt
    told = played.result.stderr
    assert "retry 1 of 5 in 0.0s: overloaded (529)" in told
    assert "retry 2 of 5 in 0.0s: rate-limit (429)" in told
    assert "retry 3 of 5 in 0.0s: network" in told
    assert "retry 5 of 5 in" in told
    assert played.step("only")["attempts"] == 6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_the_sixth_outage_is_final(tmp_path: Path, dialect: str) -> None:
    scene, text, flags = scene_of(tmp_path, dialect, *[{**OVERLOADED, "cost": 0.1}] * 6)
    played = scene.play(text, *flags, *QUICK, exit_code=FAILED[dialect])
    assert len(scene.ledger()) == 6
    assert played.state["costs"]["cost_usd"] == 0.6, "failed calls have a bill, too"
    assert played.step("only")["error"]["context"]["kind"] == "overloaded"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "line",
    [
        {"error": "Invalid API key"},
        {"exit": 3},
        {"error": "API Error: 400 x", "status": 400},
        {"error": "FileNotFoundError: no such file"},
    ],
)
def test_truth_15_nothing_else_is_tried_again(
    tmp_path: Path, dialect: str, line: dict[str, Any]
) -> None:
    scene, text, flags = scene_of(tmp_path, dialect, line)
    scene.play(text, *flags, *QUICK, exit_code=FAILED[dialect])
    assert len(scene.ledger()) == 1


def test_truth_15_a_time_limit_is_not_an_outage(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", run=["sleep 300"]))
    scene.play(MACHINE, "--step-timeout", "1", *QUICK, exit_code=4)
    assert len(scene.ledger()) == 1


def test_truth_15_the_pauses_double_up_to_a_minute() -> None:
    pauses = [retry_delay(OUTAGE_RETRY, n, 1, True, 0.0, is_outage=True) for n in range(1, 7)]
    assert pauses == [1, 2, 4, 8, 16, None]
    longer = [retry_delay(OUTAGE_RETRY, 1, 1, True, chance, is_outage=True) for chance in (0, 0.5)]
    assert longer == [1, 0.95]
    assert retry_delay(OUTAGE_RETRY, 1, 124, True, 0.0) is None


# A machine's own rule.

RETRY = "retry: {maxAttempts: 3, initialDelay: 0.01}\ninitialStep"


def test_truth_15_a_machine_says_how_often(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[OVERLOADED] * 3)
    played = scene.play(MACHINE.replace("initialStep", RETRY), exit_code=4)
    assert len(scene.ledger()) == 3
    assert "retry 2 of 2 in" in played.result.stderr


def test_truth_15_a_step_says_how_often(tmp_path: Path) -> None:
    text = MACHINE.replace("initialStep", RETRY)
    text = text.replace("    outcomes:", "    retry: {maxAttempts: 1}\n    outcomes:")
    scene = Scene(tmp_path, OVERLOADED)
    scene.play(text, exit_code=4)
    assert len(scene.ledger()) == 1


def test_truth_15_an_own_rule_repeats_what_ran_out_of_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", run=["sleep 300"]), said("done"))
    scene.play(MACHINE.replace("initialStep", RETRY), "--step-timeout", "2")
    first, second = scene.ledger()
    assert (second.session, second.is_new) == (first.session, False)


def test_truth_15_the_plan_and_the_dry_run_show_the_rule(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    rule = "retry: {maxAttempts: 3, initialDelay: 2, maxDelay: 9, backoff: linear}\ninitialStep"
    scene.write("w.yaml", MACHINE.replace("initialStep", rule))
    plan = scene.run("plan", "w.yaml").assert_success().stdout
    words = "3 attempts, 2 s apart, when transient, linear backoff, at most 9 s, jitter"
    assert f"default retry: {words}" in plan
    dry = scene.run("run", "w.yaml", "--dry-run").assert_success().stdout
    assert "Retries: 2, 2s apart" in dry


# While it rests.


def resting(scene: Scene) -> bool:
    return bool(scene.happened("attempt-ended"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_15_the_pause_is_shown_and_can_be_ended(tmp_path: Path, dialect: str) -> None:
    scene, text, flags = scene_of(tmp_path, dialect, OVERLOADED, said("done"))
    with scene.started(text, *flags, "--retry-delay", "60000") as process:
        wait_until(lambda: bool(scene.ledger()) and resting(scene), "it does not rest")
        shown = scene.run("status", "latest").stdout
        assert "for retry 1 of 5: API Error: 529 overloaded" in shown
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def test_truth_15_a_usage_limit_is_waited_for(tmp_path: Path) -> None:
    """The program says when it ends; that is later than the first pause."""
    reset = int(time.time()) + 4
    limit = {"error": f"Claude AI usage limit reached|{reset}"}
    scene = Scene(tmp_path, limit, said("done"))
    scene.play(MACHINE, *QUICK)
    (ended,) = scene.happened("attempt-ended")
    assert ended["at"] + ended["rest_s"] == pytest.approx(reset, abs=0.01) or time.time() >= reset
    assert time.time() >= reset


def test_truth_15_a_kill_does_not_forget_the_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[OVERLOADED] * 6)
    with scene.started(MACHINE, "--retry-delay", "500") as process:
        wait_until(lambda: len(scene.ledger()) >= 2 and resting(scene), "it does not rest")
        process.kill()
        process.wait()
    scene.run("resume", "latest", *QUICK).assert_exit(4)
    assert len(scene.ledger()) == 6
