"""The worker of a machine: polls the queues of its pools, and holds the sittings that come.

One process for each root, of one name in the namespace. Its registration is its polling.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import FixedSizeSlotSupplier, Worker, WorkerTuner

from orchestrate import __version__
from orchestrate.app.reading.doctor import programs_here
from orchestrate.errors import ConfigError
from orchestrate.fleet.engine import seat_for
from orchestrate.fleet.hold import Holder
from orchestrate.fleet.inventory import EXAMINE, Inventory, OrchestrateMachine
from orchestrate.fleet.notes import Note
from orchestrate.fleet.permit import PERMITS_QUEUE, OrchestratePermit
from orchestrate.fleet.permits import Permits
from orchestrate.fleet.pollers import live_pollers
from orchestrate.fleet.protocol import (
    PROTOCOL,
    SIT,
    Sat,
    Sitting,
    machine_queue,
    pool_queue,
)
from orchestrate.fleet.slots import Slots
from orchestrate.fleet.workflow import OrchestrateRun
from orchestrate.record import record
from orchestrate.state.durable import read_file, write_durably

_READY_S = 60.0
_LOOK_S = 0.1
# Sittings that are asked for again, and questions about the machine, hold no slot.
_MACHINE_TASKS = 200
_WORKFLOW_TASKS = 100
# What is for a worker that knows a run goes to others so soon when that one is dead.
_STICKY = timedelta(seconds=2)


@record
class Machine:
    """What a worker is started with."""

    name: str
    root: Path
    pools: tuple[str, ...]
    slots: int
    # How many calls of an agent its account may have at once.
    limits: Mapping[str, int]
    # How long what it announces holds without a word.
    silence_s: float

    @property
    def identity(self) -> str:
        """The name, and by which root it is: so it knows polls of its own predecessor."""
        return f"{self.name}@{_own_id(self.root)}"


def take_root(root: Path) -> int:
    """Become the one worker of a root, for as long as the descriptor that is given is open."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(root / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"another worker works in {root}", "give each worker a --root of its own"
        ) from None
    except OSError as error:
        raise ConfigError(f"{root} cannot be used: {error.strerror}") from error
    return descriptor


async def work(client: Client, machine: Machine, tell: Callable[[str], None]) -> None:
    """Serve the pools until a signal says otherwise."""
    await _refuse_namesake(client, machine)
    holder = Holder(client, machine.root, machine.name)
    slots = Slots(machine.slots)
    permits = Permits(client, machine.name, machine.limits, machine.silence_s)
    await permits.begin(machine.root)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, holder.leaving.set)
    holding = _Holding(holder, slots)
    for note in holder.notes:
        # What an earlier process of this worker has promised.
        slots.take_up()
        holding.begin(note, is_found=True)
    workers = _workers(client, machine, holding, slots)
    # Alone on the queue of its name before it takes anything: sittings are asked for again there.
    serving = [asyncio.ensure_future(workers[0].run())]
    leaves: asyncio.Future[Any] = asyncio.ensure_future(holder.leaving.wait())
    try:
        await _be_first(client, machine, {leaves, *serving})
        serving += [asyncio.ensure_future(worker.run()) for worker in workers[1:]]
        await _announce(client, machine, tell, {leaves, *serving})
        await asyncio.wait({leaves, *serving}, return_when=asyncio.FIRST_COMPLETED)
        for one in serving:
            if one.done():
                one.result()  # what went wrong with it
    finally:
        holder.leaving.set()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await holding.end()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*serving)
        await permits.close()


async def _refuse_namesake(client: Client, machine: Machine) -> None:
    if await live_pollers(client, machine_queue(machine.name)) - {machine.identity}:
        raise _namesake(client, machine)


def _namesake(client: Client, machine: Machine) -> ConfigError:
    return ConfigError(
        f"another worker is called {machine.name} in the namespace {client.namespace}",
        "give each worker a --name of its own",
    )


async def _be_first(client: Client, machine: Machine, ends: set[asyncio.Future[Any]]) -> None:
    """Of two of one name that start together, and see each other only now, one is refused."""
    queue = machine_queue(machine.name)
    for _ in range(int(_READY_S / _LOOK_S)):
        known = await live_pollers(client, queue)
        if machine.identity in known or any(one.done() for one in ends):
            if known and min(known) < machine.identity:
                raise _namesake(client, machine)
            return
        await asyncio.sleep(_LOOK_S)


