"""The person at the terminal: asked about failures and gates, and only when one is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.working.reporter import CONVERSATION, Answer, Operator, Stop, has_terminal
from orchestrate.plan.visible import visible
from orchestrate.show.output import diversion, note

__all__ = ["AtTerminal", "agrees", "has_terminal", "read_line"]


# Of a failed step's errors; as many as `run` tells.
_LAST_LINES = 3
_LONGEST_WORD = 40
# How soon a decision that was made elsewhere ends a question; a look is one failed `open`.
_LOOK_EVERY_S = 0.2


class AtTerminal(Operator):
    """Asks on stderr, reads from stdin."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def choose_after_failure(self, step: str, message: str, last_lines: Sequence[str]) -> Answer:
        with CONVERSATION:
            return self._choose(step, message, last_lines)

    def decide_gate(
        self,
        gate: str,
        prompt: str,
        seconds_left: float | None,
        is_decided: Callable[[], object],
    ) -> tuple[Literal["approved", "denied"], str] | None:
        with CONVERSATION:
            return self._decide(gate, prompt, seconds_left, is_decided)

    def tell_decided(self, gate: str, decision: str, by: str) -> None:
        note(f"\n{visible(gate).capitalize()} was {decision} elsewhere, by {visible(by)}\n")

    def _choose(self, step: str, message: str, last_lines: Sequence[str]) -> Answer:
        note(f"Step '{visible(step)}' failed: {visible(message)}\n")
        for line in last_lines[-_LAST_LINES:]:
            note(f"    | {visible(line)}\n")
        answers: tuple[Answer, ...] = ("retry", "continue", "stop")
        while True:
            note("  [r]etry, [c]ontinue or [s]top? ")
            typed = read_line(self._stop)
            if typed is None:
                return "stop"
            word = typed.strip().lower()
            for answer in answers:
                if word and answer.startswith(word):
                    return answer
            note(f"  {_not_understood(word)}type r to try the step again, c to go on without it, ")
            note("or s to stop the run\n")

    def _decide(
        self,
        gate: str,
        prompt: str,
        seconds_left: float | None,
        is_decided: Callable[[], object],
    ) -> tuple[Literal["approved", "denied"], str] | None:
        note(f"\nApproval of {visible(gate)}\n\n")
        for line in prompt.splitlines():
            note(f"  {visible(line)}\n")
        give_up = None if seconds_left is None else time.monotonic() + seconds_left
        while True:
            note("\n[a]pprove, [d]eny, or [l]ater? A message may follow the letter: ")
            left = None if give_up is None else give_up - time.monotonic()
            line_read = read_line(self._stop, left, is_decided)
            if line_read is None:
                note("\n")
                return None
            if is_decided():
                return None
            word, _, message = line_read.strip().partition(" ")
            match _meant(word.lower(), is_alone=not message):
                case "approve":
                    return "approved", message.strip()
                case "deny":
                    return "denied", message.strip()
                case "later":
                    return None
                case _:
                    note(f"{_not_understood(word)}type a to approve, d to deny, or l to decide ")
                    note("later; `a looks good` approves with a message\n")


def _meant(word: str, *, is_alone: bool) -> str:
    """The choice at a gate that a word stands for; '' if it could be anything.

    `abort` must not approve, so that the first letter is not enough. Yes and no are answers when
    nothing follows them: `no idea` is none.
    """
    for choice in ("approve", "deny", "later"):
        if word and choice.startswith(word):
            return choice
    return {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}.get(
        word if is_alone else "", ""
    )


def _not_understood(word: str) -> str:
    return f"'{visible(word[:_LONGEST_WORD])}' is not an answer here: " if word else "please "


def agrees(question: str) -> bool:
    """Is the answer to a question yes? Ctrl-C ends the command, the end of input is a no.

    Also where signals only request a stop: nothing is at work yet that would notice one.
    """
    with stoppable() as stop:
        note(question)  # heard from before it is seen
        typed = read_line(stop)
    if stop.is_requested:
        raise KeyboardInterrupt
    if typed is None:
        note("\n")
    return (typed or "").strip().lower() in ("y", "yes")


def read_line(
    stop: Stop, seconds: float | None = None, is_over: Callable[[], object] | None = None
) -> str | None:
    """A line from the terminal; None at the end of input, when the time is up, or on Ctrl-C.

    Also when `is_over` says that no answer is needed any more; what was half typed is dropped.
    """
    drawing = diversion()
    if drawing is not None:
        drawing.pause()
    line = None
    try:
        if _wait_for_line(stop, seconds, is_over):
            line = sys.stdin.readline() or None
    finally:
        if drawing is not None:
            drawing.go_on(is_at_line_start=line is not None and line.endswith("\n"))
    return line


def _wait_for_line(stop: Stop, seconds: float | None, is_over: Callable[[], object] | None) -> bool:
    """Wait until a line was typed; a decision elsewhere is not announced, but looked for."""
    stdin = sys.stdin.fileno()
    if is_over is None:
        return stop.wait_for(stdin, seconds)
    give_up = None if seconds is None else time.monotonic() + seconds
    while not stop.is_requested:
        if is_over():
            import termios

            with suppress(termios.error):
                termios.tcflush(stdin, termios.TCIFLUSH)
            return False
        left = _LOOK_EVERY_S if give_up is None else give_up - time.monotonic()
        if stop.wait_for(stdin, min(left, _LOOK_EVERY_S)):
            return True
        if left <= 0:
            return False
    return False
