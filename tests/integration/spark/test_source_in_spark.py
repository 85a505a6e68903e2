"""The source as Spark drives it: tables with filters and columns, streams over restarts, what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import session
from kavka_spark.lag import Lag, LagListener
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL
from tests.kit.topic_contents import contents
from tests.kit.topic_filler import CODECS, create_topic, fill_with_everything, produce

EVERYTHING = 400 * len(CODECS)
pytestmark = pytest.mark.timeout(300)  # A busy machine takes long to start a JVM and its workers.


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session(
        "source",
        **{
            **SMALL,
            "spark.master": "local[2]",
        },
    )
    yield found
    found.stop()


@pytest.fixture(scope="module")
def everything(kavka_broker: KavkaProcess) -> str:
    create_topic(kavka_broker.bootstrap, "everything", 2, {"retention.ms": "-1"})  # Its timestamps are years old.
    fill_with_everything(kavka_broker.bootstrap, "everything")
    return "everything"


def table(spark: SparkSession, broker: KavkaProcess, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("kavka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def test_rows_are_the_topics_records(spark: SparkSession, kavka_broker: KavkaProcess, everything: str) -> None:
    found = table(spark, kavka_broker, everything, includeHeaders="true").orderBy("partition", "offset").collect()
    records = contents(kavka_broker.bootstrap, everything)
    assert len(found) == len(records) == EVERYTHING
    for row, record in zip(found, records, strict=True):
        assert (row.partition, row.offset, row.topic) == (record.partition, record.offset, record.topic)
        assert (row.key, row.value) == (record.key, record.value)
        assert int(row.timestamp.timestamp() * 1000) == record.timestamp_ms
        assert row.timestampType == 0
        assert [(key, value) for key, value in row.headers or []] == [(key, value) for key, value in record.headers]


def test_filters_reach_the_source(spark: SparkSession, kavka_broker: KavkaProcess, everything: str) -> None:
    all_rows = table(spark, kavka_broker, everything)
    filtered = all_rows.where("partition in (1, 7) and offset >= 100 and offset < 120")
    assert "offset" not in filtered._jdf.queryExecution().executedPlan().toString().partition("Filter")[2][:80]
    assert sorted(row.offset for row in filtered.collect()) == list(range(100, 120))
    assert all_rows.where("partition = 1 and offset = 5").count() == 1
    assert all_rows.where("partition = 5").count() == 0
    since = "timestamp >= timestamp_millis(1500000000000 + 300 * 1001)"
    assert all_rows.where(since).count() == 100 * len(CODECS)
    assert all_rows.where(f"{since} and timestamp < timestamp_millis(1500000000000 + 301 * 1001)").count() == len(
        CODECS
    )


def test_only_the_columns_that_are_asked_for_are_read(
    spark: SparkSession, kavka_broker: KavkaProcess, everything: str
) -> None:
    assert table(spark, kavka_broker, everything, columns="offset,value").columns == ["offset", "value"]
    own = spark.read.format("kavka").schema("value binary").option("kafka.bootstrap.servers", kavka_broker.bootstrap)
    assert own.option("subscribe", everything).load().where("value is not null").count() > 0
    assert table(spark, kavka_broker, everything, minPartitions="7").rdd.getNumPartitions() >= 7


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscibe": "x"}, "did you mean 'subscribe'"),
        ({"columns": "val"}, "expected one or more of key, value"),
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"}, "127.0.0.1:1 refused"),
    ],
)
def test_what_is_wrong_is_said_in_sparks_error(
    spark: SparkSession, kavka_broker: KavkaProcess, everything: str, options: dict[str, str], why: str
) -> None:
    with pytest.raises(PySparkException, match=why):
        table(spark, kavka_broker, everything, **options).count()


def stream(spark: SparkSession, broker: KavkaProcess, topic: str, directory: Path, **options: str) -> int:
    """One run to the end of what is there, into Parquet; returns its number of micro-batches."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("kavka").options(**given).load()
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    failure = query.exception()
    if failure is not None:
        raise failure
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


def test_a_stream_goes_on_over_runs_and_its_lag_is_told(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create_topic(kavka_broker.bootstrap, "stream", 2)
    produce(kavka_broker.bootstrap, "stream", 1_000, partitions=2)
    heard: list[Lag] = []
    listener = LagListener(heard.append)
    spark.streams.addListener(listener)
    try:
        options = {"maxOffsetsPerTrigger": "600", "kavka.group.id": "stream-group"}
        assert stream(spark, kavka_broker, "stream", tmp_path, **options) == 2
        produce(kavka_broker.bootstrap, "stream", 100, partitions=2)
        assert stream(spark, kavka_broker, "stream", tmp_path, **options) == 1
        rows = spark.read.parquet(str(tmp_path / "rows"))
        assert (rows.count(), rows.select("partition", "offset").distinct().count()) == (1_100, 1_100)
        deadline = time.monotonic() + 60
        while len(heard) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert [lag.total for lag in heard[:2]] == [400, 0]
    assert heard[0].metrics == {
        "avgOffsetsBehindLatest": 200.0,
        "maxOffsetsBehindLatest": 200,
        "minOffsetsBehindLatest": 200,
    }
    offsets = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()[-1]
    assert json.loads(offsets)["stream"] == {"0": 550, "1": 550}


def test_a_stream_ends_with_an_error_that_names_what_is_lost(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    create_topic(kavka_broker.bootstrap, "short", 1)
    produce(kavka_broker.bootstrap, "short", 10, partitions=1)
    stream(spark, kavka_broker, "short", tmp_path)
    offsets = tmp_path / "checkpoint" / "offsets" / "0"
    offsets.write_text(offsets.read_text().replace('"0": 10', '"0": 4711'))
    (tmp_path / "checkpoint" / "offsets" / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(PySparkException, match="short-0: offset 4711 is wanted, but the log holds 0 to before 10"):
        stream(spark, kavka_broker, "short", tmp_path)
