"""Why attempts were lost or ended, where code asks for the reason.

Used by the keeper's half of the package too: standard library only.
"""

from __future__ import annotations

# A copy of a run's folder knows nothing of the original's open attempts.
COPIED = "this run is a copy, and its programs are the original's"
# A run of a fleet that goes on on another machine knows nothing of the first one's.
MOVED = "the run has moved, and its programs are on the machine where it was"
# The keeper got a signal to end, and ended its programs first.
KEEPER_TERMINATED = "the keeper was terminated"
# Nobody waits for what an item makes when the loop has failed, or the run.
ANOTHER_FAILED = "another item failed"
# A call of an agent that the engine has ended itself.
OVER_BUDGET = "it has used more than it may"


def lost_with(machine: str) -> str:
    return f"it was lost with {machine}, which no longer responds"
