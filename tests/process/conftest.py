"""A run directory with a keeper that is gone, with everything it started, when the test ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.keeper.client import Keeper, ensure_keeper
from orchestrate.execute.keeper.facts import Request
from orchestrate.execute.keeper.journal import read_whole
from orchestrate.execute.keeper.protocol import FOLDER, KEEPER_LOCK, LOG, WARDEN_LOCK, is_locked
from orchestrate.execute.keeper.tree import parents

MakeRequest = Callable[..., Request]


def wait_until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Zombies do not count."""
    return pid in parents()


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descriptors_of(pid: int) -> list[str]:
    """What a process has open: for files their names, for pipes and sockets only what they are."""
    folder = Path(f"/proc/{pid}/fd")
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(folder / name).partition(":")[0])
        except FileNotFoundError:
            continue  # it was the one that lists them
    return sorted(found)


def do_at_once(number: int, task: Callable[[int], object]) -> None:
    """The same in so many threads, each with its number, until all have ended."""
    threads = [threading.Thread(target=task, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()


def assert_idle(pid: int) -> None:
    """It waits without using the processor: nothing that it no longer wants keeps waking it."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(0.3)
    assert ticks() - before < 0.1 * os.sysconf("SC_CLK_TCK")


def parent_of(pid: int) -> int:
    return parents()[pid]


def pid_in(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def processes_in(folder: Path) -> list[int]:
    """Processes whose command line mentions the folder."""
    found = []
    for pid in parents():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in words and pid != os.getpid():
            found.append(pid)
    return found


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    yield folder
    lock = str(folder / FOLDER / KEEPER_LOCK)
    if is_locked(lock):
        ensure_keeper(folder).shutdown(stop=True)
    wait_until(lambda: not is_locked(str(folder / FOLDER / WARDEN_LOCK), also_shared=True))
    wait_until(lambda: not processes_in(folder))
    # A traceback of the keeper or its helpers, however well the rest went.
    log = folder / FOLDER / LOG
    assert not log.exists() or log.read_text("utf-8") == ""


@pytest.fixture
def keeper(run_dir: Path) -> Iterator[Keeper]:
    with ensure_keeper(run_dir) as keeper:
        yield keeper


@pytest.fixture(params=[True, False], ids=["guarded", "plain"])
def is_guarded(request: pytest.FixtureRequest) -> bool:
    """A guarded program is watched by a warden, a plain one that is alone by the keeper itself."""
    return bool(request.param)


@pytest.fixture
def request_for(run_dir: Path, is_guarded: bool) -> MakeRequest:
    return requests_of(run_dir, guarded=is_guarded)


@pytest.fixture
def guarded_request(run_dir: Path) -> MakeRequest:
    return requests_of(run_dir, guarded=True)


@pytest.fixture
def plain_request(run_dir: Path) -> MakeRequest:
    return requests_of(run_dir, guarded=False)


def requests_of(run_dir: Path, *, guarded: bool) -> MakeRequest:
    def make(attempt: str, *argv: str, **more: Any) -> Request:
        more.setdefault("env", {"PATH": os.environ["PATH"]})
        more.setdefault("cwd", run_dir)
        more.setdefault("guarded", guarded)
        return Request(
            attempt=attempt,
            argv=argv,
            stdout_path=run_dir / f"{attempt}.stdout",
            stderr_path=run_dir / f"{attempt}.stderr",
            **more,
        )

    return make


def read_lines(path: str) -> tuple[list[tuple[bytes, bytes, bytes]], int]:
    """All whole records of a journal as (kind, attempt, JSON), and the offset where they end."""
    content = read_whole(path)
    parts = [line[9:].split(b" ", 2) for line in content.splitlines()]
    return [(kind, attempt, body) for kind, attempt, body in parts], len(content)
