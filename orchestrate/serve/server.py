"""Runs a console: its socket, its note in the user's state folder, and what is printed."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from orchestrate.errors import ConfigError, UsageError
from orchestrate.exits import DONE, INTERRUPTED
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.serve.app import make_app
from orchestrate.serve.console import Console
from orchestrate.serve.elsewhere import Elsewhere
from orchestrate.serve.hosts import is_loopback, split_host
from orchestrate.serve.keys import AccessKeys, key_file, make_link, serve_folder
from orchestrate.serve.patience import PatientProtocol, PatientSocket
from orchestrate.serve.ways_in import address_of, ways_in
from orchestrate.state.durable import dump_json, parse_json, read_file, write_durably
from orchestrate.state.locks import LockHeldError, is_held, read_owner, take

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace

USUAL_PORT = 8484
# Frames of clients; a longer one closes the connection with 1009.
MOST_FRAME = 256 * 1024
_MOST_CLIENTS = 256
# How often a WebSocket client has to show that it is there, and how long it may take.
_PING_S = 20.0


@record
class Wanted:
    """What the command line asks of a server."""

    workspaces: tuple[Workspace, ...]
    host: str = "127.0.0.1"
    port: int = USUAL_PORT
    allowed: tuple[str, ...] = ()
    read_only: bool = False
    missing: tuple[str, ...] = ()


class _Server(uvicorn.Server):
    """Ends at once when it is told to: no run depends on it, and clients come back."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._wake: Callable[[], object] = lambda: None

    async def main_loop(self) -> None:
        """Wait for the end; uvicorn's own looks ten times a second whether it has come."""
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        # A signal alone does not wake a loop that waits.
        self._wake = lambda: loop.call_soon_threadsafe(told.set)
        if not self.should_exit:
            await told.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = True
        super().handle_exit(sig, frame)
        self._wake()


def serve(wanted: Wanted, announce: Callable[[Console, str], None]) -> None:
    """Serve until a signal ends it; `announce` hears of the server and its one-time link."""
    check_hosts(wanted)
    # uvicorn hands the signal on once it has ended.
    signal.signal(signal.SIGTERM, _end)
    with _without_waiting(), closing(_listen(wanted)) as listener:
        port = int(listener.getsockname()[1])
        wanted = replace(wanted, port=port)
        console = make_console(wanted)
        with _noted(console), Elsewhere(console):
            console.keys.api_key()
            announce(console, console.keys.link())
            server = _Server(config_of(console))
            collect_often()
            asyncio.new_event_loop().run_until_complete(server.serve([listener]))


