"""What `orchestrate serve` does; its options are read without loading a web server."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Any

from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import UsageError
from orchestrate.exits import DONE
from orchestrate.plan.visible import visible
from orchestrate.serve.console import Console
from orchestrate.serve.keys import key_file, new_key
from orchestrate.serve.qr import drawing_of
from orchestrate.serve.server import USUAL_PORT, Wanted, announcement, link_of_running, serve
from orchestrate.serve.ways_in import address_of, outside_address
from orchestrate.show.output import answer, note
from orchestrate.state.known_workspaces import known_workspaces
from orchestrate.workspace import Workspace, open_workspace


def serve_console(
    working_dir: str | None,
    *,
    port: int | None,
    opens: bool,
    draws: bool,
    prints_link: bool,
    makes_key: bool,
    **options: Any,
) -> int:
    """Serve, or do what else was asked for, and end."""
    if makes_key:
        path = key_file(os.environ)
        new_key(path)
        answer(f"{path} holds a new key; every session has ended\n")
        return DONE
    here = workspace_of(working_dir)
    if prints_link:
        answer(link_of_running(here, port) + "\n")
        return DONE
    known = known_workspaces(os.environ) if options["shows_all"] else []
    wanted = Wanted(
        _served(here, options["workspaces"], [one.workspace for one in known if not one.is_gone]),
        options["host"],
        USUAL_PORT if port is None else port,
        options["allowed"],
        options["read_only"],
        tuple(str(one.workspace) for one in known if one.is_gone),
    )

    if draws and not wanted.allowed:
        raise UsageError(
            "--qr needs a host that the phone can reach: --allow-host NAME",
            "with Tailscale: tailscale serve --bg PORT, and NAME is this computer in your tailnet",
        )

    def announce(console: Console, link: str) -> None:
        gone = [f"orchestrate: a workspace is gone: {visible(one)}" for one in console.gone]
        note("".join(f"{line}\n" for line in [*gone, *announcement(console, link)]))
        if draws:
            note(drawing_of(f"{outside_address(console)}#k={console.keys.link()}"))
        if opens:
            webbrowser.open(f"{address_of(console)}#k={link}")

    serve(wanted, announce)
    return DONE


def _served(here: Workspace, folders: tuple[str, ...], known: list[Path]) -> tuple[Workspace, ...]:
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--workspace: '{folder}' is not a folder")
    more = [*folders, *map(str, known)]
    found = {one.root: one for one in (here, *map(open_workspace, more))}
    return tuple(found.values())
