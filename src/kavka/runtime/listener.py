"""The acceptor: takes new connections of one listener and gives each to a processor.

What it decides: whether a connection is accepted, put off or refused, and how many are to be closed so that brokers get
in. It must not know what is said on it.

    max.connections reached         no more is accepted until one closes, one log line; the backlog holds the rest.
                                    Those who must say who they are, and have not for STALLED_S, are closed for them
    max.connections.per.ip reached  accepted and closed at once, one log line
    no descriptor left (EMFILE)     no more is accepted for PAUSE_S, one log line

Where brokers (or their controller) have a listener of their own, it is a way in when max.connections is reached: its
connections are accepted beyond the limit, and for each one of another listener is closed, the one that was idle for
longest. So replication goes on, and an administrator who comes in there can raise the limit. A limit that is lowered
closes what is too many in the same way. Where there is one listener for all, nobody gets in before somebody leaves.

I1  The counts of `ConnectionQuota` are those of the open connections of all listeners together.
I2  A failing accept never ends the listening.
I3  There are never more connections than descriptors for them, but for those that are about to be closed: as many as
    were accepted in one turn of the loop.
I4  Where all places are taken and somebody waits for one, a client that must log in and has not keeps its own for
    STALLED_S and no longer. What this costs is bounded: one walk over the connections in LOOK_S for each listener.
    Brokers on a listener of their own, and who would leave no place to who waits, stay.

Source: Kafka's SocketServer.Acceptor and ConnectionQuotas.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kavka.protocol.connection import ConnectionContext, Gate
from kavka.runtime.connection_log import ConnectionLog
from kavka.runtime.ports import listen
from kavka.runtime.processor import Connect, Processor

if TYPE_CHECKING:
    from kavka.runtime.connection_rates import ConnectionRates

ACCEPT_BATCH = 64
"""Connections accepted before the loop looks at anything else."""
MAX_HELD = 1_000
"""Connections of addresses over their rate that are held at once; further ones are closed at once."""
STALLED_S = 2.0
"""How long a client that must log in, and has not, has its place for sure where all places are taken."""
LOOK_S = 0.5
"""How soon after that it is tried again to accept."""
PAUSE_S = 1.0
"""How long nothing is accepted after the descriptors ran out."""
_UNLIMITED = 2**31 - 1
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

__all__ = ["Acceptor", "ConnectionQuota", "ListenerLimits", "Processor", "Serves"]


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Settings of listening sockets; Kafka's names behind each. Buffer sizes of -1 leave it to the kernel."""

    backlog: int = 50
    """socket.listen.backlog.size"""
    send_buffer_bytes: int = 102400
    """socket.send.buffer.bytes"""
    receive_buffer_bytes: int = 102400
    """socket.receive.buffer.bytes"""
    max_connections: int = _UNLIMITED
    """max.connections"""
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """listener.name.L.max.connections: listener -> connections; max.connections where there is none"""
    descriptors: int = _UNLIMITED
    """How many connections the process can have open."""
    max_connections_per_ip: int = _UNLIMITED
    """max.connections.per.ip"""
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """max.connections.per.ip.overrides: address -> connections"""
    max_connection_creation_rate: int = _UNLIMITED
    """max.connection.creation.rate, a second"""
    max_connection_creation_rate_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """listener.name.L.max.connection.creation.rate: listener -> connections a second"""
    rate_samples: int = 11
    """quota.window.num"""
    rate_window_ms: int = 1000
    """quota.window.size.seconds"""


