"""What stands above a plan's steps."""

from __future__ import annotations

from orchestrate.plan.settings import Limits
from orchestrate.show.plan_head import limit_words


def test_limits_are_told_as_authors_write_them() -> None:
    limits = Limits(max_cost=5.0, max_time=7200.0, max_visits=3)
    assert limit_words(limits, without=("visits", "steps")) == "cost=$5, time=2h"
    assert limit_words(limits) == "visits=3, cost=$5, time=2h"
    assert limit_words(Limits(max_time=90.5)) == "time=1m30.5s"
