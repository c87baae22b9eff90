"""Loads what keeps checkpoints of a workspace for the runs that have some: others pay nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.checkpoints.model import CHECKPOINTS

if TYPE_CHECKING:
    from orchestrate.checkpoints.store import Store
    from orchestrate.engine.runtime import Runtime
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run


def keep_checkpoints(rt: Runtime, tell: Callable[[str], None]) -> None:
    """Record the workspace while the run works in it."""
    from orchestrate.app.files.checkpoints import keeper_of

    rt.checkpoints = keeper_of(rt, tell)


def checkpoints_of(rt: Runtime) -> Store | None:
    """What the run has recorded so far; None where there is no git program."""
    from orchestrate.app.files.checkpoints import store_of

    return store_of(rt)


def settle_files(run: Run, state: RunState) -> None:
    """Put back what a killed `rewind` left half-done, before anything else happens to the run."""
    if (run.root / CHECKPOINTS).is_dir():
        from orchestrate.app.files.checkpoints import put_back

        put_back(run, state)
