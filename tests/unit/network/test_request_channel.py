"""The request channel on two loops of one thread each is tested with real sockets; here its counting and its log."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
import structlog

from kavka.metrics import Counter, Histogram, Registry
from kavka.protocol.api import RequestHeader
from kavka.protocol.connection import CLOSE_CONNECTION, UNREAD, Answered, ConnectionContext, Request, Response
from kavka.runtime.network import connection_log
from kavka.runtime.network.connection_log import ConnectionLog
from kavka.runtime.network.request_channel import (
    MAX_WAITS,
    NEVER_NS,
    RequestChannel,
    RequestMetrics,
    RequestWatch,
    Ticket,
)

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


def test_metrics_are_read_while_network_threads_meet_new_versions() -> None:
    requests, registry = metrics()
    requests.times(PRODUCE, 0)
    often = sys.getswitchinterval()
    versions = 300

    def meet() -> None:
        for version in range(versions):
            requests.times(PRODUCE, version).errors += 1

    threads = [threading.Thread(target=meet) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            read(registry, "ErrorsPerSec", request="Produce")
    finally:
        sys.setswitchinterval(often)
        for thread in threads:
            thread.join()
    assert read(registry, "ErrorsPerSec", request="Produce").value > 0
    assert len({id(requests.times(PRODUCE, version)) for version in range(versions)}) == versions
    assert len(requests.times(PRODUCE, 0).api.versions) == versions


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


def test_the_delay_of_a_client_over_its_quota_is_counted_as_throttle_time() -> None:
    requests, registry = metrics()
    times = requests.times(PRODUCE, 9)
    for _ in range(3):
        times.at_once.record(5_000)
    times.api.throttle.record(250_000_000)
    throttle = read(registry, "ThrottleTimeMs", request="Produce")
    assert throttle.count == 3
    assert throttle.sum == pytest.approx(250.0)


class Keeper:
    """Who keeps traces, in a list."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def begin(self, began_ns: int) -> Any:
        return f"trace from {began_ns}"

    def keep(self, answered: Answered, send_ns: int, wait: object) -> None:
        self.kept.append((answered.header.correlation_id, send_ns, wait))


def answered(correlation_id: int) -> Answered:
    header = RequestHeader(PRODUCE, 9, correlation_id, "app")
    return Answered(header, CONTEXT, CLOSE_CONNECTION, None, 0, 0, 0, 0)


CONTEXT = ConnectionContext("c", "127.0.0.1", 1, "L")


@pytest.mark.setting("kavka.request.trace.sample")
def test_of_every_so_many_requests_one_is_of_the_sample() -> None:
    async def scenario() -> None:
        watch = RequestWatch()
        watch.set(1_000, 3)
        assert not any(watch.is_due() for _ in range(7))  # Nobody is there to keep it.
        watch.open(Keeper)
        watch.set(1_000, 3)
        assert [watch.is_due() for _ in range(7)] == [False, False, True, False, False, True, False]
        assert watch.begin(Request(UNREAD, memoryview(b""), CONTEXT), 5).trace == "trace from 5"
        watch.set(-1, 0)
        assert (watch.slow_ns, watch.every) == (NEVER_NS, 0)

    asyncio.run(scenario())


def test_what_a_request_waited_for_comes_with_its_answer_and_is_forgotten_then() -> None:
    async def scenario() -> None:
        keeper, watch = Keeper(), RequestWatch()
        watch.finish(answered(1), 9)
        watch.open(lambda: keeper)
        watch.waited(CONTEXT, 7, "for broker 3")
        watch.finish(answered(7), 9)
        watch.finish(answered(7), 9)
        assert keeper.kept == [(7, 9, "for broker 3"), (7, 9, None)]
        for number in range(MAX_WAITS + 5):
            watch.waited(CONTEXT, number, number)
        assert len(watch._waits) == 5

    asyncio.run(scenario())


def test_an_answer_of_another_thread_is_kept_on_the_brokers_loop() -> None:
    async def elsewhere(watch: RequestWatch) -> None:
        watch.finish(answered(7), 9)

    async def scenario() -> None:
        keeper, watch = Keeper(), RequestWatch()
        watch.open(lambda: keeper)
        await asyncio.to_thread(asyncio.run, elsewhere(watch))
        await asyncio.sleep(0)
        assert keeper.kept == [(7, 9, None)]

    asyncio.run(scenario())


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
        channel.put(
            Ticket(
                processor,
                Request(UNREAD, memoryview(b""), ConnectionContext("c", "127.0.0.1", 1, "L")),
                requests.times(PRODUCE, 9),
            )
        )
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
