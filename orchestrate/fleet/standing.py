"""How a run on a server stands; nothing here needs the extra."""

from __future__ import annotations

from orchestrate.record import record


@record
class Standing:
    """How a run stands by the server's word; `told` is why it stands so, where a machine knows."""

    status: str
    pool: str
    machine: str
    code: int
    told: str
    # How many sittings it has had; it grows when a parked run goes on.
    sitting: int
    # Can it still go on? A run that is over cannot.
    is_open: bool
    # Why no machine has it although its pool has workers; '' if nothing is known to be wrong.
    hindrance: str = ""
    # What its last sitting was told of gates: frame, node, visit, decision, and by whom.
    decided: tuple[tuple[str, str, int, str, str], ...] = ()

    @property
    def is_at_work(self) -> bool:
        return self.status == "running" and self.is_open
