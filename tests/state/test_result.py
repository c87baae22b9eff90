"""Results, gates and costs: as JSON and back without a change, whatever version wrote them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.record import FrozenRecordError
from orchestrate.state.apply import apply, start
from orchestrate.state.codec import Encoder
from orchestrate.state.denials import add_denials, count_denials
from orchestrate.state.events import RunStarted, event_from_json, event_to_json
from orchestrate.state.model import Index
from orchestrate.state.result import Approval, Costs, Denial, StepError, StepResult, read_denials
from tests.state.folding import compiled

OLD = Path(__file__).with_name("old")

words = st.text(max_size=5)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
denied = st.tuples(words, st.integers(1)).map(lambda one: {"tool": one[0], "count": one[1]})
errors = st.fixed_dictionaries(
    {"message": words},
    optional={"exit_code": st.integers(), "context": st.dictionaries(words, plain, max_size=3),
              "stderr_tail": st.lists(words), "of_a_later_version": plain},
)  # fmt: skip
fields = st.one_of(
    st.tuples(st.sampled_from(sorted(StepResult.FIELDS - StepResult.INNER.keys())), plain),
    st.tuples(st.just("error"), errors),
    st.tuples(st.just("denials"), st.lists(denied, max_size=3)),
    st.tuples(st.just("retry"), st.integers().map(lambda one: {"number": one, "of": one + 1})),
    st.tuples(st.just("debug"), st.dictionaries(words, plain, max_size=3)),
    st.tuples(st.just("of_a_later_version"), plain),
)
results = st.lists(fields, max_size=8).map(dict)


def text_of(value: Any) -> str:
    return json.dumps(value)


@given(results)
def test_a_result_is_written_as_it_was_read(written: dict[str, Any]) -> None:
    """Unknown fields, nulls and the order included."""
    before = text_of(written)
    result = StepResult.from_json(written)
    assert text_of(result.to_json()) == before
    assert StepResult.from_json(json.loads(before)) == result
    assert copy.deepcopy(result) == result


@given(results, results)
def test_two_parts_make_what_their_objects_would(first: dict[str, Any], more: Any) -> None:
    both = StepResult.from_json(first) | StepResult.from_json(more)
    assert text_of(both.to_json()) == text_of({**first, **more})
    fewer = both.without("status", "error").to_json()
    rest = {k: v for k, v in {**first, **more}.items() if k not in ("status", "error")}
    assert text_of(fewer) == text_of(rest)


@given(st.builds(
    Approval, words, st.sampled_from(["pending", "approved", "denied"]), words, words,
    st.none() | words, words, words, words, st.integers(1),
))  # fmt: skip
def test_a_gate_is_written_as_it_was_read(gate: Approval) -> None:
    written = gate.to_json()
    assert ("decided_by" in written) == (gate.status != "pending")
    assert Approval(**json.loads(text_of(written))).to_json() == written


@given(st.lists(st.tuples(*[st.none() | st.integers(0, 10**6)] * 3), max_size=6))
def test_costs_are_added_up_and_what_is_unknown_is_counted(turns: list[Any]) -> None:
    costs = Costs()
    for dollars, read, written in turns:
        turn = StepResult(cost_usd=dollars, input_tokens=read, output_tokens=written)
        costs = costs.with_turn(turn)
    assert Costs(**json.loads(text_of(costs.to_json()))) == costs
    assert costs.turns == len(turns)
    known = [dollars for dollars, _, _ in turns if dollars is not None]
    assert costs.cost_usd == (sum(known) if known else None)
    assert costs.unreported == len(turns) - len(known)


def test_what_is_not_given_is_not_written() -> None:
    result = StepResult(status="running", exit_code=None, model=None, agent=None, log=None)
    assert text_of(result.to_json()) == '{"status": "running", "exit_code": null, "model": null}'
    assert (result.agent, result.billed, result.attempts) == (None, True, 1)
    assert result.has("exit_code")
    assert not result.has("agent")


def test_a_result_cannot_change_and_has_no_other_fields() -> None:
    result = StepResult(status="failed", error=StepError(message="no", context={"kind": "auth"}))
    assert (result.message, result.context) == ("no", {"kind": "auth"})
    with pytest.raises(FrozenRecordError):
        result.status = "completed"  # type: ignore[misc]
    with pytest.raises(TypeError, match="no field colour"):
        StepResult(colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="not a JSON object"):
        StepResult.from_json([])  # type: ignore[arg-type]


def test_denials_of_the_same_tool_are_one() -> None:
    both = add_denials(count_denials(["Bash", "Write", "Bash"]), (Denial("Write", 3),))
    assert both == (Denial("Bash", 2), Denial("Write", 4))
    kept = [{"step": "a", "tool": "Bash", "count": 2}]
    assert [denial.to_json() for denial in read_denials(kept)] == kept


@pytest.mark.parametrize("name", ["workflow", "recipe"])
def test_a_journal_of_version_0_1_reads_and_folds_to_the_same_results(name: str) -> None:
    lines = (OLD / f"{name}.jsonl").read_text("utf-8").splitlines()
    events = [event_from_json(json.loads(line)) for line in lines]
    compact = (",", ":")
    again = [json.dumps(event_to_json(event), separators=compact) for event in events]
    assert again == lines
    index = Index(compiled((OLD / f"{name}.yaml").read_text("utf-8")))
    first, *others = events
    assert isinstance(first, RunStarted)
    state = start(index, first)
    for event in others:
        apply(index, state, event)
    document = json.loads(Encoder(index).encode(state))
    expected = json.loads((OLD / f"{name}.state.json").read_text("utf-8"))
    assert text_of({part: document.get(part) for part in expected}) == text_of(expected)
