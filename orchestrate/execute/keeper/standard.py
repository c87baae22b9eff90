"""`signal` and `socket` without the enumerations that both wrap around their C halves.

Importing the public modules takes the keeper as long as starting Python does. What is used of them
here is the same in both halves, except that accepting gives a descriptor (`accept`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    try:
        import _signal as signal
        import _socket as socket
    except ImportError:  # not CPython
        import signal
        import socket

__all__ = ["IGNORED_BY_PYTHON", "accept", "signal", "socket"]

# Writing to a peer that is gone must not kill us; but what is ignored stays so in a new program.
IGNORED_BY_PYTHON = [
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)
]


def accept(listener: socket.socket) -> socket.socket:
    """The connection of the next client."""
    # The public `accept` is Python around this, which its type does not mention.
    fd, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
