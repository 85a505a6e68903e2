"""Which partitions a query reads and what its bounds are in offsets, as the cluster is now.

Decides how topics, timestamps, "earliest" and "latest" become partitions and offsets, and how offsets are written as
JSON. It must not know Spark's calls or how much one micro-batch takes.

    {"orders": {"0": 23, "1": 42}, "topic ids": {"orders": "2f4c7c0e-..."}}

is what a stream's checkpoint holds: as Spark's "kafka" source writes it, keys in order, and beside the topics (a name
with a space is none) the ids that they had. A checkpoint of the "kafka" source is read as well. The end of the first
micro-batch holds where the stream began, too, under "began at". "first offsets" has the same for good, and "filled in"
the ranges before it that are read as well (`backfill`).

Invariants
  I1  JSON of the same offsets is the same text: Spark compares texts.
  I2  Spark does not keep where a Python source began: after a driver that died in the first micro-batch it asks anew,
      and "latest" is later by then. So the first end holds the beginning, and no record between the two is lost.
  I3  Bounds are told from the ends of the log that the caller has: a log that grows or ages meanwhile puts none of them
      outside. Only offsets that the user named can be.
  I4  A topic that is not there counts as missing only after `topic_propagation_ms`: brokers learn of a new one one
      after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from uuid import UUID

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster, TopicMetadata
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.metadata_response import MetadataResponse
from kavka_spark import backfill
from kavka_spark.backfill import FILLED_IN, Ranges
from kavka_spark.errors import SubscriptionError
from kavka_spark.read_tasks import NO_TOPIC_ID
from kavka_spark.source_options import Assign, AtOffsets, AtTimestamps, Bound, Edge, Subscribe, SubscribePattern, Topics

TOPIC_IDS = "topic ids"
BEGAN_AT = "began at"
FIRST_OFFSETS = "first offsets"
BESIDE = (TOPIC_IDS, BEGAN_AT, FIRST_OFFSETS, FILLED_IN)
"""What offsets have beside the topics."""
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
_SHOWN = 10
"""Partitions that a message lists at most."""


class Offsets(NamedTuple):
    """A position in every partition, and the ids of their topics as far as they are known."""

    positions: dict[TopicPartition, int]
    topic_ids: dict[str, UUID]
    began_at: Offsets | None = None
    """Where the stream began; of the end of its first micro-batch only (I2)."""
    first: Mapping[TopicPartition, int] = MappingProxyType({})
    """Where the stream began in each partition, as far as that is known."""
    ranges: Ranges = MappingProxyType({})
    """What is read besides, before the stream's own beginning."""

    def to_json(self, *, with_ids: bool = True) -> dict[str, dict[str, Any]]:
        """The JSON that a checkpoint holds (I1). Without ids it is what Spark's "kafka" source reads, and no more."""
        written: dict[str, dict[str, Any]] = _by_topic(self.positions)
        if with_ids and self.topic_ids:
            written[TOPIC_IDS] = {topic: str(self.topic_ids[topic]) for topic in sorted(self.topic_ids)}
        if with_ids and self.began_at is not None:
            written[BEGAN_AT] = self.began_at.to_json()
        if with_ids and self.first:
            written[FIRST_OFFSETS] = _by_topic(self.first)
        if with_ids and any(self.ranges.values()):
            written[FILLED_IN] = backfill.to_json(self.ranges)
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Mapping[str, Any]]) -> Offsets:
        """Raises ValueError for other JSON."""
        if not isinstance(written, Mapping) or not all(isinstance(each, Mapping) for each in written.values()):
            raise ValueError(f"not offsets of topics: {written!r}")
        topics = {name: partitions for name, partitions in written.items() if name not in BESIDE}
        began_at = written.get(BEGAN_AT)
        return cls(
            _by_partition(topics),
            {topic: UUID(text) for topic, text in written.get(TOPIC_IDS, {}).items()},
            None if began_at is None else cls.from_json(began_at),
            _by_partition(written.get(FIRST_OFFSETS, {})),
            backfill.from_json(written.get(FILLED_IN, {})),
        )


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    written: dict[str, dict[str, int]] = {}
    for name in sorted(offsets):
        written.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return written


def _by_partition(written: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(p)): int(at) for topic, partitions in written.items() for p, at in partitions.items()
    }


class Edges(NamedTuple):
    """The ends of logs as they were found: the first offset, and the one behind the last."""

    earliest: dict[TopicPartition, int]
    latest: dict[TopicPartition, int]


class Found(NamedTuple):
    """The partitions that a subscription matches now, and the ids of their topics; those without one are left out."""

    partitions: list[TopicPartition]
    topic_ids: dict[str, UUID]
    missing: list[str]
    """Topics that are named but do not exist."""


async def find_partitions(cluster: Cluster, topics: Topics, *, patient: bool = True) -> Found:
    """What `topics` matches now. With `patient`, waits a moment for a topic that does not exist yet; see I4."""
    match topics:
        case Subscribe(names):
            described = await _describe(cluster, names, patient=patient)
            chosen = None
        case SubscribePattern():
            names = ()
            everything = await _describe(cluster, None, patient=False)
            described = {
                name: topic for name, topic in everything.items() if topics.matches(name) and not topic.is_internal
            }
            chosen = None
        case Assign(partitions):
            names = tuple(dict.fromkeys(partition.topic for partition in partitions))
            described = await _describe(cluster, names, patient=patient)
            chosen = partitions
    found = [TopicPartition(topic.name, p.partition) for topic in described.values() for p in topic.partitions]
    if chosen is not None:
        found = _found_of(chosen, found, described)
    ids = {topic.name: topic.topic_id for topic in described.values() if topic.topic_id != NO_TOPIC_ID}
    return Found(sorted(found), ids, [name for name in names if name not in described])


