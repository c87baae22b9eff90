"""The guardian: the keeper's parent, which ends what a killed keeper leaves behind.

The keeper watches one plain program at a time itself, without a warden. A killed keeper's children
come to the guardian, because it is a subreaper; it holds the wardens' lock, so that nothing new
starts before all of them are dead. It does nothing else. A keeper without one uses wardens only.
"""

from __future__ import annotations

import os

from orchestrate.execute.keeper import tree
from orchestrate.execute.keeper.protocol import WARDEN_LOCK, take_lock
from orchestrate.execute.keeper.standard import signal, socket


def guard(keeper: int, line: socket.socket, folder: str) -> None:
    """Once the keeper has begun, get ready and say so; then wait for its end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not line.recv(1):
        return
    lock = take_lock(os.path.join(folder, WARDEN_LOCK), shared=True, patience_s=5.0)
    if lock is None or not tree.become_subreaper():
        return
    try:
        line.send(b"!")
    except OSError:
        pass  # it is gone already
    finally:
        os.waitpid(keeper, 0)
        tree.end_descendants(3600.0)
