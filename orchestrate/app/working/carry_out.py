"""Carries runs out: lets the engine work on a run's folder."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.load import load_config
from orchestrate.app.config.money import money_rules
from orchestrate.app.definitions.agent_definitions import backend_of, definition_of
from orchestrate.app.definitions.agents import agent_of, keep_turn
from orchestrate.app.definitions.agents_asked import agents_asked, asked_lines
from orchestrate.app.definitions.reachable import secrets_to_run
from orchestrate.app.files.checkpoints_of_run import checkpoints_of, keep_checkpoints
from orchestrate.app.files.worktrees import in_worktree
from orchestrate.app.given.inputs import value_in_call
from orchestrate.app.given.settings import settings_of
from orchestrate.app.resuming.frozen_run import (
    frozen_agents,
    frozen_schemas,
    read_frozen,
    read_frozen_late,
)
from orchestrate.app.resuming.late_plans import LatePlans
from orchestrate.app.secrets import tell_short, with_own_keys
from orchestrate.app.starting.concurrent_runs import INSIDE, inside_of
from orchestrate.app.starting.rehearse import rehearsal_of
from orchestrate.app.working.executors import executors_of
from orchestrate.app.working.listeners import listen_safely
from orchestrate.app.working.notify import run_and_notify
from orchestrate.dialects.agent_definitions import read_agent
from orchestrate.engine.reuse import end_given_up
from orchestrate.engine.runtime import AgentRules, Library, Options, Runtime
from orchestrate.engine.scheduler import note_unsettled, run_to_end
from orchestrate.errors import StateError
from orchestrate.git_head import git_above
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.lineage import earlier_of
from orchestrate.state.logbook import Logbook
from orchestrate.state.plan_file import edit_folder
from orchestrate.view.messages import Messages
from orchestrate.view.rehearsed import banner
from orchestrate.view.run_log import keep_log, log_asked

if TYPE_CHECKING:
    from orchestrate.agents.definition import AgentDefinition
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.engine.rehearsing import Rehearsal
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.execute.local import LocalExecutor
    from orchestrate.exits import Ending
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.events import RunResumed
    from orchestrate.state.locks import Lock
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

_NO_PROGRESS_UNSEEN = (
    "limits.no_progress counts for nothing, because no checkpoints of the workspace are taken; "
    "--checkpoints on takes them"
)
_LOST = "no longer responds: what it did since the last publication is lost, and done again"


def carry_out(  # noqa: PLR0913 - it is the sum of what a run needs
    store: Store,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    reporter: Reporter,
    stop: Stop,
    *,
    resumed: RunResumed | None = None,
    moved: str = "",
    held_session: Lock | None = None,
    rehearsal: Rehearsal | None = None,
    local: LocalExecutor | None = None,
) -> Ending:
    """Let the engine work until the run ends, is parked or is stopped; tell it as it goes.

    `moved`: what its move to another machine means to its agents.
    `held_session`: the lock of the session that the run begins in, taken before the run was made.
    `rehearsal`: a walk that is thrown away, without notifications.
    `local`: what runs programs here, where it has begun before the engine was loaded.
    """
    rt = runtime_of(store, program, workspace, settings, reporter, stop, local=local)
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
        _take_place(rt, kept, reporter)
        if resumed is not None:
            rt.is_copy = resumed.copied
            rt.lost_with = settings.lost_with
            rt.sessions_here = frozenset(settings.sessions_here or ())
            _tell_moved(rt, moved, reporter)
            if rt.lost_with:
                logbook.write("warn", f"{rt.lost_with} {_LOST}")
            note_unsettled(rt)
        if store.state.edit:
            _look_back(rt)
        is_part = rehearsal is not None or bool(rt.item)
        if not is_part and _wants_checkpoints(kept, rt.workspace.root):
            keep_checkpoints(rt, reporter.note)
        if rehearsal is None and rt.checkpoints is None:
            _tell_unlooked_at(rt, reporter)
        ending = run_to_end(rt) if is_part else run_and_notify(rt, untold, reporter)
        is_over = True
        return ending
    finally:
        end_following()
        if rt.checkpoints is not None:
            rt.checkpoints.close()
        reporter.note("".join(f"orchestrate: {visible(trouble)}\n" for trouble in untold))
        rt.close(is_over=is_over)
        logbook.close()


def _take_place(rt: Runtime, kept: RunSettings, reporter: Reporter) -> None:
    """A run in a seat may give items away; one that was given away has nothing else to do."""
    if kept.seat is not None:
        rt.item = str(kept.seat.get("item", ""))
        rt.spreader = reporter.spreader(rt.store, rt.stop)


def _tell_moved(rt: Runtime, moved: str, reporter: Reporter) -> None:
    frame = rt.store.state.frames.get(rt.item) if rt.item else None
    has_only_come = frame is not None and frame.here is not None and not frame.here.since
    if moved and not has_only_come:
        # Its log travels with it: who started the run reads it there.
        rt.logbook.write("warn", moved)
        reporter.note(f"orchestrate: {moved}\n")


def _tell_unlooked_at(rt: Runtime, reporter: Reporter) -> None:
    """A limit that nothing can be held against is not silently none."""
    if any(plan.limits.no_progress is not None for plan in rt.store.index.program.plans):
        rt.logbook.write("warn", _NO_PROGRESS_UNSEEN)
        reporter.note(f"orchestrate: warning: {_NO_PROGRESS_UNSEEN}\n")


def _wants_checkpoints(settings: RunSettings, workspace: Path) -> bool:
    """As it is set; by itself in git work trees."""
    wanted = settings.checkpoints or "auto"
    return wanted == "on" or (wanted == "auto" and git_above(workspace) is not None)


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
    local: LocalExecutor | None = None,
    foresees: Path | None = None,
) -> Runtime:
    """What the engine needs of the world to carry out a run.

    `foresees`: it only looks ahead and keeps no log; this folder has what the run would be made of.
    """
    home, workspace = workspace, replace(in_worktree(workspace, store.state), run=store.run.root)
    environment = {**os.environ, INSIDE: inside_of(store.run.id, os.environ)}
    secrets = secrets_to_run(program, home, environment)
    kept = settings_of(store.state.settings)
    late = LatePlans(home, kept, edit_folder(store.run.root, store.state.edit))
    for plan_id in store.state.late:
        secrets.learn(late.whole(plan_id))
    logbook = _logbook(store, settings, secrets, "" if foresees else "orchestrator.log")
    config = load_config(home, environment)
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
        open_executor=executors_of(store, workspace, local),
        operator=reporter.operator(stop),
        rules=replace(
            rules_of(kept),
            rehearsal=rehearsal_of(kept),
            money=money_rules(config),
            slots=(config.values.get("limits") or {}).get("concurrent") or {},
        ),
        library=library_of(store, home, stop, secrets, reporter, foresees),
    )
    rt.open_checkpoints = lambda: checkpoints_of(rt)
    return rt


def _whom_it_asks(store: Store, program: Program, workspace: Workspace) -> list[str]:
    told = banner(store.state.settings)
    kept = settings_of(store.state.settings)
    return [told] if told else list(asked_lines(agents_asked(program, workspace, kept)))


def _logbook(store: Store, settings: RunSettings, secrets: Secrets, name: str) -> Logbook:
    trace = store.run.id if settings.trace else ""
    level = "debug" if settings.debug else settings.log_level or "info"
    return Logbook(store.run.logs / name, level, secrets.text, trace)


def rules_of(settings: RunSettings) -> AgentRules:
    """How agents are asked, from the flags that the run was started with."""
    rules = AgentRules(
        backend_of(settings),
        settings.system_prompt,
        lets_finish=settings.let_finish,
        waits_for_quota=settings.wait_for_quota is not False,
    )
    given = {
        "permissions": settings.permissions,
        "silence_s": settings.silence_timeout,
        "grace_s": settings.kill_grace,
    }
    return replace(rules, **{name: value for name, value in given.items() if value is not None})


def library_of(
    store: Store,
    workspace: Workspace,
    stop: Stop,
    secrets: Secrets,
    reporter: Reporter,
    made_of: Path | None = None,
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
        return made_of or edit_folder(store.run.root, store.state.edit)

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
        settle=lambda one, value: value_in_call(one, value, workspace, lambda: stop.is_requested),
        kept_schemas=cache(lambda: frozen_schemas(root())),
        keep_turn=lambda question, reply: keep_turn(store.run, question, reply),
        agent_file=agent_file,
        model_of=model_of,
    )
