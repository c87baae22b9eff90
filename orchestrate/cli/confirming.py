"""`run --confirm-above`: asks at the terminal before a run that may cost more than that."""

from __future__ import annotations

from orchestrate.app.starting.estimate import confirm_cost
from orchestrate.app.starting.prepare import Prepared
from orchestrate.cli.terminal import agrees, has_terminal
from orchestrate.exits import DONE
from orchestrate.plan.visible import visible
from orchestrate.show.output import note


def confirm_at_terminal(prepared: Prepared) -> int:
    """Return if the run may start."""
    confirm_cost(prepared, _ask if has_terminal() else None)
    return DONE


def _ask(what: str) -> bool:
    note(f"{visible(what)}\n")
    return agrees("start it? [y/N] ")
