"""Commands about a run on a server: those that look see its shadow, the others become signals."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.prepare import Prepared
from orchestrate.errors import ConfigError, OrchestrateError, StateError, UsageError
from orchestrate.exits import DONE, FAILED
from orchestrate.fleet.connect import connect
from orchestrate.fleet.enqueue import enqueue
from orchestrate.fleet.forward import refuse_here, without_places
from orchestrate.fleet.protocol import Wish
from orchestrate.fleet.release import remove_published
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.server_run import ServerRun
from orchestrate.fleet.settings import FleetSettings, load_fleet
from orchestrate.fleet.shadow import Shadow
from orchestrate.fleet.spread import decision_of
from orchestrate.fleet.standing import Standing
from orchestrate.fleet.stub import Stub
from orchestrate.plan.visible import visible, visible_lines
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.result import Approval
from orchestrate.state.runs import Run
from orchestrate.state.users import user_name
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import run_view

# Between two looks at the server, and at the remote.
_LOOK_S = 0.5
_FETCH_S = 2.0
# How long a run that was told something may take to show it.
_HEARD_S = 5.0
# A server that is busy, or whose workers are, may take a while.
_SERVED_S = 30.0
_OVER = ("completed", "cancelled")
_CANCELLED = "is cancelled for good: it cannot be resumed"
# What is open on the server can go on, also after a failure.
_ENDED = {
    "completed": "is completed; there is nothing left to do",
    "failed": "was denied; a denial is final",
    "cancelled": "was cancelled for good",
}


def submit_to_server(
    settings: FleetSettings,
    pool: str,
    prepared: Prepared,
    recipe: tuple[str, str | None],
    may_take: Callable[[list[str]], bool],
) -> Stub:
    """Submit a run to a pool of the server; a pool without a worker is named at once."""
    settings.timing.check()
    _refuse_long_grace(settings, prepared.settings)

    async def submit() -> Stub:
        client = await connect(settings)
        stub = await enqueue(client, settings, pool, prepared, recipe, may_take)
        if not await ServerRun(client, stub.seat.run).has_worker(pool):
            note(f"no worker serves the pool {visible(pool)}: the run waits for one\n")
        return stub

    return asyncio.run(submit())


def _refuse_long_grace(settings: FleetSettings, given: RunSettings) -> None:
    """A sitting that is ended has to end its programs, and to publish itself, in its own time."""
    if given.kill_grace is not None and given.kill_grace >= settings.timing.grace:
        raise UsageError(
            f"kill_grace is {given.kill_grace:g} s, which does not fit into the fleet's grace of "
            f"{settings.timing.grace:g} s",
            f"configure less, or set `timing: {{grace: SECONDS}}` in {settings.path}",
        )


def _no_flags(_: list[str]) -> tuple[RunSettings, bool]:
    return RunSettings(), False


def carry_out_on_server(
    words: Sequence[str],
    run: Run,
    stub: Stub,
    read_flags: Callable[[list[str]], tuple[RunSettings, bool]] = _no_flags,
) -> int:
    """What a command does with a run that is on a server; its exit code.

    `read_flags` reads the flags of `resume`.
    """
    command, *rest = words
    refuse_here(command, rest, run.id, "a server")
    kept = without_places(rest)
    return asyncio.run(_Client(run, stub, read_flags).carry_out(command, kept))


def standings(runs: Sequence[str]) -> dict[str, str]:
    """How runs stand, by the server's word; those that it does not tell are left out."""

    async def ask() -> dict[str, str]:
        client = await connect(load_fleet())
        found: dict[str, str] = {}
        for run in runs:
            try:
                found[run] = (await ServerRun(client, run).standing()).status
            except OrchestrateError as error:
                note(f"orchestrate: {visible(error.message)}\n")
        return found

    return asyncio.run(ask())


def stub_of(settings: FleetSettings, run: str) -> Stub | None:
    """A run of the namespace, wherever it was started; None if there is none of that id."""

    async def ask() -> Stub | None:
        server = ServerRun(await connect(settings), run)
        order = await server.order()
        if order is None:
            return None
        seat = Seat(run, "", order.mirror, order.inside, order.publish, order.remote)
        return Stub(seat, "", order.pool, order.file)

    return asyncio.run(ask())


