"""A broker sends its traces to a collector: a small HTTP server here, which decodes OTLP as a collector does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """Takes traces on a port of its own. While `is_stuck` it reads requests, and does not answer them."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, str, str, dict[str, str]]] = []
        """Name, trace id, parent's id, and the attributes that are texts."""
        self.is_stuck = threading.Event()
        self.held = 0
        """Requests that it was stuck with."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                deadline = time.monotonic() + 60
                collector.held += collector.is_stuck.is_set()
                while collector.is_stuck.is_set() and time.monotonic() < deadline:
                    time.sleep(0.05)
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    texts = {each.key: each.value.string_value for each in span.attributes if each.value.string_value}
                    self.spans.append((span.name, span.trace_id.hex(), span.parent_span_id.hex(), texts))

    def named(self, name: str, client: str) -> list[tuple[str, str, str, dict[str, str]]]:
        return [each for each in list(self.spans) if each[0] == name and each[3].get("messaging.client.id") == client]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.is_stuck.clear()
        collector.server.shutdown()
        collector.server.server_close()


def produce(bootstrap: str, client: str, records: int = 1) -> float:
    """Returns how long it took, in seconds."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client, "acks": "1", "linger.ms": 0})
    began = time.monotonic()
    for _ in range(records):
        producer.produce("orders", b"value", headers=[("traceparent", CONTEXT)])
        assert producer.flush(30) == 0
    return time.monotonic() - began


@pytest.mark.setting("kavka.otlp.traces.endpoint")
def test_sampled_requests_arrive_as_spans_and_a_stuck_collector_holds_up_nobody(tmp_path: Path) -> None:
    with collecting() as collector:
        endpoint = f"http://127.0.0.1:{collector.server.server_address[1]}/v1/traces"
        settings = {"kavka.otlp.traces.endpoint": endpoint, "kavka.request.trace.sample": "1"}
        with KavkaProcess(tmp_path / "data", settings=settings) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
            produce(broker.bootstrap, "instrumented")
            ((_, trace_id, parent, texts),) = eventually(
                "it arrives", lambda: collector.named("Produce", "instrumented")
            )
            assert trace_id == "0af7651916cd43dd8448eb211c80319c"
            assert parent == "b7ad6b7169203331"
            assert texts["messaging.destination.name"] == "orders"
            assert texts["kavka.trace"]
            stages = eventually(
                "its stages, too",
                lambda: [each for each in list(collector.spans) if each[0] == "local" and each[1] == trace_id],
            )
            assert len(stages) == 1
            collector.is_stuck.set()
            produce(broker.bootstrap, "before", 20)
            eventually("the exporter is stuck with it", lambda: collector.held > 0)
            assert produce(broker.bootstrap, "meanwhile", 20) < 50
            assert collector.named("Produce", "meanwhile") == []
            collector.is_stuck.clear()
            eventually("it goes on", lambda: len(collector.named("Produce", "meanwhile")) == 20, timeout_s=60)
