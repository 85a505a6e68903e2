"""The acceptor: takes new connections of one listener and gives each to a processor.

What it decides: when it is tried to accept, and what becomes of who was accepted: served, put off or refused, as
`ConnectionQuota` and `ConnectionRates` say. It must not know sockets (`Listening` is one), or what is said on them.

    max.connections reached         no more is accepted until one closes, one log line; the backlog holds the rest.
                                    Those who must say who they are, and have not for STALLED_S, or for FLOOD_S where
                                    they are most of all, are closed for them
    max.connections.per.ip reached  accepted and closed at once, one log line
    no descriptor left (EMFILE)     no more is accepted for PAUSE_S, one log line

Where brokers (or their controller) have a listener of their own, it is a way in when max.connections is reached: its
connections are accepted beyond the limit, and for each one of another listener is closed (`security.giving_way`). So
replication goes on, and an administrator who comes in there can raise the limit. A limit that is lowered closes what
is too many in the same way. Where there is one listener for all, nobody gets in before somebody leaves.

I1  The counts of `ConnectionQuota` are those of the open connections of all listeners together.
I2  A failing accept never ends the listening.
I3  There are never more connections than descriptors for them, but for those that are about to be closed: as many as
    were accepted in one turn of the loop.
I4  Where all places are taken and somebody waits for one, a client that must log in and has not keeps its own for
    STALLED_S and no longer, and for FLOOD_S where those are most. What this costs is bounded: one walk over the
    connections in LOOK_S for each listener, and CLOSED_AT_ONCE.
    Brokers on a listener of their own, and who would leave no place to who waits, stay.

Source: Kafka's SocketServer.Acceptor.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from kavka.protocol.connection import ConnectionContext, Gate
from kavka.security.connection_quota import ConnectionBounds, ConnectionQuota

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.security.connection_rates import ConnectionRates
    from kavka.security.giving_way import Choice

ACCEPT_BATCH = 64
"""Connections accepted before the loop looks at anything else."""
MAX_HELD = 1_000
"""Connections of addresses over their rate that are held at once; further ones are closed at once."""
STALLED_S = 2.0
"""How long a client that must log in, and has not, has its place for sure where all places are taken."""
FLOOD_S = 1.0
"""The same where most of all connections are such ones: 2,000 places are then given to 2,000 others in a second."""
CLOSED_AT_ONCE = 512
"""Connections of such clients that are closed in one turn of the loop: 9 ms of processor time, 23 where TLS is open."""
LOGIN_S = 0.5
"""How long a login takes at most, where no machine is slow: who must log in, and has not after that, gives way to a
broker before a client that is in."""
LOOK_S = 0.5
"""How soon after that it is tried again to accept."""
PAUSE_S = 1.0
"""How long nothing is accepted after the descriptors ran out."""
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def bounds_of(config: BrokerConfig) -> ConnectionBounds:
    """What the broker's settings say, without what the host adds: descriptors, and addresses of hosts given by name."""
    return ConnectionBounds(
        max_connections=config.max_connections,
        max_connections_of_listeners=config.max_connections_of_listeners,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.connections_per_ip_overrides,
        max_connection_creation_rate=config.max_connection_creation_rate,
        max_connection_creation_rate_of_listeners=config.max_connection_creation_rate_of_listeners,
        rate_samples=config.quota_window_num,
        rate_window_ms=config.quota_window_size_seconds * 1000,
    )


def listeners_of_brokers(config: BrokerConfig) -> tuple[str, ...]:
    """By which brokers and their controller come in."""
    return tuple(name for name in (config.inter_broker_listener, config.control_plane_listener) if name)


class Accepted(Protocol):
    """A connection that was accepted."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it comes from: the host's address, a port."""
        ...

    def prepare(self) -> str:
        """Makes it ready to be served: where it arrived, as connection ids begin. Raises OSError where it is gone."""
        ...

    def close(self) -> None: ...


Arrived = TypeVar("Arrived", bound=Accepted)
Arriving = TypeVar("Arriving", bound=Accepted, covariant=True)


class Listening(Protocol[Arriving]):
    """A socket that listens."""

    @property
    def is_closed(self) -> bool: ...

    def accept(self) -> Arriving:
        """The next connection. Raises BlockingIOError where there is none, OSError where it could not be accepted."""
        ...

    def watch(self, on_acceptable: Callable[[], None]) -> None:
        """`on_acceptable` is called on the loop for as long as somebody waits to be accepted, until `ignore`."""
        ...

    def ignore(self) -> None: ...

    def close(self) -> None: ...


