"""Carries runs out: compiles, makes or finds the run's folder, and lets the engine work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.app.apply_flags import with_settings
from orchestrate.app.changed import recompile
from orchestrate.app.definition import checksums
from orchestrate.app.frozen_run import keep_running, read_frozen
from orchestrate.app.late_plans import LatePlans as LatePlans  # noqa: PLC0414 - resume takes it here
from orchestrate.app.scopes import NoScope
from orchestrate.app.settings import settings_of
from orchestrate.app.single_step import as_started as reduced_as_started
from orchestrate.execute.place import place_of
from orchestrate.installation import replacement_of
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.show.output import note
from orchestrate.state.plan_file import FILE, late_file
from orchestrate.view.source_files import combined_checksum, stable_path
from orchestrate.view.watching import Watching

if TYPE_CHECKING:
    from orchestrate.app.open_run import Header
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.engine.logbook import Logbook
    from orchestrate.engine.runtime import AgentDefinition, AgentRules, Library, Runtime
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.exits import Ending
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.locks import Lock
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run, Runs
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
) -> tuple[Store, Index]:
    """A new run's folder, locked by us, with its first state and event."""
    from orchestrate.app.frozen_run import DOCUMENTS, frozen_bytes
    from orchestrate.app.secrets import mask_settings, secrets_for
    from orchestrate.compile import require_program
    from orchestrate.engine.evaluate import evaluate
    from orchestrate.engine.git_head import head_of
    from orchestrate.plan.nodes import main_plan
    from orchestrate.state.clock import drop_anchor, now_by
    from orchestrate.state.durable import dump_json
    from orchestrate.state.events import RunStarted
    from orchestrate.state.model import Index
    from orchestrate.state.runs import create_run
    from orchestrate.state.store import begin, first_files

    index = Index(program)
    plan = main_plan(program)
    sources = checksums(compilation, workspace)
    secrets = secrets_for(program, workspace)
    kept = mask_settings(settings.kept(), secrets)
    context = evaluate(plan.context, NoScope())
    masked = {key: secrets.data(value) for key, value in context.items()}
    for key in context:
        if masked[key] != context[key]:
            note(f"orchestrate: context '{key}' holds a secret and is masked; use `secrets:`\n")
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
    return begin(run, lock, index, event), index


def program_to_run(header: Header, workspace: Workspace, *, as_started: bool) -> Program:
    """The program of a run as its settings want it, from its own copy: files may have changed.

    A copy that had to be masked cannot be carried out; then the files have to be as they were.
    """
    frozen = read_frozen(header.root)
    is_whole = frozen is not None and (as_started or not frozen.is_masked)
    whole = frozen.program if frozen is not None and is_whole else recompile(header, workspace)
    return with_settings(reduced_as_started(whole, header.settings), header.settings)


def keep_flags(
    run: Run, program: Program, late: LatePlans, found: Iterable[str], flags: Mapping[str, Any]
) -> None:
    """Keep the plans as they run if `resume` was given flags, those found late included."""
    from orchestrate.app.secrets import secrets_for

    if not flags:
        return
    running = {run.root / FILE: program}
    running |= {late_file(run.root, plan_id): late.whole(plan_id) for plan_id in found}
    for path, each in running.items():
        keep_running(path, each, secrets_for(each, late.workspace).data)


def carry_out(
    store: Store,
    program: Program,
    workspace: Workspace,
    watching: Watching,
    stop: Stop,
    *,
    is_resumed: bool = False,
    is_copy: bool = False,
    held_session: Lock | None = None,
) -> Ending:
    """Let the engine work until the run ends, is parked or is stopped; tell it as it goes."""
    from orchestrate.app.concurrent_runs import INSIDE, inside_of
    from orchestrate.app.listeners import listen_safely
    from orchestrate.app.notify import run_and_tell
    from orchestrate.app.secrets import secrets_for, tell_short
    from orchestrate.engine.scheduler import note_unsettled
    from orchestrate.show.progress import Progress

    workspace = replace(workspace, run=store.run.root)
    environment = {**os.environ, INSIDE: inside_of(store.run.id, os.environ)}
    secrets = secrets_for(program, workspace, environment)
    late = LatePlans(workspace, settings_of(store.state.settings), store.run.root)
    for plan_id in store.state.late:
        secrets.learn(late.whole(plan_id))
    rt = _runtime(store, workspace, watching, stop, secrets, environment)
    logbook = rt.logbook
    _tell_asked(program, workspace, store, watching, logbook)
    progress = Progress(store, logbook, watching)
    endings = [progress.close]
    if watching.events:
        from orchestrate.show.event_stream import EventStream

        stream = EventStream()
        endings.append(lambda: stream.close(is_hurried=stop.is_requested))
        listen_safely(store, "events", lambda: stream.begin(store.run))
    listen_safely(store, "progress", lambda: progress.hear)
    stop.on_request.append(progress.stopping)
    is_over = False
    untold: list[str] = []
    try:
        tell_short(secrets, logbook)
        rt.is_copy = is_copy
        if held_session is not None:
            rt.take_session(rt.rules.backend, store.state.settings["session"], held_session)
        if is_resumed:
            note_unsettled(rt)
        ending = run_and_tell(rt, untold, watching.place)
        is_over = True
        return ending
    finally:
        for end in endings:
            end()
        note("".join(f"orchestrate: {visible(trouble)}\n" for trouble in untold))
        rt.close(is_over=is_over)
        logbook.close()


