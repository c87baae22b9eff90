"""What is set aside for calls that are not made or whose run nobody works on, and quota notes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.promises.processes import wait_until
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.test_money import DONE, ONE, STEPS, _events, _used_up, _users, costing


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


def _waits(shop: Workshop) -> bool:
    path = shop.runs_folder / "latest" / "events.jsonl"
    return path.exists() and '"call-waits"' in path.read_text("utf-8")


def test_a_call_that_waits_for_quota_gives_back_what_was_set_aside(shop: Workshop) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 5, calls: 9}}\n")
    _used_up(shop, 3600)
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml", "--max-cost", "1") as process:
        wait_until(lambda: _waits(shop), "the wait for quota")
        wait_until(lambda: shop.run("cost", "--json").json()["total"]["calls"] == 0, "given back")
        assert shop.run("cost", "--json").json()["total"]["reserved_usd"] == 0
        (budget,) = shop.run("status", "--json").json()["budgets"]
        assert budget["reserved"] == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    played = shop.go_on("resume", "latest", "--retry-delay", "0")
    assert len(_events(played, "cost-reserved")) == 2, "set aside anew before the call"
    total = shop.run("cost", "--json").json()["total"]
    assert (total["calls"], total["spent_usd"], total["reserved_usd"]) == (1, 0.4, 0)


def test_retry_delay_0_waives_what_was_noted_before_it_and_nothing_later(shop: Workshop) -> None:
    _used_up(shop, 3600)
    (note,) = (Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate" / "quotas").iterdir()
    touch = [sys.executable, "-c", "import os, sys; os.utime(sys.argv[1])", str(note)]
    shop.answers(rule("STEP:one", costing(0.1, run=touch)), rule("STEP", costing(0.1)))
    shop.write("r.yaml", STEPS.format(more=""))
    with shop.started("run", "r.yaml", "--retry-delay", "0") as process:
        wait_until(lambda: _waits(shop), "the wait for what was noted since")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert shop.asked() == ["one"]
    shop.go_on("resume", "latest", "--retry-delay", "0")
    assert shop.asked() == ["one", "two", "three"]


def test_what_a_killed_run_has_set_aside_counts_and_is_named_until_it_is_resumed(
    shop: Workshop, tmp_path: Path
) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 0.45}}\n")
    until = tmp_path / "go-on"
    shop.answers(rule("STEP:one", {"text": DONE, "cost": 0.1, "delay": 60, "until": str(until)}))
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1)
        total = shop.run("cost", "--json").json()["total"]
        assert (total["reserved_usd"], total["left_runs"]) == (0.25, [])
        process.kill()
        process.wait(60)
    killed = shop.latest.name
    total = shop.run("cost", "--json").json()["total"]
    assert (total["left_usd"], total["left_runs"]) == (0.25, [killed])
    said = shop.run("cost").stdout
    assert f"$0.25 reserved (by {killed}, which no process works on: resume settles it, " in said
    other = recipe('steps: [{id: other, agent: helper, prompt: "STEP:other"}]')
    shop.write("other.yaml", other)
    parked = shop.run("run", "other.yaml").assert_exit(6)
    assert "$0.25 reserved" in parked.stderr, "its agent may be at work still"
    until.touch()
    shop.run("resume", killed).assert_success()
    total = shop.run("cost", "--json").json()["total"]
    assert (total["spent_usd"], total["reserved_usd"], total["left_runs"]) == (0.1, 0, [])
    shop.run("resume", "latest").assert_exit(0)
