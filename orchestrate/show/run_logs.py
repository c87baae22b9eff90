"""Prints the log of a run, and what its steps have printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.facts import decision_words
from orchestrate.show.log_line import shown_line
from orchestrate.show.output import answer_json, note, wants_raw
from orchestrate.show.printing import (
    Printer,
    open_source,
    print_lines,
    print_source,
    read_source,
    start_of_last,
)
from orchestrate.show.transcript_text import turn_lines
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Run
from orchestrate.state.times import timestamp
from orchestrate.view.follower import looks
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import (
    StepLog,
    find_entries,
    source_of,
    was_at_work_since,
    with_rounds,
)
from orchestrate.view.transcripts import as_json, read_turn

if TYPE_CHECKING:
    from orchestrate.transcript import TranscriptOf
    from orchestrate.view.step_logs import Stream


@record
class LogRequest:
    """What is to be shown, and how."""

    streams: tuple[Stream, ...]
    last_lines: int | None
    follows: bool
    shows_all: bool
    since: float | None
    transcript_of: TranscriptOf | None = None

    @property
    def is_raw(self) -> bool:
        """Is it what an agent's program printed? One who names a stream wants the answer."""
        return wants_raw() and self.streams == ("stdout", "stderr")


def show_log(run: Run, request: LogRequest, as_json: bool) -> None:
    path = run.logs / "orchestrator.log"
    if as_json:
        start = 0 if request.since is None else _first_since(path, request.since)
        answer_json({"run_id": run.id, "log": read_source(path, request.last_lines, start)})
        return
    printer = Printer()
    is_live = request.follows and is_held(run.lock_file)
    start = 0 if request.since is None else _first_since(path, request.since)
    print_log = _print_log_lines if printer.is_for_people and not wants_raw() else print_source
    offset = print_log(printer, path, start, request.last_lines)
    for _ in looks(run) if is_live else ():
        offset = print_log(printer, path, offset)
        printer.flush()


def _print_log_lines(
    printer: Printer, path: Path, start: int = 0, last_lines: int | None = None
) -> int:
    """As `print_source`, in the words that people read; half a line waits for its other half."""
    with open_source(path) as opened:
        if last_lines is not None:
            size = opened.seek(0, os.SEEK_END)
            start = max(start, start_of_last(opened, size, last_lines))
        opened.seek(start)
        for line in opened:
            if line.endswith(b"\n"):
                start += len(line)
                shown = shown_line(line.decode("utf-8", "replace"))
                printer.print(shown.encode("utf-8"))
    return start


def _first_since(path: Path, since: float) -> int:
    """Where the first line begins that was logged since then; lines begin with their time."""
    wanted = timestamp(since).encode()
    offset = 0
    with open_source(path) as file:
        for line in file:
            if line[: len(wanted)] >= wanted:
                break
            offset += len(line)
    return offset


def show_steps(run: Run, entries: list[StepLog], request: LogRequest) -> None:
    printer = Printer()
    for entry in entries:
        if request.since is not None and not was_at_work_since(entry.result, request.since):
            if len(entries) == 1:
                note(f"orchestrate: {visible(entry.path)} has ended before that\n")
            continue
        printed = 0
        found = [(stream, _source(run, entry, stream, request)) for stream in request.streams]
        found = [(stream, source) for stream, source in found if source != b""]
        # Who asks for several must know which is which; a program takes a step's two as they are.
        has_titles = len(entries) > 1 or (printer.is_for_people and len(found) > 1)
        for stream, source in found:
            if has_titles:
                what = stream if isinstance(source, Path | bytes) else "transcript"
                title = f"--- {what} of {entry.path}\n"
                printer.print(title.encode("utf-8", "surrogateescape"))
            if isinstance(source, Path | bytes):
                printed += print_source(printer, source, last_lines=request.last_lines)
            else:
                printed += print_lines(printer, source, request.last_lines)
            printer.end_line()
        if not printed:
            _tell_silence(entry, request)


def _source(
    run: Run, entry: StepLog, stream: Stream, request: LogRequest
) -> Path | bytes | Iterator[str]:
    if stream == "stdout" and request.transcript_of is not None:
        lines = turn_lines(run, entry, request.transcript_of)
        if lines is not None:
            return lines
    return source_of(run, entry, stream, is_raw=request.is_raw)


def _tell_silence(entry: StepLog, request: LogRequest) -> None:
    """A step that printed nothing may have an error that says why."""
    what = "has printed nothing yet" if entry.is_running else "printed nothing"
    if request.streams == ("prompt",):
        what = "sent no prompt"
    elif entry.gate is not None:
        what = f"was {decision_words(entry.gate.to_json())}"
    reason = entry.result.message or entry.result.reason
    status = f" ({entry.result.status}: {visible(reason)})" if reason else ""
    note(f"orchestrate: {visible(entry.path)} {what}{status}\n")


def step_json(run: Run, entry: StepLog, request: LogRequest) -> dict[str, Any]:
    document: dict[str, Any] = {
        "run_id": run.id,
        "step": entry.path,
        "status": entry.result.status,
        "exit_code": entry.result.exit_code,
        "error": None if entry.result.error is None else entry.result.message,
    }
    if entry.gate is not None:
        document["decision"] = entry.gate.to_json()
    for stream in request.streams:
        source = source_of(run, entry, stream, is_raw=request.is_raw)
        document[stream] = read_source(source, request.last_lines)
    if request.transcript_of is not None and entry.result.agent is not None:
        turn = read_turn(run, entry, request.transcript_of)
        document["transcript"] = [as_json(passage) for passage in turn.passages]
    return document


def answers_of(run: Run, step: str, request: LogRequest) -> list[StepLog]:
    """What a step came to is what its last round answered; the transcript has all rounds."""
    entries = entries_named(run, step)
    if len(entries) != 1 or request.streams in (("prompt",), ("stderr",)):
        return entries
    rounds = with_rounds(run_view(run).state, entries[0])
    return rounds[-1:] if request.streams == ("stdout",) else rounds


def entries_named(run: Run, step: str) -> list[StepLog]:
    view = run_view(run)
    if view.note:
        note(f"orchestrate: {visible(view.note)}\n")
    return find_entries(run, view.state, step)


def only_entry(entries: list[StepLog], step: str) -> StepLog:
    if len(entries) != 1:
        raise UsageError(
            f"'{step}' matches {len(entries)} steps", "with --json name one, or add --all"
        )
    return entries[0]
