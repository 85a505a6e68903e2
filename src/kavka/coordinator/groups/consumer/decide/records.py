"""Records of consumer groups (KIP-848) in `__consumer_offsets`, in Apache Kafka 4's own formats.

    key version   key             value
    3             group           the group's epoch, and a hash of the topics it reads
    4             group           the topics it reads; 4.0 wrote it, later ones delete it, as is done here
    5             group, member   what the member says of itself
    6             group           the target assignment's epoch
    7             group, member   the member's part of the target
    8             group, member   what the member has, in which epoch, in which state
    16            group, regex    the topics that a regular expression matched

All values are of version 0. Apache Kafka 3.9 passes over keys that it does not know, with a warning.

Source: Kafka's GroupCoordinatorRecordHelpers; its dump-log decodes what is written here.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.coordinator.groups.consumer.decide.group import (
    NOTHING,
    Assignment,
    ClassicMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, record_of, value_of
from kavka.protocol.codec import decode
from kavka.protocol.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kavka.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kavka.protocol.messages.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentTopicPartitions,
)
from kavka.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kavka.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kavka.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kavka.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kavka.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kavka.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kavka.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kavka.protocol.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kavka.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from kavka.protocol.messages.consumer_group_target_assignment_member_value import (
    TopicPartition as TargetTopicPartitions,
)
from kavka.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kavka.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kavka.protocol.schema import Message

GROUP_KEY: Final = 3
PARTITION_METADATA_KEY: Final = 4
MEMBER_KEY: Final = 5
TARGET_KEY: Final = 6
TARGET_MEMBER_KEY: Final = 7
CURRENT_KEY: Final = 8
REGEX_KEY: Final = 16


class EpochRecord(NamedTuple):
    """`epoch` is None if the group was deleted."""

    group_id: str
    epoch: int | None
    metadata_hash: int


class PartitionMetadataRecord(NamedTuple):
    """Of what it says only this is kept: whether there is something to delete with the group."""

    group_id: str
    is_there: bool


class MemberRecord(NamedTuple):
    """`member` has what the member says of itself; None if it is gone."""

    group_id: str
    member_id: str
    member: ConsumerMember | None


class TargetRecord(NamedTuple):
    """`epoch` is None if it was deleted."""

    group_id: str
    epoch: int | None
    timestamp_ms: int


class TargetMemberRecord(NamedTuple):
    """`assignment` is None if it was deleted."""

    group_id: str
    member_id: str
    assignment: Assignment | None


class CurrentRecord(NamedTuple):
    """`member` has the member's progress; None if it is gone."""

    group_id: str
    member_id: str
    member: ConsumerMember | None


class RegexRecord(NamedTuple):
    """`resolved` is None if nobody uses the expression any more."""

    group_id: str
    regex: str
    resolved: ResolvedRegex | None


ConsumerGroupRecord: TypeAlias = (
    EpochRecord
    | PartitionMetadataRecord
    | MemberRecord
    | TargetRecord
    | TargetMemberRecord
    | CurrentRecord
    | RegexRecord
)


