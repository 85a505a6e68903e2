"""Partition: one replica's view of a partition that it hosts: its role, its log, and what is committed.

Decides: whether this broker may append or serve reads (role and leader epoch), when an append is refused for want of
in-sync replicas, and where the high watermark stands. Must not know: who waits for it (the purgatory), who asked (the
protocol), or where the state comes from (the controller).

    I1  only a leader appends, and only records of its own leader epoch
    I2  the high watermark is the least log end offset over the in-sync replicas, never above the leader's own
    I3  within one leader epoch the high watermark never falls
    I4  what a consumer reads lies below the high watermark (read_committed: below the last stable offset)
    I5  a leader epoch, once seen, is never followed by a lower one

Source: Kafka's Partition; KIP-101 and KIP-320 for epochs; article 003 for the ISR.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import ErrorCode, OffsetOutOfRange, RequestError
from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderAndIsr, LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from kavka.filesystem import Buffer
    from kavka.log.unified_log import AppendResult, ReadResult, UnifiedLog

ACKS_ALL = -1


class PartitionAppend(NamedTuple):
    """What an append did: the log's result, and whether the high watermark rose with it."""

    result: AppendResult
    high_watermark_advanced: bool


class EpochEndOffset(NamedTuple):
    """The answer to OffsetForLeaderEpoch: the largest epoch not above the one asked for, and where it ends."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class Partition:
    """One hosted replica. `min_insync_replicas` follows the topic's configuration."""

    __slots__ = (
        "_is_leader",
        "_remote_log_end_offsets",
        "local_broker_id",
        "log",
        "min_insync_replicas",
        "replicas",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        log: UnifiedLog,
        *,
        local_broker_id: BrokerId,
        min_insync_replicas: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.local_broker_id = local_broker_id
        self.min_insync_replicas = min_insync_replicas
        self.replicas: tuple[BrokerId, ...] = ()
        self.state = LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1)
        self._is_leader = False
        # Log end offsets of the other replicas, as their fetches in this leader epoch told them. A replica that is
        # not in here has told nothing yet, and holds the high watermark where it is.
        self._remote_log_end_offsets: dict[BrokerId, Offset] = {}

    @property
    def is_leader(self) -> bool:
        return self._is_leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.state.leader_epoch

    def become_leader(self, state: LeaderAndIsr, replicas: tuple[BrokerId, ...]) -> bool:
        """Leads from now on, in `state.leader_epoch`. Returns whether the high watermark rose.

        An older epoch than the one known changes nothing (I5); the same epoch again only refreshes the ISR.
        """
        if state.leader_epoch < self.state.leader_epoch:
            return False
        if state.leader_epoch > self.state.leader_epoch or not self._is_leader:
            # What followers had fetched under an earlier leader says nothing about this reign (S19).
            self._remote_log_end_offsets.clear()
            self.log.assign_epoch_start_offset(state.leader_epoch, self.log.log_end_offset)
        self.state = state
        self.replicas = replicas
        self._is_leader = True
        return self._maybe_advance_high_watermark()

    def append_as_leader(self, records: Buffer, *, required_acks: int, now_ms: int) -> PartitionAppend:
        """Appends what a producer sent.

        Raises `RequestError` (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS), `RecordsError` from the log's checks, or
        `StorageError`; nothing was appended then.
        """
        self._check_leads()
        if required_acks == ACKS_ALL and len(self.state.isr) < self.min_insync_replicas:
            raise RequestError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.state.isr)} in-sync replicas, "
                f"min.insync.replicas asks for {self.min_insync_replicas}",
            )
        result = self.log.append_as_leader(records, self.state.leader_epoch, now_ms)
        return PartitionAppend(result, self._maybe_advance_high_watermark())

    def has_enough_replicas(self) -> bool:
        """Whether the ISR still meets min.insync.replicas: asked again when an acks=all append is committed."""
        return len(self.state.isr) >= self.min_insync_replicas

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        current_leader_epoch: LeaderEpoch,
        read_committed: bool,
        min_one_batch: bool,
    ) -> ReadResult:
        """Record batches from `offset` for a consumer.

        Raises `RequestError` (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH) or
        `OffsetOutOfRange`.
        """
        self.check_epoch(current_leader_epoch)
        self._check_leads()
        log = self.log
        bound = log.last_stable_offset if read_committed else log.high_watermark
        return log.read(offset, max_bytes, max_offset=bound, min_one_batch=min_one_batch)

    def diverging_epoch(self, last_fetched_epoch: LeaderEpoch, offset: Offset) -> EpochEndOffset | None:
        """Where a reader's log left this one, None if it did not (KIP-320).

        `last_fetched_epoch` is the epoch of the record before `offset` in the reader's log, -1 if it does not say.
        Raises `OffsetOutOfRange` where nothing is known of that epoch any more.
        """
        if last_fetched_epoch < 0:
            return None
        end = self.end_offset_for_epoch(last_fetched_epoch)
        if end.end_offset < 0:
            raise OffsetOutOfRange(f"{self.topic_partition} knows no epoch up to {last_fetched_epoch}")
        if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None

    def end_offset_for_epoch(self, leader_epoch: LeaderEpoch) -> EpochEndOffset:
        """The end of the largest epoch that is not above `leader_epoch`; (-1, -1) where none is known."""
        epoch, end_offset = self.log.end_offset_for_epoch(leader_epoch)
        return EpochEndOffset(epoch, end_offset)

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Refuses a request that was meant for another reign. -1 (an old client that does not say) passes."""
        known = self.state.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == known:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise RequestError(
            code, f"{self.topic_partition} is in leader epoch {known}, {current_leader_epoch} was asked for"
        )

    def check_leads(self, current_leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Raises `RequestError` unless this broker leads the partition in `current_leader_epoch`."""
        self.check_epoch(current_leader_epoch)
        self._check_leads()

    def _check_leads(self) -> None:
        if not self._is_leader:
            raise RequestError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.local_broker_id} does not lead {self.topic_partition}; broker {self.state.leader} does",
            )

    def _maybe_advance_high_watermark(self) -> bool:
        log = self.log
        least = log.log_end_offset
        for broker in self.state.isr:
            if broker != self.local_broker_id:
                least = min(least, self._remote_log_end_offsets.get(broker, -1))
        if least <= log.high_watermark:
            return False
        log.advance_high_watermark(least)
        return True
