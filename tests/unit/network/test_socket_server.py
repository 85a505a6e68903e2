from __future__ import annotations

import threading
import time

import pytest

from kavka.config.broker import BrokerConfig
from kavka.runtime.network.socket_server import LONGEST_BACKLOG, IdleShare, SocketServerLimits


@pytest.mark.setting(
    "socket.request.max.bytes",
    "connections.max.idle.ms",
    "kavka.max.in.flight.requests.per.connection",
    "kavka.max.output.bytes.per.connection",
    "queued.max.request.bytes",
    "socket.listen.backlog.size",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "num.network.threads",
    "queued.max.requests",
)
def test_the_bounds_are_those_of_the_configuration() -> None:
    limits = SocketServerLimits.of(
        BrokerConfig.from_properties(
            {
                "socket.request.max.bytes": "1001",
                "connections.max.idle.ms": "1002",
                "kavka.max.in.flight.requests.per.connection": "1003",
                "kavka.max.output.bytes.per.connection": "1004",
                "queued.max.request.bytes": "1005",
                "socket.listen.backlog.size": "1006",
                "socket.send.buffer.bytes": "1007",
                "socket.receive.buffer.bytes": "1008",
                "listeners": "CLIENTS://:9092,BROKERS://:9093",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
                "inter.broker.listener.name": "BROKERS",
                "max.connections": "1009",
                "listener.name.clients.max.connections": "1012",
                "max.connections.per.ip": "1010",
                "max.connections.per.ip.overrides": "127.0.0.1:7,10.0.0.1:8",
                "num.network.threads": "4",
                "queued.max.requests": "1011",
            }
        )
    )
    assert limits.connection.max_request_bytes == 1001
    assert limits.connection.max_idle_ms == 1002
    assert limits.connection.max_in_flight_requests == 1003
    assert limits.connection.max_output_bytes == 1004
    assert limits.connection.max_receiving_bytes == 1005
    assert limits.listener.backlog == 1006
    assert limits.listener.send_buffer_bytes == 1007
    assert limits.listener.receive_buffer_bytes == 1008
    assert limits.listener.max_connections == 1009
    assert limits.listener.max_connections_of_listeners == {"CLIENTS": 1012}
    assert limits.listener.max_connections_per_ip == 1010
    assert limits.listener.max_connections_per_ip_overrides == {"127.0.0.1": 7, "10.0.0.1": 8}
    assert limits.network_threads == 4
    assert limits.queued_max_requests == 1011


def test_what_nobody_wrote_down_is_kafkas_default_but_for_threads_receive_buffer_and_backlog() -> None:
    limits = SocketServerLimits.of(BrokerConfig.from_properties({}))
    assert limits.network_threads == 1
    assert limits.listener.receive_buffer_bytes == -1
    assert limits.listener.backlog == LONGEST_BACKLOG
    assert limits.listener.send_buffer_bytes == 102400
    assert limits.connection.max_request_bytes == 104857600
    assert limits.connection.max_receiving_bytes == 256 * 1024 * 1024


def test_a_setting_laid_over_at_run_time_counts_as_written_down() -> None:
    config = BrokerConfig.from_properties({}, dynamic={"num.network.threads": "2"})
    assert SocketServerLimits.of(config).network_threads == 2


def test_a_thread_that_computes_is_not_idle_and_one_that_waits_is() -> None:
    share = IdleShare(threading.get_ident())
    began, deadline = time.perf_counter(), time.thread_time() + 0.05
    while time.thread_time() < deadline:
        pass
    busy = share.read()
    # On a busy machine this thread waits for its turn: it was idle for as long as it did not run.
    waited = 1 - 0.05 / (time.perf_counter() - began)
    time.sleep(0.1)
    assert share.read() > 0.9
    assert 0.0 <= busy < waited + 0.1
