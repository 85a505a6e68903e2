"""From one group protocol to the other while members are at work (KIP-848): what the group becomes, and its records.

Decides whether a group may change its protocol, and what it is then: the same members with the same partitions, the
generation as epoch and back. Must not know the log or who asks.

    I1  the generation or epoch goes on rising over a change (G2)
    I2  whoever has a partition before the change has it after it (G1)
    I3  subscriptions and assignments are bytes that clients choose: whatever they are, the group changes, or who asked
        for it is refused with the reason and the group stays as it is
    I4  a classic group that must rebalance has no leader in its record, and whoever loads it has it rebalance. Else:
        1. the last member of the newer protocol leaves; 2. before the others have joined again, another broker becomes
        the coordinator; 3. it finds a stable group in the generation that they are in, and what the member had is read
        by nobody. Apache Kafka's record does not say it

    from      to        when
    classic   consumer  the first member of the newer protocol joins
    consumer  classic   the last member of the newer protocol leaves, or a static one comes back speaking the old one

Refused (GROUP_ID_NOT_FOUND, with Kafka's sentences): bytes that cannot be read; what an assignor does that only the
group's own members have: data of its own in an assignment, or a partition for several members, which G1 forbids. Apache
Kafka 4.3 answers UNKNOWN_SERVER_ERROR to the latter, likewise where a partition does not exist, and where a member has
given up the protocol in force (a rolling change of the assignor). Here the first of these goes to nobody in the next
assignment, and the second subscribes to what it says under its new first choice.

Source: Kafka's ClassicGroup.fromConsumerGroup, ConsumerGroup.fromClassicGroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.coordinator.groups.classic.decide.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import GroupLimits, Member, StoredGroup
from kavka.coordinator.groups.consumer.decide.classic_members import assignment_bytes, by_topic_id
from kavka.coordinator.groups.consumer.decide.group import (
    Assignment,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerGroupLimits,
    ConsumerMember,
)
from kavka.coordinator.groups.consumer.decide.records import (
    current_record,
    epoch_record,
    member_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics, metadata_hash
from kavka.coordinator.groups.decide.records import group_tombstone
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, ProtocolViolation, RequestError

DISABLED = "because online upgrade is disabled."
NOT_OF_CONSUMERS = "because the group does not use the consumer embedded protocol."
TOO_LARGE = "because the group size exceeds the consumer group maximum size."
MALFORMED = "because the embedded consumer protocol is malformed."
CUSTOM_ASSIGNOR = (
    "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
    "assignor before re-attempting the upgrade."
)


def to_consumer_group(
    group: ClassicGroup, topics: Topics, limits: ConsumerGroupLimits
) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """The group with its members as those of the newer protocol, and the records that make it so. Raises
    `RequestError`."""
    if not limits.upgrade_allowed:
        raise _refusal(group, DISABLED)
    if not group.is_of_consumers:
        raise _refusal(group, NOT_OF_CONSUMERS)
    if len(group.members) > limits.max_size:
        raise _refusal(group, TOO_LARGE)
    made = ConsumerGroup(group.group_id)
    made.epoch = made.assignment_epoch = group.generation
    for member in group.members.values():
        subscription, assigned = _read(group, member, topics)
        if any(
            made.owner_epoch(topic_id, number) != -1 for topic_id, numbers in assigned.items() for number in numbers
        ):
            raise _refusal(group, CUSTOM_ASSIGNOR)
        made.target[member.member_id] = assigned
        made.put_member(
            ConsumerMember(
                member.member_id,
                member.group_instance_id,
                subscription.rack,
                member.client_id,
                member.client_host,
                frozenset(subscription.topics),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=assigned,
                assignment_epochs={
                    (topic_id, number): group.generation for topic_id, numbers in assigned.items() for number in numbers
                },
            )
        )
    group_id = group.group_id
    members = made.members.values()
    made.metadata_hash = metadata_hash((name for member in members for name in member.topics), topics)
    return made, [
        group_tombstone(group_id),
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, made.epoch, made.metadata_hash),
        *(target_member_record(group_id, member.member_id, member.assigned) for member in members),
        target_record(group_id, made.assignment_epoch, made.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members),
    ]


def _read(group: ClassicGroup, member: Member, topics: Topics) -> tuple[Subscription, Assignment]:
    try:
        subscription = decode_subscription(member.metadata(group.protocol))
        assignment = decode_assignment(member.assignment)
    except ProtocolViolation as garbage:
        raise _refusal(group, MALFORMED) from garbage
    if assignment.user_data:
        raise _refusal(group, CUSTOM_ASSIGNOR)
    return subscription, by_topic_id(assignment.partitions, topics)


def _refusal(group: ClassicGroup, why: str) -> RequestError:
    return RequestError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group.group_id} to consumer group {why}"
    )


def may_downgrade(
    group: ConsumerGroup, left: Sequence[ConsumerMember], limits: ConsumerGroupLimits, classic: GroupLimits
) -> bool:
    """Whether the group becomes a classic one when only `left` are its members."""
    return (
        limits.downgrade_allowed
        and bool(left)
        and len(left) <= classic.max_size
        and any(member.classic is None for member in group.members.values())
        and _common_protocol(left) is not None
    )


def _common_protocol(members: Sequence[ConsumerMember]) -> str | None:
    """The first member's first choice that all members support. None if there is no such choice, or a member supports
    nothing.

    Members that joined with the classic protocol agree on one; members that are only known from the log need not.
    """
    names = [
        frozenset[str]()
        if member.classic is None
        else frozenset(protocol.name for protocol in member.classic.protocols)
        for member in members
    ]
    common = frozenset.intersection(*names)
    first = members[0].classic
    return None if first is None else next((one.name for one in first.protocols if one.name in common), None)


def to_classic_group(
    group: ConsumerGroup,
    left: Sequence[ConsumerMember],
    topics: Topics,
    limits: GroupLimits,
    now_ms: int,
    *,
    rebalances: bool,
) -> ClassicGroup:
    """The classic group of these members, of whom `may_downgrade` holds; its records are the tombstones of `group` and
    its own record (I4)."""
    made = ClassicGroup(group.group_id, limits, now_ms)
    members = [
        Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.classic.session_timeout_ms,
            member.rebalance_timeout_ms,
            CONSUMER_PROTOCOL_TYPE,
            list(member.classic.protocols),
            assignment=assignment_bytes(member.held, member.classic.protocols, topics),
        )
        for member in left
        if member.classic is not None
    ]
    made.restore(
        StoredGroup(
            group.epoch,
            CONSUMER_PROTOCOL_TYPE,
            _common_protocol(left),
            None if rebalances else members[0].member_id,
            members,
            None,
        ),
        now_ms,
    )
    return made
