"""What is set aside for calls that are not made or whose run nobody works on, and quota notes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.liveness import is_keeper_alive
from orchestrate.state.slots import TOTAL, draw_ticket
from tests.acceptance.fakes import read_state
from tests.promises.processes import wait_until
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import DONE, ONE, STEPS, _events, _used_up, _users, costing
from tests.recipes.test_quota import ITEMS

pytestmark = pytest.mark.usefixtures("noon")


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
    parked = shop.run("run", "other.yaml", "--allow-concurrent").assert_exit(6)
    assert "$0.25 reserved" in parked.stderr, "its agent may be at work still"
    until.touch()
    shop.run("resume", killed).assert_success()
    total = shop.run("cost", "--json").json()["total"]
    assert (total["spent_usd"], total["reserved_usd"], total["left_runs"]) == (0.1, 0, [])
    shop.run("resume", "latest").assert_exit(0)


def _total(shop: Workshop) -> tuple[Any, ...]:
    total = shop.run("cost", "--json").json()["total"]
    return total["calls"], total["unknown_calls"], total["counted_usd"], total["reserved_usd"]


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_call_that_waits_for_a_slot_gives_back_its_money_when_the_run_is_ended(
    shop: Workshop, dialect: str
) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 5}, concurrent: {total: 1}}\n")
    state = Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate"
    other = draw_ticket(state, "claude-code", {TOTAL: 1})
    assert other.ahead() is None
    shop.write("r.yaml", FILES[dialect].format(more=""))
    with shop.started("run", "r.yaml", "--max-cost", "1") as process:
        wait_until(lambda: _waits(shop), "the wait for a slot")
        assert _total(shop) == (1, 0, 0, 0.25)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert _total(shop) == (0, 0, 0, 0), "others may have it while the run is not worked on"
    (budget,) = shop.run("status", "--json").json()["budgets"]
    assert budget["reserved"] == 0
    with shop.started("resume") as process:
        wait_until(lambda: _total(shop)[3] == 0.25, "set aside anew")
        shop.run("cancel", shop.latest.name).assert_success()
        process.wait(60)
    assert _total(shop) == (0, 0, 0, 0)
    other.release()
    assert shop.calls() == []


@pytest.mark.parametrize(
    ("flags", "day"), [(("--max-cost", "0.1"), "1"), ((), "0.1")], ids=["run", "day"]
)
def test_what_a_killed_run_has_set_aside_is_held_against_the_limits_of_its_resume(
    shop: Workshop, flags: tuple[str, ...], day: str
) -> None:
    """A call that it never made would be made, whatever was allowed since."""
    limits = "limits: {{per_day: {{cost_usd: {0}}}, concurrent: {{total: 1}}}}\n"
    _users(shop, limits.format("1"))
    state = Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate"
    other = draw_ticket(state, "claude-code", {TOTAL: 1})
    assert other.ahead() is None
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml", "--max-cost", "1") as process:
        wait_until(lambda: _waits(shop), "the wait for a slot")
        process.kill()
        process.wait(60)
    other.release()
    assert _total(shop)[3] == 0.25
    _users(shop, limits.format(day))
    parked = shop.go_on("resume", "latest", *flags, exit_code=6)
    assert "of $0.10 spent; the next call may need $0.25" in parked.state["reason"]
    assert shop.calls() == []
    assert _total(shop)[3] == 0
    _users(shop, limits.format("1"))
    shop.go_on("resume", "latest", "--max-cost", "1")
    assert shop.asked() == ["one"]


def test_a_killed_run_that_is_cancelled_leaves_nothing_set_aside(shop: Workshop) -> None:
    """A call that was made counts as one that did not say; one that was not made is free."""
    _users(shop, "limits: {per_day: {cost_usd: 5}, concurrent: {total: 1}}\n")
    shop.play(ITEMS.replace("[1, 2, 3]", "[9]"))
    shop.answers(rule("STEP", {"text": DONE, "delay": 60, "until": str(shop.top / "never")}))
    shop.write("r.yaml", ITEMS)
    with shop.started("run", "r.yaml", "--max-cost", "9") as process:
        shop.await_calls(2)
        wait_until(lambda: _total(shop)[3] > 1, "all three have their money")
        process.kill()
        process.wait(60)
    assert shop.run("cost", "--json").json()["total"]["left_runs"] == [shop.latest.name]
    shop.run("cancel", shop.latest.name).assert_success()
    assert _total(shop) == (2, 1, 0.4, 0), "the first run's, and the one that was made"
    costs = read_state(shop.latest)["costs"]
    assert (costs["cost_usd"], costs["counted_usd"]) == (None, 0.4)
    shop.run("cancel", shop.latest.name).assert_success()
    assert _total(shop) == (2, 1, 0.4, 0)


def test_an_unfinished_run_that_is_removed_leaves_nothing_set_aside(shop: Workshop) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 5}}\n")
    shop.answers(rule("STEP", {"text": DONE, "delay": 60, "until": str(shop.top / "never")}))
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1)
        process.kill()
        process.wait(60)
    shop.run("stop", shop.latest.name).assert_success()
    wait_until(lambda: not is_keeper_alive(shop.latest), "the keeper ends")
    shop.run("clean", "--status", "interrupted", "--older-than", "0s", "--yes").assert_success()
    assert _total(shop) == (1, 1, 0.25, 0)


def test_a_step_that_fails_before_its_call_gives_its_money_back(shop: Workshop) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 5}}\n")
    needs = "provider: claude, depends_on: {{required: [gone.txt]}}"
    shop.write("r.yaml", FILES["workflow"].replace("provider: claude", needs).format(more=""))
    assert "gone.txt" in shop.run("run", "r.yaml", "--max-cost", "1").assert_exit(1).stderr
    assert _total(shop) == (0, 0, 0, 0)
