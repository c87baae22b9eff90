"""Money: calls are made only when what they may cost fits into every budget around them."""

from __future__ import annotations

import json
import os
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine.runtime import Runtime
from orchestrate.state.durable import dump_json
from tests.conftest import TimePasses
from tests.promises.processes import wait_until
from tests.recipes.conftest import zone_at_midnight
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.test_budgets import FILES

pytestmark = pytest.mark.usefixtures("noon")

DONE = '{"outcome": "complete"}'
# A budget of $1.00 and calls for $0.40: the third is not started.
STEPS = recipe("""
    {more}
    steps:
      - {{id: one, agent: helper, prompt: "STEP:one"}}
      - {{id: two, agent: helper, prompt: "STEP:two"}}
      - {{id: three, agent: helper, prompt: "STEP:three"}}
""")
ITEMS = recipe("""
    limits: {cost_usd: 2}
    context: {items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
         prompt: "STEP:i{{item}}", collect: all}
""")


def costing(usd: float | None, text: str = DONE, **more: Any) -> dict[str, Any]:
    return {"text": text, "cost": usd, **more}


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


def _events(played: Any, kind: str) -> list[dict[str, Any]]:
    return [event for event in played.events() if event["on"] == kind]


def test_the_third_call_of_40_cents_does_not_fit_into_a_dollar(shop: Workshop) -> None:
    played = shop.play(STEPS.format(more="limits: {cost_usd: 1}"), exit_code=6)
    assert shop.asked() == ["one", "two"]
    reason = played.state["reason"]
    assert reason.startswith("limits.cost_usd is reached: $0.80 of $1.00 spent"), reason
    assert "the next call may need $0.40" in reason
    assert f"resume {played.run_id} --max-cost 1.60" in played.result.stderr
    # The guess first, then what the recipe's last call has cost.
    assert [event["usd"] for event in _events(played, "cost-reserved")] == [0.25, 0.4]
    shop.go_on(exit_code=6)
    assert shop.asked() == ["one", "two"]
    shop.go_on("resume", "latest", "--max-cost", "1.60")
    assert shop.asked() == ["one", "two", "three"]


def test_a_guess_that_does_not_fit_starts_nothing_and_the_advice_works(shop: Workshop) -> None:
    text = STEPS.format(more="limits: {cost_usd: 0.1}")
    played = shop.play(text, exit_code=6)
    assert shop.asked() == []
    assert f"resume {played.run_id} --max-cost 0.25" in played.result.stderr
    shop.go_on("resume", "latest", "--max-cost", "0.25", exit_code=6)
    assert shop.asked() == ["one"]


def test_of_16_parallel_items_under_a_budget_for_5_at_most_5_are_paid(shop: Workshop) -> None:
    shop.play(ITEMS, "--max-parallel", "16", exit_code=6)
    assert len(shop.asked()) == 5
    assert all(call.end is not None for call in shop.calls())
    shop.go_on("resume", "latest", "--max-cost", "6.40")
    assert len(shop.asked()) == len(set(shop.asked())) == 16


def test_a_steps_first_call_runs_alone_until_it_has_settled(shop: Workshop) -> None:
    text = ITEMS.replace("cost_usd: 2", "cost_usd: 100")
    shop.play(text, "--max-parallel", "4")
    calls = sorted(shop.calls(), key=lambda call: call.begin)
    first = calls[0]
    assert first.end is not None
    assert all(call.begin >= first.end for call in calls[1:])


def test_the_95th_percentile_of_earlier_runs_is_set_aside(shop: Workshop) -> None:
    text = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')
    shop.answers(rule("STEP", *(costing(usd) for usd in (0.1, 0.5, 0.2))))
    for _ in range(3):
        shop.play(text)
    played = shop.play(text, "--max-cost", "5")
    assert [event["usd"] for event in _events(played, "cost-reserved")] == [0.5]


