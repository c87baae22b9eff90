"""Bounds how long a connection may be open without a request: one that never ends its headers.

A few hundred of those, which cost nothing to send, would otherwise take every place that the
server has; uvicorn itself waits for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# From the connection, or from the end of the answer before, to the end of a request's headers.
HEADERS_S = 30.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to its patience."""

    headers_s = HEADERS_S
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def on_response_complete(self) -> None:
        self._expect()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._stop_waiting()
        self._patience = self.loop.call_later(self.headers_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _give_up(self) -> None:
        is_ours = not self.transport.is_closing() and self.transport.get_protocol() is self
        # With headers that have come, what happens next has bounds of its own.
        if is_ours and self.conn.their_state is h11.IDLE:
            head = h11.Response(status_code=408, headers=[(b"connection", b"close")])
            for event in (head, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
