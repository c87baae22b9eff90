"""Ctrl-C while a command loads and prepares: an exception that must not get lost.

Python drops an exception that falls into a finaliser or into a callback of its import system, and
says no more than `Exception ignored`. So it is remembered, and who begins something asks.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# What `orchestrate stop` sends: heard as Ctrl-C, also where the starter made SIGINT ignored, as a
# shell does for what runs in its background.
ASKED_TO_STOP = signal.SIGUSR2
_is_heard = False


def raise_on_ctrl_c() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, unless our starter has it ignored; and so does
    `stop`, which reaches us as soon as we hold a run's lock."""
    signal.signal(ASKED_TO_STOP, hear)
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, hear)
    sys.unraisablehook = _tell_all_but_that


def raise_dropped() -> None:
    """Raise what was dropped, before anything begins that a person wanted to prevent."""
    if _is_heard:
        raise KeyboardInterrupt


def _tell_all_but_that(fault: UnraisableHookArgs) -> None:
    """What is dropped counts later: no traceback for it on a person's screen."""
    if fault.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(fault)


def hear(_: int, __: FrameType | None) -> None:
    """The handler that raises."""
    global _is_heard  # noqa: PLW0603 - a process has one Ctrl-C
    _is_heard = True
    raise KeyboardInterrupt
