"""Carries runs out: compiles, makes or finds the run's folder, and lets the engine work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.cli.output import note
from orchestrate.cli.scopes import NoScope
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.plan.visible import visible
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.cli.detaching import Departure
    from orchestrate.compile import Compilation
    from orchestrate.engine.runtime import AgentDefinition, Library
    from orchestrate.engine.stop import Stop
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.state.model import Ending, Index
    from orchestrate.state.runs import Runs
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

# State files of workflows before 1.2 keep their old version (rulings §6).
_OLD_STATE = ("1.1", "1.1.1")


@record
class Watching:
    """How a run is shown and logged; nothing here changes what it does."""

    debug: bool = False
    trace: bool = False
    backup_state: bool = False
    quiet: bool = False
    verbose: bool = False
    progress: bool = False
    as_json: bool = False
    log_level: str = "info"
    live: bool = False
    # Set in a process that was started for a run alone (`-d`).
    departure: Departure | None = None

    def started(self, store: Store) -> None:
        """The run is on record, and nothing of it has been carried out yet."""
        if self.departure is not None:
            self.departure.started(store.run)


def checksums(compilation: Compilation, workspace: Workspace) -> dict[str, str]:
    """The checksum of each file that went into the program, by its path from the workspace."""
    import hashlib

    found = {}
    for source in compilation.sources.files:
        digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()
        found[stable_path(source.path, workspace)] = f"sha256:{digest}"
    return found


def stable_path(path: Path, workspace: Workspace) -> str:
    """A file's path that does not depend on where the user stands."""
    real = Path(os.path.realpath(path))
    if real.is_relative_to(workspace.root):
        return real.relative_to(workspace.root).as_posix()
    return real.as_posix()


def combined_checksum(sources: Mapping[str, str]) -> str:
    import hashlib

    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(sources.items()))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def schema_version_of(plan: Plan) -> str:
    return "1.1.1" if plan.dialect == "workflow" and plan.version in _OLD_STATE else "1.3"


def start_run(
    runs: Runs,
    program: Program,
    compilation: Compilation,
    workspace: Workspace,
    settings: dict[str, Any],
) -> tuple[Store, Index]:
    """A new run's folder, locked by us, with its first state and event."""
    from orchestrate.engine.evaluate import evaluate
    from orchestrate.engine.head import head_of
    from orchestrate.engine.secrets import Secrets
    from orchestrate.plan.nodes import main_plan
    from orchestrate.state.clock import drop_anchor, now_by
    from orchestrate.state.durable import dump_json
    from orchestrate.state.events import RunStarted
    from orchestrate.state.model import Index
    from orchestrate.state.runs import create_run
    from orchestrate.state.store import begin, first_files

    index = Index(program, LatePlans(workspace, settings).find)
    plan = main_plan(program)
    sources = checksums(compilation, workspace)
    secrets = Secrets(program, os.environ)
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
            settings=settings,
            version=__version__,
            session=settings.get("session"),
            has_session=settings.get("session") is not None,
            head=head_of(workspace.root),
            clock=clock,
        )
        started[:] = [event]
        frozen = dump_json(secrets.data(compilation.documents), indent=2)
        return {**first_files(index, event), "definition.json": frozen}

    run, lock = create_run(runs, sys.argv, contents)
    return begin(run, lock, index, started[0]), index


@record
class LatePlans:
    """Compiles recipes that a run reaches by a path it worked out (B), with the run's flags."""

    workspace: Workspace
    settings: Mapping[str, Any]

    def compile(self, plan_id: str) -> tuple[Program, dict[str, str]]:
        """The program whose main plan this is, and the checksums of its files."""
        from orchestrate.cli.config import with_defaults
        from orchestrate.cli.run import apply_flags, plan_flags
        from orchestrate.compile import compile_file, require_program

        path = Path(plan_id)
        file = path if path.is_absolute() else self.workspace.root / path
        compilation = compile_file(file, self.workspace)
        program = apply_flags(
            require_program(compilation), plan_flags(self.settings), self.workspace
        )
        program = with_defaults(program, self.settings.get("defaults", {}))
        return program, checksums(compilation, self.workspace)

    def find(self, plan_id: str) -> Plan:
        """For the index: a plan that is not part of the program."""
        from orchestrate.plan.nodes import main_plan

        return main_plan(self.compile(plan_id)[0])

    def find_called(self, path: str, caller: str) -> tuple[Plan, dict[str, str]]:
        """The plan at a path that a step has worked out; it resolves against the caller's file."""
        from orchestrate.cli.agents import refuse_unusable
        from orchestrate.engine.faults import StepFault
        from orchestrate.plan.nodes import main_plan
        from orchestrate.workspace import package_data

        base = self.workspace.root / caller
        if caller.startswith("catalogue:"):
            base = package_data() / "workflows" / caller.removeprefix("catalogue:")
        found = Path(os.path.realpath(base.parent / path))
        if not os.path.isabs(path) and not self.workspace.allows(found, base):
            raise StepFault(f"the recipe '{path}' lies outside the workspace")
        try:
            program, sources = self.compile(stable_path(found, self.workspace))
            refuse_unusable(program, self.workspace, self.settings)
        except DefinitionError as error:
            first = next((d for d in error.diagnostics if d.severity == "error"), None)
            why = f": {first.message}" if first is not None else ""
            raise StepFault(f"the recipe '{path}' cannot be used{why}") from None
        except OrchestrateError as error:
            why = f"{error.message}: {error.hint}" if error.hint else error.message
            raise StepFault(f"the recipe '{path}' cannot be used: {why}") from None
        return main_plan(program), sources


