"""ShardWriter: records of a group's shard on their way into the log, and applied once they are committed.

Decides nothing but what goes into one batch, and what a failure of the log means to who asked. Must not know requests.

    I1  records are replayed in the order in which they were appended, after they are committed

Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Final, Protocol

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard
from kavka.coordinator.groups.consumer.decide.records import ConsumerGroupRecord, decode_consumer_group_record
from kavka.coordinator.groups.decide.records import DecodedRecord, decode_record
from kavka.coordinator.groups.share.decide.records import ShareGroupRecord, decode_share_group_record
from kavka.coordinator.groups.streams.decide.records import StreamsGroupRecord, decode_streams_group_record
from kavka.coordinator.shared.active_shards import ShardLog
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN, answer_for
from kavka.coordinator.shared.decide.records import CoordinatorRecord, in_batches, split_version
from kavka.errors import ErrorCode, ProtocolViolation
from kavka.logger import Logger
from kavka.model import Offset

logger = Logger(__name__)

BATCH_BYTES: Final = 512 * 1024
"""How much goes into one batch of many records: half of Kafka's default for the largest batch (KAFKA-13099)."""


class OffsetsLog(ShardLog, Protocol):
    """The port to `__consumer_offsets`."""

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> Awaitable[ErrorCode]:
        """Appends in order, as one batch, with acks=all; NONE once it is committed. With a producer, in a transaction.

        It appends with the call, so the order of calls is the order of the log. To await it is to wait for the commit.
        """
        ...

    def ends(self, partition: int) -> tuple[Offset, Offset] | None:
        """The high watermark and the end of the log; None if this broker does not lead it."""
        ...


class ShardWriter:
    """Writes to `log`. `now_ms` is the monotonic clock, from which sessions count."""

    def __init__(self, log: OffsetsLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms

    def decoded(
        self, partition: int, record: CoordinatorRecord
    ) -> DecodedRecord | ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord | None:
        """What a record says; None for a kind that is not known here, or for garbage, which is logged."""
        try:
            decoded = decode_record(record.key, record.value)
            if decoded is not None:
                return decoded
            key_version, key = split_version(record.key)
            value = None if record.value is None else split_version(record.value)
            found = decode_consumer_group_record(key_version, key, value)
            if found is not None:
                return found
            shares = decode_share_group_record(key_version, key, value)
            return decode_streams_group_record(key_version, key, value) if shares is None else shares
        except ProtocolViolation as garbage:
            logger.warning("coordinator record skipped", partition=partition, why=str(garbage))
            return None

    def replay(self, active: ActiveGroupShard, record: CoordinatorRecord, position: int, *, loading: bool) -> None:
        """Applies a record that is committed, or was read."""
        decoded = self.decoded(active.partition, record)
        if decoded is not None:
            active.shard.replay(decoded, position, self._now_ms(), loading=loading)

    def delete(
        self, active: ActiveGroupShard, tombstones: Sequence[CoordinatorRecord]
    ) -> Coroutine[None, None, ErrorCode]:
        """Appends the tombstones with this call, in as many batches as they need; returns what waits for the commit.

        No other record comes between two batches: it would say more than what was known when this was decided, and a
        tombstone behind it would take it back. What is gone is forgotten though the outcome is unknown, as in Apache
        Kafka.
        """
        appended = [
            (batch, active.next_position(), self._log.append(active.partition, batch)) for batch in batches(tombstones)
        ]
        return self._forget(active, appended)

    async def _forget(
        self,
        active: ActiveGroupShard,
        appended: Sequence[tuple[Sequence[CoordinatorRecord], int, Awaitable[ErrorCode]]],
    ) -> ErrorCode:
        answer = ErrorCode.NONE
        for batch, position, commit in appended:
            outcome = await commit
            if outcome in OUTCOME_UNKNOWN:
                active.on_uncommitted()
            if outcome is ErrorCode.NONE or outcome in OUTCOME_UNKNOWN:
                for record in batch:
                    self.replay(active, record, position, loading=False)
            if answer is ErrorCode.NONE:
                answer = answer_for(outcome)
        return answer

    async def write(self, active: ActiveGroupShard, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        """Writes the records as one batch, and replays them once they are committed. Returns what the log says."""
        if not records:
            return ErrorCode.NONE
        position = active.next_position()
        outcome = await self._log.append(active.partition, records)
        if outcome is ErrorCode.NONE:
            for record in records:
                self.replay(active, record, position, loading=False)
        return outcome

    async def write_change(self, active: ActiveGroupShard, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        """Writes and replays the records of a group; those whose outcome is unknown are replayed, too.

        Mostly one batch. What is larger than a batch may be, and is cut off by a failure, leaves the epochs as they
        were, for their records come last: the next change makes it whole.
        """
        for batch in batches(records):
            if active.is_gone:
                # Led here again, in a later epoch, the log would take it: behind what was read of it.
                return ErrorCode.NOT_COORDINATOR
            position = active.next_position()
            outcome = await self._log.append(active.partition, batch)
            if outcome in OUTCOME_UNKNOWN:
                active.on_uncommitted()
            if outcome is ErrorCode.NONE or outcome in OUTCOME_UNKNOWN:
                for record in batch:
                    self.replay(active, record, position, loading=False)
            if outcome is not ErrorCode.NONE:
                return answer_for(outcome, ErrorCode.UNKNOWN_SERVER_ERROR)
        return ErrorCode.NONE


def batches(records: Sequence[CoordinatorRecord]) -> Iterator[list[CoordinatorRecord]]:
    """The records in order, cut where a batch is full."""
    return in_batches(records, lambda record: len(record.key) + len(record.value or b""), BATCH_BYTES)
