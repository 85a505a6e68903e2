"""The socket server: listening sockets, processors and the request channel of one broker, put together.

What it decides: how many processors there are and which of the broker's settings each part gets. It must not know
what a request means.

    num.network.threads = 1    one processor in the broker's own loop, which calls the handler directly
                        > 1    so many processors with threads of their own, and the RequestChannel between
    control.plane.listener.name    a processor in the broker's own loop in any case: what the controller says does not
                                   wait behind clients' requests

The first is the default and the faster one under the GIL: see processor_thread.py for the figures.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kavka.broker.acceptor import Acceptor, Admission, GivesWay, NewGate, bounds_of, listeners_of_brokers
from kavka.config.broker import BrokerConfig
from kavka.errors import InvariantViolation
from kavka.metrics import Member, Registry
from kavka.protocol.connection import ConnectionContext, Handler
from kavka.runtime.network.connection_log import ConnectionLog
from kavka.runtime.network.ports import listen
from kavka.runtime.network.processor import Connect, Processor
from kavka.runtime.network.processor_ports import ConnectionLimits, ProcessorPorts
from kavka.runtime.network.request_channel import RequestChannel, RequestMetrics
from kavka.security.connection_quota import ConnectionBounds, ConnectionQuota

if TYPE_CHECKING:
    from kavka.runtime.network.processor_thread import ProcessorThread

LONGEST_BACKLOG = 4096
"""net.core.somaxconn of Linux since 5.4; a kernel with less takes as much as it has."""


@dataclass(frozen=True, slots=True)
class ListenerLimits(ConnectionBounds):
    """Settings of listening sockets, and how many connections they may bring; Kafka's names behind each. Buffer sizes
    of -1 leave it to the kernel."""

    backlog: int = 50
    """socket.listen.backlog.size"""
    send_buffer_bytes: int = 102400
    """socket.send.buffer.bytes"""
    receive_buffer_bytes: int = 102400
    """socket.receive.buffer.bytes"""


@dataclass(frozen=True, slots=True)
class SocketServerLimits:
    """All bounds of the network room. `listeners_of_brokers`: those by which brokers and their controller come in."""

    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    listener: ListenerLimits = field(default_factory=ListenerLimits)
    network_threads: int = 1
    """num.network.threads"""
    queued_max_requests: int = 500
    """queued.max.requests"""
    listeners_of_brokers: Collection[str] = ()

    @classmethod
    def of(cls, config: BrokerConfig) -> SocketServerLimits:
        """The bounds that `config` sets.

        Three of Kafka's defaults are for Kafka's threads and the networks of 2011; they hold only where somebody wrote
        them down. num.network.threads is 1 otherwise (processor_thread.py says why). The receive buffer is the
        kernel's choice otherwise: with Kafka's 100 KiB a request of 1 MiB costs 2.5 times as much CPU (360 us against
        140), since the client may not send ahead. The send buffer of 100 KiB stays: a larger one makes sendfile slower
        (1 MiB in 395 us against 135), the data having left the processor's cache before the client reads it.
        The backlog is as long as the kernel allows otherwise: with Kafka's 50 the kernel drops connections that come
        together, and their clients wait for a second (2,000, one after the other: 13 s against 0.3).
        """
        written = config.static.keys() | config.dynamic.keys() | config.dynamic_default.keys()
        receiving = config.queued_max_request_bytes
        return cls(
            connection=ConnectionLimits(
                max_request_bytes=config.socket_request_max_bytes,
                max_idle_ms=config.connections_max_idle_ms,
                max_in_flight_requests=config.kavka_max_in_flight_requests_per_connection,
                max_output_bytes=config.kavka_max_output_bytes_per_connection,
                max_receiving_bytes=receiving if receiving > 0 else config.kavka_max_receiving_bytes,
            ),
            listener=ListenerLimits(
                backlog=(
                    config.socket_listen_backlog_size
                    if "socket.listen.backlog.size" in written
                    else max(config.socket_listen_backlog_size, LONGEST_BACKLOG)
                ),
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=(
                    config.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in written else -1
                ),
                **asdict(bounds_of(config)),
            ),
            network_threads=config.num_network_threads if "num.network.threads" in written else 1,
            queued_max_requests=config.queued_max_requests,
            listeners_of_brokers=listeners_of_brokers(config),
        )


class SocketServer:
    """Serves any number of listeners with one handler. Made and used on the broker's loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        *,
        limits: SocketServerLimits,
        registry: Registry,
        api_name: Callable[[int], str],
        on_halt: Callable[[InvariantViolation], None],
    ) -> None:
        """`on_halt` is called once an invariant is broken, on the broker's loop: nothing is served after it."""
        self._loop = loop
        self._limits = limits
        self._log = ConnectionLog()
        self._quota = ConnectionQuota(limits.listener, limits.listeners_of_brokers)
        self._acceptors: list[SocketAcceptor] = []
        self._metrics = RequestMetrics(registry, api_name)
        self.watch = self._metrics.watch
        """Which requests are looked at closer."""
        self._processor = Processor(loop, handler, self._ports(on_halt=on_halt, on_close=self._on_close))
        self._threads: list[ProcessorThread] = []
        self.channel: RequestChannel | None = None
        """Where requests of processors with threads of their own wait; None where there are none."""
        if limits.network_threads > 1:
            self._start_threads(handler, on_halt)
        processors: Sequence[GivesWay] = (self._processor, *self._threads)
        # The broker's own loop has the controller's connections alone where there are threads.
        of_clients: Sequence[GivesWay] = self._threads or (self._processor,)
        self._admission = Admission(loop, self._quota, self._log, processors, of_clients)
        self._register_metrics(registry)

    def listen(
        self,
        listener_name: str,
        host: str,
        port: int,
        *,
        is_control_plane: bool = False,
        new_gate: NewGate | None = None,
        connect: Connect | None = None,
    ) -> SocketAcceptor:
        """Binds a listener; it accepts after its `start`. `new_gate` is for one whose clients authenticate by SASL,
        `connect` makes connections that are not plain ones. Raises AddressUnavailable where it cannot be bound."""
        processors: Sequence[Processor | ProcessorThread] = (
            self._threads if self._threads and not is_control_plane else (self._processor,)
        )
        listening = ListeningSocket(self._loop, host, port, self._limits.listener)

        def served_by(processor: Processor | ProcessorThread) -> Callable[[AcceptedSocket, ConnectionContext], None]:
            return lambda accepted, context: processor.adopt(accepted.socket, context, connect)

        acceptor = SocketAcceptor(
            self._loop, listening, [*map(served_by, processors)], self._admission, listener_name=listener_name
        )
        acceptor.port = listening.port
        acceptor.new_gate = new_gate
        self._acceptors.append(acceptor)
        return acceptor

    def change_limits(self, limits: ConnectionBounds) -> None:
        """Takes over max.connections, of single listeners too, max.connections.per.ip and its overrides, which may
        change at run time. What is too many then is closed."""
        self._quota.change_limits(limits)
        self._admission.close_surplus()

    def change_rates_of_addresses(self, limits: Mapping[str, int], limit_of_any: int) -> None:
        """Takes over how many connections a second addresses may make (KIP-612)."""
        self._quota.change_rates_of_addresses(limits, limit_of_any)

    @property
    def connection_count(self) -> int:
        return self._quota.count

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accepts and reads no more, sends the answers that come within `grace_s` seconds, closes everything."""
        for acceptor in self._acceptors:
            acceptor.stop()
        await self._processor.stop(grace_s)
        await asyncio.gather(*(thread.stop(grace_s) for thread in self._threads))

    def abort(self) -> None:
        """Closes everything at once, as the kernel does where a process is killed: what was not sent is gone."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._processor.abort()
        for thread in self._threads:
            thread.abort()

    def _ports(
        self, *, on_halt: Callable[[InvariantViolation], None], on_close: Callable[[ConnectionContext], None]
    ) -> ProcessorPorts:
        return ProcessorPorts(self._limits.connection, self._metrics, self._log, on_halt, on_close)

    def _start_threads(self, handler: Handler, on_halt: Callable[[InvariantViolation], None]) -> None:
        channel = self.channel = RequestChannel(
            self._loop, handler, self._limits.queued_max_requests, on_halt=on_halt, watch=self.watch
        )

        from kavka.runtime.network.processor_thread import (  # late: few brokers have threads
            ProcessorThread,
            QueueingProcessor,
        )

        def make(loop: asyncio.AbstractEventLoop) -> QueueingProcessor:
            return QueueingProcessor(
                loop,
                channel,
                self._ports(
                    on_halt=lambda violation: self._on_loop(on_halt, violation),
                    on_close=lambda context: self._on_loop(self._on_close, context),
                ),
            )

        for index in range(self._limits.network_threads):
            thread = ProcessorThread(f"kavka-network-{index}", make)
            thread.start()
            self._threads.append(thread)

    def _register_metrics(self, registry: Registry) -> None:
        registry.gauge("kafka.server", "socket-server-metrics", "connection-count", lambda: self._quota.count)
        registry.family("kafka.server", "socket-server-metrics", "connection-accept-rate", self._accept_rates)
        for prefix, of_addresses in (("", False), ("ip-", True)):
            name = f"{prefix}connection-accept-throttle-time"
            read = partial(self._accept_delays, of_addresses=of_addresses)
            registry.family("kafka.server", "socket-server-metrics", name, read)
        registry.gauge("kafka.network", "RequestChannel", "RequestQueueSize", self._queued_requests)
        registry.gauge("kafka.network", "RequestChannel", "ResponseQueueSize", self._queued_answers)
        own_loop = threading.get_ident()
        shares = [IdleShare(thread.thread_id) for thread in self._threads] or [IdleShare(own_loop)]
        registry.gauge(
            "kafka.network",
            "SocketServer",
            "NetworkProcessorAvgIdlePercent",
            lambda: sum(share.read() for share in shares) / len(shares),
        )

    def _accept_rates(self) -> list[Member]:
        """While connections are bounded by their rate."""
        rates = self._quota.rates
        return [] if rates is None else rates.measured(int(self._loop.time() * 1000))

    def _accept_delays(self, *, of_addresses: bool) -> list[Member]:
        """The same."""
        rates = self._quota.rates
        return [] if rates is None else rates.delays(int(self._loop.time() * 1000), of_addresses=of_addresses)

    def _queued_requests(self) -> float:
        return self.channel.size if self.channel is not None else 0

    def _queued_answers(self) -> float:
        return self.channel.answers_size if self.channel is not None else 0

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Calls on the broker's loop, from another thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_close(self, context: ConnectionContext) -> None:
        self._quota.remove(context.listener_name, context.client_host)
        context.end()


