"""What is in a topic, read by kavka's plain client: no Spark takes part."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.offsets import latest_offsets
from kavka.client.producer import Producer
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset
from kavka.client.transaction_admin import TransactionAdmin
from kavka.model import TopicPartition
from kavka.runtime.network.network import SocketNetwork

DECIDED = ("PrepareCommit", "PrepareAbort")
"""States of a transaction whose outcome stands, and whose markers are on their way."""


def contents(
    bootstrap: str, topic: str, *, read_committed: bool = True, partitions: Sequence[int] | None = None
) -> list[ConsumerRecord]:
    """Every record below the ends that the topic has now, by partition in order. With `read_committed` what was decided
    before counts: a commit is answered before its markers are written, and until then the topic ends before it."""

    async def read() -> list[ConsumerRecord]:
        settings = ConsumerSettings(
            auto_offset_reset=OffsetReset.EARLIEST,
            read_committed=read_committed,
            enable_auto_commit=False,
            max_partition_fetch_bytes=8 << 20,
        )
        found: list[ConsumerRecord] = []
        async with _cluster(bootstrap) as cluster, Consumer(cluster, settings) as consumer:
            chosen = await consumer.assign_topic(topic)
            if partitions is not None:
                chosen = [TopicPartition(topic, partition) for partition in partitions]
                consumer.assign(chosen)
            if read_committed:
                await _until_markers_are_written(cluster)
            ends = await latest_offsets(cluster, chosen, read_committed=read_committed)
            while not consumer.reached(ends):
                found += await consumer.poll(max_records=10_000, timeout_ms=200)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    return asyncio.run(asyncio.wait_for(read(), 240))


async def _until_markers_are_written(cluster: Cluster) -> None:
    """Returns when no transaction is decided and not over; open ones are not waited for."""
    admin = TransactionAdmin(cluster)
    while await admin.list_transactions(states=DECIDED):  # noqa: ASYNC110 - coordinators are asked
        await asyncio.sleep(0.02)


def create(
    bootstrap: str, topic: str, partitions: int, *, replicas: int = 1, configs: dict[str, str] | None = None
) -> None:
    async def make() -> None:
        async with _cluster(bootstrap) as cluster:
            failures = await Admin(cluster).create_topics([NewTopic(topic, partitions, replicas, configs or {})])
            assert not failures, failures
            await cluster.topic(topic)

    asyncio.run(asyncio.wait_for(make(), 60))


def fill(bootstrap: str, topic: str, partition: int, values: Sequence[bytes]) -> None:
    async def send() -> None:
        async with _cluster(bootstrap) as cluster, Producer(cluster) as producer:
            for batch in await producer.send_values(topic, values, partition=partition):
                await batch

    asyncio.run(asyncio.wait_for(send(), 120))


def decided(bootstrap: str, topic: str, partition: int = 0) -> bool:
    """Whether records are there, and no transaction is open among them."""

    async def ask() -> bool:
        at = TopicPartition(topic, partition)
        async with _cluster(bootstrap) as cluster:
            stable, end = [(await latest_offsets(cluster, [at], read_committed=only))[at] for only in (True, False)]
        return 0 < end == stable

    return asyncio.run(asyncio.wait_for(ask(), 60))


def _cluster(bootstrap: str) -> Cluster:
    return Cluster(SocketNetwork(), parse_bootstrap(bootstrap), ClientSettings(client_id="contents"))
