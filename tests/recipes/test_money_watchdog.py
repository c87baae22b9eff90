"""What a call itself may use: handed down to its program, and a watchdog of ours behind that."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.claude import used_of
from orchestrate.agents.parse import events_in
from tests.promises.processes import wait_until
from tests.recipes.fakes import AGENT, Workshop, recipe, rule
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import DONE, ONE, _users, costing

pytestmark = pytest.mark.usefixtures("noon")

SAMPLES = Path(__file__).parents[1] / "agents" / "samples" / "claude"
PRICES = "costs: {prices: {sonnet: {input: 100, output: 1000}}}\n"


def _message(read: int, written: int, cached: int = 0) -> dict[str, int]:
    return {
        "input_tokens": read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }


def _endless(*messages: dict[str, int]) -> dict[str, Any]:
    """It tells what its messages take, and does not end by itself."""
    return {"text": DONE, "cost": 0.1, "messages": messages, "pause": 600}


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_call_that_uses_more_tokens_than_are_left_is_ended_and_the_run_parks(
    shop: Workshop, dialect: str
) -> None:
    much = _endless(_message(1000, 100, 20_000))
    shop.answers(rule("STEP:two", much, costing(0.1)), rule("", costing(0.1)))
    played = shop.play(FILES[dialect].format(more="limits: {tokens: 20000}"), exit_code=6)
    assert "limits.tokens is reached: 22200 of 20000 tokens used" in played.state["reason"]
    assert shop.asked() == ["one", "two"]
    shop.go_on(exit_code=6)
    done = shop.go_on("resume", "latest", "--max-tokens", "90000")
    assert done.state["status"] == "completed"
    assert shop.asked() == ["one", "two", "two", "three"]
    first, again = shop.calls("two")
    session = first.flag("--session-id") or first.flag("--resume")
    assert again.flag("--resume") == session, "the session goes on"
    assert shop.run("cost", "--json").json()["total"]["tokens"] == 21_100 + 3 * 1100


def test_dollars_are_watched_by_prices_and_what_is_read_again_counts_for_nothing(
    shop: Workshop,
) -> None:
    shop.write(".orchestrate/config.yaml", PRICES)
    text = ONE.replace("steps:", "limits: {cost_usd: 1}\nsteps:")
    shop.answers(rule("STEP", {"text": DONE, "cost": 0.1, "messages": [_message(10, 1, 10**6)]}))
    assert shop.play(text).state["costs"]["cost_usd"] == 0.1
    shop.answers(rule("STEP", _endless(_message(10_000, 100, 10**6))))
    played = shop.play(text, exit_code=6)
    assert "$1.10 of $1.00 spent" in played.state["reason"]
    assert played.state["costs"]["computed"] == 1


# It tells what each message has taken and cost, and does not end by itself.
_OPENCODE = """\
#!/bin/sh
case "$*" in --version) echo 1.18.33; exit;; esac
cat > /dev/null
for n in 1 2 3; do
  echo '{"type":"step_finish","sessionID":"ses_1","part":{"id":"p'$n'","messageID":"m'$n'",' \
    '"reason":"tool-calls","tokens":{"input":900,"output":50,"reasoning":50,"cache":' \
    '{"read":0,"write":0}},"cost":COST}}'
