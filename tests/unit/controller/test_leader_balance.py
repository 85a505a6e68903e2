"""Which elections a wish needs, and which partitions are given back to the replica that should lead them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic
from kavka.controller.decide.leader_balance import BrokerBalance, LeftOut, balances
from kavka.controller.decide.requested_election import ElectionType, is_needed
from kavka.controller.decide.state_machines import Replica
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.znodes import PartitionState, TopicAssignment
from tests.unit.controller.reassignment_support import registered

T0 = TopicPartition("t", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


@pytest.mark.parametrize(
    ("wish", "leader", "alive", "needed"),
    [
        (PREFERRED, 1, (1, 2), False),
        (PREFERRED, 2, (1, 2), True),
        (PREFERRED, NO_LEADER, (1, 2), True),
        (UNCLEAN, 2, (1, 2), False),
        (UNCLEAN, 2, (1,), True),
        (UNCLEAN, NO_LEADER, (1,), True),
    ],
)
def test_where_an_election_is_needed(wish: ElectionType, leader: int, alive: tuple[int, ...], needed: bool) -> None:
    assert is_needed(wish, ids(1, 2), BrokerId(leader), ids(*alive)) is needed


def cluster(led: dict[int, tuple[int, int, tuple[int, ...]]]) -> ControllerContext:
    """Partitions of "t": number to (preferred, leader, ISR)."""
    context = ControllerContext(epoch=1)
    context.set_brokers(registered({BrokerId(broker_id): 1 for broker_id in (1, 2, 3)}))
    others = {1: (2, 3), 2: (3, 1), 3: (1, 2)}
    assignment = TopicAssignment("t", {number: (first, *others[first]) for number, (first, _, _) in led.items()}, None)
    context.set_topic(KnownTopic(assignment, 0))
    for number, (_, leader, isr) in led.items():
        context.states[TopicPartition("t", number)] = KnownState(PartitionState(BrokerId(leader), 1, ids(*isr), 1), 0)
    return context


AT_HOME, AWAY, OUT_OF_SYNC = (1, 1, (1, 2, 3)), (1, 2, (1, 2, 3)), (1, 2, (2, 3))


@pytest.mark.setting("leader.imbalance.per.broker.percentage")
@pytest.mark.parametrize(
    ("led", "limit", "elected"),
    [
        ([AT_HOME] * 10, 10, 0),
        ([AWAY] + [AT_HOME] * 9, 10, 0),  # Exactly the limit is no imbalance.
        ([AWAY] + [AT_HOME] * 8, 10, 1),
        ([AWAY] * 5 + [AT_HOME] * 5, 50, 0),
        ([AWAY] * 6 + [AT_HOME] * 4, 50, 6),
        ([AWAY] * 51 + [AT_HOME] * 50, 50, 51),
        ([AWAY] + [AT_HOME] * 99, 0, 1),
        ([OUT_OF_SYNC] * 3 + [AT_HOME], 10, 0),
        ([OUT_OF_SYNC] * 3 + [AWAY], 10, 1),
        ([(1, NO_LEADER, (1,)), AT_HOME], 10, 1),
    ],
)
def test_the_limit_decides_and_only_what_can_succeed_is_tried(
    led: list[tuple[int, int, tuple[int, ...]]], limit: int, elected: int
) -> None:
    context = cluster(dict(enumerate(led)))
    (balance,) = balances(context, limit_percent=limit, reassigning=False)
    assert balance.broker_id == 1
    assert len(balance.to_elect) == elected
    if balance.imbalance > limit / 100:
        assert set(balance.left_out.values()) <= {LeftOut.NOT_ELECTABLE}
        assert len(balance.to_elect) + len(balance.left_out) == len(balance.elsewhere)


def test_each_broker_is_looked_at_for_itself() -> None:
    away, home = (2, 3, (1, 2, 3)), (1, 1, (1, 2, 3))
    found = balances(cluster(dict(enumerate([away, *[home] * 20]))), limit_percent=10, reassigning=False)
    assert [(each.broker_id, len(each.to_elect)) for each in found] == [(1, 0), (2, 1)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda context: context.topics_to_delete.update({"t": None}),
        lambda context: context.brokers.pop(BrokerId(1)),
        lambda context: context.shutting_down.update({BrokerId(1): 1}),
    ],
)
def test_nothing_is_given_to_a_broker_that_cannot_take_it(spoil: Callable[[ControllerContext], object]) -> None:
    context = cluster({0: AWAY})
    spoil(context)
    assert not any(each.to_elect for each in balances(context, limit_percent=10, reassigning=False))


def test_a_topic_that_is_being_deleted_does_not_hide_those_after_it() -> None:
    context = cluster({0: AWAY})
    context.topics = {"deleted": context.topics["t"], **context.topics}
    context.topics_to_delete["deleted"] = None
    (balance,) = balances(context, limit_percent=10, reassigning=False)
    assert balance.to_elect == (T0,)


def test_nothing_is_given_back_while_partitions_move() -> None:
    (balance,) = balances(cluster({0: AWAY}), limit_percent=10, reassigning=True)
    assert (balance.to_elect, balance.left_out) == ((), {T0: LeftOut.REASSIGNMENT})


def test_a_disk_that_failed_under_the_preferred_replica_and_partitions_without_state_are_left_alone() -> None:
    context = cluster({0: AWAY, 1: AWAY, 2: AWAY})
    context.failed_replicas[Replica(T0, BrokerId(1))] = None
    del context.states[TopicPartition("t", 1)]
    (balance,) = balances(context, limit_percent=10, reassigning=False)
    assert balance == BrokerBalance(
        BrokerId(1),
        3,
        (T0, TopicPartition("t", 2)),
        (TopicPartition("t", 2),),
        {T0: LeftOut.NOT_ELECTABLE},
    )
    assert balance.imbalance == 2 / 3


def test_a_partition_without_replicas_is_nobodys() -> None:
    context = cluster({0: AT_HOME})
    context.topics["u"] = KnownTopic(TopicAssignment("u", {0: ()}, None), 0)
    assert balances(context, limit_percent=10, reassigning=False) == [BrokerBalance(BrokerId(1), 1, ())]
    assert not is_needed(PREFERRED, (), BrokerId(1), ())