# -- writing


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group has a new epoch."""
    return record_of(
        GROUP_KEY,
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member says of itself."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return record_of(MEMBER_KEY, _member_key(group_id, member.member_id), value)


def target_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The target assignment is that of this epoch."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record_of(TARGET_KEY, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """A member's part of the target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
            for topic_id in sorted(assignment)
        ]
    )
    return record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member has, and how far it is."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_current(member, member.assigned),
        partitions_pending_revocation=_current(member, member.revoking),
    )
    return record_of(CURRENT_KEY, _current_key(group_id, member.member_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """The topics that an expression matched; None deletes it."""
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
    return record_of(REGEX_KEY, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def member_tombstones(group_id: str, member_ids: Sequence[str]) -> list[CoordinatorRecord]:
    """The records that take members out, in the order in which Kafka writes them."""
    return [
        *(record_of(CURRENT_KEY, _current_key(group_id, member_id), None) for member_id in member_ids),
        *(record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), None) for member_id in member_ids),
        *(record_of(MEMBER_KEY, _member_key(group_id, member_id), None) for member_id in member_ids),
    ]


def group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """The records that delete a group."""
    group_id = group.group_id
    members = list(group.members)
    parts = list(dict.fromkeys((*members, *group.target)))
    records = [
        *(record_of(CURRENT_KEY, _current_key(group_id, member_id), None) for member_id in members),
        *(record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), None) for member_id in parts),
        record_of(TARGET_KEY, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(record_of(MEMBER_KEY, _member_key(group_id, member_id), None) for member_id in members),
        *(regex_record(group_id, regex, None) for regex in group.regexes),
    ]
    if group.has_partition_metadata:
        records.append(partition_metadata_tombstone(group_id))
    records.append(record_of(GROUP_KEY, ConsumerGroupMetadataKey(group_id=group_id), None))
    return records


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Deletes what Kafka 4.0 wrote and no later release reads."""
    return record_of(PARTITION_METADATA_KEY, ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def _member_key(group_id: str, member_id: str) -> Message:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_member_key(group_id: str, member_id: str) -> Message:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _current_key(group_id: str, member_id: str) -> Message:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _current(member: ConsumerMember, assignment: Assignment) -> list[CurrentTopicPartitions]:
    listed = []
    for topic_id in sorted(assignment):
        numbers = sorted(assignment[topic_id])
        since = [member.assignment_epochs.get((topic_id, number), max(member.epoch, 0)) for number in numbers]
        listed.append(CurrentTopicPartitions(topic_id=topic_id, partitions=numbers, assignment_epochs=since))
    return listed


# -- reading


def decode_consumer_group_record(
    key_version: int, key: bytes, value: tuple[int, bytes] | None
) -> ConsumerGroupRecord | None:
    """What a record says; None for keys that are of no consumer group. Key and value come without their versions.

    Raises `ProtocolViolation` for bytes that are no such record.
    """
    match key_version:
        case _ if key_version == GROUP_KEY:
            group_id = decode(ConsumerGroupMetadataKey, key, key_version).group_id
            group = value_of(ConsumerGroupMetadataValue, value)
            return (
                EpochRecord(group_id, None, 0)
                if group is None
                else EpochRecord(group_id, group.epoch, group.metadata_hash)
            )
        case _ if key_version == PARTITION_METADATA_KEY:
            group_id = decode(ConsumerGroupPartitionMetadataKey, key, key_version).group_id
            return PartitionMetadataRecord(group_id, value is not None)
        case _ if key_version == MEMBER_KEY:
            member_key = decode(ConsumerGroupMemberMetadataKey, key, key_version)
            metadata = value_of(ConsumerGroupMemberMetadataValue, value)
            member_id = member_key.member_id
            member = None if metadata is None else _member(member_id, metadata)
            return MemberRecord(member_key.group_id, member_id, member)
        case _ if key_version == TARGET_KEY:
            group_id = decode(ConsumerGroupTargetAssignmentMetadataKey, key, key_version).group_id
            target = value_of(ConsumerGroupTargetAssignmentMetadataValue, value)
            return (
                TargetRecord(group_id, None, 0)
                if target is None
                else TargetRecord(group_id, target.assignment_epoch, target.assignment_timestamp)
            )
        case _ if key_version == TARGET_MEMBER_KEY:
            target_key = decode(ConsumerGroupTargetAssignmentMemberKey, key, key_version)
            part = value_of(ConsumerGroupTargetAssignmentMemberValue, value)
            assignment = None if part is None else _assignment(part.topic_partitions)
            return TargetMemberRecord(target_key.group_id, target_key.member_id, assignment)
        case _ if key_version == CURRENT_KEY:
            current_key = decode(ConsumerGroupCurrentMemberAssignmentKey, key, key_version)
            current = value_of(ConsumerGroupCurrentMemberAssignmentValue, value)
            member_id = current_key.member_id
            progress = None if current is None else _progress(member_id, current)
            return CurrentRecord(current_key.group_id, member_id, progress)
        case _ if key_version == REGEX_KEY:
            regex_key = decode(ConsumerGroupRegularExpressionKey, key, key_version)
            found = value_of(ConsumerGroupRegularExpressionValue, value)
            resolved = None
            if found is not None:
                resolved = ResolvedRegex(frozenset(found.topics), found.version, found.timestamp)
            return RegexRecord(regex_key.group_id, regex_key.regular_expression, resolved)
        case _:
            return None


def _member(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = value.classic_member_metadata
    return ConsumerMember(
        member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            [JoinProtocol(protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols],
        ),
    )


def _progress(member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return ConsumerMember(
        member_id,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state,
        assigned=_assignment(value.assigned_partitions),
        revoking=_assignment(value.partitions_pending_revocation),
        assignment_epochs={
            (part.topic_id, number): since
            for part in (*value.assigned_partitions, *value.partitions_pending_revocation)
            for number, since in zip(part.partitions, assigned_since(part, value.member_epoch), strict=True)
        },
    )


class PartAssigned(Protocol):
    """Partitions of one topic, or tasks of one subtopology, in a record of what a member has."""

    partitions: list[int]
    assignment_epochs: list[int] | None


def assigned_since(part: PartAssigned, member_epoch: int) -> Sequence[int]:
    """In which epoch each was assigned; brokers before Apache Kafka 4.3 do not say, and it was by now."""
    if part.assignment_epochs and len(part.assignment_epochs) == len(part.partitions):
        return part.assignment_epochs
    return [max(member_epoch, 0)] * len(part.partitions)


def _assignment(parts: Sequence[CurrentTopicPartitions | TargetTopicPartitions]) -> Assignment:
    found: dict[uuid.UUID, frozenset[int]] = {
        part.topic_id: frozenset(part.partitions) for part in parts if part.partitions
    }
    return found or NOTHING


def is_deletion(record: ConsumerGroupRecord) -> bool:
    """Whether a record only takes something away: of a group that is not there, nothing."""
    match record:
        case EpochRecord(_, epoch, _) | TargetRecord(_, epoch, _):
            return epoch is None
        case MemberRecord(_, _, value) | CurrentRecord(_, _, value) | TargetMemberRecord(_, _, value):
            return value is None
        case RegexRecord(_, _, resolved):
            return resolved is None
        case PartitionMetadataRecord(_, is_there):
            return not is_there


def apply_to(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
    """Changes the group as a committed record says. What a record deletes may not be there: the log is compacted."""
    match record:
        case EpochRecord(_, epoch, metadata_hash) if epoch is not None:
            group.epoch = epoch
            group.metadata_hash = metadata_hash
        case EpochRecord():
            pass  # Who holds the groups removes it.
        case PartitionMetadataRecord(_, is_there):
            group.has_partition_metadata = is_there
        case MemberRecord(_, member_id, None):
            group.remove_member(member_id)
        case MemberRecord(_, member_id, ConsumerMember() as told):
            known = group.members.get(member_id)
            group.put_member(told if known is None else known.with_subscription_of(told))
        case TargetRecord(_, target_epoch, timestamp_ms):
            group.assignment_epoch = target_epoch or 0
            group.assignment_timestamp_ms = timestamp_ms
        case TargetMemberRecord(_, member_id, assignment):
            if assignment is None:
                group.target.pop(member_id, None)
            else:
                group.target[member_id] = assignment
        case CurrentRecord(_, member_id, progress):
            known = group.members.get(member_id)
            if progress is not None:
                group.put_member(progress.with_subscription_of(known) if known is not None else progress)
            elif known is not None:
                group.put_member(ConsumerMember(member_id).with_subscription_of(known))
        case RegexRecord(_, regex, resolved):
            if resolved is None:
                group.matched_versions.pop(regex, None)
                group.regexes.pop(regex, None)
            else:
                group.regexes[regex] = resolved
