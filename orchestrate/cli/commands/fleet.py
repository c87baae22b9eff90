"""`orchestrate fleet doctor`: whether the machines and the server of `fleet.yaml` can be used."""

from __future__ import annotations

import click

from orchestrate.cli.later import answer_later
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.show.doctor_text import tell_findings

_examine = answer_later("fleet.doctor:examine_fleet")


@click.command(short_help="Check the machines and the server of fleet.yaml.")
@click.argument("what", type=click.Choice(["doctor"]), metavar="doctor")
@click.argument("pools", metavar="[POOL]...", nargs=-1)
@working_dir_option
@json_option
def fleet(what: str, pools: tuple[str, ...], working_dir: str | None, as_json: bool) -> int:  # noqa: ARG001 - there is one
    """Check what `run --fleet` needs: the server, its namespace, TLS and clock, the pools with
    their machines or workers, and the git remote.

    Looks at the pools of fleet.yaml, those that runs on the server use, and those that are named.
    Exit code 5 if something is missing.
    """
    return tell_findings(_examine(pools, working_dir), as_json=as_json)
