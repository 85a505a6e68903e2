"""Request traces: where the time of one request went, as a value.

A broker keeps the stages of requests that were slow (kavka.slow.request.ms) and of a sample of the others
(kavka.request.trace.sample). This module has the form of such a trace, its JSON, and `verdict`: which stage took most
of the time, and which broker or client that stage was waiting for. Who measures, and where traces are kept, is the
broker's matter (`broker/decisions/request_traces.py`).

The stages are those of Kafka's request metrics, in the order in which a request goes through them:

    request queue    read from the socket, and not yet handled
    local            in the handler: decoded, decided, appended to the page cache
    remote           waits: for followers, for a flush, for data, for other brokers
    throttle         the client is over its quota, and is not read from (KIP-219)
    response queue   the answer waits for the network thread
    response send    from the answer being ready until the kernel has all of it

    I1  a trace is a value and born complete; it holds names and numbers, never a record's bytes
    I2  what was not measured is -1 or empty, never a guess

Source: Kafka's RequestMetrics and RequestChannel.Request for the stages.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Final, NamedTuple

from kavka.model import BrokerId, TopicPartition

RING_FILES: Final = ("kavka-traces.1.jsonl", "kavka-traces.0.jsonl")
"""A broker's own ring in its first log directory: older, newer. Kafka's log loading passes over such files."""
FORMAT_VERSION: Final = 1
MAX_PARTITIONS: Final = 20
"""Partitions of one request, and steps of followers, that a trace names; a request may have thousands."""
NOT_MEASURED: Final = -1


class Stage(Enum):
    """Where a request was. The value is the word on the command line and on pages."""

    REQUEST_QUEUE = "request queue"
    LOCAL = "local"
    REMOTE = "remote"
    THROTTLE = "throttle"
    RESPONSE_QUEUE = "response queue"
    RESPONSE_SEND = "response send"


class Stages(NamedTuple):
    """Microseconds in each stage, in `Stage`'s order."""

    request_queue: int = 0
    local: int = 0
    remote: int = 0
    throttle: int = 0
    response_queue: int = 0
    response_send: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def longest(self) -> Stage:
        return list(Stage)[self.index(max(self))]


class TracedPartition(NamedTuple):
    """What a request did to one partition: offsets from `first_offset` to before `end_offset`, -1 where not known.
    `error` is the name of the answer's error, empty where there is none. `appended_us` is how long after the request
    was read the append was done."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int = NOT_MEASURED
    error: str = ""
    appended_us: int = NOT_MEASURED

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def has(self, topic_partition: TopicPartition, offset: int) -> bool | None:
        """Whether it holds the record; None where only its first offset is known, and that is not above it."""
        if self.topic_partition != topic_partition or self.first_offset < 0 or offset < self.first_offset:
            return False
        if self.end_offset >= 0:
            return offset < self.end_offset
        return True if offset == self.first_offset else None


class FollowerStep(NamedTuple):
    """A follower's fetch that told the leader how far it has come with one partition of a request.

    `fetched_us`: how long after the request was read that fetch came. `reached`: it was past the request's records; if
    not, it is the last fetch before the request was answered, or -1 for none since the leader's epoch began.
    """

    broker_id: BrokerId
    topic: str
    partition: int
    fetched_us: int
    reached: bool
    in_sync: bool = True
    """Whether it was in the ISR when the request was answered."""


class RequestTrace(NamedTuple):
    """One request. Times are microseconds after `at_ms`, when the broker had read it by its wall clock."""

    trace_id: str
    at_ms: int
    broker_id: BrokerId
    api: str
    version: int
    client_id: str
    client_host: str
    principal: str
    sampled: bool
    """Whether it is one of the sample; else it is kept because it was slow."""
    stages: Stages
    partitions: tuple[TracedPartition, ...] = ()
    followers: tuple[FollowerStep, ...] = ()
    committed_us: int = NOT_MEASURED
    """When the high watermark had passed all that waited for it."""
    flush_us: int = 0
    """How long the answer waited for the disk (flush.messages)."""
    stalled_us: int = 0
    """For how long the broker's event loop stood still meanwhile: nobody was served, followers neither."""
    stall_cause: str = ""
    """The function that the longest of these stalls was in."""
    traceparent: str = ""
    """The trace context of the first record that has one in its headers (W3C Trace Context); of sampled requests."""


class Verdict(NamedTuple):
    """What took most of a request's time. `broker_id` is the broker that it happened on, or that was waited for;
    `share` is the stage's part of the whole, 0 to 1."""

    stage: Stage
    broker_id: BrokerId
    why: str
    share: float


def verdict(trace: RequestTrace) -> Verdict:
    """Which stage dominates, and which broker."""
    stages = trace.stages
    stage = stages.longest
    took = max(stages)
    broker_id, cause = _cause(trace, stage)
    why = (
        f"{trace.api} of client {trace.client_id or 'without a name'} at {trace.client_host} took "
        f"{stages.total // 1000} ms, {took // 1000} ms of them in stage {stage.value}: {cause}"
    )
    return Verdict(stage, broker_id, why, took / stages.total if stages.total else 0.0)


