"""Records of share groups in `__consumer_offsets`, in Apache Kafka 4.3's own formats.

    key version   key             value
    10            group, member   what the member says of itself
    11            group           the group's epoch, and a hash of the topics it reads
    12            group           the target assignment's epoch
    13            group, member   the member's part of the target
    14            group, member   what the member has, in which epoch
    15            group           the partitions whose states are there, or are being made or deleted

All values are of version 0.

Source: Kafka's GroupCoordinatorRecordHelpers; its dump-log decodes what is written here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from kavka.coordinator.groups.consumer.decide.group import Assignment
from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup, ShareMember, StatePartitions
from kavka.coordinator.shared.decide.records import CoordinatorRecord, record_of, value_of
from kavka.protocol.codec import decode
from kavka.protocol.messages import share_group_state_partition_metadata_value as states
from kavka.protocol.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kavka.protocol.messages.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kavka.protocol.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kavka.protocol.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kavka.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from kavka.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from kavka.protocol.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kavka.protocol.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kavka.protocol.messages.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kavka.protocol.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kavka.protocol.messages.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from kavka.protocol.schema import Message

MEMBER_KEY: Final = 10
GROUP_KEY: Final = 11
TARGET_KEY: Final = 12
TARGET_MEMBER_KEY: Final = 13
CURRENT_KEY: Final = 14
STATES_KEY: Final = 15


class ShareMemberRecord(NamedTuple):
    """`member` has what the member says of itself; None if it is gone."""

    group_id: str
    member_id: str
    member: ShareMember | None


class ShareEpochRecord(NamedTuple):
    """`epoch` is None if the group was deleted."""

    group_id: str
    epoch: int | None
    metadata_hash: int


class ShareTargetRecord(NamedTuple):
    """`epoch` is None if it was deleted."""

    group_id: str
    epoch: int | None
    timestamp_ms: int


class ShareTargetMemberRecord(NamedTuple):
    """`assignment` is None if it was deleted."""

    group_id: str
    member_id: str
    assignment: Assignment | None


class ShareCurrentRecord(NamedTuple):
    """`member` has the member's epochs and partitions; None if it is gone."""

    group_id: str
    member_id: str
    member: ShareMember | None


class ShareStatesRecord(NamedTuple):
    """`states` is None if it was deleted."""

    group_id: str
    states: StatePartitions | None


ShareGroupRecord: TypeAlias = (
    ShareMemberRecord
    | ShareEpochRecord
    | ShareTargetRecord
    | ShareTargetMemberRecord
    | ShareCurrentRecord
    | ShareStatesRecord
)