@contextmanager
def stoppable() -> Iterator[Stop]:
    """From here on a signal stops a run in good order, also one that is just being made."""
    from orchestrate.engine.stop import Stop, listening

    stop = Stop()
    try:
        with listening(stop):
            yield stop
    finally:
        stop.close()


def carry_out(
    store: Store,
    program: Program,
    workspace: Workspace,
    watching: Watching,
    stop: Stop,
    *,
    is_resumed: bool = False,
) -> Ending:
    """Let the engine work until the run ends, is parked or is stopped; tell it as it goes."""
    from orchestrate.cli.notifying import run_and_tell
    from orchestrate.cli.people import people_at_terminal
    from orchestrate.cli.progress import Progress
    from orchestrate.engine.logbook import Logbook
    from orchestrate.engine.loop import note_unsettled
    from orchestrate.engine.runtime import Options, Runtime
    from orchestrate.engine.secrets import Secrets

    environment = dict(os.environ)
    secrets = Secrets(program, environment)
    trace = store.run.id if watching.trace else ""
    logbook = Logbook(store.run.logs / "orchestrator.log", log_level_of(watching), secrets, trace)
    rt = Runtime(
        workspace=workspace,
        store=store,
        secrets=secrets,
        environment=environment,
        stop=stop,
        logbook=logbook,
        options=Options(watching.debug, watching.trace, watching.backup_state or watching.debug),
        people=people_at_terminal(watching, stop),
        rules=rules_of(store.state.settings),
        library=library_of(store, workspace, stop),
    )
    progress = Progress(store, logbook, watching)
    store.listeners.append(progress.hear)
    stop.on_request.append(progress.stopping)
    is_over = False
    untold: list[str] = []
    try:
        if is_resumed:
            note_unsettled(rt)
        ending = run_and_tell(rt, untold)
        is_over = True
        return ending
    finally:
        progress.close()
        note("".join(f"orchestrate: {visible(trouble)}\n" for trouble in untold))
        rt.close(is_over=is_over)
        logbook.close()


def log_level_of(watching: Watching) -> Any:
    return "debug" if watching.debug else watching.log_level


def rules_of(settings: Mapping[str, Any]) -> Any:
    """How agents are asked, from the flags that the run was started with."""
    from orchestrate.engine.runtime import AgentRules

    rules = AgentRules()
    return AgentRules(
        backend=settings.get("backend", rules.backend),
        system_prompt=settings.get("system_prompt"),
        permissions=settings.get("permissions", rules.permissions),
        silence_s=settings.get("silence_timeout", rules.silence_s),
    )


def library_of(store: Store, workspace: Workspace, stop: Stop) -> Library:
    """Agents and plans by name."""
    from orchestrate.cli.agents import agent_of, definition_of, keep_turn
    from orchestrate.engine.runtime import Library

    settings = store.state.settings
    # Read once: a file that changes meanwhile must not change what later steps are told.
    known: dict[str, AgentDefinition] = {}

    def define(name: str, config: dict[str, Any]) -> AgentDefinition:
        key = f"{name} {config!r}"
        if key not in known:
            known[key] = definition_of(name, config, workspace, settings)
        return known[key]

    return Library(
        agent_of=lambda name: agent_of(name, settings, store.run, stop),
        definition_of=define,
        find_plan=LatePlans(workspace, settings).find_called,
        keep_turn=lambda question, reply: keep_turn(store.run, question, reply),
    )


def show_end(store: Store, ending: Ending, watching: Watching) -> int:
    """The last words of `run` and `resume`, and their exit code."""
    from orchestrate.cli.output import answer_json
    from orchestrate.cli.progress import summary

    if watching.as_json:
        answer_json(summary(store))
        return ending.code
    from orchestrate.cli.output import answer
    from orchestrate.cli.progress import last_words

    if store.state.dialect == "machine":
        # A §9: the exit reason is part of the answer.
        answer(f"Exit: {visible(ending.reason)}\n")
    if not watching.quiet or ending.status != "completed":
        note(last_words(store, ending))
    return ending.code
