"""StateChanges: carries out what the controller says about this broker's replicas and about the cluster.

Decides only the order: a replica's log is there before it leads, it leads before the cluster is told, and a coordinator
is loaded after its partition leads. Must not know why the controller decided so.

    I1  metadata names this broker as a leader only when it serves the partition: a client that was sent here can write
    I2  an older leader epoch than the one known changes nothing
    I3  a partition whose log directory failed is published without this broker as its leader

Source: Kafka's ReplicaManager.becomeLeaderOrFollower, updateMetadataCache and stopReplicas. There metadata may name a
leader before it serves, and acks=0 right after a topic's creation can lose records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence

from kavka.broker.metadata_cache import (
    GROUP_METADATA_TOPIC,
    NO_TOPIC_ID,
    BrokerMetadata,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
)
from kavka.broker.topic_settings import log_config
from kavka.config.topic import TopicConfig
from kavka.controller.reign import PartitionOrder
from kavka.coordinator.group_coordinator import GroupCoordinator
from kavka.errors import InconsistentMetadata, StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderAndIsr, TopicPartition
from kavka.replication.partition import Partition
from kavka.replication.replica_manager import ReplicaManager

logger = Logger(__name__)

PARTITIONS_AT_ONCE = 100
"""Partitions that are made or removed before clients have their turn: 10 ms."""


class StateChanges:
    """Applies the controller's requests. `topic_config` gives the effective settings of a topic."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        logs: LogManager,
        groups: GroupCoordinator,
        topic_config: Callable[[str], TopicConfig],
        on_storage_error: Callable[[StorageError], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._replicas = replicas
        self._logs = logs
        self._groups = groups
        self._topic_config = topic_config
        self._on_storage_error = on_storage_error
        self._spawn = spawn

    # -- LeaderAndIsr

    async def obey(self, orders: Sequence[PartitionOrder], now_ms: int) -> None:
        """Leads what this broker is to lead, and then publishes all of it at once.

        Clients are served in between: to lead ten thousand new partitions takes a second.
        """
        for number, order in enumerate(orders, 1):
            if order.state.leader == self._broker_id and self._broker_id in order.replicas:
                self._lead(order, now_ms)
            if not number % PARTITIONS_AT_ONCE:
                await asyncio.sleep(0)
        self._publish(orders)

    def _lead(self, order: PartitionOrder, now_ms: int) -> None:
        partition = self._partition(order, now_ms)
        if partition is None:
            return
        if partition.become_leader(order.state, order.replicas):
            self._replicas.on_high_watermark_advanced(partition)
        topic, index = order.topic_partition
        if topic == GROUP_METADATA_TOPIC:
            self._spawn(self._groups.load(index, order.state.leader_epoch))

    def _partition(self, order: PartitionOrder, now_ms: int) -> Partition | None:
        """The hosted partition, made if it is new here; None where its log directory fails."""
        topic_partition = order.topic_partition
        hosted = self._replicas.partition(*topic_partition)
        if hosted is not None:
            return hosted
        if topic_partition in self._replicas.offline_partitions:
            return None
        config = self._topic_config(topic_partition.topic)
        try:
            log = self._log(order, log_config(config), now_ms)
        except StorageError as failure:
            self._on_storage_error(failure)
            self.take_offline([topic_partition])
            return None
        partition = Partition(
            topic_partition,
            order.topic_id or NO_TOPIC_ID,
            log,
            local_broker_id=self._broker_id,
            min_insync_replicas=config.min_insync_replicas,
        )
        self._replicas.host(partition)
        return partition

    def _log(self, order: PartitionOrder, config: LogConfig, now_ms: int) -> UnifiedLog:
        topic_partition = order.topic_partition
        try:
            return self._logs.get_or_create(topic_partition, order.topic_id, now_ms, is_new=order.is_new, config=config)
        except InconsistentMetadata:
            # 1. The topic was deleted: its znodes are gone. 2. The broker was killed before it renamed the log.
            # 3. A topic of the same name was created: the log on disk is not its log.
            self._logs.set_aside(topic_partition)
            return self._logs.get_or_create(topic_partition, order.topic_id, now_ms, config=config)

    # -- UpdateMetadata

    def publish_brokers(self, brokers: Iterable[BrokerMetadata]) -> None:
        """Takes over who is alive."""
        self._metadata.set_brokers(brokers)

    def _publish(self, orders: Sequence[PartitionOrder]) -> None:
        """Takes over partitions as they are now; they are served by then where this broker leads them (I1)."""
        by_topic: dict[str, list[PartitionOrder]] = {}
        for order in orders:
            by_topic.setdefault(order.topic_partition.topic, []).append(order)
        for name, changed in by_topic.items():
            known = self._metadata.topic(name)
            topic_id = changed[0].topic_id or NO_TOPIC_ID
            partitions = {} if known is None or known.topic_id != topic_id else dict(enumerate(known.partitions))
            partitions.update((order.topic_partition.partition, self._published(order)) for order in changed)
            count = max(partitions) + 1
            self._metadata.set_topic(
                TopicMetadata(name, topic_id, tuple(partitions.get(index, _UNKNOWN) for index in range(count)))
            )
            if name == GROUP_METADATA_TOPIC:
                self._groups.set_partition_count(count)

    def _published(self, order: PartitionOrder) -> PartitionMetadata:
        offline = tuple(broker for broker in order.replicas if not self._metadata.is_alive(broker))
        published = PartitionMetadata(order.replicas, order.state, offline)
        if order.topic_partition in self._replicas.offline_partitions:
            return self._without_this_broker(published)
        return published

    def _without_this_broker(self, published: PartitionMetadata) -> PartitionMetadata:
        state = published.state
        if state.leader == self._broker_id:
            state = state._replace(leader=NO_LEADER)
        offline = dict.fromkeys([*published.offline_replicas, self._broker_id])
        return published._replace(state=state, offline_replicas=tuple(offline))

    # -- a log directory failed

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Serves these partitions no longer: they answer KAFKA_STORAGE_ERROR, and their groups NOT_COORDINATOR.

        Apache Kafka's controller learns of it through /log_dir_event_notification and looks for another leader. This
        one has no other replica to choose; what clients are told is the same: the partition has no leader.
        """
        gone = list(topic_partitions)
        self._replicas.take_offline(gone)
        for topic_partition in gone:
            name, index = topic_partition
            if name == GROUP_METADATA_TOPIC:
                self._groups.unload(index)
            topic, published = self._metadata.topic(name), self._metadata.partition(name, index)
            if topic is not None and published is not None:
                partitions = list(topic.partitions)
                partitions[index] = self._without_this_broker(published)
                self._metadata.set_topic(topic._replace(partitions=tuple(partitions)))

    # -- StopReplica

    async def delete_topic(self, name: str, now_ms: int) -> None:
        """Forgets a deleted topic: its metadata, its partitions and their logs, the offsets committed for it."""
        topic = self._metadata.topic(name)
        self._metadata.remove_topic(name)
        if topic is None:
            return
        if name == GROUP_METADATA_TOPIC:
            self._groups.set_partition_count(0)
        for index in range(len(topic.partitions)):
            topic_partition = TopicPartition(name, index)
            if name == GROUP_METADATA_TOPIC:
                self._groups.unload(index)
            self._replicas.unhost(topic_partition)
            try:
                self._logs.delete(topic_partition, now_ms)
            except StorageError as failure:
                self._on_storage_error(failure)
            if not (index + 1) % PARTITIONS_AT_ONCE:
                await asyncio.sleep(0)
        await self._groups.on_topics_deleted([name])

    # -- configuration

    def apply_topic_config(self, name: str) -> None:
        """The topic's settings changed: its logs and partitions obey the new ones from now on."""
        topic = self._metadata.topic(name)
        if topic is None:
            return
        config = self._topic_config(name)
        obeyed = log_config(config)
        for index in range(len(topic.partitions)):
            partition = self._replicas.partition(name, index)
            if partition is not None:
                partition.min_insync_replicas = config.min_insync_replicas
                partition.log.reconfigure(obeyed)

    def apply_broker_config(self) -> None:
        """The broker's settings changed, and with them those of the topics that do not set them themselves."""
        for topic in list(self._metadata.topics()):
            self.apply_topic_config(topic.name)


_UNKNOWN = PartitionMetadata((), LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1))
"""A partition below the highest known one that nothing was heard of yet."""
