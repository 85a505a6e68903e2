"""Topics into tables, in Spark, as docs/lakehouse.md shows it: what a user writes and sees, and a driver that dies in
its commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kavka_spark import session, stable
from kavka_spark.lakehouse.changes import debezium, is_change
from kavka_spark.lakehouse.compaction import compact
from kavka_spark.lakehouse.handles import delta_table
from tests.kit.busy_spark import drained
from tests.kit.kavka_process import KavkaProcess
from tests.kit.spark_job import SMALL, SparkJob
from tests.kit.topic_contents import contents, create, fill

JOB = Path(__file__).with_name("table_job.py")
ROWS = 300

pytestmark = pytest.mark.thorough
"""tests/unit/spark/lakehouse, which belongs to every change, does the same without a JVM."""


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
    writer = rows.writeStream.format(form).options(**options, checkpointLocation=str(checkpoint))
    drained(writer.trigger(availableNow=True).start)


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
    orders = delta_table(str(path))
    assert orders.as_of("orders", 0, 120).number == 1
    assert compact(spark, orders).added == 2  # Two partitions.
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == list(range(ROWS))
    with pytest.raises(StreamingQueryException, match="there twice"):
        drain(rows, "kavka-delta", tmp_path / "new", path=str(path))
    with pytest.raises(StreamingQueryException, match="has no column 'doubled'"):
        drain(rows.selectExpr("*", "id * 2 AS doubled"), "kavka-delta", tmp_path / "more", path=str(path))


def iceberg(directory: Path) -> dict[str, str]:
    """Options of a catalog in a file."""
    directory.mkdir()
    return {
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{directory / 'catalog.db'}",
        "catalog.warehouse": f"file://{directory / 'warehouse'}",
        "table": "shop.orders",
    }


def iceberg_rows(options: dict[str, str]) -> list[dict[str, Any]]:
    settings = {name.removeprefix("catalog."): text for name, text in options.items() if name != "table"}
    return load_catalog("default", **settings).load_table(options["table"]).scan().to_arrow().to_pylist()


def test_a_stream_fills_an_iceberg_table(spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    numbered(kavka_broker.bootstrap, "iceberg-orders")
    rows = stream(spark, kavka_broker.bootstrap, "iceberg-orders", maxOffsetsPerTrigger="200")
    options, checkpoint = iceberg(tmp_path / "lake"), tmp_path / "checkpoint"
    for _ in range(2):
        drain(rows, "kavka-iceberg", checkpoint, **options, partitionBy="partition")
        assert sorted(row["id"] for row in iceberg_rows(options)) == list(range(ROWS))
        (checkpoint / "commits" / "1").unlink()
        (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("form", ["kavka-delta", "kavka-iceberg"])
def test_a_stream_that_began_amid_its_topic_fills_in_what_was_before_once(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path, form: str
) -> None:
    topic, checkpoint = f"late-{form}", tmp_path / "checkpoint"
    numbered(kavka_broker.bootstrap, topic)
    options = iceberg(tmp_path / "lake") if form == "kavka-iceberg" else {"path": str(tmp_path / "table")}
    began = json.dumps({topic: {"0": 100, "1": 100}})
    filled = {"kavka.backfill.from": json.dumps({topic: {"0": 20, "1": 20}}), "maxOffsetsPerTrigger": "100"}

    def ids() -> list[int]:
        if form == "kavka-iceberg":
            return sorted(row["id"] for row in iceberg_rows(options))
        return sorted(DeltaTable(options["path"]).to_pyarrow_table()["id"].to_pylist())

    drain(stream(spark, kavka_broker.bootstrap, topic, startingOffsets=began), form, checkpoint, **options)
    assert ids() == list(range(200, ROWS))
    drain(stream(spark, kavka_broker.bootstrap, topic, startingOffsets=began, **filled), form, checkpoint, **options)
    assert ids() == list(range(40, ROWS))
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()  # As if the driver had died right after the table's commit.
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    by_time = {"kavka.backfill.from": "1", "kavka.backfill.to": "2"}  # Everything came later.
    for more in (filled, by_time):
        drain(stream(spark, kavka_broker.bootstrap, topic, startingOffsets=began, **more), form, checkpoint, **options)
        assert ids() == list(range(40, ROWS))


def test_a_tables_changes_go_back_into_a_topic_once(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": kavka_broker.bootstrap}
    numbered(kavka_broker.bootstrap, "there")
    create(kavka_broker.bootstrap, "back", 2)
    rows = stream(spark, kavka_broker.bootstrap, "there", maxOffsetsPerTrigger="200")
    drain(rows, "kavka-delta", tmp_path / "checkpoint", path=str(tmp_path / "table"))
    changes = spark.readStream.format("kavka-delta").load(str(tmp_path / "table"))
    assert changes.columns == ["id", "partition", "offset", "timestamp", "_change_type", "_commit_version"]
    records = changes.where("_change_type = 'insert'").selectExpr(
        "CAST(id AS STRING) AS key", "to_json(struct(*)) AS value"
    )
    for _ in range(2):
        drain(stable(records, 2), "kavka", tmp_path / "back", **servers, topic="back", exactlyOnce="true")
    found = [json.loads(record.value or b"") for record in contents(kavka_broker.bootstrap, "back")]
    assert sorted(each["id"] for each in found) == list(range(ROWS))
    assert {each["_commit_version"] for each in found} == {1, 2}


SCHEMA = "id BIGINT, name STRING"


def event(operation: str, before: dict[str, Any] | None, after: dict[str, Any] | None, *, wrapped: bool) -> bytes:
    """As Debezium's JSON converter writes it, with its schema or without."""
    payload = {"before": before, "after": after, "op": operation, "ts_ms": 1, "source": {"table": "customers"}}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload} if wrapped else payload).encode()


