"""`orchestrate fetch`: what a run elsewhere has published, as a branch and a run folder."""

from __future__ import annotations

import click

from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.view.place import Place

_fetch_run = later("fleet.fetch_run:fetch_run")


@click.command(short_help="Bring a run of another machine here.")
@run_argument
@place_options
@json_option
def fetch(run: str, place: Place, as_json: bool) -> int:
    """Fetch what a run on another machine has published: its workspace as the branch
    `orchestrate/RUN`, and its folder. Neither the files here, nor the index, nor HEAD change.

    RUN is its id, the beginning of one, or `latest`. A run that has ended is a run of this
    workspace from then on; one that goes on stays on its machine, and may be fetched again.
    """
    return _fetch_run(run, place, as_json=as_json)
