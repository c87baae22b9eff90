"""Process trees: adopt orphans, find every descendant, end them all, and never signal a stranger.

On Linux a *subreaper* becomes the parent of every orphan below it, so "I have no children left"
proves that a tree is gone. Elsewhere only the process group can be ended.
"""

from __future__ import annotations

import os
import sys
import time

from orchestrate.execute.keeper.protocol import MARKER, WITHIN
from orchestrate.execute.keeper.standard import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_QUIET_LOOKS = 4


def _no_prctl(option: int, value: int) -> int:  # noqa: ARG001 - the signature of the real one
    return -1


_prctl: Callable[[int, int], int] = _no_prctl


def _find_prctl() -> Callable[[int, int], int]:
    if sys.platform != "linux":
        return _no_prctl
    try:
        import ctypes

        function = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return _no_prctl
    return lambda option, value: int(function(option, value, 0, 0, 0))


def become_subreaper() -> bool:
    """True if orphans below this process will come to it."""
    # Looked for once, late, and by the keeper: the search is slow, and wardens are its copies.
    global _prctl  # noqa: PLW0603 - a fact about the platform
    if _prctl is _no_prctl:
        _prctl = _find_prctl()
    return _prctl(_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def parents() -> dict[int, int]:
    """The parent of every process; empty where there is no /proc."""
    table: dict[int, int] = {}
    for pid in _numbers():
        parent = _parent_of(pid)
        if parent is not None:
            table[pid] = parent
    return table


def _numbers() -> list[int]:
    """Of all processes; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _parent_of(pid: int) -> int | None:
    """None if it is gone or a zombie: neither can be signalled to any effect.

    A process whose first thread has ended looks like a zombie too, but its other threads work on.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may contain anything, parentheses too.
            fields = file.read().rpartition(b")")[2].split(None, 18)
        state, parent, threads = fields[0], fields[1], fields[17]
    except (OSError, IndexError):
        return None
    return None if state == b"Z" and int(threads) <= 1 else int(parent)


def began(pid: int) -> int:
    """When a process began, in ticks since the boot: with its number that means no other; else 0.

    It holds for a zombie, too, whose number is still its own.
    """
    return _stat_of(pid)[1]


def session_of(pid: int) -> int:
    """The session that a living process belongs to; 0 if it is gone."""
    return _stat_of(pid)[0] if _parent_of(pid) is not None else 0


def _stat_of(pid: int) -> tuple[int, int]:
    """Its session, and when it began."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (int(fields[3]), int(fields[19])) if len(fields) > 19 else (0, 0)


def in_session(leader: int) -> list[int]:
    """The living members of a session; the leader, if it lives, comes last."""
    found = [pid for pid in _numbers() if session_of(pid) == leader]
    return sorted(found, key=lambda pid: pid == leader)


def descendants(root: int, spare: frozenset[int] = frozenset()) -> list[int]:
    """Every living process below `root`, without those in or below `spare`."""
    table = parents()
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in spare:
                found.append(child)
                todo.append(child)
    return found


def signal_process(pid: int, number: int, is_ours: Callable[[int], bool]) -> None:
    """Signal a process if, once we hold on to it, it is still ours; its number may be reused."""
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, or a sandbox
        handle = -1
    try:
        if is_ours(pid):
            if handle >= 0:
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone, or another user's (sudo); the caller counts who is left
    finally:
        if handle >= 0:
            os.close(handle)


def is_below(pid: int, root: int) -> bool:
    seen: int | None = pid
    while seen is not None and seen > 1:
        seen = _parent_of(seen)
        if seen == root:
            return True
    return False


def signal_group(leader: int, number: int) -> None:
    """Signal the group of an unreaped child of ours, whose number cannot be reused."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return  # macOS says EPERM for a group of zombies


def signal_tree(leader: int, number: int, spare: frozenset[int] = frozenset()) -> None:
    """Signal the group of an unreaped child of ours and every descendant that left the group."""
    signal_group(leader, number)
    me = os.getpid()
    for pid in descendants(me, spare):
        try:
            if os.getpgid(pid) == leader:
                continue
        except ProcessLookupError:
            continue
        signal_process(pid, number, lambda found: is_below(found, me))


def end_descendants(patience_s: float, spared: Callable[[], frozenset[int]] = frozenset) -> int:
    """Kill and reap everything below this process but who is spared; how many would not die."""
    me = os.getpid()
    give_up = time.monotonic() + patience_s
    while True:
        spare = spared()
        if not _is_any_left(spare):
            return 0
        alive = descendants(me, spare)
        for pid in alive:
            signal_process(pid, signal.SIGKILL, lambda found: is_below(found, me))
        if time.monotonic() > give_up:
            return max(len(alive), 1)
        time.sleep(0.001)


def _is_any_left(spare: frozenset[int]) -> bool:
    """Collect what has ended; is there any child left besides `spare`?"""
    try:
        if not spare:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        alive = [pid for pid in children() - spare if not os.waitpid(pid, os.WNOHANG)[0]]
        return bool(alive)
    except ChildProcessError:
        return False


def children() -> set[int]:
    """The children of this process.

    Every tree below us has a member among them at any moment, and none leaves before we collect
    it: so a list without strangers proves that there are none.
    """
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb", buffering=0) as file:
            return set(map(int, file.read().split()))
    except OSError:  # a kernel without it
        return {pid for pid, parent in parents().items() if parent == me}


def has_ended(pid: int) -> bool:
    """Has this child of ours ended, and only not been collected yet?"""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def collect_orphans(leader: int, spare: frozenset[int]) -> bool:
    """Collect children that have ended; True if the leader has, who is left to the caller."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid in spare:
            return False
        if found.si_pid == leader:
            return True
        os.waitpid(found.si_pid, 0)


def end_marked(token: str, patience_s: float) -> list[int]:
    """Kill every process that a run's token marks; those that would not die in time.

    They have no parent any more, so one that forks and ends while we look through the list can
    be missed: only several looks that find none say that there is none.
    """
    give_up = time.monotonic() + patience_s
    quiet_looks = 0
    while quiet_looks < _QUIET_LOOKS:
        alive = marked(token)
        quiet_looks = 0 if alive else quiet_looks + 1
        for pid in alive:
            signal_process(pid, signal.SIGKILL, lambda found: has_mark(found, token))
        if alive and time.monotonic() > give_up:
            return alive
        time.sleep(0.002)
    return []


def marked(token: str, spare: frozenset[int] = frozenset()) -> list[int]:
    """The programs of a run and what they started, other runs included; the youngest first.

    Those may have forked and gone before we come to the others.
    """
    spared = spare | {os.getpid()}
    listed = sorted(_numbers(), reverse=True)
    return [pid for pid in listed if pid not in spared and has_mark(pid, token)]


def has_mark(pid: int, token: str, attempt: str = "") -> bool:
    """Does a program belong to the token's run, or, if one is named, to its attempt?"""
    mark = f"{token}:{attempt}".encode("ascii")
    environment = _environment(pid)
    if mark not in environment:
        return False
    marks = [*_value_in(environment, WITHIN).split(b" "), _value_in(environment, MARKER)]
    return any(found == mark if attempt else found.startswith(mark) for found in marks)


def tokens_beginning(start: str) -> set[str]:
    """The tokens of all programs that begin so, and of what they started.

    A keeper's own token is none of them: one that is only starting has no program yet, and must not
    make its run look robbed.
    """
    found: set[str] = set()
    for pid in _numbers():
        environment = _environment(pid)
        if start.encode("ascii") not in environment:
            continue
        marks = [_value_in(environment, MARKER), *_value_in(environment, WITHIN).split(b" ")]
        tokens = [mark.partition(b":")[0].decode("ascii", "replace") for mark in marks]
        found.update(token for token in tokens if token.startswith(start))
    return found


def has_variable(pid: int, name: str, value: str) -> bool:
    """Had its program this variable when it began?"""
    return _value_in(_environment(pid), name) == value.encode("ascii")


def _value_in(environment: bytes, name: str) -> bytes:
    start = (b"\0" + environment).find(f"\0{name}=".encode("ascii"))
    if start < 0:
        return b""
    return environment[start + len(name) + 1 :].partition(b"\0")[0]


def _environment(pid: int) -> bytes:
    environment = _read(f"/proc/{pid}/environ")
    if environment:
        return environment
    # Its first thread may have ended, and what that knew with it; the others still know.
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return b""
    return b"\0".join([_read(f"/proc/{pid}/task/{thread}/environ") for thread in threads])


def _read(path: str) -> bytes:
    """Nothing if it cannot be read: it is gone, or another user's."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
