"""Does a run record its workspace? As it is set, and where there is a git program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.checkpoints.store import open_store
from orchestrate.engine.checkpoints import Checkpoints
from orchestrate.git_head import git_above

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.engine.runtime import Runtime

_NO_GIT = (
    "orchestrate: no checkpoints of the workspace are taken: there is no git program; "
    "`rewind` and `diff` will not know the files\n"
)


def checkpoints_of(
    rt: Runtime, settings: RunSettings, tell: Callable[[str], None]
) -> Checkpoints | None:
    """Who records the workspace of a run; None where that is not wanted, or cannot be."""
    wanted = settings.checkpoints or "auto"
    if rt.rehearsal is not None or wanted == "off":
        return None
    if wanted == "auto" and git_above(rt.workspace.root) is None:
        return None
    store = open_store(rt.run.root, rt.environment)
    if store is None:
        tell(_NO_GIT)
        return None
    return Checkpoints(rt, store)
