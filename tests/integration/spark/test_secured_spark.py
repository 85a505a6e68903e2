"""Spark's source and sink on a secured cluster: each way in that the options have, and what is refused there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kavka.testing import SecureCluster
from kavka_spark import session
from tests.kit.certificates import Authority
from tests.kit.spark_job import SMALL

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]
ROWS = 300


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    found = session("secured", **{**SMALL, "spark.master": "local[2]"})
    yield found
    found.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureCluster]:
    with SecureCluster(brokers=1) as running:
        running.add_user("alice", allow=["read:orders-*", "write:orders-*", "describe:orders-*"], groups=["alice-*"])
        running.add_user("mallory")
        yield running


def options_of(cluster: SecureCluster, user: str, mechanism: str, client: str) -> dict[str, str]:
    settings = cluster.client_config(user, mechanism=mechanism, client=client)
    return {f"kafka.{name}": str(value) for name, value in settings.items()}


@pytest.mark.parametrize(
    ("mechanism", "client"),
    [
        ("SCRAM-SHA-512", "java"),
        ("SCRAM-SHA-512", "librdkafka"),
        ("SCRAM-SHA-256", "java"),
        ("SSL", "java"),
        ("SSL", "librdkafka"),
    ],
)
def test_rows_go_in_and_come_out(
    spark: SparkSession, cluster: SecureCluster, mechanism: str, client: str, tmp_path: Path
) -> None:
    options = options_of(cluster, "alice", mechanism, client)
    topic = f"orders-{mechanism}-{client}".lower()
    cluster.create_topic(topic, partitions=2)
    rows = spark.range(ROWS).selectExpr("cast(id as string) as key", "cast(id * 2 as string) as value")
    rows.write.format("kavka").options(**options).option("topic", topic).mode("append").save()
    found = spark.read.format("kavka").options(**options).option("subscribe", topic).load().collect()
    assert sorted(int(row.key) for row in found) == list(range(ROWS))
    assert all(int(row.value) == 2 * int(row.key) for row in found)
    # As a stream, with the versions of TLS named, and its position in a group of alice's.
    streamed = (
        spark.readStream.format("kavka")
        .options(**options)
        .option("kafka.ssl.enabled.protocols", "TLSv1.3")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kavka.group.id", f"alice-{mechanism}")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert streamed.awaitTermination(240)
    assert streamed.exception() is None
    assert spark.read.parquet(str(tmp_path / "rows")).count() == ROWS


def test_who_may_not_is_told_and_gets_no_row(spark: SparkSession, cluster: SecureCluster) -> None:
    cluster.create_topic("orders-closed")
    options = options_of(cluster, "mallory", "SCRAM-SHA-512", "java")
    with pytest.raises(PySparkException, match="TOPIC_AUTHORIZATION_FAILED"):
        spark.read.format("kavka").options(**options).option("subscribe", "orders-closed").load().collect()


def test_a_wrong_password_and_an_unknown_authority_end_the_query(
    spark: SparkSession, cluster: SecureCluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders-wrong")
    good = options_of(cluster, "alice", "SCRAM-SHA-512", "librdkafka")
    (tmp_path / "other.pem").write_text(Authority("another authority").certificate)
    for wrong, why in (
        ({"kafka.sasl.password": "wrong"}, "SCRAM-SHA-512"),
        ({"kafka.ssl.ca.location": str(tmp_path / "other.pem")}, "(?i)certificate"),
        ({"kafka.ssl.enabled.protocols": "TLSv1.1"}, "names TLSv1.1"),
    ):
        reader = spark.read.format("kavka").options(**{**good, **wrong}).option("subscribe", "orders-wrong")
        with pytest.raises(PySparkException, match=why):
            reader.load().collect()
