"""Opens a run for its one writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.open_run import refuse_linked
from orchestrate.errors import StateError
from orchestrate.plan.visible import visible
from orchestrate.state.store import Store, load
from orchestrate.state.store import repair as repair_run

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run
from typing import TYPE_CHECKING

from orchestrate.checkpoints.restore import put_back_interrupted
from orchestrate.checkpoints.store import open_store

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
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


def settle_files(run: Run, state: RunState) -> None:
    """Put back what a killed `rewind` left half-done, before anything else happens to the run."""
    files = open_store(run.root)
    if files is not None and files.exists:
        put_back_interrupted(files, state.checkpoint.get("token", ""))