def test_a_steps_own_cap_is_set_aside_and_parks_that_step(shop: Workshop) -> None:
    text = recipe("""
        limits: {cost_usd: 5}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", limits: {cost_usd: 0.7},
             retry: {max_attempts: 5, initial_delay: 0}}
    """)
    failing = {"fail": "overloaded", "cost": 0.4}
    shop.answers(rule("STEP", failing, failing, costing(0.1)))
    played = shop.play(text, exit_code=6)
    assert len(shop.calls()) == 2, "0.8 of 0.7 was spent"
    assert "limits.cost_usd of step 'one' is reached: $0.80 of $0.70" in played.state["reason"]
    assert [event["usd"] for event in _events(played, "cost-reserved")] == [0.7, 0.4]
    done = shop.go_on()
    assert done.state["costs"]["cost_usd"] == 0.9, "failed calls cost, too"


def test_what_is_left_is_handed_down_and_reaching_it_parks(shop: Workshop) -> None:
    over = {"fail": "budget", "cost": 0.8}
    shop.answers(rule("STEP:two", over, costing(0.1)), rule("STEP", costing(0.2)))
    text = STEPS.format(more="limits: {cost_usd: 1}")
    played = shop.play(text, exit_code=6)
    caps = [call.flag("--max-budget-usd") for call in shop.calls()]
    assert caps == ["1", "0.8"]
    assert "$1.00 of $1.00 spent" in played.state["reason"]
    shop.go_on("resume", "latest", "--max-cost", "3")
    first, again = [call for call in shop.calls() if call.marker == "two"]
    assert again.flag("--resume") == first.flag("--session-id"), "the session goes on"


def test_unknown_costs_count_as_the_guess_or_as_told(shop: Workshop) -> None:
    shop.answers(rule("STEP", costing(None)))
    text = STEPS.format(more="limits: {cost_usd: 0.6}")
    played = shop.play(text, exit_code=6)
    assert shop.asked() == ["one", "two"]
    assert "$0.50 of $0.60 spent, 2 calls did not say" in played.state["reason"]
    assert played.state["costs"]["cost_usd"] is None
    assert played.state["costs"]["counted_usd"] == 0.5
    shop.write(".orchestrate/config.yaml", "costs: {unknown: allow}\n")
    shop.play(text)
    shop.write(".orchestrate/config.yaml", "costs: {unknown: refuse}\n")
    refused = shop.play(text, exit_code=6)
    assert "1 call did not report what it cost" in refused.state["reason"]


def test_a_cost_is_computed_from_prices_and_marked(shop: Workshop) -> None:
    shop.answers(rule("STEP", costing(None)))
    prices = "costs: {prices: {sonnet: {input: 100, output: 1000}}}\n"
    shop.write(".orchestrate/config.yaml", prices)
    played = shop.play(STEPS.format(more="limits: {cost_usd: 0.5}"), exit_code=6)
    assert played.state["costs"]["cost_usd"] == 0.4, "1000 tokens in and 100 out, twice"
    assert played.state["costs"]["computed"] == 2
    assert played.step("one")["cost_computed"] is True
    assert "cost: $0.4000 in 2 agent calls; 2 computed from prices" in played.result.stderr
    assert "$0.4000 in 2 agent calls; 2 computed from prices\n" in shop.run("status").stdout
    report = shop.run("report", "--format", "md").stdout.replace("\\", "")
    assert "- Cost: $0.4000 (2 calls computed from prices)\n" in report
    assert "| $0.2000 (1 call computed from prices) |" in report
    assert shop.run("report", "--json").json()["usage"]["turns_computed"] == 2


def test_four_fifths_of_a_limit_are_warned_of_once(shop: Workshop) -> None:
    played = shop.play(STEPS.format(more="limits: {cost_usd: 1, calls: 3}"), exit_code=6)
    near = [event["limit"] for event in _events(played, "limit-near")]
    assert near == ["limits.cost_usd"]
    assert "warning: limits.cost_usd: $0.80 of $1.00 spent (80%)" in played.result.stderr


