"""A worker from its start to the signal that ends it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from orchestrate.app.config.load import load_config
from orchestrate.exits import DONE
from orchestrate.fleet.connect import connect
from orchestrate.fleet.settings import FleetSettings, load_fleet
from orchestrate.fleet.worker import Machine, pools_of, take_root, work
from orchestrate.show.output import answer
from orchestrate.workspace import Workspace


def serve_pools(pools: str, slots: int, root: str, name: str | None) -> int:
    """Serve pools until a signal ends it."""
    settings = load_fleet()
    settings.timing.check()
    folder = Path(os.path.abspath(os.path.expanduser(root)))
    limits = (load_config(Workspace(folder)).values.get("limits") or {}).get("concurrent") or {}
    machine = Machine(
        name or socket.gethostname(), folder, pools_of(pools), slots, limits,
        settings.timing.heartbeat_timeout,
    )  # fmt: skip
    lock = take_root(folder)
    try:
        asyncio.run(_serve(settings, machine))
    finally:
        os.close(lock)
    # The library's own threads may abort an interpreter that is taken apart.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader may have gone
            stream.flush()
    os._exit(DONE)


async def _serve(settings: FleetSettings, machine: Machine) -> None:
    await work(await connect(settings), machine, _say)


def _say(text: str) -> None:
    """At once: who started the worker waits for it."""
    answer(text)
    sys.stdout.flush()
