"""What a query without the rights that it needs is told: which is missing; Spark itself takes no part."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType
from kavka.testing import SecureCluster
from kavka_spark.errors import MissingRightError
from kavka_spark.plain_errors import shown_plainly
from kavka_spark.sink_options import DEFAULT_MARKER_TOPIC, sink_options
from kavka_spark.sink_schema import sink_columns
from kavka_spark.source import KavkaReader
from kavka_spark.source_options import source_options
from kavka_spark.stable import TASK_BITS, TASK_COLUMN
from kavka_spark.stream_source import KavkaStreamReader
from kavka_spark.writer import TaskIdentity, write_rows

ROWS = StructType([StructField("value", StringType()), StructField(TASK_COLUMN, LongType())])


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureCluster]:
    with SecureCluster(brokers=1) as running:
        running.create_topic("orders")
        running.create_topic(DEFAULT_MARKER_TOPIC, settings={"cleanup.policy": "compact"})
        yield running


def allowed(user: str, operation: Operation, kind: ResourceType, name: str) -> Binding:
    return Binding(Pattern(kind, name, PatternType.LITERAL), Entry(f"User:{user}", "*", operation, Permission.ALLOW))


def options(cluster: SecureCluster, user: str, **more: str) -> dict[str, str]:
    settings = cluster.client_config(user, mechanism="SCRAM-SHA-512", client="librdkafka")
    return {f"kafka.{name}": str(value) for name, value in settings.items()} | more


def read(given: dict[str, str]) -> int:
    reader = KavkaReader(source_options(given, streaming=False), ("value",))
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def written(given: dict[str, str]) -> None:
    """A task's row, in the way that the options say."""
    parsed = sink_options(given, streaming=False)
    names = ["value"] if parsed.exactly_once is None else ["value", TASK_COLUMN]
    columns = sink_columns(StructType([ROWS[name] for name in names]), parsed)
    rows = pa.RecordBatch.from_pydict({"value": ["tea"], TASK_COLUMN: [1 << TASK_BITS]}).select(names)
    with shown_plainly():
        write_rows([rows], columns, parsed, TaskIdentity(0, lambda _: None))


def test_who_may_not_read_is_told_which_rights_reading_needs(cluster: SecureCluster) -> None:
    cluster.add_user("describer", allow=["describe:orders"])
    admin = options(cluster, "admin", topic="orders")
    written(admin)
    cluster.add_user("nobody")
    for user, stage in (("nobody", "topic 'orders'"), ("describer", "fetch of orders-0 at 0")):
        with pytest.raises(MissingRightError) as caught:
            read(options(cluster, user, subscribe="orders"))
        assert str(caught.value).startswith(f"{stage}: TOPIC_AUTHORIZATION_FAILED. ")
        assert "a source needs Read and Describe on its topics" in str(caught.value)


def test_a_group_of_somebody_elses_is_told_with_the_option(cluster: SecureCluster) -> None:
    cluster.add_user("reader", allow=["read:orders", "describe:orders"])
    given = options(cluster, "reader", subscribe="orders", **{"kavka.group.id": "others"})
    reader = KavkaStreamReader(source_options(given, streaming=True), ("value",))
    began = reader.initialOffset()
    with pytest.raises(
        MissingRightError, match=r"GROUP_AUTHORIZATION_FAILED\. .* kavka\.group\.id needs Read on the gr"
    ):
        reader.latestOffset(began, ReadAllAvailable())


def test_who_may_not_write_is_told_which_rights_writing_needs(cluster: SecureCluster) -> None:
    cluster.add_user("spectator", allow=["describe:orders"])
    cluster.add_user("stranger")
    for user in ("stranger", "spectator"):
        with pytest.raises(MissingRightError, match=r"_AUTHORIZATION_FAILED.*a sink Write and Describe"):
            written(options(cluster, user, topic="orders"))


def test_exactly_once_without_a_right_says_so_and_does_not_wait_for_another_process(cluster: SecureCluster) -> None:
    once = {"exactlyOnce": "true", "exactlyOnceId": "load", "topic": "orders"}
    on_topics = ["write:orders", "describe:orders", f"read:{DEFAULT_MARKER_TOPIC}", f"write:{DEFAULT_MARKER_TOPIC}"]
    cluster.add_user("writer", allow=on_topics)
    with pytest.raises(MissingRightError, match=r"the transactional ids that begin with kavka-spark-"):
        written(options(cluster, "writer", **once))
    configs = allowed("layman", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, DEFAULT_MARKER_TOPIC)
    of_task = allowed("layman", Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "kavka-spark-load-0")
    cluster.add_user("layman", allow=[*on_topics, configs, of_task])
    with pytest.raises(MissingRightError, match=r"kavka-spark-load-layout.*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        written(options(cluster, "layman", **once))
    of_layout = allowed("owner", Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "kavka-spark-load-layout")
    own = [
        of_layout,
        allowed("owner", Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "kavka-spark-load-0"),
        allowed("owner", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, DEFAULT_MARKER_TOPIC),
    ]
    cluster.add_user("owner", allow=["write:orders", f"write:{DEFAULT_MARKER_TOPIC}", *own])
    with pytest.raises(MissingRightError, match=rf"{DEFAULT_MARKER_TOPIC}.*TOPIC_AUTHORIZATION_FAILED"):
        written(options(cluster, "owner", **once))
    cluster.add_user("owner", allow=[f"read:{DEFAULT_MARKER_TOPIC}"])
    written(options(cluster, "owner", **once))