# -- writing


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group has a new epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record_of(GROUP_KEY, ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """What a member says of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return record_of(MEMBER_KEY, _member_key(group_id, member.member_id), value)


def target_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The target assignment is that of this epoch."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record_of(TARGET_KEY, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_member_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """A member's part of the target assignment."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
            for topic_id in sorted(assignment)
        ]
    )
    return record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """What a member has."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=0,
        assigned_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ],
    )
    return record_of(CURRENT_KEY, _current_key(group_id, member.member_id), value)


def states_record(group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
    """Which partitions have a state."""
    value = states.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(partitions.initializing),
        initialized_topics=_infos(partitions.initialized),
        deleting_topics=[
            states.TopicInfo(topic_id=topic_id, topic_name=partitions.deleting[topic_id])
            for topic_id in sorted(partitions.deleting)
        ],
    )
    return record_of(STATES_KEY, ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_ids: Sequence[str]) -> list[CoordinatorRecord]:
    """The records that take members out, in the order in which Kafka writes them."""
    return [
        *(record_of(CURRENT_KEY, _current_key(group_id, member_id), None) for member_id in member_ids),
        *(record_of(TARGET_MEMBER_KEY, _target_member_key(group_id, member_id), None) for member_id in member_ids),
        *(record_of(MEMBER_KEY, _member_key(group_id, member_id), None) for member_id in member_ids),
    ]


def group_tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """The records that delete a group."""
    group_id = group.group_id
    return [
        *member_tombstones(group_id, list(dict.fromkeys((*group.members, *group.target)))),
        record_of(TARGET_KEY, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        record_of(STATES_KEY, ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        record_of(GROUP_KEY, ShareGroupMetadataKey(group_id=group_id), None),
    ]


def _member_key(group_id: str, member_id: str) -> Message:
    return ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_member_key(group_id: str, member_id: str) -> Message:
    return ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _current_key(group_id: str, member_id: str) -> Message:
    return ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _infos(topics: Mapping[uuid.UUID, NamedPartitions]) -> list[states.TopicPartitionsInfo]:
    return [
        states.TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(topics[topic_id].partitions)
        )
        for topic_id in sorted(topics)
    ]


# -- reading


def decode_share_group_record(key_version: int, key: bytes, value: tuple[int, bytes] | None) -> ShareGroupRecord | None:
    """What a record says; None for keys that are of no share group. Key and value come without their versions.

    Raises `ProtocolViolation` for bytes that are no such record.
    """
    match key_version:
        case _ if key_version == MEMBER_KEY:
            name = decode(ShareGroupMemberMetadataKey, key, key_version)
            said = value_of(ShareGroupMemberMetadataValue, value)
            member = None if said is None else _member(name.member_id, said)
            return ShareMemberRecord(name.group_id, name.member_id, member)
        case _ if key_version == GROUP_KEY:
            group_id = decode(ShareGroupMetadataKey, key, key_version).group_id
            group = value_of(ShareGroupMetadataValue, value)
            if group is None:
                return ShareEpochRecord(group_id, None, 0)
            return ShareEpochRecord(group_id, group.epoch, group.metadata_hash)
        case _ if key_version == TARGET_KEY:
            group_id = decode(ShareGroupTargetAssignmentMetadataKey, key, key_version).group_id
            target = value_of(ShareGroupTargetAssignmentMetadataValue, value)
            if target is None:
                return ShareTargetRecord(group_id, None, 0)
            return ShareTargetRecord(group_id, target.assignment_epoch, target.assignment_timestamp)
        case _ if key_version == TARGET_MEMBER_KEY:
            target_key = decode(ShareGroupTargetAssignmentMemberKey, key, key_version)
            part = value_of(ShareGroupTargetAssignmentMemberValue, value)
            assignment = None if part is None else _assignment(part.topic_partitions)
            return ShareTargetMemberRecord(target_key.group_id, target_key.member_id, assignment)
        case _ if key_version == CURRENT_KEY:
            current_key = decode(ShareGroupCurrentMemberAssignmentKey, key, key_version)
            current = value_of(ShareGroupCurrentMemberAssignmentValue, value)
            progress = None
            if current is not None:
                progress = ShareMember(
                    current_key.member_id,
                    epoch=current.member_epoch,
                    previous_epoch=current.previous_member_epoch,
                    assigned=_assignment(current.assigned_partitions),
                )
            return ShareCurrentRecord(current_key.group_id, current_key.member_id, progress)
        case _ if key_version == STATES_KEY:
            group_id = decode(ShareGroupStatePartitionMetadataKey, key, key_version).group_id
            found = value_of(states.ShareGroupStatePartitionMetadataValue, value)
            return ShareStatesRecord(group_id, None if found is None else _states(found))
        case _:
            return None


def _member(member_id: str, said: ShareGroupMemberMetadataValue) -> ShareMember:
    return ShareMember(
        member_id, said.rack_id, said.client_id, said.client_host, frozenset(said.subscribed_topic_names)
    )


def _assignment(parts: Sequence[TopicPartitions | TopicPartition]) -> Assignment:
    return {part.topic_id: frozenset(part.partitions) for part in parts}


def _states(found: states.ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    return StatePartitions(
        {
            info.topic_id: NamedPartitions(info.topic_name, frozenset(info.partitions))
            for info in found.initializing_topics
        },
        {
            info.topic_id: NamedPartitions(info.topic_name, frozenset(info.partitions))
            for info in found.initialized_topics
        },
        {info.topic_id: info.topic_name for info in found.deleting_topics},
    )


# -- replaying


def is_deletion(record: ShareGroupRecord) -> bool:
    """Whether the record takes something away, and so makes no group."""
    return record[-1] is None or (isinstance(record, ShareEpochRecord | ShareTargetRecord) and record.epoch is None)


def apply_to(group: ShareGroup, record: ShareGroupRecord) -> None:
    """Changes the group as a committed record says."""
    group.rest_version = -1
    match record:
        case ShareEpochRecord(_, int() as epoch, metadata_hash):
            group.epoch, group.metadata_hash = epoch, metadata_hash
        case ShareEpochRecord():
            pass  # Who holds the groups removes it.
        case ShareMemberRecord(_, member_id, None):
            group.remove_member(member_id)
        case ShareMemberRecord(_, member_id, ShareMember() as said):
            known = group.members.get(member_id)
            if known is not None:
                said = replace(said, epoch=known.epoch, previous_epoch=known.previous_epoch, assigned=known.assigned)
            group.members[member_id] = said
        case ShareTargetRecord(_, target_epoch, timestamp_ms):
            group.assignment_epoch = target_epoch or 0
            group.assignment_timestamp_ms = timestamp_ms
        case ShareTargetMemberRecord(_, member_id, assignment):
            if assignment is None:
                group.target.pop(member_id, None)
            else:
                group.target[member_id] = assignment
        case ShareCurrentRecord(_, member_id, progress):
            known = group.members.get(member_id, ShareMember(member_id))
            if progress is not None:
                group.members[member_id] = replace(
                    known, epoch=progress.epoch, previous_epoch=progress.previous_epoch, assigned=progress.assigned
                )
            elif member_id in group.members:
                group.members[member_id] = replace(known, epoch=0, previous_epoch=0, assigned={})
        case ShareStatesRecord(_, found):
            group.states = found or StatePartitions()
