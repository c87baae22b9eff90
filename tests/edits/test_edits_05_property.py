"""Any definition, any edits, any stops: what runs is what the model says."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.edits.ledger import Ledger
from tests.edits.model import Definition, Loop, Model, Step, as_workflow, calls_of
from tests.edits.test_edits_04_corpus import _fail

pytestmark = pytest.mark.faults

IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
STEPS = st.builds(
    Step,
    st.sampled_from("abcdef"),
    st.sampled_from("12"),
    st.sampled_from((60, 90)),
    st.sampled_from(("", "who", "other")),
)
LOOPS = st.builds(
    Loop,
    st.sampled_from("lmn"),
    st.lists(st.sampled_from("xyz"), max_size=4).map(tuple),
    st.lists(STEPS, min_size=1, max_size=2, unique_by=lambda s: s.name).map(
        lambda body: tuple(replace(step, name=f"in_{step.name}") for step in body)
    ),
)


def _unique(parts: list[Step | Loop]) -> tuple[Step | Loop, ...]:
    """Names are the author's to keep apart; those in loops are made so."""
    found: dict[str, Step | Loop] = {}
    for part in parts:
        if isinstance(part, Loop):
            body = tuple(replace(s, name=f"{part.name}_{s.name}") for s in part.body)
            part = replace(part, body=body)  # noqa: PLW2901 - a changed copy
        found.setdefault(part.name, part)
    return tuple(found.values())


DEFINITIONS = st.builds(
    Definition,
    st.lists(STEPS | LOOPS, min_size=1, max_size=5).map(_unique),
    st.sampled_from(("", "# a comment")),
    st.tuples(
        st.tuples(st.just("who"), st.sampled_from(("me", "you"))),
        st.tuples(st.just("other"), st.sampled_from(("x", "y"))),
    ),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Definition, str]]:
    """Definitions one after another, each with where the run stops, if it does."""
    found: list[tuple[Definition, str]] = []
    definition = draw(DEFINITIONS)
    for _ in range(draw(st.integers(2, 4))):
        tokens = [call.token for part in calls_of(definition) for seq in part for call in seq]
        found.append((definition, draw(st.sampled_from(["", *tokens]))))
        other = draw(DEFINITIONS)
        # Mostly a part of what was there, or a part of something else.
        cut = draw(st.integers(0, len(definition.parts)))
        parts = _unique([*definition.parts[:cut], *other.parts[: draw(st.integers(0, 2))],
                         *definition.parts[cut + draw(st.integers(0, 1)) :]])  # fmt: skip
        definition = replace(other, parts=parts or definition.parts)
        if draw(st.booleans()):
            definition = replace(definition, values=found[-1][0].values)
    return found


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=150 if IS_SOAK else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(histories())
def test_edits_05_what_runs_is_what_the_model_says(history: list[tuple[Definition, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage, model = Ledger(Path(folder)), Model({})
        for number, (definition, stop) in enumerate(history):
            _fail(stage, stop)
            stage.write("w.yaml", as_workflow(definition))
            if number == 0:
                stage.run("run", "w.yaml")
            else:
                result = stage.run("resume", "latest", "--edited")
                assert result.exit_code in (0, 1), result.stderr
            before = dict(model.finished)
            expected = model.run(definition, stop)
            assert stage.ran() == expected, f"{before}\n{definition}"
