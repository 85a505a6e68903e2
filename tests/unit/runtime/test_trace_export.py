"""What of a request's trace becomes spans, and what is said where OpenTelemetry is not installed."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from kavka.config.broker import BrokerConfig
from kavka.config.setting import InvalidValue
from kavka.errors import ConfigError
from kavka.metrics import Registry
from kavka.model import BrokerId
from kavka.runtime.http.trace_export import MAX_WAITING, SpanMaker, TraceExport, trace_id_of
from kavka.traces import FollowerStep, RequestTrace, Stages, TracedPartition

AT_MS = 1_700_000_000_000
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
TRACE = RequestTrace(
    "2-77-1",
    AT_MS,
    BrokerId(2),
    "Produce",
    11,
    "app",
    "10.0.0.7",
    "User:alice",
    sampled=True,
    stages=Stages(request_queue=100, local=200, remote=5_000, throttle=7_000, response_send=50),
    partitions=(TracedPartition("orders", 3, 10, 12, appended_us=250),),
    followers=(FollowerStep(BrokerId(3), "orders", 3, 4_900, reached=True),),
    committed_us=5_000,
)


def nanoseconds(us: int) -> int:
    return AT_MS * 1_000_000 + us * 1_000


def spans(trace: RequestTrace) -> tuple[ReadableSpan, dict[str, ReadableSpan]]:
    """The request's own, and those of its stages by name."""
    *stages, request = SpanMaker(2).make(trace)
    return request, {stage.name: stage for stage in stages}


def test_a_request_is_a_span_over_its_stages_and_throttling_comes_after_it() -> None:
    request, stages = spans(TRACE)
    assert (request.name, request.kind) == ("Produce", SpanKind.SERVER)
    assert (request.start_time, request.end_time) == (nanoseconds(0), nanoseconds(5_350))
    assert {name: (stage.start_time, stage.end_time) for name, stage in stages.items()} == {
        "request queue": (nanoseconds(0), nanoseconds(100)),
        "local": (nanoseconds(100), nanoseconds(300)),
        "remote": (nanoseconds(300), nanoseconds(5_300)),
        "response send": (nanoseconds(5_300), nanoseconds(5_350)),
    }
    assert request.context is not None
    assert request.parent is None
    assert request.context.trace_id == trace_id_of("2-77-1")
    for stage in stages.values():
        assert stage.parent is not None
        assert stage.parent.span_id == request.context.span_id
    assert request.attributes is not None
    assert request.attributes["kavka.throttle_ms"] == 7
    assert request.attributes["messaging.destination.name"] == "orders"
    assert request.attributes["messaging.kafka.offset"] == 10
    assert request.attributes["kavka.longest_stage"] == "throttle"
    assert [(event.name, event.timestamp) for event in request.events] == [
        ("appended", nanoseconds(250)),
        ("followed", nanoseconds(4_900)),
        ("committed", nanoseconds(5_000)),
    ]
    assert request.status.status_code is StatusCode.UNSET


def test_the_producers_context_is_the_parent_also_of_one_that_was_not_sampled_there() -> None:
    request, _ = spans(TRACE._replace(traceparent=PARENT))
    assert request.context is not None
    assert request.parent is not None
    assert f"{request.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{request.parent.span_id:016x}" == "b7ad6b7169203331"
    # The next request of the same maker has nothing of it.
    maker = SpanMaker(2)
    maker.make(TRACE._replace(traceparent=PARENT))
    assert maker.make(TRACE)[-1].parent is None


def test_a_refused_partition_is_an_error_and_a_request_without_partitions_has_no_place() -> None:
    refused, _ = spans(TRACE._replace(partitions=(TracedPartition("orders", 3, -1, error="NOT_ENOUGH_REPLICAS"),)))
    assert refused.status.description == "orders-3: NOT_ENOUGH_REPLICAS"
    plain, _ = spans(TRACE._replace(api="Metadata", partitions=(), followers=()))
    assert plain.attributes is not None
    assert "messaging.destination.name" not in plain.attributes


def test_a_collector_that_is_away_costs_a_full_queue_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BrokerConfig.from_properties({"kavka.otlp.traces.endpoint": "http://127.0.0.1:1/v1/traces"})
    registry = Registry()
    export = TraceExport(config, registry)
    try:
        for _ in range(3 * MAX_WAITING):
            export.take(TRACE)
        assert registry.counter("kavka.server", "RequestTraceExport", "Dropped").value >= 1
        assert len(export._waiting) <= MAX_WAITING
    finally:
        export.close()
    assert registry.counter("kavka.server", "RequestTraceExport", "Exported").value == 0
    export.take(TRACE)  # After the end it is dropped, as one that waits.
    assert not export._waiting


@contextmanager
def collector(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """One that answers like this: its URL, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"POST {self.path}")
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_words: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", asked
    finally:
        server.shutdown()
        server.server_close()


def counts(endpoint: str, *traces: RequestTrace) -> tuple[int, int]:
    """How many were exported and how many dropped, each sent on its own."""
    registry = Registry()
    export = TraceExport(BrokerConfig.from_properties({"kavka.otlp.traces.endpoint": endpoint}), registry)
    exported, dropped = (
        registry.counter("kavka.server", "RequestTraceExport", name) for name in ("Exported", "Dropped")
    )
    try:
        for at, trace in enumerate(traces, 1):
            export.take(trace)
            export._wake.set()
            until = time.monotonic() + 60
            while exported.value + dropped.value < at:
                assert time.monotonic() < until
                time.sleep(0.01)
    finally:
        export.abandon()
    return exported.value, dropped.value


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_no_success(status: int) -> None:
    def redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Location", "/elsewhere")
        request.send_header("Content-Length", "0")
        request.end_headers()

    with collector(redirect) as (endpoint, asked):
        assert counts(endpoint, TRACE) == (0, 1)
        assert asked == ["POST /v1/traces"]


def test_of_an_answer_without_an_end_a_piece_is_read() -> None:
    sent: list[int] = []

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while sum(sent) < 1 << 28:
                sent.append(request.wfile.write(bytes(1 << 16)))
        except OSError:
            pass

    with collector(endless) as (endpoint, _asked):
        assert counts(endpoint, TRACE) == (1, 0)
    assert sum(sent) < 1 << 27


def test_a_trace_that_no_span_can_be_made_of_is_dropped_and_the_next_one_goes() -> None:
    def take(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with collector(take) as (endpoint, _asked):
        assert counts(endpoint, TRACE._replace(trace_id="\ud800"), TRACE) == (1, 1)


@pytest.mark.setting("kavka.otlp.traces.endpoint")
@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://c/v1", "http://", "http://c d/"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidValue, match="Value must be a URL"):
        BrokerConfig.from_properties({"kavka.otlp.traces.endpoint": endpoint})


def test_a_password_does_not_belong_into_the_endpoint_and_is_not_repeated() -> None:
    with pytest.raises(InvalidValue, match="OTEL_EXPORTER_OTLP_TRACES_HEADERS") as refused:
        BrokerConfig.from_properties({"kavka.otlp.traces.endpoint": "https://me:hunter2@collector/v1/traces"})
    assert "hunter2" not in str(refused.value)
    BrokerConfig.from_properties({"kavka.otlp.traces.endpoint": "https://collector/v1/traces?for=a@b"})


def test_without_the_extra_the_setting_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "kavka.runtime.http.trace_export"
    monkeypatch.delitem(sys.modules, name)
    for module in [each for each in sys.modules if each.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install '.*\[otel\]', or leave the setting out"):
        importlib.import_module(name)
