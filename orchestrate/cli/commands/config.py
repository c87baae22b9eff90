"""`orchestrate config`: the settings that hold here, and the file and line of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from orchestrate.app.config.in_effect import files_json, origins_json, with_defaults
from orchestrate.app.config.load import load_config
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.show.config_text import leaves_of, without_secrets, yaml_lines
from orchestrate.show.output import answer, answer_json

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace

# Which default holds is up to the dialect, so none can be shown as a value.
_STEP_TIMEOUT = "# step_timeout: 86400 in a machine, 600 in a recipe"


@click.command(short_help="Show the settings in effect, and where each comes from.")
@click.argument("what", type=click.Choice(["show", "path"]), metavar="[show|path]", default="show")
@click.option(
    "--origin",
    is_flag=True,
    help="With show: add the file and line, or the variable, of each setting.",
)
@working_dir_option
@json_option
def config(what: str, origin: bool, working_dir: str | None, as_json: bool) -> int:
    """Show the settings in effect (`show`), or the files they are read from (`path`).

    A flag wins over an ORCHESTRATE_... variable, which wins over .orchestrate/config.yaml of the
    workspace, then the user's file, then the defaults. Values that look like secrets are hidden.
    """
    workspace = workspace_of(working_dir)
    if what == "path":
        if origin:
            raise UsageError("--origin is for `config show`")
        return _show_paths(workspace, as_json)
    loaded = load_config(workspace)
    settings = without_secrets(with_defaults(loaded.values))
    origins = {name: str(loaded.origins.get(name, "default")) for name in leaves_of(settings)}
    if as_json:
        answer_json({"settings": settings, "origins": origins_json(loaded, origins)})
    else:
        answer("".join(f"{line}\n" for line in yaml_lines(settings, origins if origin else {})))
        if "step_timeout" not in settings:
            answer(_STEP_TIMEOUT + ("  # default\n" if origin else "\n"))
    return 0


def _show_paths(workspace: Workspace, as_json: bool) -> int:
    files = files_json(workspace, os.environ)
    if as_json:
        answer_json({"files": files})
    else:
        for file in files:
            there = "" if file["exists"] else "  (not there)"
            answer(f"{file['scope']:9}  {visible(str(file['path']))}{there}\n")
    return 0
