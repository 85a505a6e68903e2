"""Options of the source: which partitions, from where to where, how much at a time.

Decides what a set of options asks for, and refuses what contradicts itself. It must not know a cluster: what "earliest"
is today, `offsets` finds out.

Names and meanings are those of Spark's "kafka" source. Its own are `columns`, `maxBytesPerTrigger`, `kavka.group.id`,
`kavka.offsets.topic.ids` and `kavka.backfill.from` and `.to`.

Source: Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka_spark.options import (
    ConnectionOptions,
    boolean,
    check_names,
    client_names,
    connection_options,
    duration_ms,
    positive_int,
)

logger = Logger(__name__)

CONSUMER_SETTINGS = frozenset(
    {
        "check.crcs",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
    }
)
"""Settings of Kafka's consumer, after `kafka.`, that the source heeds. It fetches one partition at a time, so that of
the two bounds in bytes the smaller one counts; `fetch.min.bytes` would only make it wait for what it has not asked."""

SOURCE_OPTIONS = (
    "assign",
    "columns",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "kavka.backfill.from",
    "kavka.backfill.to",
    "kavka.group.id",
    "kavka.offsets.topic.ids",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
REFUSED = {
    "kafka.auto.offset.reset": "set 'startingOffsets' instead: Spark keeps the offsets",
    "kafka.enable.auto.commit": "set 'kavka.group.id' to have finished micro-batches committed to a group",
    "kafka.key.deserializer": "keys come as bytes; cast them in the query",
    "kafka.value.deserializer": "values come as bytes; cast them in the query",
    "kafka.interceptor.classes": "interceptors are Java classes, and the source is Python",
    "kafka.security.providers": "they are Java classes, and the source uses Python's TLS",
}
"""Options that Spark's source refuses too, or that the source cannot honour, and what to do instead."""

LATEST = -1
EARLIEST = -2
"""The values in JSON of offsets, as for Spark's source."""
LONGEST = (1 << 63) - 1
LONGEST_DIGITS = 100
"""Digits of a number that are looked at."""

