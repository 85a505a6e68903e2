"""fsck over the logs of a cluster: nothing on healthy ones, and each kind of damage by its name and place.

And Spark's own look at the format that it reads by.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kavka.errors import ConfigError, InconsistentMetadata
from kavka.log.decide.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    META_PROPERTIES,
    format_offsets,
    parse_offsets,
)
from kavka.model import TopicPartition
from kavka.records.batch import HEADER_SIZE, RecordBatch, iterate_batches, read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.testing import Cluster
from kavka_spark import session
from kavka_spark.pipelines.fsck import fsck
from tests.kit.spark_job import SMALL

pytestmark = pytest.mark.timeout(400)  # the first Spark job of a session takes minutes on a machine with other work
BROKERS = (1, 2, 3)
TOPICS = ("orders", "prices")
PARTITIONS = 12


class Finding(NamedTuple):
    severity: str
    kind: str
    broker: str
    offset: int | None
    batches: int


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session(
        "fsck",
        **{**SMALL, "spark.master": "local[2]", "spark.ui.showConsoleProgress": "false"},
    )
    yield found
    found.stop()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three brokers leave that stopped in order: segments, epochs, transactions, codecs, a compacted topic."""
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(brokers=3, directory=directory, settings={"log.cleaner.backoff.ms": 100}) as cluster:
        cluster.create_topic("orders", PARTITIONS, settings={"segment.bytes": 8_000})
        compacted = {"segment.bytes": 4_000, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
        cluster.create_topic("prices", 2, settings=compacted)
        fill(cluster, 1)
        for broker in BROKERS:
            cluster.kill(broker)
            for partition in range(PARTITIONS):
                cluster.wait_for_leader("orders", partition)
            fill(cluster, 2)
            cluster.start(broker)
            cluster.wait_in_sync()
        transaction(cluster, commit=True)
        transaction(cluster, commit=False)
        cluster.wait_in_sync()
        # A follower in sync may still lack what came last.
        cluster.wait_until(
            lambda: all(
                len({cluster.log_end_offset(broker, topic, partition) for broker in BROKERS}) == 1
                for topic, count in (("orders", PARTITIONS), ("prices", 2))
                for partition in range(count)
            )
        )
        cluster.wait_until(
            lambda: all((log_directory(directory, broker) / CLEANER_OFFSET_CHECKPOINT).exists() for broker in BROKERS)
        )
    return directory


def fill(cluster: Cluster, generation: int) -> None:
    for codec in ("none", "zstd"):
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "batch.num.messages": 10}
        )
        for number in range(50):
            for partition in range(PARTITIONS):
                producer.produce("orders", b"%d-%d" % (generation, number) + bytes(100), partition=partition)
            producer.produce("prices", bytes(60), key=b"%d" % (number % 7))
        assert producer.flush(30) == 0


def transaction(cluster: Cluster, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"t-{commit}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(5 * PARTITIONS):
        producer.produce("orders", b"in a transaction %d" % number, partition=number % PARTITIONS)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.flush(30)
        producer.abort_transaction(30)
    # Its markers may still be on their way. Who begins anew under its id waits for them.
    Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"t-{commit}"}).init_transactions(30)


def log_directory(cluster: Path, broker: int) -> Path:
    """Where a broker of `cluster` keeps its logs."""
    (properties,) = [path for path in cluster.rglob(META_PROPERTIES) if f"broker.id={broker}\n" in path.read_text()]
    return properties.parent


class Replica:
    """A partition's replica in a copied log directory, to be damaged."""

    def __init__(self, directory: Path, broker: int, partition: int) -> None:
        self.log_directory = directory / str(broker)
        self.path = self.log_directory / f"orders-{partition}"
        self.key = TopicPartition("orders", partition)

    @property
    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.log"))

    def batches(self, segment: int) -> list[RecordBatch]:
        return list(iterate_batches(memoryview(self.segments[segment].read_bytes())))

    def write(self, segment: int, stored: list[bytes]) -> None:
        self.segments[segment].write_bytes(b"".join(stored))

    def set_high_watermark(self, offset: int | None) -> None:
        checkpoint = self.log_directory / HIGH_WATERMARK_CHECKPOINT
        offsets = parse_offsets(checkpoint.read_bytes())
        del offsets[self.key]
        checkpoint.write_bytes(format_offsets(offsets if offset is None else {**offsets, self.key: offset}))


def stored(batches: list[RecordBatch]) -> list[bytes]:
    return [bytes(batch.view) for batch in batches]


def nothing(_: Path, __: int) -> set[Finding]:
    return set()


def flipped_bit(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 2, partition)
    batches = replica.batches(1)
    data = stored(batches)
    data[3] = data[3][:80] + bytes([data[3][80] ^ 4]) + data[3][81:]
    replica.write(1, data)
    return {Finding("error", "crc", "2", batches[3].header.base_offset, 1)}


