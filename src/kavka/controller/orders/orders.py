"""Orders: what the controller decided and wrote, as values, for the brokers to carry out.

They know no request form (`requests` makes the requests of them) and nothing of how they travel (`channels`).
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from kavka.controller.decide.context import ControllerContext
from kavka.controller.decide.election import ElectionResult
from kavka.model import BrokerId, LeaderAndIsr, LeaderEpoch, TopicPartition
from kavka.zookeeper.znodes import RECOVERED


class PartitionOrder(NamedTuple):
    """A partition's state, written and to be obeyed by the brokers of `replicas`.

    `is_new`: it has just been created. `why` is the election behind it, if there was one. `recipients` are the brokers
    that must act on it: None for all of `replicas`, none of them where only the metadata changed. `recovery` is the
    leader recovery state.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    replicas: tuple[BrokerId, ...]
    state: LeaderAndIsr
    controller_epoch: int
    is_new: bool
    why: ElectionResult | None = None
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    recovery: int = RECOVERED
    recipients: tuple[BrokerId, ...] | None = None


class StopOrder(NamedTuple):
    """A replica that is to stop, and to be deleted if `delete`. A broker that knows a later leader epoch refuses;
    EPOCH_DURING_DELETE is obeyed whatever it knows."""

    topic_partition: TopicPartition
    broker_id: BrokerId
    leader_epoch: LeaderEpoch
    delete: bool


class DeletedTopic(NamedTuple):
    """A topic whose deletion begins: it is gone from the metadata, and its replicas are to be deleted, everywhere."""

    name: str
    topic_id: uuid.UUID | None


class ClusterChange(NamedTuple):
    """What was decided and written, for the brokers to carry out.

    `brokers_changed`: others are alive than before, or under other addresses. `new_brokers` know nothing yet: they are
    sent everything. `is_complete`: `partitions` are all that there are, for all brokers (a controller's first orders).
    `withheld_from` are registered brokers that are to learn nothing of it yet.
    """

    partitions: tuple[PartitionOrder, ...] = ()
    deleted_topics: tuple[DeletedTopic, ...] = ()
    brokers_changed: bool = False
    stops: tuple[StopOrder, ...] = ()
    new_brokers: tuple[BrokerId, ...] = ()
    is_complete: bool = False
    withheld_from: tuple[BrokerId, ...] = ()


def partition_order(
    context: ControllerContext,
    partition: TopicPartition,
    *,
    is_new: bool = False,
    why: ElectionResult | None = None,
    recipients: tuple[BrokerId, ...] | None = None,
) -> PartitionOrder:
    """The order that follows from the context's state of a partition, which has one."""
    topic = context.topics[partition.topic]
    known = context.states[partition]
    return PartitionOrder(
        partition,
        topic.topic_id,
        topic.replicas(partition.partition),
        known.leader_and_isr,
        known.state.controller_epoch,
        is_new,
        why,
        topic.adding(partition.partition),
        topic.removing(partition.partition),
        known.state.leader_recovery_state,
        recipients,
    )
