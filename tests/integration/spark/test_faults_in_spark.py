"""What goes wrong under a query that runs, and what Spark's user is then told: topic, partition, offsets, what to do.

test_source_tasks.py has the same without Spark, in more variants; here it passes through Spark's own processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kavka_spark import session
from tests.kit import busy_spark
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL
from tests.kit.topic_filler import create_topic, produce

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session("faults", **{**SMALL, "spark.master": "local[2]"})
    yield found
    found.stop()


def running(spark: SparkSession, bootstrap: str, topic: str, directory: Path, **options: str) -> StreamingQuery:
    """A query that goes on: the topic's rows into Parquet."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return (
        spark.readStream.format("kavka")
        .options(**given)
        .load()
        .writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )


def going_on(spark: SparkSession, bootstrap: str, topic: str, directory: Path, **options: str) -> StreamingQuery:
    """The same, when it has read something."""
    return busy_spark.running(lambda: running(spark, bootstrap, topic, directory, **options))


def wait_for(query: StreamingQuery, rows: int) -> None:
    deadline = time.monotonic() + 100
    while sum(progress.numInputRows for progress in query.recentProgress) < rows:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.05)


def failure_of(query: StreamingQuery) -> str:
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(100)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxOffsetPerTrigger": "1"}, "has no option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'?"),
        ({"subscribe": "nowhere"}, "SubscriptionError: there is no topic 'nowhere'"),
        ({"startingOffsets": "first"}, "option 'startingOffsets' is 'first', expected"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_without_a_traceback(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    given = {"kafka.bootstrap.servers": kavka_broker.bootstrap, "subscribe": "mistaken", **options}
    said = [busy_spark.failure(lambda: running(spark, kavka_broker.bootstrap, "mistaken", tmp_path, **options))]
    if "maxOffsetPerTrigger" not in options:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("kavka").options(**given).load().count()
        said.append(str(caught.value))
    for each in said:
        assert sentence in each
        assert "Traceback" not in each


def test_a_corrupt_batch_ends_the_query_with_its_place(
    spark: SparkSession, start_kavka: Callable[..., KavkaProcess], tmp_path: Path
) -> None:
    broker = start_kavka(data_dir=tmp_path / "data")
    create_topic(broker.bootstrap, "rotten", 1)
    for rows in (10, 10, 1):  # A single record is one batch, however busy the machine is.
        produce(broker.bootstrap, "rotten", rows, partitions=1)
    (segment,) = (tmp_path / "data").rglob("rotten-0/*.log")
    with segment.open("r+b") as file:
        file.seek(-5, 2)
        file.write(b"\xff")
    said = busy_spark.failure(lambda: running(spark, broker.bootstrap, "rotten", tmp_path))
    assert "corrupt record batch in rotten-0 at offset 20" in said
    assert "Traceback" not in said
    assert "read on behind it with startingOffsets" in said


def test_records_that_age_out_while_the_query_runs_are_named(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create_topic(kavka_broker.bootstrap, "ageing", 1)
    produce(kavka_broker.bootstrap, "ageing", 5_000, partitions=1)
    query = going_on(spark, kavka_broker.bootstrap, "ageing", tmp_path, maxOffsetsPerTrigger="10")
    wait_for(query, 20)
    admin = AdminClient({"bootstrap.servers": kavka_broker.bootstrap})
    for done in admin.delete_records([Position("ageing", 0, 4_900)]).values():
        done.result(30)
    said = failure_of(query)
    assert "ageing-0: offset " in said
    assert "the log holds 4900 to before 5000: retention or a deletion of records has removed it" in said
    assert "failOnDataLoss=false" in said


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_topic_that_is_deleted_under_the_query_is_named(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path, made_anew: bool
) -> None:
    topic = f"deleted-{made_anew}"
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    query = going_on(spark, kavka_broker.bootstrap, topic, tmp_path)
    wait_for(query, 20)
    admin = AdminClient({"bootstrap.servers": kavka_broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    if made_anew:
        create_topic(kavka_broker.bootstrap, topic, 1)
        produce(kavka_broker.bootstrap, topic, 50, partitions=1)
    said = failure_of(query)
    assert f"{topic}-0: offset 20 is wanted" in said
    assert "was deleted" in said or "deleted and made anew" in said


def test_partitions_that_are_added_while_the_query_runs_are_read_from_their_beginning(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create_topic(kavka_broker.bootstrap, "grown", 1)
    produce(kavka_broker.bootstrap, "grown", 100, partitions=1)
    query = going_on(spark, kavka_broker.bootstrap, "grown", tmp_path)
    wait_for(query, 100)
    admin = AdminClient({"bootstrap.servers": kavka_broker.bootstrap})
    admin.create_partitions([NewPartitions("grown", 3)])["grown"].result(30)
    produce(kavka_broker.bootstrap, "grown", 300, partitions=3)
    wait_for(query, 400)
    query.stop()
    rows = spark.read.parquet(str(tmp_path / "rows"))
    found = {row.partition: row["count"] for row in rows.groupBy("partition").count().collect()}
    assert found == {0: 200, 1: 100, 2: 100}
    assert rows.select("partition", "offset").distinct().count() == 400


def test_a_schema_that_does_not_fit_is_told_with_what_to_do(spark: SparkSession, kavka_broker: KavkaProcess) -> None:
    create_topic(kavka_broker.bootstrap, "typed", 1)
    reader = spark.read.format("kavka").option("kafka.bootstrap.servers", kavka_broker.bootstrap)
    with pytest.raises(PySparkException, match="column 'value' is binary, not int: read it as it is, and cast it"):
        reader.schema("value int").option("subscribe", "typed").load().count()
    with pytest.raises(PySparkException, match="there is no column 'amount'; kavka has key, value"):
        reader.schema("amount int").option("subscribe", "typed").load().count()
