"""Topics with everything in them that a reader can stumble over: codecs, headers, nulls, transactions, gaps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ids = count()


def create_topic(bootstrap: str, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings or {}))])[name].result(30)


def produce(bootstrap: str, topic: str, rows: int, *, partitions: int, codec: str = "none", size: int = 0) -> None:
    """`rows` records with keys k0... and values v0..., padded to `size`, in turn to `partitions`."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    for number in range(rows):
        value = b"v%d" % number
        while True:
            try:
                producer.produce(topic, value.ljust(size, b"."), b"k%d" % number, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def fill_with_everything(bootstrap: str, topic: str, *, rows: int = 400) -> None:
    """Every codec in turn: nulls, empty values, tombstones, headers (null ones, repeated keys), old timestamps."""
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
        for number in range(rows):
            headers = None
            if number % 3 == 0:
                headers = [("a", b"1"), ("a", None), ("é", b"\x00\xff"), ("empty", b"")]
            value = None if number % 7 == 0 else b"" if number % 7 == 1 else b"%s-%d" % (codec.encode(), number) * 20
            key = None if number % 5 == 0 else b"k%d" % (number % 50)
            partition, timestamp = number % 2, 1_500_000_000_000 + number * 1_001
            producer.produce(topic, value, key, headers=headers, partition=partition, timestamp=timestamp)
        assert producer.flush(60) == 0


def fill_with_transactions(bootstrap: str, topic: str, *, transactions: int = 6, rows: int = 50) -> None:
    """Transactions of two producers, interleaved; every third is aborted, and records of no transaction between."""
    plain = Producer({"bootstrap.servers": bootstrap})
    ids = [f"filler-{next(_ids)}" for _ in range(2)]
    producers = [Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) for name in ids]
    for producer in producers:
        producer.init_transactions(30)
    for turn in range(transactions):
        for producer in producers:
            producer.begin_transaction()
        for number in range(rows):
            for index, producer in enumerate(producers):
                producer.produce(topic, b"t%d-%d-%d" % (turn, index, number), b"k", partition=number % 2)
            if number % 10 == 9:
                for producer in producers:
                    producer.flush(30)
                plain.produce(topic, b"plain-%d-%d" % (turn, number), b"k", partition=number % 2)
                plain.flush(30)
        for index, producer in enumerate(producers):
            if (turn + index) % 3 == 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
    # The last markers may still be on their way. Who begins anew under an id waits for its.
    for name in ids:
        Producer({"bootstrap.servers": bootstrap, "transactional.id": name}).init_transactions(60)


def fill_with_gaps(bootstrap: str, topic: str, *, keys: int = 20, rows: int = 2_000) -> None:
    """The same few keys again and again, and waits until compaction has taken most of them out. The topic is to be
    compacted as soon as can be: see `COMPACTED_SOON`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for number in range(rows):
        producer.produce(topic, b"v%d" % number, b"k%d" % (number % keys), partition=0)
        if number % 100 == 99:
            assert producer.flush(60) == 0
    deadline = time.monotonic() + 90
    while _rows_left(bootstrap, topic) > rows // 2:
        # Only what is behind the active segment is compacted, and only a record that comes later closes it.
        producer.produce(topic, b"last", b"last", partition=0)
        producer.flush(60)
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.5)


COMPACTED_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
"""A topic's settings. The broker's log.cleaner.backoff.ms should be small as well."""


def _rows_left(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "filler", "enable.partition.eof": "true"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        left = 0
        while True:
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                return left
            left += 1
    finally:
        consumer.close()
