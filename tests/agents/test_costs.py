"""What a turn cost, when programs report totals, parts, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.agents.base import Failure, Reply
from orchestrate.agents.costs import NOTHING_YET, Usage, own_usage


def costs_of(*replies: Reply) -> list[float | None]:
    """The cost of each turn of one session."""
    costs, totals = [], NOTHING_YET
    for reply in replies:
        own, totals = own_usage(reply, totals)
        costs.append(own.cost_usd)
    return costs


def running(total: float | None) -> Reply:
    return Reply(text="x", cost_usd=total, cost_counts_up=True)


def single(cost: float | None) -> Reply:
    return Reply(text="x", cost_usd=cost)


def test_a_running_total_becomes_differences() -> None:
    assert costs_of(running(0.0474), running(0.0950), running(0.0950)) == [0.0474, 0.0476, 0.0]


def test_a_lower_total_is_a_fresh_count() -> None:
    assert costs_of(running(0.05), running(0.02), running(0.03)) == [0.05, 0.02, 0.01]


def test_unknown_is_never_zero() -> None:
    assert costs_of(single(None), running(None)) == [None, None]
    assert own_usage(Reply(text="x")) == (Usage(), Usage())


def test_a_negative_figure_is_unknown() -> None:
    assert costs_of(single(-1.0), single(0.5)) == [None, 0.5]
    assert costs_of(running(0.05), running(-0.2), running(0.06)) == [0.05, None, 0.01]


def test_the_total_after_an_unknown_turn_contains_it() -> None:
    assert costs_of(running(0.01), running(None), running(0.05)) == [0.01, None, 0.04]


def test_parts_add_up_so_that_a_total_may_follow() -> None:
    """Claude Code's first call of a session cannot be told from one that counts by itself."""
    assert costs_of(single(0.006), running(0.012), single(0.006), running(0.024)) == [0.006] * 4


def test_a_failed_turn_counts_too() -> None:
    failed = Reply(failure=Failure("limit", "x"), cost_usd=0.03, cost_counts_up=True)
    assert costs_of(running(0.01), failed, running(0.04)) == [0.01, 0.02, 0.01]


def test_tokens_and_cost_count_by_themselves() -> None:
    before = Usage(input_tokens=10_052, output_tokens=6, cost_usd=0.5)
    reply = Reply(
        text="x", input_tokens=20_191, output_tokens=12, cost_usd=0.1, tokens_count_up=True
    )
    own, after = own_usage(reply, before)
    assert own == Usage(10_139, 6, 0.1)
    assert after == Usage(20_191, 12, 0.6)


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_differences_add_up_to_the_total(parts: list[int]) -> None:
    totals = [sum(parts[: end + 1]) / 10_000 for end in range(len(parts))]
    costs = costs_of(*(running(total) for total in totals))
    assert sum(cost or 0 for cost in costs) == pytest.approx(sum(parts) / 10_000)