@contextmanager
def _without_waiting() -> Iterator[None]:
    """End the process with what it is in: a thread that reads a large run would hold it up."""
    code = DONE
    try:
        yield
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as end:
        code = int(end.code or DONE)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def collect_often() -> None:
    """A command looks for garbage rarely; here each look at a large run leaves megabytes of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(1000, 10, 3)


def _end(number: int, _: FrameType | None) -> None:
    """End as a process does by such a signal, but not without cleaning up."""
    sys.exit(128 + number)


def make_console(wanted: Wanted) -> Console:
    keys = AccessKeys(key_file(os.environ), links_of(wanted.port), wanted.port)
    return Console(
        wanted.workspaces, keys, wanted.host, wanted.port, wanted.allowed, wanted.read_only,
        wanted.missing,
    )  # fmt: skip


def config_of(console: Console) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(console),
        loop="asyncio",
        http=PatientProtocol,
        ws=PatientSocket,
        lifespan="off",
        log_config=None,
        # What a stranger sends is not news; a bug of ours is, where it is looked for.
        log_level="error" if os.environ.get("ORCHESTRATE_DEBUG") == "1" else "critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # The guard says the date; uvicorn would keep it by looking at the clock each second.
        date_header=False,
        ws_max_size=MOST_FRAME,
        ws_ping_interval=_PING_S,
        ws_ping_timeout=_PING_S,
        limit_concurrency=_MOST_CLIENTS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
    )


def check_hosts(wanted: Wanted) -> None:
    if not is_loopback(wanted.host) and not wanted.allowed:
        raise UsageError(
            f"--host {wanted.host} opens the console to the network: name the hosts that clients "
            "use with --allow-host NAME",
            "or leave both out, and come in by ssh -L or tailscale serve",
        )
    for name in wanted.allowed:
        known = split_host(name)
        if known is None or known[1] is not None:
            raise UsageError(
                f"--allow-host {visible(name)} is not the name of a host",
                "without http:// and without a port, as in --allow-host work.example",
            )


def _listen(wanted: Wanted) -> socket.socket:
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((wanted.host, wanted.port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) else str(error)
        ours = _whose(wanted.port)
        raise ConfigError(
            f"cannot listen on {wanted.host}:{wanted.port}: {why}" + (f"; {ours}" if ours else ""),
            "another port: --port N, or --port 0 for a free one",
        ) from None
    return listener


def _whose(port: int) -> str:
    """Who has the port, if it is a console of this user."""
    lock = serve_folder(os.environ) / f"{port}.lock"
    owner = read_owner(lock)
    if owner is None or not is_held(lock):
        return ""
    where = ", ".join(_served_by(port))
    return f"orchestrate serve has it: {owner.describe()}, for {where}"


def links_of(port: int) -> Path:
    return serve_folder(os.environ) / f"{port}.links"


@contextmanager
def _noted(console: Console) -> Iterator[None]:
    """While it runs, `serve --link` finds the server by its workspaces or its port."""
    folder = serve_folder(os.environ)
    try:
        lock = take(folder / f"{console.port}.lock", f"port {console.port}", sys.argv)
    except LockHeldError as error:
        raise ConfigError(error.message, "another port: --port N") from None
    note = folder / f"{console.port}.json"
    roots = [str(one.root) for one in console.workspaces]
    try:
        write_durably(note, dump_json({"address": address_of(console), "workspaces": roots}))
        yield
    finally:
        note.unlink(missing_ok=True)
        shutil.rmtree(links_of(console.port), ignore_errors=True)
        lock.remove()


def _note_of(port: int) -> dict[str, Any]:
    try:
        found = parse_json(read_file(serve_folder(os.environ) / f"{port}.json") or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _served_by(port: int) -> list[str]:
    return [str(one) for one in _note_of(port).get("workspaces", ())]


def link_of_running(workspace: Workspace, port: int | None) -> str:
    """The address, with a new one-time link, of the server that runs for a workspace."""
    folder = serve_folder(os.environ)
    ports = [int(path.stem) for path in folder.glob("*.lock") if path.stem.isdigit()]
    running = [one for one in sorted(ports) if is_held(folder / f"{one}.lock")]
    fitting = [
        one for one in running
        if (one == port if port is not None else str(workspace.root) in _served_by(one))
    ]  # fmt: skip
    if not fitting:
        shown = ", ".join(f"{one} ({', '.join(_served_by(one))})" for one in running)
        what = f"on port {port}" if port is not None else f"for {workspace.root}"
        raise UsageError(
            f"no console runs {what}",
            f"running: {shown}; name one with --port" if shown else "start one: orchestrate serve",
        )
    address = _note_of(fitting[0]).get("address", f"http://127.0.0.1:{fitting[0]}/")
    return f"{address}#k={make_link(links_of(fitting[0]))}"


def announcement(console: Console, link: str) -> list[str]:
    """The lines that a started server prints."""
    roots = ", ".join(str(one.root) for one in console.workspaces)
    lines = [
        f"orchestrate serve: {roots}" + (" (read-only)" if console.read_only else ""),
        f"  open:   {address_of(console)}#k={link}   (once, within 2 minutes)",
        "  again:  orchestrate serve --link",
    ]
    return lines + [f"  {what}:\n          {command}" for what, command in ways_in(console)]