def _users(shop: Workshop, text: str) -> None:
    path = Path(shop.surroundings["XDG_CONFIG_HOME"]) / "orchestrate" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_the_users_day_holds_over_two_workspaces(shop: Workshop) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 1.3}}\n")
    text = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')
    shop.play(text)
    shop.play(text)
    other = shop.top / "other"
    other.mkdir()
    (other / "r.yaml").write_text(STEPS.format(more=""), "utf-8")
    agents = other / ".orchestrate" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text((shop.folder / ".orchestrate/agents/helper.md").read_text())
    result = shop.run("run", str(other / "r.yaml"), "--working-dir", str(other)).assert_exit(6)
    assert shop.asked() == ["one", "one", "one"]
    assert "the user's limits.per_day.cost_usd is reached: $1.20 of $1.30" in result.stderr


DAY = recipe("""
    limits: {per_day: {cost_usd: 0.7}}
    steps: [{id: one, agent: helper, prompt: "STEP:one"}]
""")


def test_the_day_of_a_recipe_ends_at_midnight_of_the_local_clock(shop: Workshop) -> None:
    shop.play(DAY)
    parked = shop.play(DAY, exit_code=6)
    assert "r.yaml: limits.per_day.cost_usd is reached: $0.40 of $0.70" in parked.state["reason"]
    night = {"TZ": zone_at_midnight()}
    shop.play(DAY, env=night)
    shop.play(DAY, env=night, exit_code=6)
    (row,) = shop.run("cost", "--since", "1h", "--json").json()["rows"]
    assert row["spent_usd"] == 0.8
    rows = shop.run("cost", "--since", "1h", "--json", env=night).json()["rows"]
    assert [row["spent_usd"] for row in rows] == [0.4, 0.4], "of two days there"


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_files_day_that_was_raised_in_it_is_advised_as_an_edit(
    shop: Workshop, dialect: str
) -> None:
    shop.answers(rule("STEP", costing(0.4)))
    text = FILES[dialect].format(more="limits: {per_day: {cost_usd: 0.7}}")
    parked = shop.play(text, exit_code=6)
    assert "allow more in the file, then `resume --edited`" in parked.state["reason"]
    assert f"orchestrate resume {parked.run_id}\n" in shop.run("status").stdout
    shop.write("r.yaml", text.replace("0.7", "7"))
    assert f"orchestrate resume {parked.run_id} --edited\n" in shop.run("status").stdout
    shop.go_on("resume", parked.run_id, "--edited")
    assert shop.asked() == ["one", "two", "three"]


@pytest.mark.parametrize("hours", [-14, 14])
def test_a_process_in_another_zone_sees_what_was_spent_in_its_day(
    shop: Workshop, hours: int
) -> None:
    """It is tomorrow there, or still yesterday; what was spent a minute ago is of that day."""
    shop.play(DAY)
    offset = int(os.environ["TZ"].removeprefix("NOON")) - hours
    elsewhere = {"TZ": f"THERE{offset + 24 * ((offset < -24) - (offset > 24)):+d}"}
    parked = shop.play(DAY, env=elsewhere, exit_code=6)
    assert "$0.40 of $0.70 spent" in parked.state["reason"]
    again = shop.run("resume", "latest", env=elsewhere).assert_exit(6)
    assert "$0.40 of $0.70 spent" in again.stderr
    shop.go_on(exit_code=6)


@pytest.mark.parametrize("limit", ["calls: 2", "tokens: 3000"])
def test_calls_and_tokens_of_a_day_park_the_run(shop: Workshop, limit: str) -> None:
    _users(shop, f"limits: {{per_day: {{{limit}}}}}\n")
    played = shop.play(STEPS.format(more=""), exit_code=6)
    assert shop.asked() == ["one", "two"]
    assert f"the user's limits.per_day.{limit.partition(':')[0]}" in played.state["reason"]


