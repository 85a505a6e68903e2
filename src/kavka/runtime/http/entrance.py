"""Entrance: connections of https, from the listening socket to a protocol that speaks HTTP.

Decides how long a handshake may take, and which one is ended where there are too many connections. asyncio's own server
gives each a minute, and knows no bound: a thousand connections that sent nothing took all descriptors of the process,
and whoever came then was turned away, without any login. Must not know HTTP.

    I1  a handshake takes `HANDSHAKE_S` at most
    I2  of more than `most` connections the oldest one is ended whose handshake is under way; those behind it are
        bounded where requests are (http_deadlines, I4)
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

HANDSHAKE_S: Final = 10.0
PAUSE_S: Final = 0.5
"""After the system had no descriptor for a connection."""


class Entrance:
    """Accepts from `open` to `close`."""

    def __init__(self, bound: socket.socket, context: ssl.SSLContext, most: int) -> None:
        self._bound, self._context, self._most = bound, context, most
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        """In the order in which they came."""
        self._accepting: asyncio.Task[None] | None = None

    def open(self, make: Callable[[], asyncio.Protocol], count: Callable[[], int]) -> None:
        """make: a protocol for a connection; count: how many connections are behind their handshakes."""
        self._bound.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(make, count), name="https")

    async def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
        for wire in list(self._handshakes.values()):
            _end(wire)
        self._bound.close()

    async def _accept(self, make: Callable[[], asyncio.Protocol], count: Callable[[], int]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                wire, _ = await loop.sock_accept(self._bound)
            except OSError:
                await asyncio.sleep(PAUSE_S)
                continue
            if self._handshakes and len(self._handshakes) + count() >= self._most:
                _end(self._handshakes.pop(next(iter(self._handshakes))))
            task = asyncio.create_task(self._begin(wire, make), name="https handshake")
            self._handshakes[task] = wire
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _begin(self, wire: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(make, wire, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S)
        except OSError:
            wire.close()  # It speaks no TLS, or came to an end.


def _end(wire: socket.socket) -> None:
    """Its handshake fails for that, and closes it."""
    with suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