def half_a_batch_more(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 3, partition)
    replica.write(-1, [*stored(replica.batches(-1)), stored(replica.batches(0))[0][:-7]])
    return {Finding("warning", "torn tail", "3", None, 1)}


def torn_below_the_high_watermark(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 1, partition)
    batches = replica.batches(-1)
    replica.write(-1, [*stored(batches)[:-1], stored(batches)[-1][:-3]])
    replica.set_high_watermark(batches[-1].header.last_offset + 1)  # Its checkpoint may be older.
    return {
        Finding("warning", "torn tail", "1", None, 1),
        Finding("error", "short", "1", batches[-1].header.base_offset, 0),
    }


def cut_at_a_batch(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 1, partition)
    batches = replica.batches(-1)
    replica.write(-1, stored(batches)[:-1])
    replica.set_high_watermark(batches[-1].header.last_offset + 1)  # Its checkpoint may be older.
    return {Finding("error", "short", "1", batches[-1].header.base_offset, 0)}


def out_of_sync(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 2, partition)
    batches = replica.batches(-1)
    replica.write(-1, stored(batches)[:-1])
    replica.set_high_watermark(batches[-1].header.base_offset)
    return {Finding("note", "behind", "2", batches[-1].header.base_offset, 0)}


def lost_batch(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 3, partition)
    batches = replica.batches(0)
    replica.write(0, stored(batches)[:4] + stored(batches)[5:])
    return {Finding("error", "gap", "3", batches[4].header.base_offset, 1)}


def other_records(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 2, partition)
    batches = replica.batches(1)
    data = stored(batches)
    replica.write(1, [*data[:2], with_other_records(data[2]), with_other_records(data[3]), *data[4:]])
    return {Finding("error", "divergence", "2", batches[2].header.base_offset, 2)}


def with_other_records(batch: bytes) -> bytes:
    header = read_header(batch)
    builder = BatchBuilder()
    for _ in range(header.record_count):
        builder.append(header.base_timestamp, None, b"never written")
    made = builder.build(base_offset=header.base_offset)
    return seal(read_header(made)._replace(partition_leader_epoch=header.partition_leader_epoch), made[HEADER_SIZE:])


def epoch_that_falls(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 1, partition)
    batches = replica.batches(-1)
    assert batches[-2].header.partition_leader_epoch > 0
    data = stored(batches)
    data[-2] = data[-2][:12] + (0).to_bytes(4, "big") + data[-2][16:]  # which no CRC covers
    replica.write(-1, data)
    offset = batches[-2].header.base_offset
    return {Finding("error", "epoch", "1", offset, 1), Finding("error", "divergence", "1", offset, 1)}


def rubbish_in_a_sealed_segment(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 2, partition)
    batches = replica.batches(0)
    replica.write(0, [*stored(batches)[:3], b"\x07" * 500])
    return {
        Finding("error", "damage", "2", None, 1),
        Finding("error", "gap", "2", batches[3].header.base_offset, 1),
    }


def two_that_contradict_each_other(directory: Path, partition: int) -> set[Finding]:
    shutil.rmtree(Replica(directory, 3, partition).path)
    replica = Replica(directory, 2, partition)
    data = stored(replica.batches(1))
    replica.write(1, [with_other_records(data[0]), *data[1:]])
    offset = read_header(data[0]).base_offset
    return {Finding("error", "divergence", "1", offset, 1), Finding("error", "divergence", "2", offset, 1)}


def no_checkpoint(directory: Path, partition: int) -> set[Finding]:
    replica = Replica(directory, 1, partition)
    replica.set_high_watermark(None)
    end = replica.batches(-1)[-1].header.last_offset + 1
    return {Finding("note", "no high watermark", "1", end, 0)}


DAMAGES = (
    nothing,
    flipped_bit,
    half_a_batch_more,
    torn_below_the_high_watermark,
    cut_at_a_batch,
    out_of_sync,
    lost_batch,
    other_records,
    epoch_that_falls,
    rubbish_in_a_sealed_segment,
    two_that_contradict_each_other,
    no_checkpoint,
)
"""One for each partition of orders."""