def _cause(trace: RequestTrace, stage: Stage) -> tuple[BrokerId, str]:
    own = trace.broker_id
    if stage is not Stage.THROTTLE and trace.stalled_us * 2 > max(trace.stages):
        ms, place = trace.stalled_us // 1000, trace.stall_cause
        return own, f"the event loop of broker {own} stood still for {ms} ms meanwhile, in {place}"
    match stage:
        case Stage.REQUEST_QUEUE:
            return own, f"broker {own} was busy with other requests"
        case Stage.LOCAL:
            return own, f"broker {own} was busy with it, writing to the page cache included"
        case Stage.REMOTE:
            return _waited_for(trace)
        case Stage.THROTTLE:
            return own, f"broker {own} delays the client, which is over its quota"
        case Stage.RESPONSE_QUEUE:
            return own, f"a network thread of broker {own} was busy"
        case Stage.RESPONSE_SEND:
            return own, f"the client did not take the answer of broker {own}"


def _waited_for(trace: RequestTrace) -> tuple[BrokerId, str]:
    """Of the stage in which others are waited for."""
    own = trace.broker_id
    if trace.flush_us * 2 > trace.stages.remote:
        return own, f"broker {own} waited for its disk to flush the log"
    missing = [step for step in trace.followers if not step.reached]
    if missing:
        # One that is in sync is waited for; one that is not was, until it was taken out.
        last = min(missing, key=lambda step: (not step.in_sync, step.fetched_us))
        place = f"{last.topic}-{last.partition}"
        if last.in_sync:
            return last.broker_id, f"broker {last.broker_id} had not fetched the records of {place} yet"
        return last.broker_id, f"broker {last.broker_id} did not fetch the records of {place}, and left the ISR"
    if trace.followers:
        last = max(trace.followers, key=lambda step: step.fetched_us)
        place = f"{last.topic}-{last.partition}"
        after_ms = last.fetched_us // 1000
        why = f"broker {last.broker_id} was the last to fetch the records of {place}, after {after_ms} ms"
        return last.broker_id, why
    return own, f"broker {own} waited for others"


class MalformedTrace(ValueError):
    """A line that is no trace, or of a format that is not known."""


def encode_trace(trace: RequestTrace) -> bytes:
    """One JSON object, on one line. Fields that were not measured are left out."""
    fields: dict[str, object] = {"version": FORMAT_VERSION, "id": trace.trace_id, "at_ms": trace.at_ms}
    fields |= {"broker": trace.broker_id, "api": trace.api, "api_version": trace.version}
    fields |= {"client_id": trace.client_id, "client_host": trace.client_host, "principal": trace.principal}
    fields["sampled"] = trace.sampled
    fields["stages_us"] = {name: value for name, value in trace.stages._asdict().items() if value}
    if trace.partitions:
        fields["partitions"] = [_without_defaults(each) for each in trace.partitions]
    if trace.followers:
        fields["followers"] = [each._asdict() for each in trace.followers]
    if trace.committed_us >= 0:
        fields["committed_us"] = trace.committed_us
    if trace.flush_us:
        fields["flush_us"] = trace.flush_us
    if trace.stalled_us:
        fields["stalled_us"], fields["stall_cause"] = trace.stalled_us, trace.stall_cause
    if trace.traceparent:
        fields["traceparent"] = trace.traceparent
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _without_defaults(partition: TracedPartition) -> dict[str, object]:
    defaults = TracedPartition._field_defaults
    return {
        name: value for name, value in partition._asdict().items() if name not in defaults or value != defaults[name]
    }


def decode_trace(data: bytes) -> RequestTrace:
    """The trace of a line. Raises MalformedTrace."""
    try:
        fields = json.loads(data)
        if fields["version"] != FORMAT_VERSION:
            raise MalformedTrace(f"format version {fields['version']}, {FORMAT_VERSION} is known")
        return RequestTrace(
            str(fields["id"]),
            int(fields["at_ms"]),
            BrokerId(fields["broker"]),
            str(fields["api"]),
            int(fields["api_version"]),
            str(fields["client_id"]),
            str(fields["client_host"]),
            str(fields["principal"]),
            bool(fields["sampled"]),
            Stages(**fields["stages_us"]),
            tuple(TracedPartition(**each) for each in fields.get("partitions", ())),
            tuple(FollowerStep(**each) for each in fields.get("followers", ())),
            int(fields.get("committed_us", NOT_MEASURED)),
            int(fields.get("flush_us", 0)),
            int(fields.get("stalled_us", 0)),
            str(fields.get("stall_cause", "")),
            str(fields.get("traceparent", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise MalformedTrace(f"no trace: {problem!r}") from problem
