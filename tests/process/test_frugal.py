"""A keeper lives for days: whatever happens to its attempts, it holds on to nothing of them."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from orchestrate.execute.base import Exit, Lost
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Ended, Request
from orchestrate.execute.keeper.protocol import FOLDER, SOCKET
from orchestrate.record import replace
from tests.process.conftest import (
    MakeRequest,
    assert_idle,
    children_of,
    descriptors_of,
    parent_of,
    wait_until,
)

ESCAPES = "setsid sleep 60 & exec sleep 60"


def held_by(keeper: Keeper) -> dict[int, list[str]]:
    return {pid: descriptors_of(pid) for pid in (keeper.pid, *children_of(keeper.pid))}


def held_at_rest(keeper: Keeper) -> dict[int, list[str]]:
    """Once everybody who watched an attempt has made its two pipes for the next one."""
    wait_until(lambda: {held.count("pipe") for held in held_by(keeper).values()} == {6})
    return held_by(keeper)


def end_of(keeper: Keeper, request: Request) -> Exit:
    end = keeper.run(request, 90)
    assert isinstance(end, Ended)
    return end.exit


def every_fate(keeper: Keeper, request_for: MakeRequest, number: int) -> None:
    """Attempts that end in every way that there is."""
    run_dir = keeper.run_dir
    (run_dir / "in").write_bytes(b"from a file")
    if not (run_dir / "fifo").exists():
        os.mkfifo(run_dir / "fifo")

    def one(name: str, *argv: str, **more: object) -> Exit:
        return end_of(keeper, request_for(f"{name}{number}", *argv, **more))

    assert one("plain", "sh", "-c", "echo out; echo err >&2").stdout == b"out\n"
    assert one("text", "cat", stdin=b"from memory").stdout == b"from memory"
    assert one("file", "cat", stdin=run_dir / "in", tee_path=run_dir / "tee").code == 0
    assert one("long", "head", "-c", "100000", "/dev/zero").stdout_bytes == 100_000
    assert one("missing", "no-such-program").code == 127
    assert one("nowhere", "true", cwd=run_dir / "nowhere", stdin=run_dir / "in").code == 126
    assert one("no-stdin", "cat", stdin=run_dir / "fifo").code == 126
    assert one("no-tee", "true", tee_path=run_dir / "fifo", stdin=b"text").code == 126
    no_root = {"tee_path": run_dir / "in", "tee_root": Path("/nowhere")}
    assert one("out-of-root", "true", **no_root).code == 126
    assert one("orphans", "sh", "-c", ESCAPES, timeout_s=0.1, grace_s=0.1).timed_out
    full = request_for(f"full{number}", "echo", "lost")
    assert end_of(keeper, replace(full, stdout_path=Path("/dev/full"))).stdout_fault
    keeper.start(request_for(f"stopped{number}", "sleep", "60"))
    keeper.stop(f"stopped{number}", "enough")
    assert isinstance(keeper.wait(f"stopped{number}", 60), Ended)


def test_no_descriptor_stays_open(keeper: Keeper, request_for: MakeRequest) -> None:
    assert keeper.ends_whole_trees
    every_fate(keeper, request_for, 0)
    before = held_at_rest(keeper)
    for number in range(1, 4):
        every_fate(keeper, request_for, number)
    wait_until(lambda: held_by(keeper) == before)


def test_clients_leave_nothing_behind(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.run(request_for("a", "true")), Ended)
        theirs, ours = held_at_rest(keeper), descriptors_of(os.getpid())
        for number in range(5):
            with ensure_keeper(run_dir) as other:
                assert isinstance(other.run(request_for(f"b{number}", "true")), Ended)
            # One that is cut off in the middle of a word.
            with socket.socket(socket.AF_UNIX) as rude:
                rude.connect(str(run_dir / FOLDER / SOCKET))
                rude.send(b"\0\0")
        wait_until(lambda: held_by(keeper) == theirs)
        gc.collect()
        assert descriptors_of(os.getpid()) == ours
        assert_idle(keeper.pid)


def test_a_keeper_that_is_started_costs_its_starter_nothing(
    run_dir: Path, request_for: MakeRequest
) -> None:
    gc.collect()
    before = descriptors_of(os.getpid())
    for number in range(3):
        keeper = ensure_keeper(run_dir)
        assert isinstance(keeper.run(request_for(f"a{number}", "true")), Ended)
        keeper.shutdown()
    gc.collect()
    assert descriptors_of(os.getpid()) == before


def test_nothing_of_its_starter_stays_open(run_dir: Path, request_for: MakeRequest) -> None:
    """Not even what a shell gave to it: `orchestrate run w.yaml 9> some.lock`."""
    inherited = os.open(run_dir / "some.lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(inherited, True)
    try:
        with ensure_keeper(run_dir) as keeper:
            assert isinstance(keeper.run(request_for("a", "true")), Ended)
            names = [name for held in held_by(keeper).values() for name in held]
            assert str(run_dir / "some.lock") not in names
            assert len({name for name in names if name.startswith("/")}) >= 4
            for pid, held in held_by(keeper).items():
                assert held.count("/dev/null") == 2, pid
    finally:
        os.close(inherited)


def test_a_dead_warden_leaves_nothing(keeper: Keeper, guarded_request: MakeRequest) -> None:
    held = []
    for number in range(3):
        keeper.start(guarded_request(f"a{number}", "sleep", "60"))
        [warden] = children_of(keeper.pid)
        os.kill(warden, signal.SIGKILL)
        assert isinstance(keeper.wait(f"a{number}", 60), Lost)
        held.append(held_at_rest(keeper))
    assert [*held[0]] == [keeper.pid]
    assert held[1:] == held[:-1]


def test_an_idle_warden_that_is_killed_is_replaced(
    keeper: Keeper, guarded_request: MakeRequest
) -> None:
    for number in range(3):
        assert end_of(keeper, guarded_request(f"a{number}", "true")).code == 0
        [warden] = children_of(keeper.pid)
        os.kill(warden, signal.SIGKILL)
        wait_until(lambda: children_of(keeper.pid) == [])


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 60",
        "exec >&- 2>&-; touch ready; exec sleep 60",
        "for i in 1 2 3; do (true &); done; touch ready; exec sleep 60",
    ],
    ids=["silent", "closed streams", "orphans"],
)
def test_watching_costs_nothing(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path, script: str
) -> None:
    """A program may run for hours: it is waited for, not looked at again and again."""
    keeper.start(request_for("a", "sh", "-c", script, timeout_s=3600, silence_s=3600))
    if "ready" in script:
        wait_until((run_dir / "ready").exists)
    time.sleep(0.1)
    for pid in (keeper.pid, parent_of(keeper.pid), *children_of(keeper.pid)):
        assert_idle(pid)
    keeper.stop("a", "enough", grace_s=0.1)
    assert isinstance(keeper.wait("a", 60), Ended)
    assert_idle(keeper.pid)


def test_nobodys_folder_is_held(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    """A folder that a process stands in can be neither unmounted nor, elsewhere, removed."""
    work = run_dir / "work"
    work.mkdir()
    assert end_of(keeper, request_for("a", "true", cwd=work)).code == 0

    def stands_there() -> bool:
        pids = (keeper.pid, *children_of(keeper.pid))
        return str(work) in [os.readlink(f"/proc/{pid}/cwd") for pid in pids]

    wait_until(lambda: not stands_there())


def test_what_an_exit_says_of_itself(keeper: Keeper, request_for: MakeRequest) -> None:
    began = time.time()
    script = "echo $$; echo err >&2; head -c 20000000 /dev/zero | tail -c 1 > /dev/null; sleep 0.2"
    end = end_of(keeper, request_for("a", "sh", "-c", script))
    assert end.stdout == b"%d\n" % end.pid
    assert (end.stdout_bytes, end.stderr_bytes) == (len(end.stdout), 4)
    assert began - 1 <= end.started_at < end.ended_at <= time.time() + 1
    assert 0.2 <= end.duration_s <= end.ended_at - end.started_at + 0.1
    assert 500 < end.max_rss_kb < 500_000
    assert (end.survivors, end.stopped, end.start_error, end.stdout_fault) == (0, "", "", "")
    assert (end.timed_out, end.fell_silent) == (False, False)


@pytest.mark.parametrize("fault", [("no-such-program",), ("true", "a\0b")])
def test_what_never_ran_has_no_number(
    keeper: Keeper, request_for: MakeRequest, fault: tuple[str, ...]
) -> None:
    end = end_of(keeper, request_for("a", *fault))
    assert (end.pid, end.max_rss_kb, end.survivors) == (0, 0, 0)
    assert (end.stdout, end.stderr) == (b"", b"")
    assert (end.stdout_bytes, end.stderr_bytes) == (0, 0)
