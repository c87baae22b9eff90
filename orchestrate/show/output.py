"""How commands speak: answers to stdout, everything else to stderr, and never a crash over it."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from orchestrate.errors import ConfigError
from orchestrate.show.inert import Inert, inert_json, is_wanted

# How long the reader of a pipe may take nothing of our notes before they are dropped.
PATIENCE_S = 5.0
# And of an answer, once the command has been asked to stop.
_LAST_PATIENCE_S = 1.0
_POLL_S = 0.25
STALLED = "the reader of our output has stopped reading, and the rest is not shown"
_ON_RECORD = "what a run has done is complete on record: orchestrate logs RUN"


class Diversion(Protocol):
    """Takes what is said while it has the terminal to itself; False leaves it to us."""

    def take(self, text: str) -> bool: ...

    def pause(self) -> None: ...

    def go_on(self, *, is_at_line_start: bool) -> None: ...


class _Speech:
    """What one command has said so far, and how it speaks."""

    def __init__(self) -> None:
        # For jobs whose log is read for commands.
        self.said = {"stdout": Inert(), "stderr": Inert()}
        # What draws on the terminal now (`show/live`).
        self.diversion: Diversion | None = None
        # `--raw` was given.
        self.is_raw = False
        # Why an answer was given up.
        self.given_up: ConfigError | None = None
        self.told_once: set[str] = set()
        # How many notes were dropped because stderr is a pipe that is not read.
        self.unread = 0
        # Of a command that works on a run: was it asked to stop?
        self.is_stopping: Callable[[], bool] | None = None


# A process may run one command after the other: each begins with a new one, in its first entry.
_speech = [_Speech()]


def divert(to: Diversion) -> None:
    """Let a live view write what goes to the terminal, until `end_diversion`."""
    _speech[0].diversion = to


def end_diversion() -> None:
    _speech[0].diversion = None


def diversion() -> Diversion | None:
    return _speech[0].diversion


class OutputClosed(Exception):
    """The reader of our answer has gone away, as `head` does; what is left has no reader."""


def prepare_streams() -> None:
    """A name that the terminal's encoding lacks is shown escaped instead of ending us."""
    _speech[0] = _Speech()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def ask_for_raw() -> None:
    """Let what programs printed go to a pipe as it is, until the command ends."""
    _speech[0].is_raw = True


def stop_answers_if(is_stopping: Callable[[], bool]) -> None:
    """From here on an answer that is not read does not keep the command from stopping."""
    _speech[0].is_stopping = is_stopping


def wants_raw() -> bool:
    return _speech[0].is_raw


def _harmless(text: str, stream: str, *, is_ours: bool = False) -> str:
    if not is_wanted():
        return text
    said = _speech[0].said[stream]
    return said.pass_on(text) if is_ours else said.make(text)


def answer(text: str, *, is_ours: bool = False) -> None:
    """Write to stdout; what is `is_ours` may command a CI job."""
    if sys.stdout is None:
        return
    drawing = diversion()
    if drawing is not None and _is_one_terminal() and drawing.take(text):
        return
    text = _harmless(text, "stdout", is_ours=is_ours)
    try:
        pipe = _pipe_that_may_stall()
        if pipe is not None:
            _answer_in_pipe(pipe, text.encode(sys.stdout.encoding, "backslashreplace"))
            return
        sys.stdout.write(text)
    except OSError as error:
        raise output_fault(error) from None


def encoded_answer(text: str) -> bytes:
    """What `answer` would write."""
    return _harmless(text, "stdout").encode(sys.stdout.encoding, "backslashreplace")


def answer_bytes(data: bytes) -> None:
    """Write to stdout just as it is, whatever the terminal's encoding."""
    if sys.stdout is None:
        return
    try:
        pipe = _pipe_that_may_stall()
        if pipe is not None:
            _answer_in_pipe(pipe, data)
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    except OSError as error:
        raise output_fault(error) from None


def answer_text(text: str) -> None:
    """Write to stdout in UTF-8, whatever the terminal's encoding."""
    answer_bytes(_harmless(text, "stdout").encode("utf-8", "backslashreplace"))


def answer_json(document: Any) -> None:
    """Write one JSON document; ASCII only, so that it is the same under every encoding."""
    import json

    answer(inert_json(json.dumps(document, indent=2)) + "\n")


