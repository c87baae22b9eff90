"""`orchestrate serve`: the console in a browser, on a phone and for other clients."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from orchestrate.cli.later import later
from orchestrate.cli.options import working_dir_option
from orchestrate.cli.params import Number
from orchestrate.errors import ConfigError

_NEEDS = ("starlette", "uvicorn", "websockets")
_serve = later("serve.command:serve_console")


@click.command(short_help="Show and steer runs in a browser or on a phone.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS",
              help="The address to listen on (default: 127.0.0.1).")  # fmt: skip
@click.option("--port", type=Number(int, 0, 65535), default=None, metavar="N",
              help="The port (default: 8484); 0 takes a free one.")  # fmt: skip
@click.option("--allow-host", "allowed", multiple=True, metavar="NAME",
              help="Answer to this host name, too; repeatable.")  # fmt: skip
@click.option("--workspace", "workspaces", multiple=True, metavar="DIR",
              help="Show the runs of this folder, too; repeatable.")  # fmt: skip
@click.option("--all", "shows_all", is_flag=True,
              help="Show the runs of all workspaces that you have run something in.")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--qr", "draws", is_flag=True,
              help="Draw a one-time link for a phone's camera; needs --allow-host.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Let nothing be started, answered or ended.")
@click.option("--link", "prints_link", is_flag=True,
              help="Print a new link for the server that runs for this workspace, or on --port.")  # fmt: skip  # noqa: E501
@click.option("--new-key", "makes_key", is_flag=True,
              help="Replace the key; every browser is signed out.")  # fmt: skip
@working_dir_option
def serve(working_dir: str | None, **options: Any) -> int:
    """Show and steer the runs of this workspace in a browser or on a phone.

    The server owns nothing: it reads the run folders and does what the commands do, so that runs go
    on without it. It listens on this computer only, and the printed link signs one browser in.
    Needs the extra: pip install 'orchestrate[serve]'.
    """
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"`orchestrate serve` needs {', '.join(missing)}",
            "install the extra: pip install 'orchestrate[serve]'",
        )
    return _serve(working_dir, **options)
