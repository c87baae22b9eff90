"""A person at the terminal is the agent: reads the prompt, does the work, picks the outcome."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable

from orchestrate.agents.base import Failure, Question, Reply, RunProgram
from orchestrate.agents.stand_ins.free import StandIn
from orchestrate.record import record
from orchestrate.regex import regex

# Parallel items share one person, who can have one conversation at a time.
CONVERSATION = threading.RLock()
_OTHER = "other"
_END = "."
# All that a terminal would act on, except line breaks and tabs.
_CONTROLS = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@record
class Person:
    """The person at the terminal, if there is one."""

    # One line without its line break; None when there is no more input, or it is over by what is
    # asked meanwhile.
    read_line: Callable[[Callable[[], object]], str | None]
    write: Callable[[str], None]
    is_terminal: bool


def has_terminal() -> bool:
    """Can a person be asked here?"""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class _InputEnded(Exception):
    """The person closed the input instead of answering."""


class Human(StandIn):
    """Asks the person at the terminal; refuses without one."""

    name = "human"
    asks_person = True

    def __init__(self, person: Person) -> None:
        self._person = person
        self._write = person.write

    def ask(self, question: Question, run: RunProgram) -> Reply:  # noqa: ARG002
        if not self._person.is_terminal:
            message = "the backend 'human' needs a terminal to ask at, and there is none"
            return Reply(failure=Failure("not-installed", message), session=question.session)
        try:
            with CONVERSATION:
                text = self._converse(question)
        except _InputEnded:
            kind = question.over()
            before = "" if kind else "the input ended before "
            message = f"{before}step '{question.step}' was{' not' if kind else ''} answered"
            return Reply(failure=Failure(kind or "stopped", message), session=question.session)
        return Reply(text=text, session=question.session)

    def _converse(self, question: Question) -> str:
        if question.over():
            raise _InputEnded  # while another conversation was held
        where = _safe(question.place or question.step)
        self._write(f"\nStep '{where}', visit {question.visit}\n\n")
        self._write(f"{_safe(question.shown or question.prompt)}\n\n")
        if not question.outcomes:
            return self._read_answer(question)
        outcome = self._choose(question)
        answer = {"outcome": outcome}
        if outcome == _OTHER:
            answer["otherDescription"] = self._describe(question)
        return json.dumps(answer)

    def _read_answer(self, question: Question) -> str:
        self._write(f"Your answer, and then a line with only '{_END}':\n")
        lines: list[str] = []
        while (line := self._line(question)) != _END or not "".join(lines).strip():
            if line == _END:
                self._write("An empty answer does not count.\n")
            else:
                lines.append(line)
        return "\n".join(lines)

    def _choose(self, question: Question) -> str:
        outcomes = question.outcomes
        for number, outcome in enumerate(outcomes, start=1):
            self._write(f"  {number}  {_safe(outcome)}\n")
        while True:
            self._write("Outcome (number or name): ")
            chosen = self._line(question).strip()
            if chosen in outcomes:
                return chosen
            if chosen.isascii() and chosen.isdigit() and 1 <= int(chosen) <= len(outcomes):
                return outcomes[int(chosen) - 1]
            self._write(f"'{_safe(chosen)}' is not one of them.\n")

    def _describe(self, question: Question) -> str:
        while True:
            self._write("In a few words, what is it? ")
            if description := self._line(question).strip():
                return description

    def _line(self, question: Question) -> str:
        line = self._person.read_line(question.over)
        if line is None:
            raise _InputEnded
        return line


def _safe(text: str) -> str:
    return _CONTROLS.sub("\ufffd", text)
