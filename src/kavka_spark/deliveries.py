"""A task's batches on their way to the brokers.

Decides which go together, when a task hears that a batch failed, and what it is told. It must not know rows or
transactions.

Invariants
  I1  `finish` returns only when every batch sent is delivered; the first that is not raises `DeliveryError`, which
      names topic, partition and reason.
  I2  What waits is bounded by the producer's buffer.memory; what is delivered is not remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kavka.client.deliveries import PendingBatch
from kavka.client.producer import Producer
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.model import TopicPartition
from kavka_spark.encoder import EncodedBatch
from kavka_spark.errors import DeliveryError

Batches: TypeAlias = list[tuple[str, EncodedBatch]]
"""Topics, and a batch for one of their partitions."""
GROUPED_BYTES: Final = 1 << 20


class _Sent(NamedTuple):
    partition: TopicPartition
    batch: PendingBatch
    largest_bytes: int


class Deliveries:
    """The batches of one task. Belongs to the loop of its producer."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._pending: deque[_Sent] = deque()

    async def send(self, batches: Batches) -> None:
        """Passes batches on and waits for room. Raises `DeliveryError`, also for batches of earlier calls."""
        for topic, encoded in batches:
            partition = TopicPartition(topic, encoded.partition)
            try:
                pending = await self._producer.send_encoded(partition, encoded.records)
            except KavkaError as failure:
                self._check_done()  # What broke the transaction says more than that it is broken.
                raise DeliveryError(*partition, str(failure)) from failure
            self._pending.append(_Sent(partition, pending, encoded.largest_bytes))
        self._check_done()

    async def send_last(self, batches: Batches) -> None:
        """`send`, then `finish`."""
        await self.send(batches)
        await self.finish()

    async def finish(self) -> None:
        """Waits for all batches (I1)."""
        await self._producer.flush()
        self._check_done()

    def _check_done(self) -> None:
        waiting: deque[_Sent] = deque()
        for sent in self._pending:
            if not sent.batch.done():
                waiting.append(sent)
                continue
            failure = sent.batch.future.exception()
            if isinstance(failure, KavkaError):
                raise DeliveryError(*sent.partition, _reason(failure, sent)) from failure
            if failure is not None:
                raise failure
        self._pending = waiting


def in_groups(batches: Iterable[tuple[str, EncodedBatch]]) -> Iterator[tuple[Batches, bool]]:
    """(some of the batches, whether they are the last ones). The last group comes once all batches are encoded, and may
    be empty.

    A group crosses to the loop's thread once, and what it has for one broker goes there in one request. A small
    micro-batch is a few hundred rows for every partition: with a crossing for each batch it took twice as long.
    """
    group: Batches = []
    size = 0
    for topic, batch in batches:
        group.append((topic, batch))
        size += batch.records.payload_bytes
        if size >= GROUPED_BYTES:
            yield group, False
            group, size = [], 0
    yield group, True


def _reason(failure: KavkaError, sent: _Sent) -> str:
    if isinstance(failure, RequestError) and failure.code in (
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    ):
        return (
            f"{failure.message}; its largest record has {sent.largest_bytes} bytes: raise the topic's "
            "max.message.bytes, or set kafka.compression.type"
        )
    return str(failure)