FETCH_BYTES = 4 * 1024 * 1024
MAX_FETCH_BYTES = 64 * 1024 * 1024
POLL_TIMEOUT_MS = 120_000
TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose names the pattern is found."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Anywhere in the name, as Spark's source has it since 3.4 (ConsumerStrategy); `^...$` is the whole name."""
        return re.search(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


Topics: TypeAlias = Subscribe | SubscribePattern | Assign


class Edge(Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or `LATEST` or `EARLIEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time, in ms: of each partition, or `everywhere`."""

    timestamps: Mapping[TopicPartition, int]
    everywhere: int | None = None


Bound: TypeAlias = Edge | AtOffsets | AtTimestamps


@dataclass(frozen=True, slots=True)
class Backfill:
    """Which records before a stream's own beginning it is to read. `to` none means: all up to there."""

    since: Bound
    to: AtOffsets | AtTimestamps | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query reads."""

    connection: ConnectionOptions
    topics: Topics
    starting: Bound
    ending: Bound = Edge.LATEST
    latest_where_no_timestamp: bool = False
    """Where no record is as late as the starting timestamp: begin at the end; otherwise it is an error."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    read_committed: bool = False
    check_crcs: bool = True
    columns: tuple[str, ...] | None = None
    """The columns to read; None: all."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets: int | None = None
    """Most offsets in one micro-batch, over all partitions."""
    min_offsets: int | None = None
    max_trigger_delay_ms: int = TRIGGER_DELAY_MS
    """How long a micro-batch may wait for `min_offsets`."""
    max_bytes: int | None = None
    """Most bytes in one micro-batch, as stored in the log; estimated from the heads of batches."""
    fetch_bytes: int = FETCH_BYTES
    fetch_wait_ms: int = 500
    end_attempts: int = 3
    """How often the ends of the log are asked for before a log that ends before the stream's position is lost data."""
    end_retry_ms: int = 1_000
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    """How long a reader waits for records that should be there."""
    group_id: str | None = None
    backfill: Backfill | None = None
    topic_ids: bool = True
    """Whether offsets carry topic ids, so that a restarted query notices a topic that was created again."""


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a batch or streaming query, by lower-case names. Raises `ConfigError`."""
    given = {name.lower(): text for name, text in options.items()}
    for name, instead in REFUSED.items():
        if name in given:
            raise ConfigError(f"option {name!r} cannot be used with the kavka source: {instead}")
    check_names(given, {*SOURCE_OPTIONS, *client_names(CONSUMER_SETTINGS)}, what="source")
    starting = _bound(given, "starting", Edge.LATEST if streaming else Edge.EARLIEST)
    ending = _bound(given, "ending", Edge.LATEST)
    if streaming:
        _refuse(given, "a stream has no end", "endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets")
    else:
        _refuse(given, "only a stream has triggers and finished micro-batches", "maxbytespertrigger", "kavka.group.id")
        _refuse(given, "a batch query has no beginning to fill in", "kavka.backfill.from", "kavka.backfill.to")
        _pass_over(given, "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")
        _check_order(starting, ending)
        if starting is Edge.LATEST or (isinstance(starting, AtOffsets) and LATEST in starting.offsets.values()):
            raise ConfigError("option 'startingOffsets' is latest: a batch query would read nothing")
    if ending is Edge.EARLIEST or (isinstance(ending, AtOffsets) and EARLIEST in ending.offsets.values()):
        raise ConfigError("option 'endingOffsets' is earliest: a query would read nothing")
    max_offsets, min_offsets = _number(given, "maxoffsetspertrigger"), _number(given, "minoffsetspertrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise ConfigError(f"minOffsetsPerTrigger is {min_offsets}, more than maxOffsetsPerTrigger, {max_offsets}")
    fetch_bytes = min(
        _number(given, "kafka.fetch.max.bytes") or MAX_FETCH_BYTES,
        _number(given, "kafka.max.partition.fetch.bytes") or FETCH_BYTES,
        MAX_FETCH_BYTES,
    )
    return SourceOptions(
        connection=connection_options(given),
        topics=_topics(given),
        starting=starting,
        ending=ending,
        latest_where_no_timestamp=_one_of(given, "startingoffsetsbytimestampstrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=boolean(given, "failondataloss", default=True),
        include_headers=boolean(given, "includeheaders", default=False),
        read_committed=_one_of(given, "kafka.isolation.level", ("read_uncommitted", "read_committed"))
        == "read_committed",
        check_crcs=boolean(given, "kafka.check.crcs", default=True),
        columns=_columns(given),
        min_partitions=_number(given, "minpartitions"),
        max_records_per_partition=_number(given, "maxrecordsperpartition"),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=duration_ms(given, "maxtriggerdelay", default_ms=TRIGGER_DELAY_MS),
        max_bytes=_number(given, "maxbytespertrigger"),
        fetch_bytes=fetch_bytes,
        fetch_wait_ms=_number(given, "kafka.fetch.max.wait.ms") or 500,
        end_attempts=_number(given, "fetchoffset.numretries") or 3,
        end_retry_ms=_number(given, "fetchoffset.retryintervalms") or 1_000,
        poll_timeout_ms=_number(given, "kafkaconsumer.polltimeoutms") or POLL_TIMEOUT_MS,
        group_id=given.get("kavka.group.id") or None,
        backfill=backfill_of(given),
        topic_ids=boolean(given, "kavka.offsets.topic.ids", default=True),
    )


def _pass_over(given: Mapping[str, str], *names: str) -> None:
    """Warns of options that only a stream heeds. Spark's source passes over them in a batch query, too, so that both
    kinds of queries can share their options."""
    spelled = {name.lower(): name for name in SOURCE_OPTIONS}
    for name in names:
        if name in given:
            logger.warning("option passed over", option=spelled[name], why="a batch query has no micro-batches")


def _check_order(starting: Bound, ending: Bound) -> None:
    """Refuses a time range that ends before it begins. Offsets are compared where both are known (`source`)."""
    match starting, ending:
        case AtTimestamps(_, int(first)), AtTimestamps(_, int(last)) if last < first:
            raise ConfigError(f"option 'endingTimestamp' is {last}, before 'startingTimestamp', {first}")
        case AtTimestamps(first_of, None), AtTimestamps(last_of, None):
            for name in sorted(set(first_of).intersection(last_of)):
                if last_of[name] < first_of[name]:
                    raise ConfigError(
                        f"option 'endingOffsetsByTimestamp' is {last_of[name]} for {name}, before "
                        f"'startingOffsetsByTimestamp', {first_of[name]}"
                    )
        case _:
            pass


def _topics(given: Mapping[str, str]) -> Topics:
    chosen = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none"
        raise ConfigError(f"expected one of the options subscribe, subscribePattern and assign, found {found}")
    text = given[chosen[0]]
    match chosen[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
            if not topics:
                raise ConfigError("option 'subscribe' names no topic")
            return Subscribe(topics)
        case "subscribepattern":
            return _pattern(text.strip())
        case _:
            assigned = _json(text, "assign", example='{"orders":[0,1]}')
            partitions = []
            for topic, numbers in assigned.items():
                if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
                    raise _wrong_json("assign", text, '{"orders":[0,1]}')
                partitions += [TopicPartition(topic, number) for number in numbers]
            if not partitions:
                raise ConfigError("option 'assign' names no partition")
            return Assign(tuple(dict.fromkeys(partitions)))


def _pattern(text: str) -> SubscribePattern:
    if not text:
        raise ConfigError("option 'subscribePattern' is empty")
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"option 'subscribePattern' is not a regular expression: {text!r}: {error}") from error
    return SubscribePattern(text)


def _bound(given: Mapping[str, str], side: str, default: Edge) -> Bound:
    """Where a query begins ("starting") or ends ("ending"). A timestamp for all comes before one for each partition,
    and that before offsets, as for Spark's source."""
    everywhere = given.get(f"{side}timestamp")
    if everywhere is not None:
        if not _is_long(everywhere.strip()):
            raise ConfigError(f"option '{side}Timestamp' is {everywhere!r}, expected milliseconds since 1970")
        return AtTimestamps({}, int(everywhere))
    by_time = given.get(f"{side}offsetsbytimestamp")
    if by_time is not None:
        return AtTimestamps(_by_partition(by_time, f"{side}OffsetsByTimestamp", lowest=0))
    text = given.get(f"{side}offsets")
    if text is None:
        return default
    if text.strip().lower() in ("earliest", "latest"):
        return Edge(text.strip().lower())
    return AtOffsets(_by_partition(text, f"{side}Offsets", lowest=EARLIEST))


def backfill_of(given: Mapping[str, str]) -> Backfill | None:
    """From `earliest`, ms since 1970, or offsets by partition; to the stream's beginning, to a time, or to offsets.

    Raises `ConfigError`."""
    if "kavka.backfill.from" not in given:
        if "kavka.backfill.to" in given:
            raise ConfigError("option 'kavka.backfill.to' needs 'kavka.backfill.from': earliest, a time, or offsets")
        return None
    if not boolean(given, "kavka.offsets.topic.ids", default=True):
        raise ConfigError(
            "option 'kavka.backfill.from' cannot be used with kavka.offsets.topic.ids=false: offsets as Spark's own "
            "source writes them have no place for what was filled in"
        )
    since = _backfill_bound(given, "kavka.backfill.from")
    to = _backfill_bound(given, "kavka.backfill.to") if "kavka.backfill.to" in given else None
    if isinstance(to, Edge):
        raise ConfigError("option 'kavka.backfill.to' is a time or offsets; without it all is read up to the beginning")
    match since, to:
        case AtTimestamps(_, int(first)), AtTimestamps(_, int(last)) if last < first:
            raise ConfigError(f"option 'kavka.backfill.to' is {last}, before 'kavka.backfill.from', {first}")
    return Backfill(since, to)


def _backfill_bound(given: Mapping[str, str], name: str) -> Bound:
    text = given[name].strip()
    if text.lower() == "earliest":
        return Edge.EARLIEST
    return AtTimestamps({}, int(text)) if _is_long(text) else AtOffsets(_by_partition(text, name, lowest=0))


def _by_partition(text: str, name: str, *, lowest: int) -> dict[TopicPartition, int]:
    example = '{"orders":{"0":23,"1":42}}'
    found = {}
    for topic, partitions in _json(text, name, example).items():
        if not isinstance(partitions, dict):
            raise _wrong_json(name, text, example)
        for partition, number in partitions.items():
            is_number = isinstance(number, int) and not isinstance(number, bool) and lowest <= number <= LONGEST
            if not is_number or not _is_long(partition):
                raise _wrong_json(name, text, example)
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise ConfigError(f"option {name!r} names no partition")
    return found


def _json(text: str, name: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong_json(name, text, example) from error
    if not isinstance(parsed, dict):
        raise _wrong_json(name, text, example)
    return parsed


def _wrong_json(name: str, text: str, example: str) -> ConfigError:
    words = ", or earliest or latest" if name.endswith("Offsets") else ""
    return ConfigError(f"option {name!r} is {text[:200]!r}, expected JSON such as {example}{words}")


def _is_long(text: str) -> bool:
    """Whether it is a whole number, 0 or more, that 64 bits hold."""
    return len(text) < LONGEST_DIGITS and text.isdecimal() and int(text) <= LONGEST


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _number(given: Mapping[str, str], name: str) -> int | None:
    return positive_int(given, name) if name in given else None


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _one_of(given: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = given.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise ConfigError(f"option {name!r} is {given[name]!r}, expected {' or '.join(allowed)}")
    return text


def _refuse(given: Mapping[str, str], why: str, *names: str) -> None:
    spelled = {name.lower(): name for name in SOURCE_OPTIONS}
    for name in names:
        if name in given:
            raise ConfigError(f"option {spelled[name]!r} has no meaning here: {why}")
