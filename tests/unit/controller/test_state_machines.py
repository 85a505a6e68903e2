"""The tables of partition and replica states."""

from __future__ import annotations

from itertools import product

import pytest

from kavka.controller.decide.reasons import refused_move_decision
from kavka.controller.decide.state_machines import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    Moves,
    PartitionStatus,
    RefusedMove,
    Replica,
    ReplicaStatus,
    partition_states,
    replica_states,
)
from kavka.model import BrokerId, TopicPartition

P, R = PartitionStatus, ReplicaStatus
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

LEGAL_PARTITION_MOVES = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.ONLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.ONLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
LEGAL_REPLICA_MOVES = {
    (R.NON_EXISTENT, R.NEW),
    (R.NEW, R.ONLINE),
    (R.NEW, R.OFFLINE),
    (R.ONLINE, R.ONLINE),
    (R.ONLINE, R.OFFLINE),
    (R.OFFLINE, R.ONLINE),
    (R.OFFLINE, R.OFFLINE),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
    (R.DELETION_INELIGIBLE, R.ONLINE),
    (R.DELETION_INELIGIBLE, R.OFFLINE),
}


@pytest.mark.parametrize(("before", "after"), list(product(P, P)))
def test_partitions_move_as_the_table_says(before: P, after: P) -> None:
    table = partition_states()
    table.load(T0, before)
    moves = table.move([T0], after)
    if (before, after) in LEGAL_PARTITION_MOVES:
        assert moves == Moves((T0,), ())
        assert table.state(T0) is after
    else:
        assert moves == Moves((), (RefusedMove(T0, before, after),))
        assert table.state(T0) is before


@pytest.mark.parametrize(("before", "after"), list(product(R, R)))
def test_replicas_move_as_the_table_says(before: R, after: R) -> None:
    replica = Replica(T0, BrokerId(1))
    table = replica_states()
    table.load(replica, before)
    table.move([replica], after)
    assert (table.state(replica) is after) == ((before, after) in LEGAL_REPLICA_MOVES or before is after)


def test_every_state_has_a_row() -> None:
    assert set(PARTITION_MOVES) == set(P)
    assert set(REPLICA_MOVES) == set(R)


def test_an_illegal_move_does_not_hold_up_the_others() -> None:
    table = partition_states()
    table.move([T0], P.NEW)
    table.move([T0], P.ONLINE)
    assert table.move([T0, T1], P.NEW) == Moves((T1,), (RefusedMove(T0, P.ONLINE, P.NEW),))


def test_counts_follow_every_move() -> None:
    table = partition_states()
    table.move([T0, T1], P.NEW)
    table.move([T0], P.ONLINE)
    assert (table.count(P.NEW), table.count(P.ONLINE), table.count(P.OFFLINE)) == (1, 1, 0)
    table.move([T0], P.OFFLINE)
    table.move([T0], P.NON_EXISTENT)
    assert (table.count(P.NEW), table.count(P.ONLINE), table.count(P.OFFLINE)) == (1, 0, 0)
    table.forget([T1, T1])
    assert table.count(P.NEW) == 0
    assert table.keys(P.NEW) == []


def test_what_is_forgotten_is_in_no_state_and_is_not_counted() -> None:
    table = partition_states()
    table.move([T0, T1], P.NEW)
    table.forget([T0])
    assert (table.state(T0), table.keys(P.NEW), table.count(P.NEW)) == (P.NON_EXISTENT, [T1], 1)
    table.forget([T0])
    assert table.count(P.NON_EXISTENT) == 0
    assert table.keys(P.NON_EXISTENT) == []


def test_a_refused_move_is_told_of_the_partition_or_of_the_replica() -> None:
    of_partition = partition_states().move([T0], P.ONLINE).refused[0]
    told = refused_move_decision(of_partition, at_ms=7, broker_id=BrokerId(1))
    assert told.partition == T0
    assert told.why.startswith("partition: ")
    of_replica = replica_states().move([Replica(T1, BrokerId(3))], R.ONLINE).refused[0]
    told = refused_move_decision(of_replica, at_ms=7, broker_id=BrokerId(1))
    assert told.partition == T1
    assert told.why.startswith("replica of broker 3: ")
