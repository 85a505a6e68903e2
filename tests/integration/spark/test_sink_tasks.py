"""What a task of the sink does with its rows, against a broker; Spark itself takes no part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kavka.client.cluster import Cluster
from kavka.client.partitioner import partition_for_key
from kavka.errors import ConfigError, RequestError
from kavka.model import TopicPartition
from kavka_spark import marker_topic
from kavka_spark.connections import connection
from kavka_spark.errors import (
    BatchChangedError,
    DeliveryError,
    LayoutChangedError,
    SinkError,
    StaleBatchError,
    StaleMarkersError,
    TaskFencedError,
)
from kavka_spark.layout_settlement import Settlement
from kavka_spark.markers import Digest, Marker, Task
from kavka_spark.row_encoder import CHUNK_BYTES
from kavka_spark.sink_options import DEFAULT_MARKER_TOPIC, sink_options
from kavka_spark.sink_schema import sink_columns
from kavka_spark.stable import TASK_BITS, TASK_COLUMN
from kavka_spark.writer import BATCH_ID, QUERY_ID, TaskIdentity, WrittenRows, write_rows
from kavka_spark.writer_layouts import Layout, layout_key, parse_layout
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.topic_contents import contents, create, decided

TYPES = {
    "key": StringType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "timestamp": TimestampType(),
    "offset": LongType(),
    "kavka_task": LongType(),
}
VALUES = pa.schema([pa.field("value", pa.binary())])
_names = count()


@pytest.fixture
def topic(kavka_broker: KavkaProcess) -> str:
    name = f"rows-{next(_names)}"
    create(kavka_broker.bootstrap, name, 3)
    return name


class Sink:
    """A query that writes; each call is one task of one of its batches."""

    def __init__(self, bootstrap: str, columns: str = "value", *, streaming: bool = True, **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, **options}
        self.options = sink_options(given, streaming=streaming)
        names = columns.split()
        if self.options.exactly_once is not None:
            names.append(TASK_COLUMN)
        schema = StructType([StructField(name, TYPES[name]) for name in names])
        self.columns = sink_columns(schema, self.options)
        self.query = f"query-{next(_names)}"

    def write(self, *batches: pa.RecordBatch, batch: int = 0, partition: int = 0, tasks: int = 4) -> WrittenRows:
        return self.write_from(iter(batches), batch=batch, partition=partition, tasks=tasks)

    def write_from(
        self, batches: Iterator[pa.RecordBatch], *, batch: int = 0, partition: int = 0, tasks: int = 4
    ) -> WrittenRows:
        """As the task `partition` of as many as stable() was told."""
        if self.options.exactly_once is not None:
            batches = (with_task(rows, tasks << TASK_BITS | partition) for rows in batches)
        return self.write_as_it_is(batches, batch=batch, partition=partition)

    def write_as_it_is(self, batches: Iterator[pa.RecordBatch], *, batch: int, partition: int) -> WrittenRows:
        told = {QUERY_ID: self.query, BATCH_ID: str(batch)}
        return write_rows(batches, self.columns, self.options, TaskIdentity(partition, told.get))


def with_task(batch: pa.RecordBatch, task: int) -> pa.RecordBatch:
    return batch.append_column(TASK_COLUMN, pa.array([task] * batch.num_rows, pa.int64()))


def rows(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.binary())], schema=VALUES)


def values_in(broker: KavkaProcess, topic: str, **how: Any) -> list[bytes | None]:
    return sorted((record.value for record in contents(broker.bootstrap, topic, **how)), key=lambda v: v or b"")


def test_columns_become_parts_of_records(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(
        kavka_broker.bootstrap,
        "key value topic partition headers timestamp offset",
        includeTimestamp="true",
    )
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch(
        {
            "key": pa.array(["k", None, "täst"]),
            "value": pa.array(["v", None, ""]),
            "topic": pa.array([topic] * 3),
            "partition": pa.array([2, 1, None], pa.int32()),
            "headers": pa.array(
                [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []], pa.list_(header)
            ),
            "timestamp": pa.array([1_700_000_000_123_456, 5_000, 0], pa.timestamp("us", tz="UTC")),
            "offset": pa.array([1, 2, 3]),
        }
    )
    assert sink.write(batch) == WrittenRows(3, skipped=False)
    found = {
        (record.partition, record.key, record.value, record.headers, record.timestamp_ms)
        for record in contents(kavka_broker.bootstrap, topic)
    }
    assert found == {
        (2, b"k", b"v", (("a", b"1"), ("b", None)), 1_700_000_000_123),
        (1, None, None, (), 5),
        (partition_for_key("täst".encode(), 3), "täst".encode(), b"", (), 0),
    }


def test_rows_of_a_partition_keep_their_order_and_rows_without_a_key_fill_batch_after_batch(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, **{"kafka.batch.size": "2000", "kafka.compression.type": "zstd"})
    numbers = [b"%05d" % number for number in range(5_000)]
    sink.write(*(rows(*numbers[start : start + 100]) for start in range(0, 5_000, 100)))
    records = contents(kavka_broker.bootstrap, topic)
    assert sorted(record.value for record in records) == numbers
    for partition in range(3):
        of_partition = [record.value for record in records if record.partition == partition]
        assert len(of_partition) > 1_000
        assert of_partition == sorted(of_partition)


def test_nothing_is_sent_where_there_are_no_rows() -> None:
    nobody = Sink("127.0.0.1:1", topic="t", exactlyOnce="true")
    assert nobody.write(rows(), rows()) == WrittenRows(0, skipped=False)


def test_what_does_not_fit_is_named(kavka_broker: KavkaProcess, topic: str) -> None:
    with pytest.raises(SinkError, match=f"partition 7 of topic '{topic}', which has partitions 0 to 2"):
        Sink(kavka_broker.bootstrap, "value partition", topic=topic).write(
            pa.record_batch({"value": pa.array([b"v"]), "partition": pa.array([7], pa.int32())})
        )
    with pytest.raises(SinkError, match="null as its topic"):
        Sink(kavka_broker.bootstrap, "value topic").write(
            pa.record_batch({"value": pa.array([b"v"]), "topic": pa.array([None], pa.string())})
        )
    with pytest.raises(
        DeliveryError, match=rf"{topic}-\d were not delivered.*largest record has 20000\d\d bytes: raise"
    ):
        Sink(kavka_broker.bootstrap, topic=topic).write(rows(b"v" * 2_000_000))
    assert contents(kavka_broker.bootstrap, topic) == []


def test_a_partition_that_was_added_is_written_to_by_a_process_that_knows_the_topic_from_before(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    def row(partition: int) -> pa.RecordBatch:
        return pa.record_batch({"value": pa.array([b"v"]), "partition": pa.array([partition], pa.int32())})

    sink = Sink(kavka_broker.bootstrap, "value partition", topic=topic)
    sink.write(row(2))
    admin = AdminClient({"bootstrap.servers": kavka_broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(30)
    assert sink.write(row(0), row(5)) == WrittenRows(2, skipped=False)
    assert sorted(record.partition for record in contents(kavka_broker.bootstrap, topic)) == [0, 2, 5]


def test_a_failed_task_does_not_spoil_the_next_one(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic)
    with pytest.raises(DeliveryError):
        sink.write(rows(b"v" * 2_000_000))
    sink.write(rows(b"good"))
    assert values_in(kavka_broker, topic) == [b"good"]


def test_a_topic_that_nobody_makes_is_missed_after_max_block_ms(start_kavka: Callable[..., KavkaProcess]) -> None:
    broker = start_kavka(settings={"auto.create.topics.enable": "false"})
    sink = Sink(broker.bootstrap, topic="nowhere", **{"kafka.max.block.ms": "300"})
    with pytest.raises(RequestError, match="'nowhere' did not appear within 300 ms"):
        sink.write(rows(b"v"))


def test_a_batch_that_comes_again_is_skipped(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    assert sink.write(rows(b"a", None), rows(b"b")) == WrittenRows(3, skipped=False)
    assert sink.write(rows(b"b"), rows(None, b"a")) == WrittenRows(3, skipped=True)
    assert sink.write(rows(b"c"), partition=1) == WrittenRows(1, skipped=False)
    assert sink.write(rows(b"d"), batch=1) == WrittenRows(1, skipped=False)
    assert sink.write(rows(b"d"), batch=1) == WrittenRows(1, skipped=True)
    assert values_in(kavka_broker, topic) == [None, b"a", b"b", b"c", b"d"]


def test_a_batch_that_comes_again_with_other_rows_is_refused(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"a", b"b"))
    with pytest.raises(BatchChangedError, match=r"with 2 rows of 2 bytes .*came again with 3 rows of 3 bytes"):
        sink.write(rows(b"a", b"b", b"c"))
    with pytest.raises(BatchChangedError):
        sink.write(rows(b"a", b"c"))
    assert values_in(kavka_broker, topic) == [b"a", b"b"]


def test_a_batch_before_the_last_committed_one_is_refused(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"a"), batch=6)
    with pytest.raises(StaleBatchError, match=r"batch 5 of task 0 of query .* after batch 6 was committed"):
        sink.write(rows(b"z"), batch=5)
    assert values_in(kavka_broker, topic) == [b"a"]


def large(*values: bytes) -> Iterator[pa.RecordBatch]:
    """The rows, each large enough to leave before the next is asked for."""
    for value in values:
        yield rows(value * 900_000, value * 900_000, value * 900_000, value * 900_000, value * 900_000)


def test_an_attempt_that_was_overtaken_amid_its_rows_commits_nothing(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from large(b"a", b"b")
        assert sink.write_from(large(b"a", b"b")) == WrittenRows(10, skipped=False)
        yield from large(b"c", b"d")

    with pytest.raises(TaskFencedError, match="Another attempt of the task has taken over"):
        sink.write_from(overtaken())
    assert [value[:1] for value in values_in(kavka_broker, topic)] == [b"a"] * 5 + [b"b"] * 5
    assert sink.write_from(large(b"a", b"b")).skipped


def test_an_attempt_that_was_overtaken_behind_its_rows_commits_nothing(kavka_broker: KavkaProcess, topic: str) -> None:
    """What is refused then is its marker, or what ends the transaction."""
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from large(b"a", b"b")
        assert not sink.write_from(large(b"a", b"b")).skipped

    with pytest.raises(TaskFencedError, match="Another attempt of the task has taken over"):
        sink.write_from(overtaken())
    assert [value[:1] for value in values_in(kavka_broker, topic)] == [b"a"] * 5 + [b"b"] * 5


def test_an_attempt_that_comes_after_the_batch_behind_it_writes_nothing_and_stops_nobody_for_long(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"a"), batch=0)

    def with_a_zombie_amid() -> Iterator[pa.RecordBatch]:
        yield from large(b"b", b"c")
        assert sink.write(rows(b"a"), batch=0).skipped
        yield from large(b"d", b"e")

    with pytest.raises(TaskFencedError, match="Another attempt of the task has taken over"):
        sink.write_from(with_a_zombie_amid(), batch=1)
    assert not sink.write(rows(b"b"), batch=1).skipped
    assert values_in(kavka_broker, topic) == [b"a", b"b"]


def test_a_task_that_fails_leaves_nothing_and_comes_again(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")

    def broken() -> Iterator[pa.RecordBatch]:
        yield from large(b"a", b"b", b"c")
        raise OSError("the disk of the rows")

    with pytest.raises(OSError, match="the disk"):
        sink.write_from(broken())
    assert values_in(kavka_broker, topic) == []
    assert values_in(kavka_broker, topic, read_committed=False) != []
    assert sink.write(rows(b"a")) == WrittenRows(1, skipped=False)
    assert values_in(kavka_broker, topic) == [b"a"]


def test_a_task_that_takes_longer_than_its_transaction_may_commits_nothing(
    start_kavka: Callable[..., KavkaProcess],
) -> None:
    broker = start_kavka(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    create(broker.bootstrap, "slow", 1)
    sink = Sink(broker.bootstrap, topic="slow", exactlyOnce="true", **{"kafka.transaction.timeout.ms": "300"})

    def slow() -> Iterator[pa.RecordBatch]:
        yield from large(b"a", b"b", b"c")
        # All that was written is decided once a reader of committed records gets to the end.
        eventually("the abort", lambda: decided(broker.bootstrap, "slow"))
        yield from large(b"d")

    with pytest.raises(TaskFencedError, match=r"longer than kafka\.transaction\.timeout\.ms"):
        sink.write_from(slow())
    assert contents(broker.bootstrap, "slow") == []
    assert not sink.write(rows(b"a")).skipped
    assert values_in(broker, "slow") == [b"a"]


def test_tasks_do_not_wait_for_open_transactions_of_others(kavka_broker: KavkaProcess, topic: str) -> None:
    """All markers in one partition, and one of them in a transaction that stays open."""
    markers = f"{topic}-markers"
    create(kavka_broker.bootstrap, markers, 1, configs={"cleanup.policy": "compact"})
    other = Sink(kavka_broker.bootstrap, "key value topic", exactlyOnce="true", exactlyOnceTopic=markers)
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true", exactlyOnceTopic=markers)
    sink.write(rows(b"a"))

    def held_open() -> Iterator[pa.RecordBatch]:
        # The marker topic itself, as a target, is part of the open transaction from here on.
        for _ in range(2):
            yield pa.record_batch(
                {
                    "key": pa.array([b"{}"] * 10),
                    "value": pa.array([b'{"batch": 1, "rows": 1, "bytes": 9000000, "sum": 0}'.ljust(900_000)] * 10),
                    "topic": pa.array([markers] * 10),
                }
            )
        assert sink.write(rows(b"a")).skipped
        assert not sink.write(rows(b"b"), batch=1).skipped
        assert sink.write(rows(b"b"), batch=1).skipped

    other.write_from(held_open())
    assert values_in(kavka_broker, topic) == [b"a", b"b"]


def test_what_compaction_leaves_of_the_markers_is_enough(start_kavka: Callable[..., KavkaProcess]) -> None:
    """Read by a process that never saw the rest."""
    broker = start_kavka(settings={"log.cleaner.backoff.ms": "100"})
    create(broker.bootstrap, "rows", 1)
    compacting = {"cleanup.policy": "compact", "segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.01"}
    create(broker.bootstrap, "markers", 1, configs=compacting)
    options = {"topic": "rows", "exactlyOnce": "true", "exactlyOnceTopic": "markers"}
    sink = Sink(broker.bootstrap, **options)
    for batch in range(40):
        for partition in range(2):
            sink.write(rows(b"%d" % batch), batch=batch, partition=partition)
    eventually("compaction", lambda: len(contents(broker.bootstrap, "markers")) < 60)

    another = Sink(broker.bootstrap, **options, **{"kafka.client.id": "another process"})
    another.query = sink.query
    for partition in range(2):
        assert another.write(rows(b"39"), batch=39, partition=partition).skipped
        with pytest.raises(StaleBatchError):
            another.write(rows(b"38"), batch=38, partition=partition)
    assert len(contents(broker.bootstrap, "rows")) == 80


def test_a_batch_job_is_known_by_the_id_that_it_was_given(kavka_broker: KavkaProcess, topic: str) -> None:
    def job(batch: str) -> Sink:
        return Sink(
            kavka_broker.bootstrap,
            streaming=False,
            topic=topic,
            exactlyOnce="true",
            exactlyOnceId=f"load-{topic}",
            exactlyOnceBatch=batch,
        )

    assert not job("0").write(rows(b"a")).skipped
    assert job("0").write(rows(b"a")).skipped
    assert not job("1").write(rows(b"a")).skipped
    assert values_in(kavka_broker, topic) == [b"a", b"a"]


def test_the_markers_topic_forgets_nothing(kavka_broker: KavkaProcess, topic: str) -> None:
    create(kavka_broker.bootstrap, f"{topic}-deleting", 1, configs={"cleanup.policy": "delete"})
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true", exactlyOnceTopic=f"{topic}-deleting")
    with pytest.raises(ConfigError, match=r"has cleanup\.policy=delete"):
        sink.write(rows(b"a"))
    assert contents(kavka_broker.bootstrap, topic) == []


def test_a_batch_that_comes_again_in_another_number_of_tasks_is_refused_until_it_is_through(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    """Its rows are in other tasks then, some of which have no marker: without the refusal they would be there twice."""
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"a", b"b"), batch=3, partition=0, tasks=4)
    for partition in (0, 1):
        with pytest.raises(LayoutChangedError, match=r"stable\(df, 4\) until this batch is through"):
            sink.write(rows(b"b", b"c"), batch=3, partition=partition, tasks=2)
    assert sink.write(rows(b"a", b"b"), batch=3, partition=0, tasks=4).skipped
    assert not sink.write(rows(b"c"), batch=3, partition=2, tasks=4).skipped
    assert not sink.write(rows(b"d"), batch=4, partition=1, tasks=2).skipped
    assert not sink.write(rows(b"e"), batch=5, partition=6, tasks=7).skipped
    assert values_in(kavka_broker, topic) == [b"a", b"b", b"c", b"d", b"e"]
    assert layouts_of(kavka_broker, sink) == [
        Layout(3, 4),
        Layout(4, 2, before=4),
        Layout(4, 2),
        Layout(5, 7, before=2),
        Layout(5, 7),
    ]


def test_a_change_in_a_batch_of_which_some_is_committed_is_taken_back(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    for batch in (0, 1):
        sink.write(rows(b"%d" % batch), batch=batch, partition=3, tasks=4)
    with pytest.raises(LayoutChangedError):
        sink.write(rows(b"1"), batch=1, partition=0, tasks=2)
    assert layouts_of(kavka_broker, sink) == [Layout(0, 4), Layout(1, 2, before=4), Layout(1, 4)]
    assert sink.write(rows(b"1"), batch=1, partition=3, tasks=4).skipped
    assert values_in(kavka_broker, topic) == [b"0", b"1"]


def test_a_task_of_the_old_layout_that_is_amid_its_rows_commits_nothing(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"0"), batch=0, tasks=4)

    def with_another_driver_amid() -> Iterator[pa.RecordBatch]:
        yield from large(b"a", b"b")
        assert not sink.write(rows(b"c"), batch=1, partition=1, tasks=2).skipped
        yield from large(b"d", b"e")

    with pytest.raises(TaskFencedError):
        sink.write_from(with_another_driver_amid(), batch=1, partition=3, tasks=4)
    with pytest.raises(LayoutChangedError):
        sink.write(rows(b"a"), batch=1, partition=3, tasks=4)
    assert values_in(kavka_broker, topic) == [b"0", b"c"]


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_an_intent_of_a_process_that_died_is_gone_on_with(
    kavka_broker: KavkaProcess, topic: str, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether what comes next is what was intended (2), the old layout (4) or a third one."""
    monkeypatch.setattr("kavka_spark.layout_settlement.PATIENCE_S", 0.2)
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    sink.write(rows(b"0"), batch=0, tasks=4)

    async def died(self: Settlement, intent: Layout) -> bool:
        raise OSError("kill -9")

    with monkeypatch.context() as patched:
        patched.setattr(Settlement, "_fence", died)
        with pytest.raises(OSError, match="kill -9"):
            sink.write(rows(b"1"), batch=1, tasks=2)
    assert layouts_of(kavka_broker, sink)[-1] == Layout(1, 2, before=4)
    assert not sink.write(rows(b"1"), batch=1, partition=1, tasks=tasks).skipped
    assert layouts_of(kavka_broker, sink)[-1] == Layout(1, tasks)
    assert values_in(kavka_broker, topic) == [b"0", b"1"]


