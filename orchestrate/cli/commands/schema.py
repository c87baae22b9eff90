"""`orchestrate schema`: the shipped JSON Schemas, for editors and other tools."""

from __future__ import annotations

import click

from orchestrate.cli.options import json_option
from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_bytes, answer_json
from orchestrate.workspace import package_data

SCHEMAS: dict[str, str] = {
    "machine": "A recipe of states and outcomes.",
    "recipe": "A recipe of steps or stages for agents.",
    "workflow": "A workflow of commands, providers and loops.",
    "config": "The configuration file .orchestrate/config.yaml.",
    "fleet": "The pools of machines of a user, fleet.yaml.",
    "agent": "The front matter of an agent definition.",
    "state": "The state file of a run.",
    "status": "The status that a step reports (status/v1).",
    "qa_verdict": "The verdict of a QA step.",
}


@click.command(short_help="Print a JSON Schema, for editors and other tools.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--list", "list_all", is_flag=True, help="List the names instead.")
@json_option
def schema(name: str | None, list_all: bool, as_json: bool) -> int:
    """Print a JSON Schema for editors and other tools; without NAME, list them."""
    if name is None or list_all:
        _list_names(as_json)
        return 0
    if name not in SCHEMAS:
        near = closest(name, SCHEMAS)
        also = f" (did you mean '{near}'?)" if near else ""
        raise UsageError(f"there is no schema '{name}'{also}", f"known: {', '.join(SCHEMAS)}")
    answer_bytes((package_data() / "schemas" / f"{name}.schema.json").read_bytes())
    return 0


def _list_names(as_json: bool) -> None:
    if as_json:
        answer_json({"schemas": [{"name": n, "description": d} for n, d in SCHEMAS.items()]})
    else:
        width = max(map(len, SCHEMAS))
        answer("".join(f"{name:{width}}  {about}\n" for name, about in SCHEMAS.items()))
