"""How long a peer of the console or of the schema registry may be silent: HTTP connections with deadlines.

uvicorn ends idle connections between requests only. A connection that never sends a whole head, or does not read its
answer, kept one of the server's places for ever; a thousand of them shut everybody else out.

    I1  a head is whole `HEAD_S` after its connection began or after its own first byte; bytes in between give no more
    I2  who reads nothing of an answer for `UNREAD_S` is cut off
    I3  while an application answers there is no deadline here: it bounds bodies, and streams of events go on

Source: uvicorn's H11Protocol.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
UNREAD_S: Final = 60.0


class TimedHttp(H11Protocol):
    """One connection."""

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        elif self._head is None and not self.transport.is_closing():
            self._expect_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self._forget_unread()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head = self.loop.call_later(HEAD_S, self.transport.close)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
