"""One owner per lock, however many ask; free the moment the owner is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrate.errors import ConfigError, SessionInUseError, StateError
from orchestrate.state import locks
from orchestrate.state.durable import dump_json
from orchestrate.state.locks import (
    LockHeldError,
    is_held,
    lock_run,
    lock_session,
    read_owner,
    take,
    user_state_folder,
)
from tests.state.killing import ROOT, environment, start

COMMAND = ["orchestrate", "resume", "latest"]

# Fifty processes, forked from one, come to each round together; who wins holds the lock until all
# have tried. Starting fifty interpreters eight times would take minutes.
RACE = """
import multiprocessing, os, sys
from pathlib import Path
from orchestrate.state.locks import LockHeldError, take

def racer(barrier, folder, pipe):
    for number in range(8):
        barrier.wait(60)
        try:
            lock = take(folder / f"{number}.lock", "the run", ["racer"])
        except LockHeldError as error:
            lock = None
            os.write(pipe, b"%d lost %d\\n" % (number, "racer" in error.message))
        else:
            os.write(pipe, b"%d won 1\\n" % number)
        barrier.wait(60)
        if lock:
            lock.release()

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(50)
    arguments = barrier, Path(sys.argv[1]), 1
    racers = [context.Process(target=racer, args=arguments) for _ in range(50)]
    for each in racers:
        each.start()
    for each in racers:
        each.join()
    sys.exit(any(each.exitcode for each in racers))
"""


def test_of_fifty_processes_exactly_one_wins(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 400
    for number in range(8):
        results = [line[1] for line in lines if line[0] == str(number)]
        assert sorted(results) == ["lost"] * 49 + ["won"]
    named = sum(line[2] == "1" for line in lines)
    assert named > 200, "losers are told who won; on a starved machine a few may be too early"


def test_a_killed_owner_frees_the_lock_at_once_though_its_child_lives(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    owner = start("hold", str(path))
    child = 0
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held run.lock\n"
        child = only_child_of(owner.pid)
        with pytest.raises(LockHeldError, match=f"run X is in use by process {owner.pid} on "):
            lock_run(path, "X", COMMAND)
        assert is_held(path)
        owner.send_signal(signal.SIGKILL)
        owner.wait(timeout=60)
        if child:
            os.kill(child, 0)
        with lock_run(path, "X", COMMAND):
            assert is_held(path)
    finally:
        owner.kill()
        if child:
            os.kill(child, signal.SIGKILL)
        owner.communicate()


def only_child_of(pid: int) -> int:
    """The child's pid; 0 where the system does not tell (then the child ends by itself)."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii"))
    except (OSError, ValueError):
        return 0


def test_a_started_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    lock = lock_run(path, "X", COMMAND)
    sleeper = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        lock.release()
        assert not is_held(path)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with lock_run(path, "X", COMMAND) as lock:
        with pytest.raises(LockHeldError) as caught:
            lock_run(path, "X", COMMAND)
        assert caught.value.exit_code == 5
        assert f"process {os.getpid()} on" in caught.value.message
        assert "orchestrate resume latest" in caught.value.message
        assert caught.value.hint
        faults: list[BaseException] = []

        def try_in_thread() -> None:
            try:
                lock_run(path, "X", COMMAND)
            except LockHeldError as error:
                faults.append(error)

        thread = threading.Thread(target=try_in_thread)
        thread.start()
        thread.join(60)
        assert len(faults) == 1
        assert is_held(path)
    assert not is_held(path)
    lock.release()


def test_another_thread_may_release(tmp_path: Path) -> None:
    lock = lock_run(tmp_path / "run.lock", "X", COMMAND)
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join(60)
    assert not is_held(tmp_path / "run.lock")


