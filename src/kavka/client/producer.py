"""The producer: records in, batches to the partitions' leaders, deliveries out.

Decides when a batch is sent, in which request, with which sequence, and what is done about each error. Must not know
how a broker is found or reached: `cluster` knows that. It is one long class, because sending, retrying and failing use
the same queues, and each error may move all of them.

Invariants
  I1  One batch of a partition is in flight at a time, and the next is sent when its outcome is known. So records of a
  partition arrive in the order of their `send`, also after retries, with and without idempotence. Throughput comes
  from full batches and from many partitions in parallel.
  I2  Every record has an outcome: delivered, or failed with the reason. The text of a failure says so if it is unknown
  whether the broker has the record.
  I3  With idempotence a batch keeps its producer id and sequence over all its retries. After a batch whose outcome
  stays unknown the producer takes a new producer id, because the broker may or may not have moved on.
  I4  At most `buffer_memory` bytes of records wait; `send` waits at the bound (one record always passes).

  I5  With a transactional id nothing is sent outside of a transaction, or to a partition that is not part of it yet
  (transactions.py). A failed batch breaks the transaction: it can then only be aborted.

Source: KIP-98 (idempotence, transactions), KIP-91 (delivery time-out), KIP-480 (sticky partitions).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kavka.client.answers import error_name, error_of, raise_for
from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster, TopicMetadata
from kavka.client.deliveries import BatchDelivery, PendingBatch, PendingDelivery
from kavka.client.partitioner import StickyPartitioner, partition_for_key
from kavka.client.settings import ProducerSettings
from kavka.client.transactions import (
    HIGHEST_PRODUCE_BEFORE_BUMPS,
    GroupMetadata,
    OffsetToSend,
    ProducerTransaction,
    TransactionBroken,
    TransactionPhase,
    WrongState,
)
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.model import NO_TIMESTAMP, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kavka.records.builder import NO_STAMP, BatchBuilder, EncodedRecords, ProducerStamp
from kavka.records.record import Header

HIGHEST_PRODUCE = 12
"""From version 13 on Produce names topics by id only; names do everywhere."""
_RECORD_OVERHEAD = 40
"""At least what a record without headers has beside key and value."""
_SEQUENCE_SPAN = 1 << 31
_NO_TOPIC = "CLUSTER_AUTHORIZATION_FAILED: the right to write to some topic is missing"
_STALE_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
_LOST_SEQUENCE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The broker knows less of this producer than this producer does: it takes a new id and sends the batch again."""

RecordFields = tuple[bytes | None, bytes | None, Iterable[Header]]
"""Key, value, headers."""


