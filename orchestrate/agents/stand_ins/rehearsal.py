"""Nobody answers: a rehearsal goes through a recipe without an agent, a bill or an effect.

The outcomes come from a script, per step and visit. Where it has none, the shortest way out is
taken, which the engine works out.
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


def script_faults(script: Script, outcomes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What does not fit the recipe, whose steps and their outcomes are given."""
    faults = []
    for step, lines in script.lines:
        if step not in outcomes:
            near = closest(step, outcomes)
            also = f" (did you mean '{near}'?)" if near else ""
            faults.append(f"the rehearsal script names a step '{step}' that there is not{also}")
            continue
        faults += [
            f"step '{step}' has no outcome '{line.outcome}'; it has {', '.join(outcomes[step])}"
            for line in lines
            if line.outcome is not None and line.outcome not in outcomes[step]
        ]
    return tuple(dict.fromkeys(faults))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class Rehearsal(StandIn):
    """Answers from a script, and says loudly that nothing was done."""

    name = "rehearsal"

    def __init__(self, script: Script = EMPTY_SCRIPT) -> None:
        self._script = script

    def ask(self, question: Question, run: RunProgram) -> Reply:  # noqa: ARG002
        # A script goes on over restarts.
        visit = question.earlier_visits + question.visit
        line = self._script.line(question.step, visit) or _shortest(question)
        if line.outcome is not None and line.outcome not in question.outcomes:
            has = ", ".join(question.outcomes) or "none"
            message = f"the rehearsal script gives step '{question.step}' the outcome"
            return Reply(
                failure=Failure("invalid-request", f"{message} '{line.outcome}', but it has {has}"),
                session=question.session,
            )
        return Reply(text=_text(question, visit, line), session=question.session)


def _shortest(question: Question) -> ScriptLine:
    """The outcome that leads to an exit soonest; any but `other` where none does."""
    if not question.outcomes:
        return ScriptLine()
    preferred = [*question.ways_out(), *sorted(question.outcomes, key=_is_other)]
    outcome = next(outcome for outcome in preferred if outcome in question.outcomes)
    return ScriptLine(
        outcome, "nothing was done, this is a rehearsal" if outcome == OTHER else None
    )


def _is_other(outcome: str) -> bool:
    return outcome == OTHER


def _text(question: Question, visit: int, line: ScriptLine) -> str:
    if line.text is not None and line.outcome is None and _is_json(line.text):
        # The script's own data, which later steps take apart: words around it would spoil it.
        return line.text
    opening = "REHEARSAL: NOTHING WAS DONE. No agent was asked, no file was changed."
    parts = [f"{opening}\nStep '{question.step}', visit {visit}."]
    if line.text is not None:
        parts.append(line.text)
    if line.outcome is not None:
        answer = {"outcome": line.outcome}
        if line.other_description is not None:
            answer["otherDescription"] = line.other_description
        parts.append(json.dumps(answer))
    return "\n\n".join(parts)
