"""Bounds what a connection may keep waiting: headers that never end, answers never read.

A few hundred of those, which cost nothing to send, would otherwise take every place that the
server has; uvicorn itself waits for ever. An upgrade that cannot be read gets an answer, too.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

# From the connection, or from the end of the answer before, to the end of a request's headers.
HEADERS_S = 30.0
# From the moment at which a client stops taking what is sent. Networks of phones stand still for
# a while, and a full buffer of the system has to empty by a third before it takes more.
TAKEN_S = 120.0
_UNREADABLE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _Taken(asyncio.Protocol):
    """A connection that ends when its client takes nothing of what is written, also at its end."""

    taken_s = TAKEN_S
    loop: asyncio.AbstractEventLoop
    transport: Any
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        # So that we are told of everything that is not taken at once.
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.taken_s, self._abandon)

    def resume_writing(self) -> None:
        self._go_on()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        super().connection_lost(exc)

    def _go_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()

    def _abandon(self) -> None:
        if self.transport.get_protocol() is self:
            self.transport.abort()


class PatientProtocol(_Taken, H11Protocol):
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


class PatientSocket(_Taken, WebSocketsSansIOProtocol):
    """WebSocket as uvicorn speaks it; clients that only send do not fill our memory."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The headers come in one piece, so a request that is not there now could not be read.
        if not self.handshake_initiated and not self.transport.is_closing():
            self.handshake_complete = self.close_sent = True
            self.transport.write(b"".join(self.conn.data_to_send()) or _UNREADABLE)
            self.transport.close()

    def pause_writing(self) -> None:
        """Each ping is answered: no more of them are read while the answers are not taken."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()
