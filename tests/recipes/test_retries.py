"""Timeouts and retries: transient failures only, growing pauses, and the time a service names."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.recipes.fakes import Call, Workshop, recipe, rule

ASK = 'steps: [{{id: a, agent: helper, prompt: "STEP:a"{more}}}]'


def ask(more: str) -> str:
    return recipe(ASK.format(more=f", {more}"))


def pauses(calls: list[Call]) -> list[float]:
    """How long it was quiet between the calls."""
    return [later.begin - (earlier.end or 0) for earlier, later in pairwise(calls)]


@pytest.mark.parametrize("kind", ["network", "rate-limit", "overloaded"])
def test_b_retry_mends_a_transient_failure(shop: Workshop, kind: str) -> None:
    played = shop.play(
        ask("output: x, retry: {initial_delay: 1}"),
        rules=(rule("STEP:a", {"fail": kind}, "there"),),
    )
    assert shop.asked() == ["a", "a"]
    assert played.context["x"] == "there"
    assert played.step("a")["attempts"] == 2


@pytest.mark.parametrize("kind", ["auth", "invalid-request", "limit", "crash", "silent"])
def test_b_retry_does_not_repeat_what_would_fail_again(shop: Workshop, kind: str) -> None:
    shop.play(
        ask("retry: {initial_delay: 1}"),
        rules=(rule("STEP:a", {"fail": kind}, "there"),),
        exit_code=1,
    )
    assert shop.asked() == ["a"]


def test_b_one_attempt_makes_a_transient_failure_final(shop: Workshop) -> None:
    """Without `retry` an outage is waited out (rulings §7); B's own rule replaces that."""
    shop.play(
        ask("retry: {max_attempts: 1}"),
        rules=(rule("STEP:a", {"fail": "network"}, "x"),),
        exit_code=1,
    )
    assert shop.asked() == ["a"]


def test_b_retry_backs_off_exponentially(shop: Workshop) -> None:
    played = shop.play(
        ask("retry: {max_attempts: 3, initial_delay: 1, backoff: exponential}"),
        rules=(rule("STEP:a", fail="overloaded"),),
        exit_code=1,
    )
    assert shop.asked() == ["a"] * 3
    told = played.result.stderr
    assert "attempt 1 failed" in told
    assert "attempt 2 failed" in told
    assert "(attempt 3)" in told
    rests = [event["rest_s"] for event in played.events() if event["on"] == "attempt-ended"]
    # A tenth of each pause may be taken off, so that many retries do not come at once.
    assert 0.9 <= rests[0] <= 1
    assert 1.8 <= rests[1] <= 2
    # What was said was done; a busy machine may take longer, but never less.
    for rest, pause in zip(rests, pauses(shop.calls()), strict=True):
        assert f"in {rest:.1f}s: overloaded (529)" in told
        assert pause >= rest
    assert "retry 1 of 2 in" in told
    assert "retry 2 of 2 in" in told


def test_b_retry_backs_off_linearly_up_to_max_delay(shop: Workshop) -> None:
    played = shop.play(
        ask("retry: {max_attempts: 4, initial_delay: 1, backoff: linear, max_delay: 2}"),
        rules=(rule("STEP:a", fail="network"),),
        exit_code=1,
    )
    rests = [event["rest_s"] for event in played.events() if event["on"] == "attempt-ended"]
    assert len(rests) == 3
    assert [round(rest + 0.1) for rest in rests] == [1, 2, 2]
    assert all(rest <= most for rest, most in zip(rests, (1, 2, 2), strict=True))


def test_b_retry_pauses_are_spread(shop: Workshop) -> None:
    """Jitter: items that were refused together do not come back together."""
    text = recipe("""
        context: {items: [1, 2, 3, 4, 5, 6]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}}", retry: {initial_delay: 2}}
    """)
    rules = [rule(f"STEP:{number}", {"fail": "rate-limit"}, "ok") for number in range(1, 7)]
    played = shop.play(text, rules=tuple(rules))
    rests = [event["rest_s"] for event in played.events() if event["on"] == "attempt-ended"]
    assert len({round(rest, 4) for rest in rests}) > 3
    assert all(1.8 <= rest <= 2 for rest in rests)


def test_b_retry_waits_until_the_limit_is_over(shop: Workshop) -> None:
    shop.play(
        ask("retry: {initial_delay: 1, max_delay: 1}"),
        rules=(rule("STEP:a", {"fail": "rate-limit", "resets_in": 3}, "ok"),),
    )
    (pause,) = pauses(shop.calls())
    # Later on a busy machine, but in any case after the limit, and not after `max_delay`.
    assert pause >= 2.5