def _found_of(
    chosen: Sequence[TopicPartition], found: Sequence[TopicPartition], described: Mapping[str, TopicMetadata]
) -> list[TopicPartition]:
    """Those of the chosen that are there. Raises `SubscriptionError` for one that its topic does not have."""
    absent = set(chosen).difference(found)
    strays = sorted(p for p in absent if p.topic in described)
    if strays:
        count = len(described[strays[0].topic].partitions)
        raise SubscriptionError(
            f"option 'assign' names {_shown(strays)}, and {strays[0].topic!r} has the partitions 0 to {count - 1}"
        )
    return [partition for partition in chosen if partition not in absent]


async def resolve(
    cluster: Cluster,
    bound: Bound,
    within: Edges,
    *,
    side: Literal["starting", "ending"],
    read_committed: bool,
    latest_where_no_timestamp: bool = True,
) -> dict[TopicPartition, int]:
    """The bound's offset in each partition of `within`. `side` says which of the query's bounds it is, for messages.

    Raises `SubscriptionError` where it leaves a partition out, names one that is not read, or (without
    `latest_where_no_timestamp`) where no record is as late as a timestamp.
    """
    wanted = list(within.latest)
    match bound:
        case Edge.EARLIEST:
            return dict(within.earliest)
        case Edge.LATEST:
            return dict(within.latest)
        case AtOffsets(offsets):
            _check_cover(offsets, wanted, f"{side}Offsets")
            ends = {LATEST: within.latest, EARLIEST: within.earliest}  # In JSON they are what they are on the wire.
            return {name: ends[offsets[name]][name] if offsets[name] in ends else offsets[name] for name in wanted}
        case AtTimestamps(timestamps, everywhere):
            option = f"{side}OffsetsByTimestamp"
            if everywhere is not None:
                option, timestamps = f"{side}Timestamp", dict.fromkeys(wanted, everywhere)
            _check_cover(timestamps, wanted, option)
            found = await offsets_at(cluster, {p: timestamps[p] for p in wanted}, read_committed=read_committed)
            none = sorted(partition for partition, offset in found.items() if offset < 0)
            if none and not latest_where_no_timestamp:
                raise SubscriptionError(
                    f"option {option!r}: no record of {_shown(none)} is as late as {timestamps[none[0]]}; "
                    "startingOffsetsByTimestampStrategy=latest begins at the end there"
                )
            return {
                name: within.latest[name] if offset < 0 else min(offset, within.latest[name])
                for name, offset in found.items()
            }


def begins_at_earliest(bound: Bound, name: TopicPartition) -> bool:
    """Whether the bound is the earliest record that there is, whichever that is."""
    return bound is Edge.EARLIEST or (isinstance(bound, AtOffsets) and bound.offsets.get(name) == EARLIEST)


async def offsets_at(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, int]:
    """Offsets at times (`EARLIEST`, `LATEST`, or ms), -1 where no record is so late; asks nobody about nothing."""
    if not timestamps:
        return {}
    found = await list_offsets(cluster, timestamps, read_committed=read_committed)
    return {partition: at.offset for partition, at in found.items()}


async def edges(cluster: Cluster, partitions: Iterable[TopicPartition], *, read_committed: bool) -> Edges:
    """The earliest and the latest offsets of `partitions`, requested at the same time."""
    wanted = list(partitions)
    earliest, latest = await asyncio.gather(
        offsets_at(cluster, dict.fromkeys(wanted, EARLIEST), read_committed=False),
        offsets_at(cluster, dict.fromkeys(wanted, LATEST), read_committed=read_committed),
    )
    return Edges(earliest, latest)


async def _describe(cluster: Cluster, names: Iterable[str] | None, *, patient: bool) -> dict[str, TopicMetadata]:
    """Topics by name; all if `names` is None. Topics that do not exist are left out."""
    asked = None if names is None else list(names)

    async def ask() -> MetadataResponse:
        request = MetadataRequest(
            topics=None if asked is None else [MetadataRequestTopic(name=name) for name in asked],
            allow_auto_topic_creation=False,
        )
        answer = await cluster.ask(ApiKey.METADATA, request, MetadataResponse)
        for topic in answer.topics:
            if topic.error_code and (patient or topic.error_code not in _MISSING) and asked is not None:
                raise_for(topic.error_code, f"topic {topic.name!r}")
        return answer

    patience = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: cluster.settings.topic_propagation_ms}
    try:
        answer = await cluster.retry(ask, what=f"describe topics {asked or ''}", patience_ms=patience)
    except RequestError as failure:
        if not patient or failure.code not in _MISSING:
            raise
        return await _describe(cluster, names, patient=False)
    cluster.take_metadata(answer)
    described = (topic.name for topic in answer.topics if topic.name is not None and not topic.error_code)
    return {name: cluster.topics[name] for name in sorted(described)}


def _check_cover(given: Mapping[TopicPartition, int], wanted: Iterable[TopicPartition], option: str) -> None:
    absent, extra = sorted(set(wanted).difference(given)), sorted(set(given).difference(wanted))
    if absent:
        raise SubscriptionError(
            f"option {option!r} leaves out {_shown(absent)}: it must name every partition that is read (-1: latest, "
            "-2: earliest)"
        )
    if extra:
        raise SubscriptionError(f"option {option!r} names {_shown(extra)}, which is not among what is read")


def _shown(partitions: list[TopicPartition]) -> str:
    rest = len(partitions) - _SHOWN
    return ", ".join(map(str, partitions[:_SHOWN])) + (f" and {rest} more" if rest > 0 else "")
