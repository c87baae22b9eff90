"""The person at the terminal: asked about failures and gates, and only when one is there."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Literal

from orchestrate.agents.human import CONVERSATION
from orchestrate.cli.output import diversion, note
from orchestrate.engine.runtime import Answer, People
from orchestrate.engine.stop import Stop
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.cli.running import Watching


class AtTerminal(People):
    """Asks on stderr, reads from stdin."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def choose_after_failure(self, step: str, message: str) -> Answer:
        with CONVERSATION:
            return self._choose(step, message)

    def decide_gate(
        self, stage: str, prompt: str, seconds_left: float | None
    ) -> tuple[Literal["approved", "denied"], str] | None:
        with CONVERSATION:
            return self._decide(stage, prompt, seconds_left)

    def _choose(self, step: str, message: str) -> Answer:
        note(f"Step '{visible(step)}' failed: {visible(message)}\n")
        words: dict[str, Answer] = {"r": "retry", "c": "continue", "s": "stop"}
        while True:
            note("  [r]etry, [c]ontinue or [s]top? ")
            line = read_line(self._stop)
            if line is None:
                return "stop"
            chosen = words.get(line.strip().lower()[:1])
            if chosen is not None:
                return chosen

    def _decide(
        self, stage: str, prompt: str, seconds_left: float | None
    ) -> tuple[Literal["approved", "denied"], str] | None:
        note(f"\nApproval of stage '{visible(stage)}'\n\n")
        for line in prompt.splitlines():
            note(f"  {visible(line)}\n")
        give_up = None if seconds_left is None else time.monotonic() + seconds_left
        while True:
            note("\n[a]pprove, [d]eny, or [l]ater? A message may follow the letter: ")
            left = None if give_up is None else give_up - time.monotonic()
            line_read = read_line(self._stop, left)
            if line_read is None:
                note("\n")
                return None
            word, _, message = line_read.strip().partition(" ")
            match word.lower()[:1]:
                case "a":
                    return "approved", message.strip()
                case "d":
                    return "denied", message.strip()
                case "l":
                    return None
                case _:
                    continue


def read_line(stop: Stop, seconds: float | None = None) -> str | None:
    """A line from the terminal; None at the end of input, when the time is up, or on Ctrl-C."""
    drawing = diversion()
    if drawing is not None:
        drawing.pause()
    line = None
    try:
        if stop.wait_for(sys.stdin.fileno(), seconds):
            line = sys.stdin.readline() or None
    finally:
        if drawing is not None:
            drawing.go_on(is_at_line_start=line is not None and line.endswith("\n"))
    return line


def has_terminal() -> bool:
    """Can a person be asked here?"""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def people_at_terminal(watching: Watching, stop: Stop) -> People:
    """Nobody is asked without a terminal on both sides, nor by a command that answers in JSON."""
    return AtTerminal(stop) if has_terminal() and not watching.as_json else People()
