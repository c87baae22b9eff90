"""Submits a run to a server: the workspace is pushed to the remote, and the workflow started."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from orchestrate.app.starting.prepare import Prepared
from orchestrate.app.working.reporter import GRACE_S
from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.users import Repository
from orchestrate.errors import ConfigError
from orchestrate.fleet.protocol import WORKFLOW, Order, Timing, pool_queue
from orchestrate.fleet.seat import Seat, work_ref
from orchestrate.fleet.settings import FleetSettings
from orchestrate.fleet.stub import Stub
from orchestrate.fleet.submit import (
    Consent,
    flags_to_send,
    mirror_name,
    named_there,
    path_inside,
    refuse_spread,
    repository_of,
    require_consent,
    take_snapshot,
    tell_staying,
)
from orchestrate.fleet.transport import push, require_git, users_call
from orchestrate.state.runs import make_run_id


async def enqueue(
    client: Client,
    settings: FleetSettings,
    pool: str,
    prepared: Prepared,
    recipe: tuple[str, str | None],
    may_take: Consent,
) -> Stub:
    """Start a run on whichever machine of a pool takes it; the recipe is a file and its text."""
    refuse_spread(prepared.program, settings.pools, is_server=True)
    program = require_git()
    workspace = prepared.workspace.root
    repository = repository_of(program, workspace)
    remote = remote_of(settings, repository)
    flags = flags_to_send(prepared.settings, workspace)
    # Within the grace of a sitting its programs end, and it publishes itself.
    if prepared.settings.kill_grace is None and settings.timing.grace < 2 * GRACE_S:
        flags["kill_grace"] = settings.timing.grace / 2
    file = named_there(recipe[0], workspace)
    run = make_run_id(time.time(), os.urandom)
    known = settings.pools.get(pool)
    timing = settings.timing
    order = Order(
        run=run,
        pool=pool,
        remote=remote,
        mirror=mirror_name(repository),
        inside=path_inside(repository, workspace),
        publish=settings.publish,
        file=file,
        text=recipe[1],
        flags=flags,
        prepare=list(known.prepare) if known else [],
        timing=Timing(
            timing.lease, timing.grace, timing.beat, timing.heartbeat_timeout, timing.lost_after
        ),
        is_sha256=repository.is_sha256,
    )
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        snapshot = take_snapshot(Path(folder), program, repository)
        require_consent(snapshot, remote, may_take)
        tell_staying(snapshot)
        refs = {work_ref(run): ("", snapshot.commit)}
        try:
            push(program, snapshot.store, remote, refs, objects=repository.objects)
        except CheckpointError as error:
            raise ConfigError(f"the files could not be pushed to {remote}", error.hint) from None
        try:
            await start_order(client, order)
        except RPCError as error:
            with suppress(CheckpointError):
                users_call(program, snapshot.store, "push", "-q", remote, f":{work_ref(run)}")
            raise ConfigError(f"the server refused the run: {error.message}") from None
    seat = Seat(run, "", order.mirror, order.inside, order.publish, remote)
    return Stub(seat, "", pool, file)


async def start_order(client: Client, order: Order) -> None:
    """Start the workflow of a run or an item; one that is at work already stays as it is."""
    await client.start_workflow(
        WORKFLOW,
        order,
        id=order.id,
        task_queue=pool_queue(order.pool),
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        memo={"status": "running", "pool": order.pool, "machine": "", "protocol": order.protocol},
    )


def remote_of(settings: FleetSettings, repository: Repository) -> str:
    """The address of the repository that carries runs: a remote of the user's, or a URL."""
    named = settings.remote
    if not named:
        raise ConfigError(
            f"{settings.path} names no `remote`, which carries workspaces and runs",
            "write there: remote: NAME-OR-URL (a git remote that you and the workers may push to)",
        )
    with suppress(CheckpointError):
        return repository.reader.output("remote", "get-url", named).decode().strip()
    if ":" in named:
        return named
    path = os.path.abspath(os.path.join(repository.top, os.path.expanduser(named)))
    if not os.path.isdir(path):
        raise ConfigError(
            f"`remote: {named}` in {settings.path} is neither a git remote of {repository.top} "
            "nor a URL",
            "see: git remote -v",
        )
    return path
