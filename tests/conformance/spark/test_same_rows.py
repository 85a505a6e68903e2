"""kavka's source beside Spark's own connector in one session: the same rows, on Apache Kafka and on kavka."""

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
from tests.kit.topic_filler import (
    COMPACTED_SOON,
    create_topic,
    fill_with_everything,
    fill_with_gaps,
    fill_with_transactions,
    produce,
)

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(600)]

_numbers = count()
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.cleaner.delete.retention.ms": "1000"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    try:
        jars = connector_jars()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    found = session(
        "same rows",
        **{
            **SMALL,
            "spark.master": "local[2]",
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.memory": "768m",
        },
    )
    yield found
    found.stop()


@pytest.fixture(scope="module", params=["kafka", "kavka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "kavka":
        with KavkaProcess(directory / "data", settings=SETTINGS) as kavka:
            yield kavka.bootstrap
        return
    try:
        kafka = ApacheKafka(directory / "zk", settings=SETTINGS, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield kafka.bootstrap


def same(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """kavka's rows, once they are found to be the connector's."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true", **options}
    theirs, mine = (spark.read.format(name).options(**given).load() for name in ("kafka", "kavka"))
    assert mine.schema == theirs.schema
    assert mine.exceptAll(theirs).take(3) == []
    assert theirs.exceptAll(mine).take(3) == []
    return mine


def test_every_codec_headers_nulls_and_tombstones(spark: SparkSession, bootstrap: str) -> None:
    create_topic(bootstrap, "everything", 2, {"retention.ms": "-1"})  # Its timestamps are years old.
    fill_with_everything(bootstrap, "everything")
    rows = same(spark, bootstrap, "everything")
    assert rows.count() == 2_000
    assert rows.where("value is null").count() == 5 * 58
    assert rows.where("key is null").count() == 5 * 80
    assert rows.where("size(headers) = 4").count() == 5 * 134


def test_the_time_of_the_append(spark: SparkSession, bootstrap: str) -> None:
    create_topic(bootstrap, "appended", 1, {"message.timestamp.type": "LogAppendTime"})
    produce(bootstrap, "appended", 100, partitions=1)
    assert same(spark, bootstrap, "appended").where("timestampType = 1").count() == 100


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(spark: SparkSession, bootstrap: str, isolation: str) -> None:
    topic = f"transactions-{isolation}"
    create_topic(bootstrap, topic, 2)
    fill_with_transactions(bootstrap, topic)
    rows = same(spark, bootstrap, topic, **{"kafka.isolation.level": isolation})
    aborted = 4 * 50 if isolation == "read_committed" else 0
    assert rows.count() == 6 * 2 * 50 + 6 * 5 - aborted


def test_what_compaction_has_left(spark: SparkSession, bootstrap: str) -> None:
    create_topic(bootstrap, "compacted", 1, COMPACTED_SOON)
    fill_with_gaps(bootstrap, "compacted")
    rows = same(spark, bootstrap, "compacted")
    assert rows.count() < 1_100
    assert rows.agg({"offset": "max"}).collect()[0][0] >= 2_000


def test_bounds(spark: SparkSession, bootstrap: str) -> None:
    create_topic(bootstrap, "bounds", 2)
    produce(bootstrap, "bounds", 1_000, partitions=2)
    some = {"startingOffsets": '{"bounds":{"0":100,"1":-2}}', "endingOffsets": '{"bounds":{"0":-1,"1":300}}'}
    assert same(spark, bootstrap, "bounds", **some).count() == 700
    assert same(spark, bootstrap, "bounds", **some, minPartitions="9").count() == 700
    by_time = {"startingOffsetsByTimestamp": '{"bounds":{"0":1,"1":1}}', "endingTimestamp": "1"}
    assert same(spark, bootstrap, "bounds", **by_time).count() == 0


def test_a_pattern(spark: SparkSession, bootstrap: str) -> None:
    for name in ("pattern-a", "a-pattern-b", "patter"):
        create_topic(bootstrap, name, 1)
        produce(bootstrap, name, 10, partitions=1)
    for pattern, found in (("pattern", 2), ("^pattern", 1), (" a$ ", 1)):
        given = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": pattern}
        theirs, mine = (spark.read.format(name).options(**given).load() for name in ("kafka", "kavka"))
        assert mine.exceptAll(theirs).take(3) == []
        assert theirs.exceptAll(mine).take(3) == []
        assert mine.select("topic").distinct().count() == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffsets": '{"ends":{"0":9,"1":0}}', "endingOffsets": '{"ends":{"0":5,"1":9}}'},
            "begin ends-0 at 9, behind its end at 5",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"ends":{"0":9,"1":0}}',
                "endingOffsetsByTimestamp": '{"ends":{"0":5,"1":9}}',
            },
            "'endingOffsetsByTimestamp' is 5 for ends-0",
        ),
        (
            {
                "startingTimestamp": "99999999999999",
                "startingOffsetsByTimestampStrategy": "latest",
                "endingOffsets": '{"ends":{"0":5,"1":-1}}',
            },
            "begin ends-0 at 50, behind its end at 5",
        ),
        ({"subscribePattern": " "}, "'subscribePattern' is empty"),
    ],
)
def test_what_the_connector_refuses_is_refused(
    spark: SparkSession, bootstrap: str, options: dict[str, str], said: str
) -> None:
    topic = f"ends{next(_numbers)}"
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, 100, partitions=2)
    given = {name: text.replace("ends", topic) for name, text in options.items()}
    if "subscribePattern" not in given:
        given["subscribe"] = topic
    for name, expected in (("kafka", "."), ("kavka", said.replace("ends", topic))):
        reader = spark.read.format(name).options(**{"kafka.bootstrap.servers": bootstrap}, **given)
        with pytest.raises(Exception, match=f"(?s){expected}"):
            reader.load().count()


def test_a_checkpoint_of_the_connector_is_gone_on_with(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "moved", 2)
    sizes = []
    for number, name in enumerate(("kafka", "kavka", "kavka")):
        produce(bootstrap, "moved", 100 * (number + 1), partitions=2)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "moved", "startingOffsets": "earliest"}
        query = (
            spark.readStream.format(name)
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(200)
        sizes.append(spark.read.parquet(str(tmp_path / "rows")).select("partition", "offset").distinct().count())
    assert sizes == [100, 300, 600]
