"""A task's rows in one transaction, with a marker that names their micro-batch.

Decides in which order the transactional id is taken over, the markers are read and rows are written, and what a task
that comes again does. It must not know columns or record batches' bytes.

    step                what it settles
    1 take over         the transactional id of (query, task): whoever had it is fenced; what it left open is aborted,
                        and what it had decided to commit is committed before the answer comes
    2 read the markers  up to their end of that time: so the task's last committed batch is known, and none can follow
                        but by this attempt, or by one that has fenced it
      and the layout    of another number of tasks, or not settled: see to that (`layout_settlement`), and go back to 1
    3 compare           with an earlier batch: write; with this one: skip; with a later one: refuse (`StaleBatchError`)
    4 rows and marker   in one transaction
    5 read again        what was committed before this marker: the broker that step 2 asked may have lost its place as
                        leader without knowing it. Something else than in step 2: abort (`StaleMarkersError`)
    6 commit

Invariants
  I1  A task's rows of a batch are committed once, whichever attempts run, one after another or at the same time
      (speculation), in whatever process: two attempts differ in who took the id over last (step 1 orders them), and the
      one before can commit no more.
  I2  A batch that is skipped is compared with what was committed (`BatchChangedError`): a source that does not give the
      same rows again is told, not hidden.
  I3  Where it is unknown whether the commit came through, the task fails; its next attempt reads the marker.
  I4  All committed rows of a batch were written by tasks of one layout (`writer_layouts`): no row is in two of them.

What this cannot give: a micro-batch becomes visible task by task, not at once. And it holds where a repeated
micro-batch has the same rows, which Spark promises for a source that can be replayed and steps without chance. `stable`
puts them into the same tasks.

Source: KIP-98, KIP-447 (fencing); KIP-129 in Kafka Streams for one producer per task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from kavka.client.producer import Producer
from kavka.client.settings import ProducerSettings
from kavka.errors import KavkaError
from kavka_spark.connections import WorkerConnection
from kavka_spark.deliveries import Batches, Deliveries, in_groups
from kavka_spark.errors import (
    BatchChangedError,
    StaleBatchError,
    StaleMarkersError,
    TaskFencedError,
)
from kavka_spark.layout_settlement import BatchOfTask, Settlement, end, is_fenced
from kavka_spark.marker_topic import MarkerTopic, Seen
from kavka_spark.markers import Marker
from kavka_spark.row_encoder import RowEncoder

MOST_ROUNDS: Final = 10
"""How often an attempt settles a layout that another one has changed by the time that it could write."""


class ExactlyOnce:
    """One task's attempt at one batch."""

    def __init__(
        self, connection: WorkerConnection, settings: ProducerSettings, marker_topic: str, what: BatchOfTask
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._markers = _marker_topic(connection, marker_topic)
        self._what = what
        self._settlement = Settlement(connection.cluster, settings, self._markers, what)

    def write(self, rows: Iterator[pa.RecordBatch], encoder: RowEncoder) -> bool:
        """Writes the rows, or skips them: False. Raises what the invariants name, `DeliveryError` and what a client
        raises; then nothing is committed, or it is unknown (I3)."""
        producer, seen = self._connection.run(self._take_over())
        try:
            marked = seen.markers[self._what.task]
            if marked is not None and marked.batch >= self._what.batch:
                self._compare(marked, rows, encoder)
                return False
            self._write(producer, rows, encoder, seen)
            return True
        except KavkaError as failure:
            if not is_fenced(failure):
                raise
            raise TaskFencedError(str(self._what), str(failure)) from failure
        finally:
            self._connection.run(end(producer))

    async def _take_over(self) -> tuple[Producer, Seen]:
        """A producer that may write, and what is committed (steps 1 and 2)."""
        for _ in range(MOST_ROUNDS):
            producer = Producer(self._connection.cluster, self._settings)
            try:
                await producer.init_transactions()
                seen = await self._markers.look(self._what.task.query, [self._what.task])
                if self._settlement.may_proceed(seen.layout):
                    return producer, seen
            except BaseException:
                await producer.close(timeout_ms=0)
                raise
            await producer.close(timeout_ms=0)
            await self._settlement.settle()
        raise TaskFencedError(str(self._what), f"its layout was changed {MOST_ROUNDS} times before it could write")

    def _compare(self, marked: Marker, rows: Iterator[pa.RecordBatch], encoder: RowEncoder) -> None:
        if marked.batch > self._what.batch:
            raise StaleBatchError(str(self._what), marked.batch)
        for chunk in rows:
            encoder.count_only(chunk)
        if encoder.digest != marked.digest:
            raise BatchChangedError(str(self._what), str(marked.digest), str(encoder.digest))

    def _write(self, producer: Producer, rows: Iterator[pa.RecordBatch], encoder: RowEncoder, seen: Seen) -> None:
        producer.begin_transaction()
        deliveries = Deliveries(producer)
        for batches, are_last in in_groups(batch for chunk in rows for batch in encoder.encode(chunk)):
            if are_last:
                marker = Marker(self._what.batch, encoder.digest)
                self._connection.run(self._commit(producer, deliveries, batches, marker, seen))
            else:
                self._connection.run(deliveries.send(batches))

    async def _commit(
        self, producer: Producer, deliveries: Deliveries, last: Batches, marker: Marker, seen: Seen
    ) -> None:
        await deliveries.send(last)
        task = self._what.task
        topic, partition = await self._markers.partition_of(task.query)
        sent = await producer.send(topic, marker.value, key=task.key, partition=partition)
        await deliveries.finish()
        if await self._markers.look_before(await sent, task.query, [task]) != seen:
            raise StaleMarkersError(str(self._what))
        await producer.commit_transaction()


_topics: WeakKeyDictionary[WorkerConnection, dict[str, MarkerTopic]] = WeakKeyDictionary()


def _marker_topic(connection: WorkerConnection, name: str) -> MarkerTopic:
    """The topic as this process knows it. What was read of it is kept from task to task."""
    known = _topics.setdefault(connection, {})
    if name not in known:
        known[name] = MarkerTopic(connection.cluster, name)
    return known[name]
