"""Follows what a step prints, over its retries, until it or the run ends.

Each attempt has files of its own, which may be deleted once their text is on record. So a file is
read through a descriptor that stays open until the journal says that its attempt has ended; the
output of an attempt that came and went between two looks is taken from its record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.show.output import note
from orchestrate.show.printing import Printer, print_lines, print_source, start_of_last
from orchestrate.show.transcript_text import PassageLines
from orchestrate.state.events import (
    AttemptEnded,
    StepFinished,
    StepStarted,
    attempt_of,
)
from orchestrate.state.result import StepResult
from orchestrate.view.follower import JournalTail, left_alone, looks, tail_from_now
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import NoSuchStep, StepLog, Stream, find_entry, from_result
from orchestrate.view.waiting import knows_step

if TYPE_CHECKING:
    from orchestrate.show.run_logs import LogRequest
    from orchestrate.state.runs import Run
    from orchestrate.transcript import Transcript, TranscriptOf

_BLOCK = 64 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class _Tail:
    """One stream of the attempt that is at work; of an agent's events, the transcript."""

    def __init__(self, backend: str, transcript_of: TranscriptOf | None) -> None:
        self._descriptor = -1
        self._make = None if transcript_of is None else partial(transcript_of, backend)
        self._transcript: Transcript | None = None
        self._lines = PassageLines()
        self._last_lines: int | None = None

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def open(self, path: str, last_lines: int | None = None) -> bool:
        """Open the file if there is one, to be read from its beginning or its last lines."""
        try:
            self._descriptor = os.open(path, _FLAGS)
        except OSError:
            return False
        self._transcript = None if self._make is None else self._make()
        self._lines, self._last_lines = PassageLines(), last_lines
        if last_lines is not None and self._transcript is None:
            with open(os.dup(self._descriptor), "rb") as file:
                start = start_of_last(file, file.seek(0, os.SEEK_END), last_lines)
            os.lseek(self._descriptor, start, os.SEEK_SET)
        return True

    def print_new(self, printer: Printer, *, is_over: bool = False) -> None:
        if self._transcript is None:
            while self._descriptor >= 0 and (data := os.read(self._descriptor, _BLOCK)):
                printer.print(data)
            return
        print_lines(printer, self._new_lines(self._transcript, is_over), self._last_lines)
        self._last_lines = None

    def _new_lines(self, transcript: Transcript, is_over: bool) -> Iterator[str]:
        while self._descriptor >= 0 and (data := os.read(self._descriptor, _BLOCK)):
            yield from self._lines.of(transcript.feed(data))
        if is_over:
            yield from self._lines.of(transcript.finish())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def follow_step(run: Run, step: str, request: LogRequest) -> None:
    """Print what the step writes, until it or the run ends; it need not have begun."""
    journal = tail_from_now(run)
    entry = _await_entry(run, step)
    follower = _Follower(run, entry, journal, request)
    try:
        follower.begin(request.last_lines)
        if not entry.is_over:
            follower.follow()
    finally:
        follower.close()


def _await_entry(run: Run, step: str) -> StepLog:
    """The step, once it has begun; an error if it cannot begin any more."""
    for is_live in looks(run):
        view = run_view(run)
        if not is_live or view.index is None or not knows_step(view.index, step):
            break
        with suppress(NoSuchStep):
            return find_entry(run, view.state, step)
    return find_entry(run, run_view(run).state, step)


class _Follower:
    def __init__(self, run: Run, entry: StepLog, journal: JournalTail, request: LogRequest) -> None:
        self._run = run
        self._entry = entry
        self._journal = journal
        self._printer = Printer()
        backend = entry.result.backend if entry.result.agent is not None else ""
        transcript_of = request.transcript_of if backend else None
        self._tails = {
            stream: _Tail(backend, transcript_of if stream == "stdout" else None)
            for stream in request.streams
        }
        # What the files of the newest attempt begin with.
        self._files = entry.files
        # Not while it rests before a retry: the files are those of an attempt that is over.
        self._is_at_work = entry.result.last_attempt is None

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._printer.flush()

    def begin(self, last_lines: int | None) -> None:
        """What is there already; of a step that is over, that is all."""
        for stream, tail in self._tails.items():
            if tail.open(self._file(stream), last_lines):
                tail.print_new(self._printer, is_over=self._entry.is_over)
            elif stream == "stdout" and (self._entry.is_over or not self._is_at_work):
                source = from_result(self._entry.result)
                print_source(self._printer, source, last_lines=last_lines)
            if self._entry.is_over:
                self._end_part()
        if not self._is_at_work:
            self._end_attempt(None)

    def follow(self) -> None:
        for is_live in looks(self._run):
            for tail in self._tails.values():
                tail.print_new(self._printer)
            for event in self._events():
                match event:
                    case StepStarted():
                        self._files = event.about.log or attempt_of(event).log_name()
                        self._is_at_work = True
                    case AttemptEnded():
                        self._end_attempt(event.result)
                    case StepFinished():
                        self._end_attempt(event.result)
                        return
            self._open_new()
            self._printer.flush()
            if not is_live and self._is_at_work:
                note(left_alone(self._run))

    def _events(self) -> list[StepStarted | AttemptEnded | StepFinished]:
        """What the journal has of this step since we last looked."""
        found = []
        # A journal that is damaged meanwhile says nothing more; the files still do.
        with suppress(OrchestrateError):
            for recorded in self._journal.news():
                event = recorded.event
                if (
                    isinstance(event, StepStarted | AttemptEnded | StepFinished)
                    and attempt_of(event).step == self._entry.address.step
                ):
                    found.append(event)
        return found

    def _end_attempt(self, result: StepResult | None) -> None:
        """The rest of its files; and of one whose file we never had, what is on record."""
        for stream, tail in self._tails.items():
            if not tail.is_open and result is not None:
                if stream == "stdout":
                    print_source(self._printer, from_result(result))
                    self._end_part()
                    continue
                tail.open(self._file(stream))
            tail.print_new(self._printer, is_over=True)
            tail.close()
            self._end_part()
        self._is_at_work = False

    def _end_part(self) -> None:
        """As `logs` without --follow: what comes next begins a line of its own."""
        self._printer.finish()
        self._printer.end_line()

    def _open_new(self) -> None:
        """Open the files of the attempt at work, as soon as it has printed something."""
        if not self._is_at_work:
            return
        for stream, tail in self._tails.items():
            if not tail.is_open and tail.open(self._file(stream)):
                tail.print_new(self._printer)

    def _file(self, stream: Stream) -> str:
        return os.path.join(self._run.logs, f"{self._files}.{stream}")
