"""What a processor is given: the bounds of its connections, and whom it tells what.

Decides nothing; `socket_server` makes both, of the broker's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kavka.errors import InvariantViolation
from kavka.protocol.connection import ConnectionContext
from kavka.runtime.network.connection_log import ConnectionLog
from kavka.runtime.network.request_channel import RequestMetrics


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one processor's connections; Kafka's setting, or kavka's own, behind each."""

    max_request_bytes: int = 100 * 1024 * 1024
    """socket.request.max.bytes"""
    max_idle_ms: int = 10 * 60 * 1000
    """connections.max.idle.ms"""
    max_in_flight_requests: int = 1000
    """kavka.max.in.flight.requests.per.connection: requests of one connection without an answer"""
    max_output_bytes: int = 4 * 1024 * 1024
    """kavka.max.output.bytes.per.connection: answers that one client did not take yet"""
    max_receiving_bytes: int = 256 * 1024 * 1024
    """queued.max.request.bytes, or where that is -1 kavka.max.receiving.bytes: memory of half-received requests"""


class ProcessorPorts(NamedTuple):
    """What all processors of a server are given.

    `on_halt` is called with a broken invariant; nothing is served after it. `on_close` is called for each connection
    that closed, on the processor's loop.
    """

    limits: ConnectionLimits
    metrics: RequestMetrics
    log: ConnectionLog
    on_halt: Callable[[InvariantViolation], None]
    on_close: Callable[[ConnectionContext], None]
