"""`format("kavka-log")` on the logs that brokers write: kavka's and Apache Kafka's, the rows that a consumer reads.

The reader's tasks are run without Spark; test_fsck.py runs them in Spark.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kavka_spark.log_format import KavkaLogReader, log_options
from kavka_spark.pipelines.replica_directories import broker_of, replicas_in
from tests.apache_kafka import ApacheKafka
from tests.kit.kavka_process import KavkaProcess
from tests.kit.topic_filler import create_topic, fill_with_everything, fill_with_transactions

Row = tuple[Any, ...]
SEGMENT_BYTES = "16384"
"""So that every topic has several segments, and transactions go over their ends."""


def filled(bootstrap: str, topic: str) -> str:
    create_topic(bootstrap, topic, 2, {"segment.bytes": SEGMENT_BYTES})
    fill_with_everything(bootstrap, topic, rows=200)
    fill_with_transactions(bootstrap, topic)
    return topic


def consumed(bootstrap: str, topic: str, isolation: str) -> set[Row]:
    """(partition, offset, timestamp in ms, key, value, headers) of every record, as another client reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    rows: set[Row] = set()
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < 2 and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            if message.error() is not None:
                ended.add(message.partition())
                continue
            headers = tuple(message.headers() or ())
            stamp = message.timestamp()[1]
            rows.add((message.partition(), message.offset(), stamp, message.key(), message.value(), headers))
    consumer.close()
    assert len(ended) == 2
    return rows


def logged(directory: Path, topic: str, **options: str) -> list[dict[str, Any]]:
    columns = ("partition", "offset", "timestamp", "key", "value", "headers", "aborted", "crc_ok", "file")
    reader = KavkaLogReader(log_options({"path": str(directory), "topics": topic, **options}), columns)
    return [row for task in reader.partitions() for table in reader.read(task) for row in table.to_pylist()]


def as_consumed(row: dict[str, Any]) -> Row:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    stamp = round(row["timestamp"].timestamp() * 1000)
    return (row["partition"], row["offset"], stamp, row["key"], row["value"], headers)


def compare(bootstrap: str, directory: Path, topic: str) -> None:
    rows = logged(directory, topic)
    assert all(row["crc_ok"] for row in rows)
    assert len({row["file"] for row in rows}) > 4
    everything, committed = (consumed(bootstrap, topic, level) for level in ("read_uncommitted", "read_committed"))
    assert len(everything) > len(committed) > 1000
    assert sorted(map(as_consumed, rows), key=str) == sorted(everything, key=str)
    assert {as_consumed(row) for row in rows if not row["aborted"]} == committed
    sealed = {row["file"] for row in logged(directory, topic, sealedOnly="true")}
    active = {row["file"] for row in rows} - sealed
    assert len(active) == 2
    has_nothing_to_complain_of(directory, topic)


def has_nothing_to_complain_of(directory: Path, topic: str) -> None:
    """What fsck starts from: the brokers' own files beside the logs, and a row for each batch."""
    assert broker_of(str(directory)).isdigit()
    replicas = list(replicas_in("1", str(directory), [topic]))
    assert [replica.partition for replica in replicas] == [0, 1]
    assert all(replica.log_start_offset == 0 < replica.last_segment for replica in replicas)
    columns = ("problem", "record_count", "control", "marker", "active")
    reader = KavkaLogReader(log_options({"path": str(directory), "topics": topic, "rows": "batches"}), columns)
    rows = [row for task in reader.partitions() for table in reader.read(task) for row in table.to_pylist()]
    assert {row["problem"] for row in rows if not row["active"]} == {None}
    assert {row["marker"] for row in rows} == {None, "commit", "abort"}
    assert all((row["marker"] is not None) == bool(row["control"]) for row in rows)


def test_the_logs_of_kavka_hold_what_a_consumer_reads(kavka_broker: KavkaProcess) -> None:
    topic = filled(kavka_broker.bootstrap, "log-of-kavka")
    compare(kavka_broker.bootstrap, log_home(kavka_broker.data_dir, topic), topic)


@pytest.mark.kafka
def test_the_logs_of_apache_kafka_hold_what_a_consumer_reads(apache_kafka: ApacheKafka) -> None:
    topic = filled(apache_kafka.bootstrap, "log-of-kafka")
    compare(apache_kafka.bootstrap, log_home(apache_kafka.data_dir, topic), topic)


def log_home(directory: Path, topic: str) -> Path:
    """The log directory under `directory` that holds the topic."""
    (partition,) = directory.rglob(f"{topic}-0")
    return partition.parent
