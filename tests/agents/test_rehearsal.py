"""A rehearsal answers from its script, or as the engine says that later steps need it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.base import Finished, Invocation, Question, Reply
from orchestrate.agents.stand_ins.rehearsal import RehearsalAgent, parse_script, script_faults
from orchestrate.errors import ConfigError

OUTCOMES = ("issues-found", "no-issues", "other")


def never(_: Invocation) -> Finished:
    raise AssertionError("a rehearsal starts nothing")


def ask(script: object = None, visit: int = 1, **more: Any) -> Reply:
    values: dict[str, Any] = {"step": "code-review", "outcomes": OUTCOMES, **more}
    question = Question("Review it.", Path("/w"), {}, session="s", visit=visit, **values)
    agent = RehearsalAgent() if script is None else RehearsalAgent(parse_script(script))
    return agent.ask(question, never)


def outcome(reply: Reply) -> Any:
    assert reply.failure is None
    return json.loads(reply.text.splitlines()[-1])


def test_the_script_gives_an_outcome_per_visit_and_the_last_repeats() -> None:
    script = {"code-review": ["issues-found", "no-issues"]}
    given = [outcome(ask(script, visit))["outcome"] for visit in (1, 2, 3, 9)]
    assert given == ["issues-found", "no-issues", "no-issues", "no-issues"]


def test_the_script_goes_on_over_restarts() -> None:
    script = {"code-review": ["issues-found", "no-issues"]}
    assert outcome(ask(script, 1, earlier_visits=1))["outcome"] == "no-issues"


def test_the_engine_says_what_is_answered_without_a_script() -> None:
    assert ask(rehearsed=lambda: ("no-issues", None)).text == '{"outcome": "no-issues"}'
    assert outcome(ask(rehearsed=lambda: ("other", None)))["otherDescription"].strip()
    assert ask(rehearsed=lambda: ("", '{"a": 1}')).text == '{"a": 1}'
    failure = ask(rehearsed=lambda: ("@failed", None)).failure
    assert failure is not None
    assert not failure.is_transient


def test_an_entry_may_have_a_text_and_a_description() -> None:
    entry = {"outcome": "other", "otherDescription": "out of coffee", "text": "I tried."}
    reply = ask({"code-review": [entry]})
    assert outcome(reply) == {"outcome": "other", "otherDescription": "out of coffee"}
    assert reply.text.startswith("I tried.\n\n{")


def test_a_text_alone_is_taken_as_it_is() -> None:
    assert ask({"code-review": [{"text": "I forgot.\n"}]}).text == "I forgot.\n"


def test_a_step_without_outcomes_gets_a_short_text_with_its_name() -> None:
    reply = ask(outcomes=(), step="Summarise")
    assert "Summarise" in reply.text
    assert "{" not in reply.text
    assert ask({"Summarise": [{"text": "All is well."}]}, outcomes=(), step="Summarise").is_answer


def test_an_outcome_that_the_step_does_not_have_is_a_failure() -> None:
    reply = ask({"code-review": ["fine"]})
    assert reply.failure is not None
    assert reply.failure.kind == "invalid-request"
    assert "'fine'; its outcomes: issues-found, no-issues, other" in reply.failure.message


def test_the_answer_is_the_same_every_time() -> None:
    assert ask() == ask()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ([], "a mapping of step names"),
        ("no", "a mapping of step names"),
        ({"a": "done"}, r"step 'a' needs a list .*: \[done\]"),
        ({"a": []}, "step 'a' needs a list"),
        ({"a": [7]}, "step 'a', visit 1 is an outcome or a mapping"),
        ({"a": ["x", {}]}, "step 'a', visit 2 has neither an outcome nor a text"),
        ({"a": [{"outcom": "x", "text": "y"}]}, "did you mean 'outcome'"),
        ({"a": [{"outcome": 3}]}, "'outcome' must be a text"),
        ({"a": ["other"]}, "'other' and 'otherDescription' belong together"),
        ({"a": [{"outcome": "x", "otherDescription": "y"}]}, "belong together"),
    ],
)
def test_a_wrong_script_is_explained(script: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_script(script)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_script({"a": "x", "b": [{"text": ""}]})
    assert "step 'a'" in raised.value.message
    assert "step 'b'" in raised.value.message


def test_a_script_that_does_not_fit_the_recipe_is_found_before() -> None:
    script = parse_script({"code-revue": ["x"], "fix": ["complete", "broken"]})
    faults = script_faults(script, {"code-review": OUTCOMES, "fix": ("complete",)})
    assert len(faults) == 2
    assert "did you mean 'code-review'?" in faults[0]
    assert "step 'fix' has no outcome 'broken'; its outcomes: complete" in faults[1]
    assert script_faults(parse_script({"fix": ["complete"]}), {"fix": ("complete",)}) == ()
