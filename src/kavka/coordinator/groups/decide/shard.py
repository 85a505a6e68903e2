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

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import Effects, GroupLimits, GroupState
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup
from kavka.coordinator.groups.consumer.decide.records import (
    ConsumerGroupRecord,
    EpochRecord,
    apply_to,
    group_tombstones,
    is_deletion,
)
from kavka.coordinator.groups.decide.records import (
    NO_EXPIRY,
    CommittedOffset,
    DecodedRecord,
    GroupRecord,
    OffsetRecord,
    group_record,
    group_tombstone,
    stored_group,
)
from kavka.coordinator.groups.offsets.decide.commits import NO_RETENTION, CommitDecision, CommitRequest, OffsetToCommit
from kavka.coordinator.groups.offsets.decide.expiry import Expiry, Retention, decide_expiry
from kavka.coordinator.groups.offsets.decide.group_offsets import GroupOffsets, OffsetKey, offset_tombstone
from kavka.coordinator.groups.share.decide import records as share_records
from kavka.coordinator.groups.share.decide.group import ShareGroup
from kavka.coordinator.groups.streams.decide import records as streams_records
from kavka.coordinator.groups.streams.decide.group import StreamsGroup
from kavka.coordinator.groups.streams.decide.records import StreamsGroupRecord
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import GoneTopic

TopicId: TypeAlias = Callable[[str], uuid.UUID | None]
"""The id of a topic, None if it is not there."""

MAX_NEW_GROUPS = 1_000
"""Groups of one partition that were named but that nobody has joined; each takes about a kilobyte."""
_LATEST_MS = 2**63 - 1
"""The latest time that a record can tell."""


