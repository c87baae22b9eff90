"""The inbox as text, and as a document for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from orchestrate.plan.visible import plural, visible, visible_lines
from orchestrate.record import field_names
from orchestrate.show.gates_text import files_json, files_lines, until_words
from orchestrate.show.spending import cost_words
from orchestrate.state.address import gate_words
from orchestrate.state.times import duration, local_time, timestamp
from orchestrate.view.advice import view_flags
from orchestrate.view.inbox import Evidence, InboxQuestion
from orchestrate.view.outcomes import Answered
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view
from orchestrate.view.source_files import shown_definition

_KINDS = {
    "gate": "{} waits for an approval",
    "lost": "step '{}' was begun and not finished",
    "limit": "a limit is reached",
    "question": "step '{}' asks a person",
}
_MOST_ANSWER_LINES = 12
_MOST_GONE = 3


def question_text(question: InboxQuestion) -> str:
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
    elif question.at_terminal:
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


def question_json(question: InboxQuestion) -> dict[str, Any]:
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


def answered_text(given: Answered) -> str:
    run_id, place = given.run.id, Place(given.workspace)
    first = "recorded" if given.result == "recorded" else f"already answered so, by {given.by}"
    text = f"{given.value}: {visible(first)}\n"
    if given.went_on is not None:
        return text + f"run {run_id} goes on; watch: {visible(place.command('attach', run_id))}\n"
    if given.stays:
        command = place.command("resume", run_id, *view_flags(run_view(given.run)))
        return text + (
            f"run {run_id} stays as it is: {visible(given.stays)}\n"
            f"go on with it: {visible(command)}\n"
        )
    return text + f"run {run_id} is {given.status}\n"


def answered_json(given: Answered) -> dict[str, object]:
    return {
        "question": given.question_id,
        "result": given.result,
        "value": given.value,
        "by": given.by,
        "run_id": given.run.id,
        "workspace": given.workspace,
        "status": given.status,
        "pid": given.went_on,
        "stays": given.stays or None,
    }


def gone_text(folders: Sequence[str]) -> str:
    """Workspaces that are not where they were; `--json` has all of them."""
    what = "a workspace is" if len(folders) == 1 else f"{len(folders)} workspaces are"
    named = [visible(folder) for folder in folders[:_MOST_GONE]]
    more = ["…"] if len(folders) > _MOST_GONE else []
    return f"orchestrate: {what} gone: {', '.join([*named, *more])}\n"
