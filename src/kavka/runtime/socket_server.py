"""The socket server: acceptors, processors and the request channel of one broker, put together.

What it decides: how many processors there are and which of the broker's settings each part gets. It must not know
what a request means.

    num.network.threads = 1    one processor in the broker's own loop, which calls the handler directly
                        > 1    so many processors with threads of their own, and the RequestChannel between

The first is the default and the faster one under the GIL: see processor_thread.py for the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kavka.errors import InvariantViolation
from kavka.metrics import Registry
from kavka.protocol.connection import ConnectionContext, Handler
from kavka.runtime.connection_log import ConnectionLog
from kavka.runtime.listener import Acceptor, ConnectionQuota, ListenerLimits
from kavka.runtime.processor import ConnectionLimits, Processor
from kavka.runtime.processor_thread import ProcessorThread, QueueingProcessor
from kavka.runtime.request_channel import RequestChannel, RequestMetrics


@dataclass(frozen=True, slots=True)
class SocketServerLimits:
    """All bounds of the network room."""

    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    listener: ListenerLimits = field(default_factory=ListenerLimits)
    network_threads: int = 1
    """num.network.threads"""
    queued_max_requests: int = 500
    """queued.max.requests"""


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
        self._quota = ConnectionQuota(limits.listener)
        self._acceptors: list[Acceptor] = []
        self._metrics = RequestMetrics(registry, api_name)
        self._processor: Processor | None = None
        self._threads: list[ProcessorThread] = []
        self.channel: RequestChannel | None = None
        """Where requests of processors with threads of their own wait; None where there are none."""
        if limits.network_threads == 1:
            self._processor = Processor(
                loop,
                handler,
                limits=limits.connection,
                metrics=self._metrics,
                log=self._log,
                on_halt=on_halt,
                on_close=self._on_close,
            )
        else:
            self._start_threads(handler, on_halt)
        registry.gauge("kafka.server", "socket-server-metrics", "connection-count", lambda: self._quota.count)

    def listen(self, listener_name: str, host: str, port: int) -> Acceptor:
        """Binds a listener; it accepts after its `start`. Raises ConfigError where it cannot be bound."""
        processors: Sequence[Processor | ProcessorThread] = (
            self._threads if self._processor is None else (self._processor,)
        )
        acceptor = Acceptor(
            self._loop,
            processors,
            listener_name=listener_name,
            host=host,
            port=port,
            limits=self._limits.listener,
            quota=self._quota,
            log=self._log,
        )
        self._acceptors.append(acceptor)
        return acceptor

    @property
    def connection_count(self) -> int:
        return self._quota.count

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accepts and reads no more, sends the answers that come within `grace_s` seconds, closes everything."""
        for acceptor in self._acceptors:
            acceptor.stop()
        if self._processor is not None:
            await self._processor.stop(grace_s)
        await asyncio.gather(*(thread.stop(grace_s) for thread in self._threads))

    def _start_threads(self, handler: Handler, on_halt: Callable[[InvariantViolation], None]) -> None:
        channel = self.channel = RequestChannel(self._loop, handler, self._limits.queued_max_requests, on_halt=on_halt)

        def make(loop: asyncio.AbstractEventLoop) -> QueueingProcessor:
            return QueueingProcessor(
                loop,
                channel,
                limits=self._limits.connection,
                metrics=self._metrics,
                log=self._log,
                on_halt=lambda violation: self._on_loop(on_halt, violation),
                on_close=lambda context: self._on_loop(self._on_close, context),
            )

        for index in range(self._limits.network_threads):
            thread = ProcessorThread(f"kavka-network-{index}", make)
            thread.start()
            self._threads.append(thread)

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Calls on the broker's loop, from another thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_close(self, context: ConnectionContext) -> None:
        self._quota.remove(context.client_host)