def note(text: str) -> None:
    """Write to stderr; when that fails there is no better place to complain."""
    if sys.stderr is None:
        return
    drawing = diversion()
    if drawing is not None and drawing.take(text):
        return
    try:
        pipe = _pipe_of(sys.stderr)
        if pipe is not None:
            _note_in_pipe(pipe, _harmless(text, "stderr"))
            return
        sys.stderr.write(_harmless(text, "stderr"))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _pipe_of(stream: TextIO) -> int | None:
    """The descriptor of a stream whose reader may stall; None for files and terminals."""
    descriptor = stream.fileno()
    kind = os.fstat(descriptor).st_mode
    # What other programs call a pipe may be a socket, as Node.js makes them.
    return descriptor if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) else None


def _pipe_that_may_stall() -> int | None:
    """The pipe that stdout is, for a command that has to hear signals meanwhile."""
    if _speech[0].is_stopping is None:
        return None
    try:
        return _pipe_of(sys.stdout)
    except ValueError:  # no file of the system's, as in a test
        return None


def _answer_in_pipe(pipe: int, data: bytes) -> None:
    """Wait for the reader as any program does, but not when the command is to stop.

    A write that blocks would be taken up again after each signal, and no Ctrl-C would end it.
    """
    is_stopping = _speech[0].is_stopping
    assert is_stopping is not None
    sys.stdout.flush()
    room = select.poll()
    room.register(pipe, select.POLLOUT)
    for start in range(0, len(data), select.PIPE_BUF):
        given_up_at = None
        while not room.poll(_POLL_S * 1000):
            if is_stopping() and given_up_at is None:
                given_up_at = time.monotonic() + _LAST_PATIENCE_S
            if given_up_at is not None and time.monotonic() > given_up_at:
                give_up_output(ConfigError(STALLED, _ON_RECORD))
                return
        os.write(pipe, data[start : start + select.PIPE_BUF])


def _note_in_pipe(pipe: int, text: str) -> None:
    """Work does not stop for a reader that has: after some seconds it goes on without one."""
    speech = _speech[0]
    room = select.poll()
    room.register(pipe, select.POLLOUT)
    if speech.unread and room.poll(0):
        text = f"orchestrate: {speech.unread} messages are missing here: they were not read\n{text}"
        speech.unread = 0
    data = text.encode(sys.stderr.encoding, "backslashreplace")
    for start in range(0, len(data), select.PIPE_BUF):
        if not room.poll(0 if speech.unread else PATIENCE_S * 1000):
            speech.unread += 1
            return
        os.write(pipe, data[start : start + select.PIPE_BUF])


def note_once(text: str) -> None:
    """Write to stderr what one command need not repeat."""
    if text not in _speech[0].told_once:
        _speech[0].told_once.add(text)
        note(text)


def _is_one_terminal() -> bool:
    """Do both streams lead to the same terminal?"""
    try:
        out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
        return sys.stdout.isatty() and out.st_rdev == err.st_rdev
    except (OSError, ValueError):
        return False


def finish_output() -> None:
    """Make sure the answer has arrived before an exit code says so."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise output_fault(error) from None
    except ValueError:
        # Already closed: nothing is waiting to be written.
        pass


def abandon_output() -> None:
    """Drop what is still buffered, so that the interpreter does not complain at its end."""
    if sys.stdout is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def give_up_output(error: OutputClosed | ConfigError) -> None:
    """Go on without stdout: the work matters more. The command says at its end what was lost."""
    if isinstance(error, ConfigError):
        _speech[0].given_up = error
    abandon_output()


def output_given_up() -> ConfigError | None:
    """Why a part of the answer was not written; a reader that went away is not a reason."""
    return _speech[0].given_up


def terminal_columns() -> int:
    """How wide the terminal is that answers go to; 0 where they go elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 0
    import shutil  # few commands need it, and it loads a dozen modules

    return shutil.get_terminal_size().columns


def wants_colour(stream: TextIO | None) -> bool:
    """Only on a terminal that can, and not when NO_COLOR is set."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def output_fault(error: OSError) -> OutputClosed | ConfigError:
    """What a failed write of an answer means."""
    if isinstance(error, BrokenPipeError):
        return OutputClosed()
    return ConfigError(
        f"cannot write the answer: {error.strerror}",
        _ON_RECORD,
    )
