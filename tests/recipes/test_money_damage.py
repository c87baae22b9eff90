"""Damaged ledgers, notes and queues: no line of them stops a run or makes room in a budget."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.fakes import Workshop, rule
from tests.recipes.test_money import ONE, _used_up, _users, costing

pytestmark = pytest.mark.usefixtures("noon")


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


def state_folder(shop: Workshop) -> Path:
    return Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate"


@pytest.mark.parametrize(
    "damage",
    [
        None,
        [1],
        {"cost_usd": "much"},
        {"cost_usd": -50},
        {"cost_usd": 1e300},
        {"cost_usd": []},
        {"call": ["a"]},
        {"at": "noon"},
        {"input_tokens": "q"},
        {"recipes": 5},
        {"recipes": [5]},
        {"workspace": None},
        # Of runs whose folder cannot be looked at.
        {"root": "/dev/null/runs", "is_settled": False, "reserved_usd": 0},
        {"root": "a\0b", "is_settled": False, "reserved_usd": 0},
        {"root": "\ud800", "is_settled": False, "reserved_usd": 0},
    ],
    ids=str,
)
def test_a_damaged_line_of_the_ledger_counts_for_nothing(shop: Workshop, damage: Any) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 0.7, tokens: 2000}}\n")
    shop.play(ONE)
    (ledger,) = (state_folder(shop) / "spending").glob("*.jsonl")
    line = json.loads(ledger.read_bytes().splitlines()[-1])
    bad = {**line, "call": "other", **damage} if isinstance(damage, dict) else damage
    with ledger.open("ab") as file:
        file.write(json.dumps(bad).encode() + b"\n")
    for by in ("day", "recipe", "step", "model", "workspace"):
        shop.run("cost", "--all", "--by", by).assert_success()
    assert shop.run("cost", "--json").json()["total"]["spent_usd"] == 0.4
    found = shop.run("plan", "r.yaml", "--estimate", "--json").json()
    assert found["expected"] == {"runs": 1, "usual_usd": 0.4, "p95_usd": 0.4}
    parked = shop.play(ONE, exit_code=6)
    assert "the user's limits.per_day.cost_usd is reached: $0.40 of $0.70" in parked.state["reason"]


@pytest.mark.parametrize("note", [b"1" + b"0" * 400, b"[", b"{}", b"\0\0", b"NaN", b"true"])
def test_a_damaged_note_of_a_quota_counts_for_nothing(shop: Workshop, note: bytes) -> None:
    _used_up(shop, 3600)
    (path,) = (state_folder(shop) / "quotas").iterdir()
    path.write_bytes(note)
    shop.play(ONE)


@pytest.mark.parametrize("cost", [1e300, -1, "much", True, 10**400, [1]], ids=lambda c: str(c)[:9])
def test_a_cost_that_cannot_be_true_is_unknown(shop: Workshop, cost: Any) -> None:
    shop.answers(rule("STEP", costing(cost)))
    played = shop.play(ONE, "--max-cost", "1")
    assert (played.state["costs"]["cost_usd"], played.state["costs"]["counted_usd"]) == (None, 0.25)
    total = shop.run("cost", "--json").json()["total"]
    assert (total["unknown_calls"], total["reserved_usd"]) == (1, 0)


@pytest.mark.parametrize(
    ("limit", "lock", "what"),
    [
        ("per_day: {cost_usd: 5}", "spending/ledger.lock", "the ledger of your costs"),
        ("concurrent: {total: 1}", "slots/lock", "the queue for slots"),
    ],
)
def test_a_frozen_process_freezes_no_other_run(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, limit: str, lock: str, what: str
) -> None:
    """One that was stopped in the instant in which it held the lock: not even Ctrl-C helped."""
    _users(shop, f"limits: {{{limit}}}\n")
    shop.play(ONE)
    monkeypatch.setattr("orchestrate.state.locks._INSTANT_S", 0.2)
    with (state_folder(shop) / lock).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        played = shop.play(ONE, exit_code=5)
    assert f"{what} is in use by another process" in played.result.stderr
    assert shop.asked() == ["one"]
    shop.go_on()
    assert shop.asked() == ["one", "one"]