class AcceptedSocket:
    """A connection that was accepted."""

    __slots__ = ("address", "socket")

    def __init__(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        self.socket = accepted
        self.address = address

    def prepare(self) -> str:
        """No call on it blocks any more. The local address: "127.0.0.1:9092". Raises OSError where it is gone."""
        self.socket.setblocking(False)
        local = self.socket.getsockname()
        return f"{local[0].removeprefix('::ffff:')}:{local[1]}"

    def close(self) -> None:
        self.socket.close()


class ListeningSocket:
    """Bound to `host` (empty for all addresses) and `port` (0 for a free one), and listening from the start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int, limits: ListenerLimits) -> None:
        """Raises AddressUnavailable where that is not possible."""
        self._loop = loop
        self._socket = _listen(host, port, limits)
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        """The port that is bound, also where 0 was asked for."""

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def accept(self) -> AcceptedSocket:
        accepted, address = self._socket.accept()
        return AcceptedSocket(accepted, (address[0], address[1]))

    def watch(self, on_acceptable: Callable[[], None]) -> None:
        self._loop.add_reader(self._socket.fileno(), on_acceptable)

    def ignore(self) -> None:
        self._loop.remove_reader(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()


class SocketAcceptor(Acceptor[AcceptedSocket]):
    """The acceptor of a real socket."""

    port = 0
    """That is bound, also where 0 was asked for."""


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


class IdleShare:
    """How much of the time between two readings a thread did not compute: 0 to 1.

    The kernel counts a thread's processor time anyway, so that this costs nothing between the readings.
    """

    def __init__(self, thread_id: int) -> None:
        self._clock = time.pthread_getcpuclockid(thread_id)
        self._computed = time.clock_gettime(self._clock)
        self._at = time.monotonic()

    def read(self) -> float:
        """The share since the last reading; 1 where the thread has ended."""
        try:
            computed, at = time.clock_gettime(self._clock), time.monotonic()
        except OSError:
            return 1.0
        passed, used = at - self._at, computed - self._computed
        self._computed, self._at = computed, at
        return min(max(1 - used / passed, 0.0), 1.0) if passed > 0 else 1.0
