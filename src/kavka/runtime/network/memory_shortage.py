"""MemoryShortage: who may go on receiving while half-received requests of all connections hold too much.

Decides which connections wait, which one goes on, and which are closed. There is one of a processor while its memory
is short; it is imported with the first. It must not know what a request means.

    nobody knows its client yet    closed: those that hold most first, until half of the memory is free
    the first that needs more      goes on until its request is whole, as long as it is quick enough
    all others                     wait, in the order in which they came

I1  Clients that have not said who they are, where they must, keep nobody waiting who has: before a login a request
    has a few hundred bytes, and thousands of half ones are nobody's who means to log in.
I2  Whoever goes on has STARVING_S, and a second more for every SLOWEST_BYTES that came meanwhile: bytes that trickle
    keep the others waiting for no longer than silence does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kavka.runtime.network.socket_connection import MEMORY

if TYPE_CHECKING:
    from kavka.runtime.network.processor import Processor
    from kavka.runtime.network.socket_connection import SocketConnection

STARVING_S: Final = 5.0
"""How long the one connection that goes on may take without bringing anything."""
SLOWEST_BYTES: Final = 256 * 1024
"""What it has to bring in a second after that."""


class MemoryShortage:
    """Of one processor, from the moment that its pool is tight until it is not."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._pool = processor.pool
        self._privileged: SocketConnection | None = None
        self._began_s = 0.0
        """When the privileged one was let go on, and what had arrived of its request then."""
        self._arrived_bytes = 0
        self._waiting: deque[SocketConnection] = deque()
        self._is_cleared = False

    def on_held(self, connection: SocketConnection) -> None:
        """`connection` holds a part of a request."""
        if connection.anonymous_bytes:
            self._close_anonymous(connection)
            return
        if not self._is_cleared:
            self._is_cleared = True
            self._clear()
        if self._privileged is connection or self._end_if_over():
            return
        if self._privileged is None:
            self._let_go_on(connection)
        else:
            connection.pause(MEMORY)
            self._waiting.append(connection)

    def on_given(self, connection: SocketConnection) -> None:
        """`connection` got a request complete, or closed: the next may go on, or all where there is enough."""
        if self._privileged is connection and (connection.closed or not connection.protocol.reader.held_bytes):
            self._privileged = None
        if self._end_if_over():
            return
        while self._waiting and self._privileged is None:
            following = self._waiting.popleft()
            if not following.closed:
                self._let_go_on(following)
                following.resume(MEMORY)

    def look(self, now_s: float) -> None:
        """Closes the connection that goes on if it takes too long (I2)."""
        connection = self._privileged
        if connection is None:
            return
        brought = connection.protocol.reader.arrived_bytes - self._arrived_bytes
        if now_s > self._began_s + STARVING_S + brought / SLOWEST_BYTES:
            self._processor.log.warning(
                "connection closed: its request comes too slowly, and memory is short for others",
                client=connection.protocol.context.client_host,
                listener=connection.protocol.context.listener_name,
            )
            connection.close()

    def _let_go_on(self, connection: SocketConnection) -> None:
        self._privileged = connection
        self._began_s = self._processor.loop.time()
        self._arrived_bytes = connection.protocol.reader.arrived_bytes

    def _end_if_over(self) -> bool:
        if self._pool.tight:
            return False
        if self._processor.shortage is self:
            self._processor.shortage = None
            self._privileged = None
            waiting, self._waiting = self._waiting, deque()
            for connection in waiting:
                if not connection.closed:
                    connection.resume(MEMORY)
        return True

    def _clear(self) -> None:
        """Closes connections whose clients nobody knows (I1). A walk over all, once in a shortage."""
        unknown = [one for one in self._processor.connections.values() if one.anonymous_bytes]
        unknown.sort(key=lambda one: one.anonymous_bytes, reverse=True)
        for connection in unknown:
            if self._pool.lent_bytes <= self._pool.limit_bytes // 2:
                break
            self._close_anonymous(connection)

    def _close_anonymous(self, connection: SocketConnection) -> None:
        self._processor.log.warning(
            "connection closed: memory is short, and its client has not said who it is",
            client=connection.protocol.context.client_host,
            listener=connection.protocol.context.listener_name,
        )
        connection.close()
