"""How a keeper begins: it leaves its starter behind, takes the lock, and says that it is ready.

Only then is the rest of the keeper's half imported: its starter need not wait for that.
"""

from __future__ import annotations

import os
import time

from orchestrate.execute.keeper.guardian import guard
from orchestrate.execute.keeper.identity import (
    has_identity,
    keep_identity,
    known_token,
)
from orchestrate.execute.keeper.journal import KeeperJournal, read_identity
from orchestrate.execute.keeper.orphans import (
    age_of,
    end_keeper,
    end_other_keepers,
    name_all,
    other_keepers,
    settle_lost,
)
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    KEEPER_MARKER,
    SOCKET,
    WARDEN_LOCK,
    Refused,
    lock_holder,
    now,
    take_lock,
)
from orchestrate.execute.keeper.standard import IGNORED_BY_PYTHON, signal, socket
from orchestrate.execute.place import is_same_boot, is_same_place, place_of
from orchestrate.execute.reasons import COPIED

_LOCK_PATIENCE_S = 0.3
_END_PATIENCE_S = 15.0
# A keeper that has the lock and no socket for so long is one whose socket was deleted.
_DEAF_AFTER_S = 1.0
_OLD_S = 5.0


def begin(run_dir: str) -> tuple[str, KeeperJournal, socket.socket, socket.socket]:
    """Tell the starter on stdout `ready` and our number, or why not; what serving needs."""
    folder = detach(run_dir)
    guardian = leave_guardian_behind(folder)
    try:
        journal = take_over(folder)
        listener = open_listener()
    except (Refused, OSError) as error:
        os.write(1, f"refused: {error}".encode("utf-8", "replace"))
        os._exit(1)
    os.write(1, b"ready %d" % os.getpid())
    close_stdout()
    return folder, journal, listener, guardian


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
            guard(keeper, theirs, folder)
        finally:
            os._exit(0)
    theirs.close()
    os.setsid()
    return ours


def take_over(folder: str) -> KeeperJournal:
    """Take the lock, and make sure that nothing of an earlier keeper is alive."""
    run_dir = os.path.dirname(folder)
    token = os.environ.get(KEEPER_MARKER, "")
    was_kept = has_identity(run_dir)
    is_robbed = was_kept and not os.path.lexists(KEEPER_LOCK)
    if take_lock(KEEPER_LOCK, patience_s=_LOCK_PATIENCE_S) is None and not _replace_deaf(token):
        raise Refused("another keeper has this run")
    if known_token(run_dir) not in ("", token):
        raise Refused("another keeper has begun before us")
    if is_robbed:
        # The lock was deleted, perhaps under a keeper that still has it.
        end_other_keepers(token)
    # Wardens of a killed keeper end their programs first; until then nothing may start.
    past = take_lock(WARDEN_LOCK, patience_s=_END_PATIENCE_S)
    if past is None:
        left = name_all(other_keepers(token))
        raise Refused(f"what an earlier attempt started cannot be ended: {left}")
    os.close(past)
    return _open_journal(folder, run_dir, token, is_robbed=is_robbed, was_kept=was_kept)


def _open_journal(
    folder: str, run_dir: str, token: str, *, is_robbed: bool, was_kept: bool
) -> KeeperJournal:
    """The journal, in which every earlier attempt has an end."""
    here = place_of(run_dir)
    _refuse_linked(here)
    journal = KeeperJournal(os.path.join(folder, JOURNAL), token, here)
    is_gone = journal.is_new and was_kept
    is_copy = not is_same_place(journal.place, here)
    is_rebooted = not is_same_boot(journal.place, here)
    if is_gone:
        journal.append("gone", "-", {})
    if journal.unsettled or journal.was_torn or is_gone or is_robbed:
        if is_copy:
            settle_lost(journal, COPIED, set())
        else:
            reason = "its keeper ended without recording an exit"
            # The token of another boot marks nothing of ours, but perhaps a snapshot's programs.
            tokens = set() if is_rebooted else {journal.token, token or journal.token}
            settle_lost(journal, reason, tokens)
    if is_copy or is_rebooted or journal.token != token:
        is_copied = is_copy or not is_rebooted
        journal.renew(token or os.urandom(16).hex(), here, "copy" if is_copied else "boot")
    if was_kept or journal.claimed:
        # Else with the first claim: an identity says that there was one.
        keep_identity(run_dir, journal.token)
    return journal


def _refuse_linked(here: str) -> None:
    """Write nothing into the journal of a copy by hard links: it is the original's, too."""
    try:
        is_shared = os.stat(JOURNAL).st_nlink > 1
    except FileNotFoundError:
        return
    if is_shared and not is_same_place(read_identity(JOURNAL)[1], here):
        raise Refused("it is a copy by hard links, and shares its files with the original")


def _replace_deaf(token: str) -> bool:
    """Is the keeper that has the lock out of reach, its socket deleted? Then end it.

    One that has just begun has no socket yet, either.
    """
    give_up = now() + _DEAF_AFTER_S
    while now() < give_up:
        if os.path.lexists(SOCKET):
            return False
        time.sleep(0.02)
    holder = lock_holder(KEEPER_LOCK)
    if holder is None or age_of(holder) < _OLD_S:
        return False
    end_keeper(holder, token)
    if take_lock(KEEPER_LOCK, patience_s=_END_PATIENCE_S) is None:
        raise Refused(f"the run's keeper, process {holder}, has no socket and does not end")
    return True


def open_listener() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The folder is our current one: a socket's whole path may be too long for the kernel.
    if os.path.lexists(SOCKET):
        os.unlink(SOCKET)
    # Never open to other users, not even for the instant until a chmod.
    mask = os.umask(0o177)
    try:
        listener.bind(SOCKET)
    finally:
        os.umask(mask)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def close_stdout() -> None:
    """Its other end waits for what we have to say."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)
