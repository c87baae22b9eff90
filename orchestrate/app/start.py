"""What `run` does once the plan is known: refuse what cannot work, start, carry out, tell."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from orchestrate.app.agents import outcomes_of
from orchestrate.app.carry_out import carry_out, show_end, start_run, stoppable
from orchestrate.app.config import load_config, plan_defaults, runs_folder, with_defaults
from orchestrate.app.definition import given_names, tell_place, tell_warnings
from orchestrate.app.unread_context import tell_unread
from orchestrate.cli.options import is_given
from orchestrate.errors import ConfigError, UsageError
from orchestrate.show.output import note
from orchestrate.show.progress import first_words

if TYPE_CHECKING:
    from orchestrate.app.config import Config
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.state.runs import Runs
    from orchestrate.workspace import Workspace

_KEEPER_LEAVES_IN_S = 3.0
# Flags that hold for every resume of the run (rulings §7).
KEPT = (
    "model", "max_steps", "max_visits", "max_restarts", "step_timeout", "max_parallel", "on_error",
    "max_retries", "retry_delay", "system_prompt", "permissions", "session", "archive_processed",
    "script", "recording", "allow_concurrent", "let_finish",
)  # fmt: skip


def execute(
    compilation: Compilation,
    program: Program,
    workspace: Workspace,
    as_json: bool,
    flags: dict[str, Any],
) -> int:
    """Start a run and carry it out."""
    from orchestrate.app.agents import refuse_unusable
    from orchestrate.app.concurrent_runs import entering
    from orchestrate.app.queues import archive_processed, check_archive, clean_processed
    from orchestrate.cli.options import watching_of

    config = load_config(workspace)
    watching = watching_of(flags, as_json, config)
    runs = runs_folder(workspace, config, flags["state_dir"])
    settings = settings_of(flags, config)
    if settings.get("archive_processed"):
        settings["archive_processed"] = os.path.abspath(settings["archive_processed"])
    program = with_defaults(program, settings.get("defaults", {}))
    _check_stand_in(program, settings, runs)
    refuse_unusable(program, workspace, settings)
    check_archive(program, workspace, runs.folder, settings.get("archive_processed"))
    refuse_used_session(settings)
    with entering(workspace, program, settings) as door, stoppable() as stop:
        if flags["clean_processed"]:
            clean_processed(program, workspace, runs.folder)
        store, _ = start_run(runs, program, compilation, workspace, settings)
        try:
            door.enter(store.run)
            note(first_words(store.run.id, store.state.definition, is_resumed=False))
            if not watching.quiet:
                tell_place(workspace)
                tell_warnings(compilation, given_names(program))
                tell_unread(compilation, program, flags)
            watching.started(store)
            ending = carry_out(store, program, workspace, watching, stop)
            if ending.status == "completed":
                archive_processed(program, workspace, store.run, settings.get("archive_processed"))
        finally:
            store.close()
        # Others may go on with the run, also while a stopped terminal does not take our last words.
        return show_end(store, ending, watching)


def refuse_used_session(settings: dict[str, Any]) -> None:
    """A session that somebody uses is refused before there is a run that could become `latest`."""
    session = settings.get("session")
    if session is None:
        return
    from pathlib import Path

    from orchestrate.app.agents import backend_of
    from orchestrate.execute.keeper.facts import is_keeper_alive
    from orchestrate.state.durable import read_file
    from orchestrate.state.locks import lock_session

    with lock_session(backend_of(settings), session, sys.argv, os.environ) as lock:
        content = read_file(lock.path.with_suffix(".run"))
        root = Path(os.fsdecode(content)) if content else None
        # The keeper of a run that has just ended is about to go.
        give_up = time.monotonic() + _KEEPER_LEAVES_IN_S
        while root is not None and is_keeper_alive(root):
            if time.monotonic() < give_up:
                time.sleep(0.1)
                continue
            raise ConfigError(
                f"session {session} is in use by an agent of run {root.name}, "
                "whose orchestrator is gone",
                f"go on with it: orchestrate resume {root.name}",
            )


def settings_of(flags: dict[str, Any], config: Config) -> dict[str, Any]:
    """What a later `resume` has to know of the command line and the configuration."""
    from orchestrate.plan.override import known_backend

    settings = {name: flags[name] for name in KEPT if is_given(flags.get(name))}
    backend = config.get("backend", flags.get("backend"))
    if backend:
        settings["backend"] = known_backend(backend)
    for name in ("permissions", "silence_timeout", "kill_grace"):
        value = config.get(name, flags.get(name))
        if value is not None:
            settings[name] = value
    defaults = plan_defaults(config, flags)
    if defaults:
        settings["defaults"] = defaults
    if config.values.get("agents"):
        settings["agents"] = config.values["agents"]
    return settings


def _check_stand_in(program: Program, settings: dict[str, Any], runs: Runs) -> None:
    """`--script` and `--recording` belong to one backend each; what they name must be there."""
    from orchestrate.app.agents import TURNS, read_mapping
    from orchestrate.state.runs import find_run

    backend = settings.get("backend")
    for flag, owner in (("script", "rehearsal"), ("recording", "replay")):
        if flag in settings and backend != owner:
            raise UsageError(f"--{flag} needs --backend {owner}")
    if "script" in settings:
        from orchestrate.agents.stand_ins.rehearsal import parse_script, script_faults

        settings["script"] = os.path.abspath(settings["script"])
        script = parse_script(read_mapping("--script", settings["script"]))
        faults = script_faults(script, outcomes_of(program))
        if faults:
            raise ConfigError(faults[0], "\n".join(faults[1:]))
    if backend == "replay":
        if "recording" not in settings:
            raise UsageError("--backend replay needs --recording RUN, the run to answer from")
        found = find_run(runs, settings["recording"])
        settings["recording"] = found.id
        if not (found.root / TURNS).is_dir():
            raise UsageError(f"run {found.id} has recorded no answers of agents")
