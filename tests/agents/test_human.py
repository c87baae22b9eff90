"""A person answers at the terminal; without one nobody is asked and nothing blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from orchestrate.agents.base import Finished, Invocation, Question, Reply
from orchestrate.agents.stand_ins.human import Human, Person

OUTCOMES = ("done", "needs-work", "other")


def never(_: Invocation) -> Finished:
    raise AssertionError("a person is no program")


def converse(
    typed: Iterable[str],
    outcomes: tuple[str, ...] = OUTCOMES,
    prompt: str = "Please check.",
    is_terminal: bool = True,
) -> tuple[Reply, str]:
    lines = iter(typed)
    shown: list[str] = []
    person = Person(lambda _: next(lines, None), shown.append, is_terminal)
    question = Question(prompt, Path("/w"), {}, session="s", step="check", outcomes=outcomes)
    return Human(person).ask(question, never), "".join(shown)


def test_an_outcome_is_picked_by_number_or_name() -> None:
    for typed in ("2", " needs-work "):
        reply, shown = converse([typed])
        assert json.loads(reply.text) == {"outcome": "needs-work"}
        assert "Please check." in shown
        assert "2  needs-work" in shown


def test_what_is_no_outcome_is_asked_again() -> None:
    reply, shown = converse(["0", "4", "nothing", "²", "", "1"])
    assert json.loads(reply.text) == {"outcome": "done"}
    assert shown.count("is not one of them") == 5


def test_other_wants_a_description() -> None:
    reply, _ = converse(["other", "", "  ", "the server is down"])
    assert json.loads(reply.text) == {
        "outcome": "other",
        "otherDescription": "the server is down",
    }


def test_a_step_without_outcomes_gets_an_answer_of_several_lines() -> None:
    reply, shown = converse([".", "first", "", "second", "."], outcomes=())
    assert reply.text == "first\n\nsecond"
    assert "An empty answer does not count." in shown


def test_without_a_terminal_nobody_is_asked() -> None:
    def read(_: object) -> str | None:
        raise AssertionError("nothing may be read")

    person = Person(read, lambda _text: None, is_terminal=False)
    question = Question("x", Path("/w"), {}, step="check", outcomes=OUTCOMES)
    reply = Human(person).ask(question, never)
    assert reply.failure is not None
    assert reply.failure.kind == "not-installed"
    assert "terminal" in reply.failure.message


def test_closing_the_input_stops_the_step() -> None:
    for typed, outcomes in ((["9"], OUTCOMES), (["other"], OUTCOMES), (["half"], ())):
        reply, _ = converse(typed, outcomes)
        assert reply.failure is not None
        assert reply.failure.kind == "stopped"
        assert "'check'" in reply.failure.message


def test_a_prompt_cannot_play_with_the_terminal() -> None:
    _, shown = converse(["1"], prompt="a\x1b]0;title\x07b\rc\u202ed\n\te\ud800")
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\u202e" not in shown
    assert "\ud800" not in shown
    assert "\n\te" in shown
