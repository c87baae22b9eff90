"""Whether a condition of a step, a stage or a loop holds: by values, or by files there are."""

from __future__ import annotations

from orchestrate.engine.evaluate import Scope, holds
from orchestrate.engine.patterns import match_pattern
from orchestrate.engine.rehearsing import choice_of
from orchestrate.engine.runtime import Runtime
from orchestrate.plan.expr import Cond, Exists, show


def is_met(rt: Runtime, condition: Cond, scope: Scope) -> bool:
    met = holds(condition, scope, lambda pattern: bool(match_pattern(rt.workspace, pattern)))
    rehearsal = rt.rehearsal
    if rehearsal is None or rehearsal.runs_commands or not isinstance(condition, Exists):
        return met
    # No step has made or removed a file: the condition is taken for what leads on.
    return choice_of(rehearsal.variant, show(condition), (True, False))
