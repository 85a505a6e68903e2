"""What a cluster can afford to lose: per partition and per broker, as its replicas stand now.

`assess` is pure: replicas, their log ends and min.insync.replicas in, findings out. `read_replicas` asks a cluster,
kavka's or Apache Kafka's, for what `assess` needs. Between the two the cluster goes on: a finding is as old as its
reading.

What is said of a broker N that would die now:

    unavailable   N is the only in-sync replica: no leader until it comes back (an unclean election would lose records)
    blocked       the others are fewer than min.insync.replicas: acks=all writes are refused until one more is in sync
    unreplicated  records at a leader N that no other in-sync replica has: never committed, so never acknowledged with
                  acks=all; acks=1 producers were told that they are safe, and they would be gone

min.insync.replicas counts up to the number of replicas: a topic with one replica takes acks=all whatever it says
(Partition.effectiveMinIsr).

Source: KIP-966 and article 001 for what an ISR of one is worth; ListOffsets with replica id -2 (Kafka's debugging
consumer) tells the log end of any replica, followers included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.client.cluster import Cluster, PartitionMetadata
from kavka.client.offsets import LATEST
from kavka.errors import ErrorCode, KavkaError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse

DEBUGGING_REPLICA_ID = -2
HIGHEST_LIST_OFFSETS = 7


class Health(Enum):
    """How a partition stands, the worst first."""

    OFFLINE = "offline"
    """No leader: neither reads nor writes."""
    BLOCKED = "refuses acks=all"
    """Fewer in sync than min.insync.replicas."""
    LAST_REPLICA = "last replica"
    """One in-sync replica of several."""
    AT_LIMIT = "at its limit"
    """Exactly min.insync.replicas (and fewer than all): the next failure blocks writes."""
    UNDER_REPLICATED = "under-replicated"
    FULL = "full"


class PartitionReplicas(NamedTuple):
    """One partition. `log_ends` has the log end offset of each replica whose broker answered, `min_insync_replicas` the
    topic's setting."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    min_insync_replicas: int
    log_ends: Mapping[int, int]

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.in_sync_replicas)

    @property
    def needed_in_sync(self) -> int:
        """Fewer in sync refuse acks=all: min.insync.replicas, but never more than there are replicas."""
        return min(self.min_insync_replicas, len(self.replicas))


class Loss(NamedTuple):
    """What the death of `broker` would do to one partition. Fields without an effect are False and 0."""

    partition: TopicPartition
    broker: int
    unavailable: bool
    blocked: bool
    unreplicated: int


class BrokerRisk(NamedTuple):
    """What the death of a broker would do. A restart is safe if nothing becomes unavailable or blocked."""

    broker: int
    unavailable: tuple[TopicPartition, ...]
    blocked: tuple[TopicPartition, ...]
    unreplicated: int
    """Records that were acknowledged to acks=1 producers and would be lost."""

    @property
    def safe_to_restart(self) -> bool:
        return not self.unavailable and not self.blocked


def health(partition: PartitionReplicas) -> Health:
    """The partition's worst state."""
    in_sync = len(partition.in_sync_replicas)
    if partition.leader < 0:
        return Health.OFFLINE
    if in_sync < partition.needed_in_sync:
        return Health.BLOCKED
    if in_sync == len(partition.replicas):
        return Health.FULL
    if in_sync == 1:
        return Health.LAST_REPLICA
    return Health.AT_LIMIT if in_sync == partition.needed_in_sync else Health.UNDER_REPLICATED


def loss_of(partition: PartitionReplicas, broker: int) -> Loss | None:
    """What the partition loses with `broker`; None if nobody would notice."""
    if broker not in partition.in_sync_replicas or partition.leader < 0:
        return None
    others = [replica for replica in partition.in_sync_replicas if replica != broker]
    unreplicated = 0
    if partition.leader == broker and broker in partition.log_ends:
        best = max((partition.log_ends[replica] for replica in others if replica in partition.log_ends), default=None)
        # Without another in-sync replica everything is out of reach, which `unavailable` says.
        unreplicated = 0 if best is None else max(partition.log_ends[broker] - best, 0)
    was_open = len(partition.in_sync_replicas) >= partition.needed_in_sync
    blocked = bool(others) and was_open and len(others) < partition.needed_in_sync
    if others and not blocked and not unreplicated:
        return None
    return Loss(partition.partition, broker, not others, blocked, unreplicated)


