"""from_registry and to_registry in Spark, as docs/spark.md shows them: a stream whose schema changes, bad records."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from kavka.errors import ConfigError
from kavka_spark import session
from kavka_spark.registry import from_registry, to_registry
from tests.kit.kavka_process import KavkaProcess
from tests.kit.registry_process import RegistryProcess
from tests.kit.spark_job import SMALL
from tests.kit.topic_contents import create

pytestmark = pytest.mark.thorough

ID, WHAT = {"name": "id", "type": "long"}, {"name": "what", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def schema(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session("registry", **{**SMALL, "spark.master": "local[2]"})
    yield found
    found.stop()


@pytest.fixture(scope="module")
def registry(kavka_broker: KavkaProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(kavka_broker.bootstrap, tmp_path_factory.mktemp("registry")) as found:
        yield found


def test_a_stream_goes_on_when_the_schema_changes_and_keeps_bad_records(
    spark: SparkSession, kavka_broker: KavkaProcess, registry: RegistryProcess, tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": kavka_broker.bootstrap}
    create(kavka_broker.bootstrap, "orders", 2)

    def write(first: int, form: str, *columns: str) -> None:
        rows = spark.range(first, first + 100).withColumn("what", F.concat(F.lit("item "), "id"))
        rows = rows.withColumn("note", F.lit("new"))
        value = to_registry(F.struct(*columns), registry.address, subject="orders-value", schema=form)
        rows.select(value.alias("value")).write.format("kavka").mode("append").options(**servers, topic="orders").save()

    write(0, schema(ID, WHAT), "id", "what")
    order = from_registry("value", registry.address, subject="orders-value", bad_records="column")
    records = spark.readStream.format("kavka").options(**servers, subscribe="orders", startingOffsets="earliest").load()

    def run() -> None:
        query = (
            records.select(order.alias("order"), "partition", "offset")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "orders"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        assert query.exception() is None

    run()
    write(100, schema(ID, WHAT, NOTE), "id", "what", "note")  # A newer version: the same query reads on.
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    for bad in (b"no schema", b"\0\0\0\x27\x0f!", b""):
        producer.produce("orders", bad)
    producer.flush(60)
    run()
    found = spark.read.parquet(str(tmp_path / "orders"))
    good = found.where("order.error IS NULL").select("order.value.*")
    assert sorted(good.columns) == ["id", "what"]
    assert [row.id for row in good.orderBy("id").collect()] == list(range(200))
    dead = [row.error for row in found.where("order.error IS NOT NULL").select("order.error").collect()]
    assert len(dead) == 3
    assert any("no schema 9999" in each for each in dead)


def test_what_cannot_be_says_why(spark: SparkSession, registry: RegistryProcess, unused_port: int) -> None:
    with pytest.raises(ConfigError, match=r"subject nobody: .*answered 404: Subject 'nobody' not found"):
        from_registry("value", registry.address, subject="nobody")
    with pytest.raises(ConfigError, match="does not answer"):
        from_registry("value", f"http://127.0.0.1:{unused_port}", subject="nobody")
    body = json.dumps({"schema": schema(ID)}).encode()
    urllib.request.urlopen(f"{registry.address}/subjects/strict-value/versions", body, timeout=60).close()
    with pytest.raises(ConfigError, match="READER_FIELD_MISSING_DEFAULT_VALUE"):
        to_registry("x", registry.address, subject="strict-value", schema=schema(ID, WHAT))
    rows = spark.createDataFrame([(b"no schema",)], "value binary")
    with pytest.raises(PySparkException, match='With bad_records="column"'):
        rows.select(from_registry("value", registry.address, subject="strict-value")).collect()
