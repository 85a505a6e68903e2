"""The processor: reads requests from many sockets, calls the handler, gives the answers back.

What it decides: how much of one connection is done in one turn of the loop, what becomes of a handler's failure, which
idle or broken connections are closed. It must not know: what a request means, how a socket came here, how bytes come
and go (`socket_connection`).

    readable ─ receive once ─ up to BATCH requests ─ handler for each ─ all answers of the turn in one send
                                                        └ an awaitable: its slot is filled when it is done

I1  A bug of a handler closes one connection; a broken rule of ours (`InvariantViolation`) ends the broker.
I2  A connection that its client reset is closed within three sweeps, whatever was received of it before.

Source: Kafka's SocketServer.Processor.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

from kavka.errors import InvariantViolation, ProtocolViolation
from kavka.protocol.api import RequestHeader
from kavka.protocol.connection import (
    CLOSE_CONNECTION,
    LAST,
    Answered,
    ConnectionContext,
    Handler,
    Request,
    Response,
    Slot,
    Trace,
)
from kavka.protocol.frames import BufferPool
from kavka.runtime.network.processor_ports import ProcessorPorts
from kavka.runtime.network.request_channel import RequestTimes
from kavka.runtime.network.socket_connection import IN_FLIGHT, NO_REQUEST, SHARED_BYTES, STOPPING, SocketConnection

if TYPE_CHECKING:
    from kavka.runtime.network.memory_shortage import MemoryShortage
    from kavka.security.giving_way import Choice

BATCH = 64
"""Requests of one connection that are handled before the loop looks at the others."""
SWEEP_S = 1.0
"""The longest time between two looks at idle connections."""

Connect: TypeAlias = "Callable[[Processor, socket.socket, ConnectionContext], SocketConnection]"
"""What makes the connections of a listener."""


class Processor:
    """Serves its connections on one loop, with direct calls of the handler."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: Handler, ports: ProcessorPorts) -> None:
        limits = ports.limits
        self.loop = loop
        self.limits = limits
        self.log = ports.log
        self.pool = BufferPool(limit_bytes=limits.max_receiving_bytes)
        self.shared = bytearray(SHARED_BYTES)
        self.connections: dict[int, SocketConnection] = {}
        """By descriptor."""
        self.shortage: MemoryShortage | None = None
        """While half-received requests hold too much."""
        self._swept_at = (loop.time(), loop.time())
        """When the last two looks at idle connections were."""
        self._handler = handler
        self._metrics = ports.metrics
        self.watch = ports.metrics.watch
        self._on_halt = ports.on_halt
        self._on_close = ports.on_close
        self._usual_room = min(BATCH, limits.max_in_flight_requests)
        self._to_flush: list[SocketConnection] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Event | None = None

    def adopt(self, connected: socket.socket, context: ConnectionContext, connect: Connect | None = None) -> None:
        """Serves an accepted, non-blocking socket from now on, until either side closes it.

        `connect` makes its connection where that is not a plain one.
        """
        context.watch = self.watch
        connection = (connect or SocketConnection)(self, connected, context)
        self.connections[connection.descriptor] = connection
        connection.start()
        if self._sweeping is None:
            self._sweep()

    def room(self, connection: SocketConnection) -> int:
        """How many requests of `connection` may be handled now; where 0 it was paused."""
        protocol = connection.protocol
        in_flight = protocol.in_flight
        if protocol.gate is not None:
            if not protocol.gate.is_open:
                if not in_flight:
                    return 1
                connection.pause(IN_FLIGHT)
                return 0
            protocol.unbar()
        if not in_flight:
            return self._usual_room
        room = self.limits.max_in_flight_requests - in_flight
        if room <= 0:
            connection.pause(IN_FLIGHT)
            return 0
        return min(room, BATCH)

    def serve(self, connection: SocketConnection, requests: list[Request]) -> None:
        """Handles requests that one read gave, and sends their answers together."""
        protocol = connection.protocol
        handler = self._handler
        times_of = self._metrics.times
        watch = self.watch
        began = perf_counter_ns()
        for request in requests:
            header = request.header
            longest = watch.slow_ns
            if watch.every and watch.is_due():
                request, longest = watch.begin(request, began), -1
            try:
                outcome = handler(request)
            except InvariantViolation as violation:
                self.halt(violation)
                return
            except Exception as error:  # noqa: BLE001  # the boundary of a handler: its bug closes one connection
                self.log_failure(header, protocol.context, error)
                outcome = CLOSE_CONNECTION
            now = perf_counter_ns()
            times = times_of(header.api_key, header.api_version)
            if isinstance(outcome, Response):
                times.at_once.record(now - began)
                protocol.answer(header, outcome)
                if now - began > longest or outcome.mute_ms:
                    answered = Answered(header, protocol.context, outcome, request.trace, began, 0, now - began, 0)
                    connection.note(times, answered)
                if outcome is CLOSE_CONNECTION:
                    connection.pause(STOPPING)
                    break
            else:
                times.deferred += 1
                times.api.local.record(now - began)
                self._defer(connection, header, outcome, times, began, now, request.trace)
            began = now
        connection.flush()
        connection.sent_by(times, now)

    def _defer(  # noqa: PLR0913 - called for every request that waits: no value is made for its arguments
        self,
        connection: SocketConnection,
        header: RequestHeader,
        outcome: Awaitable[Response],
        times: RequestTimes,
        began: int,
        handled: int,
        trace: Trace | None,
    ) -> None:
        slot = connection.protocol.defer(header)
        future = asyncio.ensure_future(outcome, loop=self.loop)
        future.add_done_callback(partial(self._on_done, connection, slot, times, began, handled, trace))

    def _on_done(  # noqa: PLR0913 - as of `_defer`, with its outcome
        self,
        connection: SocketConnection,
        slot: Slot,
        times: RequestTimes,
        began: int,
        handled: int,
        trace: Trace | None,
        future: asyncio.Future[Response],
    ) -> None:
        if future.cancelled():
            response = CLOSE_CONNECTION
        elif (error := future.exception()) is None:
            response = future.result()
        elif isinstance(error, InvariantViolation):
            self.halt(error)
            return
        else:
            self.log_failure(slot.header, connection.protocol.context, error)
            response = CLOSE_CONNECTION
        now = perf_counter_ns()
        times.api.remote.record(now - handled)
        times.api.total.record(now - began)
        if now - began > self.watch.slow_ns or trace is not None or response.mute_ms:
            stages = (began, 0, handled - began, now - handled)
            connection.note(times, Answered(slot.header, connection.protocol.context, response, trace, *stages))
        self.complete(connection, slot, response)
        connection.sent_by(times, now)

    def complete(self, connection: SocketConnection, slot: Slot, response: Response) -> None:
        """Answers a request whose place was kept."""
        if (response is CLOSE_CONNECTION or response.mute_ms == LAST) and not connection.closed:
            connection.pause(STOPPING)
        connection.complete(slot, response)

    def log_failure(self, header: RequestHeader, context: ConnectionContext, error: BaseException) -> None:
        """A handler failed, or refused bytes that are no request: counted, logged with the kind of the request."""
        times = self._metrics.times(header.api_key, header.api_version)
        times.errors += 1
        client = f"{context.client_host}:{context.client_port}"
        if isinstance(error, ProtocolViolation):
            self.log.warning(
                NO_REQUEST,
                client=client,
                listener=context.listener_name,
                request=times.name,
                version=header.api_version,
                why=str(error),
            )
            return
        self.log.error(
            "connection closed: request failed",
            request=times.name,
            version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            client=client,
            exc_info=error,
        )

    def halt(self, violation: InvariantViolation) -> None:
        """One of our own rules is broken: nothing is served any more."""
        for connection in list(self.connections.values()):
            connection.close()
        self._on_halt(violation)

    def flush_soon(self, connection: SocketConnection) -> None:
        """Sends the connection's answers at the end of this turn, together with those that are still to come."""
        if not self._to_flush:
            self.loop.call_soon(self._flush)
        self._to_flush.append(connection)

    def _flush(self) -> None:
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            protocol = connection.protocol
            if protocol.output_bytes or protocol.mute_ms or protocol.closing:
                connection.flush()

    def on_shortage(self, connection: SocketConnection) -> None:
        """`connection` holds a part of a request, and all together hold too much."""
        if self.shortage is None:
            from kavka.runtime.network.memory_shortage import MemoryShortage  # late: few brokers ever see one

            self.shortage = MemoryShortage(self)
        self.shortage.on_held(connection)

    # Idle connections

    def _sweep(self) -> None:
        """Closes what was idle for too long, nothing where that is negative. One timer for all: 10,000 connections cost
        1 ms each second."""
        idle_s = self.limits.max_idle_ms / 1000 if self.limits.max_idle_ms >= 0 else math.inf
        now = self.loop.time()
        self.pool.trim()
        if self.shortage is not None:
            self.shortage.look(now)
        oldest = now - idle_s
        for connection in [one for one in self.connections.values() if one.active_at < oldest]:
            if not connection.protocol.in_flight:
                connection.close()
        self._close_broken(now)
        self._sweeping = (
            self.loop.call_later(min(SWEEP_S, max(idle_s / 4, 0.01)), self._sweep) if self.connections else None
        )

    def _close_broken(self, now: float) -> None:
        """Closes the connections that are broken, of those that fell silent between the last two looks.

        With a reset uvloop calls the reader a last time, and watches the socket no more: (1) the client sends half a
        request and resets the connection, (2) the reader is called and receives that half, (3) nobody ever asks again.
        """
        since, until = self._swept_at
        self._swept_at = (until, now)
        for connection in [one for one in self.connections.values() if since <= one.active_at < until]:
            if connection.is_broken():
                connection.close()

    def give_way(self, choice: Choice, on_done: Callable[[int], None]) -> None:
        """As `GivesWay` says."""
        chosen = choice.among(self.connections.values(), self.loop.time())
        for each in chosen:
            self.log.warning(choice.why, client=each.protocol.context.client_host, listener=each.listener)
            each.close()
        on_done(len(chosen))

    # Ending

    def on_closed(self, connection: SocketConnection) -> None:
        del self.connections[connection.descriptor]
        if self.shortage is not None:
            self.shortage.on_given(connection)
        self._on_close(connection.protocol.context)
        if not self.connections and self._all_closed is not None:
            self._all_closed.set()

    async def stop(self, grace_s: float) -> None:
        """Reads no more, sends the answers that come within `grace_s`, closes everything."""
        self._all_closed = asyncio.Event()
        for connection in list(self.connections.values()):
            connection.close_after_answers()
        if self.connections:
            try:
                await asyncio.wait_for(self._all_closed.wait(), grace_s)
            except TimeoutError:
                for connection in list(self.connections.values()):
                    connection.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def abort(self) -> None:
        """Closes everything, whatever is under way."""
        for connection in list(self.connections.values()):
            connection.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
