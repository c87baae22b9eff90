"""`orchestrate doctor`: what this computer has of what runs need, and what to do about the rest."""

from __future__ import annotations

import click

from orchestrate.app.reading.doctor import examine
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, place_options
from orchestrate.show.doctor_text import tell_findings
from orchestrate.view.place import Place


@click.command(short_help="Check whether this computer has what runs need.")
@place_options
@json_option
def doctor(place: Place, as_json: bool) -> int:
    """Check the agent programs, locks, git and the configuration.

    Works offline: it only calls the agents with --version, and looks whether a key or login is
    present, not whether the service accepts it. Exit code 5 if something that every run needs is
    missing, else 0. An agent that is not installed is not a fault: you need those that your recipes
    name.
    """
    return tell_findings(examine(workspace_of(place.working_dir), place.state_dir), as_json=as_json)
