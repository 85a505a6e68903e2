"""What is written before a log directory changes hands, and how it is read back: through librdkafka, from any broker.

Topics of the load
  codecs    5 partitions, one for each codec, by idempotent producers, in many batches and several segments; the records
            of client_samples (no key, no value, empty, headers with null, not text) and larger ones
  stamped   message.timestamp.type=LogAppendTime
  trimmed   its first records deleted: the log start lies inside of a batch
  empty     nothing was ever written
  doomed    deleted
  changed   (transactions only) committed and aborted transactions
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.conformance.clients.client_samples import CODECS, samples

TIMEOUT_S = 30
GROUPS = ("plain-group", "subscribed-group", "transactional-group", "new-protocol-group")
LARGE_RECORDS = 150
"""Records of each codec beside the samples; with `large_bytes` each they fill more than one segment."""
TOO_EARLY = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""What Apache Kafka answers in the moments after its start."""
T = TypeVar("T")
KEEP = {"retention.ms": "-1"}
"""The samples' timestamps are years old: Kafka's default would remove them a few seconds after the start."""


class Record(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    leader_epoch: int
    timestamp_type: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Served(NamedTuple):
    """All that a broker serves. `partitions` has (log start, log end, records); `offsets` what groups committed."""

    cluster_id: str
    topic_ids: dict[str, uuid.UUID]
    partitions: dict[tuple[str, int], tuple[int, int, list[Record]]]
    offsets: dict[str, dict[int, tuple[int, str | None]]]


def write_load(bootstrap: str, *, segment_bytes: int, large_bytes: int, transactions: bool, new_protocol: bool) -> None:
    """Writes the load. `transactions`: the broker has them; `new_protocol`: it has groups of KIP-848."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic("codecs", len(CODECS), 1, config={"segment.bytes": str(segment_bytes), **KEEP}),
        NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"}),
        NewTopic("trimmed", 1, 1, config=KEEP),
        NewTopic("empty", 2, 1),
        NewTopic("doomed", 1, 1),
        *([NewTopic("changed", 2, 1)] if transactions else []),
    ]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)
    for partition, codec in enumerate(CODECS):
        _write_codec(bootstrap, partition, codec, large_bytes)
    for topic in ("stamped", "trimmed", "doomed"):
        append(bootstrap, topic, 0, [b"%d" % number for number in range(60)], codec="gzip")
    for future in admin.delete_records([TopicPartition("trimmed", 0, 25)]).values():
        future.result(TIMEOUT_S)
    for future in admin.delete_topics(["doomed"]).values():
        future.result(TIMEOUT_S)
    _commit_offsets(bootstrap, new_protocol=new_protocol)
    if transactions:
        _write_transactions(bootstrap)


def _write_codec(bootstrap: str, partition: int, codec: str, large_bytes: int) -> None:
    noise = random.Random(partition)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 50,
            "message.max.bytes": 2_000_000,
        }
    )
    for number, sample in enumerate(samples()):
        producer.produce(
            "codecs",
            partition=partition,
            key=sample.key,
            value=sample.value,
            headers=list(sample.headers),
            timestamp=sample.timestamp_ms,
        )
        if number % 10 == 9:
            _flush(producer)
    for number in range(LARGE_RECORDS):
        producer.produce("codecs", partition=partition, key=b"%d" % number, value=noise.randbytes(large_bytes))
        if number % 20 == 19:
            _flush(producer)
    _flush(producer)


def append(bootstrap: str, topic: str, partition: int, values: list[bytes], *, codec: str = "none") -> None:
    """Appends values through an idempotent producer; returns when all are acknowledged."""
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec})
    for value in values:
        producer.produce(
            topic, partition=partition, value=value, on_delivery=lambda error, _: error and failed.append(error)
        )
    _flush(producer)
    assert not failed, failed


def _write_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "changes"})
    producer.init_transactions(TIMEOUT_S)
    with closing(_consumer(bootstrap, "transactional-group")) as consumer:
        for number in range(4):
            producer.begin_transaction()
            for partition in range(2):
                producer.produce("changed", partition=partition, value=f"{number}-{partition}")
            _flush(producer)
            producer.send_offsets_to_transaction(
                [TopicPartition("codecs", 0, number + 1)], consumer.consumer_group_metadata(), TIMEOUT_S
            )
            if number % 2:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)


def _commit_offsets(bootstrap: str, *, new_protocol: bool) -> None:
    with closing(_consumer(bootstrap, "plain-group")) as consumer:
        for offset in (3, 7):
            offsets = [TopicPartition("codecs", 1, offset, f"at {offset}"), TopicPartition("trimmed", 0, 30)]
            _retried(partial(consumer.commit, offsets=offsets, asynchronous=False))
    _commit_as_subscriber(bootstrap, "subscribed-group")
    if new_protocol:
        _commit_as_subscriber(bootstrap, "new-protocol-group", **{"group.protocol": "consumer"})


def _commit_as_subscriber(bootstrap: str, group: str, **settings: str) -> None:
    with closing(_consumer(bootstrap, group, **settings)) as consumer:
        consumer.subscribe(["codecs"])
        deadline = time.monotonic() + TIMEOUT_S
        seen = 0
        while seen < 50:
            assert time.monotonic() < deadline, f"{group} got {seen} records"
            message = consumer.poll(1)
            seen += message is not None and message.error() is None
        consumer.commit(asynchronous=False)


def wait_for_log_start(logs: Path) -> None:
    """Until the log start of `trimmed` is in its checkpoint: a kill would undo it before."""
    deadline = time.monotonic() + TIMEOUT_S
    while "trimmed 0 25" not in (logs / "log-start-offset-checkpoint").read_text():
        assert time.monotonic() < deadline, "the log start was not checkpointed"
        time.sleep(0.05)


def read_all(bootstrap: str) -> Served:
    """Every topic's records, below the last stable offset, and every group's offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    names = _led_topics(admin)
    described = admin.describe_topics(TopicCollection(names))
    topics = {name: future.result(TIMEOUT_S) for name, future in described.items()}
    partitions = [
        TopicPartition(name, partition.id)
        for name, topic in topics.items()
        for partition in topic.partitions
        if not name.startswith("__")
    ]
    starts, ends = _bounds(admin, partitions, OffsetSpec.earliest()), _bounds(admin, partitions, OffsetSpec.latest())
    with closing(_consumer(bootstrap, "reader", **{"isolation.level": "read_committed"})) as consumer:
        served = {
            (partition.topic, partition.partition): (start, end, list(_read(consumer, partition, start)))
            for partition, start, end in zip(partitions, starts, ends, strict=True)
        }
    ids = {name: uuid.UUID(int=_uuid_bits(topic.topic_id)) for name, topic in topics.items()}
    return Served(cluster.cluster_id, ids, served, {group: _committed(bootstrap, group, topics) for group in GROUPS})


def _led_topics(admin: AdminClient) -> list[str]:
    """All topics, as soon as each partition has a leader: Apache Kafka answers before it has read its metadata."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
        leaders = [partition.leader for topic in topics.values() for partition in topic.partitions.values()]
        if "codecs" in topics and min(leaders) >= 0:
            return sorted(topics)
        assert time.monotonic() < deadline, f"topics without a leader among {topics}"
        time.sleep(0.05)


def _bounds(admin: AdminClient, partitions: list[TopicPartition], wanted: OffsetSpec) -> list[int]:
    """The first or last offset of each partition."""

    def ask() -> list[int]:
        asked = admin.list_offsets(dict.fromkeys(partitions, wanted))
        return [asked[partition].result(TIMEOUT_S).offset for partition in partitions]

    return _retried(ask)


def _retried(call: Callable[[], T]) -> T:
    """What `call` returns once the broker, just started, leads and coordinates what metadata says it does."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as refused:
            if time.monotonic() > deadline or refused.args[0].code() not in TOO_EARLY:
                raise
        time.sleep(0.1)


def _uuid_bits(topic_id: Any) -> int:
    mask = (1 << 64) - 1
    return (topic_id.get_most_significant_bits() & mask) << 64 | topic_id.get_least_significant_bits() & mask


def _read(consumer: Consumer, partition: TopicPartition, start: int) -> Iterator[Record]:
    consumer.assign([TopicPartition(partition.topic, partition.partition, start)])
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing came of {partition} for {TIMEOUT_S} s"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return
        timestamp_type, timestamp_ms = message.timestamp()
        yield Record(
            message.offset(),
            message.leader_epoch(),
            timestamp_type,
            timestamp_ms,
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )


def _committed(bootstrap: str, group: str, topics: dict[str, Any]) -> dict[int, tuple[int, str | None]]:
    """The group's offsets in `codecs`, by partition, with their metadata."""
    asked = [TopicPartition("codecs", partition.id) for partition in topics["codecs"].partitions]
    with closing(_consumer(bootstrap, group)) as consumer:
        return {
            one.partition: (one.offset, one.metadata)
            for one in _retried(partial(consumer.committed, asked, TIMEOUT_S))
            if one.offset != OFFSET_INVALID
        }


def _consumer(bootstrap: str, group: str, **settings: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **settings,
        }
    )


def _flush(producer: Producer) -> None:
    assert producer.flush(TIMEOUT_S) == 0
