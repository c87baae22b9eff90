"""Functions that are loaded when they are called: a command loads what it needs (ADR 0006)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def later(body: str) -> Callable[..., int]:
    """A function that gives an exit code, as `package.module:name`; loaded when it is called.

    The help of a command and the completion of its words need no more than its options.
    """
    return answer_later(body)


def answer_later(body: str) -> Callable[..., Any]:
    """As `later`, for a function that gives anything else."""

    def call(*given: Any, **named: Any) -> Any:
        from importlib import import_module

        module, _, name = body.partition(":")
        return getattr(import_module(f"orchestrate.{module}"), name)(*given, **named)

    return call
