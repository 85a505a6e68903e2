"""Which ISRs that leaders propose are accepted, row by row of the module's table, and what is told of it."""

from __future__ import annotations

import uuid

import pytest

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.isr_proposals import (
    Accepted,
    Proposal,
    ProposalRefused,
    Unchanged,
    Verdict,
    judge,
    verdict_decision,
)
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import registration

T0 = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def context(*, recovery: int = RECOVERED) -> ControllerContext:
    """Brokers 1, 2, 3 with epochs 101, 102, 103; t-0 on all of them, led by 1 in epoch 5, ISR (1, 2), version 9."""
    known = ControllerContext(epoch=4)
    known.set_brokers({each: LiveBroker(registration(each), 100 + each) for each in ids(1, 2, 3)})
    known.set_topic(KnownTopic(TopicAssignment("t", {0: (1, 2, 3)}, TOPIC_ID), 0))
    known.states[T0] = KnownState(PartitionState(BrokerId(1), 5, ids(1, 2), 3, recovery), 9)
    return known


def proposal(
    *isr: int,
    leader: int = 1,
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    recovery: int = RECOVERED,
    epochs: dict[int, int] | None = None,
    partition: TopicPartition = T0,
) -> Proposal:
    members = tuple((BrokerId(member), (epochs or {}).get(member, 100 + member)) for member in isr)
    return Proposal(partition, BrokerId(leader), leader_epoch, members, recovery, partition_epoch)


def code(verdict: Verdict) -> ErrorCode:
    return verdict.code if isinstance(verdict, ProposalRefused) else ErrorCode.NONE


def test_an_expansion_and_a_shrink_are_accepted_in_the_leaders_epoch() -> None:
    for isr in ((1, 2, 3), (1,)):
        verdict = judge(proposal(*isr), context(), version=3)
        assert isinstance(verdict, Accepted)
        assert verdict.state == PartitionState(BrokerId(1), 5, ids(*isr), 4)
        assert verdict.before.version == 9