class Outcome(NamedTuple):
    expected: dict[int, set[Finding]]
    found: dict[int, set[Finding]]
    """Of orders."""
    elsewhere: set[Finding]


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, healthy: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All damages at once, looked at by one job: a job under load takes many seconds."""
    copies = tmp_path_factory.mktemp("copies")
    for broker in BROKERS:
        shutil.copytree(log_directory(healthy, broker), copies / str(broker))
    expected = {partition: damage(copies, partition) for partition, damage in enumerate(DAMAGES)}
    rows = fsck(spark, [str(copies / str(broker)) for broker in BROKERS], topics=TOPICS).collect()
    assert [row.severity for row in rows] == sorted(
        (row.severity for row in rows), key=("error", "warning", "note").index
    )
    found: dict[int, set[Finding]] = {partition: set() for partition in expected}
    elsewhere = set()
    for row in rows:
        finding = Finding(row.severity, row.kind, row.broker, row.offset, row.batches)
        (found[row.partition] if row.topic == "orders" else elsewhere).add(finding)
    return Outcome(expected, found, elsewhere)


def test_spark_finds_the_format_and_takes_its_columns(spark: SparkSession, healthy: Path) -> None:
    home = log_directory(healthy, 1)
    stored = [
        batch.header for path in home.glob("orders-*/*.log") for batch in iterate_batches(memoryview(path.read_bytes()))
    ]
    records = sum(header.record_count for header in stored if not header.is_control)
    reader = spark.read.format("kavka-log").option("topics", "orders")
    counts = ("count(*)", "count(DISTINCT partition, offset)", "min(crc_ok)", "max(position) > 0")
    assert tuple(reader.load(str(home)).selectExpr(*counts).first()) == (records, records, True, True)
    by_batch = reader.option("rows", "batches").load(str(home))
    assert by_batch.selectExpr("count(*)", "count(problem)", "count(marker)").first() == (
        len(stored),
        0,
        sum(header.is_control for header in stored),
    )
    asked = spark.read.format("kavka-log").schema("value binary, offset bigint").option("topics", "orders")
    assert asked.load(str(home)).columns == ["value", "offset"]
    assert asked.load(str(home)).where("startswith(value, X'312D3700')").count() == 2 * PARTITIONS


def test_filters_choose_the_files_that_are_opened(spark: SparkSession, healthy: Path, tmp_path: Path) -> None:
    """What they leave out is rubbish here, at which a query that opened it would fail."""
    copy = Path(shutil.copytree(log_directory(healthy, 1), tmp_path / "copy"))
    later = sorted((copy / "orders-0").glob("*.log"))[1]
    for path in (later, *copy.glob("orders-[1-9]*/*.log"), *copy.glob("prices-*/*.log")):
        path.write_bytes(b"rubbish" * 100)
    rows = spark.read.format("kavka-log").option("columns", "topic,partition,offset,file").load(str(copy))
    before = int(later.stem)
    wanted = rows.where(f"topic = 'orders' AND partition IN (0, 99) AND offset < {before}")
    assert sorted(row.offset for row in wanted.collect()) == list(range(before))
    assert rows.where(f"file = '{copy}/orders-0/{0:020d}.log'").count() == before
    with pytest.raises(PySparkException, match="corrupt record batch"):
        rows.where("topic = 'prices'").count()


def test_healthy_logs_have_no_findings(spark: SparkSession, healthy: Path) -> None:
    directories = [str(log_directory(healthy, broker)) for broker in BROKERS]
    by_topic: dict[str, set[str]] = {}
    for row in fsck(spark, directories).collect():
        by_topic.setdefault(row.topic, set()).add(row.kind)
    # Brokers write down why they stop when the others have stopped before them.
    assert all(kinds == {"behind"} and topic.startswith("__") for topic, kinds in by_topic.items())
    replica = Replica(healthy, 0, 0)
    replica.path = log_directory(healthy, 1) / "orders-0"
    assert len(replica.segments) > 2
    epochs = {batch.header.partition_leader_epoch for segment in range(3) for batch in replica.batches(segment)}
    assert len(epochs) > 1


@pytest.mark.parametrize("partition", range(PARTITIONS), ids=[damage.__name__ for damage in DAMAGES])
def test_each_damage_is_found_for_what_it_is_and_nothing_else(outcome: Outcome, partition: int) -> None:
    assert outcome.found[partition] == outcome.expected[partition]


def test_a_compacted_topic_has_no_findings_where_brokers_compacted_by_themselves(outcome: Outcome) -> None:
    assert outcome.elsewhere == set()


def test_what_is_no_log_directory_is_refused_before_any_job(healthy: Path, tmp_path: Path) -> None:
    no_spark: SparkSession = None  # type: ignore[assignment]  # nothing asks it
    with pytest.raises(ConfigError, match="is not a directory"):
        fsck(no_spark, [str(tmp_path / "nowhere")])
    (tmp_path / "orders-0").mkdir()
    (tmp_path / HIGH_WATERMARK_CHECKPOINT).write_text("0\n5\norders")
    with pytest.raises(InconsistentMetadata, match=HIGH_WATERMARK_CHECKPOINT):
        fsck(no_spark, [str(tmp_path)])
