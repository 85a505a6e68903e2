"""The group coordinator's way to `__consumer_offsets`: appends with acks=all, and reads all that is committed.

Decides nothing but how much is read at a time. A record batch that cannot be read ends the loading of its partition
with what came before it, and is logged: groups that are further back in the log than the damage are served as
they were. A disk that fails takes its log directory offline, and the partition with it.

Source: Kafka's CoordinatorLoaderImpl and PartitionWriter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from kavka.broker.committed_records import CommittedRecords
from kavka.broker.metadata_cache import GROUP_METADATA_TOPIC
from kavka.coordinator.group_records import CoordinatorRecord
from kavka.errors import ErrorCode, OffsetOutOfRange, RecordsError, StorageError
from kavka.logger import Logger
from kavka.model import FileSlice
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder
from kavka.replication.replica_manager import ACKS_ALL, AppendOutcome, ReplicaManager

logger = Logger(__name__)


class OffsetsTopicLog:
    """`load_bytes` is how much of a log is read at a time; `commit_timeout_ms` how long a commit may take."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        wall_ms: Callable[[], int],
        load_bytes: int,
        commit_timeout_ms: int,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self._replicas = replicas
        self._on_storage_error = on_storage_error
        self._wall_ms = wall_ms
        self._load_bytes = load_bytes
        self._commit_timeout_ms = commit_timeout_ms

    async def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        """Appends the records as one batch; NONE when they are committed."""
        now_ms = self._wall_ms()
        builder = BatchBuilder()
        for record in records:
            builder.append(now_ms, record.key, record.value)
        batch = memoryview(bytearray(builder.build()))
        outcome = self._replicas.append(GROUP_METADATA_TOPIC, partition, batch, required_acks=ACKS_ALL, now_ms=now_ms)
        if not self._replicas.is_committed(GROUP_METADATA_TOPIC, partition, outcome):
            outcome = await self._replicas.await_committed(
                GROUP_METADATA_TOPIC, partition, outcome, self._commit_timeout_ms
            )
        return outcome.error

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord]]:
        """The committed records, in order, a stretch of the log at a time; other work goes on in between.

        A new leader does not know yet how far its log is committed: what the leader before it acknowledged lies in the
        log, above the high watermark. So the whole log as it is now is waited for, as long as a commit may take, and
        read then. Records that are still not committed are read too, as Kafka does: not to read them could forget a
        commit that was acknowledged.
        """
        hosted = self._replicas.partition(GROUP_METADATA_TOPIC, partition)
        if hosted is None:
            return
        log = hosted.log
        end = log.log_end_offset
        if log.high_watermark < end:
            whole = AppendOutcome(ErrorCode.NONE, committed_at=end)
            await self._replicas.await_committed(GROUP_METADATA_TOPIC, partition, whole, self._commit_timeout_ms)
        offset = log.log_start_offset
        committed = CommittedRecords()
        while offset < end:
            records: list[CoordinatorRecord] = []
            try:
                result = log.read(offset, self._load_bytes, max_offset=end, min_one_batch=True)
                if not result.size_bytes:
                    return
                offset = _decode(result.chunks, offset, committed, records)
            except RecordsError as damage:
                logger.error("offsets log damaged", partition=partition, offset=offset, why=str(damage))
                yield records
                return
            except OffsetOutOfRange:
                return  # The topic was deleted meanwhile.
            except StorageError as failure:
                self._on_storage_error(failure)
                return
            yield records
            await asyncio.sleep(0)


def _decode(
    chunks: Sequence[FileSlice], offset: int, committed: CommittedRecords, records: list[CoordinatorRecord]
) -> int:
    """Adds what counts of the chunks from `offset` on; returns the offset after the last whole batch."""
    for chunk in chunks:
        for batch in iterate_batches(memoryview(chunk.tobytes())):
            records.extend(committed.read(batch, offset))
            offset = batch.header.last_offset + 1
    return offset