class _Queue:
    """The batches of one partition, in order. The last may still take records; the first may be under way."""

    __slots__ = (
        "batches",
        "failures",
        "in_flight",
        "last_failure",
        "next_sequence",
        "not_before",
        "partition",
        "producer_id",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[PendingBatch] = deque()
        self.in_flight = False
        self.not_before = 0.0
        self.failures = 0
        self.last_failure = ""
        self.producer_id = (-1, -1)
        """Id and epoch under which `next_sequence` counts."""
        self.next_sequence = 0


class Producer:
    """Sends records to a cluster. Belongs to one event loop. Close it with `close` or `async with`.

    async with Producer(cluster) as producer:
        delivery = await (await producer.send("orders", b"value", key=b"key"))

    One class with many methods, because all of them work on the same queues: the module's opening says why.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings | None = None,
        *,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings or ProducerSettings()
        self._now_ms = now_ms or (lambda: int(time.time() * 1000))
        self._partitioner = StickyPartitioner(cluster.random)
        self._queues: dict[TopicPartition, _Queue] = {}
        self._active: dict[TopicPartition, _Queue] = {}
        """Those with batches; a dict for its order."""
        self._requests: dict[int, int] = {}
        """Requests under way, by broker."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._dispatch_soon = False
        self._room: list[asyncio.Future[None]] = []
        self._producer: tuple[int, int] | None = None
        self._transaction: ProducerTransaction | None = None
        if self._settings.transactional_id is not None:
            self._transaction = ProducerTransaction(
                cluster, self._settings.transactional_id, self._settings.transaction_timeout_ms
            )
        self._helper: asyncio.Task[None] | None = None
        self._flushing = 0
        self._closed = False
        self.buffered_bytes = 0
        """Bytes of records that wait or are under way."""
        self.delivered_records = 0
        self.failed_records = 0

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(timeout_ms=0 if kind is not None else None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> PendingDelivery:
        """Adds one record to a batch. Returns at once, unless the topic is not known yet or the buffer is full.

        Without `partition` the key decides; without a key, the batch that is being filled. Raises `RequestError` if
        there is no such topic or partition. The returned delivery reports what happens to the record later.
        """
        metadata = await self._topic(topic)
        chosen = self._choose(metadata, key, partition)
        if self.buffered_bytes >= self._settings.buffer_memory:
            await self._wait_for_room()
        stamp_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        batch = self._append(chosen, stamp_ms, (key, value, headers))
        if batch.closed:
            if key is None and partition is None:
                self._partitioner.batch_filled(topic, _available(metadata))
            await asyncio.sleep(0)
        return PendingDelivery(batch, batch.builder.record_count - 1, stamp_ms)

    async def send_values(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[PendingBatch]:
        """Sends records that have only a value, all with one timestamp. This is the fastest way to send.

        Returns the batches that hold them.
        """
        metadata = await self._topic(topic)
        stamp_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        touched: list[PendingBatch] = []
        start = 0
        while start < len(values):
            chosen = self._choose(metadata, None, partition)
            if self.buffered_bytes >= self._settings.buffer_memory:
                await self._wait_for_room()
            batch = self._open_batch(chosen, len(values[start]) + _RECORD_OVERHEAD)
            builder = batch.builder
            assert isinstance(builder, BatchBuilder)  # What is encoded is closed: nothing is added to it.
            before = builder.payload_bytes
            start = builder.append_values(stamp_ms, values, start, self._settings.batch_size)
            self.buffered_bytes += builder.payload_bytes - before
            touched.append(batch)
            if start < len(values) or builder.payload_bytes >= self._settings.batch_size:
                self._close_batch(batch)
                if partition is None:
                    self._partitioner.batch_filled(topic, _available(metadata))
                await asyncio.sleep(0)
        return touched

    async def send_records(
        self,
        topic: str,
        records: Iterable[RecordFields],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[PendingBatch]:
        """Sends many records, all with one timestamp. Returns the batches that hold them."""
        metadata = await self._topic(topic)
        stamp_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        touched: dict[int, PendingBatch] = {}
        for fields in records:
            chosen = self._choose(metadata, fields[0], partition)
            if self.buffered_bytes >= self._settings.buffer_memory:
                await self._wait_for_room()
            batch = self._append(chosen, stamp_ms, fields)
            touched[id(batch)] = batch
            if batch.closed:
                if partition is None and fields[0] is None:
                    self._partitioner.batch_filled(topic, _available(metadata))
                await asyncio.sleep(0)
        return list(touched.values())

    async def send_encoded(self, partition: TopicPartition, records: EncodedRecords) -> PendingBatch:
        """Sends encoded records as a batch of their own, after everything that was sent before.

        `batch_size` and `compression` do not apply to it. Waits and raises as `send` does.
        """
        topic, index = partition
        chosen = self._choose(await self._topic(topic), None, index)
        if self.buffered_bytes >= self._settings.buffer_memory:
            await self._wait_for_room()
        queue = self._queue(chosen)
        if queue.batches:
            queue.batches[-1].closed = True
        batch = self._enqueue(queue, records)
        self.buffered_bytes += records.payload_bytes
        self._close_batch(batch)
        return batch

    async def flush(self, *, timeout_ms: int | None = None) -> bool:
        """Sends all waiting records without lingering, and waits for their outcomes. Returns False if that took too
        long.

        The records' own results report failures, and `failed_records` counts them.
        """
        waiting = [batch.future for queue in self._active.values() for batch in queue.batches]
        if not waiting:
            return True
        self._flushing += 1
        try:
            self._wake()
            _, pending = await asyncio.wait(waiting, timeout=None if timeout_ms is None else timeout_ms / 1000)
        finally:
            self._flushing -= 1
        return not pending

    async def close(self, *, timeout_ms: int | None = None) -> None:
        """Flushes for at most `timeout_ms` (None means until all outcomes are known), then fails the remaining
        records.

        The cluster stays open.
        """
        if self._closed:
            return
        if timeout_ms != 0:
            await self.flush(timeout_ms=timeout_ms)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._tasks, *([self._helper] if self._helper is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for queue in list(self._active.values()):
            while queue.batches:
                self._fail_head(queue, ConnectionFailed("the producer was closed before the record was delivered"))
        self._make_room()

    # -- transactions

    async def init_transactions(self) -> None:
        """Takes over the transactional id. Call it once. It fences the former owner and aborts its open transaction.

        Raises `RequestError` or `ConnectionFailed` if that was not possible in `api_timeout_ms`, and `ProducerFenced`
        if the cluster refuses the id.
        """
        transaction = self._transactional()
        await transaction.init()
        self._producer = transaction.producer

    def begin_transaction(self) -> None:
        """Begins a transaction: records sent from now on become visible together, or not at all. Raises
        `WrongState`."""
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetToSend], group: GroupMetadata
    ) -> None:
        """Commits these offsets for a group together with the transaction. Raises as `commit_transaction` does."""
        found = {
            partition: OffsetToSend(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        await self._transactional().send_offsets(found, group)

    async def commit_transaction(self) -> None:
        """Sends all waiting records and commits the transaction.

        Raises `TransactionBroken` if the transaction can only be aborted, and `ProducerFenced` if another producer has
        the transactional id. Raises `RequestError` or `ConnectionFailed` if it is unknown after `api_timeout_ms`
        whether the transaction is committed. Then call `commit_transaction` again, and nothing else.
        """
        transaction = self._transactional()
        transaction.prepare_end(commit=True)
        await self.flush()
        await transaction.end(commit=True)
        self._producer = transaction.producer

    async def abort_transaction(self) -> None:
        """Drops all waiting records and aborts the transaction. Raises as `commit_transaction` does."""
        transaction = self._transactional()
        transaction.prepare_end(commit=False)
        await self._drop(TransactionBroken("the transaction was aborted"))
        await transaction.end(commit=False)
        self._producer = transaction.producer

    @property
    def in_transaction(self) -> bool:
        """Whether there is something to commit or abort."""
        return self._transaction is not None and self._transaction.state in (
            TransactionPhase.OPEN,
            TransactionPhase.BROKEN,
            TransactionPhase.COMMITTING,
            TransactionPhase.ABORTING,
        )

    def _transactional(self) -> ProducerTransaction:
        if self._transaction is None:
            raise WrongState("the producer has no transactional_id in its settings")
        return self._transaction

    async def _drop(self, why: KavkaError) -> None:
        """Fails all batches; those that are under way are waited for once."""
        while self._active:
            self._fail_idle(why)
            if self._tasks:
                await asyncio.wait(self._tasks)
        if self._helper is not None:
            # A partition that becomes part of it after its end would begin the next one.
            await asyncio.wait([self._helper])

    def _fail_idle(self, why: KavkaError) -> None:
        """Fails the batches that are not under way."""
        for queue in list(self._active.values()):
            while queue.batches and not queue.in_flight:
                self._break(why, may_be_written=queue.batches[0].was_sent)
                self._fail_head(queue, why)

    def _break(self, why: KavkaError, *, may_be_written: bool) -> None:
        if self._transaction is not None:
            self._transaction.fail(why, may_be_written=may_be_written)

    async def _add_to_transaction(self, partitions: Sequence[TopicPartition]) -> None:
        transaction = self._transactional()
        try:
            await transaction.add(partitions)
        except KavkaError as failure:
            transaction.fail(failure, may_be_written=False)
            self._fail_idle(failure)

    async def _topic(self, topic: str) -> TopicMetadata:
        if self._closed:
            raise ConnectionFailed("the producer is closed")
        if self._transaction is not None:
            self._transaction.check_open()
        elif self._settings.idempotent and self._producer is None:
            await self._take_producer_id()
        return await self._cluster.topic(topic, may_create=True)

    def _choose(self, topic: TopicMetadata, key: bytes | None, partition: int | None) -> TopicPartition:
        if partition is None:
            if key is None:
                partition = self._partitioner.partition(topic.name, _available(topic))
            else:
                partition = partition_for_key(key, len(topic.partitions))
        elif not 0 <= partition < len(topic.partitions):
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name!r} has partitions 0 to {len(topic.partitions) - 1}, not {partition}",
            )
        return TopicPartition(topic.name, partition)

    def _append(self, partition: TopicPartition, timestamp_ms: int, fields: RecordFields) -> PendingBatch:
        key, value, headers = fields
        size = len(key or b"") + len(value or b"") + _RECORD_OVERHEAD
        batch = self._open_batch(partition, size)
        builder = batch.builder
        assert isinstance(builder, BatchBuilder)
        before = builder.payload_bytes
        builder.append(timestamp_ms, key, value, headers)
        self.buffered_bytes += builder.payload_bytes - before
        if builder.payload_bytes >= self._settings.batch_size:
            self._close_batch(batch)
        return batch

    def _open_batch(self, partition: TopicPartition, size: int) -> PendingBatch:
        """The batch of `partition` that takes records, with room for `size` bytes, or a new one."""
        queue = self._queue(partition)
        if queue.batches:
            last = queue.batches[-1]
            if not last.closed:
                if last.builder.payload_bytes + size <= self._settings.batch_size:
                    return last
                self._close_batch(last)
        batch = self._enqueue(queue, BatchBuilder(self._settings.compression, level=self._settings.compression_level))
        if self._settings.linger_ms == 0:
            self._wake()
        elif not self._dispatch_soon:
            self._set_timer(batch.created_at + self._settings.linger_ms / 1000)
        return batch

    def _enqueue(self, queue: _Queue, builder: BatchBuilder | EncodedRecords) -> PendingBatch:
        loop = asyncio.get_running_loop()
        batch = PendingBatch(queue.partition, builder, loop.time(), loop.create_future())
        queue.batches.append(batch)
        self._active[queue.partition] = queue
        return batch

    def _queue(self, partition: TopicPartition) -> _Queue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue(partition)
        return queue

    def _close_batch(self, batch: PendingBatch) -> None:
        batch.closed = True
        self._wake()

    def _wake(self) -> None:
        if not self._dispatch_soon:
            self._dispatch_soon = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _on_timer(self) -> None:
        self._timer = None
        self._dispatch()

    def _dispatch(self) -> None:
        """Sends every batch that is due, one request per broker, and sets the timer for those that are not yet."""
        self._dispatch_soon = False
        if self._closed:
            return
        now = asyncio.get_running_loop().time()
        linger_s = 0.0 if self._flushing else self._settings.linger_ms / 1000
        due: dict[int, list[_Queue]] = {}
        to_add: list[TopicPartition] = []
        wake_at = float("inf")
        without_leader = False
        for queue in list(self._active.values()):
            if queue.in_flight:
                continue
            head = queue.batches[0]
            if now >= head.created_at + self._settings.delivery_timeout_ms / 1000:
                self._expire_head(queue)
                wake_at = now
                continue
            wake_at = min(wake_at, head.created_at + self._settings.delivery_timeout_ms / 1000)
            ready_at = queue.not_before
            if not head.closed and not head.was_sent and len(queue.batches) == 1:
                ready_at = max(ready_at, head.created_at + linger_s)
            if ready_at > now:
                wake_at = min(wake_at, ready_at)
                continue
            if self._transaction is not None and not self._transaction.holds(queue.partition):
                to_add.append(queue.partition)
                continue
            leader = self._cluster.leader(queue.partition)
            if leader < 0:
                without_leader = True
            else:
                due.setdefault(leader, []).append(queue)
        if to_add:
            self._help(self._add_to_transaction(to_add))
        if due and self._settings.idempotent and self._producer is None:
            self._help(self._take_producer_id())
        else:
            for leader, queues in due.items():
                self._send_due(leader, queues)
        if without_leader:
            self._help(self._find_leaders())
        if wake_at < float("inf"):
            self._set_timer(wake_at)

    def _send_due(self, leader: int, queues: list[_Queue]) -> None:
        """Requests to one broker, up to the bounds of one request and of requests under way."""
        while queues and self._requests.get(leader, 0) < self._settings.max_in_flight:
            size = 0
            taken = 0
            for queue in queues:
                size += queue.batches[0].builder.payload_bytes
                if taken and size > self._settings.max_request_size:
                    break
                taken += 1
            now_sent, queues = queues[:taken], queues[taken:]
            for queue in now_sent:
                queue.in_flight = True
                queue.batches[0].closed = True
                self._stamp(queue)
            self._requests[leader] = self._requests.get(leader, 0) + 1
            self._spawn(self._send_request(leader, now_sent))

    def _stamp(self, queue: _Queue) -> None:
        batch = queue.batches[0]
        if not self._settings.idempotent or batch.stamp is not None:
            return
        assert self._producer is not None
        if queue.producer_id != self._producer:
            queue.producer_id = self._producer
            queue.next_sequence = 0
        is_transactional = self._transaction is not None
        batch.stamp = ProducerStamp(*self._producer, queue.next_sequence, is_transactional=is_transactional)

    async def _send_request(self, leader: int, queues: list[_Queue]) -> None:
        """One Produce request; afterwards every batch in it is decided or waits to be sent again."""
        try:
            try:
                answers = await self._produce(leader, queues)
            except ConnectionFailed as failure:
                for queue in queues:
                    self._on_unknown_outcome(queue, failure)
                self._help(self._find_leaders())
            except RequestError as failure:
                for queue in queues:
                    self._on_error(queue, failure.code, failure.message)
            else:
                for queue in queues:
                    self._on_answer(queue, answers.get(queue.partition))
        finally:
            self._requests[leader] -= 1
            for queue in queues:
                queue.in_flight = False
        self._dispatch()

    async def _produce(self, leader: int, queues: list[_Queue]) -> dict[TopicPartition, PartitionProduceResponse]:
        connection = await self._cluster.connection(leader)
        topics: dict[str, TopicProduceData] = {}
        for queue in queues:
            batch = queue.batches[0]
            topic, partition = queue.partition
            data = PartitionProduceData(index=partition, records=batch.builder.build(batch.stamp or NO_STAMP))
            entry = topics.get(topic)
            if entry is None:
                entry = topics[topic] = TopicProduceData(name=topic, partition_data=[])
            entry.partition_data.append(data)
        request = ProduceRequest(
            transactional_id=self._settings.transactional_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.timeout_ms,
            topic_data=list(topics.values()),
        )
        highest = HIGHEST_PRODUCE
        if self._transaction is not None:
            self._transaction.on_sent()
            if not self._transaction.bumps_epoch:
                highest = HIGHEST_PRODUCE_BEFORE_BUMPS
        for queue in queues:
            queue.batches[0].was_sent = True
        if self._settings.acks == 0:
            await connection.send_unanswered(ApiKey.PRODUCE, request, highest=HIGHEST_PRODUCE)
            return {
                queue.partition: PartitionProduceResponse(index=queue.partition.partition, base_offset=-1)
                for queue in queues
            }
        timeout_ms = self._settings.timeout_ms + self._cluster.settings.request_timeout_ms
        answer = await connection.request(
            ApiKey.PRODUCE, request, ProduceResponse, highest=highest, timeout_ms=timeout_ms
        )
        return {
            TopicPartition(topic.name, partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }

    def _on_answer(self, queue: _Queue, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            self._on_unknown_outcome(queue, ConnectionFailed(f"the answer left out {queue.partition}"))
        elif answer.error_code == ErrorCode.NONE:
            self._deliver_head(queue, answer.base_offset, answer.log_append_time_ms)
        elif answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._deliver_head(queue, -1, NO_TIMESTAMP)
        else:
            self._on_error(queue, error_of(answer.error_code), answer.error_message or error_name(answer.error_code))

    def _on_error(self, queue: _Queue, code: ErrorCode, message: str) -> None:
        """The broker refused the batch, or took it and could not tell the replicas."""
        batch = queue.batches[0]
        is_alone = self._transaction is None
        if is_alone and code in _LOST_SEQUENCE and batch.stamp is not None and not batch.resent_as_new:
            if self._producer == batch.stamp[:2]:
                self._producer = None
            batch.stamp = None
            batch.resent_as_new = True
            return
        if not code.retriable:
            refused = RequestError(code, f"{queue.partition} refused a batch: {message}")
            self._break(refused, may_be_written=True)
            self._fail_head(queue, refused)
            return
        self._back_off(queue, RequestError(code, f"{queue.partition} does not take records: {message}"))
        if code in _STALE_LEADER:
            self._help(self._find_leaders())

    def _on_unknown_outcome(self, queue: _Queue, failure: ConnectionFailed) -> None:
        if self._settings.acks == 0:
            self._fail_head(queue, failure)
        else:
            self._back_off(queue, failure)

    def _back_off(self, queue: _Queue, failure: KavkaError) -> None:
        """The batch is sent again, unless its time is up by then (which `_dispatch` sees)."""
        queue.failures += 1
        queue.last_failure = str(failure)
        self._cluster.note_trouble(queue.partition, failure)
        queue.batches[0].failures += 1
        pause_s = backoff_ms(self._cluster.settings, queue.failures, self._cluster.random) / 1000
        queue.not_before = asyncio.get_running_loop().time() + pause_s

    def _deliver_head(self, queue: _Queue, base_offset: int, log_append_time_ms: int) -> None:
        batch = queue.batches.popleft()
        count = batch.builder.record_count
        if batch.stamp is not None:
            queue.next_sequence = (batch.stamp.base_sequence + count) % _SEQUENCE_SPAN
        if queue.failures:
            queue.failures = 0
            self._cluster.forget_trouble(queue.partition)
        queue.not_before = 0.0
        self.delivered_records += count
        if not batch.future.done():
            batch.future.set_result(BatchDelivery(*queue.partition, base_offset, count, log_append_time_ms))
        self._released(queue, batch)

    def _expire_head(self, queue: _Queue) -> None:
        batch = queue.batches[0]
        what = f"after {self._settings.delivery_timeout_ms} ms"
        if batch.was_sent:
            if self._transaction is None and batch.stamp is not None and self._producer == batch.stamp[:2]:
                self._producer = None
            failures = "1 failure" if batch.failures == 1 else f"{batch.failures} failures"
            what += f" and {failures} it is unknown whether {queue.partition} has the batch"
        else:
            what += f" the batch for {queue.partition} was not sent"
        if queue.last_failure:
            what += f"; the last failure: {queue.last_failure}"
        late = RequestError(ErrorCode.REQUEST_TIMED_OUT, what)
        self._break(late, may_be_written=batch.was_sent)
        self._fail_head(queue, late)

    def _fail_head(self, queue: _Queue, failure: KavkaError) -> None:
        batch = queue.batches.popleft()
        self.failed_records += batch.builder.record_count
        if not batch.future.done():
            batch.future.set_exception(failure)
            batch.future.exception()  # told to whoever asks; nobody has to
        self._released(queue, batch)

    def _released(self, queue: _Queue, batch: PendingBatch) -> None:
        self.buffered_bytes -= batch.builder.payload_bytes
        if not queue.batches:
            self._active.pop(queue.partition, None)
        if self._room and self.buffered_bytes < self._settings.buffer_memory:
            self._make_room()

    async def _wait_for_room(self) -> None:
        while self.buffered_bytes >= self._settings.buffer_memory:
            if self._closed:
                raise ConnectionFailed("the producer is closed")
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            self._wake()
            await room

    def _make_room(self) -> None:
        waiting, self._room = self._room, []
        for room in waiting:
            if not room.done():
                room.set_result(None)

    async def _take_producer_id(self) -> None:
        """A producer id of our own; raises as `Cluster.retry` does."""

        async def ask() -> None:
            answer = await self._cluster.ask(
                ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
            )
            why = _NO_TOPIC if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else None
            raise_for(answer.error_code, "producer id", why)
            if self._producer is None:
                self._producer = (answer.producer_id, answer.producer_epoch)

        await self._cluster.retry(ask, what="take a producer id")

    async def _find_leaders(self) -> None:
        await asyncio.sleep(self._cluster.settings.retry_backoff_ms / 1000)
        await self._cluster.refresh_quietly()

    def _help(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` beside the sending, unless such work runs already, and dispatches again after it."""
        if self._helper is not None and not self._helper.done():
            work.close()
            return

        async def run() -> None:
            try:
                await work
            except KavkaError:
                # Nothing is lost: the batches wait, and their own time-outs tell what became of them.
                await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
            finally:
                self._helper = None
            self._wake()

        self._helper = asyncio.create_task(run(), name="producer's helper")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="produce request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _set_timer(self, at: float) -> None:
        """Dispatches at the loop's time `at`, or earlier where that was asked before."""
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at  # uvloop's handle of what is due at once does not tell.
        self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)


def _available(topic: TopicMetadata) -> list[int]:
    """Partitions with a leader, or all where none has one."""
    return [p.partition for p in topic.partitions if p.leader >= 0] or [p.partition for p in topic.partitions]