class ConnectionQuota:
    """Counts the broker's connections, in all, of each listener and for each address. `of_brokers` are the listeners
    that may be a way in for brokers."""

    def __init__(self, limits: ListenerLimits, of_brokers: Collection[str] = ()) -> None:
        self._limits = limits
        self._of_brokers = frozenset(of_brokers)
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []
        self.count = 0
        self.rates: ConnectionRates | None = None
        """How fast connections may come; None where that is not bounded."""
        self._rates_of_addresses: tuple[Mapping[str, int], int] = ({}, _UNLIMITED)
        self._change_rates()

    def add_listener(self, name: str) -> None:
        """To be called once for each listener, before its first connection."""
        self._by_listener[name] = 0

    def change_limits(self, limits: ListenerLimits) -> None:
        """`surplus` may be more than 0 afterwards."""
        self._limits = limits
        self._change_rates()
        self._wake()

    def change_rates_of_addresses(self, limits: Mapping[str, int], limit_of_any: int = _UNLIMITED) -> None:
        """Connections a second: of single addresses, and of each of the others."""
        self._rates_of_addresses = (limits, limit_of_any)
        self._change_rates()

    def _change_rates(self) -> None:
        limits, (of_addresses, of_any) = self._limits, self._rates_of_addresses
        rate, of_listeners = limits.max_connection_creation_rate, limits.max_connection_creation_rate_of_listeners
        if rate == of_any == _UNLIMITED and not of_listeners and not of_addresses:
            self.rates = None
            return
        if self.rates is None:
            from kavka.runtime.connection_rates import ConnectionRates  # late: few brokers bound them

            self.rates = ConnectionRates(limits.rate_samples, limits.rate_window_ms)
        self.rates.limit, self.rates.limits_of_listeners = rate, of_listeners
        self.rates.limits_of_addresses, self.rates.limit_of_any_address = of_addresses, of_any

    def is_protected(self, listener: str) -> bool:
        """Whether the listener is a way in: brokers have it for themselves, and there are others."""
        return listener in self._of_brokers and not self._by_listener.keys() <= self._of_brokers

    def has_room(self, listener: str) -> bool:
        """Whether the listener may have one connection more."""
        limits = self._limits
        if self._by_listener[listener] >= limits.max_connections_of_listeners.get(listener, limits.max_connections):
            return False
        if self.is_protected(listener):
            return self.count < limits.descriptors or self._unprotected() > 0
        return self.count < min(limits.max_connections, limits.descriptors)

    def spared_for(self, listener: str) -> frozenset[str]:
        """Whose connections do not give way where `listener` has no room: they would leave no place to it, or are
        brokers'."""
        limits = self._limits
        own = limits.max_connections_of_listeners.get(listener, limits.max_connections)
        is_own = self._by_listener[listener] >= own
        others = self._by_listener.keys() - {listener}
        return frozenset(name for name in others if is_own or self.is_protected(name))

    @property
    def surplus(self) -> int:
        """How many connections of listeners that are not protected are to be closed."""
        most = min(self._limits.max_connections, self._limits.descriptors)
        return min(max(self.count - most, 0), self._unprotected())

    def _unprotected(self) -> int:
        return sum(count for name, count in self._by_listener.items() if not self.is_protected(name))

    def when_room(self, wake: Callable[[], None]) -> None:
        """`wake` is called once, when a connection closed or the limits changed."""
        if wake not in self._waiting:  # Who looks again from time to time says so each time.
            self._waiting.append(wake)

    def admits(self, address: str) -> bool:
        """Whether `address` may have one connection more."""
        limits = self._limits
        limit = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        return self._by_address.get(address, 0) < limit

    def add(self, listener: str, address: str) -> None:
        self.count += 1
        self._by_listener[listener] += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def remove(self, listener: str, address: str) -> None:
        self.count -= 1
        self._by_listener[listener] -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()


class Serves(Protocol):
    """A processor in the broker's loop, or one in a thread."""

    def adopt(self, connected: socket.socket, context: ConnectionContext, connect: Connect | None = None) -> None: ...

    def close_idlest(self, count: int, is_spared: Callable[[str], bool], on_done: Callable[[int], None]) -> None:
        """Closes the `count` connections that were idle for longest, but for those of listeners that are spared;
        `on_done` is told on the broker's loop how many were closed."""
        ...

    def close_unknown(self, count: int, stalled_s: float, spared: Collection[str]) -> None:
        """Closes at most `count` connections whose clients must say who they are, and have not within `stalled_s`, but
        for those of the listeners in `spared`."""
        ...


NewGate: TypeAlias = Callable[[ConnectionContext], Gate]
"""Makes the gate of a connection that was just accepted."""


class Admission(NamedTuple):
    """What all acceptors of a server share. `on_surplus` closes connections that are too many, `on_full` those that do
    not log in, for a listener that has no room; `connect`, each listener's own, makes connections that are not plain
    ones."""

    limits: ListenerLimits
    quota: ConnectionQuota
    on_surplus: Callable[[], None]
    on_full: Callable[[str], None]
    log: ConnectionLog
    connect: Connect | None = None


