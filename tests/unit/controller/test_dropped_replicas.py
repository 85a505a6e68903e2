"""Replicas that a reassignment dropped, until their brokers have confirmed that they deleted them."""

from __future__ import annotations

from kavka.controller.decide.context import ControllerContext, KnownTopic, LiveBroker
from kavka.controller.decide.dropped_replicas import DroppedReplicas, Due
from kavka.controller.decide.state_machines import Replica
from kavka.model import BrokerId, LeaderEpoch, TopicPartition
from kavka.zookeeper.znodes import BrokerRegistration, TopicAssignment

T0 = TopicPartition("t", 0)
ON_2 = Replica(T0, BrokerId(2))
EPOCH = LeaderEpoch(7)


def register(context: ControllerContext, epoch: int) -> None:
    """Broker 2 is registered with that epoch."""
    live = LiveBroker(BrokerRegistration(BrokerId(2), (), 0), epoch)
    context.set_brokers({**context.brokers, BrokerId(2): live})


def assign(context: ControllerContext, *replicas: int) -> None:
    context.set_topic(KnownTopic(TopicAssignment("t", {0: tuple(map(BrokerId, replicas))}, None), 0))


def dropped_from_2(*, registered: bool = True) -> tuple[ControllerContext, DroppedReplicas]:
    """Partition 0 has moved from broker 2 to broker 1; broker 2 was told to delete it."""
    context = ControllerContext()
    assign(context, 1)
    if registered:
        register(context, 10)
    replicas = DroppedReplicas(context)
    replicas.on_dropped(ON_2, EPOCH)
    return context, replicas


def test_a_broker_is_not_told_twice_in_one_life() -> None:
    _, replicas = dropped_from_2()
    assert replicas.take_due() == []


def test_a_broker_that_is_back_in_another_life_is_told_again_once() -> None:
    context, replicas = dropped_from_2()
    register(context, 11)
    assert replicas.take_due() == [Due(ON_2, EPOCH)]
    assert replicas.take_due() == []


def test_a_broker_that_was_away_is_told_when_it_is_there() -> None:
    context, replicas = dropped_from_2(registered=False)
    assert replicas.take_due() == []
    register(context, 10)
    assert replicas.take_due() == [Due(ON_2, EPOCH)]


def test_what_a_broker_has_deleted_is_not_ordered_again() -> None:
    context, replicas = dropped_from_2()
    replicas.on_deleted(BrokerId(2), [T0])
    register(context, 11)
    assert replicas.take_due() == []


def test_a_replica_that_is_wanted_again_is_not_deleted() -> None:
    context, replicas = dropped_from_2()
    assign(context, 1, 2)
    register(context, 11)
    assert replicas.take_due() == []
    assign(context, 1)
    register(context, 12)
    assert replicas.take_due() == [], "it is no longer a dropped replica of the former reassignment"


def test_one_that_is_gone_with_its_topic_does_not_hold_up_the_others() -> None:
    context, replicas = dropped_from_2()
    gone = Replica(TopicPartition("gone", 0), BrokerId(2))
    others = DroppedReplicas(context)
    for replica in (gone, ON_2):
        others.on_dropped(replica, EPOCH)
    register(context, 11)
    assert others.take_due() == [Due(ON_2, EPOCH)]
    assert replicas.take_due() == [Due(ON_2, EPOCH)]