class GivesWay(Protocol):
    """A processor in the broker's loop, or one in a thread: what is asked of its connections where all places are
    taken."""

    def give_way(self, choice: Choice, on_done: Callable[[int], None]) -> None:
        """Closes those of its connections that `choice` finds among them; `on_done` is told on the broker's loop how
        many."""
        ...


class Log(Protocol):
    """Where lines about connections go: not all of them, where there are many."""

    def warning(self, event: str, **keys: Any) -> None: ...

    def error(self, event: str, **keys: Any) -> None: ...


NewGate: TypeAlias = Callable[[ConnectionContext], Gate]
"""Makes the gate of a connection that was just accepted."""


class Admission:
    """What all acceptors of a server share: how many connections there are, and who gives way where there are too
    many. `processors` have connections; `of_clients` among them those that have more than the controller's."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        quota: ConnectionQuota,
        log: Log,
        processors: Sequence[GivesWay],
        of_clients: Sequence[GivesWay],
    ) -> None:
        self._loop = loop
        self.quota = quota
        self.log = log
        self._processors = processors
        self._of_clients = of_clients
        self._closing = 0
        """How many connections processors were asked to close, and have not told of yet."""
        self._turn = 0
        self._fruitless = 0
        self._looked_at: dict[str, float] = {}
        """By listener: when it was last looked for clients that do not log in."""

    def close_unknown(self, listener: str) -> None:
        """All places are taken: those who do not say who they are give way. Each close wakes who waits for a place."""
        now = self._loop.time()
        if now < self._looked_at.get(listener, -LOOK_S) + LOOK_S / 2:
            return  # Places come and go all the time, and each time the next one finds none.
        self._looked_at[listener] = now
        from kavka.security.giving_way import Unknown  # late: few brokers ever have too many connections

        spared = self.quota.spared_for(listener)
        for processor in self._processors:
            processor.give_way(Unknown(CLOSED_AT_ONCE, STALLED_S, FLOOD_S, spared), lambda _closed: None)

    def close_surplus(self) -> None:
        """Has the connections closed that are too many, of one thread after another.

        Each thread tells for itself which those are, so that nobody has to know when every connection said something.
        """
        self._fruitless = 0
        self._ask_to_close()

    def _ask_to_close(self) -> None:
        """Until enough are about to be closed, or nobody has any that may be."""
        processors, quota = self._of_clients, self.quota
        while self._fruitless < len(processors) and (wanted := quota.surplus - self._closing) > 0:
            from kavka.security.giving_way import Idlest  # late, as above

            count = wanted if len(processors) == 1 else 1
            processor = processors[self._turn % len(processors)]
            self._turn += 1
            self._closing += count
            choice = Idlest(count, LOGIN_S, quota.is_protected)
            processor.give_way(choice, partial(self._on_surplus_closed, count))

    def _on_surplus_closed(self, asked: int, closed: int) -> None:
        self._closing -= asked
        self._fruitless = 0 if closed else self._fruitless + 1
        if len(self._of_clients) > 1:
            self._ask_to_close()


class Acceptor(Generic[Arrived]):
    """Of one listening socket; `start` begins to accept. `processors` take a connection each, in turn."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: Listening[Arrived],
        processors: Sequence[Callable[[Arrived, ConnectionContext], None]],
        admission: Admission,
        *,
        listener_name: str,
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._processors = processors
        self._listener_name = listener_name
        self._admission = admission
        self._quota = admission.quota
        self._log = admission.log
        self.new_gate: NewGate | None = None
        """Makes the gate of each connection, where clients must authenticate by SASL. Set before `start`."""
        self._accepted = 0
        self._accepting = False
        self._resuming: asyncio.TimerHandle | None = None
        self._late: Arrived | None = None
        """Accepted, and waiting until the listener's rate allows it."""
        self._held: set[Arrived] = set()
        """Accepted, not read, and closed when their time is over."""
        self._quota.add_listener(listener_name)

    def start(self) -> None:
        if not self._accepting:
            self._accepting = True
            self._listening.watch(self._on_acceptable)

    def stop(self) -> None:
        """Accepts no more and closes the listening socket; accepted connections stay."""
        self._pause()
        if self._resuming is not None:
            self._resuming.cancel()
        for connected in (*self._held, *([] if self._late is None else [self._late])):
            connected.close()
        self._held.clear()
        self._late = None
        self._listening.close()

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self._listening.ignore()

    def _resume(self) -> None:
        # Who was accepted and waits goes first: the next one would take its place, and it would be forgotten.
        if not self._listening.is_closed and self._late is None:
            self.start()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPT_BATCH):
            if not self._quota.has_room(self._listener_name):
                self._pause()
                self._quota.when_room(self._resume)
                self._admission.close_unknown(self._listener_name)
                self._look_again(self._resume)
                self._log.warning(
                    "no connections accepted until one closes: there are as many as may be",
                    listener=self._listener_name,
                    connections=self._quota.count,
                    next="raise max.connections, or the limit of open files (ulimit -n); give brokers a listener of "
                    "their own, which stays a way in",
                )
                return
            try:
                connected = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._wait_for_resources(error)
                    return
                continue  # This one is gone before it was accepted (ECONNABORTED); the next may be good.
            if self._quota.rates is None:
                self._admit(connected)
            elif not self._admit_in_time(self._quota.rates, connected):
                return

    def _look_again(self, look: Callable[[], None]) -> None:
        """Whoever did not log in may give way later: asked for as long as somebody waits to be accepted."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._resuming = self._loop.call_later(LOOK_S, look)

    def _admit_in_time(self, rates: ConnectionRates, connected: Arrived) -> bool:
        """Admits a connection when the rates of broker and listener allow it: whether that is now. Else nothing is
        accepted until then."""
        now_ms = int(self._loop.time() * 1000)
        is_protected = self._quota.is_protected(self._listener_name)
        delay_ms = rates.delay_ms(self._listener_name, now_ms, is_protected=is_protected)
        if not delay_ms:
            self._admit_by_address(rates, connected)
            return True
        self._log.warning(
            "no connections accepted for a while: they come faster than they may",
            listener=self._listener_name,
            delay_ms=delay_ms,
            setting="max.connection.creation.rate",
        )
        self._pause()
        self._late = connected
        self._resuming = self._loop.call_later(delay_ms / 1000, self._admit_late, rates, connected)
        return False

    def _admit_late(self, rates: ConnectionRates, connected: Arrived, *, is_noted: bool = False) -> None:
        if self._late is not connected:
            return  # The listener has ended, or it was admitted.
        if not self._quota.has_room(self._listener_name):
            # It came when there was room, which other listeners have used up since: it goes on waiting, as the next
            # one would. Let in, it would end a connection that was idle.
            admit = partial(self._admit_late, rates, connected)
            if not is_noted:
                self._quota.when_room(admit)
            self._look_again(partial(admit, is_noted=True))
            self._admission.close_unknown(self._listener_name)
            return
        self._late = None
        self._admit_by_address(rates, connected)
        self._resume()

    def _admit_by_address(self, rates: ConnectionRates, connected: Arrived) -> None:
        """Admits a connection unless its address makes too many of them: such a one is held for a while, and closed."""
        host = connected.address[0].removeprefix("::ffff:")
        delay_ms = rates.delay_of_address_ms(
            self._listener_name,
            host,
            int(self._loop.time() * 1000),
            is_protected=self._quota.is_protected(self._listener_name),
        )
        if not delay_ms:
            self._admit(connected)
            return
        self._log.warning(
            "connection refused: its address makes connections faster than it may",
            client=host,
            delay_ms=delay_ms,
            quota="connection_creation_rate",
        )
        if len(self._held) >= MAX_HELD:
            connected.close()
            return
        self._held.add(connected)
        self._loop.call_later(delay_ms / 1000, self._release, connected)

    def _release(self, connected: Arrived) -> None:
        self._held.discard(connected)
        connected.close()

    def _wait_for_resources(self, error: OSError) -> None:
        self._pause()
        self._resuming = self._loop.call_later(PAUSE_S, self._resume)
        self._log.error(
            "no connections accepted for a while: the process cannot open more files",
            listener=self._listener_name,
            connections=self._quota.count,
            why=str(error),
            next="raise the limit of open files (ulimit -n)",
        )

    def _admit(self, connected: Arrived) -> None:
        address, port = connected.address
        host = address.removeprefix("::ffff:")
        if not self._quota.admits(host):
            connected.close()
            self._log.warning(
                "connection refused: too many from one address", client=host, setting="max.connections.per.ip"
            )
            return
        try:
            arrived_at = connected.prepare()
        except OSError:
            connected.close()
            return
        index = self._accepted % len(self._processors)
        connection_id = f"{arrived_at}-{host}:{port}-{self._accepted}"
        self._accepted += 1
        self._quota.add(self._listener_name, host)
        context = ConnectionContext(connection_id, host, port, self._listener_name)
        if self.new_gate is not None:
            context.gate = self.new_gate(context)
        self._processors[index](connected, context)
        if self._quota.surplus:
            self._admission.close_surplus()
