"""Topology: which broker has which replica, as rows for a pipeline.

Decides nothing; asks the cluster once, when a definition file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.admin import Admin
from kavka.client.cluster import Cluster
from kavka_spark.connections import WorkerConnection, connection
from kavka_spark.options import connection_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MAX_PARTITIONS: Final = 100_000
"""Most rows in one question: they go to Spark as one local relation."""


class Placement(NamedTuple):
    """One partition. `replicas` in the order of preference; `leader` -1 where there is none."""

    topic: str
    partition: int
    leader: int
    replicas: list[int]


def placements(bootstrap: str, topics: Sequence[str] = ()) -> list[Placement]:
    """The partitions of these topics, or of all but internal ones.

    Raises `UnreachableError`, `ConnectionFailed`, `RequestError`, `ValueError`.
    """
    return _connected(bootstrap).run(_ask(bootstrap, topics))


def brokers(bootstrap: str) -> list[int]:
    """The ids of the brokers that are up. Raises as `placements`."""
    return _connected(bootstrap).run(_ask_brokers(bootstrap))


def placement_schema() -> StructType:
    from pyspark.sql import types as T  # noqa: N812 - as Spark's own documents call it

    return (
        T.StructType()
        .add("topic", T.StringType())
        .add("partition", T.IntegerType())
        .add("leader", T.IntegerType())
        .add("replicas", T.ArrayType(T.IntegerType()))
    )


def _connected(bootstrap: str) -> WorkerConnection:
    return connection(connection_options({"kafka.bootstrap.servers": bootstrap}), begins=True)


def _cluster(bootstrap: str) -> Cluster:
    return _connected(bootstrap).cluster


async def _ask(bootstrap: str, topics: Sequence[str]) -> list[Placement]:
    admin = Admin(_cluster(bootstrap))
    found = await (admin.describe_topics(topics) if topics else admin.list_topics())
    rows = [
        Placement(topic.name, each.partition, each.leader, list(each.replicas))
        for topic in found
        for each in topic.partitions
    ]
    if len(rows) > MAX_PARTITIONS:
        raise ValueError(f"{len(rows):,} partitions are too many at once; name topics")
    return rows


async def _ask_brokers(bootstrap: str) -> list[int]:
    description = await Admin(_cluster(bootstrap)).describe_cluster()
    return [broker.node_id for broker in description.brokers]
