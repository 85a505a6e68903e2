"""What a reassignment makes of an assignment and of a partition's state, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.decide.election import Elected, PartitionChange
from kavka.controller.decide.reasons import PartitionView, Stamp, reassignment_decision
from kavka.controller.decide.reassignment import (
    ReassignmentRefused,
    ReplicaAssignment,
    Step,
    assigned,
    begin,
    dropped,
    next_step,
    plan_reassignment,
    settle,
    with_assigned,
)
from kavka.decisions import Decision
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.znodes import PartitionState, TopicAssignment

LIVE = tuple(map(BrokerId, range(1, 8)))


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(BrokerId(leader), 7, ids(*isr), 1)


REST = ReplicaAssignment(ids(1, 2, 3))
ON_THE_WAY = ReplicaAssignment(ids(4, 1, 2, 3), ids(4), ids(2, 3))


@pytest.mark.parametrize(
    ("current", "target", "planned"),
    [
        (REST, (4, 5, 6), ReplicaAssignment(ids(4, 5, 6, 1, 2, 3), ids(4, 5, 6), ids(1, 2, 3))),
        (REST, (3, 1, 2), ReplicaAssignment(ids(3, 1, 2))),
        (REST, (1,), ReplicaAssignment(ids(1, 2, 3), (), ids(2, 3))),
        (REST, (1, 2, 3, 4), ReplicaAssignment(ids(1, 2, 3, 4), ids(4))),
        (REST, (4, 1, 2), ReplicaAssignment(ids(4, 1, 2, 3), ids(4), ids(3))),
        (ON_THE_WAY, (5, 1), ReplicaAssignment(ids(5, 1, 2, 3), ids(5), ids(2, 3))),
        (ON_THE_WAY, (4, 1), ON_THE_WAY),
        (ON_THE_WAY, (1, 2, 3), REST),
        (ON_THE_WAY, None, REST),
    ],
)
def test_a_wish_becomes_the_assignment_to_begin_with(
    current: ReplicaAssignment, target: tuple[int, ...] | None, planned: ReplicaAssignment
) -> None:
    assert plan_reassignment(current, target, LIVE) == planned


def test_broker_0_is_a_broker_and_a_negative_number_is_none() -> None:
    planned = plan_reassignment(REST, (0, 1, 2), ids(0, 1, 2, 3))
    assert planned == ReplicaAssignment(ids(0, 1, 2, 3), ids(0), ids(3))
    refused = plan_reassignment(REST, (-1, 1, 2), ids(-1, 1, 2, 3))
    assert isinstance(refused, ReassignmentRefused)
    assert "Invalid broker id in replica list" in refused.message


def told(before: ReplicaAssignment, after: ReplicaAssignment, known: PartitionState | None = None) -> Decision:
    view = PartitionView(TopicPartition("t", 0), known, LIVE)
    return reassignment_decision(Stamp(7, BrokerId(1), 4), view, before, after)


def test_a_reassignment_is_told_with_what_becomes_of_the_former_wish_and_of_the_replicas() -> None:
    onward = plan_reassignment(ON_THE_WAY, (5, 1), LIVE)
    assert isinstance(onward, ReplicaAssignment)
    assert told(ON_THE_WAY, onward).why == "the partition moves from (1, 2, 3) to (5, 1), no longer to (4, 1)"
    assert told(REST, ON_THE_WAY).why == "the partition moves from (1, 2, 3) to (4, 1)"
    assert told(ON_THE_WAY, ReplicaAssignment(ids(4, 1))).why == (
        "all of (4, 1) are in sync; the replicas on (2, 3) are deleted"
    )
    added = ReplicaAssignment(ids(1, 2, 3, 4), ids(4))
    assert told(added, ReplicaAssignment(ids(1, 2, 3, 4))).why == "all of (1, 2, 3, 4) are in sync"


def test_a_reassignment_is_told_in_the_epoch_of_the_partitions_leader() -> None:
    assert told(REST, ON_THE_WAY).leader_epoch == -1, "it has no state"
    assert told(REST, ON_THE_WAY, state(1, 1, 2, 3)).leader_epoch == 7


@given(st.lists(st.integers(1, 7), unique=True, min_size=1), st.lists(st.integers(1, 7), unique=True, min_size=1))
def test_origin_and_target_can_be_told_from_the_three_lists_alone(origin: list[int], target: list[int]) -> None:
    moved = ReplicaAssignment(ids(*origin)).moved_to(ids(*target))
    assert moved.target == ids(*target)
    assert sorted(moved.origin) == sorted(origin)
    assert moved.is_being_reassigned == (sorted(origin) != sorted(target))
    assert sorted(moved.moved_to(moved.origin).replicas) == sorted(origin)
    assert sorted(dropped(moved, ReplicaAssignment(moved.target))) == sorted(set(origin) - set(target))


def test_a_topics_znode_carries_the_lists_of_each_partition() -> None:
    topic = TopicAssignment("t", {0: (4, 1, 2, 3), 1: (1, 2)}, None, {0: (4,)}, {0: (2, 3)})
    assert assigned(topic, 0) == ON_THE_WAY
    assert assigned(topic, 1) == ReplicaAssignment(ids(1, 2))
    moved = with_assigned(topic, {0: ReplicaAssignment(ids(4, 1)), 1: ReplicaAssignment(ids(5, 1, 2), ids(5), ids(2))})
    assert moved == TopicAssignment("t", {0: ids(4, 1), 1: ids(5, 1, 2)}, None, {1: ids(5)}, {1: ids(2)})


@pytest.mark.parametrize(
    ("isr", "live", "step"),
    [
        ((1, 2, 3), (1, 2, 3, 4), Step.CATCH_UP),
        ((1, 2, 3, 4), (1, 2, 3, 4), Step.SETTLE),
        ((4, 1), (1,), Step.SETTLE),
        ((1, 2, 3, 4), (2, 3), Step.WAIT),
        ((2, 3, 4), (1, 2, 3, 4), Step.CATCH_UP),
    ],
)
def test_the_table_of_steps(isr: tuple[int, ...], live: tuple[int, ...], step: Step) -> None:
    assert next_step(ON_THE_WAY, ids(*isr), ids(*live)) is step


def test_a_beginning_changes_the_epoch_and_nothing_else() -> None:
    assert begin(state(1, 1, 2), 9) == PartitionChange(PartitionState(BrokerId(1), 8, ids(1, 2), 9), None)


@pytest.mark.parametrize(
    ("keep", "before", "live", "leader", "isr"),
    [
        ((4, 1), state(1, 1, 2, 3, 4), (1, 2, 3, 4), 1, (1, 4)),
        ((4, 1), state(2, 1, 2, 4), (1, 2, 4), 4, (1, 4)),
        ((4, 1), state(2, 1, 2, 4), (1, 2), 1, (1, 4)),
        ((4, 1), state(1, 1, 4), (4,), 4, (1, 4)),
        ((1, 2), state(NO_LEADER, 1, 4), (4,), NO_LEADER, (1,)),
    ],
)
def test_leader_and_isr_come_onto_the_replicas_that_are_kept(
    keep: tuple[int, ...], before: PartitionState, live: tuple[int, ...], leader: int, isr: tuple[int, ...]
) -> None:
    result = settle(ids(*keep), before, ids(*live), 9)
    assert isinstance(result, PartitionChange)
    assert result.state == PartitionState(BrokerId(leader), 8, ids(*isr), 9)
    assert isinstance(result.election, Elected) == (leader not in (before.leader, NO_LEADER))


@pytest.mark.parametrize(
    ("keep", "before", "live"),
    [
        ((1, 2), state(4, 4), (1, 2, 4)),
        ((1, 2), state(NO_LEADER, 4), (1, 2)),
        ((1, 2), state(4, 4, 1), (2, 4)),
    ],
)
def test_what_would_leave_nobody_in_sync_or_nobody_to_lead_is_refused(
    keep: tuple[int, ...], before: PartitionState, live: tuple[int, ...]
) -> None:
    result = settle(ids(*keep), before, ids(*live), 9)
    assert isinstance(result, ReassignmentRefused)
    assert result.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("current", "target", "code", "message"),
    [
        (REST, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "There is no reassignment in progress to cancel."),
        (REST, (), INVALID, "Empty replica list specified in partition reassignment."),
        (REST, (4, 1, 4), INVALID, "Duplicate replica ids in partition reassignment replica list: [4, 1, 4]"),
        (REST, (1, -1), INVALID, "Invalid broker id in replica list: [1, -1]"),
        (
            REST,
            (1, 9, 4, 8),
            INVALID,
            "Replica assignment has brokers that are not alive: [9, 8]. Replicas to add: [9, 4, 8], live brokers: "
            "[1, 2, 3, 4, 5, 6, 7]",
        ),
    ],
)
def test_a_wish_that_cannot_be_granted_says_why(
    current: ReplicaAssignment, target: tuple[int, ...] | None, code: ErrorCode, message: str
) -> None:
    assert plan_reassignment(current, target, LIVE[::-1]) == ReassignmentRefused(code, message)


def test_who_is_down_keeps_the_replica_that_it_has() -> None:
    assert plan_reassignment(REST, (3, 2, 4), ids(4)) == ReplicaAssignment(ids(3, 2, 4, 1), ids(4), ids(1))


@pytest.mark.parametrize(
    ("current", "target", "refused"),
    [
        (REST, (4, 5, 6), ""),
        (REST, (1, 2), "The replication factor is changed from 3 to 2"),
        (REST, (1, 2, 3, 4), "The replication factor is changed from 3 to 4"),
        (ON_THE_WAY, (5, 6), ""),
        (ON_THE_WAY, (5, 6, 7), "The replication factor is changed from 2 to 3"),
        (ON_THE_WAY, None, ""),
    ],
)
def test_where_the_factor_must_stay_it_is_compared_with_that_of_the_present_target(
    current: ReplicaAssignment, target: tuple[int, ...] | None, refused: str
) -> None:
    planned = plan_reassignment(current, target, LIVE, may_change_factor=False)
    if refused:
        assert planned == ReassignmentRefused(ErrorCode.INVALID_REPLICATION_FACTOR, refused)
    else:
        assert isinstance(planned, ReplicaAssignment)


def test_a_partition_is_being_reassigned_while_replicas_come_or_go() -> None:
    assert [
        ReplicaAssignment(ids(1, 2), adding, removing).is_being_reassigned
        for adding, removing in (((), ()), (ids(2), ()), ((), ids(2)), (ids(1), ids(2)))
    ] == [False, True, True, True]


def test_who_leaves_with_the_end_of_a_reassignment_is_told_where_the_leader_goes_on() -> None:
    went = settle(ids(4, 1), state(1, 1, 2, 3, 4), LIVE, 9)
    assert isinstance(went, PartitionChange)
    assert went.why == "the partition moves to [4, 1]: replicas [2, 3] leave; leader 1 goes on with [1, 4]"
    assert went.staying == ids(4, 1)
    stays = settle(ids(1, 2), state(1, 1), LIVE, 9)
    assert isinstance(stays, PartitionChange)
    assert (stays.why, stays.staying, stays.election) == ("", ids(1, 2), None)
    another = settle(ids(4, 1), state(2, 2, 4), LIVE, 9)
    assert isinstance(another, PartitionChange)
    assert (another.why, another.staying) == ("", ids(4, 1))
    nobody = settle(ids(1, 2), state(NO_LEADER, 1), ids(2), 9)
    assert isinstance(nobody, PartitionChange)
    assert (nobody.why, nobody.staying, nobody.state.leader) == ("", ids(1, 2), NO_LEADER)


@pytest.mark.parametrize(
    ("keep", "before", "live", "message"),
    [
        (
            (1, 2),
            state(4, 4),
            (1, 2, 4),
            "No replica in sync would be left: in sync are [4], to be kept [1, 2]. Wait until one of these has caught "
            "up.",
        ),
        (
            (1, 2),
            state(4, 4, 1),
            (2, 4),
            "No replica could lead: alive are [2] of [1, 2], in sync [1]. Wait until one of these is back.",
        ),
    ],
)
def test_a_step_that_is_refused_says_who_is_waited_for(
    keep: tuple[int, ...], before: PartitionState, live: tuple[int, ...], message: str
) -> None:
    assert settle(ids(*keep), before, ids(*live), 9) == ReassignmentRefused(INVALID, message)
