"""What becomes of a partition when a broker that has a replica of it is about to stop: every row of the table."""

from __future__ import annotations

from kavka.controller.decide.controlled_shutdown import leave
from kavka.controller.decide.election import Elected
from kavka.model import BrokerId
from kavka.zookeeper.znodes import RECOVERING, PartitionState


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, *isr: int, recovery: int = 0) -> PartitionState:
    return PartitionState(BrokerId(leader), 3, ids(*isr), 1, recovery)


def left(
    before: PartitionState, live: tuple[BrokerId, ...] = ids(1, 2, 3), leaving: tuple[BrokerId, ...] = ids(1)
) -> PartitionState | None:
    change = leave(BrokerId(1), ids(1, 2, 3), before, live, leaving, controller_epoch=2)
    return None if change is None else change.state


def test_the_next_in_sync_replica_that_stays_takes_over() -> None:
    assert left(state(1, 1, 2, 3)) == PartitionState(BrokerId(2), 4, ids(2, 3), 2)
    assert left(state(1, 1, 3)) == PartitionState(BrokerId(3), 4, ids(3), 2)
    assert left(state(1, 1, 2, 3), leaving=ids(1, 2)) == PartitionState(BrokerId(3), 4, ids(3), 2)
    assert left(state(1, 1, 2, 3), live=ids(1, 3)) == PartitionState(BrokerId(3), 4, ids(2, 3), 2)


def test_who_has_no_successor_leads_on() -> None:
    assert left(state(1, 1)) is None
    assert left(state(1, 1, 2), leaving=ids(1, 2)) is None
    assert left(state(1, 1, 2), live=ids(1, 3)) is None


def test_a_follower_leaves_the_isr_unless_it_is_the_last_of_it() -> None:
    assert left(state(2, 1, 2)) == PartitionState(BrokerId(2), 4, ids(2), 2)
    assert left(state(2, 2, 3)) is None
    assert left(state(-1, 1)) is None


def test_who_leaves_the_isr_is_not_called_dead() -> None:
    change = leave(BrokerId(1), ids(1, 2, 3), state(2, 1, 2), ids(1, 2, 3), ids(1), controller_epoch=2)
    assert change is not None
    assert change.why == "broker 1 is shutting down; leader 2 goes on with [2]"


def test_a_recovering_partition_stays_recovering() -> None:
    after = left(state(2, 1, 2, recovery=RECOVERING))
    assert after is not None
    assert after.leader_recovery_state == RECOVERING


def test_a_partition_without_a_successor_has_its_election_on_record() -> None:
    change = leave(BrokerId(1), ids(1, 2), state(1, 1, 2), ids(1, 2), ids(1), controller_epoch=2)
    assert change is not None
    assert isinstance(change.election, Elected)
    assert change.election.candidates == (1, 2)
