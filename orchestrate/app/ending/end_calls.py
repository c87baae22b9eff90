"""What a run that is over for good has left set aside in the user's ledger.

A process that ends by itself gives back what it has set aside. One that was killed does not, and
its run may be cancelled, denied or removed before it is resumed: then the call that was never
made is free, and one that was made counts as one that did not say what it has cost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.record import replace
from orchestrate.state.ledger import ledger_of
from orchestrate.state.model import attempt_address, frames_below
from orchestrate.state.pending_call import Reserved
from orchestrate.state.result import StepResult
from orchestrate.state.spending import counted_besides

if TYPE_CHECKING:
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run

_DAY_S = 86_400.0
# By call, what was set aside for it.
Made = dict[str, Reserved]


def made_calls(run: Run, index: Index, state: RunState) -> Made:
    """The calls of a run that were begun and not settled; asked before its end is recorded."""
    made = {}
    for frame in frames_below(state.root):
        here = frame.here
        if here is not None and here.phase == "running" and here.reserved:
            name = index.here(frame).node.name
            at = attempt_address(frame, here, name, here.attempt)
            made[f"{run.id}/{at.attempt_id}"] = here.reserved
    return made


def settle_calls(run: Run, made: Made | None, since: float = 0.0) -> None:
    """Settle what a run has left; `made` None: which calls it has made is unknown, so all count.

    A ledger that cannot be written keeps no run from being ended; `cancel` again tries it again.
    """
    with suppress(OrchestrateError):
        ledger = ledger_of(os.environ)
        # A clock may have been set back since the run began.
        left = [e for e in ledger.since(since - _DAY_S) if e.run == run.id and not e.is_settled]
        for entry in left:
            if entry.root != str(run.root) and os.path.exists(entry.root):
                continue  # the run that this one is a copy of
            if made is None or entry.call in made:
                set_aside = Reserved(
                    unknown=entry.reserved_usd, unknown_tokens=entry.reserved_tokens
                )
                told = set_aside if made is None else made[entry.call]
                usd, tokens = counted_besides(StepResult(), told)
                ledger.write(
                    replace(entry, is_settled=True, counted_usd=usd, counted_tokens=tokens)
                )
            else:
                ledger.write(replace(entry, is_void=True))
