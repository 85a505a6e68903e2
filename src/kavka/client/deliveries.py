"""Deliveries: what a producer returns for each `send`: a record or batch in flight, and later where it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kavka.model import NO_TIMESTAMP, TopicPartition
from kavka.records.builder import BatchBuilder, EncodedRecords, ProducerStamp


class Delivery(NamedTuple):
    """Where a record is stored. `offset` is -1 with acks=0, or if the broker recognised a retry of a stored record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class BatchDelivery(NamedTuple):
    """Where a batch is stored: `record_count` records from `base_offset` on. -1 has the same meaning as in
    `Delivery`."""

    topic: str
    partition: int
    base_offset: int
    record_count: int
    log_append_time_ms: int
    """-1 where the records keep their own timestamps."""


class PendingBatch:
    """A batch in flight. Await it for its `BatchDelivery`. It raises the cause if it fails."""

    __slots__ = (
        "builder",
        "closed",
        "created_at",
        "failures",
        "future",
        "partition",
        "resent_as_new",
        "stamp",
        "was_sent",
    )

    def __init__(
        self,
        partition: TopicPartition,
        builder: BatchBuilder | EncodedRecords,
        created_at: float,
        future: asyncio.Future[BatchDelivery],
    ) -> None:
        self.partition = partition
        self.builder = builder
        self.created_at = created_at
        self.future = future
        self.stamp: ProducerStamp | None = None
        self.closed = False
        self.was_sent = False
        self.resent_as_new = False
        self.failures = 0

    def __await__(self) -> Generator[Any, None, BatchDelivery]:
        return asyncio.shield(self.future).__await__()

    def done(self) -> bool:
        return self.future.done()


class PendingDelivery:
    """A record in flight. Await it for its `Delivery`. It raises the cause if it fails."""

    __slots__ = ("_batch", "_delta", "_timestamp_ms")

    def __init__(self, batch: PendingBatch, delta: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._delta = delta
        self._timestamp_ms = timestamp_ms

    def __await__(self) -> Generator[Any, None, Delivery]:
        yield from asyncio.shield(self._batch.future).__await__()
        return self.result()

    def done(self) -> bool:
        return self._batch.future.done()

    def result(self) -> Delivery:
        """The delivery, once `done`. Raises the cause if it failed."""
        topic, partition, base_offset, _, log_append_time_ms = self._batch.future.result()
        return Delivery(
            topic,
            partition,
            base_offset + self._delta if base_offset >= 0 else -1,
            self._timestamp_ms if log_append_time_ms == NO_TIMESTAMP else log_append_time_ms,
        )

    def add_done_callback(self, callback: Callable[[PendingDelivery], object]) -> None:
        """Calls `callback(self)` soon after the outcome is known. The callback reads `result`."""
        self._batch.future.add_done_callback(lambda _: callback(self))
