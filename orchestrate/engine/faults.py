"""What is wrong with a step before or after its program ran; never leaves `perform`."""

from __future__ import annotations

from typing import Any

from orchestrate.exits import STEP_UNUSABLE


class StepFault(Exception):
    """A step cannot go on. `context` is what its `error.context` in the state says (C)."""

    def __init__(
        self, message: str, context: dict[str, Any] | None = None, *, exit_code: int = STEP_UNUSABLE
    ) -> None:
        super().__init__(message)
        self.message = message
        self.context = context or {}
        self.exit_code = exit_code


class Halted(Exception):
    """We are to stop amid our own work on what a program left: `resume` does it anew."""


class NoRoom(Exception):
    """No budget has room for the step's call as long as others are under way: it waits for them."""
