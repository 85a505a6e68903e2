"""From one group protocol to the other while members are at work (KIP-848): what the group becomes, and its records.

Decides whether a group may change its protocol, and what it is then: the same members with the same partitions, the
generation as epoch and back. Must not know the log or who asks.

    I1  the generation or epoch goes on rising over a change (G2)
    I2  whoever has a partition before the change has it after it (G1)

    from      to        when
    classic   consumer  the first member of the newer protocol joins
    consumer  classic   the last member of the newer protocol leaves, or a static one comes back speaking the old one

Source: Kafka's ClassicGroup.fromConsumerGroup, ConsumerGroup.fromClassicGroup.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.coordinator.classic_members import assignment_bytes, by_topic_id
from kavka.coordinator.consumer_group import ClassicMetadata, ConsumerGroup, ConsumerGroupLimits, ConsumerMember
from kavka.coordinator.consumer_group_records import (
    current_record,
    epoch_record,
    member_record,
    target_member_record,
    target_record,
)
from kavka.coordinator.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_assignment, decode_subscription
from kavka.coordinator.group import ClassicGroup, GroupLimits, Member
from kavka.coordinator.group_records import CoordinatorRecord, group_tombstone
from kavka.coordinator.target_assignment import Topics
from kavka.errors import ProtocolViolation


def may_upgrade(group: ClassicGroup, limits: ConsumerGroupLimits) -> bool:
    """Whether a member of the newer protocol may join this classic group."""
    return limits.upgrade_allowed and group.is_of_consumers and len(group.members) <= limits.max_size


def to_consumer_group(group: ClassicGroup, topics: Topics) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """The group with its members as those of the newer protocol, and the records that make it so.

    Raises `ProtocolViolation` where a member's subscription or assignment cannot be read.
    """
    made = ConsumerGroup(group.group_id)
    made.epoch = made.assignment_epoch = group.generation
    for member in group.members.values():
        metadata = member.protocols[0].metadata if group.protocol is None else member.metadata(group.protocol)
        subscription = decode_subscription(metadata)
        assigned = by_topic_id(decode_assignment(member.assignment), topics)
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
            )
        )
    group_id = group.group_id
    members = made.members.values()
    return made, [
        group_tombstone(group_id),
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, made.epoch, made.metadata_hash),
        *(target_member_record(group_id, member.member_id, member.assigned) for member in members),
        target_record(group_id, made.assignment_epoch, made.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members),
    ]


def may_downgrade(
    group: ConsumerGroup, left: Sequence[ConsumerMember], limits: ConsumerGroupLimits, classic: GroupLimits
) -> bool:
    """Whether the group becomes a classic one when only `left` are its members."""
    return (
        limits.downgrade_allowed
        and bool(left)
        and len(left) <= classic.max_size
        and all(member.classic is not None and _is_readable(member.classic) for member in left)
        and any(member.classic is None for member in group.members.values())
    )


def _is_readable(metadata: ClassicMetadata) -> bool:
    try:
        return bool(metadata.protocols) and decode_subscription(metadata.protocols[0].metadata).version >= 0
    except ProtocolViolation:
        return False


def to_classic_group(
    group: ConsumerGroup, left: Sequence[ConsumerMember], topics: Topics, limits: GroupLimits, now_ms: int
) -> ClassicGroup:
    """The classic group of these members; its records are the tombstones of `group` and its own record."""
    made = ClassicGroup(group.group_id, limits, now_ms)
    members = []
    for member in left:
        assert member.classic is not None
        protocols = member.classic.protocols
        members.append(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic.session_timeout_ms,
                member.rebalance_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                list(protocols),
                assignment=assignment_bytes(member.assigned, protocols, topics),
            )
        )
    made.restore(
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=_common_protocol(members),
        leader_id=members[0].member_id,
        members=members,
        written_at_wall_ms=None,
        now_ms=now_ms,
    )
    return made


def _common_protocol(members: Sequence[Member]) -> str:
    """The first member's first choice that all support; `may_downgrade` let in only those who agree on one."""
    names = [{protocol.name for protocol in member.protocols} for member in members]
    for protocol in members[0].protocols:
        if all(protocol.name in supported for supported in names):
            return protocol.name
    return members[0].protocols[0].name