def _runtime(
    store: Store,
    workspace: Workspace,
    watching: Watching,
    stop: Stop,
    secrets: Secrets,
    environment: dict[str, str],
) -> Runtime:
    """The run's connection to the world, with its log."""
    from orchestrate.app.executors import executors_of
    from orchestrate.cli.terminal import people_at_terminal
    from orchestrate.engine.logbook import Logbook
    from orchestrate.engine.runtime import Options, Runtime

    trace = store.run.id if watching.trace else ""
    level: Any = "debug" if watching.debug else watching.log_level
    logbook = Logbook(store.run.logs / "orchestrator.log", level, secrets, trace)
    return Runtime(
        workspace=workspace,
        store=store,
        secrets=secrets,
        environment=environment,
        stop=stop,
        logbook=logbook,
        options=Options(
            debug=watching.debug,
            trace=watching.trace,
            backup_state=watching.backup_state or watching.debug,
            debug_env=watching.debug_env,
        ),
        people=people_at_terminal(watching, stop),
        rules=rules_of(settings_of(store.state.settings)),
        library=library_of(store, workspace, stop, secrets),
        open_executor=executors_of(store, workspace),
    )


def _tell_asked(
    program: Program,
    workspace: Workspace,
    store: Store,
    watching: Watching,
    logbook: Logbook,
) -> None:
    """Whom the run asks, with which model and permissions: said before anything is done."""
    from orchestrate.app.agents_asked import asked_lines, who_is_asked
    from orchestrate.show.event_lines import machine_fields

    state = store.state
    fields = machine_fields(state, store.index) if state.dialect == "machine" else {}
    for line in asked_lines(who_is_asked(program, workspace, settings_of(state.settings))):
        logbook.write("info", f"[run:asks] {line}", fields)
        if not watching.quiet:
            note(f"  {line}\n")


def rules_of(settings: RunSettings) -> AgentRules:
    """How agents are asked, from the flags that the run was started with."""
    from orchestrate.engine.runtime import AgentRules

    rules = AgentRules()
    silence, grace = settings.silence_timeout, settings.kill_grace
    return AgentRules(
        backend=settings.backend or rules.backend,
        system_prompt=settings.system_prompt,
        permissions=settings.permissions or rules.permissions,
        silence_s=rules.silence_s if silence is None else silence,
        grace_s=rules.grace_s if grace is None else grace,
        lets_finish=settings.let_finish,
    )


def library_of(store: Store, workspace: Workspace, stop: Stop, secrets: Secrets) -> Library:
    """Agents and plans by name."""
    from orchestrate.app.agents import agent_of, definition_of, keep_turn
    from orchestrate.app.frozen_run import frozen_agents, frozen_schemas
    from orchestrate.app.secrets import with_own_keys
    from orchestrate.engine.runtime import Library
    from orchestrate.plan.nodes import main_plan

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
        agent_of=lambda name: agent_of(name, settings, store.run, stop),
        definition_of=define,
        find_plan=find_plan,
        kept_schemas=cache(lambda: frozen_schemas(store.run.root)),
        keep_turn=lambda question, reply: keep_turn(store.run, question, reply),
    )


def show_end(store: Store, ending: Ending, watching: Watching) -> int:
    """The last words of `run` and `resume`, and their exit code."""
    try:
        return _show_end(store, ending, watching)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        fault = replacement_of(error, store.run.id)
        if fault is None:
            raise
        # The run has ended as it has, whatever becomes of the words about it.
        note(f"run {store.run.id} {ending.status}: {visible(ending.reason)}\n")
        note(f"orchestrate: {visible(fault.message)}\n  hint: {visible(fault.hint)}\n")
        return ending.code


def _show_end(store: Store, ending: Ending, watching: Watching) -> int:
    from orchestrate.show.event_lines import denied_more
    from orchestrate.show.output import answer, answer_json
    from orchestrate.show.progress import last_words, summary

    if watching.as_json:
        answer_json(summary(store))
        return ending.code
    if store.state.dialect == "machine" and not watching.events:
        # A §9: the exit reason is part of the answer.
        answer(f"Exit: {visible(ending.reason)}{denied_more(store.state)}\n")
    if not watching.quiet or ending.status != "completed" or store.state.denials:
        note(last_words(store, ending, watching.place))
    return ending.code
