"""What an earlier keeper left: its processes are ended, and only then are its attempts lost."""

from __future__ import annotations

import os
import time

from orchestrate.execute.keeper import tree
from orchestrate.execute.keeper.identity import (
    is_token,
    keep_identity,
    known_token,
    place_mark,
)
from orchestrate.execute.keeper.journal import KeeperJournal
from orchestrate.execute.keeper.protocol import KEEPER_MARKER, Refused, now
from orchestrate.execute.keeper.standard import signal

_END_PATIENCE_S = 15.0
# A keeper gives its programs two seconds, and then ends them.
_KEEPER_PATIENCE_S = 10.0
_STRAYS_END_IN_S = 2.0
_NAMED = 5
_AT_WORK = "at-work-"


def settle_lost(journal: KeeperJournal, reason: str, tokens: set[str]) -> None:
    """Say of every open attempt that it is lost; not before nothing that a token marks is alive,
    nor anything in the session of a program that was noted as at work: it may have emptied its
    environment."""
    noted = _at_work(journal.folder, tokens)
    for leader, since in noted:
        _end_session(leader, since)
    for token in tokens:
        left = tree.end_marked(token, _END_PATIENCE_S)
        if left:
            raise Refused(f"what an earlier attempt started cannot be ended: {name_all(left)}")
    for leader, _ in noted:
        _refuse_strays(leader)
        forget_at_work(journal.folder, leader)
    for attempt in sorted(journal.unsettled):
        journal.reserve(1)
        journal.append("lost", attempt, {"reason": reason, "at": time.time()})
    journal.unsettled = set()


def note_at_work(folder: str, token: str, pid: int) -> None:
    """Leave word of a program that leads a session, for a keeper that comes after a kill."""
    try:
        os.symlink(f"{token} {tree.began(pid)}", _note_of(folder, pid))
    except OSError:
        return  # the folder was deleted or moved, or the disk is full: its marks remain


def forget_at_work(folder: str, pid: int) -> None:
    try:
        os.unlink(_note_of(folder, pid))
    except OSError:
        return


def _note_of(folder: str, pid: int) -> str:
    return os.path.join(folder, f"{_AT_WORK}{pid}")


def _at_work(folder: str, tokens: set[str]) -> list[tuple[int, int]]:
    """The programs that a keeper of these tokens left word of, and when each began; what a copied
    folder says is about another run's."""
    found: list[tuple[int, int]] = []
    for name in os.listdir(folder):
        pid = name.removeprefix(_AT_WORK)
        if pid == name or not pid.isdecimal():
            continue
        try:
            token, _, since = os.readlink(os.path.join(folder, name)).rpartition(" ")
        except OSError:
            continue  # no note of ours
        if token in tokens and since.isdecimal():
            found.append((int(pid), int(since)))
    return found


def _end_session(leader: int, since: int) -> None:
    """Kill the members of a session as long as its leader is known to be the same as then."""
    give_up = now() + _END_PATIENCE_S
    while tree.began(leader) == since and now() < give_up:
        left = tree.in_session(leader)
        if not left:
            return
        for pid in left:
            tree.signal_process(
                pid,
                signal.SIGKILL,
                lambda found: tree.session_of(found) == leader and tree.began(leader) == since,
            )
        time.sleep(0.002)


def _refuse_strays(leader: int) -> None:
    """Whose they are cannot be proven once their leader has gone: a person has to end them."""
    give_up = now() + _STRAYS_END_IN_S
    while left := tree.in_session(leader):
        if now() > give_up:
            pids = " ".join(map(str, left))
            raise Refused(
                f"what an earlier attempt seems to have started is alive: {name_all(left)}; "
                f"end it: kill {pids}"
            )
        time.sleep(0.02)


def recover_identity(run_dir: str) -> bool:
    """Has the run an identity? One whose records were all deleted is found on its processes."""
    if known_token(run_dir):
        return True
    tokens = [token for token in tree.tokens_beginning(place_mark(run_dir)) if is_token(token)]
    if tokens:
        keep_identity(run_dir, tokens[0])
    return bool(tokens)


def end_other_keepers(token: str) -> None:
    """End keepers whose folder, and the lock in it, were deleted under them.

    They are told to end, and so end their programs themselves, with all that left their trees.
    """
    give_up = now() + _KEEPER_PATIENCE_S
    for pid in other_keepers(token):
        _signal_keeper(pid, signal.SIGTERM, token)
    while other_keepers(token) and now() < give_up:
        time.sleep(0.01)
    give_up = now() + _END_PATIENCE_S
    while left := other_keepers(token):
        for pid in left:
            _signal_keeper(pid, signal.SIGKILL, token)
        if now() > give_up:
            raise Refused(f"an earlier keeper of the run cannot be ended: {name_all(left)}")
        time.sleep(0.01)


def end_keeper(pid: int, token: str) -> None:
    """Tell a keeper that cannot be reached to end; its lock says when it has."""
    _signal_keeper(pid, signal.SIGTERM, token)


def _signal_keeper(pid: int, number: int, token: str) -> None:
    tree.signal_process(pid, number, lambda found: tree.has_variable(found, KEEPER_MARKER, token))


def other_keepers(token: str) -> list[int]:
    """Keepers of the run besides us and our guardian, with their helpers."""
    ours = (os.getpid(), os.getppid())
    return [
        pid
        for pid in tree.parents()
        if pid not in ours and tree.has_variable(pid, KEEPER_MARKER, token)
    ]


def age_of(pid: int) -> float:
    """For how many seconds a process has been there; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0.0
    return now() - ticks / os.sysconf("SC_CLK_TCK")


def name_all(pids: list[int]) -> str:
    names = ", ".join([f"process {pid} ({_name_of(pid)})" for pid in pids[:_NAMED]])
    more = len(pids) - _NAMED
    return names + (f" and {more} more" if more > 0 else "")


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
