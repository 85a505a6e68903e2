"""MetadataCache: what this broker tells clients about the cluster.

Holds what the controller last sent (UpdateMetadata): live brokers, topics, partitions, leaders. Decides nothing. It may
be older than ZooKeeper, never newer, and every broker has one.

    I1  a topic is found by its name and by its id, or by neither
    I2  the values in here are replaced, never changed: whoever holds one has a consistent view

Source: Kafka's ZkMetadataCache.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kavka.model import NO_LEADER, NO_TOPIC_ID, BrokerId, LeaderAndIsr
from kavka.replication.decide.replica import BrokerStatus

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})
"""Topics that only the broker itself writes."""
_ALIVE = BrokerStatus()
_LEAVING = BrokerStatus(is_shutting_down=True)


class Endpoint(NamedTuple):
    """Where a listener is reached."""

    host: str
    port: int


class BrokerMetadata(NamedTuple):
    """A live broker: an endpoint per listener name."""

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    is_shutting_down: bool = False


class PartitionMetadata(NamedTuple):
    """A partition as the controller last published it."""

    replicas: tuple[BrokerId, ...]
    state: LeaderAndIsr
    offline_replicas: tuple[BrokerId, ...] = ()


class TopicMetadata(NamedTuple):
    """A topic; `partitions` is indexed by partition number."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionMetadata, ...]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class MetadataCache:
    """What is known of the cluster."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id: BrokerId = NO_LEADER
        self._brokers: dict[BrokerId, BrokerMetadata] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[int, str] = {}
        """By topic id, as a number: a UUID computes its hash in Python, and a fetch asks for each of its partitions."""
        self.topics_version = 0
        """Rises when a topic comes, goes, is made anew or has another number of partitions."""

    # -- questions

    def brokers(self) -> list[BrokerMetadata]:
        """The live brokers, by id."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def has_other_than(self, broker_id: BrokerId) -> bool:
        """Whether another broker than this one lives, as far as is known here."""
        return any(each != broker_id for each in self._brokers)

    @property
    def is_empty(self) -> bool:
        """True if the controller has sent nothing yet: what is missing here may well exist."""
        return not self._brokers

    def endpoint(self, broker_id: BrokerId, listener_name: str) -> Endpoint | None:
        """The address of a live broker for a client of the listener `listener_name`."""
        broker = self._brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener_name)

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self._brokers

    def rack(self, broker_id: BrokerId) -> str | None:
        """The rack of a live broker; None if it is not alive or says none."""
        broker = self._brokers.get(broker_id)
        return None if broker is None else broker.rack

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        """The broker's status, None if it is not alive.

        UpdateMetadata has not its epoch, and from a controller of Apache Kafka not whether it is shutting down. The
        controller knows both, and checks them when a leader proposes an ISR with that broker.
        """
        broker = self._brokers.get(broker_id)
        if broker is None:
            return None
        return _LEAVING if broker.is_shutting_down else _ALIVE

    def topics(self) -> Iterable[TopicMetadata]:
        return self._topics.values()

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self._names.get(topic_id.int)

    def topic_id(self, name: str) -> uuid.UUID:
        """The topic's id, the zero id where the topic is unknown."""
        topic = self._topics.get(name)
        return NO_TOPIC_ID if topic is None else topic.topic_id

    def partition(self, name: str, index: int) -> PartitionMetadata | None:
        topic = self._topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    # -- what the controller says

    def set_brokers(self, brokers: Iterable[BrokerMetadata]) -> bool:
        """Takes over who is alive. Returns whether somebody may join no ISR any more: is gone, or about to stop."""
        former = self._staying()
        self._brokers = {broker.broker_id: broker for broker in brokers}
        return not former <= self._staying()

    def _staying(self) -> set[BrokerId]:
        return {broker_id for broker_id, broker in self._brokers.items() if not broker.is_shutting_down}

    def set_topic(self, topic: TopicMetadata) -> None:
        known = self._topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id or len(known.partitions) != len(topic.partitions):
            self.topics_version += 1
        if known is not None:
            self._names.pop(known.topic_id.int, None)
        self._topics[topic.name] = topic
        if topic.topic_id.int:  # A controller older than topic ids sends zero for every topic.
            self._names[topic.topic_id.int] = topic.name

    def remove_topic(self, name: str) -> None:
        topic = self._topics.pop(name, None)
        if topic is not None:
            self.topics_version += 1
            self._names.pop(topic.topic_id.int, None)
