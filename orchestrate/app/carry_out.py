"""Carries runs out: makes a run's folder, and lets the engine work on it."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.app.agents import agent_of, backend_of, definition_of, keep_turn
from orchestrate.app.agents_asked import asked_lines, who_is_asked
from orchestrate.app.checksums import checksums
from orchestrate.app.concurrent_runs import INSIDE, inside_of
from orchestrate.app.executors import executors_of
from orchestrate.app.frozen_run import DOCUMENTS, frozen_agents, frozen_bytes, frozen_schemas
from orchestrate.app.late_plans import LatePlans
from orchestrate.app.notify import run_and_tell
from orchestrate.app.reachable import secrets_to_run
from orchestrate.app.scopes import NoScope
from orchestrate.app.secrets import mask_settings, tell_short, with_own_keys
from orchestrate.app.settings import settings_of
from orchestrate.compile import require_program
from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.git_head import head_of
from orchestrate.engine.logbook import Logbook
from orchestrate.engine.runtime import AgentRules, Library, Options, Runtime
from orchestrate.engine.scheduler import note_unsettled
from orchestrate.execute.place import place_of
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.clock import drop_anchor, now_by
from orchestrate.state.durable import dump_json
from orchestrate.state.events import RunStarted
from orchestrate.state.model import Index
from orchestrate.state.plan_file import FILE
from orchestrate.state.runs import create_run
from orchestrate.state.store import begin, first_files
from orchestrate.view.source_files import combined_checksum, stable_path

if TYPE_CHECKING:
    from orchestrate.app.reporter import Reporter
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.engine.runtime import AgentDefinition
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.exits import Ending
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.events import RunResumed
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

# State files of workflows before 1.2 keep their old version (rulings §6).
_OLD_STATE = ("1.1", "1.1.1")


def schema_version_of(plan: Plan) -> str:
    return "1.1.1" if plan.dialect == "workflow" and plan.version in _OLD_STATE else "1.3"


def start_run(
    runs: Runs,
    program: Program,
    compilation: Compilation,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
) -> Store:
    """A new run's folder, locked by us, with its first state and event."""
    index = Index(program)
    plan = main_plan(program)
    sources = checksums(compilation, workspace)
    secrets = secrets_to_run(program, workspace)
    kept = mask_settings(settings.kept(), secrets, reporter)
    context = evaluate(plan.context, NoScope())
    masked = {key: secrets.data(value) for key, value in context.items()}
    for key in context:
        if masked[key] != context[key]:
            reporter.note(
                f"orchestrate: context '{key}' holds a secret and is masked; use `secrets:`\n"
            )
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
            session=settings.session,
            has_session=settings.session is not None,
            head=head_of(workspace.root),
            clock=clock,
        )
        started[:] = [event]
        frozen = dump_json(secrets.data(compilation.documents), indent=2)
        compiled = frozen_bytes(require_program(compilation), program, workspace, secrets.data)
        return {**first_files(index, event), DOCUMENTS: frozen, FILE: compiled}

    run, lock = create_run(runs, sys.argv, contents)
    index.find_with(LatePlans(workspace, settings, run.root, secrets.data).find)
    event = replace(started[0], place=place_of(str(run.root)))
    return begin(run, lock, index, event)


def carry_out(
    store: Store,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
    stop: Stop,
    *,
    resumed: RunResumed | None = None,
    held_session: Lock | None = None,
) -> Ending:
    """Let the engine work until the run ends, is parked or is stopped; tell it as it goes.

    `held_session`: the lock of the session that the run begins in, taken before the run was made.
    """
    workspace = replace(workspace, run=store.run.root)
    environment = {**os.environ, INSIDE: inside_of(store.run.id, os.environ)}
    secrets = secrets_to_run(program, workspace, environment)
    kept = settings_of(store.state.settings)
    late = LatePlans(workspace, kept, store.run.root)
    for plan_id in store.state.late:
        secrets.learn(late.whole(plan_id))
    trace = store.run.id if settings.trace else ""
    level = "debug" if settings.debug else settings.log_level or "info"
    logbook = Logbook(store.run.logs / "orchestrator.log", level, secrets, trace)
    rt = Runtime(
        workspace=workspace,
        store=store,
        secrets=secrets,
        environment=environment,
        stop=stop,
        logbook=logbook,
        options=Options(
            debug=settings.debug,
            trace=settings.trace,
            backup_state=settings.backup_state or settings.debug,
            debug_env=settings.debug_env,
        ),
        open_executor=executors_of(store, workspace),
        people=reporter.people(stop),
        rules=rules_of(kept),
        library=library_of(store, workspace, stop, secrets, reporter),
    )
    asked = asked_lines(who_is_asked(program, workspace, kept))
    reporter.asks(store, logbook, list(asked))
    end_following = reporter.follow(store, logbook, stop)
    is_over = False
    untold: list[str] = []
    try:
        tell_short(secrets, logbook, reporter)
        if held_session is not None:
            rt.take_session(rt.rules.backend, str(kept.session), held_session)
        if resumed is not None:
            rt.is_copy = resumed.copied
            note_unsettled(rt)
        ending = run_and_tell(rt, untold, reporter)
        is_over = True
        return ending
    finally:
        end_following()
        reporter.note("".join(f"orchestrate: {visible(trouble)}\n" for trouble in untold))
        rt.close(is_over=is_over)
        logbook.close()


def rules_of(settings: RunSettings) -> AgentRules:
    """How agents are asked, from the flags that the run was started with."""
    rules = AgentRules(
        backend_of(settings), settings.system_prompt, lets_finish=settings.let_finish
    )
    given = {
        "permissions": settings.permissions,
        "silence_s": settings.silence_timeout,
        "grace_s": settings.kill_grace,
    }
    return replace(rules, **{name: value for name, value in given.items() if value is not None})


def library_of(
    store: Store, workspace: Workspace, stop: Stop, secrets: Secrets, reporter: Reporter
) -> Library:
    """Agents and plans by name."""
    settings = with_own_keys(settings_of(store.state.settings), workspace)
    # Read once: a file that changes meanwhile must not change what later steps are told.
    known: dict[str, AgentDefinition] = {}

    def define(name: str, config: dict[str, Any]) -> AgentDefinition:
        key = f"{name} {config!r}"
        if key not in known:
            files = frozen_agents(store.run.root)
            known[key] = definition_of(name, config, workspace, settings, files)
        return known[key]

    def find_plan(path: str, caller: str) -> tuple[Plan, dict[str, str]]:
        late = LatePlans(workspace, settings, store.run.root, secrets.data)
        program, sources = late.find_called(path, caller)
        secrets.learn(program)
        return main_plan(program), sources

    return Library(
        agent_of=lambda name: agent_of(name, settings, store.run, reporter.person(stop)),
        definition_of=define,
        find_plan=find_plan,
        kept_schemas=cache(lambda: frozen_schemas(store.run.root)),
        keep_turn=lambda question, reply: keep_turn(store.run, question, reply),
    )
