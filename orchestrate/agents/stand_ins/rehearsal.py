"""No agent answers: a rehearsal goes through a recipe without an agent, a bill or an effect.

The outcomes come from a script, per step and visit. Where it has none, the engine says which way
leads furthest, and what later steps expect of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrate.agents.base import Failure, Question, Reply, RunProgram
from orchestrate.agents.stand_ins.free import StandIn
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError
from orchestrate.record import record

OTHER = "other"
FAILED = "@failed"
# A stage may be called as one of its steps is, and its gate is called by the stage.
OF_GATES = ("approved", "denied", "waits")
GIVEN_UP = "nothing was done, this is a rehearsal"
_KEYS = ("outcome", "otherDescription", "text")


@record
class ScriptLine:
    """What is answered at one visit of a step."""

    outcome: str | None = None
    other_description: str | None = None
    text: str | None = None


@record
class Script:
    """Step name to its lines, one per visit; the last one repeats."""

    lines: tuple[tuple[str, tuple[ScriptLine, ...]], ...] = ()

    def line(self, step: str, visit: int) -> ScriptLine | None:
        of_step = dict(self.lines).get(step)
        return of_step[min(visit, len(of_step)) - 1] if of_step else None


EMPTY_SCRIPT = Script()


def parse_script(data: object) -> Script:
    """The script in the data of a YAML or JSON file; all that is wrong with it is told at once."""
    faults: list[str] = []
    if not isinstance(data, Mapping):
        raise ConfigError(
            "a rehearsal script is a mapping of step names to lists of outcomes",
            "write: code-review: [issues-found, no-issues]",
        )
    lines = tuple(
        (str(step), tuple(_lines(str(step), given, faults))) for step, given in data.items()
    )
    if faults:
        raise ConfigError("the rehearsal script is wrong: " + "; ".join(faults))
    return Script(lines)


def _lines(step: str, given: Any, faults: list[str]) -> Iterator[ScriptLine]:
    if not isinstance(given, list) or not given:
        example = given if isinstance(given, str) else "outcome"
        faults.append(f"step '{step}' needs a list with an outcome per visit: [{example}]")
        return
    for visit, written in enumerate(given, start=1):
        where = f"step '{step}', visit {visit}"
        entry = {"outcome": written} if isinstance(written, str) else written
        if not isinstance(entry, Mapping):
            faults.append(f"{where} is an outcome or a mapping of {', '.join(_KEYS)}")
            continue
        found = list(_entry_faults(where, entry))
        faults += found
        if not found:
            yield ScriptLine(entry.get("outcome"), entry.get("otherDescription"), entry.get("text"))


def _entry_faults(where: str, entry: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in entry.items():
        if key not in _KEYS:
            near = closest(str(key), _KEYS)
            yield f"{where} has an unknown key '{key}'" + (
                f" (did you mean '{near}'?)" if near else ""
            )
        elif not isinstance(value, str) or not value.strip():
            yield f"{where}: '{key}' must be a text"
    if "outcome" not in entry and "text" not in entry:
        yield f"{where} has neither an outcome nor a text"
    if (entry.get("outcome") == OTHER) != ("otherDescription" in entry):
        yield f"{where}: '{OTHER}' and 'otherDescription' belong together"


def script_faults(
    script: Script, outcomes: Mapping[str, tuple[str, ...]], *, is_all: bool = True
) -> tuple[str, ...]:
    """What does not fit the recipe, whose steps (`is_all`: all) and their outcomes are given."""
    faults = []
    for step, lines in script.lines:
        if step not in outcomes:
            if not is_all:
                continue
            near = closest(step, outcomes)
            also = f" (did you mean '{near}'?)" if near else ""
            faults.append(f"the rehearsal script names a step '{step}' that does not exist{also}")
            continue
        has = ", ".join(outcomes[step]) or "none"
        faults += [
            f"step '{step}' has no outcome '{line.outcome}'; its outcomes: {has}"
            for line in lines
            if line.outcome is not None and line.outcome not in outcomes[step]
        ]
    return tuple(dict.fromkeys(faults))


class RehearsalAgent(StandIn):
    """Answers from a script, or as the engine says. That nothing was done is said by the run."""

    name = "rehearsal"

    def __init__(self, script: Script = EMPTY_SCRIPT) -> None:
        self._script = script

    def ask(self, question: Question, run: RunProgram) -> Reply:  # noqa: ARG002
        # A script goes on over restarts.
        visit = question.earlier_visits + question.visit
        line = self._script.line(question.step, visit)
        if line is None or line.outcome in set(OF_GATES) - set(question.outcomes):
            outcome, text = question.rehearsed()
            if outcome == FAILED:
                return Reply(failure=Failure("crash", "the rehearsal lets it fail"))
            line = ScriptLine(outcome or None, GIVEN_UP if outcome == OTHER else None, text)
        elif line.outcome is not None and line.outcome not in question.outcomes:
            has = ", ".join(question.outcomes) or "none"
            message = f"the rehearsal script gives step '{question.step}' the outcome"
            return Reply(
                failure=Failure(
                    "invalid-request", f"{message} '{line.outcome}'; its outcomes: {has}"
                ),
                session=question.session,
            )
        return Reply(text=_text(question, line), session=question.session)


def _text(question: Question, line: ScriptLine) -> str:
    parts = [] if line.text is None else [line.text]
    if line.outcome is not None:
        answer = {"outcome": line.outcome}
        if line.other_description is not None:
            answer["otherDescription"] = line.other_description
        parts.append(json.dumps(answer))
    return "\n\n".join(parts) if parts else f"(the answer of step '{question.step}')"
