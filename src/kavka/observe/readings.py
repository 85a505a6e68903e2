"""What an observer asks a cluster, one part at a time, in pieces whose size is bounded.

Decides which requests a part takes, how many partitions one of them names, and how long a single broker may take before
it counts as silent. Must not know when a part is due, or what becomes of it.

    I1  One broker that does not answer costs its own values, never those of the others: it is named in `silent`.
    I2  No request names more than `MAX_PARTITIONS_PER_REQUEST` partitions, and between two the event loop gets a turn,
        so ten thousand partitions never hold up a page.

Source: ListOffsets with replica id -2 (Kafka's debugging consumer) tells the log end of any replica; KIP-113, KIP-827
(log directories); KIP-664 (transactions).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from kavka.client.admin import Admin, ConfigResource, ConfigSource, LogDirectory, ResourceType
from kavka.client.cluster import Broker, Cluster, TopicMetadata
from kavka.client.offsets import EARLIEST, HIGHEST_LIST_OFFSETS, LATEST
from kavka.errors import ErrorCode, KavkaError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse

Value = TypeVar("Value")

MAX_PARTITIONS_PER_REQUEST: Final = 500
MAX_CONFIGS_PER_REQUEST: Final = 25
"""A topic has some forty settings: decoding these takes ten milliseconds."""
BROKER_PATIENCE_S: Final = 4.0
DEBUGGING_REPLICA: Final = -2
ORDINARY: Final = -1
ALWAYS_KEPT: Final = frozenset({"min.insync.replicas"})
MAX_BROKER_SETTINGS: Final = 600


@dataclass(slots=True)
class ByBroker(Generic[Value]):
    """What each broker answered, and why others did not."""

    found: dict[int, Value] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Described:
    """An answer to Metadata."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicMetadata]


async def read_metadata(cluster: Cluster) -> Described:
    """Brokers, topics, leaders and ISRs, as one broker knows them. Raises KavkaError, TimeoutError."""
    async with asyncio.timeout(BROKER_PATIENCE_S):
        topics = await Admin(cluster).list_topics(include_internal=True)
    found = {topic.name: topic for topic in topics}
    for name in [name for name in cluster.topics if name not in found]:
        del cluster.topics[name]  # Deleted: the client would keep it for as long as it lives.
    return Described(cluster.cluster_id, cluster.controller_id, dict(cluster.brokers), found)


async def read_high_watermarks(
    cluster: Cluster, by_leader: Mapping[int, Sequence[TopicPartition]]
) -> ByBroker[dict[TopicPartition, int]]:
    return await _offsets(cluster, by_leader, LATEST, ORDINARY)


async def read_log_starts(
    cluster: Cluster, by_leader: Mapping[int, Sequence[TopicPartition]]
) -> ByBroker[dict[TopicPartition, int]]:
    return await _offsets(cluster, by_leader, EARLIEST, ORDINARY)


async def read_log_ends(
    cluster: Cluster, by_replica: Mapping[int, Sequence[TopicPartition]]
) -> ByBroker[dict[TopicPartition, int]]:
    """The log end of each replica, followers' too."""
    return await _offsets(cluster, by_replica, LATEST, DEBUGGING_REPLICA)


async def _offsets(
    cluster: Cluster, asked: Mapping[int, Sequence[TopicPartition]], timestamp: int, replica_id: int
) -> ByBroker[dict[TopicPartition, int]]:
    async def ask(broker: int) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        partitions = asked[broker]
        for first in range(0, len(partitions), MAX_PARTITIONS_PER_REQUEST):
            topics: dict[str, ListOffsetsTopic] = {}
            for topic, partition in partitions[first : first + MAX_PARTITIONS_PER_REQUEST]:
                entry = topics.get(topic)
                if entry is None:
                    entry = topics[topic] = ListOffsetsTopic(name=topic, partitions=[])
                entry.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
            request = ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=list(topics.values()))
            async with asyncio.timeout(BROKER_PATIENCE_S):
                answer = await cluster.ask(
                    ApiKey.LIST_OFFSETS, request, ListOffsetsResponse, node_id=broker, highest=HIGHEST_LIST_OFFSETS
                )
            for listed in answer.topics:
                for result in listed.partitions:
                    if result.error_code == ErrorCode.NONE:
                        found[TopicPartition(listed.name, result.partition_index)] = result.offset
            await asyncio.sleep(0)
        return found

    return await _of_each(asked, ask)


async def read_log_directories(cluster: Cluster, brokers: Iterable[int]) -> ByBroker[list[LogDirectory]]:
    async def ask(broker: int) -> list[LogDirectory]:
        async with asyncio.timeout(BROKER_PATIENCE_S):
            return (await Admin(cluster).describe_log_dirs([broker]))[broker]

    return await _of_each(brokers, ask)


async def read_topic_configs(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Of each topic the settings that are its own, and those of ALWAYS_KEPT; topics deleted meanwhile are left out."""
    found: dict[str, dict[str, str]] = {}
    for first in range(0, len(names), MAX_CONFIGS_PER_REQUEST):
        some = names[first : first + MAX_CONFIGS_PER_REQUEST]
        try:
            found.update(await _topic_configs(cluster, some))
        except KavkaError:
            for name in some:  # One that is being deleted has the whole request refused.
                try:
                    found.update(await _topic_configs(cluster, [name]))
                except KavkaError:
                    continue
        await asyncio.sleep(0)
    return found


async def _topic_configs(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    async with asyncio.timeout(BROKER_PATIENCE_S):
        described = await Admin(cluster).describe_configs(resources)
    return {
        resource.name: {
            entry.name: entry.value or ""
            for entry in entries
            if entry.source is ConfigSource.TOPIC or entry.name in ALWAYS_KEPT
        }
        for resource, entries in described.items()
    }


async def read_broker_configs(cluster: Cluster, brokers: Iterable[int]) -> ByBroker[dict[str, str]]:
    """Settings that have a value and are not sensitive."""

    async def ask(broker: int) -> dict[str, str]:
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        async with asyncio.timeout(BROKER_PATIENCE_S):
            entries = (await Admin(cluster).describe_configs([resource]))[resource]
        shown = [entry for entry in entries if entry.value is not None and not entry.is_sensitive]
        return {entry.name: entry.value or "" for entry in shown[:MAX_BROKER_SETTINGS]}

    return await _of_each(brokers, ask)


async def _of_each(brokers: Iterable[int], ask: Callable[[int], Awaitable[Value]]) -> ByBroker[Value]:
    """Asks all of them at once; failures of one are its own."""
    result: ByBroker[Value] = ByBroker()

    async def attempt(broker: int) -> None:
        try:
            result.found[broker] = await ask(broker)
        except TimeoutError:
            result.silent[broker] = f"broker {broker} did not answer within {BROKER_PATIENCE_S:.0f} s"
        except KavkaError as problem:
            result.silent[broker] = f"broker {broker}: {problem}"

    await asyncio.gather(*(attempt(broker) for broker in brokers))
    return result
