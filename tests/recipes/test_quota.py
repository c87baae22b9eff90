"""Usage limits of agents' accounts on parallel loops: who waits, who parks, who goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

ITEMS = recipe("""
    context: {items: [1, 2, 3]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
         prompt: "STEP:i{{item}}", collect: all}
""")


def limited(resets_in: float) -> dict[str, Any]:
    return {"fail": "rate-limit", "resets_in": resets_in}


@pytest.mark.parametrize("resets_in", [-7200, 20 * 86400])
def test_an_item_whose_reset_time_is_distrusted_parks_after_the_others(
    quick_top: object, shop: Workshop, resets_in: float
) -> None:
    shop.answers(rule("STEP:i2", limited(resets_in), "two"), rule("STEP", {"delay": 0.5}))
    parked = shop.play(ITEMS, exit_code=6)
    assert "claude-code says that its usage limit ends" in parked.state["reason"]
    assert all(call.end is not None for call in shop.calls()), "no other call was cut off"
    assert sorted(shop.asked()) == ["i1", "i2", "i3"]
    shop.go_on()
    assert sorted(shop.asked()) == ["i1", "i2", "i2", "i3"]


def test_items_do_not_wait_for_a_quota_if_the_user_says_so(
    quick_top: object, shop: Workshop
) -> None:
    shop.answers(rule("STEP:i1", limited(3600), "one"), rule("STEP", "done"))
    parked = shop.play(ITEMS, "--max-parallel", "1", "--no-wait-for-quota", exit_code=6)
    assert shop.asked() == ["i1"], "the others of the account were not asked"
    assert parked.state["reason"].startswith("the usage limit of claude-code is reached until ")
    shop.go_on("resume", "latest", "--retry-delay", "0")
    assert sorted(shop.asked()) == ["i1", "i1", "i2", "i3"]