def test_what_is_so_already_is_a_success_with_any_older_partition_epoch_and_order() -> None:
    known = context()
    for epoch in (0, 8, 9):
        assert judge(proposal(2, 1, partition_epoch=epoch), known, version=3) == Unchanged(known.states[T0])


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (proposal(1, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal(1, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (proposal(1, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(1, 2, leader=2), ErrorCode.INVALID_REQUEST),
        (proposal(2, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 4), ErrorCode.INVALID_REQUEST),
        (proposal(), ErrorCode.INVALID_REQUEST),
        (proposal(1, 3, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 1), ErrorCode.INVALID_REQUEST),
        (proposal(1, recovery=2), ErrorCode.INVALID_REQUEST),
        (proposal(1, recovery=RECOVERING), ErrorCode.INVALID_REQUEST),
        (proposal(1, 2, 3, epochs={3: 99}), ErrorCode.INELIGIBLE_REPLICA),
        (proposal(1, partition=TopicPartition("t", 1)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal(1, partition=TopicPartition("u", 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_proposal_is_refused(wrong: Proposal, expected: ErrorCode) -> None:
    assert code(judge(wrong, context(), version=3)) is expected


def test_who_is_dead_leaving_or_unreachable_does_not_join() -> None:
    gone, leaving, unreachable = context(), context(), context()
    gone.set_brokers({key: live for key, live in gone.brokers.items() if key != 3})
    leaving.shutting_down[BrokerId(3)] = 103
    unreachable.unreachable[BrokerId(3)] = 103
    for known in (gone, leaving, unreachable):
        assert code(judge(proposal(1, 2, 3), known, version=3)) is ErrorCode.INELIGIBLE_REPLICA
        assert code(judge(proposal(1, 2, 3), known, version=2)) is ErrorCode.INELIGIBLE_REPLICA
        assert code(judge(proposal(1, 2, 3), known, version=1)) is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_a_leader_that_is_shutting_down_may_still_change_its_isr() -> None:
    known = context()
    known.shutting_down[BrokerId(1)] = 101
    assert isinstance(judge(proposal(1, 2, 3), known, version=3), Accepted)


def test_a_member_that_restarted_since_it_fetched_does_not_join() -> None:
    known = context()
    brokers = dict(known.brokers)
    brokers[BrokerId(3)] = LiveBroker(registration(3), 203)
    known.set_brokers(brokers)
    assert code(judge(proposal(1, 2, 3), known, version=3)) is ErrorCode.INELIGIBLE_REPLICA
    assert isinstance(judge(proposal(1, 2, 3, epochs={3: 203}), known, version=3), Accepted)
    assert isinstance(judge(proposal(1, 2, 3, epochs={3: -1}), known, version=2), Accepted)


def test_a_recovering_leader_ends_its_recovery_and_does_not_begin_it_again() -> None:
    verdict = judge(proposal(1, 2), context(recovery=RECOVERING), version=3)
    assert isinstance(verdict, Accepted)
    assert verdict.state.leader_recovery_state == RECOVERED
    for members in ((1, 3), (1, 2, 3)):
        refused = judge(proposal(*members, recovery=RECOVERING), context(recovery=RECOVERING), version=3)
        assert code(refused) is ErrorCode.INVALID_REQUEST
    alone = judge(proposal(1, recovery=RECOVERING), context(recovery=RECOVERING), version=3)
    assert isinstance(alone, Accepted), "it goes on recovering without the other member"
    assert code(judge(proposal(1, recovery=RECOVERING), context(), version=3)) is ErrorCode.INVALID_REQUEST


def test_a_refusal_is_told_with_the_state_that_stays() -> None:
    known = context()
    before = known.states[T0].state
    asked = proposal(1, 2, 3, leader=2)
    verdict = judge(asked, known, version=3)
    told = verdict_decision(asked, verdict, before, at_ms=7, broker_id=BrokerId(1), controller_epoch=4)
    assert told is not None
    assert told.kind is DecisionKind.ISR_CHANGE_REFUSED
    assert told.before == told.after == {"leader": 1, "leader_epoch": 5, "isr": (1, 2)}
    unknown = verdict_decision(asked, verdict, None, at_ms=7, broker_id=BrokerId(1), controller_epoch=4)
    assert unknown is not None
    assert (unknown.before, unknown.after) == ({}, {})


@pytest.mark.parametrize(
    ("isr", "kind"),
    [((1,), DecisionKind.ISR_SHRUNK), ((1, 2, 3), DecisionKind.ISR_EXPANDED), ((1, 3), DecisionKind.ISR_EXPANDED)],
)
def test_what_is_accepted_is_told_as_it_was_proposed(isr: tuple[int, ...], kind: DecisionKind) -> None:
    known = context()
    asked = proposal(*isr, epochs={3: -1})
    verdict = judge(asked, known, version=3)
    told = verdict_decision(asked, verdict, known.states[T0].state, at_ms=7, broker_id=BrokerId(2), controller_epoch=4)
    assert told == Decision(
        kind,
        7,
        BrokerId(2),
        f"ISR {list(isr)}, as leader 1 proposed in epoch 5",
        partition=T0,
        leader_epoch=5,
        controller_epoch=4,
        before={"leader": 1, "leader_epoch": 5, "isr": (1, 2)},
        after={"leader": 1, "leader_epoch": 5, "isr": isr},
        evidence={
            "proposed_isr": isr,
            "broker_epochs": tuple(-1 if member == 3 else 100 + member for member in isr),
            "partition_epoch": 9,
        },
    )


def test_what_is_so_already_is_not_told() -> None:
    known = context()
    verdict = judge(proposal(1, 2), known, version=3)
    before = known.states[T0].state
    assert verdict_decision(proposal(1, 2), verdict, before, at_ms=7, broker_id=BrokerId(1), controller_epoch=4) is None


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (proposal(1, partition=TopicPartition("u", 0)), "the partition does not exist"),
        (
            proposal(1, leader_epoch=6, partition_epoch=10),
            "leader epoch 6 and partition epoch 10 are newer than this controller's, 5 and 9",
        ),
        (proposal(1, leader_epoch=4), "leader epoch 4 is over, the current one is 5"),
        (proposal(1, partition_epoch=8), "it is based on partition epoch 8, the current one is 9"),
        (proposal(2, leader=2), "broker 2 proposed it, broker 1 leads"),
        (
            proposal(2, 3),
            "an ISR of [2, 3] lacks leader 1, names a broker twice, or goes beyond the replicas [1, 2, 3]",
        ),
        (proposal(1, recovery=2), "there is no leader recovery state 2"),
        (proposal(1, recovery=RECOVERING), "a leader that recovers cannot have an ISR of [1]"),
        (proposal(1, 3, epochs={3: 99}), "broker 3 fetched with broker epoch 99, its registration has 103"),
    ],
)
def test_a_refusal_says_what_is_wrong(asked: Proposal, reason: str) -> None:
    verdict = judge(asked, context(), version=3)
    assert isinstance(verdict, ProposalRefused)
    assert verdict.reason == reason
    told = verdict_decision(asked, verdict, None, at_ms=7, broker_id=BrokerId(1), controller_epoch=4)
    assert told is not None
    assert told.why == f"broker {asked.leader} proposed ISR {list(asked.members)}: {verdict.code.name}, {reason}"


def test_who_may_not_join_is_told_with_the_reason() -> None:
    known = context()
    known.unreachable[BrokerId(3)] = 103
    assert judge(proposal(1, 3), known, version=3) == ProposalRefused(
        ErrorCode.INELIGIBLE_REPLICA, "broker 3 refuses connections"
    )
    known.shutting_down[BrokerId(3)] = 103
    assert judge(proposal(1, 3), known, version=3) == ProposalRefused(
        ErrorCode.INELIGIBLE_REPLICA, "broker 3 is shutting down"
    )
    del known.brokers[BrokerId(3)]
    assert judge(proposal(1, 3), known, version=3) == ProposalRefused(
        ErrorCode.INELIGIBLE_REPLICA, "broker 3 is not alive"
    )


def test_a_topic_that_is_being_deleted_changes_no_more() -> None:
    known = context()
    known.topics_to_delete["t"] = None
    assert code(judge(proposal(1), known, version=3)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
