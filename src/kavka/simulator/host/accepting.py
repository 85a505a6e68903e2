"""Accepting in a simulation: what `broker.acceptor` gets of a simulated network, and what it asks of connections.

Decides nothing: a connection that came about waits in its broker's kernel until the acceptor takes it. It must not know
what is said on a connection.

    I1  who waits to be accepted is connected, and may send: so it is with a kernel's backlog, which is endless here
    I2  where somebody is accepted at once, that takes no step of its own

Source: listen(2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kavka.protocol.connection import ConnectionContext
from kavka.security.giving_way import Choice
from kavka.simulator.host.network import Endpoint
from kavka.simulator.host.scheduler import NodeLoop


class Arrived:
    """A connection that was accepted, or waits for that."""

    def __init__(self, endpoint: Endpoint, since_s: float) -> None:
        self.endpoint = endpoint
        self.since_s = since_s
        """When it came about, by its broker's clock."""

    @property
    def address(self) -> tuple[str, int]:
        return self.endpoint.address

    def prepare(self) -> str:
        return self.endpoint.node

    def close(self) -> None:
        self.endpoint.close()


class Backlog:
    """A listening socket: who waits to be accepted."""

    def __init__(self, loop: NodeLoop, close_listener: Callable[[], None], on_accepted: Callable[[], None]) -> None:
        """`on_accepted` is called after each turn in which somebody could be accepted."""
        self._loop = loop
        self._on_accepted = on_accepted
        self._close_listener = close_listener
        self._waiting: deque[Arrived] = deque()
        self._on_acceptable: Callable[[], None] | None = None
        self.is_closed = False

    def on_connection(self, endpoint: Endpoint) -> None:
        """The network's side."""
        self._waiting.append(Arrived(endpoint, self._loop.time()))
        self._look()

    @property
    def oldest(self) -> Arrived | None:
        """Who has waited for longest, of those that have not gone meanwhile."""
        return next((one for one in self._waiting if not one.endpoint.has_failed), None)

    def accept(self) -> Arrived:
        """Raises BlockingIOError where nobody waits."""
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft()

    def watch(self, on_acceptable: Callable[[], None]) -> None:
        self._on_acceptable = on_acceptable
        if self._waiting:
            self._loop.call_soon(self._look)

    def ignore(self) -> None:
        self._on_acceptable = None

    def close(self) -> None:
        self.is_closed = True
        self._close_listener()
        for one in self._waiting:
            one.close()
        self._waiting.clear()

    def _look(self) -> None:
        if self._on_acceptable is not None and self._waiting:
            self._on_acceptable()
            self._on_accepted()
            if self._waiting and self._on_acceptable is not None:  # More than are accepted in one turn.
                self._loop.call_soon(self._look)


class Place(NamedTuple):
    """A connection, as it is when somebody must give way."""

    listener: str
    host: str
    is_unknown: bool
    accepted_at: float
    active_at: float
    close: Callable[[], None]


class Places:
    """All connections of one life of a broker: what the acceptors ask to give way."""

    def __init__(self, loop: NodeLoop) -> None:
        self._loop = loop
        self._look: dict[ConnectionContext, Callable[[], Place]] = {}

    def add(self, context: ConnectionContext, look: Callable[[], Place]) -> None:
        self._look[context] = look

    def remove(self, context: ConnectionContext) -> None:
        del self._look[context]

    def __contains__(self, context: ConnectionContext) -> bool:
        return context in self._look

    def all(self) -> list[Place]:
        return [look() for look in self._look.values()]

    def give_way(self, choice: Choice, on_done: Callable[[int], None]) -> None:
        """As `broker.acceptor.GivesWay` says."""
        chosen: list[Place] = choice.among(self.all(), self._loop.time())
        for each in chosen:
            each.close()
        on_done(len(chosen))


class NoLog:
    """Lines about connections, which nobody reads here."""

    def warning(self, event: str, **keys: Any) -> None:
        """Writes nothing."""

    def error(self, event: str, **keys: Any) -> None:
        """The same."""
