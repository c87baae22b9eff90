"""What every executor promises: one suite for the local one, the fake, and those to come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import Exit, Lost, NotStarted, Running
from orchestrate.execute.fake import Act
from tests.execute.worlds import FakeWorld, LocalWorld, World, wait_until

FOR_EVER = Act(after_s=None)


@pytest.fixture(params=["local", "fake"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = LocalWorld(tmp_path) if request.param == "local" else FakeWorld()
    yield made
    made.end()


def run(world: World, attempt: str, act: Act, **more: Any) -> Exit:
    found = world.executor.run(world.job(attempt, act, **more))
    assert isinstance(found, Exit), found
    return found


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_runs_to_its_end(world: World, code: int) -> None:
    ended = run(world, "A:1.1", Act(code, b"to stdout\n", b"to stderr\n", b"at last\n"))
    assert (ended.code, ended.signal) == (code, None)
    assert (ended.stdout, ended.stderr) == (b"to stdout\nat last\n", b"to stderr\n")
    assert (ended.stdout_bytes, ended.stderr_bytes) == (18, 10)
    assert not any((ended.timed_out, ended.fell_silent, ended.stopped, ended.start_error))


def test_a_program_that_is_killed_by_somebody_else(world: World) -> None:
    ended = run(world, "A:1.1", Act(signal=9))
    assert (ended.code, ended.signal, ended.stopped) == (None, 9, "")


def test_a_program_that_cannot_be_started(world: World) -> None:
    ended = run(world, "A:1.1", Act(start_error="no such file"))
    assert ended.code == 127
    assert ended.start_error


def test_an_attempt_is_never_started_twice(world: World) -> None:
    first = run(world, "A:1.1", Act(stdout=b"once"))
    assert run(world, "A:1.1", Act(stdout=b"once")) == first
    assert world.executor.start(world.job("A:1.1", Act())) is False
    assert world.another().run(world.job("A:1.1", Act(5))) == first
    assert world.starts_of("A:1.1") == 1
    assert world.executor.start(world.job("A:1.2", Act())) is True
    assert isinstance(world.executor.wait("A:1.2"), Exit)


def test_an_attempt_that_runs_is_joined_not_started_twice(world: World) -> None:
    job = world.job("A:1.1", FOR_EVER)
    assert world.executor.start(job)
    assert isinstance(world.executor.run(job, meanwhile=lambda: world.let_go("A:1.1")), Exit)
    assert world.starts_of("A:1.1") == 1


def test_several_run_at_once(world: World) -> None:
    attempts = [f"A:1.{number}" for number in range(5)]
    for attempt in attempts:
        assert world.executor.start(world.job(attempt, FOR_EVER))
    wait_until(lambda: all(map(world.starts_of, attempts)))
    for attempt in attempts:
        world.let_go(attempt)
    ends = [world.executor.wait(attempt) for attempt in attempts]
    assert all(isinstance(end, Exit) and end.code == 0 for end in ends)


def test_what_never_ran_is_not_found(world: World) -> None:
    assert world.executor.find("A:1.1") == NotStarted()
    run(world, "A:1.1", Act())
    assert world.executor.find("A:1.2") == NotStarted()


def test_a_program_is_found_after_a_restart(world: World) -> None:
    ended = run(world, "A:1.1", Act(stdout=b"before"))
    assert world.executor.start(world.job("B:1.1", Act(after_s=None, last=b"after")))
    world.executor.close()
    again = world.another()
    assert again.find("A:1.1") == ended
    assert again.find("B:1.1") == Running()
    world.let_go("B:1.1")
    found = again.wait("B:1.1")
    assert isinstance(found, Exit)
    assert found.stdout == b"after"
    assert again.find("B:1.1") == found


def test_waiting_ends_when_the_time_is_up(world: World) -> None:
    job = world.job("A:1.1", FOR_EVER)
    assert world.executor.run(job, 0.05) == Running()
    began = time.monotonic()
    assert world.executor.wait("A:1.1", 0.1) == Running()
    assert time.monotonic() - began >= 0.1
    assert world.executor.wait("A:1.1", 0.0) == Running()


def test_a_stopped_program_says_why(world: World) -> None:
    assert world.executor.start(world.job("A:1.1", Act(stdout=b"begun", after_s=None)))
    wait_until(lambda: world.executor.read("A:1.1.stdout"))
    world.executor.stop("A:1.1", "another item failed", 2.0)
    ended = world.executor.wait("A:1.1")
    assert isinstance(ended, Exit)
    assert (ended.stopped, ended.code) == ("another item failed", None)
    assert ended.stdout == b"begun"
    world.executor.stop("A:1.1", "too late")
    assert world.executor.find("A:1.1") == ended


def test_to_stop_what_does_not_run_does_nothing(world: World) -> None:
    world.executor.stop("A:1.1", "it never ran")
    assert world.executor.find("A:1.1") == NotStarted()


def test_what_is_stopped_before_it_is_started_ends_as_it_begins(world: World) -> None:
    """Another thread had the attempt announced, and was about to ask for it."""
    world.executor.stop("A:1.1", "another item failed", 2.0)
    ended = world.executor.run(world.job("A:1.1", FOR_EVER))
    assert isinstance(ended, Exit)
    assert (ended.stopped, ended.code) == ("another item failed", None)
    after = world.executor.run(world.job("A:1.2", Act(stdout=b"done")))
    assert isinstance(after, Exit)
    assert after.stdout == b"done"


def test_an_early_stop_is_of_the_client_that_asked_for_it(world: World) -> None:
    """A resume starts what an orchestrator of before has stopped and never started."""
    other = world.another()
    other.stop("A:1.1", "another item failed", 2.0)
    assert other.find("A:1.1") == NotStarted()  # it was heard
    other.close()
    ended = world.executor.run(world.job("A:1.1", Act(stdout=b"done")))
    assert isinstance(ended, Exit)
    assert (ended.stopped, ended.stdout) == ("", b"done")


def test_a_wake_up_interrupts_who_waits(world: World) -> None:
    world.executor.start(world.job("A:1.1", FOR_EVER))
    threading.Timer(0.1, world.executor.wake).start()
    assert world.executor.wait("A:1.1") == Running()
    assert world.executor.wakes == 1


def test_a_wake_up_waits_for_who_waits_next(world: World) -> None:
    world.executor.wake()
    assert world.executor.run(world.job("A:1.1", FOR_EVER)) == Running()


def test_a_wake_up_after_the_look_is_not_slept_through(world: World) -> None:
    world.executor.start(world.job("A:1.1", FOR_EVER))
    for _ in range(3):
        looked = world.executor.wakes
        world.executor.wake()
        assert world.executor.wait("A:1.1", wakes=looked) == Running()


def test_a_wake_up_is_for_all_who_wait(world: World) -> None:
    for name in "ABC":
        world.executor.start(world.job(f"{name}:1.1", FOR_EVER))
    looked = world.executor.wakes
    woken: list[object] = []
    threads = [
        threading.Thread(
            target=lambda at=f"{name}:1.1": woken.append(world.executor.wait(at, wakes=looked))
        )
        for name in "ABC"
    ]
    for thread in threads:
        thread.start()
    world.executor.wake()
    for thread in threads:
        thread.join(60)
    assert woken == [Running()] * 3


def test_output_is_read_while_it_comes(world: World) -> None:
    world.executor.start(world.job("A:1.1", Act(stdout=b"first,", last=b"last", after_s=None)))
    wait_until(lambda: world.executor.read("A:1.1.stdout") == b"first,")
    world.let_go("A:1.1")
    world.executor.wait("A:1.1")
    read = world.executor.read
    assert read("A:1.1.stdout") == b"first,last"
    assert read("A:1.1.stdout", 6) == b"last"
    assert read("A:1.1.stdout", 3, 4) == b"st,l"
    assert read("A:1.1.stdout", 99) == b""
    assert read("A:1.1.stderr") == read("B:1.1.stdout") == b""


def test_large_output_is_read_in_parts(world: World) -> None:
    text = b"".join(b"%07d\n" % number for number in range(40_000))
    ended = run(world, "A:1.1", Act(stdout=text, stderr=b"small"))
    assert (ended.stdout, ended.stdout_bytes, ended.stderr) == (None, len(text), b"small")
    again = world.another()
    assert again.read("A:1.1.stdout", 8 * 20_000, 8) == b"0020000\n"
    assert again.read("A:1.1.stdout") == text


def test_secrets_are_masked_in_every_output(world: World) -> None:
    act = Act(stdout=b"the swordfish\n", stderr=b"a swordfish\n")
    ended = run(world, "A:1.1", act, secrets=("swordfish",), tee="out.txt")
    assert (ended.stdout, ended.stderr) == (b"the ***\n", b"a ***\n")
    assert world.file("out.txt") == b"the ***\n"


def test_a_lost_program_is_lost_for_good(world: World) -> None:
    run(world, "A:1.1", Act())
    job = world.job("B:1.1", FOR_EVER)
    assert world.executor.start(job)
    world.lose("B:1.1")
    lost = world.executor.wait("B:1.1")
    assert isinstance(lost, Lost)
    assert lost.reason
    assert world.executor.find("B:1.1") == lost
    assert world.another().run(job) == lost
    assert world.starts_of("B:1.1") == 1
    assert isinstance(world.executor.find("A:1.1"), Exit)
    assert run(world, "B:1.2", Act()).code == 0


@pytest.mark.parametrize("limit", ["timeout_s", "silence_s"])
def test_a_limit_ends_a_program_and_the_exit_says_so(world: World, limit: str) -> None:
    ended = run(world, "A:1.1", Act(stdout=b"begun", after_s=None), **{limit: 4}, grace_s=1.0)
    assert (ended.timed_out, ended.fell_silent) == (limit == "timeout_s", limit == "silence_s")
    assert (ended.stdout, ended.stopped) == (b"begun", "")
    assert ended.duration_s >= 4


def test_a_lease_ends_a_program_though_its_client_is_gone(world: World) -> None:
    job = world.job("A:1.1", Act(stdout=b"begun", after_s=None), lease_s=4.0, grace_s=1.0)
    began = time.time()
    assert world.executor.start(job)
    world.executor.close()
    time.sleep(4.5)
    again = world.another()
    ended = again.find("A:1.1")
    if isinstance(ended, Running):
        ended = again.wait("A:1.1", 60.0)
    assert isinstance(ended, Exit)
    assert ended.lease_expired
    assert not any((ended.timed_out, ended.fell_silent, ended.stopped))
    assert ended.stdout == b"begun"
    assert ended.ended_at - began >= 4.0
    assert ended.duration_s < 60.0


def test_a_lease_lasts_as_long_as_it_is_renewed(world: World) -> None:
    job = world.job("A:1.1", Act(after_s=8), lease_s=5, grace_s=1.0)
    assert world.executor.start(job)
    while isinstance(found := world.executor.wait("A:1.1", 0.3), Running):
        assert world.executor.renew("A:1.1", 5)
    assert isinstance(found, Exit)
    assert (found.code, found.lease_expired) == (0, False)


def test_a_program_without_a_lease_gets_none_by_renewing(world: World) -> None:
    assert world.executor.start(world.job("A:1.1", FOR_EVER))
    assert world.executor.renew("A:1.1", 0.1)
    assert world.executor.wait("A:1.1", 0.5) == Running()
    world.let_go("A:1.1")
    found = world.executor.wait("A:1.1")
    assert isinstance(found, Exit)
    assert (found.code, found.lease_expired) == (0, False)


def test_what_does_not_run_cannot_be_renewed(world: World) -> None:
    assert not world.executor.renew("A:1.1", 5.0)
    run(world, "A:1.1", Act(), lease_s=5.0)
    assert not world.executor.renew("A:1.1", 5.0)


def test_who_closes_it_leaves_programs_running(world: World) -> None:
    world.executor.start(world.job("A:1.1", FOR_EVER))
    world.executor.close()
    again = world.another()
    assert again.find("A:1.1") == Running()
    again.stop("A:1.1", "enough", 1.0)
    assert isinstance(again.wait("A:1.1"), Exit)
    again.close(is_over=True)
    assert isinstance(world.another().find("A:1.1"), Exit)
