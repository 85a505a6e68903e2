"""TraceExport: kept traces of requests go to an OpenTelemetry collector, over OTLP/HTTP.

Decides what of a trace becomes a span, an event or an attribute, and how many wait. Must not know which requests are
kept (broker/decisions/request_traces.py). The spans, their form on the wire, and how often a refused batch is sent
again are the SDK's.

    span "Produce", "Fetch", ...   the request, from being read to its answer having left; SERVER. Its parent is the
                                   producer's span, where the first record's header has a context; else it begins a
                                   trace, whose id follows from the trace's id in the ring
    spans below it                 one for each stage with any time: request queue, local, remote, response queue,
                                   response send. The client's throttle comes after the answer: an attribute
    events                         appended, followed (a follower's fetch), committed

    I1  the broker's loop puts a trace into a queue, and does nothing else: spans are made and sent on one thread here
    I2  at most MAX_WAITING traces wait; later ones are dropped, and counted
    I3  a collector that is away or slow holds up nobody but that thread; a stop waits for it CLOSE_S at most
    I4  traces go to the endpoint of the settings and nowhere else: a redirect is a failure. Of an answer at most
        MOST_ANSWER_BYTES are read

Source: OpenTelemetry's specification of traces and its conventions for messaging; W3C Trace Context.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from kavka import __version__
from kavka.errors import ConfigError
from kavka.installation import install_command
from kavka.logger import Logger
from kavka.traces import RequestTrace, verdict

try:
    import requests
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise ConfigError(
        f"kavka.otlp.traces.endpoint needs OpenTelemetry, which is not installed ({missing.name}): "
        f"{install_command('otel')}, or leave the setting out"
    ) from missing

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from kavka.config.broker import BrokerConfig
    from kavka.metrics import Registry

logger = Logger(__name__)

MAX_WAITING: Final = 2_000
"""Traces: at most 100 a second are kept, so that a collector may be away for 20 s."""
BATCH: Final = 200
"""Traces that are sent together: some 1,000 spans."""
TIMEOUT_S: Final = 10.0
LINGER_S: Final = 1.0
CLOSE_S: Final = 3.0
MOST_ANSWER_BYTES: Final = 4_096
"""A collector answers with nothing, or with a few words."""
US: Final = 1_000
_GROUP, _KIND = "kavka.server", "RequestTraceExport"
_STAGES: Final = ("request_queue", "local", "remote", "response_queue", "response_send")


class TraceExport:
    """One broker's. `take` on its loop; `close` on a thread that may wait."""

    def __init__(self, config: BrokerConfig, metrics: Registry) -> None:
        # The SDK says what fails in words of its own, over and over; here it is said once.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False
        self._endpoint = config.kavka_otlp_traces_endpoint
        self._exporter = OTLPSpanExporter(endpoint=self._endpoint, timeout=TIMEOUT_S, session=_Session())
        self._spans = SpanMaker(config.broker_id)
        self._waiting: deque[RequestTrace] = deque()
        self._wake = threading.Event()
        self._ended = False
        self._is_away = False
        self._exported = metrics.counter(_GROUP, _KIND, "Exported")
        self._dropped = metrics.counter(_GROUP, _KIND, "Dropped")
        self._thread = threading.Thread(target=self._run, name="kavka-otlp", daemon=True)
        self._thread.start()

    def take(self, trace: RequestTrace) -> None:
        """Puts it into the queue; drops it where that is full."""
        if len(self._waiting) >= MAX_WAITING or self._ended:
            self._dropped.value += 1
            return
        self._waiting.append(trace)
        if len(self._waiting) >= BATCH:
            self._wake.set()

    def close(self) -> None:
        """Sends what waits, as far as that is possible within CLOSE_S."""
        self._ended = True
        self._wake.set()
        self._thread.join(CLOSE_S)
        self.abandon()

    def abandon(self) -> None:
        """Ends it; what waits is lost. May be called twice."""
        self._ended = True
        self._waiting.clear()
        self._wake.set()
        # It wakes the exporter out of its pauses between attempts.
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the library's, without annotations

    def _run(self) -> None:
        while not self._ended or self._waiting:
            self._wake.wait(LINGER_S)
            self._wake.clear()
            while batch := self._next():
                self._send(batch)

    def _next(self) -> list[RequestTrace]:
        batch: list[RequestTrace] = []
        with suppress(IndexError):  # Emptied, maybe by `abandon` just now.
            while len(batch) < BATCH:
                batch.append(self._waiting.popleft())
        return batch

    def _send(self, traces: Sequence[RequestTrace]) -> None:
        why = "the collector refused them, redirected them, or did not answer"
        try:
            spans = [span for trace in traces for span in self._spans.make(trace)]
            arrived = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as problem:  # noqa: BLE001  # the library's, or its transport's: the thread goes on
            arrived, why = False, repr(problem)
        if arrived:
            self._exported.value += len(traces)
            if self._is_away:
                logger.info("request traces exported again", endpoint=self._endpoint)
        else:
            self._dropped.value += len(traces)
            if not self._is_away and not self._ended:
                logger.warning(
                    "request traces not exported",
                    endpoint=self._endpoint,
                    why=why,
                    next_step="see that the collector takes OTLP over HTTP there; the ring on the disk has them",
                )
        self._is_away = not arrived


