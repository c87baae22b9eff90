"""The engine of one sitting on this machine: started by the machine's keeper, under a lease.

All calls block, and are made from threads of the worker. The keeper outlives the worker, which
finds the engine, or its exit, under the sitting's key when it comes back.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from orchestrate.app.ending.end_run import cancel_run, stop_run
from orchestrate.errors import OrchestrateError
from orchestrate.execute.base import Exit, Found, Job, Lost, Running
from orchestrate.execute.local import LocalExecutor
from orchestrate.exits import FAILED, of_signal
from orchestrate.fleet.host import remove_seat
from orchestrate.fleet.protocol import Outcome, Sat, Sitting, Status
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.take import publish_rest
from orchestrate.fleet.transport import PushRefused
from orchestrate.state.clock import since_boot
from orchestrate.state.delete import delete_tree
from orchestrate.state.durable import dump_json, read_file, write_durably
from orchestrate.state.runs import Run
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import run_view

_TOLD_BYTES = 4000
_TOLD_LINES = 12
_PUBLISH_TRIES = 5
_PUBLISH_PAUSE_S = 1.0
# Of the time after which nothing of a silent machine is alive; it is renewed four times in that.
_PERMIT_HOLDS = 1.5
_STATUSES: tuple[Status, ...] = ("completed", "failed", "cancelled", "paused")


def seat_for(sitting: Sitting, root: Path, machine: str) -> Seat:
    """Where a sitting is held on a machine, which has this root."""
    order = sitting.order
    permit_s = order.timing.heartbeat_timeout * _PERMIT_HOLDS
    return Seat(
        order.run, str(root), order.mirror, order.inside, order.publish, order.remote, permit_s,
        order.item, machine,
    )  # fmt: skip


class Engine:
    """The process that holds one sitting."""

    def __init__(self, sitting: Sitting, root: Path, machine: str) -> None:
        self._sitting = sitting
        self._machine = machine
        self._root = root
        self.seat = seat_for(sitting, root, machine)
        # One keeper for each sitting: its records are the sitting's.
        number = sitting.key.rpartition(":")[2]
        self._folder = root / "sittings" / self.seat.name / number
        self._executor = LocalExecutor(self._folder, root, run_id=sitting.order.run)

    @property
    def key(self) -> str:
        return self._sitting.key

    def find(self) -> Found:
        (self._folder / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._executor.find(self.key)

    def start(self, until: float) -> None:
        """Under a lease that ends at a time since the boot: whatever comes in between, sleep too,
        is counted."""
        given = {**asdict(self._sitting), "root": str(self._root), "machine": self._machine}
        job = Job(
            attempt=self.key,
            argv=(sys.executable, "-P", "-m", "orchestrate", "seat", "sit"),
            env=dict(os.environ),
            stdout="out",
            stderr="err",
            stdin=json.dumps(given).encode(),
            lease_s=until - since_boot(),
            grace_s=self._sitting.order.timing.grace,
        )
        self._executor.start(job)

    def wait(self) -> Exit | Lost:
        while True:
            found = self._executor.wait(self.key)
            if not isinstance(found, Running):
                return found

    def renew(self, until: float) -> None:
        self._executor.renew(self.key, until - since_boot())

    def close(self, *, is_over: bool) -> None:
        with suppress(OrchestrateError):
            self._executor.close(is_over=is_over)

    def end(self, how: str) -> None:
        """End it in good order, as `stop` and `cancel` would; what does not obey is ended."""
        grace = self._sitting.order.timing.grace
        run = Run(self.seat.run, self.seat.folder)
        ask = cancel_run if how == "cancel" else stop_run
        try:
            if run.root.is_dir():
                ask(run, f"orchestrate {how} {run.id}", time.monotonic() + grace, lambda _: None)
                return
        except OrchestrateError:
            pass
        self._executor.stop(self.key, how, grace)

    def result(self, ended: Exit | Lost, how: str) -> Sat:
        """How it went, for the workflow; found out once, however often it is asked for."""
        kept = read_file(self._folder / "sat.json")
        if kept is not None:
            return Sat(**json.loads(kept))
        sat = self._result(ended, how)
        write_durably(self._folder / "sat.json", dump_json(asdict(sat)))
        if sat.is_final:
            remove_seat(self.seat)
        return sat

    def forget(self) -> None:
        """The run is over, and that was reported: no worker asks for its sittings any more."""
        delete_tree(self._folder.parent.parent, self._folder.parent.name)

    def _result(self, ended: Exit | Lost, how: str) -> Sat:
        """From the run's folder, once that is published."""
        told = self._last_words()
        if isinstance(ended, Lost):
            return Sat("lost", self._machine, told=ended.reason)
        code = ended.code if ended.code is not None else of_signal(ended.signal or 0)
        try:
            self._publish()
        except PushRefused:
            told = "another machine has gone on with the run: what was made here was left"
            return Sat("ended", self._machine, "failed", code or FAILED, told=told)
        except (OrchestrateError, OSError) as error:
            told = f"what the run has made is only on {self._machine}: {error}"
            told += f"\n{error.hint}" if isinstance(error, OrchestrateError) else ""
            return Sat("ended", self._machine, "failed", code or FAILED, told=told, is_kept=True)
        if not self.seat.folder.is_dir() and self._sitting.wish.verb == "cancel":
            return Sat("ended", self._machine, "cancelled", code, is_final=True)
        if not self.seat.folder.is_dir():
            # Its engine could not even begin.
            outcome: Outcome = "moves" if ended.lease_expired or how else "ended"
            return Sat(outcome, self._machine, "failed", code, told=told)
        return self._from_folder(ended, code, how, told)

    def _from_folder(self, ended: Exit, code: int, how: str, told: str) -> Sat:
        run = Run(self.seat.run, self.seat.folder)
        status = next((one for one in _STATUSES if one == summary_of(run).status), None)
        if status is None:  # it was killed
            told = told or f"the engine was ended by signal {ended.signal}"
            return Sat("moves", self._machine, "paused", code, told="" if how else told)
        is_final = status in ("completed", "cancelled") or run_view(run).is_denied
        if is_final:
            return Sat("ended", self._machine, status, code, is_final=True)
        if status == "paused" and (ended.lease_expired or how == "leave"):
            return Sat("moves", self._machine, "paused", code)
        return Sat("ended", self._machine, status, code, told=told if code != 6 else "")

    def _publish(self) -> None:
        """What the engine could not publish at its end."""
        for _ in range(_PUBLISH_TRIES - 1):
            try:
                return publish_rest(self.seat)
            except PushRefused:
                raise
            except (OrchestrateError, OSError):
                time.sleep(_PUBLISH_PAUSE_S)
        return publish_rest(self.seat)

    def _last_words(self) -> str:
        text = self._executor.read("err")[-_TOLD_BYTES:].decode("utf-8", "replace")
        return "\n".join(text.strip().splitlines()[-_TOLD_LINES:])
