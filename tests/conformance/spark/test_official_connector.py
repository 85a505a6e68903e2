"""Spark's own Kafka connector beside kavka's, in one session, on a broker of kavka and on Apache Kafka.

The connector is the released jar; only its delegation-token helper is a stand-in of ours (official_connector.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import session
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import KavkaProcess
from tests.kit.official_connector import connector_jars
from tests.kit.spark_job import SMALL
from tests.kit.topic_contents import contents, create

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

OFFICIAL, OURS = "kafka", "kavka"
ROWS = 12_000
PARTITIONS = 3
COLUMNS = ["key", "value", "partition", "headers"]
_names = count()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    try:
        jars = connector_jars()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    found = session(
        "connectors",
        **{**SMALL, "spark.master": "local[2]", "spark.jars": ",".join(map(str, jars))},
    )
    yield found
    found.stop()


@pytest.fixture(
    params=[
        "kavka_broker",
        pytest.param("apache_kafka", marks=pytest.mark.kafka),
        pytest.param("apache_kafka_kraft", marks=pytest.mark.kafka),
    ]
)
def bootstrap(request: pytest.FixtureRequest) -> str:
    broker: KavkaProcess | ApacheKafka = request.getfixturevalue(request.param)
    return broker.bootstrap


def a_topic(bootstrap: str) -> str:
    name = f"connector-{next(_names)}"
    create(bootstrap, name, PARTITIONS)
    return name


def rows(spark: SparkSession) -> DataFrame:
    """Keys and values, some null; headers, some without content; a partition for a third of the rows."""
    return (
        spark.range(0, ROWS, 1, 2)
        .selectExpr(
            "CASE WHEN id % 5 = 0 THEN NULL ELSE CAST(concat('key-', id % 100) AS BINARY) END AS key",
            "CASE WHEN id % 7 != 0 THEN CAST(repeat(CAST(id AS STRING), CAST(id % 50 AS INT)) AS BINARY) END AS value",
            "CAST(CASE WHEN id % 3 = 0 THEN id % 2 END AS INT) AS partition",
            "CASE WHEN id % 4 = 0 THEN array(named_struct('key', 'n', 'value', CAST(id AS STRING)), "
            "named_struct('key', 'none', 'value', NULL)) END AS headers_of_text",
        )
        .selectExpr(
            "key",
            "value",
            "partition",
            "CAST(headers_of_text AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        )
    )


def write(frame: DataFrame, connector: str, bootstrap: str, topic: str) -> None:
    frame.write.format(connector).mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap, "topic": topic}
    ).save()


def read(spark: SparkSession, connector: str, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format(connector).options(**options).load()


def relay(spark: SparkSession, reader: str, writer: str, bootstrap: str, source: str, target: str, at: Path) -> None:
    """One topic into another, as a stream of several micro-batches."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": source,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(ROWS // 3),
    }
    query = (
        spark.readStream.format(reader)
        .options(**options)
        .load()
        .select("key", "value", "headers", "partition")
        .writeStream.format(writer)
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": str(at)})
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()


def check_equal(one: DataFrame, other: DataFrame, columns: list[str], expected: int = ROWS) -> None:
    one, other = one.select(*columns).cache(), other.select(*columns).cache()
    assert (one.count(), other.count()) == (expected, expected)
    assert one.exceptAll(other).count() == 0
    assert other.exceptAll(one).count() == 0
    one.unpersist()
    other.unpersist()


@pytest.mark.parametrize("writer", [OFFICIAL, OURS])
def test_both_read_the_same_rows_whoever_wrote_them(spark: SparkSession, bootstrap: str, writer: str) -> None:
    topic = a_topic(bootstrap)
    write(rows(spark), writer, bootstrap, topic)
    ours, official = (read(spark, connector, bootstrap, topic) for connector in (OURS, OFFICIAL))
    check_equal(ours, official, ours.columns)
    assert ours.schema == official.schema


def test_both_write_the_same_rows_to_the_same_partitions(spark: SparkSession, bootstrap: str) -> None:
    """Rows with neither a key nor a partition go where there is room, so they count without their partition."""
    frame = rows(spark)
    topics = {connector: a_topic(bootstrap) for connector in (OFFICIAL, OURS)}
    for connector, topic in topics.items():
        write(frame, connector, bootstrap, topic)
    first, second = (read(spark, OFFICIAL, bootstrap, topic) for topic in topics.values())
    check_equal(first, second, ["key", "value", "headers"])
    tied = frame.where("key IS NOT NULL").count()
    check_equal(first.where("key IS NOT NULL"), second.where("key IS NOT NULL"), COLUMNS, tied)
    plain = contents(bootstrap, topics[OURS])
    assert len(plain) == ROWS


@pytest.mark.parametrize(("reader", "writer"), [(OFFICIAL, OFFICIAL), (OURS, OURS), (OFFICIAL, OURS), (OURS, OFFICIAL)])
def test_streams_of_both_carry_every_row(
    spark: SparkSession, bootstrap: str, tmp_path: Path, reader: str, writer: str
) -> None:
    source, target = a_topic(bootstrap), a_topic(bootstrap)
    write(rows(spark), OURS, bootstrap, source)
    relay(spark, reader, writer, bootstrap, source, target, tmp_path / "checkpoint")
    check_equal(
        read(spark, OFFICIAL, bootstrap, source), read(spark, OFFICIAL, bootstrap, target), ["key", "value", "headers"]
    )