@pytest.mark.parametrize("form", ["kavka-delta", "kavka-iceberg"])
def test_changes_of_debezium_become_rows(
    spark: SparkSession, kavka_broker: KavkaProcess, tmp_path: Path, form: str
) -> None:
    topic = f"customers-{form}"
    create(kavka_broker.bootstrap, topic, 1)
    options = iceberg(tmp_path / "lake") if form == "kavka-iceberg" else {"path": str(tmp_path / "table")}

    def content() -> dict[int, str]:
        rows = (
            iceberg_rows(options)
            if form == "kavka-iceberg"
            else DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
        )
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}

    records = spark.readStream.format("kavka").options(
        **{"kafka.bootstrap.servers": kavka_broker.bootstrap}, subscribe=topic, startingOffsets="earliest"
    )
    changes = debezium(records.load(), keys=["id"], schema=SCHEMA, buckets=2)

    def run(rows: DataFrame) -> None:
        drain(rows, form, tmp_path / "checkpoint", **options, mergeKeys="id", mergeBuckets="2")

    rows = [{"id": number, "name": f"name {number}"} for number in range(10)]
    created = [event("r" if row["id"] < 5 else "c", None, row, wrapped=row["id"] % 2 == 0) for row in rows]
    fill(kavka_broker.bootstrap, topic, 0, created)
    run(changes)
    assert content() == {row["id"]: row["name"] for row in rows}
    later = [
        event("u", rows[3], {"id": 3, "name": "renamed"}, wrapped=False),
        event("d", rows[4], None, wrapped=True),
        event("c", None, {"id": 77, "name": "short-lived"}, wrapped=False),
        event("d", {"id": 77, "name": "short-lived"}, None, wrapped=False),
        event("m", None, None, wrapped=False),
        # An update that changes the key, as it comes where the record's key is another column.
        event("u", {"id": 9, "name": "name 9"}, {"id": 90, "name": "moved"}, wrapped=False),
        event("u", None, {"id": 8, "name": "without before"}, wrapped=True),
    ]
    fill(kavka_broker.bootstrap, topic, 0, later)
    run(changes)
    expected = {row["id"]: row["name"] for row in rows if row["id"] not in (4, 9)}
    expected |= {3: "renamed", 90: "moved", 8: "without before"}
    assert content() == expected
    misfit = b'{"op": "c", "after": {"id": "8x", "name": "its key would be null"}}'
    last = event("c", None, {"id": 5, "name": "last"}, wrapped=False)
    fill(kavka_broker.bootstrap, topic, 0, [b"no JSON", misfit, last])
    with pytest.raises(StreamingQueryException, match=rf"{topic}-0 at offset 17: no change that can be merged"):
        run(changes)
    assert content() == expected
    good = debezium(records.load().where(is_change(SCHEMA)), keys=["id"], schema=SCHEMA, buckets=2)
    run(good)
    assert content() == expected | {5: "last"}


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
