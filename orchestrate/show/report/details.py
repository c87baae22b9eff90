"""The prompts and outputs that a report shows: a few of each step, and of each its two ends."""

from __future__ import annotations

import json
import os
from collections import deque
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.record import record, replace
from orchestrate.show.changed_files import changed_names
from orchestrate.show.printing import open_source
from orchestrate.show.transcript_text import turn_lines
from orchestrate.state.address import Address, log_name_in
from orchestrate.state.plan_file import DOCUMENTS, edit_folder
from orchestrate.view.step_logs import entries_of, from_result, source_of
from orchestrate.view.step_totals import Example, Tally
from orchestrate.view.waiting import written_step

if TYPE_CHECKING:
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run
    from orchestrate.transcript import TranscriptOf
    from orchestrate.view.run_view import RunView
    from orchestrate.view.step_logs import StepLog

MOST_DETAILED = 80
_MOST_BYTES = 6000
_MOST_ERROR_BYTES = 2000
_MOST_PROMPTS = 3
# What a step does: the fields that say it, and their titles.
_WORK = {
    "prompt": "Prompt as the recipe has it",
    "command": "Command",
    "input_file": "Prompt file",
    "recipe": "Recipe",
    "call": "Recipe",
}
# What the drawing tells: how a step is called, where it leads, and the steps inside of it.
_DRAWN = frozenset(("id", "name", "outcomes", "onOutcome", "on", "while_steps"))


@record
class Part:
    """A text of a step. `cut` says what is left out and where the whole is; '' if nothing is."""

    title: str
    text: str
    cut: str = ""


@record
class Detail:
    """The texts of one result of a step."""

    path: str
    heading: str
    parts: list[Part]


def find_details(
    run: Run, view: RunView | None, tallies: list[Tally], transcript_of: TranscriptOf
) -> list[Detail]:
    """The texts of the first steps' last visits, and of a few items of each loop."""

    examples = [example.address for tally in tallies[:MOST_DETAILED] for example in tally.examples]
    wanted = {address.shown for address in examples}
    frames = {address.frame for address in examples}
    entries: dict[str, StepLog] = {}
    if view is not None:
        entries = {
            entry.path: entry for entry in entries_of(view.state, frames) if entry.path in wanted
        }
    details = []
    for tally in tallies[:MOST_DETAILED]:
        last = tally.examples[-1].address if tally.examples else tally.address
        prompt = _authored(run, None if view is None else view.index, last)
        for example in tally.examples:
            is_last = example is tally.examples[-1] or tally.is_inner
            entry = entries.get(example.address.shown) if is_last else None
            parts = [*prompt, *_texts_of(run, example, entry, transcript_of)]
            if parts:
                details.append(Detail(tally.path, _heading(example, tally), parts))
            prompt = []
    return details


def _heading(example: Example, tally: Tally) -> str:
    words = [example.address.shown, example.item]
    if example.visit > 1 or (tally.visits > 1 and not tally.is_inner):
        words.append(f"visit {example.visit}")
    result = example.result
    words.append(result.status)
    if result.outcome is not None:
        words.append(f"outcome {result.outcome}")
    elif result.exit_code is not None and result.agent is None:
        words.append(f"exit {result.exit_code}")
    words.append(changed_names(result.changed))
    return " · ".join(word for word in words if word)


def _authored(run: Run, index: Index | None, at: Address) -> list[Part]:
    """What the recipe says, from the run's own copy of it, in which secrets are masked."""

    step = written_step(run, index, at)
    if step is None:
        return []
    where = f"the whole: {edit_folder(run.root, at.frame.edit) / DOCUMENTS}"
    key = next((key for key in _WORK if step.get(key) is not None), None)
    shown = {} if key is None else {_WORK[key]: _written(step[key])}
    settings = {key: step[key] for key in step if key not in _DRAWN and key not in _WORK}
    for key in ("for_each", "repeat"):
        if isinstance(loop := settings.get(key), dict):
            settings[key] = {name: loop[name] for name in loop if name != "steps"}
    if settings:
        lines = (f"{key}: {_written(value)}" for key, value in settings.items())
        shown["Settings of the step"] = "\n".join(lines)
    return [
        _part(title, text.encode("utf-8", "surrogatepass"), where, _MOST_BYTES)
        for title, text in shown.items()
    ]


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts_of(
    run: Run, example: Example, entry: StepLog | None, transcript_of: TranscriptOf
) -> list[Part]:
    parts = []
    result = example.result
    if result.message:
        parts.append(Part("Error", result.message))
    elif result.reason:
        parts.append(Part("Reason", result.reason))
    for attempt, sent in _prompts_sent(run, example):
        title = "Prompt as it was sent" + (f", attempt {attempt}" if attempt > 1 else "")
        parts.append(_part(title, sent, f"the whole: {sent}", _MOST_BYTES))
    output = source_of(run, entry, "stdout") if entry is not None else from_result(result)
    did = None if entry is None else turn_lines(run, entry, transcript_of)
    if did is not None:
        first = list(islice(did, _MOST_BYTES))
        text = "\n".join([*first, *deque(did, maxlen=_MOST_BYTES)]).encode("utf-8", "replace")
        if text:
            whole = "the whole: orchestrate logs"
            parts.append(_part("What the agent did", text, whole, _MOST_BYTES))
        if not result.has("response_length"):
            output = b""  # its program's events, which are told already
    if output != b"":
        name = "Output" if result.agent is None else "Answer"
        whole = f"the whole: {output}" if isinstance(output, Path) else ""
        if result.truncated and not whole:
            whole = f"the rest was not kept here; look into {run.logs}"
        parts.append(_part(name, output, whole, _MOST_BYTES))
    errors = source_of(run, entry, "stderr") if entry is not None else b""
    if isinstance(errors, Path) and os.path.getsize(errors):
        parts.append(_part("Standard error", errors, f"the whole: {errors}", _MOST_ERROR_BYTES))
    return parts


def _prompts_sent(run: Run, example: Example) -> list[tuple[int, Path]]:
    """The prompts of a visit's attempts, reminders among them; of many only the last ones."""
    last = example.result.attempts
    found = []
    for attempt in range(max(1, last - _MOST_PROMPTS + 1), last + 1):
        one = replace(example.address, visit=example.visit, attempt=attempt)
        path = run.logs / f"{_log_name(example, one, is_last=attempt == last)}.prompt.txt"
        if os.path.isfile(path) and not os.path.islink(path):
            found.append((attempt, path))
    return found


def _log_name(example: Example, attempt: Address, *, is_last: bool) -> str:
    """What its files are called; only of the last attempt an unusual name is on record here."""
    return (log_name_in(example.result) if is_last else "") or attempt.log_name()


def _part(title: str, source: Path | bytes, whole: str, most: int) -> Part:
    """The beginning and the end of a text, however long it is."""
    with open_source(source) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= most:
            return Part(title, _decoded(file.read(most)))
        first = file.read(most // 2)
        file.seek(size - most // 2)
        last = file.read(most // 2)
    left_out = f"{size - 2 * (most // 2):,} of {size:,} bytes are left out"
    text = f"{_decoded(first)}\n[… {left_out} …]\n{_decoded(last)}"
    return Part(title, text, f"{left_out}; {whole}" if whole else left_out)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
