"""`orchestrate completion`: the script that a shell loads, and the answers to what it asks."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrate.cli.completing import complete
from orchestrate.cli.options import json_option
from orchestrate.show.output import answer, answer_json

SCRIPTS = {
    "bash": "complete.bash",
    "zsh": "complete.zsh",
    "fish": "complete.fish",
    "powershell": "complete.ps1",
}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(list(SCRIPTS)), metavar="bash|zsh|fish|powershell")
@click.argument("words", nargs=-1, metavar="[-- WORD...]")
@json_option
def completion(shell: str, words: tuple[str, ...], as_json: bool) -> int:
    """Print the script that lets a shell complete commands, flags, recipes, runs and steps.

    The script says at its top how to load it. With WORDS, print the candidates for the last one:
    the script asks for them this way.
    """
    if not words:
        script = (Path(__file__).parents[1] / "shells" / SCRIPTS[shell]).read_text("utf-8")
        if as_json:
            answer_json({"shell": shell, "script": script})
        else:
            answer(script, is_ours=True)
        return 0
    kind, found = complete(list(words), shell)
    if as_json:
        candidates = [{"value": item.value, "about": item.about} for item in found]
        answer_json({"kind": kind, "candidates": candidates})
        return 0
    answer(f"{kind}\n" + "".join(f"{item.value}\t{item.about}\n" for item in found))
    return 0
