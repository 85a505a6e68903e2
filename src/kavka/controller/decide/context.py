"""ControllerContext: what the controller knows of the cluster, read from ZooKeeper at its start and kept up since.

It decides nothing and does no I/O. Code that changes a znode updates the context after the write was committed, never
before. So the context may be older than ZooKeeper, but not newer.

Invariants:
I1  Every partition of `topics` has a state in `partitions`, and one in `replicas` for each of its replicas.
I2  `states` holds a partition only if its state znode exists; the version in it is the one to compare and set.
I3  `unreachable` and `shutting_down` hold the broker epoch at which this was noticed. A broker with another epoch is
neither.

Source: Kafka's ControllerContext.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from kavka.controller.decide.assignment import BrokerRack
from kavka.controller.decide.state_machines import (
    PartitionStatus,
    Replica,
    ReplicaStatus,
    StateTable,
    partition_states,
    replica_states,
)
from kavka.logger import Logger
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper.znode_paths import topic_path
from kavka.zookeeper.znodes import BrokerRegistration, MalformedZNode, PartitionState, TopicAssignment

logger = Logger(__name__)

NO_BROKER_EPOCH = -1
"""The broker epoch that no broker has, as in Kafka."""


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
        return cast(tuple[BrokerId, ...], tuple(self.assignment.partitions[partition]))

    def adding(self, partition: int) -> tuple[BrokerId, ...]:
        """Replicas that a reassignment adds."""
        return cast(tuple[BrokerId, ...], tuple(self.assignment.adding_replicas.get(partition, ())))

    def removing(self, partition: int) -> tuple[BrokerId, ...]:
        """Replicas that a reassignment removes."""
        return cast(tuple[BrokerId, ...], tuple(self.assignment.removing_replicas.get(partition, ())))


@dataclass(slots=True)
class ControllerContext:
    """The controller's picture of the cluster. `epoch` and `epoch_version` are of /controller_epoch: its number and
    the znode's version, which guards every write."""

    epoch: int = 0
    epoch_version: int = 0
    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    """Registered brokers: those whose session lives, as far as ZooKeeper knows."""
    shutting_down: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that asked for their controlled shutdown, with their epoch."""
    unreachable: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that are registered and refuse connections, with their epoch: their process is gone, most likely."""
    acted_on: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers whose last stop was not clean, with the epoch of the registration that was handled."""
    failed_replicas: dict[Replica, None] = field(default_factory=dict)
    """Replicas in failed log directories of brokers that live."""
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    topic_names: dict[uuid.UUID, str] = field(default_factory=dict)
    """Topic ids, for the topics that have one."""
    states: dict[TopicPartition, KnownState] = field(default_factory=dict)
    topics_to_delete: dict[str, None] = field(default_factory=dict)
    malformed: dict[str, MalformedZNode] = field(default_factory=dict)
    """Malformed znodes, by path. Their topic or partition is left alone until somebody repairs them."""
    partitions: StateTable[TopicPartition, PartitionStatus] = field(default_factory=partition_states)
    replicas: StateTable[Replica, ReplicaStatus] = field(default_factory=replica_states)

    def found_malformed(self, znode: MalformedZNode) -> None:
        """Records a malformed znode, and logs it once for each content."""
        before = self.malformed.get(znode.path)
        self.malformed[znode.path] = znode
        if before is None or str(before) != str(znode):
            logger.error(
                "znode cannot be read",
                path=znode.path,
                why=str(znode),
                next_step="its topic or partition is left alone: repair the znode, then delete /controller so that "
                "everything is read again",
            )

    def live_broker_ids(self) -> list[BrokerId]:
        """Brokers that are registered and not shutting down, sorted."""
        return sorted(broker_id for broker_id in self.brokers if broker_id not in self.shutting_down)

    def reachable_broker_ids(self) -> list[BrokerId]:
        """Brokers that are registered and take connections, those that are shutting down too, sorted."""
        return sorted(broker_id for broker_id in self.brokers if broker_id not in self.unreachable)

    def electable_broker_ids(self) -> list[BrokerId]:
        """Brokers that may become leaders: registered, reachable, and not shutting down; sorted."""
        return [broker_id for broker_id in self.reachable_broker_ids() if broker_id not in self.shutting_down]

    def known_broker_ids(self) -> set[BrokerId]:
        """Brokers that are registered, and those that have replicas: these are down, most likely."""
        holders = {
            cast(BrokerId, broker_id)
            for topic in self.topics.values()
            for replicas in topic.assignment.partitions.values()
            for broker_id in replicas
        }
        return holders | self.brokers.keys()

    def set_brokers(self, brokers: dict[BrokerId, LiveBroker]) -> None:
        """Sets the registered brokers. What was known about other epochs of a broker is dropped (I3)."""
        self.brokers = brokers
        for marks in (self.shutting_down, self.unreachable):
            for broker_id in [key for key, epoch in marks.items() if self.broker_epoch(key) != epoch]:
                del marks[broker_id]

    def unclean_broker_ids(self) -> list[BrokerId]:
        """Registered brokers whose last stop was not clean and has not been handled yet."""
        return [
            broker_id
            for broker_id, live in self.brokers.items()
            if live.registration.is_unclean and self.acted_on.get(broker_id) != live.epoch
        ]

    def broker_epoch(self, broker_id: BrokerId) -> int:
        """The registered broker's epoch, NO_BROKER_EPOCH if it is not registered."""
        broker = self.brokers.get(broker_id)
        return NO_BROKER_EPOCH if broker is None else broker.epoch

    def is_offline(self, partition: TopicPartition, broker_id: BrokerId) -> bool:
        """Whether this replica serves nothing: its broker or its log directory is gone."""
        if broker_id not in self.brokers or broker_id in self.unreachable:
            return True
        return bool(self.failed_replicas) and Replica(partition, broker_id) in self.failed_replicas

    def broker_racks(self) -> list[BrokerRack]:
        """Where new replicas may go, sorted by broker."""
        return [
            BrokerRack(broker_id, self.brokers[broker_id].registration.rack) for broker_id in self.live_broker_ids()
        ]

    def set_topic(self, topic: KnownTopic) -> list[TopicPartition]:
        """Sets a topic's znode. Returns the partitions that were not known before; they are NEW now."""
        name = topic.assignment.topic
        known = self.topics.get(name)
        self.topics[name] = topic
        if known is not None and known.topic_id is not None:
            self.topic_names.pop(known.topic_id, None)
        if topic.topic_id is not None:
            self.topic_names[topic.topic_id] = name
        added = [
            partition
            for partition in topic.topic_partitions()
            if known is None or partition.partition not in known.assignment.partitions
        ]
        self.partitions.move(added, PartitionStatus.NEW)
        self.replicas.move(self.replicas_of(added), ReplicaStatus.NEW)
        return added

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self.topic_names.get(topic_id)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """All replicas of the partitions, in order."""
        return [
            Replica(partition, broker_id)
            for partition in partitions
            for broker_id in self.topics[partition.topic].replicas(partition.partition)
        ]

    def remove_topic(self, name: str) -> None:
        """Removes everything about a deleted topic."""
        topic = self.topics.get(name)
        if topic is None:
            return
        partitions = list(topic.topic_partitions())
        replicas = self.replicas_of(partitions)
        self.replicas.forget(replicas)
        for replica in replicas:
            self.failed_replicas.pop(replica, None)
        self.partitions.forget(partitions)
        for partition in partitions:
            self.states.pop(partition, None)
        del self.topics[name]
        if topic.topic_id is not None:
            self.topic_names.pop(topic.topic_id, None)
        self.topics_to_delete.pop(name, None)
        for path in [path for path in self.malformed if path.startswith(f"{topic_path(name)}/")]:
            del self.malformed[path]