def test_b_retry_defaults_are_three_attempts_five_seconds(shop: Workshop) -> None:
    """The plan shows them; B's table of defaults."""
    shop.write("r.yaml", ask("retry: {}"))
    shown = shop.run("plan", "r.yaml").assert_success().stdout
    assert "3" in shown
    assert "5" in shown
    assert "300" in shown


def test_b_timeout_ends_the_step_with_a_clear_message(shop: Workshop) -> None:
    played = shop.play(
        ask("timeout: 5"), rules=(rule("STEP:a", {"delay": 30}, "second time"),), exit_code=1
    )
    (call,) = shop.calls()
    shop.await_gone([call.pid])
    assert played.step("a")["exit_code"] == 124
    assert "longer than" in played.message("a") or "timed out" in played.message("a")
    assert "5 s" in played.message("a"), played.message("a")

    resumed = shop.go_on()
    assert resumed.step("a")["status"] == "completed"
    assert shop.asked() == ["a", "a"]


def test_b_timeout_is_transient_and_retried(shop: Workshop) -> None:
    played = shop.play(
        ask("timeout: 5, retry: {initial_delay: 1, max_attempts: 2}, output: x"),
        rules=(rule("STEP:a", {"delay": 30}, "second time"),),
    )
    assert shop.asked() == ["a", "a"]
    assert played.context["x"] == "second time"


def test_b_timeout_holds_for_each_item_of_a_loop(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {items: [1, 2, 3]}
            steps:
              - {id: each, foreach: "{{items}}", agent: helper, prompt: "STEP:{{item}}", timeout: 6}
        """),
        rules=(rule("STEP:3", delay=30), rule("STEP", delay=2.2)),
        exit_code=1,
    )
    assert shop.asked() == ["1", "2", "3"]
    (last,) = shop.calls("3")
    shop.await_gone([last.pid])
    assert played.state["status"] == "failed"


CHILD = recipe("""
    steps:
      - {id: one, agent: helper, prompt: "STEP:one"}
      - {id: two, agent: helper, prompt: "STEP:two"}
""")


def test_r8_6_timeout_holds_for_a_sub_recipe_as_a_whole(shop: Workshop) -> None:
    """`timeout` means the same on every kind of step (rulings §8)."""
    shop.write("child.yaml", CHILD)
    played = shop.play(
        recipe("""
            steps:
              - {id: call, type: recipe, recipe: child.yaml, timeout: 12, on_error: continue}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """),
        rules=(rule("STEP:two", delay=60), rule("STEP:one", delay=0.5)),
    )
    assert shop.asked() == ["one", "two", "after"]
    shop.await_gone([call.pid for call in shop.calls()])
    assert played.step("call")["status"] == "failed"
    assert "12 s" in played.message("call")


def test_r8_6_retry_repeats_a_sub_recipe_that_failed_transiently(shop: Workshop) -> None:
    once = CHILD.replace('"STEP:two"', '"STEP:two", retry: {max_attempts: 1}')
    shop.write("child.yaml", once)
    played = shop.play(
        recipe("""
            steps:
              - {id: call, type: recipe, recipe: child.yaml, retry: {initial_delay: 1}}
        """),
        rules=(rule("STEP:two", {"fail": "network"}, "ok"),),
    )
    assert shop.asked() == ["one", "two", "one", "two"]
    assert played.step("call")["status"] == "completed"


def test_r8_6_retry_of_a_sub_recipe_leaves_other_failures_alone(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    shop.play(
        recipe("""
            steps:
              - {id: call, type: recipe, recipe: child.yaml, retry: {initial_delay: 1}}
        """),
        rules=(rule("STEP:two", {"fail": "crash"}, "ok"),),
        exit_code=1,
    )
    assert shop.asked() == ["one", "two"]


def test_r5_step_timeout_is_the_default_of_steps_without_their_own(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            steps:
              - {id: own, agent: helper, prompt: "STEP:own", timeout: 20}
              - {id: none, agent: helper, prompt: "STEP:none"}
        """),
        "--step-timeout",
        "1",
        rules=(rule("STEP:own", delay=1.5), rule("STEP:none", delay=30)),
        exit_code=1,
    )
    assert played.step("own")["status"] == "completed"
    assert played.step("none")["exit_code"] == 124
