"""The request channel on two loops of one thread each is tested with real sockets; here its counting and its log."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import structlog

from kavka.metrics import Counter, Histogram, Registry
from kavka.protocol.connection import CLOSE_CONNECTION, Request, Response
from kavka.runtime import connection_log
from kavka.runtime.connection_log import ConnectionLog
from kavka.runtime.request_channel import RequestChannel, RequestMetrics, Ticket

PRODUCE = 0


def metrics() -> tuple[RequestMetrics, Registry]:
    registry = Registry()
    return RequestMetrics(registry, {0: "Produce", 1: "Fetch"}.__getitem__), registry


def read(registry: Registry, name: str, **tags: str) -> Any:
    return registry.get("kafka.network", "RequestMetrics", name, **tags)


def test_requests_are_counted_for_each_version_and_timed_for_each_api() -> None:
    requests, registry = metrics()
    for version, count in ((7, 3), (9, 2)):
        for _ in range(count):
            requests.times(PRODUCE, version).at_once.record(2_000_000)
    assert read(registry, "RequestsPerSec", request="Produce", version="7").value == 3
    assert read(registry, "RequestsPerSec", request="Produce", version="9").value == 2
    local = read(registry, "LocalTimeMs", request="Produce")
    assert isinstance(local, Histogram)
    assert local.count == 5
    assert local.sum == pytest.approx(10.0)
    assert read(registry, "RequestsPerSec", request="Fetch", version="4") is None


def test_a_request_that_waited_for_nothing_has_waited_for_no_time() -> None:
    requests, registry = metrics()
    times = requests.times(PRODUCE, 9)
    times.at_once.record(5_000)
    times.deferred += 1
    times.api.local.record(7_000)
    times.api.remote.record(3_000_000)
    times.api.total.record(3_007_000)
    remote = read(registry, "RemoteTimeMs", request="Produce")
    assert remote.count == 2
    assert remote.percentile(0.5) < 1e-6
    assert remote.maximum >= 3.0
    assert read(registry, "RequestQueueTimeMs", request="Produce").count == 2
    assert read(registry, "TotalTimeMs", request="Produce").count == 2
    assert read(registry, "LocalTimeMs", request="Produce").sum == pytest.approx(0.012)


def test_errors_are_counted() -> None:
    requests, registry = metrics()
    requests.times(PRODUCE, 9).errors += 1
    requests.times(PRODUCE, 8).errors += 1
    errors = read(registry, "ErrorsPerSec", request="Produce")
    assert isinstance(errors, Counter)
    assert errors.value == 2


def test_an_answer_that_comes_after_its_processor_has_ended_is_no_failure() -> None:
    """A broker that stops ends its processors, and cancels what waits for other brokers after that."""
    requests, _ = metrics()

    class Ended:
        loop = asyncio.new_event_loop()

        def on_answer(self, ticket: Ticket) -> None:
            raise AssertionError("nobody is there to be answered")

        def on_room(self) -> None:
            raise AssertionError("nobody waits for room")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        waiting: asyncio.Future[Response] = loop.create_future()
        channel = RequestChannel(loop, lambda _request: waiting, 1, on_halt=complaints.append)
        processor = Ended()
        channel.join(processor)
        channel.put(Ticket(processor, cast("Request", object()), requests.times(PRODUCE, 9)))
        channel.wait_for_room(processor)
        processor.loop.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.set_result(CLOSE_CONNECTION)
        for _ in range(5):
            await asyncio.sleep(0)
        assert channel.answers_size == 1

    complaints: list[object] = []
    asyncio.run(scenario())
    assert complaints == []


def test_of_each_kind_some_lines_a_minute_are_written_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [600.0]
    monkeypatch.setattr(connection_log.time, "monotonic", lambda: now[0])
    log = ConnectionLog(lines_per_minute=3)
    with structlog.testing.capture_logs() as lines:
        for index in range(10):
            log.warning("garbage", index=index)
        log.error("another kind")
        now[0] = 660.0
        log.warning("garbage", index=10)
    assert [(line["event"], line.get("index")) for line in lines] == [
        ("garbage", 0),
        ("garbage", 1),
        ("garbage", 2),
        ("another kind", None),
        ("garbage", 10),
    ]
    assert lines[-1]["left_out_before"] == 7
    assert lines[3]["log_level"] == "error"
