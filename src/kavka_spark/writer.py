"""One task of the sink: rows in, and a report when all of them are delivered.

Decides which producer a task uses and, for exactly once, who the task is. It must not know Spark's classes for sinks.

Invariants
  I1  `write_rows` returns only when every row is delivered as the options promise; anything else raises.
  I2  Without exactly once a process keeps one producer for equal settings. One that failed is thrown away, so that
      what it may still hold reaches no topic after the task was reported as failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster, TopicMetadata
from kavka.client.producer import Producer
from kavka.client.settings import ProducerSettings
from kavka.errors import ErrorCode, RequestError
from kavka_spark.connections import WorkerConnection, connection
from kavka_spark.deliveries import Deliveries, in_groups
from kavka_spark.errors import SinkError
from kavka_spark.exactly_once import ExactlyOnce
from kavka_spark.layout_settlement import BatchOfTask
from kavka_spark.markers import Task
from kavka_spark.row_encoder import RowEncoder, TopicPartitions, chunks
from kavka_spark.sink_options import SinkOptions
from kavka_spark.sink_schema import SinkColumns
from kavka_spark.stable import TASK_BITS, TASK_COLUMN

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark sets for the jobs of a micro-batch; a test pins them, for no interface promises them."""


class TaskIdentity(NamedTuple):
    """Who writes, according to Spark's task context."""

    partition: int
    local_property: Callable[[str], str | None]


class WrittenRows(NamedTuple):
    """What happened to a task's rows: `skipped` if they had been committed before."""

    rows: int
    skipped: bool


def write_rows(
    rows: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions, who: TaskIdentity
) -> WrittenRows:
    """Writes all rows of a task. Raises `KavkaError`s that name the topic, partition or column."""
    pieces = chunks(rows)
    first = next(pieces, None)
    if first is None:
        return WrittenRows(0, skipped=False)

    def all_of_them() -> Iterable[pa.RecordBatch]:
        yield first
        yield from pieces

    way = connection(options.connection, begins=options.is_batch)
    encoder = RowEncoder(
        columns, options, _Topics(way, options.max_block_ms).partitions, now_ms=_now_ms, random=Random()
    )
    if options.exactly_once is None:
        _write_at_least_once(way, options.producer, encoder, all_of_them())
        return WrittenRows(encoder.rows, skipped=False)
    what = batch_of_task(options, who, tasks_of(first, columns))
    settings = replace(options.producer, transactional_id=what.task.transactional_id)
    attempt = ExactlyOnce(way, settings, options.exactly_once.marker_topic, what)
    written = attempt.write((checked(chunk, columns, what) for chunk in all_of_them()), encoder)
    return WrittenRows(encoder.rows, skipped=not written)


def tasks_of(chunk: pa.RecordBatch, columns: SinkColumns) -> int:
    """How many tasks write, according to the first row."""
    first = chunk.column(columns.task)[0].as_py()
    return 0 if first is None else int(first) >> TASK_BITS


def checked(chunk: pa.RecordBatch, columns: SinkColumns, what: BatchOfTask) -> pa.RecordBatch:
    """The chunk. Raises `SinkError` if one of its rows belongs to another task or layout."""
    expected = what.tasks << TASK_BITS | what.task.partition
    found = chunk.column(columns.task)
    if not 0 <= what.task.partition < what.tasks or not pc.all(pc.equal(found, expected), skip_nulls=False).as_py():
        other = next((row for row in found.to_pylist() if row != expected), expected)
        raise SinkError(
            f"{what} got a row with {TASK_COLUMN}={other}, expected {expected}: a step behind stable(df, {what.tasks}) "
            "has moved or changed rows. Call stable() last"
        )
    return chunk


def batch_of_task(options: SinkOptions, who: TaskIdentity, tasks: int) -> BatchOfTask:
    """Which task of which batch this is: Spark says it for a stream, the options say it for a batch job."""
    assert options.exactly_once is not None
    given = options.exactly_once.given_id
    if given is not None:
        return BatchOfTask(Task(given, who.partition), options.exactly_once.given_batch, tasks)
    query, batch = who.local_property(QUERY_ID), who.local_property(BATCH_ID)
    if not query or not batch or not batch.isdigit():
        raise SinkError(
            f"exactlyOnce needs to know the query and its micro-batch, but Spark reports {QUERY_ID}={query!r}, "
            f"{BATCH_ID}={batch!r}: this version of Spark is not supported for it; set exactlyOnce to false"
        )
    return BatchOfTask(Task(query, who.partition), int(batch), tasks)


def _write_at_least_once(
    way: WorkerConnection, settings: ProducerSettings, encoder: RowEncoder, rows: Iterable[pa.RecordBatch]
) -> None:
    kept = _producers.setdefault(way, {})
    producer = kept.get(settings)
    if producer is None:
        producer = kept[settings] = Producer(way.cluster, settings)
    deliveries = Deliveries(producer)
    try:
        for batches, are_last in in_groups(batch for chunk in rows for batch in encoder.encode(chunk)):
            way.run(deliveries.send_last(batches) if are_last else deliveries.send(batches))
    except BaseException:
        del kept[settings]
        way.run(producer.close(timeout_ms=0))
        raise


class _Topics:
    """The topics that a task writes to. Each is looked up once: a task is short."""

    def __init__(self, way: WorkerConnection, max_block_ms: int) -> None:
        self._way = way
        self._max_block_ms = max_block_ms
        self._found: dict[str, TopicPartitions] = {}

    def partitions(self, topic: str, named: int = -1) -> TopicPartitions:
        """What there is of a topic. A partition that a row names may be new: it is waited for as for a new topic."""
        found = self._found.get(topic)
        if found is None and (known := self._way.known_topic(topic)) is not None:
            found = self._found[topic] = _partitions_of(known)
        if found is None or named >= found.total:
            found = self._found[topic] = self._way.run(_describe(self._way.cluster, topic, named, self._max_block_ms))
        return found


async def _describe(cluster: Cluster, topic: str, named: int, timeout_ms: int) -> TopicPartitions:
    """What there is of a topic, which a broker may make where it is configured so (auto.create.topics.enable)."""
    found = await _find(cluster, topic, timeout_ms)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + cluster.settings.topic_propagation_ms / 1000
    failures = 0
    while named >= found.total and loop.time() < deadline:
        if failures:
            await asyncio.sleep(backoff_ms(cluster.settings, failures, cluster.random) / 1000)
        failures += 1
        await cluster.refresh_quietly()
        found = await _find(cluster, topic, timeout_ms)
    return found


async def _find(cluster: Cluster, topic: str, timeout_ms: int) -> TopicPartitions:
    try:
        found = await cluster.topic(topic, may_create=True, timeout_ms=timeout_ms)
    except RequestError as refused:
        if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise RequestError(
            refused.code,
            f"topic {topic!r} did not appear within {timeout_ms} ms (kafka.max.block.ms): create it, or let the "
            "brokers do so with auto.create.topics.enable",
        ) from refused
    return _partitions_of(found)


def _partitions_of(topic: TopicMetadata) -> TopicPartitions:
    with_leader = tuple(each.partition for each in topic.partitions if each.leader >= 0)
    return TopicPartitions(len(topic.partitions), with_leader or tuple(range(len(topic.partitions))))


def _now_ms() -> int:
    return int(time.time() * 1000)


_producers: WeakKeyDictionary[WorkerConnection, dict[ProducerSettings, Producer]] = WeakKeyDictionary()
