"""`orchestrate worker`: serves pools of a fleet on this machine."""

from __future__ import annotations

import click

from orchestrate.fleet.extra import with_extra

_serve_pools = with_extra("serve_pools:serve_pools")


@click.command(short_help="Serve pools of a fleet on this machine.")
@click.option("--pools", required=True, metavar="A,B", help="The pools to take runs from.")
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    default=4,
    metavar="N",
    help="How many runs may work here at once, over all pools (default: 4).",
)
@click.option(
    "--root",
    required=True,
    metavar="DIR",
    help="The folder of mirrors, seats and run folders; the same on all machines of a pool.",
)
@click.option(
    "--name", metavar="NAME", help="What the machine is called (default: the host's name)."
)
def worker(pools: str, slots: int, root: str, name: str | None) -> int:
    """Take runs that `run --fleet POOL` submits, and let them work on this machine.

    It reads ~/.config/orchestrate/fleet.yaml for the Temporal server, and prints `ready NAME` once
    runs can come. A worker that is terminated hands its runs to others; one that is killed goes on
    with them when it is started again.
    """
    code: int = _serve_pools(pools, slots, root, name)
    return code
