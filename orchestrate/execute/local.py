"""Runs programs on this machine: the executor behind which the run's keeper stands.

A keeper is started with the first job, and another one where it was killed: what it ran is lost
then, and that is all a client hears of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orchestrate.errors import ConfigError, KeeperSilent, OrchestrateError, explain
from orchestrate.execute.base import Exit, Found, Job, Lost, Running, do_nothing
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.connect import KeeperGoneError
from orchestrate.execute.keeper.facts import Ended, Request, Unsettled
from orchestrate.execute.keeper.orphans import recover_identity
from orchestrate.execute.keeper.patience import Patience
from orchestrate.execute.keeper.protocol import FOLDER, now
from orchestrate.execute.keeper.starter import LINGER_S, KeeperStart
from orchestrate.execute.liveness import is_keeper_alive
from orchestrate.installation import replacement_of

# How long a keeper that is about to end may take for it.
_KEEPER_LEAVES_IN_S = 3.0
_RUNNING = Running()

# The seconds that are left for an answer of the executor's, or None if its client has time.
Hurry = Callable[[], float | None]


def _no_hurry() -> float | None:
    return None


class LocalExecutor:
    """The programs of one run, whose outputs lie in its folder `logs`."""

    def __init__(
        self, run_dir: Path, workspace: Path, hurry_s: Hurry = _no_hurry, run_id: str = ""
    ) -> None:
        self._run_dir = run_dir
        self._run_id = run_id or run_dir.name
        self._workspace = str(workspace)
        self._outputs = str(run_dir / "logs")
        self.hurry_s = hurry_s
        self._begun: KeeperStart | None = None
        self._fault: OSError | None = None
        self._keeper: Keeper | None = None
        self._connecting = threading.Lock()
        # The connections through which the ends of running attempts come.
        self._running: dict[str, Keeper] = {}
        self._wakes = self._delivered_wakes = 0
        # Set when the keeper is of no use to the run's next client: its limits or its disk have
        # failed it, and of a disk that has failed once it wants to know nothing more.
        self._is_spent = False

    def begin(self) -> None:
        """Start a new run's keeper now, beside what is done until the first job."""
        try:
            self._begun = KeeperStart(self._run_dir, LINGER_S)
        except OSError as error:
            self._fault = error  # told by the first job

    @property
    def wakes(self) -> int:
        return self._wakes

    def run(
        self, job: Job, timeout_s: float | None = None, meanwhile: Callable[[], None] = do_nothing
    ) -> Exit | Lost | Running:
        """Started by the keeper that lives, or by the next one if that ends before it claims it."""
        for is_last in (False, True):
            keeper = self._connect()
            try:
                if job.attempt in keeper.begun:
                    keeper.begun.discard(job.attempt)  # it was sent ahead, and runs
                else:
                    keeper.ask(self._request_of(job))
                meanwhile()
                meanwhile = do_nothing
                return self._end_of(job.attempt, keeper, keeper.wait(job.attempt, timeout_s))
            except KeeperGoneError as error:
                if is_last or self.hurry_s() is not None:
                    return Lost(error.message)
                self._see_out(keeper)
            except ConfigError:
                self._is_spent = True
                raise
        raise AssertionError

    def send_ahead(self, before: str, job: Job | None) -> None:
        keeper = self._keeper
        if keeper is not None and not keeper.is_gone:
            keeper.send_ahead(before, None if job is None else self._request_of(job))

    def has_begun(self, attempt: str) -> bool:
        return self._keeper is not None and attempt in self._keeper.begun

    def start(self, job: Job) -> bool:
        keeper = self._connect()
        verdict = keeper.start(self._request_of(job))
        self._running[job.attempt] = keeper
        return verdict == "started"

    def find(self, attempt: str, *, is_announced: bool = True) -> Found:
        keeper = self._connect(is_searching=True)
        found = keeper.adopt(attempt, is_announced=is_announced)
        if isinstance(found, Ended):
            return found.exit
        if isinstance(found, Running | Unsettled):  # one that is unsettled is settled by `wait`
            self._running[attempt] = keeper
            return _RUNNING
        return found

    def wait(
        self, attempt: str, timeout_s: float | None = None, wakes: int | None = None
    ) -> Exit | Lost | Running:
        keeper = self._running.get(attempt) or self._connect()
        heard = None
        if wakes is not None:
            # Counted before we look: a call that comes in between must not be slept through.
            heard = keeper.wakes
            if self._wakes > wakes:
                return _RUNNING
        return self._end_of(attempt, keeper, keeper.wait(attempt, timeout_s, heard))

    def stop(self, attempt: str, reason: str, grace_s: float = 5.0) -> None:
        keeper = self._running.get(attempt) or self._connect()
        keeper.stop(attempt, reason, grace_s)

    def renew(self, attempt: str, lease_s: float) -> bool:
        keeper = self._running.get(attempt) or self._connect()
        return keeper.renew(attempt, now() + lease_s)

    def wake(self) -> None:
        self._wakes += 1
        keeper = self._keeper
        if keeper is not None:
            self._delivered_wakes = self._wakes
            keeper.wake()

    def read(self, output: str, start: int = 0, size: int = -1) -> bytes:
        try:
            with open(f"{self._outputs}/{output}", "rb") as file:
                file.seek(start)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def close(self, *, is_over: bool = False) -> None:
        if self._begun is not None:  # no job has come
            self._leave_begun(is_over=is_over)
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        try:
            if is_over or self._is_spent:
                keeper.shutdown()
        except KeeperSilent:
            # It was said, and the run is not worse for it: the keeper ends when it can.
            pass
        finally:
            keeper.close()

    def _leave_begun(self, *, is_over: bool) -> None:
        """What has begun and was not needed is ended, or used by the run's next orchestrator."""
        if is_over:
            with suppress(OrchestrateError):
                self._connect()
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.leave()

    def _connect(self, *, is_searching: bool = False) -> Keeper:
        with self._connecting:
            keeper = self._keeper
            if keeper is not None and keeper.is_gone:
                keeper.close()
                keeper = None
            if keeper is None:
                keeper = self._keeper = self._start_keeper(is_searching=is_searching)
                if self._wakes > self._delivered_wakes:
                    self._delivered_wakes = self._wakes
                    keeper.wake()
            return keeper

    def _start_keeper(self, *, is_searching: bool) -> Keeper:
        try:
            if is_searching:
                recover_identity(str(self._run_dir))
            begun, self._begun = self._begun, None
            failed, self._fault = self._fault, None
            if failed is not None:
                raise failed
            patience = Patience(self._run_id, self.hurry_s)
            return ensure_keeper(self._run_dir, patience=patience, begun=begun)
        except OSError as error:
            # Python itself may be gone.
            fault = replacement_of(error, self._run_id)
            raise fault or explain("start the keeper in", self._run_dir, error) from error

    def _see_out(self, keeper: Keeper) -> None:
        """The keeper is about to end: wait for that, and let the next one be another."""
        give_up = time.monotonic() + _KEEPER_LEAVES_IN_S
        while time.monotonic() < give_up and is_keeper_alive(self._run_dir):
            if self.hurry_s() is not None:
                break
            time.sleep(0.02)
        with self._connecting:
            if self._keeper is keeper:
                keeper.close()
                self._keeper = None

    def _end_of(
        self, attempt: str, keeper: Keeper, found: Ended | Lost | None
    ) -> Exit | Lost | Running:
        if found is None:
            self._running[attempt] = keeper
            return _RUNNING
        self._running.pop(attempt, None)
        return found.exit if isinstance(found, Ended) else found

    def _request_of(self, job: Job) -> Request:
        workspace, outputs = self._workspace, self._outputs
        stdin = job.stdin
        return Request(
            attempt=job.attempt,
            argv=job.argv,
            env=job.env,
            cwd=workspace if job.cwd == "." else f"{workspace}/{job.cwd}",
            stdout_path=f"{outputs}/{job.stdout}",
            stderr_path=f"{outputs}/{job.stderr}",
            stdin=Path(f"{outputs}/{stdin}") if isinstance(stdin, str) else stdin,
            tee_path=None if job.tee is None else f"{workspace}/{job.tee}",
            tee_root=None if job.tee is None else workspace,
            timeout_s=job.timeout_s,
            silence_s=job.silence_s,
            grace_s=job.grace_s,
            secrets=job.secrets,
            guarded=job.guarded,
            # A moment, not a duration: a keeper that stood still must not begin to count then.
            lease_until=None if job.lease_s is None else now() + job.lease_s,
            slot=job.slot,
        )


def may_have_programs(run_dir: Path) -> bool:
    """Did the run start programs here? The keeper's folder may be deleted while they live."""
    return recover_identity(str(run_dir)) or (run_dir / FOLDER).is_dir()


def end_programs(run_dir: Path, reason: str, hurry_s: Hurry = _no_hurry, run_id: str = "") -> None:
    """End what a run's keeper runs for no orchestrator, or what a killed one left behind."""
    patience = Patience(run_id or run_dir.name, hurry_s)
    with ensure_keeper(run_dir, patience=patience) as keeper:
        keeper.shutdown(stop=True, reason=reason)
