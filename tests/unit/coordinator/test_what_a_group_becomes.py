"""A group that changes its protocol (KIP-848): the members, epochs and records that it has then. As Kafka's
ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    GroupLimits,
    GroupState,
    JoinProtocol,
    Member,
    StoredGroup,
)
from kavka.coordinator.groups.consumer.decide.group import ClassicMetadata, ConsumerGroup, ConsumerMember
from kavka.coordinator.groups.consumer.decide.migration import may_downgrade, to_classic_group, to_consumer_group
from kavka.coordinator.groups.consumer.decide.records import (
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    TargetMemberRecord,
    TargetRecord,
)
from kavka.coordinator.groups.consumer.decide.target_assignment import metadata_hash
from kavka.coordinator.groups.decide.records import group_tombstone
from kavka.errors import ErrorCode, RequestError
from tests.kit.decided_group import GROUP, decoded, part
from tests.kit.group_case import subscription
from tests.kit.group_surroundings import CONSUMER_LIMITS, HandMadeTopics

T = uuid.UUID(int=1)
LIMITS = GroupLimits(10, 1_800_000, 0, 2)
RACKED = b"\x00\x03" + subscription("t")[2:] + b"\x00\x01r"
RANGE, STICKY = JoinProtocol("range", subscription("t", "u")), JoinProtocol("sticky", RACKED)


def classic_member(member_id: str, assignment: bytes, instance_id: str | None = None) -> Member:
    return Member(
        member_id,
        instance_id,
        "c",
        "h",
        10_000,
        20_000,
        "consumer",
        [RANGE, STICKY],
        assignment=assignment,
    )


def a_classic_group(*members: Member, protocol_type: str = "consumer", protocol: str = "sticky") -> ClassicGroup:
    group = ClassicGroup(GROUP, LIMITS, 0)
    leader_id = members[0].member_id if members else None
    group.restore(StoredGroup(7, protocol_type, protocol, leader_id, list(members), None), 0)
    return group


def test_a_classic_group_goes_on_with_its_members_generation_and_partitions() -> None:
    topics = HandMadeTopics(t=4, u=1)
    group = a_classic_group(
        classic_member("one", encode_assignment({"t": [0, 1], "gone": [0]}, 1), "i"),
        classic_member("two", encode_assignment({}, 1)),
    )
    made, records = to_consumer_group(group, topics, CONSUMER_LIMITS)
    says = ConsumerMember(
        "one",
        "i",
        "r",
        "c",
        "h",
        frozenset({"t"}),
        rebalance_timeout_ms=20_000,
        classic=ClassicMetadata(10_000, [RANGE, STICKY]),
    )
    other = replace(says, member_id="two", instance_id=None)
    has = ConsumerMember(
        "one", epoch=7, previous_epoch=7, assigned=part(1, 0, 1), assignment_epochs={(T, 0): 7, (T, 1): 7}
    )
    nothing = ConsumerMember("two", epoch=7, previous_epoch=7)
    assert records[0] == group_tombstone(GROUP)
    assert decoded(records[1:]) == [
        MemberRecord(GROUP, "one", says),
        MemberRecord(GROUP, "two", other),
        EpochRecord(GROUP, 7, metadata_hash(["t"], topics)),
        TargetMemberRecord(GROUP, "one", part(1, 0, 1)),
        TargetMemberRecord(GROUP, "two", {}),
        TargetRecord(GROUP, 7, 0),
        CurrentRecord(GROUP, "one", has),
        CurrentRecord(GROUP, "two", nothing),
    ]
    assert (made.group_id, made.epoch, made.assignment_epoch) == (GROUP, 7, 7)
    assert made.metadata_hash == metadata_hash(["t"], topics)
    assert made.target == {"one": part(1, 0, 1), "two": {}}
    told = {member_id: (member.epoch, member.assigned) for member_id, member in made.members.items()}
    assert told == {"one": (7, part(1, 0, 1)), "two": (7, {})}
    assert made.state == "Stable"


@pytest.mark.parametrize(
    ("limits", "protocol_type", "assignments", "why"),
    [
        ({"upgrade_allowed": False}, "consumer", [{}], "because online upgrade is disabled."),
        ({}, "connect", [{}], "because the group does not use the consumer embedded protocol."),
        ({"max_size": 1}, "consumer", [{}, {}], "because the group size exceeds the consumer group maximum size."),
        ({"max_size": 2}, "consumer", [{}, {}], ""),
        (
            {},
            "consumer",
            [{"t": [0, 1]}, {"t": [1]}],
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_a_classic_group_that_cannot_go_on_stays_and_says_why(
    limits: dict[str, object], protocol_type: str, assignments: list[dict[str, Sequence[int]]], why: str
) -> None:
    members = [classic_member(f"m{n}", encode_assignment(each, 1)) for n, each in enumerate(assignments)]
    group = a_classic_group(*members, protocol_type=protocol_type)
    allowed = replace(CONSUMER_LIMITS, **limits)  # type: ignore[arg-type]  # names of limits
    if not why:
        to_consumer_group(group, HandMadeTopics(t=4), allowed)
        return
    with pytest.raises(RequestError) as refused:
        to_consumer_group(group, HandMadeTopics(t=4), allowed)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.value.message == f"Cannot upgrade classic group g to consumer group {why}"


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        (b"\x00", "because the embedded consumer protocol is malformed."),
        (
            b"\x00\x00" + bytes(4) + b"\x00\x00\x00\x01x",
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_what_a_leader_gave_must_be_partitions_alone(assignment: bytes, why: str) -> None:
    with pytest.raises(RequestError) as refused:
        to_consumer_group(a_classic_group(classic_member("m", assignment)), HandMadeTopics(t=4), CONSUMER_LIMITS)
    assert refused.value.message == f"Cannot upgrade classic group g to consumer group {why}"


# -- and back


def old(member_id: str, *protocols: JoinProtocol, **changes: object) -> ConsumerMember:
    member = ConsumerMember(
        member_id, None, "r", "c", "h", frozenset({"t"}), rebalance_timeout_ms=20_000, epoch=7, previous_epoch=7
    )
    return replace(member, classic=ClassicMetadata(10_000, protocols or (RANGE,)), **changes)  # type: ignore[arg-type]


def a_group(*members: ConsumerMember) -> ConsumerGroup:
    group = ConsumerGroup(GROUP)
    group.epoch = group.assignment_epoch = 7
    for member in members:
        group.put_member(member)
    return group


NEW = ConsumerMember("new", epoch=7)


@pytest.mark.parametrize(
    ("left", "allowed", "may"),
    [
        ([old("one")], True, True),
        ([old("one"), old("two")], True, True),
        ([old("one"), old("two"), old("three")], True, False),
        ([old("one")], False, False),
        ([], True, False),
        ([old("one"), NEW], True, False),
        ([NEW, old("one")], True, False),
        ([old("one", RANGE), old("two", STICKY)], True, False),
        ([old("one", STICKY, RANGE), old("two", RANGE)], True, True),
        ([old("one", RANGE), old("two", RANGE), NEW], True, False),
    ],
)
def test_a_group_becomes_classic_when_only_members_with_a_common_protocol_are_left(
    left: list[ConsumerMember], allowed: bool, may: bool
) -> None:
    limits = replace(CONSUMER_LIMITS, downgrade_allowed=allowed)
    assert may_downgrade(a_group(*left, NEW), left, limits, LIMITS) is may


def test_a_group_of_classic_members_alone_stays_what_it_is() -> None:
    """As it may be where a downgrade was not allowed when the last other member left: nothing has changed now."""
    left = [old("one")]
    assert not may_downgrade(a_group(*left, old("two")), left, CONSUMER_LIMITS, LIMITS)


def test_the_protocol_is_the_first_member_s_first_choice_that_all_support() -> None:
    left = [old("one", JoinProtocol("own", b""), STICKY, RANGE), old("two", RANGE, STICKY)]
    made = to_classic_group(a_group(*left, NEW), left, HandMadeTopics(), LIMITS, 0, rebalances=True)
    assert made.protocol == "sticky"


@pytest.mark.parametrize("rebalances", [True, False])
def test_a_group_that_becomes_classic_goes_on_with_its_members_and_epoch(rebalances: bool) -> None:
    """One that must rebalance has no leader in its record, so that whoever loads it has it rebalance."""
    one = old("one", STICKY, RANGE, instance_id="i", assigned=part(1, 0), revoking=part(1, 1))
    two = old("two", RANGE)
    group = a_group(one, two, NEW)
    made = to_classic_group(group, [one, two], HandMadeTopics(t=4), LIMITS, 1_000, rebalances=rebalances)
    assert (made.group_id, made.limits, made.state) == (GROUP, LIMITS, GroupState.STABLE)
    assert (made.generation, made.protocol_type, made.protocol) == (7, "consumer", "range")
    assert made.leader_id == (None if rebalances else "one")
    assert made.written_at_wall_ms is None
    first, second = made.members.values()
    assert (first.member_id, first.group_instance_id, first.client_id, first.client_host) == ("one", "i", "c", "h")
    assert (first.session_timeout_ms, first.rebalance_timeout_ms, first.protocol_type) == (10_000, 20_000, "consumer")
    assert first.protocols == [STICKY, RANGE]
    assert first.session_deadline_ms == 11_000
    assert first.assignment == encode_assignment({"t": [0, 1]}, 3), "what it is to give back is its own until it has"
    assert (second.member_id, second.assignment) == ("two", encode_assignment({}, 2))
