"""What a cluster can afford to lose, decided from the state of its replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.durability import Health, PartitionReplicas, health, loss_of, risks
from kavka.model import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def partition(
    *in_sync: int, leader: int = 1, min_insync_replicas: int = 2, log_ends: dict[int, int] | None = None
) -> PartitionReplicas:
    ends = {1: 100, 2: 100, 3: 100} if log_ends is None else log_ends
    return PartitionReplicas(ORDERS_0, leader, 5, (1, 2, 3), in_sync, min_insync_replicas, ends)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (partition(1, 2, 3), Health.FULL),
        (partition(1, 2), Health.AT_LIMIT),
        (partition(1, 2, min_insync_replicas=1), Health.UNDER_REPLICATED),
        (partition(1, min_insync_replicas=1), Health.LAST_REPLICA),
        (partition(1), Health.BLOCKED),
        (partition(2, leader=-1), Health.OFFLINE),
    ],
)
def test_the_worst_that_can_be_said_of_a_partition(state: PartitionReplicas, expected: Health) -> None:
    assert health(state) is expected


@pytest.mark.parametrize("least", [1, 2, 5])
def test_no_more_need_to_be_in_sync_than_there_are_replicas(least: int) -> None:
    alone = PartitionReplicas(ORDERS_0, 1, 0, (1,), (1,), least, {1: 7})
    assert health(alone) is Health.FULL
    (risk,) = risks([alone], [1])
    assert risk.unavailable == (ORDERS_0,)
    assert not risk.blocked


def test_a_replica_out_of_sync_is_no_loss() -> None:
    assert loss_of(partition(1, 2), broker=3) is None


def test_a_follower_of_a_full_isr_is_no_loss() -> None:
    assert loss_of(partition(1, 2, 3), broker=2) is None


def test_the_only_replica_in_sync_takes_the_partition_with_it() -> None:
    loss = loss_of(partition(1, min_insync_replicas=1), broker=1)

    assert loss is not None
    assert loss.unavailable
    assert not loss.blocked


def test_the_last_one_above_the_minimum_blocks_writes() -> None:
    loss = loss_of(partition(1, 2), broker=2)

    assert loss is not None
    assert loss.blocked
    assert not loss.unavailable


def test_writes_that_are_refused_already_are_not_blocked_once_more() -> None:
    below = partition(1, 2, min_insync_replicas=3)

    assert loss_of(below, broker=2) is None


def test_what_only_the_leader_has_is_lost_with_it_and_with_nobody_else() -> None:
    ahead = partition(1, 2, 3, log_ends={1: 120, 2: 100, 3: 110})
    loss = loss_of(ahead, broker=1)

    assert loss is not None
    assert loss.unreplicated == 10
    assert loss_of(ahead, broker=2) is None


def test_a_lagging_replica_outside_of_the_isr_saves_nothing() -> None:
    ahead = partition(1, 2, log_ends={1: 120, 2: 100, 3: 115}, min_insync_replicas=1)
    loss = loss_of(ahead, broker=1)

    assert loss is not None
    assert loss.unreplicated == 20


def test_log_ends_that_nobody_told_are_not_guessed() -> None:
    assert loss_of(partition(1, 2, 3, log_ends={}), broker=1) is None
    assert loss_of(partition(1, 2, 3, log_ends={1: 50}), broker=1) is None


def test_a_broker_is_safe_to_restart_if_nothing_becomes_unavailable_or_blocked() -> None:
    states = [
        partition(1, 2, 3, log_ends={1: 103, 2: 100, 3: 100}),
        partition(2, 3, leader=2)._replace(partition=TopicPartition("orders", 1)),
        partition(3, leader=3, min_insync_replicas=1)._replace(partition=TopicPartition("orders", 2)),
    ]
    first, second, third = risks(states, [1, 2, 3])

    assert first.safe_to_restart
    assert first.unreplicated == 3
    assert not second.safe_to_restart
    assert second.blocked == (TopicPartition("orders", 1),)
    assert third.unavailable == (TopicPartition("orders", 2),)
    assert third.blocked == (TopicPartition("orders", 1),)


BROKERS = [1, 2, 3]
STATES = st.builds(
    lambda in_sync, leader, least, log_ends: partition(
        *in_sync, leader=leader, min_insync_replicas=least, log_ends=log_ends
    ),
    st.lists(st.sampled_from(BROKERS), unique=True),
    st.sampled_from([-1, *BROKERS]),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(BROKERS), st.integers(90, 110)),
)


@given(st.lists(STATES, max_size=4))
def test_the_risks_of_brokers_are_the_losses_of_all_partitions(states: list[PartitionReplicas]) -> None:
    for risk in risks(states, BROKERS):
        losses = [loss for each in states if (loss := loss_of(each, risk.broker)) is not None]
        assert risk.unavailable == tuple(loss.partition for loss in losses if loss.unavailable)
        assert risk.blocked == tuple(loss.partition for loss in losses if loss.blocked)
        assert risk.unreplicated == sum(loss.unreplicated for loss in losses)
