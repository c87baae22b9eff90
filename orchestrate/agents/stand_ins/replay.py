"""Answers from a recording: the same run again, without an agent and without a bill."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from orchestrate.agents.base import Failure, Question, Reply, RunProgram
from orchestrate.agents.stand_ins.free import StandIn
from orchestrate.agents.stand_ins.recording import (
    NeverRecorded,
    PromptChanged,
    RecordedReply,
    find_turn,
)


class Replay(StandIn):
    """Gives recorded replies; what was not recorded is a failure that says so, never a guess."""

    name = "replay"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, question: Question, run: RunProgram) -> Reply:  # noqa: ARG002
        found = find_turn(self._folder, question)
        if isinstance(found, RecordedReply):
            return found.reply
        failure = Failure("invalid-request", f"{self._why(question, found)}; record the run again")
        return Reply(failure=failure, session=question.session)

    def _why(self, question: Question, miss: PromptChanged | NeverRecorded) -> str:
        turn = "" if question.turn == 1 else f", turn {question.turn}"
        place = f"step '{question.step}' (visit {question.visit}{turn})"
        match miss:
            case PromptChanged(at):
                when = dt.datetime.fromtimestamp(at, dt.UTC).isoformat(" ", "seconds")
                return f"the prompt of {place} has changed since it was recorded ({when})"
            case NeverRecorded():
                return f"{place} is not in the recording {self._folder}"
