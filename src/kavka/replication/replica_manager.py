"""ReplicaManager: the partitions that this broker hosts, and the requests that wait for them.

Decides: which hosted partition an append or a read goes to, how a fetch's bytes are shared among its partitions, and
when a produce or fetch must wait. Must not know: the wire format, sessions, or who the client is.

    I1  an acks=all append is answered when the high watermark has passed it, never before
    I2  a fetch never returns more than its limits, except that the first batch of the first partition that has any is
        whole (KIP-74)
    I3  a partition whose log directory failed answers KAFKA_STORAGE_ERROR, whatever is asked

Source: Kafka's ReplicaManager, DelayedProduce and DelayedFetch.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import ErrorCode, OffsetOutOfRange, RecordsError, RequestError, StorageError
from kavka.filesystem import Buffer
from kavka.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, FileSlice, LeaderEpoch, Offset, TopicPartition
from kavka.replication.partition import ACKS_ALL, EpochEndOffset, Partition
from kavka.replication.purgatory import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog


_REFUSED_UNSEEN = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class AppendOutcome(NamedTuple):
    """What happened to the records of one partition. `base_offset` is their first offset where `error` is NONE."""

    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: Offset = NO_OFFSET
    message: str | None = None
    batch_index: int = -1
    committed_at: Offset = NO_OFFSET
    """The high watermark at which the append is committed: last offset + 1."""
    flush: UnifiedLog | None = None
    """The log, where flush.messages asks for a flush up to `committed_at` before the answer."""


class FetchSpec(NamedTuple):
    """What a fetch wants of one partition. `max_bytes` is the partition's own limit."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch = NO_EPOCH
    last_fetched_epoch: LeaderEpoch = NO_EPOCH


class AbortedTransaction(NamedTuple):
    """A producer's aborted transaction that reaches into what was fetched, from `first_offset`."""

    producer_id: int
    first_offset: Offset


class FetchOutcome(NamedTuple):
    """What a fetch found in one partition. `chunks` are whole record batches but for the last, which may be cut."""

    spec: FetchSpec
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    last_stable_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    chunks: Sequence[FileSlice] = ()
    size_bytes: int = 0
    diverging_epoch: EpochEndOffset | None = None
    aborted_transactions: Sequence[AbortedTransaction] | None = None


