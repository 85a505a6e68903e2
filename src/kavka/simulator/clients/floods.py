"""Floods: one machine that opens as many connections to a broker's listener for clients as it can, and keeps them.

Decides how many, and what is said on them. It must not know who is let in.

    SILENT     nothing is ever sent
    HELLO      TLS is spoken, and nothing after that
    GUESS      logins with wrong passwords, one after the other on each connection
    IN         logins with the right password, and nothing after that
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from kavka.errors import ConnectionFailed
from kavka.simulator.host.broker import PORT

if TYPE_CHECKING:
    from kavka.network import Connection
    from kavka.simulator.clients.workload import Clients
    from kavka.simulator.host.scheduler import NodeLoop

AGAIN_S: Final = 0.05
"""A connection that ended is opened again after so long."""


class Flood(Enum):
    """What the machine does on its connections."""

    SILENT = "silent"
    HELLO = "hello"
    GUESS = "guess"
    IN = "in"


class Flooder:
    """A machine called as `user`, with `count` connections to one broker, each opened again when it ends."""

    def __init__(self, clients: Clients, broker: str, *, user: str, kind: Flood, count: int) -> None:
        assert clients.logins is not None, "the world is secured"
        self._clients = clients
        self._logins = clients.logins
        self._broker = broker
        self._kind = kind
        self.loop: NodeLoop = clients.node(user)
        self.attempts = 0
        """How often a connection was made, or tried."""
        self.answered = 0
        """How many logins were refused by an answer."""
        self._open: list[Connection] = []
        self._is_over = False
        for _ in range(count):
            clients.watch(self.loop.create_task(self._go_on()))

    def stop(self) -> None:
        """It closes all."""
        self._is_over = True
        for connection in self._open:
            connection.close()

    async def _go_on(self) -> None:
        while not self._is_over:
            self.attempts += 1
            with suppress(ConnectionFailed):
                connection = await self._connect()
                if self._is_over:
                    connection.close()
                self._open.append(connection)
                try:
                    await connection.receive_frame()  # Until it ends.
                finally:
                    self._open.remove(connection)
                    connection.close()
            await asyncio.sleep(AGAIN_S)

    async def _connect(self) -> Connection:
        """Raises ConnectionFailed, also where a login fails."""
        network = self._clients.plain_network(self.loop)
        match self._kind:
            case Flood.SILENT:
                return await network.connect(self._broker, PORT)
            case Flood.HELLO:
                return await self._logins.network(network, self.loop).connect(self._broker, PORT)
            case Flood.IN:
                return await self._logins.logged_in(network, self.loop).connect(self._broker, PORT)
            case Flood.GUESS:
                wrong = replace(self._logins.settings(self.loop.name), password="a guess")
                try:
                    return await self._logins.logged_in(network, self.loop, wrong).connect(self._broker, PORT)
                except ConnectionFailed as refused:
                    self.answered += isinstance(refused.__cause__, ValueError)
                    raise
