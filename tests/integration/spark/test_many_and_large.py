"""What grows: partitions, records, and streams in one session. Each row is there once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from kavka_spark import session, stable
from tests.kit.busy_spark import drained, running
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL
from tests.kit.topic_contents import contents, create

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]

MANY, OF_EACH = 200, 100
LARGE_BYTES, LARGE, LARGE_PARTITIONS = 5_000_000, 16, 8
STREAMS, OF_A_STREAM = 10, 300


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session("large", **{**SMALL, "spark.master": "local[2]", "spark.driver.memory": "1g"})
    yield found
    found.stop()


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format("kavka").options(**given).load()


def copier(rows: DataFrame, bootstrap: str, topic: str, checkpoint: Path, **options: str) -> DataStreamWriter:
    """Copies the rows, each once; `start` it as often as it takes."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "exactlyOnce": "true", **options}
    return rows.writeStream.format("kavka").options(**given).option("checkpointLocation", str(checkpoint))


def test_200_partitions_are_read_by_few_tasks_and_written_once(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    broker = kavka_broker.bootstrap
    create(broker, "many", MANY)
    create(broker, "many-copied", MANY)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(MANY * OF_EACH):
        producer.produce("many", b"%d" % number, partition=number % MANY)
        producer.poll(0)
    producer.flush()
    table = spark.read.format("kavka").options(**{"kafka.bootstrap.servers": broker, "subscribe": "many"}).load()
    assert table.select("partition").distinct().count() == MANY
    assert table.rdd.getNumPartitions() <= MANY * OF_EACH / 1_000
    rows = stable(stream(spark, broker, "many", maxOffsetsPerTrigger="5000").select("key", "value", "partition"), 2)
    drained(copier(rows, broker, "many-copied", tmp_path / "many").trigger(availableNow=True).start)
    found = contents(broker, "many-copied")
    assert sorted(int(record.value or b"") for record in found) == list(range(MANY * OF_EACH))
    assert all(int(record.value or b"") % MANY == record.partition for record in found)


def test_records_of_5_mb_are_read_and_written_by_tasks_of_their_own(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    broker = kavka_broker.bootstrap
    for topic in ("large", "large-copied"):
        create(broker, topic, LARGE_PARTITIONS, configs={"max.message.bytes": "6000000"})
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 6_000_000})
    for number in range(LARGE):
        value = b"%02d" % number + bytes(LARGE_BYTES - 2)
        producer.produce("large", value, partition=number % LARGE_PARTITIONS)
        producer.flush()
    table = spark.read.format("kavka").options(**{"kafka.bootstrap.servers": broker, "subscribe": "large"}).load()
    assert table.rdd.getNumPartitions() == LARGE_PARTITIONS
    assert table.selectExpr("sum(length(value)) AS bytes").collect()[0]["bytes"] == LARGE * LARGE_BYTES
    read = stream(spark, broker, "large", minPartitions=str(LARGE_PARTITIONS), maxBytesPerTrigger="20000000")
    options = {"kafka.max.request.size": "6000000"}
    copies = copier(stable(read.select("key", "value"), 4), broker, "large-copied", tmp_path / "large", **options)
    query = drained(copies.trigger(availableNow=True).start)
    assert max(progress["numInputRows"] for progress in query.recentProgress) <= LARGE_PARTITIONS
    found = [record.value or b"" for record in contents(broker, "large-copied")]
    assert sorted(int(value[:2]) for value in found) == list(range(LARGE))
    assert {len(value) for value in found} == {LARGE_BYTES}


def test_ten_streams_go_on_in_one_session_that_threads_of_their_own_start(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    broker = kavka_broker.bootstrap
    names = [f"stream-{index}" for index in range(STREAMS)]
    one_after_another = Lock()  # Ten Pythons that start at once take each other's time.

    def copied(name: str) -> StreamingQuery:
        with one_after_another:
            of_thread = session()  # Without it Spark does not find a sink in Python here.
            rows = stable(stream(of_thread, broker, name, maxOffsetsPerTrigger="100").select("key", "value"), 2)
            copies = copier(rows, broker, f"{name}-copied", tmp_path / name)
            return running(copies.trigger(processingTime="1 second").start)

    def produce(numbers: range) -> None:
        producer = Producer({"bootstrap.servers": broker})
        for name in names:
            for number in numbers:
                producer.produce(name, b"%d" % number, partition=number % 2)
        producer.flush()

    for name in names:
        create(broker, name, 2)
        create(broker, f"{name}-copied", 1)
    produce(range(OF_A_STREAM))
    with ThreadPoolExecutor(STREAMS) as pool:
        queries = list(pool.map(copied, names))
    produce(range(OF_A_STREAM, 2 * OF_A_STREAM))
    for query in queries:
        query.processAllAvailable()
    assert all(query.isActive for query in queries)
    for query in queries:
        query.stop()
    for name in names:
        found = contents(broker, f"{name}-copied")
        assert sorted(int(record.value or b"") for record in found) == list(range(2 * OF_A_STREAM))