class FetchParams(NamedTuple):
    """The limits that hold for a whole fetch. Times in milliseconds, sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool


class ReplicaManager:
    """All partitions hosted here.

    `on_storage_error` is told of a log that failed; it takes the log's directory offline.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_storage_error: Callable[[StorageError], None]) -> None:
        self._loop = loop
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: set[TopicPartition] = set()
        self._on_storage_error = on_storage_error
        self.produce_purgatory: Purgatory[AppendOutcome] = Purgatory("Produce", loop)
        self.fetch_purgatory: Purgatory[list[FetchOutcome]] = Purgatory("Fetch", loop)

    # -- which partitions are here

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    def partition(self, topic: str, index: int) -> Partition | None:
        """The hosted partition, None if it is not here (or not online)."""
        return self._partitions.get((topic, index))

    def require_partition(self, topic: str, index: int) -> Partition:
        """The hosted partition. Raises `RequestError`: KAFKA_STORAGE_ERROR or UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise RequestError(self.absence(topic, index))
        return partition

    def host(self, partition: Partition) -> None:
        self._partitions[partition.topic_partition] = partition
        self._offline.discard(partition.topic_partition)

    def unhost(self, topic_partition: TopicPartition) -> Partition | None:
        """Serves the partition no longer; what waits for it is answered with an error."""
        self._offline.discard(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self._complete_waiting(partition)
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Their log directory failed: they answer KAFKA_STORAGE_ERROR from now on."""
        for topic_partition in topic_partitions:
            self._offline.add(topic_partition)
            partition = self._partitions.pop(topic_partition, None)
            if partition is not None:
                self._complete_waiting(partition)

    @property
    def offline_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._offline)

    def absence(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not here."""
        if TopicPartition(topic, index) in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- appending

    def append(self, topic: str, index: int, records: Buffer, *, required_acks: int, now_ms: int) -> AppendOutcome:
        """Appends to one partition's log and answers at once, whatever `required_acks` waits for.

        An acks=all caller then asks `await_committed`.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            return AppendOutcome(self.absence(topic, index))
        try:
            result, advanced = partition.append_as_leader(records, required_acks=required_acks, now_ms=now_ms)
        except RecordsError as refused:
            # Where the bytes as such are refused, nothing is said of the log, as in Kafka.
            known = NO_OFFSET if refused.code in _REFUSED_UNSEEN else partition.log.log_start_offset
            return AppendOutcome(
                refused.code, log_start_offset=known, message=refused.message, batch_index=refused.batch_index
            )
        except RequestError as refused:
            return AppendOutcome(refused.code, message=refused.message or None)
        except StorageError as failure:
            self._on_storage_error(failure)
            return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR)
        if advanced:
            self.on_high_watermark_advanced(partition)
        log = partition.log
        return AppendOutcome(
            ErrorCode.NONE,
            result.first_offset,
            result.log_append_time_ms,
            log.log_start_offset,
            committed_at=result.last_offset + 1,
            flush=log if log.unflushed_messages >= log.config.flush_messages else None,
        )

    def is_committed(self, topic: str, index: int, outcome: AppendOutcome) -> bool:
        """Whether the append behind `outcome` needs no waiting: it failed, or the high watermark has passed it."""
        if outcome.error is not ErrorCode.NONE:
            return True
        partition = self._partitions.get((topic, index))
        return (
            partition is not None
            and partition.log.high_watermark >= outcome.committed_at
            and partition.has_enough_replicas()
        )

    async def await_committed(self, topic: str, index: int, outcome: AppendOutcome, timeout_ms: int) -> AppendOutcome:
        """Waits until an acks=all append is committed: `outcome`, or the error that came of the wait (I1)."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return AppendOutcome(self.absence(topic, index))
        operation = _DelayedProduce(self, partition, outcome)
        answer = operation.try_complete(None)
        if answer is not None:
            return answer
        self.produce_purgatory.watch(operation, (partition,), timeout_ms)
        return await operation.answer

    def on_high_watermark_advanced(self, partition: Partition) -> None:
        """Wakes all that waits for the partition's records to be committed."""
        if self.produce_purgatory.is_watched(partition):
            self.produce_purgatory.check(partition)
        if self.fetch_purgatory.is_watched(partition):
            self.fetch_purgatory.check(partition)

    def _complete_waiting(self, partition: Partition) -> None:
        self.produce_purgatory.check(partition)
        self.fetch_purgatory.check(partition)

    # -- reading

    def fetch(
        self, params: FetchParams, specs: Sequence[FetchSpec]
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        """Reads for a consumer: at once if there is enough (or an error), else an operation that waits in
        `fetch_purgatory`."""
        outcomes = self.read(params, specs)
        if params.max_wait_ms <= 0 or not specs:
            return outcomes
        size_bytes = 0
        for outcome in outcomes:
            if outcome.error is not ErrorCode.NONE or outcome.diverging_epoch is not None:
                return outcomes
            size_bytes += outcome.size_bytes
        if size_bytes >= params.min_bytes:
            return outcomes
        outcomes_alone = self._read_alone(params, outcomes, size_bytes)
        if sum(outcome.size_bytes for outcome in outcomes_alone) >= params.min_bytes:
            return outcomes
        operation = _DelayedFetch(self, params, specs, outcomes_alone)
        keys = [self._partitions[spec.topic_partition] for spec in specs]
        self.fetch_purgatory.watch(operation, keys, params.max_wait_ms)
        return operation

    def _read_alone(
        self, params: FetchParams, outcomes: Sequence[FetchOutcome], size_bytes: int
    ) -> Sequence[FetchOutcome]:
        """What each partition could give if it were fetched alone.

        A batch that found no room behind those of other partitions is there all the same: who asks for 200 bytes and
        allows no more, of two partitions with a batch of 150 each, has nothing to wait for.
        """
        room = params.max_bytes - size_bytes
        if not size_bytes or all(outcome.spec.max_bytes <= room for outcome in outcomes):
            return outcomes
        return [
            outcome
            if outcome.size_bytes
            else self.read_partition(
                outcome.spec, outcome.spec.max_bytes, read_committed=params.read_committed, min_one_batch=True
            )
            for outcome in outcomes
        ]

    def read(self, params: FetchParams, specs: Sequence[FetchSpec]) -> list[FetchOutcome]:
        """Reads the partitions in order until `params.max_bytes` are used up (I2)."""
        remaining = params.max_bytes
        min_one_batch = True
        outcomes = []
        for spec in specs:
            outcome = self.read_partition(
                spec,
                min(spec.max_bytes, max(remaining, 0)),
                read_committed=params.read_committed,
                min_one_batch=min_one_batch,
            )
            if outcome.size_bytes:
                min_one_batch = False
                remaining -= outcome.size_bytes
            outcomes.append(outcome)
        return outcomes

    def read_partition(
        self, spec: FetchSpec, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> FetchOutcome:
        """Reads one partition for a consumer; errors are in the outcome."""
        partition = self._partitions.get(spec.topic_partition)
        if partition is None:
            return FetchOutcome(spec, self.absence(*spec.topic_partition))
        if spec.topic_id.int and spec.topic_id != partition.topic_id:
            return FetchOutcome(spec, ErrorCode.INCONSISTENT_TOPIC_ID)
        log = partition.log
        diverging = None
        try:
            if spec.last_fetched_epoch >= 0:
                partition.check_leads(spec.current_leader_epoch)
                diverging = partition.diverging_epoch(spec.last_fetched_epoch, spec.fetch_offset)
            if diverging is not None:
                return FetchOutcome(
                    spec,
                    ErrorCode.NONE,
                    log.high_watermark,
                    log.last_stable_offset,
                    log.log_start_offset,
                    diverging_epoch=diverging,
                )
            result = partition.read(
                spec.fetch_offset,
                max_bytes,
                current_leader_epoch=spec.current_leader_epoch,
                read_committed=read_committed,
                min_one_batch=min_one_batch,
            )
        except OffsetOutOfRange:
            return FetchOutcome(spec, ErrorCode.OFFSET_OUT_OF_RANGE)
        except RecordsError as damage:
            return FetchOutcome(spec, damage.code)
        except RequestError as refused:
            return FetchOutcome(spec, refused.code)
        except StorageError as failure:
            self._on_storage_error(failure)
            return FetchOutcome(spec, ErrorCode.KAFKA_STORAGE_ERROR)
        return FetchOutcome(
            spec,
            ErrorCode.NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            result.chunks,
            result.size_bytes,
            aborted_transactions=self._aborted(partition, spec.fetch_offset, result.next_offset)
            if read_committed
            else None,
        )

    def _aborted(self, partition: Partition, offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        found = partition.log.aborted_transactions(offset, end_offset)
        return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]

    # -- the end

    def shut_down(self) -> None:
        """Answers all that waits; what is not committed is answered with REQUEST_TIMED_OUT, as expiry does."""
        self.produce_purgatory.expire_all()
        self.fetch_purgatory.expire_all()


class _DelayedProduce(DelayedOperation[AppendOutcome]):
    """An acks=all append that waits for the high watermark."""

    __slots__ = ("_manager", "_outcome", "_partition")

    def __init__(self, manager: ReplicaManager, partition: Partition, outcome: AppendOutcome) -> None:
        super().__init__(manager._loop)
        self._manager = manager
        self._partition = partition
        self._outcome = outcome

    def try_complete(self, changed: object) -> AppendOutcome | None:
        partition = self._partition
        hosted = self._manager.partition(*partition.topic_partition)
        if hosted is None:
            return AppendOutcome(self._manager.absence(*partition.topic_partition))
        if hosted is not partition or not partition.is_leader:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.log.high_watermark < self._outcome.committed_at:
            return None
        if not partition.has_enough_replicas():
            return AppendOutcome(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return self._outcome

    def on_expiration(self) -> AppendOutcome:
        return AppendOutcome(ErrorCode.REQUEST_TIMED_OUT)


class _DelayedFetch(DelayedOperation[list[FetchOutcome]]):
    """A fetch that waits for `min_bytes`.

    What each partition can give is remembered, so that a change in one partition costs one look at that one.
    """

    __slots__ = ("_available", "_manager", "_params", "_specs")

    def __init__(
        self,
        manager: ReplicaManager,
        params: FetchParams,
        specs: Sequence[FetchSpec],
        outcomes: Sequence[FetchOutcome],
    ) -> None:
        super().__init__(manager._loop)
        self._manager = manager
        self._params = params
        self._specs = {spec.topic_partition: spec for spec in specs}
        self._available = {outcome.spec.topic_partition: outcome.size_bytes for outcome in outcomes}

    def try_complete(self, changed: object) -> list[FetchOutcome] | None:
        assert isinstance(changed, Partition)
        spec = self._specs[changed.topic_partition]
        outcome = self._manager.read_partition(
            spec, spec.max_bytes, read_committed=self._params.read_committed, min_one_batch=True
        )
        if outcome.error is ErrorCode.NONE and outcome.diverging_epoch is None:
            self._available[changed.topic_partition] = outcome.size_bytes
            if sum(self._available.values()) < self._params.min_bytes:
                return None
        return self._manager.read(self._params, list(self._specs.values()))

    def on_expiration(self) -> list[FetchOutcome]:
        return self._manager.read(self._params, list(self._specs.values()))


__all__ = [
    "ACKS_ALL",
    "AbortedTransaction",
    "AppendOutcome",
    "FetchOutcome",
    "FetchParams",
    "FetchSpec",
    "ReplicaManager",
]
