"""Carries runs out: makes a run's folder, and lets the engine work on it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.app.agent_definitions import backend_of, definition_of
from orchestrate.app.agents import agent_of, keep_turn
from orchestrate.app.agents_asked import asked_lines, who_is_asked
from orchestrate.app.checksums import checksums
from orchestrate.app.concurrent_runs import INSIDE, inside_of
from orchestrate.app.config import load_config
from orchestrate.app.executors import executors_of
from orchestrate.app.frozen_run import (
    frozen_agents,
    frozen_bytes,
    frozen_schemas,
    read_frozen,
    read_frozen_late,
)
from orchestrate.app.inputs import value_in_call
from orchestrate.app.late_plans import LatePlans
from orchestrate.app.listeners import listen_safely
from orchestrate.app.money import money_rules
from orchestrate.app.notify import run_and_tell
from orchestrate.app.reachable import secrets_to_run
from orchestrate.app.rehearse import rehearsal_of
from orchestrate.app.scopes import starting_values
from orchestrate.app.secrets import mask_settings, tell_short, with_own_keys
from orchestrate.app.settings import settings_of
from orchestrate.app.worktrees import in_worktree
from orchestrate.compile import require_program
from orchestrate.dialects.agent_definitions import read_agent
from orchestrate.engine.reuse import end_given_up
from orchestrate.engine.runtime import AgentRules, Library, Options, Runtime
from orchestrate.engine.scheduler import note_unsettled, run_to_end
from orchestrate.errors import StateError
from orchestrate.execute.place import place_of
from orchestrate.git_head import head_of
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.clock import drop_anchor, now_by
from orchestrate.state.durable import dump_json
from orchestrate.state.events import RunStarted
from orchestrate.state.lineage import earlier_of
from orchestrate.state.logbook import Logbook
from orchestrate.state.model import Index
from orchestrate.state.plan_file import DOCUMENTS, FILE, edit_folder
from orchestrate.state.runs import create_run
from orchestrate.state.store import begin, first_files
from orchestrate.view.messages import Messages
from orchestrate.view.rehearsed import banner
from orchestrate.view.run_log import keep_log, log_asked
from orchestrate.view.source_files import combined_checksum, stable_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrate.agents.definition import AgentDefinition
    from orchestrate.app.reporter import Reporter
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.engine.rehearsing import Rehearsal
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.exits import Ending
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.events import RunResumed
    from orchestrate.state.lineage import Lineage
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.state.worktree import Worktree
    from orchestrate.workspace import Workspace

# State files of workflows before 1.2 keep their old version (rulings §6).
_OLD_STATE = ("1.1", "1.1.1")


@record
class Fork:
    """What a fork is of, and how its folder gets what it takes over."""

    lineage: Lineage
    furnish: Callable[[Path], None]


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
    fork: Fork | None = None,
) -> Store:
    """A new run's folder, locked by us, with its first state and event.

    `chat_session`: it is a turn of a chat, which never is `latest`; unless '' it begins that one.
    `worktree`: where it will work, by its id.
    """
    index = Index(program)
    plan = main_plan(program)
    sources = checksums(compilation, workspace)
    secrets = secrets_to_run(program, workspace)
    kept = mask_settings(settings.kept(), secrets, reporter)
    context = starting_values(plan)
    masked = _masked(context, secrets, reporter)
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
            forked=None if fork is None else fork.lineage.to_json(),
        )
        started[:] = [event]
        frozen = dump_json(secrets.data(compilation.documents), indent=2)
        compiled = frozen_bytes(require_program(compilation), program, workspace, secrets.data)
        return {**first_files(index, event), DOCUMENTS: frozen, FILE: compiled}

    is_latest = chat_session is None and not (settings.run_step or {}).get("scratch")
    wanted_id = (settings.seat or {}).get("run", "")
    furnish = (lambda _: None) if fork is None else fork.furnish
    run, lock = create_run(
        runs, sys.argv, contents, is_latest=is_latest, wanted_id=wanted_id, furnish=furnish
    )
    index.find_with(LatePlans(workspace, settings, run.root, secrets.data).find)
    event = replace(started[0], place=place_of(str(run.root)))
    return begin(run, lock, index, event)


def _masked(context: dict[str, Any], secrets: Secrets, reporter: Reporter) -> dict[str, Any]:
    """The values that a run begins with, as they are written down."""
    masked = {key: secrets.data(value) for key, value in context.items()}
    for key, value in context.items():
        if masked[key] != value:
            reporter.note(
                f"orchestrate: context '{key}' holds a secret and is masked; use `secrets:`\n"
            )
    return masked


def carry_out(  # noqa: PLR0913 - it is the sum of what a run needs
    store: Store,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
    stop: Stop,
    *,
    resumed: RunResumed | None = None,
    held_session: Lock | None = None,
    rehearsal: Rehearsal | None = None,
) -> Ending:
    """Let the engine work until the run ends, is parked or is stopped; tell it as it goes.

    `held_session`: the lock of the session that the run begins in, taken before the run was made.
    `rehearsal`: a walk that is thrown away, of which nobody is notified.
    """
    rt = runtime_of(store, program, workspace, settings, reporter, stop)
    if rehearsal is not None:
        rt.rules = replace(rt.rules, rehearsal=rehearsal)
    logbook, kept, secrets = rt.logbook, settings_of(store.state.settings), rt.secrets
    asked = _whom_it_asks(store, program, workspace)
    log_asked(logbook, store.state, store.index, asked)
    reporter.asks(asked)
    end_following = reporter.follow(store, stop)
    told = Messages.taken_up(store.run, store.state)
    listen_safely(store, "the log", lambda: keep_log(logbook, store.index, told), reporter.note)
    is_over = False
    untold: list[str] = []
    try:
        tell_short(secrets, logbook, reporter)
        if held_session is not None:
            rt.take_session(rt.rules.backend, str(kept.session), held_session)
        if resumed is not None:
            rt.is_copy = resumed.copied
            note_unsettled(rt)
        if store.state.edit:
            _look_back(rt)
        ending = run_to_end(rt) if rehearsal else run_and_tell(rt, untold, reporter)
        is_over = True
        return ending
    finally:
        end_following()
        reporter.note("".join(f"orchestrate: {visible(trouble)}\n" for trouble in untold))
        rt.close(is_over=is_over)
        logbook.close()


def _look_back(rt: Runtime) -> None:
    """Find what the run had before its edits: they take it over step by step."""
    store = rt.store
    store.sync()
    rt.earlier = earlier = earlier_of(store.run)
    store.listeners.append(lambda event, _: earlier.hear(event))
    end_given_up(rt)


def runtime_of(
    store: Store,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
    stop: Stop,
    log: str = "orchestrator.log",
) -> Runtime:
    """What the engine needs of the world to carry out a run."""
    home, workspace = workspace, replace(in_worktree(workspace, store.state), run=store.run.root)
    environment = {**os.environ, INSIDE: inside_of(store.run.id, os.environ)}
    secrets = secrets_to_run(program, home, environment)
    kept = settings_of(store.state.settings)
    late = LatePlans(home, kept, edit_folder(store.run.root, store.state.edit))
    for plan_id in store.state.late:
        secrets.learn(late.whole(plan_id))
    logbook = _logbook(store, settings, secrets, log)
    return Runtime(
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
        operator=reporter.operator(stop),
        rules=replace(
            rules_of(kept),
            rehearsal=rehearsal_of(kept),
            money=money_rules(load_config(home, environment)),
        ),
        library=library_of(store, home, stop, secrets, reporter),
    )


def _whom_it_asks(store: Store, program: Program, workspace: Workspace) -> list[str]:
    told = banner(store.state.settings)
    kept = settings_of(store.state.settings)
    return [told] if told else list(asked_lines(who_is_asked(program, workspace, kept)))


def _logbook(store: Store, settings: RunSettings, secrets: Secrets, name: str) -> Logbook:
    trace = store.run.id if settings.trace else ""
    level = "debug" if settings.debug else settings.log_level or "info"
    return Logbook(store.run.logs / name, level, secrets.text, trace)


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
            files = frozen_agents(root())
            known[key] = definition_of(name, config, workspace, settings, files)
        return known[key]

    def root() -> Path:
        return edit_folder(store.run.root, store.state.edit)

    @cache
    def agent_file(name: str) -> Any:
        file = frozen_agents(root()).get(name) or read_agent(name, workspace)
        fields = {k: v for k, v in file.fields.items() if k not in ("name", "description")}
        return [fields, file.body]

    @cache
    def model_of(plan_id: str) -> str | None:
        with suppress(StateError):
            for frozen in (read_frozen(root()), read_frozen_late(root(), plan_id)):
                for plan in frozen.program.plans if frozen is not None else ():
                    if plan.id == plan_id.partition("#")[0]:
                        return plan.defaults.model
        return None

    def find_plan(path: str, caller: str) -> tuple[Plan, dict[str, str]]:
        late = LatePlans(workspace, settings, root(), secrets.data)
        program, sources = late.find_called(path, caller)
        secrets.learn(program)
        return main_plan(program), sources

    return Library(
        agent_of=lambda name: agent_of(name, settings, store.run, reporter.person(stop)),
        definition_of=define,
        find_plan=find_plan,
        settle=lambda one, value: value_in_call(one, value, workspace),
        kept_schemas=cache(lambda: frozen_schemas(root())),
        keep_turn=lambda question, reply: keep_turn(store.run, question, reply),
        agent_file=agent_file,
        model_of=model_of,
    )
