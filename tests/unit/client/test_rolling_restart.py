"""When a broker may be restarted, and when it is back: partitions as they stand in, an answer out."""

from __future__ import annotations

import pytest

from kavka.client.durability import PartitionReplicas
from kavka.client.rolling_restart import behind, never_safe, why_not
from kavka.model import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def partition(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], *, least: int = 1, name: TopicPartition = P0
) -> PartitionReplicas:
    return PartitionReplicas(name, in_sync[0] if in_sync else -1, 1, replicas, in_sync, least, {})


@pytest.mark.parametrize(
    ("replicas", "least", "is_never_safe"),
    [
        ((1, 2, 3), 2, False),
        ((1, 2), 1, False),
        ((1, 2), 2, True),
        ((1,), 1, True),
        ((1,), 3, True),
        ((1, 2, 3), 3, True),
        ((4, 5), 2, False),
    ],
)
def test_a_partition_without_a_replica_to_spare_is_never_safe(
    replicas: tuple[int, ...], least: int, is_never_safe: bool
) -> None:
    found = never_safe([partition(replicas, replicas, least=least)], {1, 2})
    assert found == ([P0] if is_never_safe else [])


def test_a_broker_waits_while_it_is_the_only_one_in_sync_or_the_last_that_acks_all_needs() -> None:
    assert why_not([partition((1, 2), (1,))], 1, []) == "it is the only in-sync replica of orders-0"
    assert why_not([partition((1, 2, 3), (1, 2), least=2)], 1, []) == "acks=all would be refused on orders-0"
    assert why_not([partition((1, 2, 3), (1, 2), least=2)], 3, []) == ""
    assert why_not([partition((1, 2, 3), (1, 2, 3), least=2)], 1, []) == ""


def test_what_was_accepted_to_be_away_is_not_waited_for_but_the_others_are() -> None:
    alone, pair = partition((1,), (1,)), partition((1, 2), (1,), name=P1)
    assert why_not([alone], 1, [P0]) == ""
    assert why_not([alone, pair], 1, [P0]) == "it is the only in-sync replica of orders-1"


def test_a_broker_is_back_when_it_is_in_sync_everywhere() -> None:
    found = [partition((1, 2), (1,)), partition((1, 2), (2, 1), name=P1), partition((3,), (3,))]
    assert behind(found, 2) == [P0]
    assert behind(found, 1) == []
