"""How long a peer of the console or of the schema registry may be silent: HTTP connections with deadlines.

uvicorn ends idle connections between requests only. A connection that never sends a whole head, or does not read its
answer, kept one of the server's places for ever; a thousand of them shut everybody else out.

    I1  a head is whole `HEAD_S` after its connection began or after its own first byte; bytes in between give no more
    I2  who reads nothing of an answer for `UNREAD_S` is cut off; so is who has not read the rest of one that is written
        so long ago: a transport that is closed waits until all of it is sent
    I3  while an application answers there is no deadline here: it bounds bodies, and streams of events go on
    I4  of more than `MOST_CONNECTIONS` the one is ended that has been silent longest, between its answers or before its
        first head: whoever opens thousands shuts nobody out who asks for something

Source: uvicorn's H11Protocol.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0
UNREAD_S: Final = 60.0
MOST_CONNECTIONS: Final = 900
"""Less than those at which uvicorn refuses to answer (http_server.MAX_CONNECTIONS): it counts silent ones, too."""


class TimedHttp(H11Protocol):
    """One connection."""

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _silent_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._silent_since_s = self.loop.time()
        self._expect_head()
        if len(self.connections) > MOST_CONNECTIONS:
            self._end_silent()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
            if not self.flow.write_paused:
                self._forget_unread()
        elif self._head is None and not self.transport.is_closing():
            self._expect_head()

    def on_response_complete(self) -> None:
        self._silent_since_s = self.loop.time()
        super().on_response_complete()  # It begins the next answer, where that was asked for already.
        if self.cycle.response_complete and not self.flow.write_paused:
            self._expect_rest_read()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()
        if self.cycle is not None and self.cycle.response_complete:
            self._expect_rest_read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self._forget_unread()
        super().connection_lost(exc)

    def _end_silent(self) -> None:
        """Makes room for this connection (I4)."""
        silent = [each for each in self.connections if isinstance(each, TimedHttp) and each._is_silent()]
        others = [each for each in silent if each is not self]
        if others:
            min(others, key=lambda each: each._silent_since_s).transport.abort()

    def _is_silent(self) -> bool:
        is_between = self.cycle is None or self.cycle.response_complete
        return is_between and not self.transport.is_closing()

    def _expect_head(self) -> None:
        self._head = self.loop.call_later(HEAD_S, self._give_up)

    def _give_up(self) -> None:
        self.transport.close()
        if self._unread is None:
            self._expect_rest_read()

    def _expect_rest_read(self) -> None:
        self._forget_unread()
        self._unread = self.loop.call_later(UNREAD_S, self._end_unread)

    def _end_unread(self) -> None:
        self._unread = None
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
