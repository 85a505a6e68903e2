"""GroupShard: the groups and offsets of one partition of `__consumer_offsets`.

Decides: what each group request is answered with and which records it writes. Committed state (offsets, and groups as
the log keeps them) changes only in `replay`, so that live work and loading after a restart are one path. Must not know:
the log, futures, connections.

    I1  an offset is visible only after `replay` of its record, which comes after the record is committed (G3)
    I2  records are replayed in the order of the log
    I3  a group that is deleted leaves no offsets behind

Source: Kafka's GroupCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.coordinator.group import ClassicGroup, Effects, GroupLimits, GroupState
from kavka.coordinator.group_records import (
    CommittedOffset,
    CoordinatorRecord,
    DecodedRecord,
    GroupRecord,
    OffsetRecord,
    group_record,
    group_tombstone,
    members_of,
    offset_record,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import LeaderEpoch, Offset


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit."""

    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str | None


class CommitDecision(NamedTuple):
    """An error per partition, in the order of the request, and the records of those that are fine."""

    errors: Sequence[ErrorCode]
    records: Sequence[CoordinatorRecord]


class GroupShard:
    """Groups by id, and for each the offsets by (topic, partition)."""

    def __init__(self, limits: GroupLimits, *, offset_metadata_max_bytes: int) -> None:
        self.limits = limits
        self._offset_metadata_max_bytes = offset_metadata_max_bytes
        self.groups: dict[str, ClassicGroup] = {}
        self._offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}

    # -- groups

    def group(self, group_id: str) -> ClassicGroup:
        """The group. Raises `RequestError`: UNKNOWN_MEMBER_ID, for nobody can be a member of what is not there."""
        group = self.groups.get(group_id)
        if group is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def group_or_new(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group, made empty if it is not there."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.limits, now_ms)
        return group

    def delete_group(self, group_id: str, now_ms: int, effects: Effects) -> list[CoordinatorRecord]:
        """The records that delete an empty group with its offsets.

        Raises `RequestError`: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        group.die(now_ms, ErrorCode.COORDINATOR_NOT_AVAILABLE, effects)
        records = [
            offset_record(group_id, topic, partition, None) for topic, partition in self._offsets.get(group_id, ())
        ]
        records.append(group_tombstone(group_id))
        return records

    def revive(self, group_id: str, now_ms: int) -> None:
        """The records that delete a group could not be written: it is there as before."""
        if group_id in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, self.limits, now_ms)

    # -- offsets

    def commit(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        offsets: Sequence[OffsetToCommit],
        now_ms: int,
        *,
        wall_ms: int,
    ) -> CommitDecision:
        """Whether a member may commit, and the records for it. Raises `RequestError` where it may not."""
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise RequestError(ErrorCode.ILLEGAL_GENERATION)
            group = self.group_or_new(group_id, now_ms)
        group.check_commit(member_id, group_instance_id, generation, now_ms)
        errors, records = [], []
        for wanted in offsets:
            metadata = wanted.metadata or ""
            if len(metadata.encode()) > self._offset_metadata_max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            committed = CommittedOffset(wanted.offset, wanted.leader_epoch, metadata, wall_ms)
            records.append(offset_record(group_id, wanted.topic, wanted.partition, committed))
        return CommitDecision(errors, records)

    def offset(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._offsets.get(group_id, {}).get((topic, partition))

    def offsets(self, group_id: str) -> list[tuple[str, int, CommittedOffset]]:
        """All offsets of a group, by topic and partition."""
        there = self._offsets.get(group_id, {})
        return [(topic, partition, there[topic, partition]) for topic, partition in sorted(there)]

    def forget_topics(self, topics: Iterable[str]) -> list[CoordinatorRecord]:
        """The records that delete the offsets of deleted topics."""
        gone = set(topics)
        return [
            offset_record(group_id, topic, partition, None)
            for group_id, there in self._offsets.items()
            for topic, partition in there
            if topic in gone
        ]

    # -- the log

    def record_of(self, group: ClassicGroup, *, wall_ms: int) -> CoordinatorRecord:
        """The record of a group as it is now."""
        return group_record(group, wall_ms=wall_ms)

    def replay(self, record: DecodedRecord, now_ms: int, *, loading: bool) -> None:
        """Applies a committed record. While `loading`, group records bring back the groups themselves."""
        match record:
            case OffsetRecord(group_id, topic, partition, committed):
                if committed is not None:
                    self._offsets.setdefault(group_id, {})[topic, partition] = committed
                    self.group_or_new(group_id, now_ms)
                    return
                there = self._offsets.get(group_id)
                if there is not None:
                    there.pop((topic, partition), None)
                    if not there:
                        del self._offsets[group_id]
            case GroupRecord(group_id, value):
                if value is None:
                    self.groups.pop(group_id, None)
                elif loading:
                    self.groups.pop(group_id, None)
                    self.group_or_new(group_id, now_ms).restore(
                        generation=value.generation,
                        protocol_type=value.protocol_type,
                        protocol=value.protocol,
                        leader_id=value.leader,
                        members=members_of(value),
                        now_ms=now_ms,
                    )

    def on_loaded(self) -> None:
        """Groups whose last word in the log was a tombstone but which still have offsets are empty groups."""
        for group_id in list(self.groups):
            self.forget_if_nothing(group_id)

    def forget_if_nothing(self, group_id: str) -> None:
        """Forgets a group that never had a generation, has nobody about to join and no offsets.

        The log knows nothing of it either. Every group id that a client makes up would else stay for ever.
        """
        group = self.groups.get(group_id)
        if group is not None and group.is_unused and group_id not in self._offsets:
            del self.groups[group_id]