def test_rows_that_are_not_where_stable_put_them_are_refused_before_anything_is_committed(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    for wrong in (4 << TASK_BITS | 1, 3 << TASK_BITS, None):
        mixed = [with_task(rows(b"v" * CHUNK_BYTES), 4 << TASK_BITS), with_task(rows(b"w"), wrong)]
        with pytest.raises(SinkError, match=rf"kavka_task={wrong}, expected {4 << TASK_BITS}.* Call stable\(\) last"):
            sink.write_as_it_is(iter(mixed), batch=0, partition=0)
    with pytest.raises(SinkError, match="Call stable"):
        sink.write(rows(b"a"), partition=4, tasks=4)
    assert contents(kavka_broker.bootstrap, topic) == []


def test_a_batch_that_a_version_without_layouts_began_is_refused(kavka_broker: KavkaProcess, topic: str) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true", exactlyOnceTopic=f"{topic}-markers")
    create(kavka_broker.bootstrap, f"{topic}-markers", 4, configs={"cleanup.policy": "compact"})
    old = Task(sink.query, 9)
    writer = Sink(kavka_broker.bootstrap, "key value topic")
    writer.write(
        pa.record_batch(
            {
                "key": pa.array([old.key]),
                "value": pa.array([Marker(7, Digest(1, 1, 1)).value]),
                "topic": pa.array([f"{topic}-markers"]),
            }
        )
    )
    with pytest.raises(SinkError, match=r"a version of kavka before stable\(\) has committed some of batch 7"):
        sink.write(rows(b"a"), batch=7)
    assert not sink.write(rows(b"b"), batch=8).skipped
    assert values_in(kavka_broker, topic) == [b"b"]


def test_of_tasks_that_begin_at_once_one_settles_the_layout_and_the_others_wait_for_it(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    """Each with a connection of its own, as processes have; every batch has another number of tasks."""
    sinks = [
        Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true", **{"kafka.client.id": f"{topic}-{index}"})
        for index in range(4)
    ]
    for sink in sinks:
        sink.query = f"at-once-{topic}"

    def until_written(task: int, batch: int, tasks: int) -> None:
        """As Spark, which runs a task again that was fenced."""
        for _ in range(5):
            try:
                sinks[task].write(rows(b"%d" % (batch * 10 + task)), batch=batch, partition=task, tasks=tasks)
            except TaskFencedError:
                continue
            return
        raise AssertionError(f"task {task} of batch {batch} was fenced five times")

    with ThreadPoolExecutor(4) as pool:
        for batch, tasks in enumerate((4, 3, 4, 2)):
            list(pool.map(lambda task, batch=batch, tasks=tasks: until_written(task, batch, tasks), range(tasks)))
    expected = [batch * 10 + task for batch, tasks in enumerate((4, 3, 4, 2)) for task in range(tasks)]
    assert sorted(int(value or b"") for value in values_in(kavka_broker, topic)) == expected


def elsewhere(broker: KavkaProcess, sink: Sink, **options: str) -> Sink:
    """The same query in another process."""
    other = Sink(broker.bootstrap, exactlyOnce="true", **options, **{"kafka.client.id": f"elsewhere-{next(_names)}"})
    other.query = sink.query
    return other


def ask_a_former_leader(patched: pytest.MonkeyPatch, sink: Sink) -> None:
    """From here on this process is told where the markers end by a broker that does not know that another one leads:
    it shows what there is now. Who writes finds the leader."""
    opened = connection(sink.options.connection)
    ask = marker_topic.latest_offsets

    async def all_ends() -> dict[TopicPartition, int]:
        topic = await opened.cluster.topic(DEFAULT_MARKER_TOPIC)
        partitions = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
        return await ask(opened.cluster, partitions)

    ends = opened.run(all_ends())

    async def as_it_was(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        return {each: ends[each] for each in wanted} if cluster is opened.cluster else await ask(cluster, wanted)

    patched.setattr(marker_topic, "latest_offsets", as_it_was)


def test_a_marker_that_a_former_leader_does_not_show_is_found_before_rows_are_committed_again(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    other = elsewhere(kavka_broker, sink, topic=topic)
    sink.write(rows(b"0"), batch=0, partition=1)
    ask_a_former_leader(monkeypatch, other)
    assert other.write(rows(b"0"), batch=0, partition=1).skipped
    sink.write(rows(b"1"), batch=1, partition=1)
    with pytest.raises(StaleMarkersError, match=r"batch 1 of task 1 of query .* Nothing of it is committed"):
        other.write(rows(b"1"), batch=1, partition=1)
    assert other.write(rows(b"1"), batch=1, partition=1).skipped
    assert values_in(kavka_broker, topic) == [b"0", b"1"]


def test_markers_in_a_topic_that_was_made_anew_count_for_a_process_that_knew_the_former_one(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    markers = f"{topic}-markers"
    compacted = {"cleanup.policy": "compact"}
    create(kavka_broker.bootstrap, markers, 1, configs=compacted)
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true", exactlyOnceTopic=markers)
    for batch in range(5):
        sink.write(rows(b"%d" % batch), batch=batch)
    other = elsewhere(kavka_broker, sink, topic=topic, exactlyOnceTopic=markers)
    assert other.write(rows(b"4"), batch=4).skipped
    admin = AdminClient({"bootstrap.servers": kavka_broker.bootstrap})
    admin.delete_topics([markers])[markers].result(30)
    create(kavka_broker.bootstrap, markers, 1, configs=compacted)
    anew = elsewhere(kavka_broker, sink, topic=topic, exactlyOnceTopic=markers)
    assert not anew.write(rows(b"5"), batch=5).skipped
    with pytest.raises(StaleMarkersError):
        other.write(rows(b"5"), batch=5)
    assert other.write(rows(b"5"), batch=5).skipped
    assert values_in(kavka_broker, topic) == [b"%d" % batch for batch in range(6)]


@pytest.mark.parametrize("before", [0, 1])
def test_a_layout_that_a_former_leader_does_not_show_is_found_before_rows_are_committed(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Of a query that had no layout, and of one that had that of this attempt."""
    Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true").write(rows(b"of another query"))
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    other = elsewhere(kavka_broker, sink, topic=topic)
    for batch in range(before):
        sink.write(rows(b"0"), batch=batch, partition=3, tasks=4)
    ask_a_former_leader(monkeypatch, other)
    sink.write(rows(b"1"), batch=before, partition=1, tasks=2)
    with pytest.raises((StaleMarkersError, LayoutChangedError)):
        other.write(rows(b"1"), batch=before, partition=3, tasks=4)
    with pytest.raises(LayoutChangedError):
        other.write(rows(b"1"), batch=before, partition=3, tasks=4)
    assert values_in(kavka_broker, topic) == [b"0"] * before + [b"1", b"of another query"]


def test_a_change_in_a_batch_is_taken_back_where_a_former_leader_does_not_show_its_markers(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    other = elsewhere(kavka_broker, sink, topic=topic)
    sink.write(rows(b"0"), batch=0, partition=3, tasks=4)
    ask_a_former_leader(monkeypatch, other)
    sink.write(rows(b"1"), batch=1, partition=3, tasks=4)
    with pytest.raises(LayoutChangedError):
        other.write(rows(b"1"), batch=1, partition=0, tasks=2)
    assert sink.write(rows(b"1"), batch=1, partition=3, tasks=4).skipped
    assert values_in(kavka_broker, topic) == [b"0", b"1"]


def test_recover_says_how_a_query_goes_on_that_was_killed_amid_a_batch(
    kavka_broker: KavkaProcess, topic: str, tmp_path: Path
) -> None:
    sink = Sink(kavka_broker.bootstrap, topic=topic, exactlyOnce="true")
    for directory in ("offsets", "commits"):
        (tmp_path / directory).mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": sink.query}))

    def recover(*words: str) -> str:
        result = run_alone("spark", "recover", *words, KAVKA_BOOTSTRAP=kavka_broker.bootstrap)
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout.decode()

    for batch in (0, 1):
        (tmp_path / "offsets" / str(batch)).touch()
        sink.write(rows(b"a", b"b"), batch=batch, partition=2, tasks=4)
        if not batch:
            (tmp_path / "commits" / "0").touch()
    found = json.loads(recover(str(tmp_path), "--json"))
    assert (found["planned"], found["finished"], found["tasks"]) == (1, 0, {"2": 1})
    assert found["next_step"].startswith("start the query with stable(df, 4) until this batch is through")
    assert "batch 1 is begun: of 4 tasks 2 has committed" in recover(str(tmp_path))
    (tmp_path / "commits" / "1").touch()
    assert "batch 1 is through" in recover(str(tmp_path))
    assert "of 4 tasks 2 has committed" in recover("--id", sink.query)


def test_recover_names_what_is_left_of_a_first_plan_also_where_no_query_has_marked_a_batch_yet(
    kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    left = tmp_path / "offsets" / ".0.400d4df3-1ec4-43a8-b719-7b9af71571a4.tmp"
    left.parent.mkdir()
    left.touch()
    (tmp_path / "metadata").write_text('{"id":"q"}')
    words = ("spark", "recover", str(tmp_path), "--topic", f"markers-{os.getpid()}")
    for more in ((), ("--json",)):
        result = run_alone(*words, *more, KAVKA_BOOTSTRAP=kavka_broker.bootstrap)
        assert result.returncode == 0, result.stderr.decode()
        assert f"remove {left}, and start the query" in result.stdout.decode()
    assert json.loads(result.stdout)["unfinished"] == [str(left)]
    left.unlink()
    result = run_alone(*words, KAVKA_BOOTSTRAP=kavka_broker.bootstrap)
    assert b"no query has marked batches there" in result.stderr


def layouts_of(broker: KavkaProcess, sink: Sink) -> list[Layout]:
    key = layout_key(sink.query)
    records = contents(broker.bootstrap, DEFAULT_MARKER_TOPIC)
    return [parse_layout(record.value or b"") for record in records if record.key == key]