class Acceptor:
    """One listening socket. It listens from the start; `start` begins to accept."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        processors: Sequence[Serves],
        admission: Admission,
        *,
        listener_name: str,
        host: str,
        port: int,
    ) -> None:
        """Binds `host` (empty for all addresses) and `port` (0 for a free one).

        Raises AddressUnavailable where that is not possible.
        """
        self._loop = loop
        self._connect = admission.connect
        self._processors = processors
        self._listener_name = listener_name
        self._quota = admission.quota
        self._on_surplus = admission.on_surplus
        self._on_full = admission.on_full
        self._log = admission.log
        self.new_gate: NewGate | None = None
        """Makes the gate of each connection, where clients must authenticate by SASL. Set before `start`."""
        self._accepted = 0
        self._accepting = False
        self._resuming: asyncio.TimerHandle | None = None
        self._late: socket.socket | None = None
        """Accepted, and waiting until the listener's rate allows it."""
        self._held: set[socket.socket] = set()
        """Accepted, not read, and closed when their time is over."""
        self._socket = _listen(host, port, admission.limits)
        self._quota.add_listener(listener_name)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        """The port that is bound, also where 0 was asked for."""

    def start(self) -> None:
        if not self._accepting:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def stop(self) -> None:
        """Accepts no more and closes the listening socket; accepted connections stay."""
        self._pause()
        if self._resuming is not None:
            self._resuming.cancel()
        for connected in (*self._held, *([] if self._late is None else [self._late])):
            connected.close()
        self._held.clear()
        self._late = None
        self._socket.close()

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket.fileno())

    def _resume(self) -> None:
        # Who was accepted and waits goes first: the next one would take its place, and it would be forgotten.
        if self._socket.fileno() >= 0 and self._late is None:
            self.start()

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPT_BATCH):
            if not self._quota.has_room(self._listener_name):
                self._pause()
                self._quota.when_room(self._resume)
                self._on_full(self._listener_name)
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
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._wait_for_resources(error)
                    return
                continue  # This one is gone before it was accepted (ECONNABORTED); the next may be good.
            if self._quota.rates is None:
                self._admit(connected, address[0], address[1])
            elif not self._admit_in_time(self._quota.rates, connected, address[0], address[1]):
                return

    def _look_again(self, look: Callable[[], None]) -> None:
        """Whoever did not log in may give way later: asked for as long as somebody waits to be accepted."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._resuming = self._loop.call_later(LOOK_S, look)

    def _admit_in_time(self, rates: ConnectionRates, connected: socket.socket, address: str, port: int) -> bool:
        """Admits a connection when the rates of broker and listener allow it: whether that is now. Else nothing is
        accepted until then."""
        now_ms = int(self._loop.time() * 1000)
        is_protected = self._quota.is_protected(self._listener_name)
        delay_ms = rates.delay_ms(self._listener_name, now_ms, is_protected=is_protected)
        if not delay_ms:
            self._admit_by_address(rates, connected, address, port)
            return True
        self._log.warning(
            "no connections accepted for a while: they come faster than they may",
            listener=self._listener_name,
            delay_ms=delay_ms,
            setting="max.connection.creation.rate",
        )
        self._pause()
        self._late = connected
        self._resuming = self._loop.call_later(delay_ms / 1000, self._admit_late, rates, connected, address, port)
        return False

    def _admit_late(
        self, rates: ConnectionRates, connected: socket.socket, address: str, port: int, *, is_noted: bool = False
    ) -> None:
        if self._late is not connected:
            return  # The listener has ended, or it was admitted.
        if not self._quota.has_room(self._listener_name):
            # It came when there was room, which other listeners have used up since: it goes on waiting, as the next
            # one would. Let in, it would end a connection that was idle.
            admit = partial(self._admit_late, rates, connected, address, port)
            if not is_noted:
                self._quota.when_room(admit)
            self._look_again(partial(admit, is_noted=True))
            self._on_full(self._listener_name)
            return
        self._late = None
        self._admit_by_address(rates, connected, address, port)
        self._resume()

    def _admit_by_address(self, rates: ConnectionRates, connected: socket.socket, address: str, port: int) -> None:
        """Admits a connection unless its address makes too many of them: such a one is held for a while, and closed."""
        host = address.removeprefix("::ffff:")
        delay_ms = rates.delay_of_address_ms(
            self._listener_name,
            host,
            int(self._loop.time() * 1000),
            is_protected=self._quota.is_protected(self._listener_name),
        )
        if not delay_ms:
            self._admit(connected, address, port)
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

    def _release(self, connected: socket.socket) -> None:
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

    def _admit(self, connected: socket.socket, address: str, port: int) -> None:
        host = address.removeprefix("::ffff:")
        if not self._quota.admits(host):
            connected.close()
            self._log.warning(
                "connection refused: too many from one address", client=host, setting="max.connections.per.ip"
            )
            return
        connected.setblocking(False)
        try:
            local = connected.getsockname()
        except OSError:
            connected.close()
            return
        index = self._accepted % len(self._processors)
        connection_id = f"{local[0].removeprefix('::ffff:')}:{local[1]}-{host}:{port}-{self._accepted}"
        self._accepted += 1
        self._quota.add(self._listener_name, host)
        context = ConnectionContext(connection_id, host, port, self._listener_name)
        if self.new_gate is not None:
            context.gate = self.new_gate(context)
        self._processors[index].adopt(connected, context, self._connect)
        if self._quota.surplus:
            self._on_surplus()


def _listen(host: str, port: int, limits: ListenerLimits) -> socket.socket:
    """A listening socket. What is set on it, the accepted ones inherit."""

    def prepare(listening: socket.socket) -> None:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        if limits.receive_buffer_bytes > 0:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)

    return listen(host, port, backlog=limits.backlog, prepare=prepare)
