"""The content of the controller's messages, in any version: one value for each partition or broker.

Must not know what follows from it (state_changes.py).

Source: Kafka's LeaderAndIsrRequest, UpdateMetadataRequest and StopReplicaRequest, and their versions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kavka.broker.metadata.metadata_cache import BrokerMetadata, Endpoint, PartitionMetadata
from kavka.controller.decide.topic_plans import topic_name_error
from kavka.model import NO_EPOCH, NO_TOPIC_ID, BrokerId, LeaderAndIsr, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from kavka.protocol.messages.leader_and_isr_request import LeaderAndIsrPartitionState, LeaderAndIsrRequest
    from kavka.protocol.messages.stop_replica_request import StopReplicaRequest
    from kavka.protocol.messages.update_metadata_request import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

LEADER_DURING_DELETE: Final = -2
"""As a leader in UpdateMetadata: the partition's topic is being deleted."""
EPOCH_DURING_DELETE: Final = -2
"""As a leader epoch in StopReplica: the topic is being deleted, whatever epoch its leaders had reached."""
MAX_PARTITION_INDEX: Final = 1_000_000
"""No controller makes a partition above it: one request makes at most 10,000. Metadata has a place for each partition
up to a topic's highest, so a message that named partition 2^30 held up every client for minutes."""
MAX_SHOWN: Final = 64
"""Characters of an impossible topic name that the log shows."""
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's numbers of them. Before version 3 of UpdateMetadata they were the names of the listeners too."""


class Order(NamedTuple):
    """What LeaderAndIsr says of one partition."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    state: LeaderAndIsr
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    is_new: bool


class Stop(NamedTuple):
    """What StopReplica says of one partition. `leader_epoch` is -1 if the controller sends none."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


def impossible_topic(name: str) -> str | None:
    """Why no topic has this name, or None. Such a name may lead to a directory elsewhere, or to another znode."""
    problem = topic_name_error(name)
    if problem is None or len(name) <= MAX_SHOWN:
        return problem
    return f"Topic name is invalid: {name[:MAX_SHOWN]!r}..."


def is_possible_index(partition: int) -> bool:
    """Whether a topic may have a partition of this number."""
    return 0 <= partition <= MAX_PARTITION_INDEX


def orders_of(request: LeaderAndIsrRequest) -> Iterator[Order]:
    """What is said of each partition."""
    for state in request.ungrouped_partition_states:  # versions 0-1
        yield _order(state.topic_name, NO_TOPIC_ID, state)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _order(topic.topic_name, topic.topic_id, state)


def _order(topic: str, topic_id: uuid.UUID, state: LeaderAndIsrPartitionState) -> Order:
    return Order(
        TopicPartition(topic, state.partition_index),
        topic_id,
        LeaderAndIsr(BrokerId(state.leader), state.leader_epoch, _broker_ids(state.isr), state.partition_epoch),
        _broker_ids(state.replicas),
        _broker_ids(state.adding_replicas),
        _broker_ids(state.removing_replicas),
        state.is_new,
    )


def _broker_ids(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    return cast("tuple[BrokerId, ...]", tuple(ids))


def broker_of(broker: UpdateMetadataBroker) -> BrokerMetadata:
    """A live broker."""
    endpoints = {
        endpoint.listener or _SECURITY_PROTOCOLS[endpoint.security_protocol]: Endpoint(endpoint.host, endpoint.port)
        for endpoint in broker.endpoints
    }
    if not endpoints:  # version 0
        endpoints = {_SECURITY_PROTOCOLS[0]: Endpoint(broker.v0_host, broker.v0_port)}
    is_leaving = broker.kavka_is_shutting_down
    return BrokerMetadata(BrokerId(broker.id), endpoints, broker.rack or None, is_shutting_down=is_leaving)


def topics_of(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[str, uuid.UUID, Sequence[UpdateMetadataPartitionState]]]:
    """The partitions by topic; NO_TOPIC_ID in versions without ids."""
    by_name: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:  # versions 0-4
        by_name.setdefault(state.topic_name, []).append(state)
    for name, states in by_name.items():
        yield name, NO_TOPIC_ID, states
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states


def partition_of(state: UpdateMetadataPartitionState) -> PartitionMetadata:
    """A partition as clients are to be shown it."""
    return PartitionMetadata(
        _broker_ids(state.replicas),
        LeaderAndIsr(BrokerId(state.leader), state.leader_epoch, _broker_ids(state.isr), state.zk_version),
        _broker_ids(state.offline_replicas),
    )


def stops_of(request: StopReplicaRequest) -> Iterator[Stop]:
    """What is said of each partition."""
    for partition in request.ungrouped_partitions:  # version 0
        yield Stop(TopicPartition(partition.topic_name, partition.partition_index), NO_EPOCH, request.delete_partitions)
    for topic in request.topics:  # versions 1-2
        for index in topic.partition_indexes:
            yield Stop(TopicPartition(topic.name, index), NO_EPOCH, request.delete_partitions)
    for state in request.topic_states:
        for stop in state.partition_states:
            topic_partition = TopicPartition(state.topic_name, stop.partition_index)
            yield Stop(topic_partition, stop.leader_epoch, stop.delete_partition)
