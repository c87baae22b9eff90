"""A lease is enforced by what watches the program, whatever else stands still or is gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from orchestrate.execute.base import Running
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Ended, exit_of, look
from orchestrate.execute.keeper.protocol import now
from tests.process.conftest import MakeRequest, wait_until

# A program has to begin before its lease ends: on a busy machine it gets a longer one.
LEASES_S = (0.8, 6.0, 45.0)


def ended(found: object) -> Ended:
    assert isinstance(found, Ended), found
    return found


def start_leased(keeper: Keeper, make: MakeRequest, script: str, grace_s: float) -> str:
    """Start a script that says when it has `begun`, which it does in time; its attempt."""
    begun = keeper.run_dir / "begun"
    for number, lease_s in enumerate(LEASES_S):
        attempt, until = f"A{number}", now() + lease_s
        keeper.start(make(attempt, "sh", "-c", script, lease_until=until, grace_s=grace_s))
        wait_until(lambda: begun.exists() or look(keeper.run_dir, attempt) != Running())  # noqa: B023
        if begun.exists():
            return attempt
    raise AssertionError("it never begins")


def test_a_program_that_ignores_term_is_killed(keeper: Keeper, request_for: MakeRequest) -> None:
    script = "trap '' TERM; echo begun; echo > begun; while :; do sleep 0.05; done"
    attempt = start_leased(keeper, request_for, script, grace_s=0.3)
    found = ended(keeper.wait(attempt, 60.0)).exit
    assert found.lease_expired
    assert (found.signal, found.stdout) == (signal.SIGKILL, b"begun\n")


def test_an_expired_lease_is_not_renewed(
    run_dir: Path, keeper: Keeper, request_for: MakeRequest
) -> None:
    script = "trap 'echo > asked' TERM; echo > begun; while :; do sleep 0.05; done"
    attempt = start_leased(keeper, request_for, script, grace_s=1.5)
    wait_until((run_dir / "asked").exists)
    keeper.renew(attempt, now() + 600.0)
    assert ended(keeper.wait(attempt, 60.0)).exit.lease_expired


def test_what_could_not_start_in_time_is_not_started(
    run_dir: Path, keeper: Keeper, request_for: MakeRequest
) -> None:
    """A keeper that stood still since then: the lease's giver may have started another one."""
    request = request_for("A", "touch", str(run_dir / "started"), lease_until=now() - 0.001)
    found = ended(keeper.run(request)).exit
    assert (found.lease_expired, found.code) == (True, 126)
    assert "lease" in found.start_error
    assert not (run_dir / "started").exists()
    assert ended(keeper.run(request_for("B", "true"))).exit.code == 0


def test_it_holds_while_the_keeper_stands_still(
    run_dir: Path, keeper: Keeper, guarded_request: MakeRequest
) -> None:
    script = "trap 'echo ended > ended; exit 1' TERM; echo > begun; sleep 60 & wait"
    attempt = start_leased(keeper, guarded_request, script, grace_s=30.0)
    os.kill(keeper.pid, signal.SIGSTOP)
    try:
        wait_until((run_dir / "ended").exists)
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
    assert ended(keeper.wait(attempt, 60.0)).exit.lease_expired


def test_it_holds_over_a_change_of_clients(
    run_dir: Path, keeper: Keeper, request_for: MakeRequest
) -> None:
    keeper.start(request_for("A", "sleep", "60", lease_until=now() + 0.5))
    keeper.close()
    with ensure_keeper(run_dir) as again:
        again.adopt("A")
        assert ended(again.wait("A", 60.0)).exit.lease_expired


def test_an_exit_from_before_there_were_leases_is_read() -> None:
    body = (
        b'{"code":0,"signal":null,"timed_out":false,"stopped":"","start_error":"","start_fault":"",'
        b'"stdout_fault":"","stderr_fault":"","tee_fault":"","pid":1,"started_at":1.0,'
        b'"ended_at":2.0,"duration_s":1.0,"stdout_bytes":0,"stderr_bytes":0,"stdout":"",'
        b'"stderr":"","max_rss_kb":1,"survivors":0}'
    )
    assert not exit_of(body).lease_expired
