"""CoordinatorLog: a coordinator's way to its topic: appends with acks=all, and reads all that is committed.

Decides nothing but how much is read at a time. A record batch that cannot be read ends the loading of its partition
with what came before it, and is logged: what is further back in the log than the damage is served as it was. A disk
that fails takes its log directory offline, and the partition with it.

    I1  what is appended lies in the log in the order of the calls: `append` writes before it returns what waits
    I2  NONE is answered when the records are committed. REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND leave
        open whether they will be; after any other error they are not in the log

Source: Kafka's CoordinatorLoaderImpl, PartitionWriter and TransactionStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from kavka.broker.coordinators.committed_records import CommittedRecords
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import CorruptRecords, ErrorCode, OffsetOutOfRange, RecordsError, StorageError
from kavka.log.decide.producer_state import AppendOrigin
from kavka.logger import Logger
from kavka.model import FileSlice, Offset
from kavka.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, iterate_batches
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.replication.decide.partition import ACKS_ALL
from kavka.replication.delayed_requests import AppendOutcome
from kavka.replication.replica_manager import ReplicaManager

logger = Logger(__name__)

SETTLE_PAUSE_S: Final = 0.1
"""How long to wait before it is looked again whether records are committed, where waiting for them ended at once."""


class CoordinatorLogSettings(NamedTuple):
    """`load_bytes` is how much of the log is read at a time; `commit_timeout_ms` how long a commit may take;
    `compression` is the codec of its batches."""

    load_bytes: int
    commit_timeout_ms: int
    compression: Compression = Compression.NONE


class CoordinatorLog:
    """The log of `topic`."""

    def __init__(
        self,
        topic: str,
        replicas: ReplicaManager,
        settings: CoordinatorLogSettings,
        *,
        wall_ms: Callable[[], int],
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self._topic = topic
        self._compression = settings.compression
        self._replicas = replicas
        self._on_storage_error = on_storage_error
        self._wall_ms = wall_ms
        self._load_bytes = settings.load_bytes
        self._commit_timeout_ms = settings.commit_timeout_ms

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Awaitable[ErrorCode]:
        """Appends the records as one batch with this call (I1); NONE when they are committed (I2).

        With a producer they are part of its transaction, and count when its marker is reached. INVALID_PRODUCER_EPOCH
        then, where a marker of a later epoch is in the log already.
        """
        wall_ms = self._wall_ms()
        builder = BatchBuilder(self._compression)
        for record in records:
            builder.append(wall_ms, record.key, record.value)
        stamp = NO_STAMP
        if producer_id != NO_PRODUCER_ID:
            stamp = ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE, is_transactional=True)
        outcome = self._replicas.append(
            self._topic,
            partition,
            memoryview(bytearray(builder.build(stamp))),
            required_acks=ACKS_ALL,
            wall_ms=wall_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        return self._committed(partition, outcome)

    async def _committed(self, partition: int, outcome: AppendOutcome) -> ErrorCode:
        if not self._replicas.is_committed(self._topic, partition, outcome):
            outcome = await self._replicas.await_committed(self._topic, partition, outcome, self._commit_timeout_ms)
        return outcome.error

    def ends(self, partition: int) -> tuple[Offset, Offset] | None:
        """The high watermark and the end of the log; None if this broker does not lead it."""
        hosted = self._replicas.partition(self._topic, partition)
        if hosted is None or not hosted.is_leader:
            return None
        return hosted.log.high_watermark, hosted.log.log_end_offset

    def cut(self, partition: int, offset: Offset) -> None:
        """Moves the log start to `offset`, which is committed. Followers do the same; whole segments are deleted."""
        hosted = self._replicas.partition(self._topic, partition)
        if hosted is None or not hosted.is_leader or offset <= hosted.log.log_start_offset:
            return
        if hosted.log.delete_records(min(offset, hosted.log.high_watermark)):
            self._replicas.on_log_start_moved(hosted.topic_partition)
        logger.info("coordinator log pruned", topic=self._topic, partition=partition, begins_at=offset)

    async def settle(self, partition: int) -> bool:
        """Waits until all that is in the log now is committed; False if this broker leads it no more."""
        hosted = self._replicas.partition(self._topic, partition)
        if hosted is None or not hosted.is_leader:
            return False
        epoch, end = hosted.leader_epoch, hosted.log.log_end_offset
        whole = AppendOutcome(ErrorCode.NONE, committed_at=end)
        while hosted.is_leader and hosted.leader_epoch == epoch:
            if hosted.log.high_watermark >= end:
                return True
            outcome = await self._replicas.await_committed(self._topic, partition, whole, self._commit_timeout_ms)
            if outcome.error not in (ErrorCode.NONE, *OUTCOME_UNKNOWN):
                return False
            if hosted.log.high_watermark < end:
                await asyncio.sleep(SETTLE_PAUSE_S)
        return False

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        """The committed records, in order, a stretch of the log at a time; other work goes on in between. At the end
        what transactions that are still open have written, each by itself.

        A new leader does not know yet how far its log is committed: what the leader before it acknowledged lies in the
        log, above the high watermark. So the whole log as it is now is waited for, as long as a commit may take, and
        read then. Records that are still not committed are read too, as Kafka does: not to read them could forget a
        commit that was acknowledged.
        """
        hosted = self._replicas.partition(self._topic, partition)
        if hosted is None:
            return
        log = hosted.log
        end = log.log_end_offset
        if log.high_watermark < end:
            whole = AppendOutcome(ErrorCode.NONE, committed_at=end)
            await self._replicas.await_committed(self._topic, partition, whole, self._commit_timeout_ms)
        offset = log.log_start_offset
        committed = CommittedRecords()
        while offset < end:
            records: list[CoordinatorRecord] = []
            try:
                result = log.read(offset, self._load_bytes, max_offset=end, min_one_batch=True)
                if not result.size_bytes:
                    break
                next_offset = _decode(result.chunks, offset, committed, records)
                if next_offset <= offset:
                    raise CorruptRecords(f"{result.size_bytes} bytes at offset {offset} contain no complete batch")
                offset = next_offset
            except RecordsError as damage:
                logger.error(
                    "coordinator log damaged", topic=self._topic, partition=partition, offset=offset, why=str(damage)
                )
                yield records
                break
            except OffsetOutOfRange:
                return  # The topic was deleted meanwhile.
            except StorageError as failure:
                self._on_storage_error(failure)
                return
            yield records
            await asyncio.sleep(0)
        for transaction in committed.open_transactions():
            yield transaction


def _decode(
    chunks: Sequence[FileSlice], offset: int, committed: CommittedRecords, records: list[CoordinatorRecord]
) -> int:
    """Adds what counts of the chunks from `offset` on; returns the offset after the last whole batch."""
    for chunk in chunks:
        for batch in iterate_batches(memoryview(chunk.tobytes())):
            records.extend(committed.read(batch, offset))
            offset = batch.header.last_offset + 1
    return offset
