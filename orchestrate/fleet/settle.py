"""On a machine of a pool: lets what is published catch up with a run that has come to rest.

Who looks at the run sees that it has ended a moment before its process has published that; and a
process that was killed in between never does.
"""

from __future__ import annotations

from orchestrate.errors import StateError
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.take import publish_rest
from orchestrate.state.runs import Run
from orchestrate.view.follower import looks
from orchestrate.view.run_summary import summary_of

# What the last publication of a large repository may take.
_PATIENCE_S = 600.0


def settle(seat: Seat) -> bool:
    """Publish what is not published yet; False if the run goes on, which publishes by itself."""
    run = Run(seat.run, seat.folder)
    is_owned = True
    for is_owned in looks(run, within_s=_PATIENCE_S):
        # As its file has it: that a process holds a run does not say whether it has ended.
        if is_owned and summary_of(run).field("status") == "running":
            return False
    if is_owned:
        raise StateError(f"run {seat.run} has ended and is still being published", "try again")
    publish_rest(seat)
    return True
