"""`orchestrate fork`: goes another way from a step of a run, in a run of its own."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.given.settings import RunSettings
from orchestrate.cli.later import later
from orchestrate.cli.options import flag_options, json_option, place_options, run_argument
from orchestrate.errors import UsageError
from orchestrate.view.place import Place

_fork_run = later("cli.forking:fork_run")


@click.command(short_help="Go another way from a step of a run, in a new run.")
@run_argument
@click.option("--from", "step", metavar="STEP", required=True,
              help="The first step that runs anew; STEP@2 is its second visit.")  # fmt: skip
@click.option("--worktree", metavar="[NAME]", is_flag=False, flag_value="",
              help="Work in its own git worktree, as by default; NAME is its folder.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Work in this folder, with its files as they are.")
@click.option("--redo", metavar="STEP", multiple=True,
              help="Run this step again, too; repeatable.")  # fmt: skip
@click.option("--accept", metavar="STEP", multiple=True,
              help="Take the recorded result of this step as still good; repeatable.")  # fmt: skip
@flag_options("plan", "context", "agents", "concurrency", "detach", "output")
@place_options
@json_option
def fork(
    run: str,
    step: str,
    worktree: str | None,
    in_place: bool,
    redo: tuple[str, ...],
    accept: tuple[str, ...],
    place: Place,
    as_json: bool,
    **flags: Any,
) -> int:
    """Start a new run that takes over the results of RUN up to a step, and go on from there.

    RUN stays as it is, byte for byte. The definition is read as it is now, and -i gives other
    values to what runs anew. What the results cost is not counted again. Agents that can go on in
    copies of their sessions; others begin a new one and are told what stands.
    """
    if in_place and worktree is not None:
        raise UsageError("--worktree and --in-place exclude each other", "leave one of them out")
    return _fork_run(
        run,
        step,
        RunSettings(worktree=worktree, **flags),
        place,
        request=(redo, accept, in_place),
        as_json=as_json,
    )
