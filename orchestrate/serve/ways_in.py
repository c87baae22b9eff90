"""How to reach a console from elsewhere without opening a port to the network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrate.serve.hosts import is_loopback

if TYPE_CHECKING:
    from orchestrate.serve.console import Console


def address_of(console: Console) -> str:
    """For this computer; a name where the address that we listen on would be refused."""
    host = console.host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    elif not is_loopback(host) and host.lower() not in console.hosts:
        host = console.allowed[0]
    return f"http://{f'[{host}]' if ':' in host else host}:{console.port}/"


def outside_address(console: Console) -> str:
    """For a phone: by the first allowed name; a proxy in front of this computer speaks https."""
    name = console.allowed[0]
    return f"https://{name}/" if is_loopback(console.host) else f"http://{name}:{console.port}/"


def ways_in(console: Console) -> list[tuple[str, str]]:
    """What each way is for, and its command."""
    here = os.uname().nodename
    port = console.port
    return [
        ("from another computer, by ssh", f"ssh -L {port}:127.0.0.1:{port} {here}"),
        (
            "from a phone, by tailscale",
            (
                f"tailscale serve --bg {port}   (and here: orchestrate serve "
                f"--allow-host {here}.YOUR-TAILNET.ts.net)"
            ),
        ),
    ]
