"""Programs are run by the keeper: started once, adopted after a crash, ended when we must stop."""

from __future__ import annotations

from collections.abc import Callable

from orchestrate.engine.runtime import Runtime
from orchestrate.process.facts import Ended, Exit, Lost, Request, Running
from orchestrate.state.store import LAG_S

MakeRequest = Callable[[], Request]
# Looks at a program that is still running; says how soon it wants to look again.
Watch = Callable[[], float | None]


def run_program(
    rt: Runtime, attempt: str, make: MakeRequest, watch: Watch | None = None
) -> Exit | Lost:
    """How the program ended. `make` is called only if it was never started."""
    keeper = rt.keeper()
    if attempt in rt.may_be_known:
        rt.may_be_known.discard(attempt)
        found = keeper.adopt(attempt)
        if isinstance(found, Ended):
            return found.exit
        if isinstance(found, Lost):
            return found
        if isinstance(found, Running):
            return _await_end(rt, attempt, watch)
    # A step that takes longer than the state may lag is waited for with more care.
    ended = keeper.run(make(), LAG_S)
    if isinstance(ended, Ended):
        return ended.exit
    return ended or _await_end(rt, attempt, watch)


def was_started(rt: Runtime, attempt: str) -> bool:
    """Was this very attempt started before we came? Then nothing is checked or made ready again."""
    if attempt not in rt.may_be_known:
        return False
    if isinstance(rt.keeper().adopt(attempt), Ended | Lost | Running):
        return True
    rt.may_be_known.discard(attempt)
    return False


def _await_end(rt: Runtime, attempt: str, watch: Watch | None) -> Exit | Lost:
    keeper = rt.keeper()
    stopped_with: float | None = None
    while True:
        if rt.stop.is_requested and stopped_with != rt.stop.grace_s:
            stopped_with = rt.stop.grace_s
            keeper.stop(attempt, rt.stop.reason, stopped_with)
        rt.store.checkpoint()
        patience = watch() if watch is not None else None
        ended = keeper.wait(attempt, patience)
        if isinstance(ended, Ended):
            return ended.exit
        if ended is not None:
            return ended
