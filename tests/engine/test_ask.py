"""An `Ask` step: what an agent is asked, and what its answer or failure becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.base import Failure, FailureKind, Reply
from orchestrate.engine.secrets import Masking
from tests.engine.performing import Answers, outcome, running
from tests.machines.fakes import machine
from tests.recipes.fakes import recipe
from tests.state.definitions import MACHINE
from tests.state.folding import compiled

ONE = recipe("""
    context: {name: Ann}
    steps: [{id: a, agent: helper, prompt: "Greet {{name}}.", output: found}]
""")
NO_RETRY = recipe("""
    steps: [{id: a, agent: helper, prompt: "a", retry: {max_attempts: 1}}]
""")


def test_a_prompt_is_filled_in_announced_and_kept(tmp_path: Path) -> None:
    with running(tmp_path, compiled(ONE), {"a": ["Hello"]}, context={"name": "Ann"}) as run:
        *_, finished = run.perform()
        (question,) = run.agent.asked
        assert question.prompt == "Greet Ann."
        assert (question.step, question.place, question.visit, question.turn) == ("a", "a", 1, 1)
        assert question.workspace == tmp_path.resolve()
        assert finished["on"] == "step-finished"
        (started,) = [event for event in run.journal if event["on"] == "step-started"]
        assert started["about"]["agent"] == "helper"
        assert started["about"]["prompt_length"] == len("Greet Ann.")
        assert run.log("a.prompt.txt") == "Greet Ann."
        assert run.log("a.answer.txt") == "Hello"
        assert run.turns == ["Hello"], "it can be replayed"


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("Hello", "Hello"),
        ('{"a": [1]}', {"a": [1]}),
        ('Here:\n```json\n{"a": 2}\n```\n', {"a": 2}),
    ],
)
def test_an_answer_becomes_the_value_of_a_recipes_step(
    tmp_path: Path, answer: str, value: Any
) -> None:
    with running(tmp_path, compiled(ONE), {"a": [answer]}, context={"name": "Ann"}) as run:
        *_, finished = run.perform()
        assert (finished["label"], finished["value"], finished["has_value"]) == ("@ok", value, True)
        assert finished["result"]["status"] == "completed"
        assert finished["result"]["response_length"] == len(answer)
        assert run.store.state.root.variables["found"] == value


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded", 1),
        ("crash", 1),
        ("refused", 1),
        ("limit", 1),
        ("empty", 1),
        ("timeout", 124),
        ("silent", 124),
        ("auth", 2),
        ("invalid-request", 2),
        ("not-installed", 127),
    ],
)
def test_a_failure_has_the_exit_code_of_its_kind(
    tmp_path: Path, kind: FailureKind, code: int
) -> None:
    failure = Failure(kind, "it went wrong", http_status=503)
    with running(tmp_path, compiled(NO_RETRY), {"a": [failure]}) as run:
        (finished,) = run.perform()
        result = finished["result"]
        assert (finished["label"], result["status"], result["exit_code"]) == (
            "@failed",
            "failed",
            code,
        )
        assert "it went wrong" in result["error"]["message"]
        assert result["error"]["context"]["kind"] == kind
        assert result["error"]["context"]["http_status"] == 503
        assert run.turns == []


def test_an_outage_is_tried_again_unless_the_author_says_otherwise(tmp_path: Path) -> None:
    answers = {"a": [Failure("overloaded", "busy"), Failure("crash", "broken")]}
    with running(tmp_path, compiled(ONE), answers, context={"name": "Ann"}) as run:
        (ended,) = run.perform()
        assert (ended["on"], ended["why"]) == ("attempt-ended", "failed")
        assert ended["rest_s"] > 0
        (finished,) = run.perform()
        assert (finished["on"], finished["label"]) == ("step-finished", "@failed")


def test_a_service_that_says_when_is_not_asked_before(tmp_path: Path) -> None:
    with running(tmp_path, compiled(ONE), context={"name": "Ann"}) as run:
        later = run.rt.now() + 1000
        run.agent.answers["a"] = [Failure("rate-limit", "later", retry_at=later)]
        (ended,) = run.perform()
        assert ended["at"] + ended["rest_s"] >= later
        assert ended["result"]["error"]["context"]["retry_at"] == later


def test_a_step_is_asked_for_its_outcome_once_more_and_then_given_up(tmp_path: Path) -> None:
    with running(tmp_path, compiled(MACHINE), {"plan": ["I am done.", "Really."]}) as run:
        *_, ended = run.perform()
        assert (ended["on"], ended["why"]) == ("attempt-ended", "reminded")
        (finished,) = run.perform()
        first, second = run.agent.asked
        assert (first.turn, second.turn) == (1, 2)
        assert first.session == second.session
        assert (first.is_new_session, second.is_new_session) == (True, False)
        assert first.prompt.startswith("Do plan.")
        assert "Do plan." not in second.prompt, "a reminder asks for the outcome only"
        assert (finished["label"], finished["result"]["exit_code"]) == ("@invalid", 2)


def test_a_reminder_that_is_answered_counts(tmp_path: Path) -> None:
    with running(tmp_path, compiled(MACHINE), {"plan": ["I am done.", outcome("good")]}) as run:
        run.perform()
        (finished,) = run.perform()
        assert (finished["label"], finished["result"]["outcome"]) == ("good", "good")


def test_an_empty_answer_is_an_answer_without_an_outcome(tmp_path: Path) -> None:
    answers: Answers = {"plan": [Failure("empty", "it said nothing"), outcome("good")]}
    with running(tmp_path, compiled(MACHINE), answers) as run:
        *_, ended = run.perform()
        assert ended["why"] == "reminded"
        assert run.perform()[-1]["label"] == "good"


def test_the_description_of_other_is_kept(tmp_path: Path) -> None:
    answer = '{"outcome": "other", "otherDescription": "no tests"}'
    with running(tmp_path, compiled(MACHINE), {"plan": [answer]}) as run:
        result = run.perform()[-1]["result"]
        assert (result["outcome"], result["outcome_description"]) == ("other", "no tests")


def test_the_steps_of_a_machine_share_a_session(tmp_path: Path) -> None:
    answers = {"plan": [outcome("good")], "work": [outcome("good")]}
    with running(tmp_path, compiled(MACHINE), answers) as run:
        run.to_end()
        first, second = run.agent.asked
        assert first.session == second.session
        assert (first.is_new_session, second.is_new_session) == (True, False)
        assert run.document["machine"]["sessionId"] == first.session
        told = [event["about"] for event in run.journal if event["on"] == "step-started"]
        assert told[0]["new_session_id"] == told[1]["session_id"] == first.session
        assert "session_id" not in told[0], "nobody has seen it yet"


def test_every_step_of_a_recipe_has_a_session_of_its_own(tmp_path: Path) -> None:
    text = recipe("""
        steps: [{id: a, agent: helper, prompt: "a"}, {id: b, agent: helper, prompt: "b"}]
    """)
    with running(tmp_path, compiled(text)) as run:
        run.to_end()
        first, second = run.agent.asked
        assert first.session != second.session
        assert first.is_new_session
        assert second.is_new_session


def test_a_session_that_is_gone_is_replaced_and_the_prompt_is_sent_again(tmp_path: Path) -> None:
    answers: Answers = {
        "plan": [outcome("good")],
        "work": [Failure("session", "no such session"), outcome("good")],
    }
    with running(tmp_path, compiled(MACHINE), answers) as run:
        assert run.to_end() == ("completed", "finished", 0)
        plan, lost, again = run.agent.asked
        assert lost.session == plan.session
        assert again.session != plan.session
        assert again.is_new_session
        assert again.prompt == lost.prompt
        assert [e["why"] for e in run.journal if e["on"] == "attempt-ended"] == ["no-session"]
        assert run.document["steps"]["work"]["attempts"] == 2


def test_a_turn_that_was_stopped_is_no_failure(tmp_path: Path) -> None:
    stopped = Failure("stopped", "the person left")
    with running(tmp_path, compiled(NO_RETRY), {"a": [stopped]}) as run:
        ended, over = run.perform()
        assert (ended["on"], ended["why"]) == ("attempt-ended", "stopped")
        assert (over["on"], over["status"], over["code"]) == ("run-ended", "paused", 130)
        run.record("run-resumed")
        run.agent.answers["a"] = ["fine"]
        assert run.to_end() == ("completed", "completed", 0)


def test_what_an_answer_reports_is_recorded(tmp_path: Path) -> None:
    reply = Reply(
        "Hello", model="opus-4", input_tokens=7, output_tokens=3, cost_usd=0.5,
        denied=("Bash", "Bash", "Write"), session="s-1",
    )  # fmt: skip
    with running(tmp_path, compiled(NO_RETRY), {"a": [reply]}) as run:
        result = run.perform()[-1]["result"]
        assert result["model"] == "opus-4"
        assert (result["input_tokens"], result["output_tokens"], result["cost_usd"]) == (7, 3, 0.5)
        assert result["denials"] == [{"tool": "Bash", "count": 2}, {"tool": "Write", "count": 1}]
        assert result["session_id"] == "s-1"
        assert result["billed"] is False, "an agent that is no program has no bill"


def test_secrets_are_masked_in_everything_that_is_kept(tmp_path: Path) -> None:
    masking = Masking(named=frozenset({"API_PASS"}))
    environment = {"API_PASS": "hunter2-hunter2"}
    text = ONE.replace("Greet", "Use hunter2-hunter2 for")
    with running(
        tmp_path, compiled(text), {"a": ["It was hunter2-hunter2."]}, context={"name": "Ann"},
        environment=environment, masking=masking,
    ) as run:  # fmt: skip
        run.perform()
        assert "hunter2" in run.agent.asked[0].prompt, "the agent itself has to know it"
        kept = run.log("a.prompt.txt") + run.log("a.answer.txt") + run.store.run.events.read_text()
        assert "hunter2" not in kept


def test_a_model_that_the_step_names_is_asked_for(tmp_path: Path) -> None:
    text = machine({"plan": {"good": "!done", "model": "haiku"}})
    with running(tmp_path, compiled(text), {"plan": [outcome("good")]}) as run:
        result = run.perform()[-1]["result"]
        assert run.agent.asked[0].model == "haiku"
        assert (result["model"], result["model_requested"]) == (None, "haiku")
