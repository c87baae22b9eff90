"""Opens a run for its one writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.files.checkpoints_of_run import settle_files
from orchestrate.app.reading.open_run import refuse_linked
from orchestrate.errors import StateError
from orchestrate.plan.visible import visible
from orchestrate.state.store import Store, load
from orchestrate.state.store import repair as repair_run

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run


def open_stored(
    run: Run, lock: Lock, index: Index, note: Callable[[str], None], *, repair: bool = False
) -> Store:
    """The run with its state, checked, and repaired if that was asked for."""
    if repair:
        try:
            state = load(run, index)
        except StateError:
            state, what = repair_run(run, index)
            note(f"orchestrate: {visible(what)}\n")
    else:
        state = load(run, index, lambda text: note(f"orchestrate: {visible(text)}\n"))
    refuse_linked(run, state.place)
    settle_files(run, state)
    return Store(run, lock, index, state)
