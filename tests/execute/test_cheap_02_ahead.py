"""A job that is sent ahead starts with the end of another, or never; for all executors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import Exit, Found, Job, NotStarted, Running
from orchestrate.execute.fake import Act
from tests.execute.worlds import FakeWorld, LocalWorld, World, wait_until

FIRST, NEXT = "A:1.1", "B:1.1"
# What works does so until it is let go: no load is too great for what is to happen meanwhile.
WORKS, ENDS = Act(after_s=None), Act()
# A claim behind which nothing follows is seen at once; this is for one that must not come.
A_WHILE_S = 0.15


@pytest.fixture(params=["local", "fake"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = LocalWorld(tmp_path) if request.param == "local" else FakeWorld()
    yield made
    made.end()


def plain(world: World, attempt: str, act: Act, **more: Any) -> Job:
    return world.job(attempt, act, guarded=False, **more)


def begin(world: World, first: Act = WORKS, then: Act = ENDS, **more: Any) -> Job:
    """Start one program and send another ahead; the latter's job."""
    executor = world.executor
    # The first answer of an executor says whether it takes jobs ahead.
    assert isinstance(executor.run(plain(world, "W:1.1", Act())), Exit)
    assert executor.start(plain(world, FIRST, first, **more))
    follower = plain(world, NEXT, then)
    executor.send_ahead(FIRST, follower)
    return follower


def let_go(world: World, attempt: str = FIRST) -> None:
    """Only after all that was sent has arrived: nobody answers that, but a question behind it."""
    world.executor.find(attempt)
    world.let_go(attempt)


def end_of(world: World) -> Exit:
    let_go(world)
    ended = world.executor.wait(FIRST)
    assert isinstance(ended, Exit)
    return ended


def found_after_a_while(world: World, attempt: str) -> Found:
    time.sleep(A_WHILE_S)
    return world.another().find(attempt)


def test_it_begins_with_a_good_end_and_is_taken_up(world: World) -> None:
    follower = begin(world, then=Act(stdout=b"two"))
    assert not world.executor.has_begun(NEXT)
    assert world.starts_of(NEXT) == 0
    assert end_of(world).code == 0
    assert world.executor.has_begun(NEXT)
    wait_until(lambda: world.starts_of(NEXT))
    ended = world.executor.run(follower)
    assert isinstance(ended, Exit)
    assert ended.stdout == b"two"
    assert not world.executor.has_begun(NEXT)
    assert world.starts_of(NEXT) == 1
    assert world.executor.run(follower) == ended


def test_one_follows_the_other(world: World) -> None:
    executor = world.executor
    begin(world, then=WORKS)
    jobs = [plain(world, f"B:1.{number}", WORKS) for number in range(1, 6)]
    end_of(world)
    for job, after in itertools.pairwise(jobs):
        assert executor.has_begun(job.attempt)

        def send(job: Job = job, after: Job = after) -> None:
            executor.send_ahead(job.attempt, after)
            let_go(world, job.attempt)

        assert isinstance(executor.run(job, meanwhile=send), Exit)
    assert [world.starts_of(job.attempt) for job in jobs[:-1]] == [1] * 4
    assert executor.has_begun(jobs[-1].attempt)


@pytest.mark.parametrize(
    "act",
    [
        Act(3, after_s=None),
        Act(signal=9, after_s=None),
        Act(stdout=b"x" * 10_000, after_s=None),
        Act(stderr=b"x" * 10_000, after_s=None),
    ],
    ids=["a failure", "a signal", "long output", "long errors"],
)
def test_it_never_begins_after_any_other_end(world: World, act: Act) -> None:
    follower = begin(world, act)
    end_of(world)
    assert not world.executor.has_begun(NEXT)
    assert found_after_a_while(world, NEXT) == NotStarted()
    # It may be asked for as any other.
    assert isinstance(world.executor.run(follower), Exit)
    assert world.starts_of(NEXT) == 1


@pytest.mark.parametrize("limit", [{"timeout_s": 2}, {"silence_s": 2}, {"lease_s": 2}])
def test_it_never_begins_after_a_limit(world: World, limit: dict[str, Any]) -> None:
    begin(world, **limit)
    assert isinstance(world.executor.wait(FIRST), Exit)
    assert not world.executor.has_begun(NEXT)
    assert found_after_a_while(world, NEXT) == NotStarted()


def stop_first(world: World) -> None:
    world.executor.stop(FIRST, "enough", 2.0)


def stop_it(world: World) -> None:
    world.executor.stop(NEXT, "enough", 2.0)


def take_back(world: World) -> None:
    world.executor.send_ahead(FIRST, None)


def leave(world: World) -> None:
    world.executor.close()


@pytest.mark.parametrize("deed", [stop_first, stop_it, take_back, leave])
def test_it_is_taken_back(world: World, deed: Callable[[World], None]) -> None:
    begin(world)
    deed(world)
    let_go(world)
    again = world.another()
    if again.find(FIRST) == Running():
        assert isinstance(again.wait(FIRST), Exit)
    assert found_after_a_while(world, NEXT) == NotStarted()
    assert world.starts_of(NEXT) == 0


def test_what_comes_too_late_is_forgotten(world: World) -> None:
    begin(world, then=Act())
    end_of(world)
    late = plain(world, "C:1.1", Act())
    world.executor.send_ahead(FIRST, late)
    world.executor.send_ahead("D:1.1", late)
    assert found_after_a_while(world, "C:1.1") == NotStarted()
    assert isinstance(world.executor.run(late), Exit)


def test_the_last_one_sent_counts(world: World) -> None:
    begin(world)
    world.executor.send_ahead(FIRST, plain(world, "C:1.1", Act()))
    end_of(world)
    assert world.executor.has_begun("C:1.1")
    assert not world.executor.has_begun(NEXT)
    assert found_after_a_while(world, NEXT) == NotStarted()


def test_what_is_wanted_at_once_does_not_wait(world: World) -> None:
    follower = begin(world)
    assert isinstance(world.executor.run(follower), Exit)
    end_of(world)
    time.sleep(A_WHILE_S)
    assert world.starts_of(NEXT) == 1


def test_what_has_begun_is_found_by_another_client(world: World) -> None:
    begin(world, then=Act(after_s=None, last=b"late"))
    end_of(world)
    assert world.executor.has_begun(NEXT)
    world.executor.close()
    again = world.another()
    assert again.find(NEXT) == Running()
    world.let_go(NEXT)
    ended = again.wait(NEXT)
    assert isinstance(ended, Exit)
    assert ended.stdout == b"late"
    assert world.starts_of(NEXT) == 1


def test_what_has_begun_can_be_stopped(world: World) -> None:
    follower = begin(world, then=WORKS)
    end_of(world)
    world.executor.stop(NEXT, "enough", 2.0)
    ended = world.executor.run(follower)
    assert isinstance(ended, Exit)
    assert ended.stopped == "enough"