def release_refs(run: str, stub: Stub) -> int:
    """Remove what a run has published, unless it can still go on."""

    async def ask() -> bool:
        server = ServerRun(await connect(load_fleet()), run)
        try:
            return (await server.standing()).is_open
        except StateError:
            return False  # the server has forgotten it long ago

    if asyncio.run(ask()):
        raise StateError(f"run {run} is open on the server", f"orchestrate cancel {run}")
    remove_published(stub)
    return DONE


class _Client:
    """One command about one run."""

    def __init__(
        self,
        run: Run,
        stub: Stub,
        read_flags: Callable[[list[str]], tuple[RunSettings, bool]],
    ) -> None:
        self._run = run
        self._read_flags = read_flags
        self._stub = stub
        self._shadow = Shadow(run, stub)

    async def carry_out(self, command: str, words: list[str]) -> int:
        self._server = ServerRun(await connect(load_fleet()), self._run.id)
        match command:
            case "approve" | "deny":
                return await self._decide(command, words)
            case "cancel" | "stop":
                return await self._end(command, "--json" in words)
            case "resume":
                return await self._resume(words)
            case _:
                return await self._look(command, words)

    async def _look(self, command: str, words: list[str]) -> int:
        """Let the command look at the shadow, which follows the run meanwhile."""
        waits = command in ("attach", "wait") or (
            command == "logs" and {"-f", "--follow"} & {*words}
        )
        stands = await self._published(waits=bool(waits))
        if not self._shadow.run.root.is_dir():
            return self._tell_unpublished(stands, "--json" in words, is_end=bool(waits))
        machine = stands.machine or f"pool {stands.pool}"
        self._shadow.set_at_work(stands.is_at_work, machine)
        child = await self._begin(command, words)
        ends = asyncio.ensure_future(child.wait())
        fetched = time.monotonic()
        while not ends.done() and stands.is_at_work:
            await asyncio.wait({ends}, timeout=_LOOK_S)
            stands = await self._server.standing()
            if not stands.is_at_work or time.monotonic() - fetched >= _FETCH_S:
                await asyncio.to_thread(self._shadow.refresh)
                fetched = time.monotonic()
        self._shadow.set_at_work(False)
        code = await ends
        if not waits and stands.told and not self._has_published(stands):
            note(f"{visible_lines(stands.told)}\n")
        if waits and stands.told and code != stands.code:
            note(f"orchestrate: {visible_lines(stands.told)}\n")
            return stands.code
        return code

    async def _published(self, *, waits: bool) -> Standing:
        """How the run stands, with the shadow of that; with `waits` until there is something."""
        while True:
            stands = await self._server.standing()
            await asyncio.to_thread(self._shadow.refresh)
            # A run that goes on publishes that first: until then its shadow is at an earlier end.
            if not waits or not stands.is_at_work or self._shadow.is_under_way:
                return stands
            if stands.hindrance:
                note_once(f"orchestrate: {visible(stands.hindrance)}\n")
            await asyncio.sleep(_LOOK_S)

    def _has_published(self, stands: Standing) -> bool:
        """Is what was published that of the end that the server knows of?"""
        return stands.is_at_work or summary_of(self._shadow.run).status == stands.status

    def _tell_unpublished(self, stands: Standing, as_json: bool, *, is_end: bool) -> int:
        where = f" on {stands.machine}" if stands.machine else ""
        if as_json:
            answer_json(
                {"run_id": self._run.id, "status": stands.status, "pool": stands.pool,
                 "machine": stands.machine, "reason": stands.hindrance or stands.told}
            )  # fmt: skip
        else:
            answer(
                f"run {self._run.id} is {stands.status}{visible(where)} (pool "
                f"{visible(stands.pool)}); it has published nothing yet\n"
            )
            if told := stands.hindrance or stands.told:
                note(f"{visible_lines(told)}\n")
        return stands.code if is_end else 0

    async def _begin(self, command: str, words: Sequence[str]) -> asyncio.subprocess.Process:
        """The command itself, in the shadow: no flag says so, so that its advice holds here."""
        # -P: nothing that lies in the workspace may stand in for our own modules.
        return await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "orchestrate", command, *words,
            env={**os.environ, "ORCHESTRATE_STATE_DIR": str(self._shadow.states)},
        )  # fmt: skip

    async def _decide(self, command: str, words: list[str]) -> int:
        """Decided in the shadow as anywhere, so that it is refused as anywhere, and then told."""
        await self._published(waits=False)
        if not self._shadow.run.root.is_dir():
            raise UsageError(f"run {self._run.id} waits for no approval: it has published nothing")
        untold = self._shadow.untold
        was_cut_off = untold.exists()
        before = {gate.visited for gate in run_view(self._shadow.run).state.pending}
        goes_on = "--resume" in words
        untold.touch()
        child = await self._begin(command, [word for word in words if word != "--resume"])
        code = await child.wait()
        decided = [
            one
            for one in run_view(self._shadow.run).state.approvals
            if _is_decided(one) and (was_cut_off or one.visited in before)
        ]
        if not decided or (code != 0 and not was_cut_off):
            untold.unlink()
            return code
        stands = await self._server.standing()
        for gate in decided:
            await self._server.decide(decision_of(gate))
        untold.unlink()
        _refuse_late(decided, await self._await_sitting(stands, waits=goes_on))
        return await self._look("attach", [self._run.id]) if goes_on and code == 0 else code

    async def _await_sitting(self, before: Standing, *, waits: bool) -> Standing:
        """Until the run has heard it, so that a command that looks then sees that it goes on.

        With `waits` however long that takes; else as long as a worker may be about to.
        """
        began = time.monotonic()
        while True:
            now = await self._server.standing()
            if now.is_at_work or not now.is_open or now.sitting > before.sitting:
                note(f"run {self._run.id} goes on\n")
                return now
            passed = time.monotonic() - began
            if passed > _HEARD_S and not await self._server.has_worker(before.pool):
                note_once(
                    f"no worker serves the pool {visible(before.pool)}: the run waits for one\n"
                )
                if not waits:
                    return now
            if passed > _SERVED_S and not waits:
                return now
            await asyncio.sleep(_LOOK_S / 5)

    async def _end(self, how: str, as_json: bool) -> int:
        stands = await self._server.standing()
        if not stands.is_open or (how == "stop" and not stands.is_at_work):
            return self._told(f"run {self._run.id} is {stands.status}; there is nothing to {how}",
                              stands, as_json)  # fmt: skip
        is_served = await self._server.has_worker(stands.pool)
        if how == "cancel" and not is_served and await self._server.drop():
            return self._told(
                f"run {self._run.id} {_CANCELLED}", await self._server.standing(), as_json
            )
        await self._server.end(how, user_name(os.environ))
        while stands.is_at_work or (how == "cancel" and stands.is_open):
            why = stands.hindrance
            if not why and not await self._server.has_worker(stands.pool):
                why = f"no worker serves the pool {stands.pool}"
            if why:
                return self._told(f"{why}: run {self._run.id} ends when one does", stands, as_json)
            await asyncio.sleep(_LOOK_S)
            stands = await self._server.standing()
        done = "is stopped" if how == "stop" else _CANCELLED
        if stands.status in _OVER and (how == "stop" or stands.status != "cancelled"):
            done = "had ended before"
        return self._told(f"run {self._run.id} {done}", stands, as_json)

    def _told(self, message: str, stands: Standing, as_json: bool) -> int:
        if as_json:
            answer_json({"run_id": self._run.id, "status": stands.status, "message": message})
        else:
            answer(visible(message) + "\n")
        return 0

    async def _resume(self, words: list[str]) -> int:
        settings, as_json = self._read_flags(words)
        stands = await self._server.standing()
        if stands.is_at_work:
            where = stands.machine or f"the pool {stands.pool}"
            raise ConfigError(
                f"run {self._run.id} is at work on {visible(where)}",
                f"watch it: orchestrate attach {self._run.id}",
            )
        if not stands.is_open:
            self._told(f"run {self._run.id} {_ENDED[stands.status]}", stands, as_json)
            return DONE if stands.status == "completed" else FAILED
        flags = {row.name: getattr(settings, row.name) for row in settings.given() if row.kept}
        sent = {name: list(one) if isinstance(one, tuple) else one for name, one in flags.items()}
        await self._server.resume(Wish(flags=sent, by=user_name(os.environ)))
        await self._await_sitting(stands, waits=not settings.detach)
        if settings.detach:
            return 0
        return await self._look("attach", [self._run.id, *(["--json"] if as_json else [])])


def _refuse_late(decided: Sequence[Approval], heard: Standing) -> None:
    """What was decided from elsewhere at the same time, and was heard first, holds."""
    for gate in decided:
        for *visited, decision, by in heard.decided:
            if tuple(visited) == gate.visited and decision != gate.status:
                raise UsageError(
                    f"'{visible(gate.stage)}' was {decision} already, by {visible(by)}",
                    "what was decided here came later and changes nothing",
                )


def _is_decided(gate: Approval) -> bool:
    return gate.status in ("approved", "denied")
