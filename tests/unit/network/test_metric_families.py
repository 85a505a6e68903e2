"""Families of metrics, their text piece by piece, and the port that shows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.errors import AddressUnavailable
from kavka.metrics import MEMBERS_AT_ONCE, Member, Registry, prometheus_pieces, render_prometheus
from kavka.runtime.http.metrics_server import MAX_REQUEST_BYTES, MetricsServer


def members(count: int) -> list[Member]:
    return [((("topic", f"t{number}"),), float(number)) for number in range(count)]


def test_a_family_is_shown_under_its_own_total_with_one_type() -> None:
    registry = Registry()
    registry.counter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec").value += 3
    registry.family("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", lambda: members(2), is_counter=True)
    registry.family("kafka.log", "Log", "Size", lambda: members(1))
    assert render_prometheus(registry).splitlines() == [
        "# TYPE kafka_log_log_size gauge",
        'kafka_log_log_size{topic="t0"} 0',
        "# TYPE kafka_server_brokertopicmetrics_bytesinpersec_total counter",
        "kafka_server_brokertopicmetrics_bytesinpersec_total 3",
        'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="t0"} 0',
        'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="t1"} 1',
    ]


def test_many_members_come_in_pieces() -> None:
    registry = Registry()
    registry.family("g", "t", "n", lambda: members(MEMBERS_AT_ONCE * 2 + 1))
    pieces = list(prometheus_pieces(registry))
    assert [piece.count("\n") for piece in pieces] == [1, MEMBERS_AT_ONCE, MEMBERS_AT_ONCE, 1]


def test_a_metric_that_is_forgotten_while_others_are_shown_is_left_out() -> None:
    registry = Registry()
    registry.counter("a", "t", "n")
    registry.counter("b", "t", "n")
    pieces = prometheus_pieces(registry)
    assert "a_t_n_total" in next(pieces)
    registry.remove("b", "t", "n")
    assert list(pieces) == []


def ask(registry: Registry, request: bytes) -> bytes:
    """What the server answers to these bytes."""

    async def run() -> bytes:
        server = MetricsServer(registry)
        port = await server.start("127.0.0.1", 0)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            async with asyncio.timeout(60):
                answer = await reader.read()
            writer.close()
            return answer
        finally:
            server.close()

    return asyncio.run(run())


def test_a_stop_while_somebody_asks_is_no_failure() -> None:
    async def run() -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        server = MetricsServer(Registry())
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /met")
        await asyncio.sleep(0.05)
        server.close()
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(0)
        return told

    assert asyncio.run(run()) == []


def one_counter() -> Registry:
    registry = Registry()
    registry.counter("g", "t", "n").value += 7
    return registry


def test_the_port_shows_them_to_a_get_of_its_path() -> None:
    answer = ask(one_counter(), b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"version=0.0.4" in head
    assert body == b"# TYPE g_t_n_total counter\ng_t_n_total 7\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"405"),
    ],
)
def test_whatever_else_is_asked_is_refused(request_bytes: bytes, status: bytes) -> None:
    assert ask(one_counter(), request_bytes).split(b" ")[1] == status


def test_a_request_that_has_no_end_is_given_up() -> None:
    assert ask(one_counter(), b"GET /" + b"x" * (MAX_REQUEST_BYTES + 10)) == b""


def test_other_work_goes_on_while_a_large_text_is_put_together() -> None:
    registry = Registry()
    registry.family("g", "t", "n", lambda: members(20_000))

    async def run() -> int:
        turns = 0
        task = asyncio.create_task(MetricsServer(registry).text())
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert task.result().count("\n") == 20_001
        return turns

    assert asyncio.run(run()) > 10


def test_a_port_that_is_taken_is_named() -> None:
    async def run() -> None:
        first, second = MetricsServer(Registry()), MetricsServer(Registry())
        port = await first.start("127.0.0.1", 0)
        try:
            with pytest.raises(AddressUnavailable, match=rf"{port} for metrics: port {port} is taken"):
                await second.start("127.0.0.1", port)
        finally:
            first.close()

    asyncio.run(run())
