"""The sink as Spark drives it: batch jobs, streams, what they refuse, and what Spark tells a task."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from kavka.client.partitioner import partition_for_key
from kavka.errors import ConfigError
from kavka_spark import session, stable
from kavka_spark.sink_options import DEFAULT_MARKER_TOPIC
from kavka_spark.stable import TASK_BITS
from kavka_spark.writer import BATCH_ID, QUERY_ID
from tests.integration.documentation.page import PROJECT, shown
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL
from tests.kit.topic_contents import contents, create

ROWS = 20_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session(
        "sink",
        **{**SMALL, "spark.master": "local[2]"},
    )
    yield found
    found.stop()


def numbers(spark: SparkSession, rows: int = ROWS, tasks: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, tasks).selectExpr("CAST(id % 100 AS STRING) AS key", "CAST(id AS STRING) AS value")


def stream(frame: DataFrame, broker: KavkaProcess, topic: str, checkpoint: Path, **options: str) -> None:
    """Runs until there is nothing new."""
    writer = frame.writeStream.format("kavka").option("kafka.bootstrap.servers", broker.bootstrap)
    query = (
        writer.option("topic", topic)
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    if query.exception() is not None:
        raise query.exception()


def test_a_table_becomes_records(spark: SparkSession, kavka_broker: KavkaProcess) -> None:
    create(kavka_broker.bootstrap, "table", 3)
    writer = numbers(spark).withColumn("unasked", F.lit(1)).write.format("kavka").mode("append")
    writer.option("kafka.bootstrap.servers", kavka_broker.bootstrap).option("topic", "table").option(
        "kafka.compression.type", "lz4"
    ).save()
    records = contents(kavka_broker.bootstrap, "table")
    assert sorted(int(record.value or b"") for record in records) == list(range(ROWS))
    assert all(record.partition == partition_for_key(record.key or b"", 3) for record in records)


def test_what_does_not_fit_is_said_before_anything_runs(spark: SparkSession, kavka_broker: KavkaProcess) -> None:
    frame = numbers(spark, 10)

    def refusal(frame: DataFrame, mode: str = "append", **options: str) -> str:
        with pytest.raises(PySparkException) as caught:
            frame.write.format("kavka").mode(mode).options(
                **{"kafka.bootstrap.servers": kavka_broker.bootstrap, **options}
            ).save()
        return str(caught.value)

    assert "did you mean 'topic'?" in refusal(frame, topics="t")
    assert "set option 'topic', or add a column 'topic'" in refusal(frame)
    assert "CAST(value AS STRING) AS value" in refusal(frame.selectExpr("CAST(value AS INT) AS value"), topic="t")
    assert "did you mean 'Value'?" in refusal(frame.withColumnRenamed("value", "Value"), topic="t")
    assert "exactlyOnceId" in refusal(frame, topic="t", exactlyOnce="true")
    once = {"topic": "t", "exactlyOnce": "true", "exactlyOnceId": "unplaced"}
    assert "stable(df, 4) in place of df" in refusal(frame, **once)
    assert "records stay" in refusal(frame, mode="overwrite", topic="t")


def test_a_job_that_is_run_again_with_its_id_writes_nothing_new(
    spark: SparkSession, kavka_broker: KavkaProcess
) -> None:
    create(kavka_broker.bootstrap, "load", 2)
    for tasks in (2, 5):
        stable(numbers(spark, tasks=tasks), 3).write.format("kavka").mode("append").options(
            **{
                "kafka.bootstrap.servers": kavka_broker.bootstrap,
                "topic": "load",
                "exactlyOnce": "true",
                "exactlyOnceId": "numbers-of-today",
            }
        ).save()
    records = contents(kavka_broker.bootstrap, "load")
    assert sorted(int(record.value or b"") for record in records) == list(range(ROWS))


def test_a_stream_is_written_once_though_its_last_batch_is_repeated(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    """Spark repeats a batch of which it does not know that it was done: here because its entry was taken away."""
    create(kavka_broker.bootstrap, "once", 3)
    create(kavka_broker.bootstrap, "often", 3)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    for batch in range(2):
        spark.range(batch * 1000, (batch + 1) * 1000).selectExpr("CAST(id AS STRING) AS value").write.mode(
            "append"
        ).parquet(str(source))
        frame = spark.readStream.schema("value string").parquet(str(source))
        for topic, options in (("once", {"exactlyOnce": "true"}), ("often", {})):
            for _ in range(2 if topic == "once" and batch == 1 else 1):  # Each run repeats the last one's last batch.
                rows = stable(frame, 2) if options else frame
                stream(rows, kavka_broker, topic, checkpoint / topic, **options)
                (checkpoint / topic / "commits" / str(batch)).unlink()
                (checkpoint / topic / "commits" / f".{batch}.crc").unlink(missing_ok=True)
    once = contents(kavka_broker.bootstrap, "once")
    assert sorted(int(record.value or b"") for record in once) == list(range(2000))
    assert len(contents(kavka_broker.bootstrap, "often")) == 3000
    markers = contents(kavka_broker.bootstrap, DEFAULT_MARKER_TOPIC)
    assert any(b'"batch": 1' in (record.value or b"") for record in markers)


@pytest.mark.thorough
def test_changed_counts_of_an_aggregation_are_written_once_by_foreach_batch(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    """By the block of docs/spark.md: Spark's own sink takes outputMode("update"), one in Python is not given it."""
    create(kavka_broker.bootstrap, "counts", 1)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    servers = {"kafka.bootstrap.servers": kavka_broker.bootstrap}
    text = shown(PROJECT / "docs" / "spark.md", "def write(rows, batch):").replace(
        "checkpoints/counts", str(checkpoint)
    )

    def write_counts(keys: list[str]) -> None:
        spark.createDataFrame([(key,) for key in keys], "key string").write.mode("append").parquet(str(source))
        counts = spark.readStream.schema("key string").parquet(str(source)).groupBy("key").count()
        counts = counts.select("key", F.col("count").cast("string").alias("value"))
        exec(text, {"stable": stable, "servers": servers, "counts": counts})
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        refused = counts.writeStream.outputMode("update").format("kavka").options(**servers, topic="counts")
        with pytest.raises(PySparkException, match=r"(?i)update"):
            refused.option("checkpointLocation", str(tmp_path / "refused")).start().awaitTermination()

    write_counts(["a", "b", "a"])
    for entry in (checkpoint / "commits").glob("*0*"):
        entry.unlink()  # Spark does not know that the batch was done, and repeats it.
    write_counts(["a", "c"])
    found = [(record.key, record.value) for record in contents(kavka_broker.bootstrap, "counts")]
    assert sorted(found) == [(b"a", b"2"), (b"a", b"3"), (b"b", b"1"), (b"c", b"1")]


