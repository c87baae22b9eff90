"""Asks at the terminal for the inputs that a run was not given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.app.given.inputs import Ask
from orchestrate.cli.terminal import has_terminal
from orchestrate.plan.inputs import Unfit
from orchestrate.plan.settings import Input
from orchestrate.plan.visible import visible
from orchestrate.show.output import note


def asking() -> Ask | None:
    """What asks a person; None without a terminal."""
    return _ask if has_terminal() else None


def _ask(one: Input, read: Callable[[str], Any]) -> Any:
    about = f" ({visible(one.description)})" if one.description else ""
    while True:
        question = f"{visible(one.name)}{about}: "
        try:
            if one.secret:
                import getpass

                typed = getpass.getpass(question)
            else:
                note(question)
                typed = input()
        except EOFError:
            note("\n")
            return None
        if not typed and (one.secret or one.type != "string"):
            continue
        try:
            return read(typed)
        except Unfit as unfit:
            note(f"  {visible(typed) if not one.secret else 'this'} {unfit}\n")