done
exec sleep 600
"""


@pytest.mark.parametrize(
    ("cost", "limit", "reached"),
    [
        ("0.4", "cost_usd: 1", "$1.20 of $1.00 spent"),
        ("0", "tokens: 2500", "3000 of 2500 tokens used"),
        ("0", "cost_usd: 0.5", "$3.00 of $0.50 spent"),
    ],
    ids=["told", "tokens", "priced"],
)
def test_opencode_is_watched_too(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, cost: str, limit: str, reached: str
) -> None:
    """It has no cap of its own; without one of ours parallel calls could exceed a budget by all
    that they cost."""
    program = shop.top / "opencode"
    program.write_text(_OPENCODE.replace("COST", cost))
    program.chmod(0o755)
    monkeypatch.setenv("OPENCODE_CLI_PATH", str(program))
    prices = "costs: {prices: {fake/model: {input: 1000, output: 1000}}}\n"
    shop.write(".orchestrate/config.yaml", prices)
    text = ONE.replace("steps:", f"limits: {{{limit}}}\nsteps:")
    shop.agent("helper", AGENT.format(name="helper").replace("Helps", "Helps\nmodel: fake/model"))
    played = shop.play(text, "--backend", "opencode", exit_code=6)
    assert reached in played.state["reason"]
    assert played.state["costs"].get("computed", 0) == (cost == "0")


def test_a_call_is_ended_by_who_resumes_the_run(shop: Workshop, tmp_path: Path) -> None:
    wait = tmp_path / "go"
    much = _endless(_message(9000, 9000))
    shop.answers(rule("STEP", {**much, "delay": 600, "until": str(wait)}))
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml", "--max-tokens", "5000") as process:
        shop.await_calls(1)
        process.kill()
        process.wait(60)
    wait.touch()
    played = shop.go_on(exit_code=6)
    assert "18000 of 5000 tokens used" in played.state["reason"]
    (call,) = shop.calls()
    shop.await_gone([call.pid])


@pytest.mark.parametrize("is_lost", [False, True], ids=["stopped", "lost"])
def test_what_a_call_has_told_counts_though_it_was_cut_off(shop: Workshop, is_lost: bool) -> None:
    """It was unknown, and counted as a guess however long the agent had been at work."""
    shop.write(".orchestrate/config.yaml", PRICES)
    shop.answers(rule("STEP", _endless(_message(9000, 900)), _endless(_message(1000, 100))))
    shop.write("r.yaml", ONE)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1)
        (call,) = shop.calls()
        output = shop.latest / "logs" / "one.stdout"
        wait_until(lambda: output.exists() and b"9000" in output.read_bytes(), "the message")
        process.send_signal(signal.SIGKILL if is_lost else signal.SIGINT)
        process.wait(60)
    if is_lost:
        os.kill(call.pid, signal.SIGKILL)
        shop.await_gone([call.pid])
    played = shop.go_on("resume", "latest", "--max-tokens", "9500", exit_code=6)
    assert "limits.tokens is reached: 9900 of 9500 tokens used" in played.state["reason"]
    assert played.state["costs"]["cost_usd"] == 1.8
    assert len(shop.calls()) == 1


def test_a_steps_own_limits_are_handed_down_without_any_other(shop: Workshop) -> None:
    limited = ONE.replace('"STEP:one"', '"STEP:one", limits: {cost_usd: 0.7, tokens: 5000}')
    shop.answers(rule("STEP", costing(0.1), _endless(_message(9000, 9000)), costing(0.1)))
    shop.play(limited)
    assert [call.flag("--max-budget-usd") for call in shop.calls()] == ["0.7"]
    played = shop.play(limited, exit_code=6)
    assert "limits.tokens of step 'one' is reached: 18000 of 5000" in played.state["reason"]
    shop.go_on()


def test_calls_of_one_step_with_limits_of_its_own_only_run_at_once(
    shop: Workshop, tmp_path: Path
) -> None:
    """No budget has to be shared, so the first call does not run alone."""
    text = recipe("""
        context: {items: [1, 2, 3]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper, limits: {cost_usd: 1},
             prompt: "STEP:i{{item}}"}
    """)
    wait = tmp_path / "go"
    shop.answers(rule("STEP", costing(0.1, delay=600, until=str(wait))))
    shop.write("r.yaml", text)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(3)
        wait.touch()
        assert process.wait(60) == 0


def test_two_runs_are_not_both_handed_what_is_left_of_a_day(shop: Workshop, tmp_path: Path) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 5}}\n")
    shop.play(ONE)
    wait = tmp_path / "go"
    shop.answers(rule("STEP", costing(0.4, delay=600, until=str(wait))))
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(2)
        with shop.started("run", "r.yaml", "--allow-concurrent") as second:
            shop.await_calls(3)
            wait.touch()
            assert (first.wait(60), second.wait(60)) == (0, 0)
    assert [call.flag("--max-budget-usd") for call in shop.calls()] == ["5", "4.6", "0.4"]


def test_each_message_of_claude_code_counts_once() -> None:
    output = (SAMPLES / "stream-tool.stdout").read_bytes()
    told = [used for event in events_in(output) if (used := used_of(event)) is not None]
    assert len(told) > len({used.message for used in told})
    assert sum({used.message: used.read for used in told}.values()) == 11_399 + 11_487


def test_what_is_advised_when_unknown_costs_are_refused_goes_on(shop: Workshop) -> None:
    shop.answers(rule("STEP", costing(None)))
    shop.write(".orchestrate/config.yaml", "costs: {unknown: refuse}\n")
    text = FILES["recipe"].format(more="limits: {cost_usd: 5}")
    assert "costs.unknown to count or allow" in shop.play(text, exit_code=6).state["reason"]
    shop.write(".orchestrate/config.yaml", "costs: {unknown: count}\n")
    shop.go_on()
    assert shop.asked() == ["one", "two", "three"]
