"""Starts a run's keeper, which imports its half of the package at once and never looks back."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import Any

from orchestrate.execute.keeper.identity import keeper_environment
from orchestrate.execute.keeper.patience import Patience
from orchestrate.execute.keeper.protocol import FOLDER, LOG
from orchestrate.execute.keeper.standard import signal

# The keeper's half: standard library and itself only, and all of it is in memory before the first
# request is heard, so that an upgrade cannot change it under a run. It has a few modules in common
# with the rest of the package.
IN_COMMON = ("flat_json", "masking", "place", "reasons")
KEEPERS_HALF = (
    "__init__",
    "protocol",
    "standard",
    "journal",
    "identity",
    "tree",
    "launch",
    "capture",
    "slots",
    "watch_loop",
    "watch",
    "warden",
    "own_attempt",
    "orphans",
    "guardian",
    "connections",
    "server",
    "boot",
)
# How long a keeper lives that has nothing to run and no client.
LINGER_S = 10.0
# Until it has left our session, a Ctrl-C at our terminal would end it too (`boot.detach`).
_NOT_YET = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
# The first process ends at once, so that the keeper has no parent here: before it has grown.
_SCRIPT = """\
import gc, os, sys
gc.disable()
if os.fork():
    os._exit(0)
sys.path.append(sys.argv[1])
from orchestrate.execute.keeper.boot import begin
begun = begin(sys.argv[2])
from orchestrate.execute.keeper.server import serve
serve(*begun, float(sys.argv[3]))
"""


class KeeperStart:
    """A keeper that is starting; a caller that needs it waits for its word."""

    def __init__(self, run_dir: Path, linger_s: float) -> None:
        (run_dir / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        python = sys.executable
        place = str(Path(__file__).parents[3])
        # Byte code is kept as we keep ours: where nothing installed it, every start would compile.
        kept = ["-B"] if sys.dont_write_bytecode else []
        words = [python, "-I", "-S", *kept, "-X", "utf8", "-c", _SCRIPT]
        words += [place, str(run_dir), repr(float(linger_s))]
        self._answer, answer_end = os.pipe()
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            log = os.open(run_dir / FOLDER / LOG, log_flags, 0o600)
            try:
                files: list[Any] = [
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, answer_end, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ]
                # None of our environment but marks: it holds secrets, and requests bring their own.
                marks = keeper_environment(str(run_dir), os.environ)
                self._pid = os.posix_spawn(
                    python, words, marks, file_actions=files, setsigmask=_NOT_YET
                )
            finally:
                os.close(log)
        except BaseException:
            os.close(self._answer)
            raise
        finally:
            os.close(answer_end)

    def wait(self, patience: Patience) -> str:
        """Until it serves, or says why not; to be called once."""
        os.waitpid(self._pid, 0)
        with open(self._answer, "rb", buffering=0) as file:
            poll = select.poll()
            poll.register(self._answer, select.POLLIN)
            said = b""
            patience.begin()
            while True:
                if not poll.poll(1000 * patience.look()):
                    continue
                data = file.read(4096)
                if not data:
                    return said.decode("utf-8", "replace")
                said += data

    def leave(self) -> None:
        """Leave it to itself, instead of waiting: without a client it ends soon."""
        os.waitpid(self._pid, 0)
        os.close(self._answer)