def test_the_file_stays_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with lock_run(path, "X", COMMAND):
        before = path.stat().st_ino
    assert path.stat().st_ino == before
    for name in ("run.lock", "run.owner"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    owner = read_owner(path)
    assert owner is not None
    assert (owner.pid, owner.command) == (os.getpid(), "orchestrate resume latest")
    assert abs(owner.since - time.time()) < 60


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[1,"h","c",null]', b"[[],0,0,0]"])
def test_a_damaged_owner_file_only_costs_the_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.lock"
    with lock_run(path, "X", COMMAND):
        (tmp_path / "run.owner").write_bytes(content)
        assert read_owner(path) is None
        with pytest.raises(LockHeldError, match="in use by another process"):
            lock_run(path, "X", COMMAND)


def test_a_dead_process_is_not_named_unless_it_is_another_machines(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    dead = subprocess.Popen(["true"])
    dead.wait()
    here = os.uname().nodename
    with lock_run(path, "X", COMMAND):
        (tmp_path / "run.owner").write_bytes(dump_json([dead.pid, here, "c", 0.0]))
        with pytest.raises(LockHeldError, match="another process"):
            lock_run(path, "X", COMMAND)
        (tmp_path / "run.owner").write_bytes(dump_json([dead.pid, f"not-{here}", "c", 0.0]))
        with pytest.raises(LockHeldError, match=rf"process {dead.pid} on not-{here} \(c\)"):
            lock_run(path, "X", COMMAND)
        # No number of a process: it proves nothing, so the name stands.
        (tmp_path / "run.owner").write_bytes(dump_json([2**70, here, "c", 0.0]))
        with pytest.raises(LockHeldError, match=f"process {2**70} on {here}"):
            lock_run(path, "X", COMMAND)


def test_an_owner_that_has_not_written_its_name_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lock"
    with lock_run(path, "X", COMMAND):
        name = (tmp_path / "run.owner").read_bytes()
        (tmp_path / "run.owner").unlink()
        assert read_owner(path) is None
        # Only the wait of who was refused: `flock.py`, which waits first, has its own.
        clock = SimpleNamespace(sleep=lambda _: (tmp_path / "run.owner").write_bytes(name))
        monkeypatch.setattr(locks, "time", clock)
        with pytest.raises(LockHeldError, match=f"process {os.getpid()} on"):
            lock_run(path, "X", COMMAND)


def test_an_owner_that_cannot_write_its_name_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    (tmp_path / "run.owner").mkdir()
    with pytest.raises(StateError, match="EISDIR") as caught:
        lock_run(path, "X", COMMAND)
    # While the error is still known, and with it the frame that held the lock.
    assert not is_held(path)
    assert caught.traceback


def test_an_owner_is_named_without_its_options_and_shortly(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    secret = ["/opt/bin/orchestrate", "run", "w.yaml", "--context", "token=s3cret", "more"]
    for command, named in (
        (secret, "orchestrate run w.yaml"),
        (["/x/orchestrate/__main__.py", "resume"], "orchestrate resume"),
        (["orchestrate", "x" * 600], "orchestrate " + "x" * 488),
        ([], ""),
    ):
        with lock_run(path, "X", command):
            owner = read_owner(path)
            assert owner is not None
            assert owner.command == named


def test_whether_a_lock_is_held_is_asked_of_a_file_of_ours_only(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_bytes(b"")
    (tmp_path / "link.lock").symlink_to("run.lock")
    with pytest.raises(StateError, match=r"cannot open .*link\.lock: .*ELOOP"):
        is_held(tmp_path / "link.lock")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_refused_where_locks_do_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(ConfigError, match="locks do not work") as caught:
        take(tmp_path / "run.lock", "run X", COMMAND)
    assert "--state-dir" in caught.value.hint
    assert not isinstance(caught.value, LockHeldError)


def test_refused_where_every_lock_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(ConfigError, match="locks do not work"):
        take(tmp_path / "run.lock", "run X", COMMAND)
    monkeypatch.undo()
    assert not is_held(tmp_path / "run.lock")


def test_a_link_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        take(tmp_path / "run.lock", "run X", COMMAND)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(StateError, match="run X is gone"):
        take(tmp_path / "none" / "run.lock", "run X", COMMAND)
    assert not (tmp_path / "none").exists()
    assert not is_held(tmp_path / "none" / "run.lock")


def test_a_session_is_locked_by_agent_and_id(tmp_path: Path) -> None:
    here = {"XDG_STATE_HOME": str(tmp_path)}
    hostile = "../../etc/\ud800\0" + "x" * 5000
    with lock_session("claude", "s1", COMMAND, here), lock_session("codex", "s1", COMMAND, here):
        with pytest.raises(SessionInUseError, match="session s1 of claude is in use by process"):
            lock_session("claude", "s1", COMMAND, here)
        with lock_session("claude", hostile, COMMAND, here) as lock:
            assert lock.path.parent == tmp_path / "orchestrate" / "sessions"
    with lock_session("claude", "s1", COMMAND, here):
        pass
    assert stat.S_IMODE((tmp_path / "orchestrate" / "sessions").stat().st_mode) == 0o700


def test_where_the_users_state_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_state_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/orchestrate")
    below_home = Path("/h/.local/state/orchestrate")
    assert user_state_folder({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == below_home
    assert user_state_folder({"HOME": "/h"}) == below_home
    assert user_state_folder({}).is_absolute()
    assert user_state_folder({"HOME": "relative"}) == user_state_folder({})
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="no home folder"):
        user_state_folder({"HOME": "relative"})
