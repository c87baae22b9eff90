"""All attempts of a step, oldest first, with the output that the journal has on record of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrate.show.output import answer_json
from orchestrate.show.printing import Printer, print_lines, print_source, read_source
from orchestrate.show.transcript_text import turn_lines
from orchestrate.state.address import Address
from orchestrate.view.step_logs import (
    StepLog,
    Stream,
    attempts_in,
    from_result,
    source_of,
    was_at_work_since,
)

if TYPE_CHECKING:
    from orchestrate.show.run_logs import LogRequest
    from orchestrate.state.runs import Run


def show_attempts(
    run: Run,
    step: str,
    entries: Sequence[StepLog],
    request: LogRequest,
    *,
    as_json: bool,
) -> None:
    """Print them, or answer with them as data."""
    streams, last_lines, since = request.streams, request.last_lines, request.since
    attempts = [
        attempt
        for attempt in _attempts(run, step, entries)
        if since is None or was_at_work_since(attempt.result, since)
    ]
    if as_json:
        _answer(run, attempts, streams, last_lines)
        return
    printer = Printer()
    for attempt in attempts:
        if "stdout" in streams:
            printer.print(_encoded(f"--- {_title(attempt)}{_because(attempt)}\n"))
            lines = None
            if request.transcript_of is not None:
                lines = turn_lines(run, attempt, request.transcript_of)
            if lines is not None:
                print_lines(printer, lines, last_lines)
            else:
                print_source(printer, from_result(attempt.result), last_lines=last_lines)
            printer.end_line()
            if attempt.result.truncated and lines is None:
                printer.print(_encoded(f"--- the rest is in {run.logs}\n"))
        if "prompt" in streams:
            printer.print(_encoded(f"--- prompt of {_title(attempt)}\n"))
            print_source(printer, source_of(run, attempt, "prompt"), last_lines=last_lines)
            printer.end_line()
        errors = source_of(run, attempt, "stderr") if "stderr" in streams else b""
        if errors != b"":
            printer.print(_encoded(f"--- stderr of {_title(attempt)}\n"))
            print_source(printer, errors, last_lines=last_lines)
            printer.end_line()


def _attempts(run: Run, step: str, entries: Sequence[StepLog]) -> list[StepLog]:
    """Those of the steps that were found, in whichever restart, entry into a loop, or call; where
    such a number was said, only those."""
    steps = {entry.address.dotted for entry in entries}
    found = [
        attempt
        for attempt in attempts_in(run)
        # What an edit took over is the result of an attempt that is listed already.
        if attempt.address.dotted in steps and not attempt.result.reused
    ]
    try:
        wanted = Address.typed(step)
    except ValueError:
        return found
    said = [attempt for attempt in found if wanted.covers(attempt.address)]
    return said or found


def _title(attempt: StepLog) -> str:
    at = attempt.address
    visit = f"visit {at.visit}, " if at.visit is not None and at.visit > 1 else ""
    what = f"attempt {at.attempt}" if attempt.is_started else "not started"
    edit = f"after edit {at.frame.edit}, " if at.frame.edit else ""
    return f"{attempt.path}, {edit}{visit}{what}: {_how(attempt)}"


def _how(attempt: StepLog) -> str:
    """Its status, or why it was not the last word."""
    return attempt.why or attempt.result.status


def _because(attempt: StepLog) -> str:
    """What went wrong, on one line."""
    message = attempt.result.message
    return f": {' '.join(message.split())}" if message else ""


def _answer(
    run: Run, attempts: list[StepLog], streams: Sequence[Stream], last_lines: int | None
) -> None:
    shown = []
    for attempt in attempts:
        result = attempt.result
        one: dict[str, Any] = {
            "step": attempt.path,
            "visit": attempt.address.visit,
            "attempt": attempt.address.attempt,
            "started": attempt.is_started,
            "how": _how(attempt),
            "exit_code": result.exit_code,
            "error": None if result.error is None else result.message,
            "truncated": result.truncated,
        }
        if "stdout" in streams:
            one["stdout"] = read_source(from_result(result), last_lines)
        if "prompt" in streams:
            one["prompt"] = read_source(source_of(run, attempt, "prompt"), last_lines)
        shown.append(one)
    answer_json({"run_id": run.id, "attempts": shown})


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
