"""PublishedMetadata: what clients are shown of the partitions that have a replica on this broker.

Decides when this broker may be named as a leader. Must not know how a partition comes to be led.

    I1  this broker is shown as a leader only when it serves the partition, so that a client that comes here can write.
        If the controller's UpdateMetadata comes first, the partition is shown without a leader meanwhile
    I2  a partition whose log directory failed is shown without this broker as its leader

Source: none; Kafka shows a leader before it serves, and acks=0 right after a topic's creation can lose records there.
"""

from __future__ import annotations

from kavka.broker.metadata.metadata_cache import MetadataCache, PartitionMetadata
from kavka.model import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from kavka.replication.replica_manager import ReplicaManager


class PublishedMetadata:
    """Of the broker `broker_id`, in `metadata`."""

    def __init__(self, broker_id: BrokerId, metadata: MetadataCache, replicas: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._replicas = replicas
        self._held_back: dict[TopicPartition, PartitionMetadata] = {}
        """Partitions shown without a leader until they are served here (I1): what is shown then."""

    def shown(self, topic_partition: TopicPartition, published: PartitionMetadata) -> PartitionMetadata:
        """How the partition is shown now; `published` is how the controller has it."""
        self._held_back.pop(topic_partition, None)
        if self._replicas.is_offline(topic_partition):
            return self._without_this_broker(published)
        if published.state.leader == self._broker_id:
            hosted = self._replicas.partition(*topic_partition)
            if hosted is None or not hosted.is_leader or hosted.leader_epoch < published.state.leader_epoch:
                self._held_back[topic_partition] = published
                return published._replace(state=published.state._replace(leader=NO_LEADER))
        return published

    def on_leading(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """The partition is served here from now on. Shows what was held back."""
        held_back = self._held_back.get(topic_partition)
        if held_back is not None and held_back.state.leader_epoch <= leader_epoch:
            self._show(topic_partition, held_back)

    def on_offline(self, topic_partition: TopicPartition) -> None:
        """The partition's log directory failed."""
        known = self._held_back.get(topic_partition) or self._metadata.partition(*topic_partition)
        if known is not None:
            self._show(topic_partition, self._without_this_broker(known))

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is being deleted."""
        self._held_back.pop(topic_partition, None)

    def forget_topic(self, name: str) -> None:
        for held in [held for held in self._held_back if held.topic == name]:
            del self._held_back[held]

    def _without_this_broker(self, published: PartitionMetadata) -> PartitionMetadata:
        state = published.state
        if state.leader == self._broker_id:
            state = state._replace(leader=NO_LEADER)
        offline = dict.fromkeys([*published.offline_replicas, self._broker_id])
        return published._replace(state=state, offline_replicas=tuple(offline))

    def _show(self, topic_partition: TopicPartition, published: PartitionMetadata) -> None:
        """Replaces what is shown of one partition that is known."""
        self._held_back.pop(topic_partition, None)
        name, index = topic_partition
        topic = self._metadata.topic(name)
        if topic is not None and index < len(topic.partitions):
            partitions = list(topic.partitions)
            partitions[index] = published
            self._metadata.set_topic(topic._replace(partitions=tuple(partitions)))
