"""Which executor runs the programs of a run, by the place that `StepStarted` names."""

from __future__ import annotations

from collections.abc import Callable

from orchestrate.engine.runtime import OpenExecutor
from orchestrate.errors import ConfigError
from orchestrate.execute.base import LOCAL, Executor
from orchestrate.execute.local import LocalExecutor
from orchestrate.state.store import Store
from orchestrate.workspace import Workspace


def executors_of(store: Store, workspace: Workspace) -> OpenExecutor:
    def open_executor(where: str, hurry_s: Callable[[], float | None]) -> Executor:
        if where == LOCAL:
            return LocalExecutor(store.run.root, workspace.root, hurry_s, store.state.run_id)
        raise ConfigError(
            f"run {store.run.id} has a program that was started at '{where}', "
            "and this version cannot reach it there",
            "resume the run with the version of orchestrate that started it",
        )

    return open_executor
