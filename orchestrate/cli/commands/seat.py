"""`orchestrate seat`: takes runs that other machines send; `run --fleet` calls it over ssh."""

from __future__ import annotations

import click

from orchestrate.cli.later import later

_serve = later("fleet.seating:serve")
_run_recipe = later("cli.starting:run_recipe")
_resume_run = later("cli.resuming:resume_run")


_VERBS = (
    "offer", "begin", "publish", "remove", "list", "item", "items", "end", "sit", "follow",
)  # fmt: skip


@click.command(short_help="Take runs from other machines, over ssh.")
@click.argument("verb", type=click.Choice(_VERBS))
@click.pass_context
def seat(ctx: click.Context, verb: str) -> int:
    """Take a run that another machine sends: `run --fleet` calls this over ssh, people need not.

    Reads a JSON document from stdin and answers with one: `offer` says how many slots are free,
    `begin` starts a run in a seat of its own, `publish` lets one at rest be fetched whole, `remove`
    deletes a seat, `list` names the runs here. `item` begins an item of a run or goes on with it,
    `items` tells how those of a run stand, `end` ends them. `sit`, which a worker calls, works on a
    run until it ends or waits; `follow`, which the console calls, fetches what runs elsewhere
    publish.
    """
    ctx.obj["json"] = verb != "sit"
    return _serve(verb, _run_recipe, _resume_run)
