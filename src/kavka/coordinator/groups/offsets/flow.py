"""OffsetsFlow: the flow around committed offsets: commits, transactions of producers, deletion, expiry.

Decides nothing: a shard decides who may commit, and which records that makes. This writes them, waits until they are
committed, and answers then. Must not know sockets, the wire format of requests, or how members join.

Source: Kafka's OffsetMetadataManager and CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Protocol

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Ending
from kavka.coordinator.groups.consumer.flow import Change, ConsumerGroupFlow, Surroundings
from kavka.coordinator.groups.decide.records import CommittedOffset, OffsetRecord, offset_record
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest
from kavka.coordinator.groups.offsets.decide.expiry import Expiry
from kavka.coordinator.groups.shard_writer import OffsetsLog, ShardWriter, batches
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN, answer_for
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger
from kavka.model import NO_TOPIC_ID, GoneTopic

logger = Logger(__name__)

GROUPS_AT_ONCE: Final = 200
"""How many groups are looked through for expiry before other work has its turn."""


class GroupShards(Protocol):
    """The group coordinator, as this sees it: which partitions are here."""

    def shard_of(self, group_id: str, *, empty_allowed: bool = False) -> ActiveGroupShard:
        """The shard that keeps a group. Raises `RequestError` if it is not served here."""
        ...

    def shard_at(self, partition: int) -> ActiveGroupShard | None:
        """The shard of a partition, loading or loaded; None if it is not here."""
        ...

    def shards(self) -> Sequence[ActiveGroupShard]:
        """All that are here."""
        ...

    def now_ms(self) -> int:
        """The monotonic clock."""
        ...


class OffsetsFlow:
    """Offsets of all groups that this broker coordinates."""

    def __init__(
        self,
        shards: GroupShards,
        log: OffsetsLog,
        writer: ShardWriter,
        consumers: ConsumerGroupFlow,
        around: Surroundings,
    ) -> None:
        self._find = shards.shard_of
        self._shard_at = shards.shard_at
        self._shards = shards.shards
        self._now_ms = shards.now_ms
        self._log = log
        self._writer = writer
        self._consumers = consumers
        self._around = around
        self._wall_ms = around.wall_ms

    async def commit(self, request: CommitRequest) -> list[ErrorCode]:
        """An error per offset, in order, once those that are fine are committed. Raises `RequestError` for all."""
        group_id = request.group_id
        active = self._find(group_id, empty_allowed=request.generation < 0)
        decision = active.shard.commit(request, self._now_ms(), wall_ms=self._wall_ms(), topic_id=self._topic_id)
        records = [_offset_record(offset) for offset in decision.offsets]
        # Before it is appended, in the same step: what is decided meanwhile must count it
        # (`groups.offsets.decide.group_offsets`, I4).
        active.shard.offsets.begin(decision.offsets)
        try:
            outcome = await self._writer.write(active, records)
            if outcome in OUTCOME_UNKNOWN:
                active.shard.offsets.doubt(decision.offsets)
        finally:
            active.shard.offsets.finish(decision.offsets)
        error = answer_for(outcome, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        active.shard.forget_if_nothing(group_id)
        return [own if own is not ErrorCode.NONE else error for own in decision.errors]

    async def commit_transactional(
        self, request: CommitRequest, producer_id: int, producer_epoch: int
    ) -> list[ErrorCode]:
        """As `commit`, but what is committed waits for the marker (`on_marker`; KIP-98, KIP-447)."""
        group_id = request.group_id
        active = self._find(group_id)
        shard = active.shard
        decision = shard.commit_transactional(request, self._now_ms(), wall_ms=self._wall_ms(), topic_id=self._topic_id)
        error = ErrorCode.NONE
        if decision.offsets:
            # What cannot be written at all must not be pending: no marker would ever come for it.
            records = [_offset_record(offset) for offset in decision.offsets]
            position = active.next_position()
            # Before it is appended: the marker may be committed with it, and be heard of first
            # (`groups.offsets.decide.group_offsets`, I3).
            shard.offsets.hold(producer_id, decision.offsets, position)
            answer = await self._log.append(
                active.partition, records, producer_id=producer_id, producer_epoch=producer_epoch
            )
            if answer is ErrorCode.NONE:
                shard.offsets.confirm(producer_id, position)
            elif answer not in OUTCOME_UNKNOWN:
                shard.offsets.revoke(producer_id, position)
            error = answer_for(answer, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        shard.forget_if_nothing(group_id)
        return [own if own is not ErrorCode.NONE else error for own in decision.errors]

    def _topic_id(self, name: str) -> uuid.UUID | None:
        topic = self._around.topics.topic(name)
        return None if topic is None else topic.topic_id

    def on_marker(self, partition: int) -> Callable[[int, int, bool], None]:
        """A marker is about to be appended to the partition. What this returns is told of whom it is (producer id and
        epoch), and whether it commits, once it is committed: what the transaction wrote there holds then, or is gone.

        A partition that is not led here, or read again meanwhile, is passed over: who reads its log reads the marker.
        """
        active = self._shard_at(partition)
        position = None if active is None or active.loading else active.next_position()

        def on_ended(producer_id: int, producer_epoch: int, committed: bool) -> None:
            if active is not None and active is self._shard_at(partition):
                self._end(active, producer_id, producer_epoch, committed=committed, position=position)

        return on_ended

    def _end(
        self,
        active: ActiveGroupShard,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        position: int | None,
    ) -> None:
        if active.loading:
            active.endings.append(Ending(producer_id, committed))
            return
        logger.debug(
            "group offsets of a transaction ended",
            partition=active.partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )
        active.shard.end_transaction(producer_id, self._now_ms(), committed=committed, position=position)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may fetch its group's offsets; of a classic group, always. Raises `RequestError`."""
        shard = self._find(group_id, empty_allowed=True).shard
        group = shard.consumer_groups.get(group_id) or shard.streams_groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def fetch(
        self, group_id: str, topic: str, partition: int, topic_id: uuid.UUID = NO_TOPIC_ID
    ) -> CommittedOffset | None:
        """The offset; None if there is none, or none for the topic with this id. Raises `RequestError`, also where its
        deletion may still be undone: who finds no offset begins elsewhere."""
        active = self._find(group_id, empty_allowed=True)
        found = active.shard.offsets.get(group_id, topic, partition, topic_id)
        if found is None:
            active.require_committed()
        return found

    def fetch_all(self, group_id: str) -> list[tuple[str, int, CommittedOffset]]:
        """All offsets of a group, by topic and partition. Raises `RequestError`."""
        return self._find(group_id, empty_allowed=True).shard.offsets.of_group(group_id)

    def pending(self, group_id: str) -> frozenset[tuple[str, int]]:
        """Partitions whose offset an open transaction (KIP-447) or a commit on its way into the log may change.

        Raises `RequestError`.
        """
        offsets = self._find(group_id, empty_allowed=True).shard.offsets
        if not offsets.has_pending(group_id):
            return frozenset()
        keys = offsets.keys_of(group_id)
        return frozenset((key.topic, key.partition) for key in keys if offsets.is_pending(key))

    async def delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> list[ErrorCode]:
        """An error per partition, in order, once the others are gone. Raises `RequestError` for all."""
        active = self._find(group_id)
        errors, records = active.shard.delete_offsets(group_id, partitions)
        if not records:
            active.require_committed()
        error = await self._writer.delete(active, records)
        return [own if own is not ErrorCode.NONE else error for own in errors]

    async def on_topics_deleted(self, topics: Sequence[GoneTopic]) -> None:
        """Deletes the offsets that groups committed for these topics.

        In all partitions in this step: what is committed for topics that are made again under these names stays, also
        where a topic's id is not known. A partition whose log is being read forgets them in the step in which it is
        served.
        """
        deleting = []
        for active in self._shards():
            if active.loading:
                active.deleted_topics.update(dict.fromkeys(topics))
            else:
                deleting.append(self._forget(active, topics))
        await asyncio.gather(*deleting)

    def on_loaded(self, active: ActiveGroupShard) -> Coroutine[None, None, None] | None:
        """The partition is served from this step on. Returns what is to be awaited beside; None if there is nothing."""
        topics, active.deleted_topics = active.deleted_topics, {}
        return self._forget(active, list(topics)) if topics else None

    def _forget(self, active: ActiveGroupShard, topics: Sequence[GoneTopic]) -> Coroutine[None, None, None]:
        return self._await_forgotten(active.partition, self._writer.delete(active, active.shard.forget_topics(topics)))

    async def _await_forgotten(self, partition: int, deleting: Coroutine[None, None, ErrorCode]) -> None:
        error = await deleting
        if error is not ErrorCode.NONE:
            logger.warning("offsets of deleted topics perhaps not deleted", partition=partition, why=error.name)

    async def expire(self, retention_ms: int) -> None:
        """Deletes what is over its retention, and groups that nothing is left of."""
        for active in self._shards():
            if active.loading:
                continue
            shard = active.shard
            groups = dict.fromkeys(
                (*shard.groups, *shard.consumer_groups, *shard.streams_groups, *shard.offsets.group_ids())
            )
            for number, group_id in enumerate(groups, 1):
                if active.is_gone:
                    break
                await self._expire(active, group_id, retention_ms)
                if not number % GROUPS_AT_ONCE:
                    await asyncio.sleep(0)

    async def _expire(self, active: ActiveGroupShard, group_id: str, retention_ms: int) -> None:
        async def decide() -> tuple[Change, Expiry]:
            classic = active.shard.groups.get(group_id)
            expiry = active.shard.expire(group_id, wall_ms=self._wall_ms(), retention_ms=retention_ms)
            # No more than one batch: until the next one is written an offset of it may be committed again.
            first = next(batches(expiry.records), [])
            if len(first) < len(expiry.records):
                expiry = Expiry(first, is_deleted=False)
            return Change(expiry.records, classic if expiry.is_deleted else None), expiry

        try:
            expiry = await self._consumers.in_turn(active, group_id, decide, at_once=True)
        except RequestError as failure:
            logger.warning("group offsets not expired", group=group_id, why=failure.code.name)
            return
        if expiry.records:
            logger.info(
                "group offsets expired",
                group=group_id,
                records=len(expiry.records),
                group_deleted=expiry.is_deleted,
            )


def _offset_record(offset: OffsetRecord) -> CoordinatorRecord:
    return offset_record(offset.group_id, offset.topic, offset.partition, offset.committed)
