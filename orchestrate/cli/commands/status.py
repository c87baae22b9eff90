"""`orchestrate status`: how a run stands, what it is doing or waiting for, and how to go on."""

from __future__ import annotations

import click

from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.errors import UsageError
from orchestrate.view.place import Place

_show_status = later("cli.status_answer:show_status")


@click.command(short_help="Show where a run stands, and how to continue it.")
@run_argument
@click.option("--watch", "watches", is_flag=True,
              help="Keep showing it until it ends, as `attach` does.")  # fmt: skip
@place_options
@json_option
@click.pass_context
def status(
    ctx: click.Context,
    run: str,
    watches: bool,
    place: Place,
    as_json: bool,
) -> int:
    """Show where a run stands: its steps, what it waits for, and the command to continue.

    RUN is its id, the beginning of one, or `latest`. This works at any time. An approval whose time
    is up is decided by its default.
    """
    if watches and as_json:
        raise UsageError("--watch and --json exclude each other", "`wait --json` waits for the end")
    return _show_status(ctx, run, place, watches=watches, as_json=as_json)
