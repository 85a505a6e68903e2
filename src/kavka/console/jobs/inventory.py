"""Reads what a plan is made from, and how far a job has come, off a cluster.

Decides which requests that takes and that a broker which does not answer costs only what it alone knows. Must not know
plans. Every read has a bound in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.client.admin import Admin, ConfigResource, LogDirectory, Reassignment, ResourceType
from kavka.client.cluster import Cluster, PartitionMetadata
from kavka.console.jobs.plan import BrokerFacts, Inventory, PartitionFacts
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.model import TopicPartition

BROKER_TIMEOUT_S = 5.0
"""How long one broker may take to report what is on its disks."""
CLUSTER_TIMEOUT_S = 15.0
CONFIGS_AT_ONCE = 500
"""Topics whose settings are asked for in one request."""


class PartitionStates(NamedTuple):
    """How the partitions of a job stand now. `partitions` lacks those that are gone."""

    partitions: Mapping[TopicPartition, PartitionMetadata]
    under_way: Mapping[TopicPartition, Reassignment]
    live: frozenset[int]
    sizes: Mapping[tuple[TopicPartition, int], int]
    """Bytes by partition and broker, of brokers that answered."""


async def read_inventory(cluster: Cluster, rates: Mapping[str, float] | None = None) -> Inventory:
    """The whole cluster. rates: bytes per second that producers write to a topic. Raises KavkaError, TimeoutError."""
    admin = Admin(cluster)
    async with asyncio.timeout(CLUSTER_TIMEOUT_S):
        described = await admin.describe_cluster()
        topics = await admin.list_topics(include_internal=True)
        under_way = await admin.list_partition_reassignments()
        least = await _min_insync(admin, [topic.name for topic in topics])
    live = {broker.node_id: broker.rack for broker in described.brokers}
    directories = await read_directories(admin, live)
    sizes: dict[TopicPartition, int] = {}
    for found in directories.values():
        for directory in found:
            for replica in directory.replicas:
                sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
    partitions = {}
    for topic in topics:
        share = (rates or {}).get(topic.name, 0.0) / max(len(topic.partitions), 1)
        for each in topic.partitions:
            name = TopicPartition(topic.name, each.partition)
            partitions[name] = PartitionFacts(
                each.leader,
                each.replicas,
                each.in_sync_replicas,
                least.get(topic.name, 1),
                sizes.get(name, 0),
                share,
            )
    brokers = {node_id: BrokerFacts(rack, _usable(directories.get(node_id, ()))) for node_id, rack in live.items()}
    return Inventory(partitions, brokers, frozenset(under_way))


async def read_partition_states(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, sizes_of: Iterable[int]
) -> PartitionStates:
    """The state of these partitions now, with the sizes that the brokers `sizes_of` report. Raises KavkaError,
    TimeoutError."""
    admin = Admin(cluster)
    wanted = set(partitions)
    async with asyncio.timeout(CLUSTER_TIMEOUT_S):
        described = await admin.describe_cluster()
        under_way = await admin.list_partition_reassignments()
        topics = {topic.name: topic for topic in await admin.list_topics(include_internal=True)}
    live = frozenset(broker.node_id for broker in described.brokers)
    found = {TopicPartition(topic.name, each.partition): each for topic in topics.values() for each in topic.partitions}
    sizes: dict[tuple[TopicPartition, int], int] = {}
    for node_id, directories in (await read_directories(admin, live & set(sizes_of))).items():
        for directory in directories:
            for replica in directory.replicas:
                if replica.partition in wanted and not replica.is_future:
                    sizes[replica.partition, node_id] = replica.size_bytes
    return PartitionStates(
        {partition: found[partition] for partition in wanted if partition in found},
        {partition: each for partition, each in under_way.items() if partition in wanted},
        live,
        sizes,
    )


async def read_directories(admin: Admin, node_ids: Iterable[int]) -> dict[int, list[LogDirectory]]:
    """The log directories of these brokers; one that does not answer in time is left out."""

    async def ask(node_id: int) -> tuple[int, list[LogDirectory]] | None:
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                return node_id, (await admin.describe_log_dirs([node_id]))[node_id]
        except (KavkaError, TimeoutError):
            return None

    return dict(filter(None, await asyncio.gather(*map(ask, sorted(node_ids)))))


async def _min_insync(admin: Admin, topics: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(topics), CONFIGS_AT_ONCE):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics[start : start + CONFIGS_AT_ONCE]]
        try:
            described = await admin.describe_configs(resources)
        except RequestError as refused:
            if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            continue  # One was deleted meanwhile; the plan takes 1 for these.
        for resource, entries in described.items():
            value = next((entry.value for entry in entries if entry.name == "min.insync.replicas"), None)
            found[resource.name] = int(value or 1)
    return found


def _usable(directories: Iterable[LogDirectory]) -> int | None:
    known = [directory.usable_bytes for directory in directories]
    return sum(known) if known and min(known) >= 0 else None