class GroupShard:
    """Groups by id, and their offsets. A group is classic (`groups`), a consumer, a share or a streams group, never
    two."""

    def __init__(self, limits: GroupLimits, *, offset_metadata_max_bytes: int) -> None:
        self.limits = limits
        self._offset_metadata_max_bytes = offset_metadata_max_bytes
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.share_groups: dict[str, ShareGroup] = {}
        self.streams_groups: dict[str, StreamsGroup] = {}
        self._new: dict[str, None] = {}
        self.offsets = GroupOffsets()

    # -- groups

    def group(self, group_id: str) -> ClassicGroup:
        """The group. Raises `RequestError`: UNKNOWN_MEMBER_ID, because a group that does not exist has no members."""
        group = self.groups.get(group_id)
        if group is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def group_or_new(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group, made empty if it is not there."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.limits, now_ms)
            self._new[group_id] = None
            if len(self._new) > MAX_NEW_GROUPS:
                self._forget_oldest()
        return group

    def _forget_oldest(self) -> None:
        """Keeps a bounded number of groups that nobody has joined yet. A client with a member id in a forgotten group
        gets UNKNOWN_MEMBER_ID, and starts again."""
        oldest = next(iter(self._new))
        del self._new[oldest]
        group = self.groups.get(oldest)
        if group is not None and group.had_no_member and not self.offsets.has_any(oldest):
            del self.groups[oldest]

    def delete_group(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that delete an empty group with its offsets.

        Raises `RequestError`: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        newer = self._of_members_with_epochs(group_id)
        group = self.groups.get(group_id)
        if newer is None and (group is None or group.state is GroupState.DEAD):
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)
        if (newer is not None and newer.members) or (group is not None and group.state is not GroupState.EMPTY):
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        end = [group_tombstone(group_id)] if newer is None else _group_tombstones(newer)
        return [*map(offset_tombstone, self.offsets.keys_of(group_id)), *end]

    def _of_members_with_epochs(self, group_id: str) -> ConsumerGroup | StreamsGroup | None:
        return self.consumer_groups.get(group_id) or self.streams_groups.get(group_id)

    # -- offsets

    def commit(self, request: CommitRequest, now_ms: int, *, wall_ms: int, topic_id: TopicId) -> CommitDecision:
        """Whether a member may commit, and the records for it. Raises `RequestError` if it may not."""
        group_id, member_id, group_instance_id, generation = request[:4]
        consumers = self.consumer_groups.get(group_id)
        if consumers is not None:
            offsets = request.offsets
            consumers.check_commit(
                member_id,
                generation,
                lambda: ((topic_id(each.topic), each.partition) for each in offsets),
                api_version=request.api_version,
                is_transactional=False,
            )
        elif group_id in self.streams_groups:
            self._check_streams_commit(request, is_transactional=False)
        else:
            self._group_for_commit(group_id, generation, now_ms).check_commit(
                member_id, group_instance_id, generation, now_ms
            )
        retention_ms = request.retention_ms
        expires_at_ms = NO_EXPIRY if retention_ms == NO_RETENTION else min(wall_ms + retention_ms, _LATEST_MS)
        return self._decide_commit(group_id, request.offsets, wall_ms, expires_at_ms)

    def commit_transactional(
        self, request: CommitRequest, now_ms: int, *, wall_ms: int, topic_id: TopicId
    ) -> CommitDecision:
        """As `commit`, for offsets that a transaction is to commit (KIP-447)."""
        group_id, member_id, group_instance_id, generation = request[:4]
        offsets = request.offsets
        consumers = self.consumer_groups.get(group_id)
        if consumers is None and group_id not in self.streams_groups:
            self._group_for_commit(group_id, generation, now_ms).check_transactional_commit(
                member_id, group_instance_id, generation
            )
        elif generation >= 0 or member_id or group_instance_id is not None:
            # As in a classic group, who names neither member nor epoch is let through: producers of before KIP-447.
            try:
                if consumers is None:
                    self._check_streams_commit(request, is_transactional=True)
                else:
                    consumers.check_commit(
                        member_id,
                        generation,
                        lambda: ((topic_id(each.topic), each.partition) for each in offsets),
                        api_version=request.api_version,
                        is_transactional=True,
                    )
            except RequestError as refused:
                if refused.code is ErrorCode.STALE_MEMBER_EPOCH:
                    raise RequestError(ErrorCode.ILLEGAL_GENERATION) from refused
                raise
        return self._decide_commit(group_id, offsets, wall_ms, NO_EXPIRY)

    def _check_streams_commit(self, request: CommitRequest, *, is_transactional: bool) -> None:
        self.streams_groups[request.group_id].check_commit(
            request.member_id,
            request.generation,
            ((each.topic, each.partition) for each in request.offsets),
            api_version=request.api_version,
            is_transactional=is_transactional,
        )

    def _group_for_commit(self, group_id: str, generation: int, now_ms: int) -> ClassicGroup:
        if group_id in self.share_groups:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)  # It has no committed offsets.
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise RequestError(ErrorCode.ILLEGAL_GENERATION)
            group = self.group_or_new(group_id, now_ms)
        return group

    def _decide_commit(
        self, group_id: str, offsets: Sequence[OffsetToCommit], wall_ms: int, expires_at_ms: int
    ) -> CommitDecision:
        errors, records = [], []
        for wanted in offsets:
            metadata = wanted.metadata or ""
            # The setting speaks of bytes, but Kafka counts Java's characters, of two bytes each.
            if len(metadata.encode("utf-16-be", "surrogatepass")) // 2 > self._offset_metadata_max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            committed = CommittedOffset(
                wanted.offset, wanted.leader_epoch, metadata, wall_ms, expires_at_ms, wanted.topic_id
            )
            records.append(OffsetRecord(group_id, wanted.topic, wanted.partition, committed))
        return CommitDecision(errors, records)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> tuple[list[ErrorCode], list[CoordinatorRecord]]:
        """An error per partition, and the records that delete the offsets of the others.

        Raises `RequestError`: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP of members that are no consumers.
        """
        group = self._of_members_with_epochs(group_id) or self.groups.get(group_id)
        if group is None or (isinstance(group, ClassicGroup) and group.state is GroupState.DEAD):
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.is_of_consumers:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        read = group.subscribed_among(topic for topic, _partition in partitions)
        there = dict.fromkeys(self.offsets.keys_of(group_id))
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in read else ErrorCode.NONE for topic, _partition in partitions
        ]
        keys = [OffsetKey(group_id, topic, partition) for topic, partition in partitions if topic not in read]
        return errors, [offset_tombstone(key) for key in dict.fromkeys(keys) if key in there]

    def forget_topics(self, topics: Iterable[GoneTopic]) -> list[CoordinatorRecord]:
        """The records that delete the offsets of deleted topics."""
        return [offset_tombstone(key) for key in self.offsets.keys_of_deleted(topics)]

    def expire(self, group_id: str, *, wall_ms: int, retention_ms: int) -> Expiry:
        """What of a group is over its retention; a group without members goes with its last offset.

        Nothing while a transaction may still change the offset.
        """
        group = self._of_members_with_epochs(group_id) or self.groups.get(group_id)
        if group is None or (isinstance(group, ClassicGroup) and group.state is GroupState.DEAD):
            return Expiry((), is_deleted=False)
        expiry = decide_expiry(group, self.offsets, Retention(wall_ms, retention_ms))
        if not expiry.is_deleted:
            return expiry
        tombstones = [group_tombstone(group_id)] if isinstance(group, ClassicGroup) else _group_tombstones(group)
        return Expiry([*expiry.records, *tombstones], is_deleted=True)

    # -- the log

    def record_of(self, group: ClassicGroup, *, wall_ms: int) -> CoordinatorRecord:
        """The record of a group as it is now."""
        return group_record(group, wall_ms=wall_ms)

    def replay(
        self,
        record: DecodedRecord | ConsumerGroupRecord | share_records.ShareGroupRecord | StreamsGroupRecord,
        position: int,
        now_ms: int,
        *,
        loading: bool,
    ) -> None:
        """Applies a committed record. While `loading`, group records bring back the groups themselves."""
        match record:
            case OffsetRecord(group_id, _topic, _partition, committed):
                self.offsets.replay(record, position)
                if committed is not None:
                    self.ensure_group(group_id, now_ms)
            case GroupRecord(group_id, value):
                if value is None:
                    self.groups.pop(group_id, None)
                elif loading:
                    self.groups.pop(group_id, None)
                    self.consumer_groups.pop(group_id, None)
                    self.share_groups.pop(group_id, None)
                    self.streams_groups.pop(group_id, None)
                    self.group_or_new(group_id, now_ms).restore(stored_group(value), now_ms)
            case EpochRecord(group_id, None):
                self.consumer_groups.pop(group_id, None)
                if self.offsets.has_any(group_id):
                    self.ensure_group(group_id, now_ms)
            case StreamsGroupRecord():
                self._replay_streams(record, now_ms)
            case (
                share_records.ShareEpochRecord()
                | share_records.ShareMemberRecord()
                | share_records.ShareTargetRecord()
                | share_records.ShareTargetMemberRecord()
                | share_records.ShareCurrentRecord()
                | share_records.ShareStatesRecord()
            ):
                self._replay_share(record)
            case _:
                consumers = self.consumer_groups.get(record.group_id)
                if consumers is None:
                    if is_deletion(record):
                        return
                    consumers = self.consumer_groups[record.group_id] = ConsumerGroup(record.group_id)
                    self.groups.pop(record.group_id, None)
                apply_to(consumers, record)

    def _replay_share(self, record: share_records.ShareGroupRecord) -> None:
        if isinstance(record, share_records.ShareEpochRecord) and record.epoch is None:
            self.share_groups.pop(record.group_id, None)
            return
        group = self.share_groups.get(record.group_id)
        if group is None:
            if share_records.is_deletion(record):
                return
            group = self.share_groups[record.group_id] = ShareGroup(record.group_id)
            self.groups.pop(record.group_id, None)
        share_records.apply_to(group, record)

    def _replay_streams(self, record: StreamsGroupRecord, now_ms: int) -> None:
        group_id = record.group_id
        if record.change == streams_records.GroupChange(None):
            self.streams_groups.pop(group_id, None)
            if self.offsets.has_any(group_id):
                self.ensure_group(group_id, now_ms)
            return
        group = self.streams_groups.get(group_id)
        if group is None:
            if record.is_deletion:
                return
            group = self.streams_groups[group_id] = StreamsGroup(group_id)
            self.groups.pop(group_id, None)
        streams_records.apply_to(group, record.change)

    def ensure_group(self, group_id: str, now_ms: int) -> None:
        """What has offsets is a group: an empty one, if it is not there."""
        if group_id not in self.share_groups and self._of_members_with_epochs(group_id) is None:
            self.group_or_new(group_id, now_ms)

    def end_transaction(self, producer_id: int, now_ms: int, *, committed: bool, position: int | None = None) -> None:
        """The marker of a producer's transaction is in the log, at `position`; None: behind all that is pending."""
        for group_id in self.offsets.end(producer_id, committed=committed, position=position):
            if self.offsets.has_any(group_id):
                self.ensure_group(group_id, now_ms)
            else:
                self.forget_if_nothing(group_id)

    def on_loaded(self, now_ms: int, effects: Effects) -> None:
        """Groups whose last word in the log was a tombstone but which still have offsets are empty groups."""
        for group_id in list(self.groups):
            self.forget_if_nothing(group_id)
        for group in self.groups.values():
            group.on_loaded(now_ms, effects)

    def forget_if_nothing(self, group_id: str) -> None:
        """Forgets a group that never had a generation, has nobody about to join and no offsets.

        The log knows nothing of it either. Every group id that a client makes up would else stay for ever.
        """
        group = self.groups.get(group_id)
        if group is not None and group.is_unused and not self.offsets.has_any(group_id):
            del self.groups[group_id]
            self._new.pop(group_id, None)


def _group_tombstones(group: ConsumerGroup | StreamsGroup) -> list[CoordinatorRecord]:
    return group_tombstones(group) if isinstance(group, ConsumerGroup) else streams_records.group_tombstones(group)
