"""Which executor runs the programs of a run, by the place that `StepStarted` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.errors import ConfigError
from orchestrate.execute.base import LOCAL, Executor
from orchestrate.execute.local import LocalExecutor
from orchestrate.plan.nodes import Each, Run, block_of, main_plan

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.engine.runtime import OpenExecutor
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace


def executors_of(
    store: Store, workspace: Workspace, local: LocalExecutor | None = None
) -> OpenExecutor:
    """What opens them; `local` may have begun."""

    def open_executor(where: str, hurry_s: Callable[[], float | None]) -> Executor:
        if where == LOCAL:
            opened = local or local_executor(store, workspace)
            opened.hurry_s = hurry_s
            return opened
        raise ConfigError(
            f"run {store.run.id} has a program that was started at '{where}', "
            "and this version cannot reach it there",
            "resume the run with the version of orchestrate that started it",
        )

    return open_executor


def local_executor(store: Store, workspace: Workspace) -> LocalExecutor:
    return LocalExecutor(store.run.root, workspace.root, run_id=store.state.run_id)


def begins_with_program(program: Program, settings: RunSettings) -> bool:
    """Is a program the first thing that a new run starts? Then its keeper can start at once."""
    plan = main_plan(program)
    op = _first_op(plan, plan.blocks[0].id)
    if isinstance(op, Each):
        op = _first_op(plan, op.body)
    is_real = settings.backend != "rehearsal" or settings.rehearse_commands
    return isinstance(op, Run) and is_real


def _first_op(plan: Plan, block_id: str) -> object:
    block = block_of(plan, block_id)
    return next(node.op for node in block.nodes if node.id == block.entry)
