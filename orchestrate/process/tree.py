"""Process trees: adopt orphans, find every descendant, end them all, and never signal a stranger.

On Linux a *subreaper* becomes the parent of every orphan below it, so "I have no children left"
proves that a tree is gone. Elsewhere only the process group can be ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def _find_prctl() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        function = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda option, value: int(function(option, value, 0, 0, 0))


# Found once, before any fork: a child between fork and exec should do as little as it can.
_prctl = _find_prctl()


def become_subreaper() -> bool:
    """True if orphans below this process will come to it."""
    return _prctl is not None and _prctl(_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    if _prctl is not None:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def parents() -> dict[int, int]:
    """The parent of every process; empty where there is no /proc."""
    table: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return table
    for name in names:
        if name.isdigit():
            parent = _parent_of(int(name))
            if parent is not None:
                table[int(name)] = parent
    return table


def _parent_of(pid: int) -> int | None:
    """None if it is gone or a zombie: neither can be signalled to any effect."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may contain anything, parentheses too.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else int(parent)


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


def signal_tree(leader: int, number: int) -> None:
    """Signal the group of an unreaped child of ours and every descendant that left the group."""
    # macOS says EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    me = os.getpid()
    for pid in descendants(me):
        try:
            if os.getpgid(pid) == leader:
                continue
        except ProcessLookupError:
            continue
        signal_process(pid, number, lambda found: is_below(found, me))


def end_descendants(patience_s: float, spare: frozenset[int] = frozenset()) -> int:
    """Kill and reap everything below this process but `spare`; how many would not die in time."""
    me = os.getpid()
    give_up = time.monotonic() + patience_s
    while True:
        if not _reap(spare):
            return 0
        alive = descendants(me, spare)
        for pid in alive:
            signal_process(pid, signal.SIGKILL, lambda found: is_below(found, me))
        if time.monotonic() > give_up:
            return max(len(alive), 1)
        time.sleep(0.001)


def _reap(spare: frozenset[int]) -> bool:
    """Collect what has ended; is there any child left besides `spare`?"""
    if spare:
        # Only the keeper spares anybody; its wardens are collected where their end is noticed.
        table = parents()
        me = os.getpid()
        return any(parent == me and pid not in spare for pid, parent in table.items())
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_marked(mark: bytes, patience_s: float) -> int:
    """Kill every process whose environment has the mark; how many would not die in time."""
    give_up = time.monotonic() + patience_s
    while True:
        alive = [pid for pid in parents() if pid != os.getpid() and _has_mark(pid, mark)]
        if not alive:
            return 0
        for pid in alive:
            signal_process(pid, signal.SIGKILL, lambda found: _has_mark(found, mark))
        if time.monotonic() > give_up:
            return len(alive)
        time.sleep(0.002)


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return (b"\0" + file.read()).find(b"\0" + mark) >= 0
    except OSError:
        return False
