"""What `run` does once the plan is known: refuse what cannot work, start, carry out, tell."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.agents import backend_of, outcomes_of
from orchestrate.app.apply_flags import with_defaults
from orchestrate.app.carry_out import carry_out, show_end, start_run
from orchestrate.app.config import configured, load_config, runs_folder
from orchestrate.app.definition import given_names, tell_place, tell_warnings
from orchestrate.app.stopping import stoppable
from orchestrate.app.unread_context import tell_unread
from orchestrate.errors import ConfigError, UsageError
from orchestrate.execute.liveness import is_keeper_alive
from orchestrate.record import replace
from orchestrate.show.output import note
from orchestrate.show.progress import first_words
from orchestrate.state.durable import read_file
from orchestrate.state.locks import lock_session

if TYPE_CHECKING:
    from orchestrate.app.detach import Departure
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

_KEEPER_LEAVES_IN_S = 3.0


def execute(
    compilation: Compilation,
    program: Program,
    workspace: Workspace,
    settings: RunSettings,
    place: Place,
    as_json: bool,
    departure: Departure | None = None,
) -> int:
    """Start a run and carry it out."""
    from orchestrate.app.agents import refuse_unusable
    from orchestrate.app.concurrent_runs import entering
    from orchestrate.app.queues import archive_processed, check_archive, clean_processed
    from orchestrate.cli.options import watching_of

    config = load_config(workspace)
    settings = configured(settings, config)
    watching = watching_of(settings, as_json, config, place, departure)
    runs = runs_folder(workspace, config, place.state_dir)
    if settings.archive_processed:
        archive = os.path.abspath(settings.archive_processed)
        settings = replace(settings, archive_processed=archive)
    program = with_defaults(program, settings)
    settings = _with_stand_in(program, settings, runs)
    refuse_unusable(program, workspace, settings)
    check_archive(program, workspace, runs.folder, settings.archive_processed)
    with (
        holding_session(settings) as held,
        entering(workspace, program, settings) as door,
        stoppable() as stop,
    ):
        if settings.clean_processed:
            clean_processed(program, workspace, runs.folder)
        store, _ = start_run(runs, program, compilation, workspace, settings)
        try:
            door.enter(store.run)
            note(first_words(store.run.id, store.state.definition, is_resumed=False))
            if not watching.quiet:
                tell_place(workspace)
                tell_warnings(compilation, given_names(program))
                tell_unread(compilation, program, settings)
            watching.started(store.run)
            ending = carry_out(store, program, workspace, watching, stop, held_session=held)
            if ending.status == "completed":
                archive_processed(program, workspace, store.run, settings.archive_processed)
        finally:
            store.close()
        # Others may go on with the run, also while a stopped terminal does not take our last words.
        return show_end(store, ending, watching)


@contextmanager
def holding_session(settings: RunSettings) -> Iterator[Lock | None]:
    """The lock of the given session, taken before there is a run that could become `latest`.

    Whoever asks for the same session in the same instant is refused without leaving a run behind.
    """
    session = settings.session
    if session is None:
        yield None
        return
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
        yield lock


def _with_stand_in(program: Program, settings: RunSettings, runs: Runs) -> RunSettings:
    """`--script` and `--recording` belong to one backend each; what they name must be there."""
    from orchestrate.app.agents import TURNS, read_mapping
    from orchestrate.state.runs import find_run

    for flag, owner in (("script", "rehearsal"), ("recording", "replay")):
        if settings.is_given(flag) and settings.backend != owner:
            raise UsageError(f"--{flag} needs --backend {owner}")
    if settings.script is not None:
        from orchestrate.agents.stand_ins.rehearsal import parse_script, script_faults

        settings = replace(settings, script=os.path.abspath(settings.script))
        script = parse_script(read_mapping("--script", str(settings.script)))
        faults = script_faults(script, outcomes_of(program))
        if faults:
            raise ConfigError(faults[0], "\n".join(faults[1:]))
    if settings.backend == "replay":
        if settings.recording is None:
            raise UsageError("--backend replay needs --recording RUN, the run to answer from")
        found = find_run(runs, settings.recording)
        settings = replace(settings, recording=found.id)
        if not (found.root / TURNS).is_dir():
            raise UsageError(f"run {found.id} has recorded no answers of agents")
    return settings