async def _announce(
    client: Client,
    machine: Machine,
    tell: Callable[[str], None],
    ends: set[asyncio.Future[Any]],
) -> None:
    """Say that it is ready, once the server knows of it."""
    queues = [*map(pool_queue, machine.pools), machine_queue(machine.name)]
    for _ in range(int(_READY_S / _LOOK_S)):
        known = [await live_pollers(client, queue) for queue in queues]
        if any(one.done() for one in ends):
            return
        if all(machine.identity in pollers for pollers in known):
            break
        await asyncio.sleep(_LOOK_S)
    tell(f"ready {machine.name}: {', '.join(machine.pools)} ({machine.slots} slots)\n")


class _Holding:
    """The sittings of this process, each in a task of its own, from its slot to its report.

    None is held by the activity that has brought it: an activity that goes on without heartbeats
    of the SDK's own is cancelled by the SDK, which does not know of those by id.
    """

    def __init__(self, holder: Holder, slots: Slots) -> None:
        self.holder = holder
        self._slots = slots
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, note: Note, *, is_found: bool = False) -> None:
        task = asyncio.ensure_future(self._hold(note, is_found=is_found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Those that are left, once nothing more is taken."""
        await asyncio.gather(*self._tasks)

    async def _hold(self, note: Note, *, is_found: bool) -> None:
        holder, has_slot = self.holder, is_found or not note.sitting.is_again
        seat = seat_for(note.sitting, holder.root, holder.machine)
        async with self._slots.used_by(seat, has_slot=has_slot):
            await holder.hold(note, is_found=is_found)


def _workers(client: Client, machine: Machine, holding: _Holding, slots: Slots) -> list[Worker]:
    """One for each pool, with shared slots, and one for what only this machine knows."""

    @activity.defn(name=SIT)
    async def sit(sitting: Sitting) -> Sat:
        info = activity.info()
        note = Note(
            info.workflow_id or "", info.workflow_run_id or "", info.activity_id, sitting
        )  # fmt: skip
        if sitting.order.protocol != PROTOCOL:
            return _foreign(machine.name, sitting.order.protocol)
        if holding.holder.leaving.is_set():
            return Sat("nothing", machine.name)
        if info.task_queue == machine_queue(machine.name):
            if not sitting.is_again:
                slots.take_up()  # nobody else has what it goes on with: it is not handed back
        elif not slots.take(info.task_queue):
            return Sat("busy", machine.name)
        holding.begin(note)
        return _completed_by_id()

    @activity.defn(name=EXAMINE)
    async def examine() -> Inventory:
        return Inventory(__version__, await holding.holder.call(programs_here))

    patience = timedelta(days=1)  # sittings end by themselves when the worker leaves
    fixed = FixedSizeSlotSupplier
    tuner = WorkerTuner.create_composite(
        workflow_supplier=fixed(_WORKFLOW_TASKS),
        activity_supplier=slots,
        local_activity_supplier=fixed(1),
        nexus_supplier=fixed(1),
    )
    of_pools = [
        Worker(
            client, task_queue=pool_queue(pool), workflows=[OrchestrateRun], activities=[sit],
            tuner=tuner, identity=machine.identity, max_concurrent_activity_task_polls=1,
            max_concurrent_workflow_task_polls=2, disable_eager_activity_execution=True,
            graceful_shutdown_timeout=patience, sticky_queue_schedule_to_start_timeout=_STICKY,
        )
        for pool in machine.pools
    ]  # fmt: skip
    own = Worker(
        client, task_queue=machine_queue(machine.name), workflows=[OrchestrateMachine],
        activities=[sit, examine], identity=machine.identity,
        max_concurrent_activities=_MACHINE_TASKS, max_concurrent_activity_task_polls=2,
        graceful_shutdown_timeout=patience,
    )  # fmt: skip
    of_permits = Worker(
        client, task_queue=PERMITS_QUEUE, workflows=[OrchestratePermit], identity=machine.identity
    )  # fmt: skip
    return [own, *of_pools, of_permits]


def _completed_by_id() -> Sat:
    """The server will hear the result beside this activity's own answer."""
    activity.raise_complete_async()


def _foreign(machine: str, spoken: int) -> Sat:
    told = f"{machine} speaks protocol {PROTOCOL} of orchestrate, not {spoken}"
    return Sat("ended", machine, "failed", ConfigError.exit_code, told=told)


def _own_id(root: Path) -> str:
    known = read_file(root / "worker.id")
    if known is None:
        known = os.urandom(6).hex().encode()
        write_durably(root / "worker.id", known)
    return known.decode("ascii")


def pools_of(text: str) -> tuple[str, ...]:
    """The pools that a worker is to serve."""
    names: Sequence[str] = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"--pools {text}: write names with commas between them, each once")
    return tuple(names)
