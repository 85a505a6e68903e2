"""Requests that wait for hosted partitions: what each waits for, and what it is answered then, or when its time is up.

    DelayedProduce  acks=all: the high watermark passes the append
    DelayedDelete   DeleteRecords: no live replica has records below the offset any more
    DelayedFetch    a consumer's fetch: there are `min_bytes`; for a follower's, see `follower_fetches`

`ReplicaManager` makes them, and `purgatory` keeps them and looks at them. They must not know when they are looked at.

Source: Kafka's DelayedProduce, DelayedDeleteRecords and DelayedFetch. Where this differs: an acks=all append whose
partition falls below min.insync.replicas is answered NOT_ENOUGH_REPLICAS_AFTER_APPEND at once. Apache Kafka 3.9 lets it
time out, since there the high watermark, and with it the look at the append, stands still meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kavka.errors import NO_ERROR, BadRecord, ErrorCode
from kavka.model import NO_OFFSET, NO_TIMESTAMP, Offset
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.partition import Partition
from kavka.replication.purgatory import DelayedOperation

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog


class AppendOutcome(NamedTuple):
    """What happened to the records of one partition. `base_offset` is their first offset if `error` is NONE."""

    error: ErrorCode
    base_offset: Offset = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: Offset = NO_OFFSET
    message: str | None = None
    bad_records: Sequence[BadRecord] = ()
    """The records that caused `error`, if single records did."""
    committed_at: Offset = NO_OFFSET
    """The high watermark at which the append is committed: last offset + 1."""
    flush: UnifiedLog | None = None
    """The log, if flush.messages requires a flush up to `committed_at` before the answer."""


class DeleteOutcome(NamedTuple):
    """The outcome of deleting records. The low watermark is the highest log start that all replicas have reached."""

    error: ErrorCode
    low_watermark: Offset = NO_OFFSET


class Hosted(Protocol):
    """The partitions hosted here, as waiting requests look at them. `ReplicaManager` says what each method does."""

    loop: asyncio.AbstractEventLoop

    def partition(self, topic: str, index: int) -> Partition | None: ...

    def absence(self, topic: str, index: int) -> ErrorCode: ...

    def read(self, params: FetchParams, specs: Sequence[FetchSpec]) -> list[FetchOutcome]: ...

    def read_partition(
        self, spec: FetchSpec, max_bytes: int, params: FetchParams, *, min_one_batch: bool
    ) -> FetchOutcome: ...


class DelayedProduce(DelayedOperation[AppendOutcome]):
    """An acks=all append that waits for the high watermark."""

    __slots__ = ("_hosted", "_outcome", "_partition")

    def __init__(self, hosted: Hosted, partition: Partition, outcome: AppendOutcome) -> None:
        super().__init__(hosted.loop)
        self._hosted = hosted
        self._partition = partition
        self._outcome = outcome

    def try_complete(self, changed: object) -> AppendOutcome | None:
        partition = self._partition
        now_hosted = self._hosted.partition(*partition.topic_partition)
        if now_hosted is None:
            return AppendOutcome(self._hosted.absence(*partition.topic_partition))
        if now_hosted is not partition or not partition.is_leader:
            return AppendOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not partition.has_enough_replicas():
            return AppendOutcome(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                message=f"the records are in the leader's log, but only {partition.state.isr} are in sync now",
            )
        if partition.log.high_watermark < self._outcome.committed_at:
            return None
        return self._outcome

    def on_expiration(self) -> AppendOutcome:
        return AppendOutcome(ErrorCode.REQUEST_TIMED_OUT)


class DelayedDelete(DelayedOperation[DeleteOutcome]):
    """A DeleteRecords that waits for the followers to forget what the leader has forgotten."""

    __slots__ = ("_hosted", "_offset", "_partition")

    def __init__(self, hosted: Hosted, partition: Partition, offset: Offset) -> None:
        super().__init__(hosted.loop)
        self._hosted = hosted
        self._partition = partition
        self._offset = offset

    def try_complete(self, changed: object) -> DeleteOutcome | None:
        partition = self._partition
        now_hosted = self._hosted.partition(*partition.topic_partition)
        if now_hosted is None:
            return DeleteOutcome(self._hosted.absence(*partition.topic_partition))
        if now_hosted is not partition or not partition.is_leader:
            return DeleteOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low_watermark = partition.low_watermark
        return DeleteOutcome(NO_ERROR, low_watermark) if low_watermark >= self._offset else None

    def on_expiration(self) -> DeleteOutcome:
        return DeleteOutcome(ErrorCode.REQUEST_TIMED_OUT, self._partition.low_watermark)


class DelayedFetch(DelayedOperation[list[FetchOutcome]]):
    """A fetch that waits for `min_bytes`.

    What each partition can give is remembered, so that a change in one partition costs one look at that one.
    """

    __slots__ = ("_available", "_hosted", "_params", "_specs")

    def __init__(
        self,
        hosted: Hosted,
        params: FetchParams,
        specs: Sequence[FetchSpec],
        outcomes: Sequence[FetchOutcome],
    ) -> None:
        super().__init__(hosted.loop)
        self._hosted = hosted
        self._params = params
        self._specs = {spec.topic_partition: spec for spec in specs}
        self._available = {outcome.spec.topic_partition: outcome.available_bytes for outcome in outcomes}

    def try_complete(self, changed: object) -> list[FetchOutcome] | None:
        assert isinstance(changed, Partition)
        spec = self._specs[changed.topic_partition]
        outcome = self._hosted.read_partition(spec, spec.max_bytes, self._params, min_one_batch=True)
        if outcome.error is NO_ERROR and outcome.diverging_epoch is None:
            self._available[changed.topic_partition] = outcome.available_bytes
            if sum(self._available.values()) < self._params.min_bytes:
                return None
        return self._hosted.read(self._params, list(self._specs.values()))

    def on_expiration(self) -> list[FetchOutcome]:
        return self._hosted.read(self._params, list(self._specs.values()))