def risks(partitions: Sequence[PartitionReplicas], brokers: Iterable[int]) -> list[BrokerRisk]:
    """For each broker, what its death would do to all partitions."""
    losses: dict[int, list[Loss]] = {broker: [] for broker in brokers}
    for each in partitions:
        # With one to spare the death of a follower changes nothing: of ten thousand partitions most need no more.
        has_spare = len(each.in_sync_replicas) > max(each.needed_in_sync, 1)
        for broker in (each.leader,) if has_spare else each.in_sync_replicas:
            if broker in losses and (loss := loss_of(each, broker)) is not None:
                losses[broker].append(loss)
    return [
        BrokerRisk(
            broker,
            tuple(loss.partition for loss in found if loss.unavailable),
            tuple(loss.partition for loss in found if loss.blocked),
            sum(loss.unreplicated for loss in found),
        )
        for broker, found in losses.items()
    ]


async def read_replicas(cluster: Cluster, topics: Sequence[str] | None = None) -> list[PartitionReplicas]:
    """How the replicas of these topics, or of all, stand now; by name. Brokers that do not answer are left out of
    `log_ends`. Raises `RequestError` for a topic that is not there, `ConnectionFailed` where nobody answers."""
    from kavka.client.admin import Admin, ConfigResource, ResourceType

    admin = Admin(cluster)
    found = await (admin.list_topics(include_internal=True) if topics is None else admin.describe_topics(topics))
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in found]
    configs = await admin.describe_configs(resources) if resources else {}
    least = {
        resource.name: int(next((entry.value for entry in entries if entry.name == "min.insync.replicas"), "1") or 1)
        for resource, entries in configs.items()
    }
    described = {TopicPartition(topic.name, each.partition): each for topic in found for each in topic.partitions}
    ends = await _log_ends(cluster, described)
    return [
        PartitionReplicas(
            partition,
            each.leader,
            each.leader_epoch,
            each.replicas,
            each.in_sync_replicas,
            least[partition.topic],
            {replica: ends[replica][partition] for replica in each.replicas if partition in ends.get(replica, {})},
        )
        for partition, each in sorted(described.items())
    ]


async def _log_ends(
    cluster: Cluster, partitions: Mapping[TopicPartition, PartitionMetadata]
) -> dict[int, dict[TopicPartition, int]]:
    """Log end offsets by broker; a broker that fails has none."""
    hosted: dict[int, list[TopicPartition]] = {}
    for partition, described in partitions.items():
        for replica in described.replicas:
            if replica in cluster.brokers:
                hosted.setdefault(replica, []).append(partition)
    answers = await asyncio.gather(*(_log_ends_at(cluster, broker, held) for broker, held in hosted.items()))
    return dict(zip(hosted, answers, strict=True))


async def _log_ends_at(cluster: Cluster, broker: int, held: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    topics: dict[str, ListOffsetsTopic] = {}
    for topic, partition in held:
        entry = topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[]))
        entry.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=LATEST))
    request = ListOffsetsRequest(replica_id=DEBUGGING_REPLICA_ID, isolation_level=0, topics=list(topics.values()))
    try:
        answer = await cluster.ask(
            ApiKey.LIST_OFFSETS, request, ListOffsetsResponse, node_id=broker, highest=HIGHEST_LIST_OFFSETS
        )
    except KavkaError:
        return {}  # It is down, or going down: what it holds is not known.
    return {
        TopicPartition(listed.name, result.partition_index): result.offset
        for listed in answer.topics
        for result in listed.partitions
        if result.error_code == ErrorCode.NONE
    }
