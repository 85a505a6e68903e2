"""RequestTraces: keeps the stages of slow and sampled requests: in a ring on the disk, and as why-records.

Decides which requests were slow, what is known of them, and how many are kept. Must not know sockets, nor when a
request is looked at: `runtime.request_channel.RequestWatch` decides that, and makes this part with the first one.

    ring         kavka-traces.0.jsonl and .1.jsonl in the first log directory, kavka.request.traces.ring.bytes
                 together, a JSON object on a line (`kavka.traces`)
    why-record   "request slow", about the broker that was waited for: the first of a minute for each API, stage and
                 broker; it says how many came before it without one

A request is slow by the time in which somebody waited for this broker. A Fetch that waits for data, a member that waits
for others, and a login that is made to wait do as they should: that wait does not count (`_WAIT_BY_DESIGN`).

    I1  keeping a trace never fails a request, and waits for nothing
    I2  at most MAX_PER_SECOND are kept, and MAX_KINDS kinds of slow requests remembered; the others are counted

Source: none; Apache Kafka has the times of all requests together (RequestMetrics), and a log of single requests
(kafka.request.logger) without what they waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.decisions.decision_log import LineRing, Ring
from kavka.broker.decisions.produce_waits import ProduceWait
from kavka.broker.decisions.trace_context import traceparent_of
from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision
from kavka.errors import ErrorCode, ProtocolViolation
from kavka.logger import Logger
from kavka.model import BrokerId, FileSlice
from kavka.protocol.api import ApiKey, api
from kavka.protocol.codec import decode
from kavka.protocol.connection import UNREAD
from kavka.protocol.messages.produce_response import ProduceResponse
from kavka.traces import (
    MAX_PARTITIONS,
    NOT_MEASURED,
    RING_FILES,
    FollowerStep,
    RequestTrace,
    Stages,
    TracedPartition,
    encode_trace,
    verdict,
)

if TYPE_CHECKING:
    from uuid import UUID

    from kavka.protocol.connection import Answered, Response

logger = Logger(__name__)

MAX_PER_SECOND: Final = 100
"""Traces that are kept in one second: 60 kB."""
MAX_KINDS: Final = 1_000
INTERVAL_MS: Final = 60_000
"""How long further slow requests of a kind get no why-record."""
LINGER_S: Final = 0.05
_WAIT_BY_DESIGN: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)


class TracePorts(NamedTuple):
    """What the broker gives. `clock_ns` is the clock of the stages, `slow_ms` the setting in force (-1: never),
    `topic_name` finds a topic by its id, `stalled` says for how many nanoseconds the event loop has stood still since
    a time, and in what. `export` is given each trace that is kept; it returns at once and never raises."""

    broker_id: BrokerId
    wall_ms: Callable[[], int]
    clock_ns: Callable[[], int]
    slow_ms: Callable[[], int]
    topic_name: Callable[[UUID], str | None]
    record: RecordDecision
    stalled: Callable[[int], tuple[int, str]]
    export: Callable[[RequestTrace], None] | None = None


class SampledRequest:
    """Takes down one request of the sample (`kavka.protocol.connection.Trace`)."""

    __slots__ = (
        "_began_ns",
        "_clock_ns",
        "_seen",
        "committed_us",
        "flush_us",
        "followers",
        "partitions",
        "traceparent",
    )

    def __init__(self, began_ns: int, clock_ns: Callable[[], int]) -> None:
        self._began_ns = began_ns
        self._clock_ns = clock_ns
        self._seen: set[tuple[str, int, int]] = set()
        self.partitions: list[TracedPartition] = []
        self.followers: list[FollowerStep] = []
        self.committed_us = NOT_MEASURED
        self.flush_us = 0
        self.traceparent = ""

    def _now_us(self) -> int:
        return (self._clock_ns() - self._began_ns) // 1000

    def appended(self, topic: str, partition: int, first_offset: int, end_offset: int) -> None:
        if len(self.partitions) < MAX_PARTITIONS:
            self.partitions.append(
                TracedPartition(topic, partition, first_offset, end_offset, appended_us=self._now_us())
            )

    def carried(self, records: memoryview) -> None:
        if not self.traceparent:
            self.traceparent = traceparent_of(records)

    def followed(self, topic: str, partition: int, broker_id: int) -> None:
        """A follower fetches again and again: the first time counts."""
        step = (topic, partition, broker_id)
        if step not in self._seen and len(self.followers) < MAX_PARTITIONS:
            self._seen.add(step)
            self.followers.append(FollowerStep(BrokerId(broker_id), topic, partition, self._now_us(), reached=True))

    def committed(self, wait: object) -> None:
        assert isinstance(wait, ProduceWait)
        self.committed_us = self._now_us()
        self.flush_us = wait.flush_us
        unseen = [each for each in wait.followers if (each.topic, each.partition, each.broker_id) not in self._seen]
        self.followers += _steps(ProduceWait((), unseen, 0), self.committed_us)

    def sent(self, topic: str, partition: int, offset: int) -> None:
        if len(self.partitions) < MAX_PARTITIONS:
            self.partitions.append(TracedPartition(topic, partition, offset))


class RequestTraces:
    """Keeps traces. Made with the first request that is slow or of the sample."""

    def __init__(self, ports: TracePorts, ring: Ring, *, id_prefix: str) -> None:
        self._ports = ports
        self._ring = LineRing(ring, RING_FILES, what="request traces")
        self._ended = False
        self._id_prefix = id_prefix
        self._sequence = 0
        self._unwritten: list[bytes] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._second = 0
        self._kept_in_second = 0
        self._told: dict[tuple[str, str, int], tuple[int, int]] = {}
        """When a kind of slow request had its last why-record, and how many came since."""
        self.kept = 0
        self.dropped = 0
        """How many were not kept, since MAX_PER_SECOND were."""

    def begin(self, began_ns: int) -> SampledRequest:
        return SampledRequest(began_ns, self._ports.clock_ns)

    def keep(self, answered: Answered, send_ns: int, wait: object) -> None:
        """An answer has left. Keeps its stages if it was slow, or one of the sample."""
        header = answered.header
        if header is UNREAD or self._ended:
            return
        stages = _stages(answered, send_ns)
        by_design = stages.remote if header.api_key in _WAIT_BY_DESIGN else 0
        slow_ms = self._ports.slow_ms()
        is_slow = slow_ms >= 0 and stages.total - by_design > slow_ms * 1000
        sampled = isinstance(answered.trace, SampledRequest)
        if not is_slow and not sampled:
            return
        trace = self._trace(answered, stages, wait)
        if self._has_room(trace.at_ms):
            self._write(trace)
        if is_slow:
            self._tell(trace)

    def _trace(self, answered: Answered, stages: Stages, wait: object) -> RequestTrace:
        header, context = answered.header, answered.context
        since_us = (self._ports.clock_ns() - answered.began_ns) // 1000
        stalled_ns, stall_cause = self._ports.stalled(answered.began_ns)
        self._sequence += 1
        trace = RequestTrace(
            f"{self._id_prefix}-{self._sequence}",
            self._ports.wall_ms() - since_us // 1000,
            self._ports.broker_id,
            _name_of(header.api_key),
            header.api_version,
            header.client_id or "",
            context.client_host,
            context.principal,
            sampled=False,
            stages=stages,
            stalled_us=stalled_ns // 1000,
            stall_cause=stall_cause,
        )
        sampled = answered.trace
        if isinstance(sampled, SampledRequest):
            partitions = self._with_errors(tuple(sampled.partitions), answered)
            return trace._replace(
                sampled=True,
                partitions=partitions,
                followers=tuple(sampled.followers),
                committed_us=sampled.committed_us,
                flush_us=sampled.flush_us,
                traceparent=sampled.traceparent,
            )
        answered_us = stages.request_queue + stages.local + stages.remote
        partitions = self._produced(answered)
        if isinstance(wait, ProduceWait):
            ends = {(each.topic, each.partition): each.end_offset for each in wait.waits}
            return trace._replace(
                partitions=tuple(
                    each._replace(end_offset=ends.get((each.topic, each.partition), NOT_MEASURED))
                    for each in partitions
                ),
                followers=_steps(wait, answered_us),
                flush_us=wait.flush_us,
            )
        return trace._replace(partitions=partitions)

    def _with_errors(self, partitions: tuple[TracedPartition, ...], answered: Answered) -> tuple[TracedPartition, ...]:
        """What was appended, with what the answer said of it."""
        errors = {(each.topic, each.partition): each.error for each in self._produced(answered)}
        return tuple(each._replace(error=errors.get((each.topic, each.partition), "")) for each in partitions)

    def _produced(self, answered: Answered) -> tuple[TracedPartition, ...]:
        """What the answer of a Produce says of its partitions: no other API's answers are read again."""
        if answered.header.api_key != ApiKey.PRODUCE:
            return ()
        body = _body(answered.response)
        if body is None:
            return ()
        try:
            message = decode(ProduceResponse, body, answered.header.api_version)
        except ProtocolViolation:
            return ()
        found = []
        for topic in message.responses:
            name = topic.name or self._ports.topic_name(topic.topic_id) or str(topic.topic_id)
            for each in topic.partition_responses[:MAX_PARTITIONS]:
                error = ErrorCode(each.error_code).name if each.error_code else ""
                found.append(TracedPartition(name, each.index, each.base_offset, error=error))
        return tuple(found[:MAX_PARTITIONS])

    # -- the ring

    def _has_room(self, now_ms: int) -> bool:
        second = now_ms // 1000
        if second != self._second:
            self._second, self._kept_in_second = second, 0
        if self._kept_in_second >= MAX_PER_SECOND:
            self.dropped += 1
            return False
        self._kept_in_second += 1
        return True

    def _write(self, trace: RequestTrace) -> None:
        self.kept += 1
        if self._ports.export is not None:
            self._ports.export(trace)
        self._unwritten.append(encode_trace(trace))
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(LINGER_S, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        lines, self._unwritten = self._unwritten, []
        self._ring.write(lines)

    async def stop(self) -> None:
        self._ended = True
        if self._flushing is not None:
            self._flushing.cancel()
            self._flush()
        self._ring.close()

    def abort(self) -> None:
        self._ended = True
        if self._flushing is not None:
            self._flushing.cancel()
        self._ring.close()

    # -- why-records

    def _tell(self, trace: RequestTrace) -> None:
        found = verdict(trace)
        kind = (trace.api, found.stage.value, found.broker_id)
        told_ms, untold = self._told.get(kind, (None, 0))
        if told_ms is not None and trace.at_ms - told_ms < INTERVAL_MS:
            self._told[kind] = (told_ms, untold + 1)
            return
        if len(self._told) >= MAX_KINDS:
            self._told.clear()
        self._told[kind] = (trace.at_ms, 0)
        partition = trace.partitions[0] if trace.partitions else None
        evidence: dict[str, Fact] = {
            "api": trace.api,
            "stage": found.stage.value,
            "total_ms": trace.stages.total // 1000,
            **{f"{name}_ms": value // 1000 for name, value in trace.stages._asdict().items() if value >= 1000},
            "topic": None if partition is None else partition.topic,
            "partition": None if partition is None else partition.partition,
            "offset": None if partition is None else partition.first_offset,
            "client_id": trace.client_id,
            "host": trace.client_host,
            "principal": trace.principal,
            "trace": trace.trace_id,
            "unrecorded_before": untold,
        }
        self._ports.record(
            Decision(
                DecisionKind.REQUEST_SLOW,
                self._ports.wall_ms(),
                self._ports.broker_id,
                found.why,
                about_broker=found.broker_id,
                evidence={name: value for name, value in evidence.items() if value is not None},
            )
        )


def _stages(answered: Answered, send_ns: int) -> Stages:
    return Stages(
        answered.request_queue_ns // 1000,
        answered.local_ns // 1000,
        answered.remote_ns // 1000,
        max(answered.response.mute_ms, 0) * 1000,
        answered.response_queue_ns // 1000,
        send_ns // 1000,
    )


def _steps(wait: ProduceWait, answered_us: int) -> tuple[FollowerStep, ...]:
    return tuple(
        FollowerStep(
            BrokerId(each.broker_id),
            each.topic,
            each.partition,
            NOT_MEASURED if each.ago_ms < 0 else answered_us - each.ago_ms * 1000,
            each.reached,
            each.in_sync,
        )
        for each in wait.followers
    )


def _name_of(api_key: int) -> str:
    return api(ApiKey(api_key)).name if api_key in ApiKey._value2member_map_ else str(api_key)


def _body(response: Response) -> memoryview | None:
    """The bytes of an answer; None if there are none, or where they are in files."""
    pieces = []
    for chunk in response.chunks:
        if isinstance(chunk, FileSlice):
            return None
        pieces.append(bytes(chunk))
    data = b"".join(pieces)
    return memoryview(data) if data else None
