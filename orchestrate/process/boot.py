"""How a keeper begins: it leaves its starter behind, takes the lock, and says that it is ready.

Only then is the rest of the keeper's half imported: its starter need not wait for that.
"""

from __future__ import annotations

import os

from orchestrate.process.journal import Journal
from orchestrate.process.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    SOCKET,
    WARDEN_LOCK,
    Refused,
    take_lock,
)
from orchestrate.process.standard import IGNORED_BY_PYTHON, signal, socket

_LOCK_PATIENCE_S = 0.3
_END_PATIENCE_S = 15.0


def main(run_dir: str, linger_s: float) -> None:
    """Tell the starter on stdout `ready` and our number, or why not; then serve."""
    folder = detach(run_dir)
    guardian = leave_guardian_behind(folder)
    try:
        journal = take_over(folder)
        door = open_door()
    except (Refused, OSError) as error:
        os.write(1, f"refused: {error}".encode("utf-8", "replace"))
        os._exit(1)
    os.write(1, b"ready %d" % os.getpid())
    close_stdout()
    from orchestrate.process.keeper import Keeper

    Keeper(folder, journal, door, guardian, linger_s).serve()
    # Free the lock only by ending: what is left of us must be nothing.
    os._exit(0)


def detach(run_dir: str) -> str:
    """Leave the session and the descriptors behind; the keeper's folder."""
    os.setsid()
    for number in signal.valid_signals() - set(IGNORED_BY_PYTHON):
        # What our starter ignored (nohup, a shell's `&`) is not our programs' business.
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    folder = os.path.join(os.path.realpath(run_dir), FOLDER)
    os.chdir(folder)
    return folder


def leave_guardian_behind(folder: str) -> socket.socket:
    """Go on as a child of this process, whose only task that is from here on; the line to it."""
    ours, theirs = socket.socketpair()
    try:
        keeper = os.fork()
    except OSError:  # too many processes: then without one
        theirs.close()
        return ours
    if keeper:
        try:
            ours.close()
            close_stdout()
            from orchestrate.process.guardian import guard

            guard(keeper, theirs, folder)
        finally:
            os._exit(0)
    theirs.close()
    os.setsid()
    return ours


def take_over(folder: str) -> Journal:
    """Take the lock, and make sure that nothing of an earlier keeper is alive."""
    if take_lock(KEEPER_LOCK, patience_s=_LOCK_PATIENCE_S) is None:
        raise Refused("another keeper has this run")
    # Wardens of a killed keeper end their programs first; until then nothing may start.
    past = take_lock(WARDEN_LOCK, patience_s=_END_PATIENCE_S)
    if past is None:
        raise Refused("processes of an earlier attempt cannot be ended")
    os.close(past)
    journal = Journal(os.path.join(folder, JOURNAL))
    if journal.unsettled or journal.was_torn:
        from orchestrate.process.lost import settle_lost

        settle_lost(journal)
    return journal


def open_door() -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The folder is our current one: a socket's whole path may be too long for the kernel.
    if os.path.lexists(SOCKET):
        os.unlink(SOCKET)
    door.bind(SOCKET)
    door.listen(16)
    door.setblocking(False)
    return door


def close_stdout() -> None:
    """Its other end waits for what we have to say."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)
