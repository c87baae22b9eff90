"""`state.json` and back: nothing that matters later is lost, and nothing foreign is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine.ready import ready
from orchestrate.state.apply import apply, start
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import check_state, decode
from orchestrate.state.events import RunStarted, event_from_json
from orchestrate.state.model import Index, RunState, frames_below
from orchestrate.state.pending_call import Reserved
from tests.state.definitions import GATED, LINE, LOOP, command, workflow
from tests.state.folding import RUN_ID, Folding
from tests.state.walking import PROGRAMS, walks

programs = st.sampled_from(sorted(PROGRAMS))


def ahead(state: RunState) -> list[tuple[str, str, float]]:
    return [(task.kind, task.frame.key, task.due) for task in ready(state)]


@given(programs, st.data())
def test_a_state_that_was_read_again_goes_on_as_if_it_had_not(name: str, data: Any) -> None:
    """At every point of a run: the same file, the same things to do, the same future."""
    reread: list[RunState] = []

    def check(run: Folding) -> None:
        content = run.content
        assert content == Encoder(run.index).encode(run.state), "an encoder remembers only bytes"
        if reread:
            # The state that was read before this event, with the event.
            index = Index(run.program)
            apply(index, reread[-1], event_from_json(json.loads(json.dumps(run.events[-1]))))
            reread[-1].seq += 1
            assert Encoder(index).encode(reread[-1]) == content
        again = run.reread()
        assert Encoder(run.index).encode(again) == content
        without_plans = decode(None, content, RUN_ID)
        assert Encoder(run.index).encode(without_plans) == content
        assert ahead(again) == ahead(run.state)
        assert [*again.frames] == [*run.state.frames]
        reread.append(again)

    walks(check, name, data, 25)


@given(programs, st.data())
def test_the_same_events_make_the_same_state(name: str, data: Any) -> None:
    run = walks(lambda _: None, name, data, 40)
    index = Index(run.program)
    first, *others = (event_from_json(json.loads(json.dumps(event))) for event in run.events)
    assert isinstance(first, RunStarted)
    state = start(index, first)
    for event in others:
        apply(index, state, event)
        state.seq += 1
    assert Encoder(index).encode(state) == run.content


@given(programs, st.data())
def test_every_frame_is_reached_from_the_root_and_known_by_its_key(name: str, data: Any) -> None:
    def check(run: Folding) -> None:
        below = [*frames_below(run.state.root)]
        assert sorted(frame.key for frame in below) == sorted(run.state.frames)
        for frame in [*below, *(task.frame for task in run.tasks)]:
            assert run.state.frames[frame.key] is frame

    walks(check, name, data, 40)


def test_a_step_may_be_called_as_a_field_of_an_item_is() -> None:
    run = Folding.of(workflow(command("lifecycle") + command("Two"))).finish()
    assert [*run.reread().root.steps] == ["lifecycle"]


def test_every_step_has_its_own_line() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=["a", "b"])
    for _ in range(5):
        run.finish()
    lines = run.content.decode().splitlines()
    assert [line.strip()[:7] for line in lines if '"In":{' in line] == ['{"In":{'] * 2
    assert len([line for line in lines if line.startswith('    "After": {')]) == 1


def test_stages_say_how_far_they_are() -> None:
    run = Folding.of(GATED)
    assert stages(run) == [("planning", "pending"), ("doing", "pending")]
    run.begin()
    assert stages(run) == [("planning", "running"), ("doing", "pending")]
    run.finish()
    run.give("gate-opened", run.tasks[0].frame, stage="planning", prompt="?", default="deny")
    assert stages(run) == [("planning", "paused"), ("doing", "pending")]
    run.give("gate-decided", run.state.root, decision="approved", by="ann")
    assert stages(run) == [("planning", "completed"), ("doing", "pending")]
    run.finish("@failed")
    assert stages(run) == [("planning", "completed"), ("doing", "failed")]
    first, second = run.document["stages"]
    assert first["started_at"] <= first["completed_at"] <= second["started_at"]


def stages(run: Folding) -> list[tuple[str, str]]:
    return [(stage["name"], stage["status"]) for stage in run.document["stages"]]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: content[:-2], "not a complete file"),
        (lambda content: content[:0], "not a complete file"),
        (lambda content: content.replace(b'"running"', b'"Running"', 1), "checksum is wrong"),
    ],
)
def test_a_damaged_state_is_refused(damage: Any, why: str) -> None:
    run = Folding.of(LINE).begin()
    with pytest.raises(ValueError, match=why):
        decode(run.index, damage(run.content), RUN_ID)


def test_the_state_of_another_run_is_refused() -> None:
    run = Folding.of(LINE)
    assert check_state(run.content, RUN_ID)["run_id"] == RUN_ID
    with pytest.raises(ValueError, match=f"belongs to run {RUN_ID}"):
        decode(run.index, run.content, "20260101T000000Z-other")


def test_the_state_of_another_definition_is_refused() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=["a"])
    with pytest.raises(ValueError, match="does not fit the definition"):
        decode(Index(Folding.of(LINE).program), run.content, RUN_ID)


def test_what_is_set_aside_for_a_call_and_what_it_waits_for_are_read_again() -> None:
    asks = "{id: one, agent: helper, prompt: p}"
    run = Folding.of(f"name: trial\ndescription: d\nversion: 1.0.0\nsteps: [{asks}]\n")
    frame = run.state.root
    run.give("cost-reserved", frame, attempt=1, usd=0.25, unknown_usd=0.1, cap_tokens=9)
    run.give("call-waits", frame, why="slot", agent="a", ahead=2)
    here, again = run.state.root.here, run.reread().root.here
    assert here is not None
    assert again == here
    assert (here.reserved.usd, here.reserved.unknown, here.reserved.cap_tokens) == (0.25, 0.1, 9)
    assert (here.waits.why, here.waits.ahead) == ("slot", 2)
    assert again is not None
    assert isinstance(again.reserved, Reserved)
