"""Topics into tables, in Spark: what a user writes and sees, and a driver that dies in its commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import session
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL, SparkJob
from tests.kit.topic_contents import create, fill

JOB = Path(__file__).with_name("table_job.py")
ROWS = 300


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session("tables", **{**SMALL, "spark.master": "local[2]"})
    yield found
    found.stop()


def numbered(bootstrap: str, topic: str, rows: int = ROWS) -> None:
    create(bootstrap, topic, 2)
    for partition in range(2):
        fill(bootstrap, topic, partition, [b"%d" % number for number in range(partition, rows, 2)])


def stream(spark: SparkSession, bootstrap: str, topic: str, **more: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **more}
    rows = spark.readStream.format("kavka").options(**options).load()
    return rows.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS id", "partition", "offset", "timestamp")


def drain(rows: DataFrame, form: str, checkpoint: Path, **options: str) -> None:
    query = (
        rows.writeStream.format(form)
        .options(**options, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_fills_a_delta_table_and_a_batch_that_comes_again_is_left_out(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    numbered(kavka_broker.bootstrap, "orders")
    rows = stream(spark, kavka_broker.bootstrap, "orders", maxOffsetsPerTrigger="200")
    path, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    drain(rows, "kavka-delta", checkpoint, path=str(path), partitionBy="partition")
    table = DeltaTable(path)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(ROWS))
    assert table.version() == 2  # Made, and two batches.
    (checkpoint / "commits" / "1").unlink()  # As if the driver had died right after the table's commit.
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    drain(rows, "kavka-delta", checkpoint, path=str(path), partitionBy="partition")
    assert DeltaTable(path).version() == 2
    assert len(list(path.rglob("*.parquet"))) == len(DeltaTable(path).file_uris())
    with pytest.raises(StreamingQueryException, match="there twice"):
        drain(rows, "kavka-delta", tmp_path / "new", path=str(path))
    with pytest.raises(StreamingQueryException, match="has no column 'doubled'"):
        drain(rows.selectExpr("*", "id * 2 AS doubled"), "kavka-delta", tmp_path / "more", path=str(path))


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", ["before-commit", "after-commit"])
def test_a_driver_that_is_killed_in_its_commit_leaves_each_row_once(
    kavka_broker: KavkaProcess, tmp_path: Path, moment: str
) -> None:
    numbered(kavka_broker.bootstrap, moment)
    hold, path = tmp_path / "hold", tmp_path / "table"
    hold.mkdir()
    (hold / moment).touch()
    job = {
        "bootstrap": kavka_broker.bootstrap,
        "source": moment,
        "format": "kavka-delta",
        "table": {"path": str(path)},
        "checkpoint": str(tmp_path / "checkpoint"),
        "rows_per_batch": 100,
        "hold": str(hold),
        "conf": {**SMALL, "spark.master": "local[2]"},
    }
    with SparkJob(JOB, job, tmp_path / "job.log") as running:
        running.start()
        running.wait_until("the commit", (hold / "held").exists)
        assert DeltaTable(path).version() == (0 if moment == "before-commit" else 1)
        assert running.kill(lambda found: True)
        (hold / moment).unlink()
        running.start()
        running.finish()
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == list(range(ROWS))
    assert DeltaTable(path).version() == 3
