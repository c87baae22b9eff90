"""Starts a run's keeper, which imports its half of the package at once and never looks back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from orchestrate.process.protocol import FOLDER, LOG
from orchestrate.process.standard import signal

# The keeper's half: standard library and itself only, and all of it is in memory before the first
# request is heard, so that an upgrade cannot change it under a run.
KEEPERS_HALF = (
    "__init__",
    "protocol",
    "standard",
    "journal",
    "masking",
    "tree",
    "launch",
    "capture",
    "post",
    "watch",
    "warden",
    "hand",
    "lost",
    "guardian",
    "line",
    "keeper",
    "boot",
)
# Until it has left our session, a Ctrl-C at our terminal would end it too (`boot.detach`).
_NOT_YET = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
# The first process ends at once, so that the keeper is nobody's child: before it has grown.
_SCRIPT = """\
import gc, os, sys
gc.disable()
if os.fork():
    os._exit(0)
sys.path.append(sys.argv[1])
from orchestrate.process.boot import main
main(sys.argv[2], float(sys.argv[3]))
"""


def start_keeper(run_dir: Path, linger_s: float) -> str:
    """Start a keeper and wait until it serves or says why not."""
    python = sys.executable
    place = str(Path(__file__).parents[2])
    words = [python, "-I", "-S", "-B", "-X", "utf8", "-c", _SCRIPT]
    words += [place, str(run_dir), repr(float(linger_s))]
    answer, answer_end = os.pipe()
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(run_dir / FOLDER / LOG, log_flags, 0o600)
    try:
        files: list[Any] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, answer_end, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        # None of our environment: it holds secrets, and requests bring their own.
        pid = os.posix_spawn(python, words, {}, file_actions=files, setsigmask=_NOT_YET)
    finally:
        os.close(answer_end)
        os.close(log)
    os.waitpid(pid, 0)
    with open(answer, "rb") as file:
        return file.read().decode("utf-8", "replace")
