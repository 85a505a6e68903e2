"""Records of `__consumer_offsets`, in Kafka's own formats: committed offsets and groups.

    key version   key                        value
    0, 1          group, topic, partition    OffsetCommitValue, written in version 4 (1 if it has an expiry of its own)
    2             group                      GroupMetadataValue, written in version 3

Keys of other versions belong to consumer groups (groups.consumer.decide.records), or to kinds that are not known here.

Source: Kafka's GroupCoordinatorRecordHelpers; written so that its dump-log decodes them.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, TypeAlias

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import GroupState, JoinProtocol, Member, StoredGroup
from kavka.coordinator.shared.decide.records import CoordinatorRecord, decode_value, split_version, with_version
from kavka.model import NO_TOPIC_ID, LeaderEpoch, Offset
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages.group_metadata_key import GroupMetadataKey
from kavka.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kavka.protocol.messages.offset_commit_key import OffsetCommitKey
from kavka.protocol.messages.offset_commit_value import OffsetCommitValue

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 4
EXPIRING_OFFSET_VALUE_VERSION = 1
"""The only version of an offset's value that keeps an expiry of its own; it has no leader epoch."""
GROUP_VALUE_VERSION = 3
NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """An offset that a group committed for one partition; `commit_timestamp_ms` is the broker's.

    `expire_timestamp_ms` is when the client wanted it forgotten (OffsetCommit 2-4), NO_EXPIRY where the broker decides.
    `topic_id` is that of the topic for which it was committed: another one of this name has other records. Unknown
    where a broker of Apache Kafka 3.9 wrote it, and where it has an expiry of its own.
    """

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: uuid.UUID = NO_TOPIC_ID


class OffsetRecord(NamedTuple):
    """`committed` is None if the offset was deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupRecord(NamedTuple):
    """`value` is None if the group was deleted."""

    group_id: str
    value: GroupMetadataValue | None


DecodedRecord: TypeAlias = OffsetRecord | GroupRecord


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset | None) -> CoordinatorRecord:
    """The record that commits an offset, or with None deletes it."""
    key = with_version(
        OFFSET_KEY_VERSION,
        encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), OFFSET_KEY_VERSION),
    )
    if committed is None:
        return CoordinatorRecord(key, None)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    version = OFFSET_VALUE_VERSION if committed.expire_timestamp_ms == NO_EXPIRY else EXPIRING_OFFSET_VALUE_VERSION
    return CoordinatorRecord(key, with_version(version, encode(value, version)))


def group_record(group: ClassicGroup, *, wall_ms: int) -> CoordinatorRecord:
    """The record that keeps a group's generation, members and assignments; `wall_ms` is when it came to them."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol) if group.protocol is not None else b"",
            assignment=member.assignment if member.proposed is None else member.proposed,
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id if members else None,
        current_state_timestamp=wall_ms,
        members=members if group.state is not GroupState.EMPTY else [],
    )
    return CoordinatorRecord(
        _group_key(group.group_id), with_version(GROUP_VALUE_VERSION, encode(value, GROUP_VALUE_VERSION))
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a group."""
    return CoordinatorRecord(_group_key(group_id), None)


def decode_record(key: bytes, value: bytes | None) -> DecodedRecord | None:
    """What a record of the log says; None for a kind that this coordinator does not know.

    Raises `ProtocolViolation` for bytes that are no such record.
    """
    key_version, key_body = split_version(key)
    if key_version in (0, OFFSET_KEY_VERSION):
        offset_key = decode(OffsetCommitKey, key_body, key_version)
        committed = None
        if value is not None:
            offset = decode_value(OffsetCommitValue, value)[0]
            committed = CommittedOffset(
                offset.offset,
                offset.leader_epoch,
                offset.metadata,
                offset.commit_timestamp,
                offset.expire_timestamp,
                offset.topic_id,
            )
        return OffsetRecord(offset_key.group, offset_key.topic, offset_key.partition, committed)
    if key_version == GROUP_KEY_VERSION:
        group_key = decode(GroupMetadataKey, key_body, key_version)
        if value is None:
            return GroupRecord(group_key.group, None)
        return GroupRecord(group_key.group, decode_value(GroupMetadataValue, value)[0])
    return None


def stored_group(value: GroupMetadataValue) -> StoredGroup:
    """What a group's record keeps."""
    protocol = value.protocol or ""
    members = [
        Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout,
            # Version 0 had one time-out for both.
            stored.rebalance_timeout if stored.rebalance_timeout >= 0 else stored.session_timeout,
            value.protocol_type,
            [JoinProtocol(protocol, stored.subscription)],
            assignment=stored.assignment,
        )
        for stored in value.members
    ]
    timestamp_ms = value.current_state_timestamp
    return StoredGroup(
        value.generation,
        value.protocol_type,
        value.protocol,
        value.leader,
        members,
        None if timestamp_ms < 0 else timestamp_ms,
    )


def _group_key(group_id: str) -> bytes:
    return with_version(GROUP_KEY_VERSION, encode(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION))
