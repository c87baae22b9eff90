"""Which gate a decision is about, of a run that a process works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.app.deciding.decide import choose_live
from orchestrate.errors import ConfigError, UsageError
from orchestrate.state.model import Frame, RunState
from orchestrate.state.result import Approval
from orchestrate.state.runs import Run
from orchestrate.view.run_view import RunView

AT = "2026-11-17T11:11:11.000Z"


def working(*gates: Approval) -> RunView:
    run = Run("20261117T111111Z-abcdef", Path("/nowhere"))
    state = RunState(
        run.id, "/nowhere", "w.yaml", "recipe", "1.3", "", {}, {}, "", 0.0, 0.0,
        Frame("", "w.yaml", ""), approvals=[*gates],
    )  # fmt: skip
    return RunView(run, state, None, "running", is_live=True)


def pending(stage: str) -> Approval:
    return Approval(stage, "pending", "Go on?", AT, None, "deny", "", stage, 1)


def approved(stage: str) -> Approval:
    return Approval(stage, "approved", "Go on?", AT, None, "deny", "", stage, 1, AT, "ann")


def test_the_only_gate_or_the_one_that_is_named() -> None:
    one, two = pending("one"), pending("two")
    assert choose_live(working(one), None) is one
    assert choose_live(working(approved("old"), one, two), "two") is two


def test_several_wait_and_none_is_named() -> None:
    with pytest.raises(UsageError, match="waits for 2 approvals: name the stage") as refused:
        choose_live(working(pending("one"), pending("two")), None)
    assert refused.value.hint == "pending: 'one', 'two'"


def inside(item: int) -> Approval:
    return Approval("ask", "pending", "Go on?", AT, None, "deny", f"Each[{item}]/Call()", "ask", 1)


def test_gates_of_one_name_are_told_apart_by_their_paths() -> None:
    """A decision never lands on one of several that it may mean."""
    first, second = inside(0), inside(1)
    view = working(second, first)
    assert choose_live(view, "Each[0]/Call/ask") is first
    assert choose_live(view, "Each[1]/Call/ask") is second
    for which, said in ((None, "2 approvals: name the stage"), ("ask", "2 approvals of 'ask'")):
        with pytest.raises(UsageError, match=said) as refused:
            choose_live(view, which)
        assert refused.value.hint == "pending: 'Each[1]/Call/ask', 'Each[0]/Call/ask'"


def test_the_named_stage_does_not_wait() -> None:
    with pytest.raises(UsageError, match=r"of 'oen' \(did you mean 'one'\?\)") as refused:
        choose_live(working(pending("one")), "oen")
    assert refused.value.hint == "pending: 'one'"
    with pytest.raises(UsageError, match=r"step 'old' of run .* was approved already, by ann"):
        choose_live(working(approved("old"), pending("one")), "old")


def test_nothing_waits() -> None:
    with pytest.raises(UsageError, match="was approved already, by ann at 2026-") as refused:
        choose_live(working(approved("old")), None)
    assert refused.value.hint == "the run is at work and waits for no other approval now"
    with pytest.raises(ConfigError, match="is at work and waits for no approval: it is running"):
        choose_live(working(), None)
