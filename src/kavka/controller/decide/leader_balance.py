"""Leader balance: which partitions are given back to the replica that should lead them.

    for each broker   preferred = partitions whose first replica it holds
                      elsewhere = those of them that another leads, or nobody
                      imbalance = elsewhere / preferred
    imbalance > leader.imbalance.per.broker.percentage / 100: an election for each of `elsewhere`, except where

        reason left out        because
        REASSIGNMENT           somewhere in the cluster a partition is being reassigned: leaders move for that already
        NOT_ELECTABLE          the broker is not alive or not in sync: nothing could come of it

Topics that are being deleted do not count at all.

Invariant:
I1  Only preferred elections: never a leader from outside the ISR (KAFKA-9866).

Source: Kafka's KafkaController.checkAndTriggerAutoLeaderRebalance.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kavka.controller.decide.context import ControllerContext
from kavka.controller.decide.election import Elected
from kavka.controller.decide.requested_election import ElectionType, hold
from kavka.model import BrokerId, TopicPartition


class LeftOut(Enum):
    """Why a partition that another leads is not given back."""

    REASSIGNMENT = "a reassignment is under way"
    NOT_ELECTABLE = "the preferred replica is not alive or not in sync"


class BrokerBalance(NamedTuple):
    """One broker: how many partitions prefer it, which of them are led elsewhere, and what is to be done about it."""

    broker_id: BrokerId
    preferred_count: int
    elsewhere: tuple[TopicPartition, ...]
    to_elect: tuple[TopicPartition, ...] = ()
    left_out: Mapping[TopicPartition, LeftOut] = {}

    @property
    def imbalance(self) -> float:
        return len(self.elsewhere) / self.preferred_count


def balances(context: ControllerContext, *, limit_percent: int, reassigning: bool) -> list[BrokerBalance]:
    """Every broker that partitions prefer, by id."""
    preferred: dict[BrokerId, list[TopicPartition]] = {}
    for name, topic in context.topics.items():
        if name in context.topics_to_delete:
            continue
        for partition in topic.topic_partitions():
            replicas = topic.replicas(partition.partition)
            if replicas:
                preferred.setdefault(replicas[0], []).append(partition)
    return [
        _balance(context, broker_id, preferred[broker_id], limit_percent, reassigning=reassigning)
        for broker_id in sorted(preferred)
    ]


def _balance(
    context: ControllerContext,
    broker_id: BrokerId,
    preferred: list[TopicPartition],
    limit_percent: int,
    *,
    reassigning: bool,
) -> BrokerBalance:
    elsewhere = tuple(
        partition
        for partition in preferred
        if (known := context.states.get(partition)) is not None and known.state.leader != broker_id
    )
    balance = BrokerBalance(broker_id, len(preferred), elsewhere)
    if balance.imbalance <= limit_percent / 100:
        return balance
    electable = context.electable_broker_ids()
    to_elect: list[TopicPartition] = []
    left_out: dict[TopicPartition, LeftOut] = {}
    for partition in elsewhere:
        replicas = context.topics[partition.topic].replicas(partition.partition)
        live = [each for each in replicas if each in electable and not context.is_offline(partition, each)]
        if reassigning:
            left_out[partition] = LeftOut.REASSIGNMENT
        elif isinstance(hold(ElectionType.PREFERRED, replicas, context.states[partition].state.isr, live), Elected):
            to_elect.append(partition)
        else:
            left_out[partition] = LeftOut.NOT_ELECTABLE
    return balance._replace(to_elect=tuple(to_elect), left_out=left_out)
