"""Opens what records the workspace of a run, where there is a git program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.checkpoints.restore import put_back_interrupted
from orchestrate.checkpoints.store import Store, open_store
from orchestrate.engine.checkpoints import Checkpoints

if TYPE_CHECKING:
    from orchestrate.engine.runtime import Runtime
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run

_NO_GIT = (
    "orchestrate: no checkpoints of the workspace are taken: git is not installed; "
    "`rewind` and `diff` will not know the files\n"
)


def keeper_of(rt: Runtime, tell: Callable[[str], None]) -> Checkpoints | None:
    """Who records the workspace of a run; None where it does not really run, or nothing can."""
    if rt.rehearsal is not None:
        return None
    store = open_store(rt.run.root, rt.environment)
    if store is None:
        tell(_NO_GIT)
        return None
    return Checkpoints(rt, store, tell)


def put_back(run: Run, state: RunState) -> None:
    """Undo a `rewind` that was killed before it was on record."""
    files = open_store(run.root)
    if files is not None and files.exists:
        put_back_interrupted(files, state.checkpoint.get("token", ""))


def store_of(rt: Runtime) -> Store | None:
    """The checkpoints that the run has; None where there is no git program."""
    return open_store(rt.run.root, rt.environment)
