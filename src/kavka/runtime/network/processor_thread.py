"""A processor with a thread and a loop of its own: num.network.threads above 1.

What it decides: nothing; it moves sockets, requests and answers between two threads. The handler still runs on the
broker's loop only, reached through the RequestChannel.

Under the GIL it does not pay, so that the default is one processor in the broker's own loop. Medians of
benchmarks/network_micro.py, CPython 3.11 on 2 shared cores; one loop / 2 network threads:

    CPU of a small request, 50 in flight         1.9 / 8.1 us      (312,000 / 76,000 requests/s)
    CPU of a small request, 20 connections       4.1 / 10.2 us
    one request at a time, there and back        19 / 44 us
    CPU of a request of 1 MiB                    413 / 613 us
    CPU of a 1 MiB slice by sendfile             135 / 210 us

What a thread can do without the GIL (copies in the kernel) is little beside handing the GIL over. TLS and a
free-threaded build may change that; neither was measured.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kavka.protocol.connection import Answered, ConnectionContext, Request, Slot
from kavka.runtime.loop import new_event_loop
from kavka.runtime.network.processor import Connect, Processor
from kavka.runtime.network.processor_ports import ProcessorPorts
from kavka.runtime.network.request_channel import RequestChannel, RequestTimes, Ticket
from kavka.runtime.network.socket_connection import QUEUE, SocketConnection

if TYPE_CHECKING:
    from kavka.security.giving_way import Choice

COPIED_BYTES = 16 * 1024
"""Bodies up to this size are copied before they are handed over; longer ones take their receive buffer along."""


class _Ticket(Ticket):
    """A ticket with the place that its answer belongs to."""

    __slots__ = ("connection", "slot")

    def __init__(
        self, asker: QueueingProcessor, request: Request, times: RequestTimes, connection: SocketConnection, slot: Slot
    ) -> None:
        super().__init__(asker, request, times)
        self.connection = connection
        self.slot = slot


class QueueingProcessor(Processor):
    """Hands requests over to another loop instead of calling the handler."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: RequestChannel, ports: ProcessorPorts) -> None:
        super().__init__(loop, channel.handler, ports)
        self._channel = channel
        self._without_room: list[SocketConnection] = []
        channel.join(self)

    def serve(self, connection: SocketConnection, requests: list[Request]) -> None:
        """Queues the requests that one read gave; their buffers go with them."""
        protocol = connection.protocol
        for request in requests:
            header = request.header
            slot = protocol.defer(header)
            if len(request.body) <= COPIED_BYTES:
                # The view would take the whole shared buffer away from this processor.
                request = request._replace(body=memoryview(bytearray(request.body)))
            times = self._metrics.times(header.api_key, header.api_version)
            self._channel.put(_Ticket(self, request, times, connection, slot))

    def room(self, connection: SocketConnection) -> int:
        room = min(super().room(connection), self._channel.room())
        if room > 0 or connection.paused:
            return max(room, 0)
        connection.pause(QUEUE)
        self._without_room.append(connection)
        if len(self._without_room) == 1:
            self._channel.wait_for_room(self)
        return 0

    def on_answer(self, ticket: Ticket) -> None:
        assert isinstance(ticket, _Ticket)
        connection = ticket.connection
        if ticket.failure is not None:
            self.log_failure(ticket.slot.header, connection.protocol.context, ticket.failure)
        self.complete(connection, ticket.slot, ticket.response)
        took_ns = ticket.queued_ns + ticket.local_ns + ticket.remote_ns + ticket.response_queue_ns
        if took_ns > self._metrics.watch.slow_ns or ticket.trace is not None or ticket.response.mute_ms:
            answered = Answered(
                ticket.slot.header,
                ticket.context,
                ticket.response,
                ticket.trace,
                ticket.put_ns,
                ticket.queued_ns,
                ticket.local_ns,
                ticket.remote_ns,
                ticket.response_queue_ns,
            )
            connection.note(ticket.times, answered)
        connection.sent_by(ticket.times, ticket.completed_ns)

    def on_room(self) -> None:
        waiting, self._without_room = self._without_room, []
        for connection in waiting:
            connection.resume(QUEUE)


class ProcessorThread:
    """The thread of one `QueueingProcessor`. `start` returns when its loop runs."""

    def __init__(self, name: str, make: Callable[[asyncio.AbstractEventLoop], QueueingProcessor]) -> None:
        # With the context, so that its log lines are told apart as the broker's others are.
        run = partial(contextvars.copy_context().run, self._run)
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._make = make
        self._running = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._processor: QueueingProcessor | None = None

    def start(self) -> None:
        self._thread.start()
        self._running.wait()

    @property
    def thread_id(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def adopt(self, connected: socket.socket, context: ConnectionContext, connect: Connect | None = None) -> None:
        """Gives an accepted socket to the thread."""
        assert self._loop is not None
        assert self._processor is not None
        self._loop.call_soon_threadsafe(self._processor.adopt, connected, context, connect)

    def give_way(self, choice: Choice, on_done: Callable[[int], None]) -> None:
        """Of the connections of this thread."""
        if self._loop is None or self._processor is None:
            on_done(0)
            return
        asking = asyncio.get_running_loop()

        def done(closed: int) -> None:
            asking.call_soon_threadsafe(on_done, closed)

        self._loop.call_soon_threadsafe(self._processor.give_way, choice, done)

    async def stop(self, grace_s: float) -> None:
        """Stops the processor as `Processor.stop` does, then ends the thread."""
        if self._loop is None or self._processor is None:
            return
        processor, self._processor = self._processor, None
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(processor.stop(grace_s), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)

    def abort(self) -> None:
        """Closes everything and ends the thread; returns at once."""
        loop, processor = self._loop, self._processor
        if loop is None or processor is None:
            return
        self._processor = None

        def end() -> None:
            processor.abort()
            loop.stop()

        loop.call_soon_threadsafe(end)

    def _run(self) -> None:
        loop = self._loop = new_event_loop()
        try:
            self._processor = self._make(loop)
            loop.call_soon(self._running.set)
            loop.run_forever()
        finally:
            loop.close()
