"""The names of topics and tables in lineage."""

from __future__ import annotations

from pathlib import Path

from pyspark.pipelines.output import Sink, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation

from kavka_spark.pipelines.datasets import Dataset, datasets_of, table_dataset, topic_datasets
from kavka_spark.pipelines.definitions import Definitions, Place, SqlFlow
from kavka_spark.pipelines.spec import PipelineSpec, parse_spec
from kavka_spark.pipelines.sql_definitions import sql_definitions
from kavka_spark.stream_plans import Step

PLACE = SourceCodeLocation("a.py", 1)


def _spec(storage: str = "storage", **more: object) -> PipelineSpec:
    return parse_spec(Path("/p/pipeline.yml"), {"name": "p", "storage": storage, **more})


def test_a_topic_is_named_by_the_first_broker() -> None:
    brokers = {"kafka.bootstrap.servers": "k1:9092,k2:9092"}
    where = "kafka://k1:9092"
    assert list(topic_datasets({**brokers, "subscribe": "a,b"})) == [Dataset(where, "a"), Dataset(where, "b")]
    assert list(topic_datasets({**brokers, "assign": '{"a":[0,1]}'})) == [Dataset(where, "a")]
    assert list(topic_datasets({**brokers, "subscribepattern": "a.*"})) == [Dataset(where, "a.*")]
    assert list(topic_datasets({**brokers, "topic": "out", "exactlyonce": "true"})) == [Dataset(where, "out")]
    assert list(topic_datasets({**brokers, "subscribe": "a", "assign": "{}"})) == []


def test_a_table_is_named_by_where_its_files_are_or_by_its_catalog() -> None:
    assert table_dataset("orders", _spec()) == Dataset("file", "/p/storage/warehouse/orders")
    assert table_dataset("spark_catalog.default.orders", _spec("s3a://lake/p")) == Dataset(
        "s3a://lake", "/p/warehouse/orders"
    )
    assert table_dataset("orders", _spec(database="shop")).name == "/p/storage/warehouse/shop.db/orders"
    assert table_dataset("orders", _spec(catalog="lake", database="shop")) == Dataset("lake", "shop.orders")


def test_who_reads_a_temporary_view_reads_what_it_reads() -> None:
    definitions = Definitions()
    location = {"comment": None, "source_code_location": PLACE}
    stored = {"table_properties": {}, "partition_cols": None, "cluster_by": None, "schema": None, "format": None}
    definitions.outputs = {
        "seen": TemporaryView(name="seen", **location),
        "orders": StreamingTable(name="orders", **location, **stored),
        "back": Sink(
            name="back", format="kavka", options={"kafka.bootstrap.servers": "k:9092", "Topic": "out"}, **location
        ),
    }
    for flow, target in (("seen", "seen"), ("orders", "orders"), ("copy", "back")):
        definitions.note(flow, target, Place("a.py", 1))
    [sums] = sql_definitions("CREATE MATERIALIZED VIEW sums AS SELECT 1 FROM orders JOIN seen ON true")
    definitions.sql.append(SqlFlow(sums, Path("a.sql")))
    definitions.note("sums", "sums", Place("a.sql", 1))
    reads = {
        "seen": [Step("Read", True, "kavka", {"kafka.bootstrap.servers": "k:9092", "subscribe": "in"})],
        "orders": [Step("Read", True, table="seen")],
        "copy": [Step("Read", True, table="orders")],
    }
    topic, table = ["kafka://k:9092", "in"], ["file", "/p/storage/warehouse/orders"]
    assert datasets_of(definitions, reads, _spec()) == [
        {"flow": "orders", "inputs": [topic], "outputs": [table]},
        {"flow": "copy", "inputs": [table], "outputs": [["kafka://k:9092", "out"]]},
        {"flow": "sums", "inputs": [table, topic], "outputs": [["file", "/p/storage/warehouse/sums"]]},
    ]
