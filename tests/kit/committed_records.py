"""What librdkafka's consumer reads of a topic under read_committed: for tests whose writers are other people's."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S: Final = 60.0


class CommittedRecord(NamedTuple):
    """A record, and where it lies. `timestamp_ms` is that of the topic's kind."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def committed_records(bootstrap: str, topic: str) -> list[CommittedRecord]:
    """All that is committed now, by partition, in the order of each; empty where there is no such topic."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S)
    if topic not in metadata.topics:
        return []
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 50,
    }
    found: list[CommittedRecord] = []
    left = set(metadata.topics[topic].partitions)
    deadline = time.monotonic() + TIMEOUT_S
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        while left:
            message = consumer.poll(1.0)
            assert time.monotonic() < deadline, f"{topic} is not read to its end in {TIMEOUT_S} s"
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
    return sorted(found, key=lambda record: record.partition)


def _record(message: Message) -> CommittedRecord:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    _, timestamp_ms = message.timestamp()
    headers = tuple(message.headers() or ())
    return CommittedRecord(partition, offset, message.key(), message.value(), headers, timestamp_ms)
