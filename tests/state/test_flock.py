"""What `flock.py` adds to the kernel's lock: removed files, forks, and no way around it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.flock import acquire


def test_a_file_that_was_removed_since_it_was_opened_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last owner took it away between our `open` and our `flock`."""
    path = tmp_path / "a.lock"
    lock = fcntl.flock
    removed: list[int] = []

    def remove_first(descriptor: int, how: int) -> None:
        if not removed:
            removed.append(os.fstat(descriptor).st_ino)
            path.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    held = acquire(path, 60.0, 0.001)
    monkeypatch.undo()
    assert held is not None
    assert removed
    # It is the file that others find.
    assert acquire(path, 0.0, 0.001) is None
    held.release()


def test_a_fork_neither_holds_nor_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    held = acquire(path, 0.0, 0.001)
    assert held is not None
    go_on, said = os.pipe()
    child = os.fork()
    if not child:
        held.release()
        os.read(go_on, 1)
        os._exit(0)
    try:
        assert acquire(path, 0.0, 0.001) is None
        held.release()
        again = acquire(path, 60.0, 0.001)  # the child closes it as soon as it runs
        assert again is not None
        again.release()
    finally:
        os.write(said, b"!")
        os.waitpid(child, 0)
        os.close(go_on)
        os.close(said)


def test_released_twice_it_closes_no_file_of_another(tmp_path: Path) -> None:
    held = acquire(tmp_path / "a.lock", 0.0, 0.001)
    assert held is not None
    held.release()
    other = acquire(tmp_path / "b.lock", 0.0, 0.001)
    assert other is not None
    held.release()
    assert acquire(tmp_path / "b.lock", 0.0, 0.001) is None
    other.release()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_locks_do_not_work_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened: list[int] = []

    def refuse(descriptor: int, *_: Any) -> None:
        opened.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        acquire(tmp_path / "a.lock", 60.0, 0.001)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_who_waits_gets_it_when_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.lock"
    held = acquire(path, 0.0, 0.001)
    assert held is not None
    monkeypatch.setattr("orchestrate.state.flock.time.sleep", lambda _: held.release())
    again = acquire(path, 60.0, 0.001)
    assert again is not None
    again.release()
