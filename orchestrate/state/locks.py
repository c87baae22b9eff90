"""Locks of runs and sessions: held by a living process, free the moment it is gone.

A lock is `flock` on a file (`flock.py`). The file stays unless it can be of no more use: then it
is removed while it is held, and a lock on a file that was removed is never taken. No child inherits
it. Who holds a lock is written to a file beside it, for messages only: a pid proves nothing. Order,
where several are taken: run, session, attempt.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrate.digest import sha256_of
from orchestrate.errors import ConfigError, SessionInUseError, StateError, explain
from orchestrate.record import record
from orchestrate.state.durable import dump_json, parse_json, read_file, write_visibly
from orchestrate.state.flock import Flock, acquire

# `is_held` holds the lock for an instant; that must not refuse a rightful owner.
_PATIENCE = 0.25
_POLL = 0.01
# No process holds a lock so long that is held for an instant, unless it is frozen.
_INSTANT_S = 10.0
_NO_LOCKS = "locks do not work on the file system of {path}"
_USE_LOCAL = "put it on a local disk: --state-dir for runs, XDG_STATE_HOME for sessions"


class LockHeldError(ConfigError):
    """Another process holds the lock; the message names it."""


@record
class Owner:
    """Who took a lock, as it said itself."""

    pid: int
    host: str
    command: str
    since: float

    def describe(self) -> str:
        who = f"process {self.pid} on {self.host}" if self.pid else self.host
        return f"{who} ({self.command})"


class Lock:
    """A lock that this process holds until `release`, or until it ends in any way."""

    __slots__ = ("_held", "path")

    def __init__(self, path: Path, held: Flock) -> None:
        self.path = path
        self._held = held

    def release(self) -> None:
        self._held.release()

    def sign(self, owner: Owner) -> None:
        """Name the process for which this one holds the lock; pid 0 if it is on another machine."""
        words = [owner.pid, owner.host, owner.command, owner.since]
        write_visibly(_owner_path(self.path), dump_json(words))

    def remove(self) -> None:
        """Release the lock for good: its file goes, too."""
        _owner_path(self.path).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        self.release()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_run(path: Path, run_id: str, command: Sequence[str]) -> Lock:
    """Become the one orchestrator of a run; `LockHeldError` names who is it already."""
    return take(path, f"run {run_id}", command)


def lock_session(
    agent: str, session: str, command: Sequence[str], environment: Mapping[str, str]
) -> Lock:
    """Become the one user of an agent's session, in whatever worktree.

    The lock lies in the user's state folder, because two worktrees can share a session.
    """
    folder = user_state_folder(environment) / "sessions"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explain("make", folder, error) from error
    # Ids come from other programs: only a digest of them may become a path.
    key = sha256_of(dump_json([agent, session]))[:32]
    try:
        return take(folder / f"{key}.lock", f"session {session} of {agent}", command)
    except LockHeldError as error:
        raise SessionInUseError(error.message, error.hint) from None


def user_state_folder(environment: Mapping[str, str]) -> Path:
    """Where the user's state lies; as XDG says, a relative XDG_STATE_HOME counts as unset."""
    given = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "orchestrate"
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("there is no home folder to keep session locks in", "set HOME")
    return Path(home) / ".local" / "state" / "orchestrate"


def workspace_locks(workspace: Path, environment: Mapping[str, str]) -> Path:
    """The folder for locks of a workspace as a whole: `.orchestrate/locks`.

    In a workspace that cannot be written to it lies in the user's state folder.
    """
    folder = workspace / ".orchestrate" / "locks"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        hide_from_git(folder)
    except OSError:
        key = sha256_of(os.fsencode(workspace))[:32]
        folder = user_state_folder(environment) / "workspaces" / key
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise explain("make", folder, error) from error
    return folder


