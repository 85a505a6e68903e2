"""The controller's why-records, word by word: elections, replicas that leave, brokers, reassignments."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.controller.decide.election import Elected, ElectionKind, ElectionResult, NotElected, PartitionChange
from kavka.controller.decide.reasons import (
    PartitionView,
    Stamp,
    broker_decision,
    partition_change_decision,
    reassignment_decision,
    reassignment_refused_decision,
    refused_move_decision,
    state_facts,
    topic_decision,
)
from kavka.controller.decide.reassignment import ReplicaAssignment
from kavka.controller.decide.state_machines import PartitionStatus, RefusedMove, Replica, ReplicaStatus
from kavka.decisions import Decision, DecisionKind, Fact
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.znodes import RECOVERED, PartitionState, TopicAssignment

T0 = TopicPartition("t", 0)
ONE = BrokerId(1)
STAMP = Stamp(1_000, BrokerId(9), 7)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, epoch: int, *isr: int, elr: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(BrokerId(leader), epoch, ids(*isr), 7, RECOVERED, ids(*elr))


def facts(leader: int, epoch: int, *isr: int) -> dict[str, Fact]:
    return {"leader": leader, "leader_epoch": epoch, "isr": isr}


def told(
    after: PartitionState, election: ElectionResult | None, why: str = "", unreachable: tuple[int, ...] = ()
) -> Decision:
    change = PartitionChange(after, election, why)
    before = state(1, 3, 1, 2, 3)
    return partition_change_decision(
        T0, before, change, at_ms=1_000, broker_id=BrokerId(9), unreachable=ids(*unreachable)
    )


@pytest.mark.parametrize(("unclean", "lost"), [(False, ""), (True, "; not in sync: records may be lost")])
def test_an_election_is_told_with_who_leads_why_and_what_may_be_lost(lost: str, *, unclean: bool) -> None:
    election = Elected(
        ElectionKind.OFFLINE, BrokerId(2), ids(2), unclean, "first live in-sync replica", ids(1, 2, 3), ids(2)
    )
    assert told(state(2, 4, 2), election, unreachable=(1,)) == Decision(
        DecisionKind.LEADER_ELECTED,
        1_000,
        BrokerId(9),
        f"offline election: broker 2 leads from epoch 4, first live in-sync replica{lost}",
        partition=T0,
        leader_epoch=4,
        controller_epoch=7,
        before=facts(1, 3, 1, 2, 3),
        after=facts(2, 4, 2),
        evidence={
            "unreachable": (1,),
            "election": "offline",
            "candidates": (1, 2, 3),
            "live": (2,),
            "unclean": unclean,
        },
    )


def test_that_nobody_could_be_elected_is_told_with_who_was_looked_at() -> None:
    election = NotElected(ElectionKind.PREFERRED, "the preferred replica is not alive", ids(1, 2), ids(2))
    assert told(state(NO_LEADER, 4, 1), election) == Decision(
        DecisionKind.LEADER_NOT_ELECTED,
        1_000,
        BrokerId(9),
        "preferred election: no leader, the preferred replica is not alive",
        partition=T0,
        leader_epoch=4,
        controller_epoch=7,
        before=facts(1, 3, 1, 2, 3),
        after=facts(NO_LEADER, 4, 1),
        evidence={"election": "preferred", "candidates": (1, 2), "live": (2,)},
    )


@pytest.mark.parametrize("why", ["", "broker 2 is shutting down; leader 1 goes on with [1]"])
def test_replicas_that_leave_the_isr_are_told_as_dead_where_nothing_else_is_said(why: str) -> None:
    assert told(state(1, 4, 1), None, why) == Decision(
        DecisionKind.ISR_SHRUNK,
        1_000,
        BrokerId(9),
        why or "replicas [2, 3] are not alive; leader 1 goes on with [1]",
        partition=T0,
        leader_epoch=4,
        controller_epoch=7,
        before=facts(1, 3, 1, 2, 3),
        after=facts(1, 4, 1),
        evidence={"removed": (2, 3)},
    )
    assert told(state(1, 4, 1), None, why, (3,)).evidence == {"unreachable": (3,), "removed": (2, 3)}


def test_eligible_leader_replicas_are_told_where_there_are_any() -> None:
    assert state_facts(state(1, 3, 1)) == facts(1, 3, 1)
    assert state_facts(state(1, 3, 1, elr=(2,))) == {**facts(1, 3, 1), "eligible_leader_replicas": (2,)}


@pytest.mark.parametrize(
    ("move", "why", "before", "wanted"),
    [
        (
            RefusedMove(T0, PartitionStatus.NEW, PartitionStatus.NON_EXISTENT),
            "partition: NewPartition cannot change to NonExistentPartition",
            "NewPartition",
            "NonExistentPartition",
        ),
        (
            RefusedMove(Replica(T0, BrokerId(3)), ReplicaStatus.ONLINE, ReplicaStatus.DELETION_STARTED),
            "replica of broker 3: OnlineReplica cannot change to ReplicaDeletionStarted",
            "OnlineReplica",
            "ReplicaDeletionStarted",
        ),
    ],
)
def test_a_refused_move_leaves_the_state(move: RefusedMove[Any, Any], why: str, before: str, wanted: str) -> None:
    assert refused_move_decision(move, at_ms=1_000, broker_id=BrokerId(9)) == Decision(
        DecisionKind.ILLEGAL_MOVE_REFUSED,
        1_000,
        BrokerId(9),
        why,
        partition=T0,
        before={"state": before},
        after={"state": before},
        evidence={"wanted": wanted},
    )


def test_what_is_told_of_a_broker_is_about_it() -> None:
    assert broker_decision(STAMP, DecisionKind.BROKER_WENT, ONE, "its session is over", {"epoch": 5}) == Decision(
        DecisionKind.BROKER_WENT,
        1_000,
        BrokerId(9),
        "its session is over",
        about_broker=ONE,
        controller_epoch=7,
        evidence={"epoch": 5},
    )


def test_a_topic_is_told_by_the_controller_with_the_factor_of_its_new_partitions() -> None:
    assignment = TopicAssignment("t", {0: (1, 2)}, None)
    assert topic_decision(STAMP, DecisionKind.TOPIC_CREATED, assignment, [T0]) == Decision(
        DecisionKind.TOPIC_CREATED,
        1_000,
        BrokerId(9),
        "topic t has 1 partition, replication factor 2",
        controller_epoch=7,
        evidence={"topic": "t", "added": 1, "partitions": 1, "replication_factor": 2},
    )
    nothing = topic_decision(STAMP, DecisionKind.PARTITIONS_ADDED, assignment, [])
    assert nothing.why == "topic t has 1 partition now, 0 of them new, replication factor 0"


REST = ReplicaAssignment(ids(1, 2, 3))
MOVING = ReplicaAssignment(ids(4, 1, 2, 3), ids(4), ids(2, 3))
VIEW = PartitionView(T0, state(1, 5, 1, 2), ids(1, 2, 4))


@pytest.mark.parametrize(
    ("before", "after", "kind", "why"),
    [
        (REST, MOVING, DecisionKind.REASSIGNMENT_STARTED, "the partition moves from (1, 2, 3) to (4, 1)"),
        (
            MOVING,
            REST,
            DecisionKind.REASSIGNMENT_CANCELLED,
            "the partition stays on (1, 2, 3); the copies on (4) are deleted",
        ),
        (
            MOVING,
            ReplicaAssignment(ids(4, 1)),
            DecisionKind.REASSIGNMENT_FINISHED,
            "all of (4, 1) are in sync; the replicas on (2, 3) are deleted",
        ),
        (REST, ReplicaAssignment(ids(3, 2, 1)), DecisionKind.REASSIGNMENT_FINISHED, "all of (3, 2, 1) are in sync"),
        (
            ReplicaAssignment(ids(1, 2, 3), ids(3)),
            ReplicaAssignment(ids(1, 2, 3)),
            DecisionKind.REASSIGNMENT_FINISHED,
            "all of (1, 2, 3) are in sync",
        ),
    ],
)
def test_a_reassignment_is_told_with_the_replicas_before_and_after(
    before: ReplicaAssignment, after: ReplicaAssignment, kind: DecisionKind, why: str
) -> None:
    assert reassignment_decision(STAMP, VIEW, before, after) == Decision(
        kind,
        1_000,
        BrokerId(9),
        why,
        partition=T0,
        leader_epoch=5,
        controller_epoch=7,
        before={"replicas": before.replicas, "adding": before.adding, "removing": before.removing},
        after={"replicas": after.replicas},
        evidence={"isr": (1, 2), "live": (1, 2, 4)},
    )


def test_a_reassignment_that_is_refused_leaves_the_replicas_as_they_are() -> None:
    refused = reassignment_refused_decision(STAMP, PartitionView(T0, None, ids(1)), MOVING, "no broker 8")
    assert refused == Decision(
        DecisionKind.REASSIGNMENT_REFUSED,
        1_000,
        BrokerId(9),
        "no broker 8",
        partition=T0,
        leader_epoch=-1,
        controller_epoch=7,
        before={"replicas": ids(4, 1, 2, 3), "adding": ids(4), "removing": ids(2, 3)},
        after={"replicas": ids(4, 1, 2, 3)},
        evidence={"isr": (), "live": ids(1)},
    )