def test_a_projects_configuration_cannot_set_the_users_day(shop: Workshop) -> None:
    shop.write(".orchestrate/config.yaml", "limits:\n  per_day: {cost_usd: 100}\n")
    shop.write("r.yaml", STEPS.format(more=""))
    refused = shop.run("run", "r.yaml").assert_exit(5)
    assert ".orchestrate/config.yaml:2: limits.per_day.cost_usd" in refused.stderr
    assert str(Path(shop.surroundings["XDG_CONFIG_HOME"])) in refused.stderr


def test_the_smallest_budget_wins_and_is_named(shop: Workshop) -> None:
    shop.write("child.yaml", STEPS.format(more="limits: {cost_usd: 0.5}"))
    text = recipe("""
        limits: {cost_usd: 9}
        steps: [{id: call, type: recipe, recipe: child.yaml}]
    """)
    played = shop.play(text, exit_code=6)
    assert played.state["reason"].startswith("limits.cost_usd of child.yaml is reached")


def test_a_rehearsal_spends_nothing_and_reserves_nothing(shop: Workshop) -> None:
    text = STEPS.format(more="limits: {cost_usd: 0.01}")
    played = shop.play(text, "--backend", "rehearsal")
    assert not _events(played, "cost-reserved")


def test_the_ledger_survives_a_torn_line(shop: Workshop) -> None:
    text = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')
    shop.play(text)
    folder = Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate" / "spending"
    (ledger,) = folder.glob("*.jsonl")
    with ledger.open("ab") as file:
        file.write(b'{"call": "torn')
    shop.play(text)
    lines = ledger.read_bytes().splitlines()
    assert [json.loads(line)["cost_usd"] for line in lines if b"torn" not in line] == [0.4, 0.4]


def _used_up(shop: Workshop, seconds: float) -> None:
    """The account's limit, as another run has noted it."""
    account = sha256(dump_json(["claude-code", shop.surroundings["HOME"]])).hexdigest()[:32]
    folder = Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate" / "quotas"
    folder.mkdir(parents=True)
    (folder / f"{account}.json").write_bytes(dump_json(time.time() + seconds))


def _ends(shop: Workshop) -> list[dict[str, Any]]:
    """The attempts of the newest run that were not its last word."""
    path = shop.runs_folder / "latest" / "events.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line)["event"] for line in lines if line.endswith("\n")]
    return [event for event in events if event["on"] == "attempt-ended"]


ONE = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')


def test_a_call_waits_for_the_quota_that_another_run_has_met(
    shop: Workshop, time_passes: TimePasses, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    def rest(_: Runtime, seconds: float) -> bool:
        rests.append(seconds)
        time_passes(seconds)
        return False

    monkeypatch.setattr(Runtime, "rest", rest)
    _used_up(shop, 3600)
    played = shop.play(ONE)
    assert max(rests) > 1800
    (waits,) = _events(played, "call-waits")
    assert waits["why"] == "quota"
    assert "waits for quota until " in played.result.stderr
    (started,) = _events(played, "step-started")
    assert started["at"] >= waits["until"]


@pytest.mark.parametrize("seconds", [-5, 9 * 86400], ids=["past", "nine-days"])
def test_a_note_of_a_quota_that_cannot_be_true_is_distrusted(
    shop: Workshop, seconds: float
) -> None:
    _used_up(shop, seconds)
    assert not _events(shop.play(ONE), "call-waits")


def test_a_usage_limit_is_a_pause_that_counts_as_no_try_and_ends_with_a_stop(
    shop: Workshop,
) -> None:
    shop.answers(rule("STEP", {"fail": "rate-limit", "resets_in": 3600}, costing(0.1)))
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml") as process:
        wait_until(lambda: bool(_ends(shop)), "the end of the first call")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert ([event["why"] for event in _ends(shop)], len(shop.calls())) == (["quota"], 1)
    notes = list((Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate/quotas").iterdir())
    assert len(notes) == 1, "every other run of the account waits, too"
