"""What is asked of a server about all of its runs and pools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from orchestrate.app.doctor import Finding
from orchestrate.fleet.connect import connect
from orchestrate.fleet.server_doctor import examine_server
from orchestrate.fleet.server_list import ListedRun, runs_of_namespace
from orchestrate.fleet.settings import FleetSettings


def examine(settings: FleetSettings, pools: Sequence[str]) -> list[Finding]:
    """What the server says about itself and the pools."""
    return asyncio.run(examine_server(settings, pools))


def list_runs_of(settings: FleetSettings, limit: int | None) -> list[ListedRun]:
    """The runs of the namespace, newest first."""

    async def ask() -> list[ListedRun]:
        return await runs_of_namespace(await connect(settings), limit)

    return asyncio.run(ask())
