"""`orchestrate guide`: how to write recipes, on one page, for a coding agent."""

from __future__ import annotations

import click

from orchestrate.cli.options import json_option
from orchestrate.show.output import answer, answer_json
from orchestrate.workspace import package_data

_FENCE = "---\n"


@click.command(short_help="Print how to write recipes, for a coding agent.")
@click.option("--skill", is_flag=True, help="Print it as a skill file, with its front matter.")
@json_option
def guide(skill: bool, as_json: bool) -> int:
    """Print how to write, check and run recipes: one page for a coding agent.

    Tell your agent to run this command, or save the page as a skill.
    """
    text = (package_data() / "skills" / "orchestrate-recipes" / "SKILL.md").read_text("utf-8")
    front, body = _split(text)
    if as_json:
        answer_json({"name": front["name"], "description": front["description"], "text": body})
    else:
        answer(text if skill else body)
    return 0


def _split(text: str) -> tuple[dict[str, str], str]:
    """The front matter, which is ours and simple, and the page."""
    _, front, body = text.split(_FENCE, 2)
    pairs = (line.partition(": ") for line in front.splitlines())
    return {name: value for name, _, value in pairs}, body