class _Session(requests.Session):
    """Keeps to the endpoint, and to small answers (I4). The SDK takes a redirect for success, or follows it."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        answer = super().send(request, **{**options, "allow_redirects": False, "stream": True})
        with answer:
            short = requests.Response()
            short.status_code, short.reason, short.url = answer.status_code, answer.reason, answer.url
            short.headers = answer.headers
            short.raw = BytesIO(next(answer.iter_content(MOST_ANSWER_BYTES), b""))
        if 300 <= short.status_code < 400:
            raise requests.RequestException(f"status {short.status_code}: redirects are not followed", response=short)
        return short


class _Collected(SpanProcessor):
    """Keeps the spans that ended."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


class _Ids(RandomIdGenerator):
    """A trace's id follows from the id that kavka gave it, so that each finds the other."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id


def trace_id_of(trace_id: str) -> int:
    """The id in OpenTelemetry of a trace that begins here: the first 16 bytes of the SHA-256 of its id in the ring."""
    return int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:16], "big")


class SpanMaker:
    """Makes spans. Used by one thread."""

    def __init__(self, broker_id: int) -> None:
        self._ids, self._collected = _Ids(), _Collected()
        resource = Resource.create(
            {"service.name": "kavka", "service.instance.id": str(broker_id), "service.version": __version__}
        )
        # Which requests are kept is decided already: also one whose producer's own span is not sampled.
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids)
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer("kavka", __version__)
        self._context = TraceContextTextMapPropagator()

    def make(self, trace: RequestTrace) -> list[ReadableSpan]:
        """The request's span, and those of its stages."""
        self._ids.trace_id = trace_id_of(trace.trace_id)
        began_ns = trace.at_ms * 1_000_000
        parent = self._context.extract({"traceparent": trace.traceparent}) if trace.traceparent else None
        span = self._tracer.start_span(
            trace.api, parent, kind=SpanKind.SERVER, attributes=attributes_of(trace), start_time=began_ns
        )
        at_ns = began_ns
        for name in _STAGES:
            took_ns = getattr(trace.stages, name) * US
            if took_ns:
                stage = self._tracer.start_span(name.replace("_", " "), set_span_in_context(span), start_time=at_ns)
                at_ns += took_ns
                stage.end(at_ns)
        for each in trace.partitions:
            if each.appended_us >= 0:
                span.add_event(
                    "appended",
                    {"kavka.partition": str(each.topic_partition), "kavka.offset": each.first_offset},
                    began_ns + each.appended_us * US,
                )
        for step in trace.followers:
            span.add_event(
                "followed" if step.reached else "not followed",
                {
                    "kavka.broker": step.broker_id,
                    "kavka.partition": f"{step.topic}-{step.partition}",
                    "kavka.in_sync": step.in_sync,
                },
                began_ns + max(step.fetched_us, 0) * US,
            )
        if trace.committed_us >= 0:
            span.add_event("committed", None, began_ns + trace.committed_us * US)
        errors = [f"{each.topic_partition}: {each.error}" for each in trace.partitions if each.error]
        if errors:
            span.set_status(Status(StatusCode.ERROR, "; ".join(errors)))
        span.end(at_ns)
        ended, self._collected.ended = self._collected.ended, []
        return ended


def attributes_of(trace: RequestTrace) -> Mapping[str, AttributeValue]:
    """Names of OpenTelemetry's conventions where there are some, else names that begin with kavka."""
    found = verdict(trace)
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "kafka",
        "messaging.client.id": trace.client_id,
        "client.address": trace.client_host,
        "user.name": trace.principal,
        "kavka.broker": trace.broker_id,
        "kavka.api": trace.api,
        "kavka.api.version": trace.version,
        "kavka.trace": trace.trace_id,
        "kavka.sampled": trace.sampled,
        "kavka.longest_stage": found.stage.value,
        "kavka.waited_for.broker": found.broker_id,
        "kavka.why": found.why,
    }
    topics = {each.topic for each in trace.partitions}
    if len(topics) == 1:
        attributes["messaging.destination.name"] = topics.pop()
    if len(trace.partitions) == 1:
        (only,) = trace.partitions
        attributes["messaging.destination.partition.id"] = str(only.partition)
        attributes["messaging.kafka.offset"] = only.first_offset
    times = {
        "kavka.throttle_ms": trace.stages.throttle // US,
        "kavka.flush_ms": trace.flush_us // US,
        "kavka.loop_stalled_ms": trace.stalled_us // US,
    }
    return attributes | {name: ms for name, ms in times.items() if ms}
