"""Opens what records the workspace of a run, where there is a git program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.checkpoints.store import Store, open_store
from orchestrate.engine.checkpoints import Checkpoints

if TYPE_CHECKING:
    from orchestrate.engine.runtime import Runtime

_NO_GIT = (
    "orchestrate: no checkpoints of the workspace are taken: git is not installed; "
    "`rewind` and `diff` will not know the files\n"
)


def checkpoints_of(rt: Runtime, tell: Callable[[str], None]) -> Checkpoints | None:
    """Who records the workspace of a run; None where it does not really run, or nothing can."""
    if rt.rehearsal is not None:
        return None
    store = open_store(rt.run.root, rt.environment)
    if store is None:
        tell(_NO_GIT)
        return None
    return Checkpoints(rt, store, tell)


def store_of(rt: Runtime) -> Store | None:
    """The checkpoints that the run has; None where there is no git program."""
    return open_store(rt.run.root, rt.environment)