def hide_from_git(folder: Path) -> None:
    """Runs and locks do not belong to the project: agents that commit must not see them."""
    path = folder / ".gitignore"
    with suppress(FileNotFoundError):
        found = path.lstat()
        # An empty one is ours: a kill came between making it and writing to it.
        if found.st_size or not stat.S_ISREG(found.st_mode):
            return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        os.write(descriptor, b"*\n")
    finally:
        os.close(descriptor)


@contextmanager
def holding_folder(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a folder itself, which leaves no file in it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise explain("open", folder, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _held_by_another(what) from None
        yield
    finally:
        os.close(descriptor)


def wait_for_instant(descriptor: int, what: str) -> None:
    """Take a lock that is held for an instant only. One that a frozen process holds would freeze
    every run that wants it, beyond the reach of a signal."""
    give_up = time.monotonic() + _INSTANT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise LockHeldError(
                    f"{what} is in use by another process, which does not let it go",
                    "perhaps it is stopped (Ctrl-Z): let it go on, or end it; then resume",
                ) from None
            time.sleep(_POLL)


def take(path: Path, what: str, command: Sequence[str]) -> Lock:
    """Take a lock, or refuse: it is held, or locks do not work here."""
    if not path.parent.is_dir():
        raise StateError(f"{what} is gone: {path.parent} does not exist")
    try:
        lock = acquire(path, _PATIENCE, _POLL)
    except OSError as error:
        _refuse_replaced(path, what)
        raise ConfigError(f"{_NO_LOCKS.format(path=path)}: {error.strerror}", _USE_LOCAL) from error
    if lock is None:
        raise _refusal(path, what)
    try:
        # Some mounts grant every lock; here a second one must be refused.
        if not is_held(path):
            _refuse_replaced(path, what)
            raise ConfigError(_NO_LOCKS.format(path=path), _USE_LOCAL)
        owner = [os.getpid(), os.uname().nodename, _named(command), time.time()]
        write_visibly(_owner_path(path), dump_json(owner))
    except BaseException:
        lock.release()
        raise
    return Lock(path, lock)


def _refuse_replaced(path: Path, what: str) -> None:
    """A lock that is not a file any more was replaced, and the file system is not to blame."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISREG(mode):
        return
    kind = "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "no file"
    raise ConfigError(
        f"{what} cannot be locked: {path} is {kind}, but must be a plain file",
        f"something has put it there; remove it if no process uses {what}",
    )


def _named(command: Sequence[str]) -> str:
    """The command without its options, whose values may be secrets."""
    words = [os.path.basename(word).replace("__main__.py", "orchestrate") for word in command[:1]]
    for word in command[1:]:
        if word.startswith("-"):
            break
        words.append(word)
    return " ".join(words)[:500]


def is_held(path: Path) -> bool:
    """Does a living process hold the lock? A moment later that may have changed."""
    descriptor = _open_existing(path)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise explain("lock", path, error) from error
    finally:
        os.close(descriptor)
    return False


def read_owner(path: Path) -> Owner | None:
    """Who took the lock last; whether it is still held, `is_held` says."""
    try:
        content = read_file(_owner_path(path))
        pid, host, command, since = parse_json(content or b"null")
        return Owner(int(pid), str(host), str(command), float(since))
    except (StateError, TypeError, ValueError):
        return None


def _owner_path(path: Path) -> Path:
    return path.with_suffix(".owner")


def _refusal(path: Path, what: str) -> LockHeldError:
    """The owner takes the lock first and writes its name then, so its name may be on the way."""
    for _ in range(20):
        owner = read_owner(path)
        if owner is not None and _may_live(owner):
            return LockHeldError(
                f"{what} is in use by {owner.describe()}",
                "wait until it ends, or end it; then try again",
            )
        time.sleep(_POLL)
    return _held_by_another(what)


def _held_by_another(what: str) -> LockHeldError:
    return LockHeldError(f"{what} is in use by another process", "try again when it has ended")


def _may_live(owner: Owner) -> bool:
    if owner.host != os.uname().nodename:
        return True
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _open_existing(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain("open", path, error) from error
