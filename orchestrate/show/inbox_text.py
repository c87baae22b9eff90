"""The inbox as text, and as a document for programs."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.plan.visible import plural, visible, visible_lines
from orchestrate.record import field_names
from orchestrate.show.changed_evidence import files_json, files_lines
from orchestrate.show.gates_text import until_words
from orchestrate.show.spending import cost_words
from orchestrate.state.address import gate_words
from orchestrate.state.times import duration, local_time, timestamp
from orchestrate.view.inbox import Evidence, Question
from orchestrate.view.place import Place
from orchestrate.view.source_files import shown_definition

_KINDS = {
    "gate": "{} waits for an approval",
    "lost": "step '{}' was begun and not finished",
    "limit": "a limit is reached",
    "question": "step '{}' asks a person",
}
_MOST_ANSWER_LINES = 12


def question_text(question: Question) -> str:
    """A question with what a person needs for the answer."""
    about = question.about
    if question.visited is not None:
        about = gate_words(about, question.visited[1])
    what = _KINDS[question.kind].format(visible(about))
    lines = [f"{question.token}  {what}"]
    lines += [f"  | {line}" for line in visible_lines(question.text).splitlines()]
    run = f"{question.run_id}  {shown_definition(question.definition)}"
    lines.append(f"  run      {run} in {visible(question.workspace)}")
    ago = duration(max(0.0, time.time() - question.since) * 1000)
    until = until_words(question.expires_at, question.default)
    lines.append(f"  since    {local_time(timestamp(question.since))} ({ago} ago){until}")
    lines += _evidence_lines(question.evidence)
    for choice in question.choices:
        command = Place().command("answer", question.token, choice.value)
        lines.append(f"  {choice.value + ':':8} {command}\n           then: {visible(choice.then)}")
    if not question.choices:
        lines.append("  it is answered where it is asked: at the terminal of the run")
    elif question.is_live:
        lines.append("  it also asks at a terminal")
    return "\n".join(lines) + "\n"


def _evidence_lines(evidence: Evidence) -> list[str]:
    lines = []
    if evidence.answer:
        lines.append(f"  answer   of '{visible(evidence.step)}':")
        said = visible_lines(evidence.answer).splitlines()
        hidden = len(said) - _MOST_ANSWER_LINES
        if hidden > 0:
            lines.append(f"           | … ({plural(hidden, 'line')} before)")
        lines += [f"           | {line}" for line in said[-_MOST_ANSWER_LINES:]]
    if evidence.check:
        lines.append(f"  check    of '{visible(evidence.step)}': {evidence.check}")
    lines += files_lines(evidence)
    if evidence.costs.turns:
        lines.append(f"  cost     {cost_words(evidence.costs)}")
    return lines


def question_json(question: Question) -> dict[str, Any]:
    """For programs; `answer` takes `token`."""
    left_out = ("choices", "evidence", "visited")
    given = {name: getattr(question, name) for name in field_names(question)}
    evidence = question.evidence
    return {
        "token": question.token,
        **{name: value for name, value in given.items() if name not in left_out},
        "since": timestamp(question.since),
        "choices": [{"value": one.value, "then": one.then} for one in question.choices],
        "evidence": {
            "step": evidence.step,
            "answer": evidence.answer,
            "check": evidence.check,
            "files_since": evidence.files_since or None,
            "files": files_json(evidence),
            "files_left_out": evidence.files_left_out,
            "files_unknown": evidence.files_unknown,
            "costs": evidence.costs.to_json(),
        },
    }
