"""What there is to tell people when a process has let go of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orchestrate.exits import PARKED, STOPPED

if TYPE_CHECKING:
    from orchestrate.view.run_view import RunView

News = Literal["paused", "failed", "finished"]
NEWS: tuple[News, ...] = ("paused", "failed", "finished")


def news_of(view: RunView) -> tuple[News | None, str]:
    """What there is to tell, and a name for this ending; None for one that a person asked for.

    A run that parks again at the same gate has not ended anew; one that fails again has.
    """
    match view.status:
        case "completed":
            return "finished", "finished"
        case "failed":
            return "failed", f"failed-{view.state.seq}"
        case "paused":
            gates = enumerate(view.state.approvals)
            pending = [str(place) for place, gate in gates if gate.status == "pending"]
            ending = view.ending
            if pending and (ending is None or ending.code == PARKED):
                return "paused", f"paused-gate-{'.'.join(pending)[:100]}"
            is_stopped = ending is not None and ending.kind in STOPPED
            return (None, "") if is_stopped else ("paused", f"paused-{view.state.seq}")
        case _:
            return None, ""
