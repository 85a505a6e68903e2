"""What expectations do with rows, and what is seen of plans, by a session of Spark without brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import DeadLetterTopic, session
from kavka_spark.expectations import Expectation, _kept, _letters, _quarantined
from kavka_spark.stream_plans import nodes
from tests.kit.spark_job import SMALL

pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, id bigint, amount double"
ROWS = [
    (b"k", b"good", "t", 0, 0, 1, 5.0),
    (None, b"no id", "t", 0, 1, None, None),
    (None, b"negative", "t", 1, 0, 2, -1.0),
    (None, b"dropped", "t", 1, 1, 99, 1.0),
]
EXPECTATIONS = [
    Expectation("at least two", "amount >= 2", "warn"),
    Expectation("not 99", "id <> 99", "drop"),
    Expectation("an id", "id IS NOT NULL -- not even (0", "quarantine"),
    Expectation("positive", "amount > 0", "quarantine"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    found = session("expectations", **{**SMALL, "spark.master": "local[1]", "spark.sql.warehouse.dir": warehouse})
    yield found
    found.stop()


def test_rows_are_kept_or_quarantined_with_all_that_they_break(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS)
    assert [row.value for row in _kept(frame, "f", EXPECTATIONS).collect()] == [b"good"]
    aside = _quarantined(frame, "f", EXPECTATIONS)
    assert aside.columns == ["topic", "partition", "offset", "reasons", "key", "value", "id", "amount"]
    assert [(row.value, row.offset, row.reasons) for row in aside.collect()] == [
        (b"no id", 1, ["at least two", "not 99", "an id", "positive"]),
        (b"negative", 0, ["at least two", "positive"]),
    ]
    [letter] = _letters(aside.where("offset = 0"), "f", DeadLetterTopic("dead")).collect()
    assert {header.key: bytes(header.value) for header in letter.headers} == {
        "deadletter.flow": b"f",
        "deadletter.reasons": b"at least two; positive",
        "deadletter.topic": b"t",
        "deadletter.partition": b"1",
        "deadletter.offset": b"0",
    }


@pytest.mark.parametrize("which", [_kept, _quarantined])
def test_a_row_that_must_not_come_ends_the_flow_and_its_quarantine_with_its_place(
    spark: SparkSession, which: Callable[[DataFrame, str, list[Expectation]], DataFrame]
) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS)
    small = Expectation("small", "coalesce(amount, 0) < 4", "fail")
    with pytest.raises(PySparkException, match="flow f: the record at t-0, offset 0 breaks small"):
        which(frame, "f", [*EXPECTATIONS, small]).collect()


def test_the_steps_of_a_classic_plan_have_tables_by_name_and_streams_with_their_options(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE numbers (id BIGINT) USING parquet")
    for frame in (spark.readStream.table("numbers").alias("x"), spark.sql("SELECT n.id FROM numbers n")):
        assert [step.table for step in nodes(frame) if step.table] == ["spark_catalog.default.numbers"]
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}
    [step] = nodes(spark.readStream.format("kavka").options(**options).load())
    assert (step.is_stream, step.format, step.options) == (True, "kavka", options)
    marked = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    assert "EventTimeWatermark" in [step.name for step in nodes(marked)]
