"""Makes the folder of a new run, with its first state, its plan and its first event."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.app.definitions.checksums import checksums
from orchestrate.app.definitions.reachable import secrets_to_run
from orchestrate.app.given.scopes import starting_values
from orchestrate.app.resuming.frozen_run import frozen_bytes
from orchestrate.app.resuming.late_plans import LatePlans
from orchestrate.app.secrets import mask_settings
from orchestrate.compile import require_program
from orchestrate.execute.place import place_of
from orchestrate.git_head import head_of
from orchestrate.plan.nodes import main_plan
from orchestrate.record import replace
from orchestrate.state.clock import drop_anchor, now_by
from orchestrate.state.durable import dump_json
from orchestrate.state.events import RunStarted
from orchestrate.state.model import Index
from orchestrate.state.plan_file import DOCUMENTS, FILE
from orchestrate.state.runs import create_run
from orchestrate.state.store import begin, first_files
from orchestrate.view.source_files import combined_checksum, stable_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.compile import Compilation
    from orchestrate.engine.secrets import Secrets
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.lineage import Lineage
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.state.worktree import Worktree
    from orchestrate.workspace import Workspace

# State files of workflows before 1.2 keep their old version (rulings §6).
_OLD_STATE = ("1.1", "1.1.1")


def schema_version_of(plan: Plan) -> str:
    return "1.1.1" if plan.dialect == "workflow" and plan.version in _OLD_STATE else "1.3"


def start_run(  # noqa: PLR0913 - it is the sum of what a run begins with
    runs: Runs,
    program: Program,
    compilation: Compilation,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
    *,
    chat_session: str | None = None,
    worktree: Callable[[str], Worktree] | None = None,
    lineage: Lineage | None = None,
    furnish: Callable[[Path], None] = lambda _: None,
) -> Store:
    """A new run's folder, locked by us, with its first state and event.

    `chat_session`: it is a turn of a chat, which never is `latest`; unless '' it begins that one.
    `worktree`: where it will work, by its id. `lineage`: what it is a fork of. `furnish` brings
    into its folder what it takes over of another run.
    """
    index = Index(program)
    plan = main_plan(program)
    sources = checksums(compilation, workspace)
    secrets = secrets_to_run(program, workspace)
    kept = mask_settings(settings.kept(), secrets, reporter)
    context = starting_values(plan)
    masked = masked_context(context, secrets, reporter)
    started: list[RunStarted] = []

    def contents(run_id: str) -> dict[str, bytes]:
        clock = drop_anchor()
        event = RunStarted(
            at=now_by(clock),
            run_id=run_id,
            workspace=str(workspace.root),
            definition=stable_path(compilation.path, workspace),
            plan=plan.id,
            dialect=plan.dialect,
            schema_version=schema_version_of(plan),
            checksum=combined_checksum(sources),
            sources=sources,
            context=masked,
            settings=kept,
            version=__version__,
            session=settings.session or chat_session or None,
            has_session=settings.session is not None,
            head=head_of(workspace.root),
            clock=clock,
            worktree=None if worktree is None else worktree(run_id).to_json(),
            forked=None if lineage is None else lineage.to_json(),
        )
        started[:] = [event]
        frozen = dump_json(secrets.data(compilation.documents), indent=2)
        compiled = frozen_bytes(require_program(compilation), program, workspace, secrets.data)
        return {**first_files(index, event), DOCUMENTS: frozen, FILE: compiled}

    is_latest = chat_session is None and not (settings.run_step or {}).get("scratch")
    wanted_id = (settings.seat or {}).get("run", "")
    run, lock = create_run(
        runs, sys.argv, contents, is_latest=is_latest, wanted_id=wanted_id, furnish=furnish
    )
    index.find_with(LatePlans(workspace, settings, run.root, secrets.data).find)
    event = replace(started[0], place=place_of(str(run.root)))
    return begin(run, lock, index, event)


def masked_context(context: dict[str, Any], secrets: Secrets, reporter: Reporter) -> dict[str, Any]:
    """The values that a run begins with, as they are written down."""
    masked = {key: secrets.data(value) for key, value in context.items()}
    for key, value in context.items():
        if masked[key] != value:
            reporter.note(
                f"orchestrate: context '{key}' holds a secret and is masked; use `secrets:`\n"
            )
    return masked
