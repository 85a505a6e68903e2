"""Dropped replicas: those that a reassignment took off a broker which has not confirmed that it deleted them.

Decides which brokers are ordered again to stop and delete. It must not know how orders travel.

    told in this life of the broker    wait for its answer
    the broker is away                 wait for it
    the broker is back in another      order it again: it may still have the replica, and would ask its leader for
    life                               records for ever
    the topic is deleted, or the       forget it
    replica is wanted again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext
from kavka.controller.decide.state_machines import Replica
from kavka.model import BrokerId, LeaderEpoch, TopicPartition


class Due(NamedTuple):
    """A replica that its broker is to delete, in that leader epoch."""

    replica: Replica
    leader_epoch: LeaderEpoch


class _Told(NamedTuple):
    """When the broker was told last; `broker_epoch` is NO_BROKER_EPOCH if it was away."""

    leader_epoch: LeaderEpoch
    broker_epoch: int


class DroppedReplicas:
    """The dropped replicas of one term."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._told: dict[Replica, _Told] = {}

    def on_dropped(self, replica: Replica, leader_epoch: LeaderEpoch) -> None:
        """The broker is being ordered to delete the replica."""
        self._told[replica] = _Told(leader_epoch, self._context.broker_epoch(replica.broker_id))

    def on_deleted(self, broker_id: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """The broker deleted its replicas of these partitions."""
        for partition in partitions:
            self._told.pop(Replica(partition, broker_id), None)

    def take_due(self) -> list[Due]:
        """Replicas whose brokers must be ordered again in their present incarnation. They count as ordered from now
        on."""
        due = []
        for replica, told in list(self._told.items()):
            partition, broker_id = replica
            topic = self._context.topics.get(partition.topic)
            replicas = topic.assignment.partitions.get(partition.partition) if topic is not None else None
            if replicas is None or broker_id in replicas:
                del self._told[replica]  # It was deleted with its topic, or is wanted again.
                continue
            broker_epoch = self._context.broker_epoch(broker_id)
            if broker_epoch not in (told.broker_epoch, NO_BROKER_EPOCH):
                self._told[replica] = told._replace(broker_epoch=broker_epoch)
                due.append(Due(replica, told.leader_epoch))
        return due
