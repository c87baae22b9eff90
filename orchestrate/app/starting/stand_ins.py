"""What a run's agents are answered by must be there and free: a session, a script, a recording."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.agents.stand_ins.rehearsal import parse_script, script_faults
from orchestrate.app.definitions.agent_definitions import backend_of
from orchestrate.app.definitions.agents import TURNS
from orchestrate.app.given.data_files import read_given_file
from orchestrate.app.given.settings import FLAGS
from orchestrate.app.starting.rehearse import has_late, scripted_outcomes
from orchestrate.errors import ConfigError, UsageError
from orchestrate.execute.liveness import is_keeper_alive
from orchestrate.record import replace
from orchestrate.state.durable import read_file
from orchestrate.state.locks import lock_session
from orchestrate.state.runs import find_run

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Runs

_KEEPER_LEAVES_IN_S = 3.0


@contextmanager
def holding_session(settings: RunSettings) -> Iterator[Lock | None]:
    """The lock of the given session, taken before there is a run that could become `latest`.

    A run that asks for the same session in the same instant is refused and leaves nothing behind.
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


def with_stand_in(program: Program, settings: RunSettings, runs: Runs) -> RunSettings:
    """`--script` and `--recording` belong to one backend each; what they name must be there."""
    owners = {
        "script": "rehearsal", "rehearse_commands": "rehearsal", "cover": "rehearsal",
        "recording": "replay",
    }  # fmt: skip
    for flag, owner in owners.items():
        if settings.is_given(flag) and settings.backend != owner:
            raise UsageError(f"{FLAGS[flag].option} needs --backend {owner}")
    if settings.backend == "rehearsal":
        for flag in ("clean_processed", "archive_processed"):
            if settings.is_given(flag):
                raise UsageError(f"{FLAGS[flag].option} has no meaning in a rehearsal")
    if settings.script is not None:
        path = os.path.abspath(settings.script)
        settings = replace(settings, script=path)
        script = parse_script(read_given_file("--script", path, path))
        faults = script_faults(script, scripted_outcomes(program), is_all=not has_late(program))
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
