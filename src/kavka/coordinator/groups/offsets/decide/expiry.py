"""Offset expiry: which committed offsets of a group are over their retention, and whether the group goes with them.

Decides by what is committed, by the group's state, and by `offsets.retention.ms` or the time that the client set. Must
not know the log. Offsets of topics that the group reads, and those that an open transaction may change, stay.

Source: KIP-211; Kafka's OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import GroupState
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup
from kavka.coordinator.groups.decide.records import NO_EXPIRY, CommittedOffset
from kavka.coordinator.groups.offsets.decide.group_offsets import GroupOffsets, OffsetKey, offset_tombstone
from kavka.coordinator.groups.streams.decide.group import StreamsGroup
from kavka.coordinator.shared.decide.records import CoordinatorRecord


class Retention(NamedTuple):
    """`wall_ms` is the time now, `offsets_ms` how long offsets are kept (`offsets.retention.minutes`)."""

    wall_ms: int
    offsets_ms: int


class Expiry(NamedTuple):
    """The records that delete what is over its retention; `is_deleted` if the group itself goes."""

    records: Sequence[CoordinatorRecord]
    is_deleted: bool


def decide_expiry(
    group: ClassicGroup | ConsumerGroup | StreamsGroup, offsets: GroupOffsets, retention: Retention
) -> Expiry:
    """The offsets of a group that are over their retention. A group without members goes with its last offset."""
    group_id = group.group_id
    records = []
    if isinstance(group, ClassicGroup):
        is_deleted = group.state is GroupState.EMPTY and not group.has_pending_members
    else:
        is_deleted = not group.members
    committed_offsets = offsets.of_group(group_id)
    over = {
        OffsetKey(group_id, topic, partition)
        for topic, partition, committed in committed_offsets
        if _is_over(group, committed, retention)
    }
    read = group.subscribed_among({key.topic for key in over})
    for topic, partition, _committed in committed_offsets:
        key = OffsetKey(group_id, topic, partition)
        if key in over and topic not in read and not offsets.is_pending(key):
            records.append(offset_tombstone(key))
        else:
            is_deleted = False
    return Expiry(records, is_deleted and not offsets.has_pending(group_id))


def _is_over(
    group: ClassicGroup | ConsumerGroup | StreamsGroup, committed: CommittedOffset, retention: Retention
) -> bool:
    """Whether the offset's retention is over. While a member reads the topic, the offset stays all the same."""
    since_ms: int | None = committed.commit_timestamp_ms
    if isinstance(group, ClassicGroup):
        since_ms = group.expires_since(committed.commit_timestamp_ms)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return retention.wall_ms >= committed.expire_timestamp_ms
    return retention.wall_ms - since_ms >= retention.offsets_ms
