"""A journal that can no longer be written: nothing starts that is not recorded, and it is said."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost, NotStarted
from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Ended, look
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, LOG
from tests.process.conftest import (
    MakeRequest,
    children_of,
    descriptors_of,
    is_alive,
    pid_in,
    read_lines,
    wait_until,
)

TOO_LARGE = os.strerror(errno.EFBIG)


@contextmanager
def no_room(keeper: Keeper, size: int = 1) -> Iterator[None]:
    """No file of the keeper's may be written beyond this size."""
    before = resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        if is_alive(keeper.pid):
            resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, before)


def test_a_claim_that_cannot_be_written_starts_nothing(
    run_dir: Path, request_for: MakeRequest
) -> None:
    keeper = ensure_keeper(run_dir)
    touch = f"touch {run_dir}/it-ran"
    assert isinstance(keeper.run(request_for("first", "true")), Ended)
    with no_room(keeper):
        with pytest.raises(ConfigError, match=f"claim cannot be recorded: {TOO_LARGE}"):
            keeper.run(request_for("a", "sh", "-c", touch))
        with pytest.raises(ConfigError, match="claim cannot be recorded"):
            keeper.start(request_for("b", "sh", "-c", touch))
    # Room or not: a disk that failed once is not trusted again.
    with pytest.raises(ConfigError, match=r"claim cannot be recorded: .*earlier"):
        keeper.start(request_for("a", "sh", "-c", touch))
    for number in range(5):
        with pytest.raises(ConfigError, match="earlier"):
            keeper.start(request_for(f"c{number}", "true"))
    for pid in (keeper.pid, *children_of(keeper.pid)):
        assert descriptors_of(pid).count("pipe") <= 6, "what was prepared is let go"
    assert look(run_dir, "a") == look(run_dir, "b") == NotStarted()
    assert not (run_dir / "it-ran").exists()
    keeper.shutdown()
    with ensure_keeper(run_dir) as second:
        assert isinstance(second.run(request_for("a", "sh", "-c", touch)), Ended)
    assert (run_dir / "it-ran").exists()


def test_what_cannot_be_reserved_is_refused_before_anything_is_lost(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    """The space for the ends of all that run is there before another one begins."""
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    names = [f"a{number}" for number in range(2)]
    for name in names:
        assert keeper.start(request_for(name, "sh", "-c", wait)) == "started"
    with no_room(keeper, (run_dir / FOLDER / JOURNAL).stat().st_size):
        with pytest.raises(ConfigError, match=f"claim cannot be recorded: {TOO_LARGE}"):
            keeper.start(request_for("c", "true"))
        assert look(run_dir, "c") == NotStarted()
        (run_dir / "go").touch()
        for name in names:
            assert isinstance(keeper.wait(name, 60), Ended), "there was room for its end"
        assert isinstance(keeper.run(request_for("d", "true")), Ended)
    assert isinstance(keeper.run(request_for("c", "true")), Ended)


def test_an_end_that_cannot_be_written_ends_the_keeper(
    run_dir: Path, request_for: MakeRequest
) -> None:
    with ensure_keeper(run_dir) as keeper:
        for name in ("a", "b"):
            script = f"echo $$ > {name}; until test -e go-{name}; do sleep 0.02; done"
            keeper.start(request_for(name, "sh", "-c", script))
        pids = [pid_in(run_dir / name) for name in ("a", "b")]
        with no_room(keeper, read_lines(str(run_dir / FOLDER / JOURNAL))[1]):
            (run_dir / "go-a").touch()
            for name in ("a", "b"):
                assert isinstance(keeper.wait(name, 60), Lost), name
        wait_until(lambda: not any(map(is_alive, [keeper.pid, *pids])))
    log = run_dir / FOLDER / LOG
    assert log.read_text("utf-8").startswith("Traceback")
    log.write_bytes(b"")
    with ensure_keeper(run_dir) as second:
        assert isinstance(second.adopt("a"), Lost)
        assert isinstance(second.run(request_for("c", "true")), Ended)
