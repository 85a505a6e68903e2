"""ControllerContext: what the controller knows of the cluster, read from ZooKeeper at its start and kept up since.

It decides nothing and does no I/O. Whoever changes a znode changes the context after the write was committed, never
before: the context may be older than ZooKeeper, not newer.

Invariants:
I1  Every partition of `topics` has a state in `partitions`, and one in `replicas` for each of its replicas.
I2  `states` holds a partition only if its state znode exists; the version in it is the one to compare and set.

Source: Kafka's ControllerContext.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.controller.assignment import BrokerRack
from kavka.controller.state_machines import (
    PartitionStatus,
    Replica,
    ReplicaStatus,
    StateTable,
    partition_states,
    replica_states,
)
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper.znodes import BrokerRegistration, MalformedZNode, PartitionState, TopicAssignment


class LiveBroker(NamedTuple):
    """A registered broker; `epoch` is the czxid of its znode, another one with each registration."""

    registration: BrokerRegistration
    epoch: int


class KnownState(NamedTuple):
    """A partition's state znode as it was read or written last; `version` is the znode's."""

    state: PartitionState
    version: int

    @property
    def leader_and_isr(self) -> LeaderAndIsr:
        return self.state.leader_and_isr(self.version)


@dataclass(slots=True)
class KnownTopic:
    """A topic's znode as it was read or written last; `version` is the znode's."""

    assignment: TopicAssignment
    version: int

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.assignment.topic_id

    def topic_partitions(self) -> Iterator[TopicPartition]:
        """Its partitions, in order."""
        return (TopicPartition(self.assignment.topic, partition) for partition in self.assignment.partitions)

    def replicas(self, partition: int) -> tuple[BrokerId, ...]:
        """The partition's replicas, the preferred leader first."""
        return tuple(map(BrokerId, self.assignment.partitions[partition]))


@dataclass(slots=True)
class ControllerContext:
    """The controller's picture of the cluster. `epoch` and `epoch_version` are of /controller_epoch: its number and
    the znode's version, which guards every write."""

    epoch: int = 0
    epoch_version: int = 0
    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    states: dict[TopicPartition, KnownState] = field(default_factory=dict)
    topics_to_delete: dict[str, None] = field(default_factory=dict)
    malformed: dict[str, MalformedZNode] = field(default_factory=dict)
    """Znodes that cannot be read, by path. Their topic or partition is left alone until somebody mends them."""
    partitions: StateTable[TopicPartition, PartitionStatus] = field(default_factory=partition_states)
    replicas: StateTable[Replica, ReplicaStatus] = field(default_factory=replica_states)

    def live_broker_ids(self) -> list[BrokerId]:
        """Brokers that are registered and not shutting down, sorted."""
        return sorted(broker_id for broker_id in self.brokers if broker_id not in self.shutting_down)

    def broker_racks(self) -> list[BrokerRack]:
        """Where new replicas may go, sorted by broker."""
        return [
            BrokerRack(broker_id, self.brokers[broker_id].registration.rack) for broker_id in self.live_broker_ids()
        ]

    def set_topic(self, topic: KnownTopic) -> list[TopicPartition]:
        """Takes over a topic's znode; returns the partitions that were not known yet, which are NEW now."""
        name = topic.assignment.topic
        known = self.topics.get(name)
        self.topics[name] = topic
        added = [
            partition
            for partition in topic.topic_partitions()
            if known is None or partition.partition not in known.assignment.partitions
        ]
        self.partitions.move(added, PartitionStatus.NEW)
        self.replicas.move(self.replicas_of(added), ReplicaStatus.NEW)
        return added

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """All replicas of the partitions, in order."""
        return [
            Replica(partition, broker_id)
            for partition in partitions
            for broker_id in self.topics[partition.topic].replicas(partition.partition)
        ]

    def remove_topic(self, name: str) -> None:
        """Forgets all about a topic that is deleted."""
        topic = self.topics.get(name)
        if topic is None:
            return
        partitions = list(topic.topic_partitions())
        self.replicas.forget(self.replicas_of(partitions))
        self.partitions.forget(partitions)
        for partition in partitions:
            self.states.pop(partition, None)
        del self.topics[name]
        self.topics_to_delete.pop(name, None)