def test_stable_puts_rows_into_the_tasks_that_it_names(spark: SparkSession) -> None:
    """Whatever tasks they come from; rows of one key into one task, and rows without a key by their value."""

    def placed(tasks: int) -> list:
        keys = F.when(F.col("id") % 3 > 0, F.col("id") % 7).cast("string")
        frame = spark.range(0, 1000, 1, tasks).select(keys.alias("key"), F.col("id").cast("string").alias("value"))
        found = stable(frame, 5).withColumn("ran_in", F.spark_partition_id())
        return sorted(found.collect(), key=lambda row: int(row.value))

    rows = placed(1)
    assert rows == placed(8)
    assert all(row.kavka_task == 5 << TASK_BITS | row.ran_in for row in rows)
    assert {row.ran_in for row in rows if row.key is None} == set(range(5))
    assert all(len({row.ran_in for row in rows if row.key == key}) == 1 for key in map(str, range(7)))
    by_parity = stable(spark.range(100).withColumn("parity", F.col("id") % 2), 5, "parity")
    assert by_parity.select("parity", "kavka_task").distinct().count() == 2
    with pytest.raises(ConfigError, match="expected 1 to 1000 tasks"):
        stable(spark.range(1), 0)
    with pytest.raises(ConfigError, match="needs a column 'value'"):
        stable(spark.range(1), 1)


class Told(WriterCommitMessage):
    def __init__(self, query: str | None, batch: str | None) -> None:
        self.query = query
        self.batch = batch


class TellingSink(DataSource):
    """Writes down what Spark tells its tasks."""

    @classmethod
    def name(cls) -> str:
        return "telling"

    def streamWriter(self, schema: object, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802  # Spark's
        return TellingWriter(Path(self.options["into"]))


class TellingWriter(DataSourceStreamArrowWriter):
    def __init__(self, into: Path) -> None:
        self._into = into

    def write(self, iterator: object) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return Told(context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID))

    def commit(self, messages: list, batchId: int) -> None:  # noqa: N803  # Spark's
        told = messages[0]
        (self._into / str(batchId)).write_text(f"{told.query} {told.batch}")


def test_spark_tells_its_tasks_the_query_and_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The names are internal to Spark: where a version has others, exactly once cannot be had of it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers have no tests to import.
    spark.dataSource.register(TellingSink)
    source, told = tmp_path / "in", tmp_path / "told"
    told.mkdir()
    ids = []
    for batch in range(2):
        spark.range(10).selectExpr("CAST(id AS STRING) AS value").write.mode("append").parquet(str(source))
        query = (
            spark.readStream.schema("value string")
            .parquet(str(source))
            .writeStream.format("telling")
            .option("into", str(told))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        ids.append(query.id)
        assert (told / str(batch)).read_text() == f"{query.id} {batch}"
    assert ids[0] == ids[1]
