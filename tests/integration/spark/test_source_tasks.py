"""What a task of the source reads and what a stream plans, against brokers; Spark itself takes no part.

Three brokers where leaders move; records that are there twice or not at all would show in the values.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions

from kavka.errors import ConfigError, KavkaError
from kavka.model import TopicPartition
from kavka.testing import Cluster
from kavka_spark import offsets, stream_source
from kavka_spark.connections import KEPT_CLUSTERS, KEPT_SIZES, connection
from kavka_spark.errors import CorruptBatchError, DataLossError, SubscriptionError
from kavka_spark.offsets import Offsets, find_partitions
from kavka_spark.read_tasks import OffsetRange, ReadTask
from kavka_spark.reader import HIGHEST_BY_NAME, RangeReader
from kavka_spark.source import KavkaReader
from kavka_spark.source_options import SourceOptions, Subscribe, source_options
from kavka_spark.stream_source import KavkaStreamReader
from tests.kit.kavka_process import KavkaProcess
from tests.kit.topic_filler import create_topic, fill_with_transactions, produce

_names = count()


@pytest.fixture
def topic() -> str:
    return f"read-{next(_names)}"


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def options(bootstrap: str, topic: str, *, streaming: bool = False, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
    return source_options({name.replace("__", "."): text for name, text in given.items()}, streaming=streaming)


def rows(reader: KavkaReader | KavkaStreamReader, tasks: Iterable[Any]) -> list[tuple[int, int, bytes | None]]:
    """(partition, offset, value) of all tasks."""
    found = []
    for task in tasks:
        for batch in reader.read(task):
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "value")]
            found += list(zip(*columns, strict=True))
    return found


def batch(bootstrap: str, topic: str, **more: str) -> list[tuple[int, int, bytes | None]]:
    reader = KavkaReader(options(bootstrap, topic, **more), ("partition", "offset", "value"))
    return rows(reader, reader.partitions())


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deleted = admin.delete_records([Position(topic, 0, before)])
    for done in deleted.values():
        done.result(30)


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def make_topic(bootstrap: str, topic: str) -> None:
    """Creates it; where one of that name was just deleted, as soon as that is possible."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return create_topic(bootstrap, topic, 1)
        except KafkaException:
            assert time.monotonic() < deadline, f"{topic} could not be made anew"
            time.sleep(0.1)


def remake(bootstrap: str, topic: str) -> None:
    """Deletes a topic and makes it anew."""
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, topic)


def test_bounds_and_sizes_of_a_batch(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 100, partitions=2)
    servers = kavka_broker.bootstrap
    assert sorted(batch(servers, topic)) == [(p, i, b"v%d" % (i * 2 + p)) for p in (0, 1) for i in range(50)]
    some = batch(
        servers,
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 12, "1": -1}}),
    )
    assert [offset for partition, offset, _ in some if partition == 0] == [10, 11]
    assert len(some) == 52
    reader = KavkaReader(options(servers, topic, maxRecordsPerPartition="7"), ("partition", "offset", "value"))
    tasks = reader.partitions()
    assert len(tasks) == 16
    assert len(rows(reader, tasks)) == 100
    assigned = source_options({"kafka.bootstrap.servers": servers, "assign": json.dumps({topic: [1]})}, streaming=False)
    reader = KavkaReader(assigned, ("partition", "offset", "value"))
    assert {row[0] for row in rows(reader, reader.partitions())} == {1}
    matched = source_options(
        {"kafka.bootstrap.servers": servers, "subscribePattern": topic.replace("read", "..d") + "$"}, streaming=False
    )
    reader = KavkaReader(matched, ("partition", "offset", "value"))
    assert len(rows(reader, reader.partitions())) == 100


def test_a_read_committed_range_leaves_out_what_was_aborted(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    fill_with_transactions(kavka_broker.bootstrap, topic)
    everything = [value for _, _, value in batch(kavka_broker.bootstrap, topic)]
    committed = [
        value for _, _, value in batch(kavka_broker.bootstrap, topic, **{"kafka.isolation.level": "read_committed"})
    ]
    aborted = {(turn, index) for turn in range(6) for index in range(2) if (turn + index) % 3 == 2}
    kept = [v for v in everything if v.startswith(b"p") or tuple(map(int, v[1:].split(b"-")))[:2] not in aborted]
    assert sorted(committed) == sorted(kept)
    assert len(everything) - len(kept) == 50 * len(aborted)
    # In small fetches the list of aborted transactions comes with each answer.
    small = batch(
        kavka_broker.bootstrap,
        topic,
        **{"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "100", "minPartitions": "9"},
    )
    assert sorted(value for _, _, value in small) == sorted(kept)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":1}}'}, "leaves out TOPIC-1"),
        ({"startingOffsets": '{"TOPIC":{"0":1,"1":1,"2":1}}'}, "names TOPIC-2, which is not among"),
        ({"startingTimestamp": "99999999999999"}, "'startingTimestamp': no record of TOPIC-0, TOPIC-1 is as late"),
        (
            {"startingOffsetsByTimestamp": '{"TOPIC":{"0":1}}'},
            "'startingOffsetsByTimestamp' leaves out TOPIC-1",
        ),
        (
            {"startingOffsets": '{"TOPIC":{"0":4,"1":0}}', "endingOffsets": '{"TOPIC":{"0":2,"1":-1}}'},
            "begin TOPIC-0 at 4, behind its end at 2",
        ),
        (
            {
                "startingTimestamp": "99999999999999",
                "startingOffsetsByTimestampStrategy": "latest",
                "endingOffsets": '{"TOPIC":{"0":2,"1":-1}}',
            },
            "begin TOPIC-0 at 5, behind its end at 2",
        ),
        (
            {"startingOffsets": '{"TOPIC":{"0":999,"1":0}}'},
            "TOPIC-0: offset 999 is wanted, but the log holds 0 to before 5",
        ),
        (
            {"endingOffsets": '{"TOPIC":{"0":999,"1":0}}'},
            "TOPIC-0: offset 998 is wanted, but the log holds 0 to before 5",
        ),
    ],
)
def test_bounds_that_do_not_fit_are_said(
    kavka_broker: KavkaProcess, topic: str, more: dict[str, str], why: str
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 10, partitions=2)
    with pytest.raises(KavkaError, match=why.replace("TOPIC", topic)):
        batch(kavka_broker.bootstrap, topic, **{name: text.replace("TOPIC", topic) for name, text in more.items()})


def test_a_topic_that_is_not_there_is_named(kavka_broker: KavkaProcess) -> None:
    with pytest.raises(SubscriptionError, match="no topic 'nowhere'"):
        batch(kavka_broker.bootstrap, "nowhere")


def test_timestamps_are_bounds_as_well(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    before = int(time.time() * 1000)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    after = int(time.time() * 1000) + 1
    servers = kavka_broker.bootstrap
    assert len(batch(servers, topic, startingTimestamp=str(before))) == 10
    assert len(batch(servers, topic, endingOffsetsByTimestamp=json.dumps({topic: {"0": before}}))) == 0
    assert len(batch(servers, topic, startingTimestamp=str(before), endingTimestamp=str(after))) == 10
    latest = {"startingTimestamp": str(after + 10**6), "startingOffsetsByTimestampStrategy": "latest"}
    assert batch(servers, topic, **latest) == []


def test_records_that_have_aged_out_are_named_or_passed_over(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    told = {"startingOffsets": json.dumps({topic: {"0": 0}})}
    reader = KavkaReader(options(kavka_broker.bootstrap, topic, **told), ("partition", "offset", "value"))
    tolerant = KavkaReader(options(kavka_broker.bootstrap, topic, failOnDataLoss="false", **told), reader._columns)
    tasks = reader.partitions()
    delete_records(kavka_broker.bootstrap, topic, 60)
    with pytest.raises(DataLossError, match=rf"{topic}-0: offset 0 is wanted.*60 to before 100.*failOnDataLoss"):
        rows(reader, tasks)
    assert [offset for _, offset, _ in rows(tolerant, tasks)] == list(range(60, 100))
    with pytest.raises(DataLossError, match="offset 10 is wanted"):
        batch(kavka_broker.bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 10}}))


@pytest.mark.parametrize("starting", ["earliest", '{"TOPIC": {"0": -2}}'])
def test_earliest_is_what_is_there_when_a_task_begins(kavka_broker: KavkaProcess, topic: str, starting: str) -> None:
    """As for Spark's source: a task may wait for its turn for longer than retention leaves what was planned."""
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    columns = ("partition", "offset", "value")
    more = {"startingOffsets": starting.replace("TOPIC", topic), "maxRecordsPerPartition": "50"}
    reader = KavkaReader(options(kavka_broker.bootstrap, topic, **more), columns)
    tasks = reader.partitions()
    delete_records(kavka_broker.bootstrap, topic, 20)
    assert [offset for _, offset, _ in rows(reader, tasks)] == list(range(20, 100))
    delete_records(kavka_broker.bootstrap, topic, 60)
    assert rows(reader, tasks[:1]) == []
    with pytest.raises(DataLossError, match=r"offset 50 is wanted.*60 to before 100"):
        rows(reader, tasks[1:])  # It does not begin with the first record.


@pytest.mark.parametrize(
    "more",
    [
        {"startingTimestamp": "1"},
        {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": "99999999999999"},
        {"endingOffsets": "latest"},
    ],
)
def test_records_that_come_while_a_batch_is_planned_are_no_lost_ones(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    """Whatever brokers are asked first: each question finds a log that is longer, and of which more has aged out."""
    servers = kavka_broker.bootstrap
    create_topic(servers, topic, 1)
    produce(servers, topic, 10, partitions=1)
    removed = count(1)
    ask = offsets.list_offsets

    async def while_it_grows(*given: Any, **named: Any) -> Any:
        found = await ask(*given, **named)
        await asyncio.to_thread(produce, servers, topic, 5, partitions=1)
        await asyncio.to_thread(delete_records, servers, topic, next(removed))
        return found

    reader = KavkaReader(options(servers, topic, **more), ("partition", "offset", "value"))
    with monkeypatch.context() as patched:
        patched.setattr(offsets, "list_offsets", while_it_grows)
        tasks = reader.partitions()
        Stream(servers, topic, **{name: text for name, text in more.items() if name.startswith("starting")})
    if "startingTimestamp" not in more:
        found = [offset for _, offset, _ in rows(reader, tasks)]
        assert found == list(range(next(removed) - 1, found[-1] + 1))


def test_a_topic_made_anew_is_another_topic_to_a_task(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    reader = KavkaReader(options(kavka_broker.bootstrap, topic), ("partition", "offset", "value"))
    tasks = reader.partitions()
    remake(kavka_broker.bootstrap, topic)
    produce(kavka_broker.bootstrap, topic, 50, partitions=1)
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 0 .*made anew"):
        rows(reader, tasks)


def test_a_partition_that_a_topic_made_anew_does_not_have_is_lost(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 20, partitions=2)
    reader = KavkaReader(options(kavka_broker.bootstrap, topic), ("partition", "offset", "value"))
    tolerant = KavkaReader(options(kavka_broker.bootstrap, topic, failOnDataLoss="false"), ("offset",))
    lost = [OffsetRange(topic, 1, 0, 10, span.topic_id) for span in reader.partitions()[0].spans[:1]]
    remake(kavka_broker.bootstrap, topic)
    began = time.monotonic()
    with pytest.raises(DataLossError, match=f"{topic}-1: offset 0 .*made anew"):
        rows(reader, [ReadTask(tuple(lost))])
    assert list(tolerant.read(ReadTask(tuple(lost)))) == []
    assert time.monotonic() - began < 60, "the two minutes for a partition without a leader are not waited for"


def test_leaders_that_move_and_die_while_a_range_is_read_cost_no_row(three: Cluster, topic: str) -> None:
    three.create_topic(topic, 1, 3)
    produce(three.bootstrap_servers, topic, 3_000, partitions=1, size=500)
    wanted = options(three.bootstrap_servers, topic, **{"kafka.max.partition.fetch.bytes": "70000"})
    opened = connection(wanted.connection)
    ids = opened.run(find_partitions(opened.cluster, Subscribe((topic,)))).topic_ids
    span = OffsetRange(topic, 0, 0, 3_000, ids[topic])
    offsets: list[int] = []
    killed: list[int] = []
    for read in RangeReader(opened, wanted, span, ("offset",)).batches():
        offsets += read.column("offset").to_pylist()
        if len(offsets) > 500 and not killed:
            killed.append(three.leader(topic))
            three.kill(killed[0])
    assert offsets == list(range(3_000))
    three.restore()
    assert [offset for _, offset, _ in batch(three.bootstrap_servers, topic)] == list(range(3_000))


def test_a_broker_that_answers_nothing_ends_a_task_in_time(
    start_kavka: Callable[..., KavkaProcess], topic: str
) -> None:
    broker = start_kavka()
    create_topic(broker.bootstrap, topic, 1)
    produce(broker.bootstrap, topic, 10, partitions=1)
    wanted = options(broker.bootstrap, topic, **{"kafkaConsumer.pollTimeoutMs": "1000"})
    reader = KavkaReader(wanted, ("partition", "offset", "value"))
    tasks = reader.partitions()
    broker.kill()
    began = time.monotonic()
    with pytest.raises(KavkaError, match=str(broker.port)):
        rows(reader, tasks)
    assert time.monotonic() - began < 60


def test_a_process_stays_connected_to_a_few_clusters_and_a_forked_one_to_none(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    ways = [
        options(kavka_broker.bootstrap, topic, **{"kafka.client.id": f"way-{number}"}).connection
        for number in range(KEPT_CLUSTERS + 1)
    ]
    first = connection(ways[0])
    assert connection(ways[0]) is first
    for way in ways[1:]:
        connection(way)
    assert connection(ways[-1]) is connection(ways[-1])
    assert connection(ways[0]) is not first
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as forked:
        assert len(forked.submit(batch, kavka_broker.bootstrap, topic).result(30)) == 10
    assert len(batch(kavka_broker.bootstrap, topic)) == 10


def test_what_is_remembered_of_partitions_is_bounded(kavka_broker: KavkaProcess, topic: str) -> None:
    opened = connection(options(kavka_broker.bootstrap, topic).connection)
    for number in range(KEPT_SIZES + 1):
        opened.learn_size(TopicPartition(topic, number), 100.0)
    assert opened.size(TopicPartition(topic, 0)) is None
    assert opened.size(TopicPartition(topic, KEPT_SIZES)) == 100.0


class Stream:
    """A query's reader and its checkpoint: micro-batches one after another, as Spark plans them."""

    def __init__(self, bootstrap: str, topic: str, **more: str) -> None:
        self.options = options(bootstrap, topic, streaming=True, **{"startingOffsets": "earliest", **more})
        self.reader = KavkaStreamReader(self.options, ("partition", "offset", "value"))
        self.at = self._text(self.reader.initialOffset())
        self.rows: list[tuple[int, int, bytes | None]] = []

    @staticmethod
    def _text(offsets: Any) -> str:
        return json.dumps(offsets)

    def restart(self) -> None:
        self.reader = KavkaStreamReader(self.options, ("partition", "offset", "value"))

    def micro_batch(self) -> int:
        """Reads one; returns how many rows it had."""
        limit = self.reader.getDefaultReadLimit()
        end = self._text(self.reader.latestOffset(json.loads(self.at), limit))
        if end == self.at:
            return 0  # Spark plans none.
        found = rows(self.reader, self.reader.partitions(json.loads(self.at), json.loads(end)))
        self.rows += found
        self.at = end
        return len(found)

    def drain(self) -> list[int]:
        """Sizes of micro-batches until there is nothing new."""
        sizes = []
        while True:
            before = self.at
            size = self.micro_batch()
            if self.at == before:
                return sizes
            sizes.append(size)


def test_a_stream_goes_on_where_it_was_also_in_another_process(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 100, partitions=2)
    stream = Stream(kavka_broker.bootstrap, topic, maxOffsetsPerTrigger="30")
    assert stream.drain() == [30, 30, 30, 10]
    produce(kavka_broker.bootstrap, topic, 10, partitions=2)
    stream.restart()
    assert stream.drain() == [10]
    assert len(set(stream.rows)) == len(stream.rows) == 110


def test_a_first_micro_batch_that_is_run_again_begins_where_it_did(kavka_broker: KavkaProcess, topic: str) -> None:
    """A driver dies in its first micro-batch: Spark has its end, asks anew where the stream begins, and "latest" is
    behind the end by then."""
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 10, partitions=2)
    stream = Stream(kavka_broker.bootstrap, topic, startingOffsets="latest")
    produce(kavka_broker.bootstrap, topic, 20, partitions=2)
    began = stream.at
    assert stream.micro_batch() == 20
    first = sorted(stream.rows)
    end = stream.at

    produce(kavka_broker.bootstrap, topic, 6, partitions=2)
    stream.restart()
    again = stream._text(stream.reader.initialOffset())
    assert again != began
    planned = stream.reader.partitions(json.loads(again), json.loads(end))
    assert sorted(rows(stream.reader, planned)) == first
    assert stream.drain() == [6]
    assert len(set(stream.rows)) == len(stream.rows) == 26


@pytest.mark.parametrize(("cores", "shared"), [("1", [[0, 3], [1, 2]]), ("4", [[0], [1], [2], [3]])])
def test_large_records_of_few_offsets_share_a_task_up_to_a_limit_of_bytes(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch, cores: str, shared: list[list[int]]
) -> None:
    monkeypatch.setenv("KAVKA_SPARK_CORES", cores)
    create_topic(kavka_broker.bootstrap, topic, 4)
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap, "message.max.bytes": 3_000_000})
    for number in range(8):
        producer.produce(topic, bytes(900_000) if number % 4 else bytes(10), partition=number % 4)
    producer.flush()
    reader = KavkaReader(options(kavka_broker.bootstrap, topic), ("partition", "offset", "value"))
    tasks = reader.partitions()
    assert [[span.partition for span in task.spans] for task in tasks] == shared
    assert len(rows(reader, tasks)) == 8


OF_A_FILE_SOURCE = {"logOffset": 0}
OF_A_TABLES_STREAM = {"table": "3f0c", "version": 7}


@pytest.mark.parametrize("start", [OF_A_FILE_SOURCE, OF_A_TABLES_STREAM, 5, {"orders": {"first": 1}}, [1]])
def test_a_checkpoint_of_another_source_is_refused_with_the_way_out(
    kavka_broker: KavkaProcess, topic: str, start: Any
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    reader = Stream(kavka_broker.bootstrap, topic).reader
    with pytest.raises(
        SubscriptionError, match=r"not offsets of topics.*give this query a checkpointLocation of its own"
    ):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    with pytest.raises(SubscriptionError, match="not offsets of topics"):
        reader.partitions(start, start)


def test_a_checkpoint_of_a_query_over_other_topics_is_refused(kavka_broker: KavkaProcess, topic: str) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create_topic(kavka_broker.bootstrap, name, 1)
        produce(kavka_broker.bootstrap, name, 10, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic)
    assert stream.drain() == [10]
    moved = Stream(kavka_broker.bootstrap, other)
    moved.at = stream.at
    with pytest.raises(SubscriptionError, match=f"read {topic}, and this one reads none of it: give this query a"):
        moved.micro_batch()
    both = Stream(kavka_broker.bootstrap, f"{topic},{other}")
    both.at = stream.at
    assert both.drain() == [10]
    anyway = Stream(kavka_broker.bootstrap, other, failOnDataLoss="false")
    anyway.at = stream.at
    assert anyway.drain() == [10]


def test_a_limit_of_bytes_holds_about(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 1_000, partitions=2, size=1_000)
    sizes = Stream(kavka_broker.bootstrap, topic, maxBytesPerTrigger="200000").drain()
    assert sum(sizes) == 1_000
    assert all(150 <= size <= 250 for size in sizes[:-1])


def test_too_little_is_put_off_but_not_for_ever(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    stream = Stream(kavka_broker.bootstrap, topic, minOffsetsPerTrigger="50", maxTriggerDelay="6s")
    stream.micro_batch()
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    began = time.monotonic()
    assert stream.micro_batch() == 0
    while not stream.micro_batch():
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    assert len(stream.rows) == 20
    produce(kavka_broker.bootstrap, topic, 60, partitions=1)
    assert stream.micro_batch() == 60


def test_the_first_micro_batch_waits_for_nothing(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic, minOffsetsPerTrigger="50")
    assert stream.micro_batch() == 20
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    assert stream.micro_batch() == 0


@pytest.mark.parametrize("more_ids", [{}, {"read-before": "4f2e7430-32ba-4166-a8a9-8b144f0446c6"}])
def test_an_end_before_the_streams_position_is_asked_for_again(
    kavka_broker: KavkaProcess, topic: str, more_ids: dict[str, str]
) -> None:
    """A stale answer of a leader that was just elected is no lost record; a log that stays short is. `more_ids` are of
    topics that the stream no longer reads, or that were deleted."""
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    retried = {"fetchOffset.numRetries": "50", "fetchOffset.retryIntervalMs": "100"}
    stream = Stream(kavka_broker.bootstrap, topic, **retried)
    stream.drain()
    ahead = json.loads(stream.at)
    ahead[topic]["0"] = 30
    ahead["topic ids"] |= more_ids
    stream.at = json.dumps(ahead)
    catching_up = threading.Timer(0.5, produce, (kavka_broker.bootstrap, topic, 25), {"partitions": 1})
    catching_up.start()
    assert stream.micro_batch() == 5
    catching_up.join()
    ahead[topic]["0"] = 99
    few = Stream(kavka_broker.bootstrap, topic, **{**retried, "fetchOffset.numRetries": "2"})
    few.at = json.dumps(ahead)
    with pytest.raises(DataLossError, match="the log ends before it"):
        few.micro_batch()


@pytest.mark.parametrize("available_now", [False, True])
def test_behind_a_log_that_was_cut_off_nothing_new_is_passed_over(
    kavka_broker: KavkaProcess, topic: str, available_now: bool
) -> None:
    """Records at offsets that the stream had read before an unclean election are new ones."""
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    tolerant = {"failOnDataLoss": "false", "fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "10"}
    stream = Stream(kavka_broker.bootstrap, topic, **tolerant)
    stream.drain()
    ahead = json.loads(stream.at)
    ahead[topic]["0"] = 30
    stream.at = json.dumps(ahead)
    for _ in range(2):
        if available_now:
            stream.restart()
            stream.reader.prepareForTriggerAvailableNow()
        stream.drain()
        produce(kavka_broker.bootstrap, topic, 5, partitions=1)
    stream.restart()
    stream.drain()
    assert [offset for _, offset, _ in stream.rows] == list(range(20))


def test_partitions_that_come_during_a_stream_are_read_from_their_beginning(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic)
    stream.drain()
    add_partitions(kavka_broker.bootstrap, topic, 3)
    produce(kavka_broker.bootstrap, topic, 30, partitions=3)
    assert stream.drain() == [30]
    assert {partition for partition, _, _ in stream.rows} == {0, 1, 2}


def test_available_now_ends_at_what_was_there_when_it_began(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic, maxOffsetsPerTrigger="40")
    stream.reader.prepareForTriggerAvailableNow()
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    add_partitions(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 20, partitions=2)
    assert stream.drain() == [40, 40, 20]
    stream.restart()
    stream.reader.prepareForTriggerAvailableNow()
    assert sum(stream.drain()) == 120
    assert len(set(stream.rows)) == len(stream.rows) == 220


def test_available_now_waits_for_a_topic_that_a_broker_has_not_heard_of(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 10, partitions=1)

    async def find(cluster: Any, topics: Any, *, patient: bool = True) -> offsets.Found:
        return await find_partitions(cluster, topics) if patient else offsets.Found([], {}, [topic])

    stream = Stream(kavka_broker.bootstrap, topic)
    with monkeypatch.context() as patched:
        patched.setattr(stream_source, "find_partitions", find)
        stream.reader.prepareForTriggerAvailableNow()
    assert stream.drain() == [10]


def test_finished_micro_batches_are_committed_to_the_group(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 50, partitions=1)
    group = f"group-of-{topic}"
    stream = Stream(kavka_broker.bootstrap, topic, maxOffsetsPerTrigger="20", **{"kavka.group.id": group})

    def committed() -> int:
        from kavka.client.group_admin import GroupAdmin

        opened = connection(stream.options.connection)
        found = opened.run(GroupAdmin(opened.cluster).offsets(group))
        return found[TopicPartition(topic, 0)].offset

    stream.micro_batch()
    assert committed() == 0
    stream.micro_batch()
    assert committed() == 20
    stream.drain()
    assert committed() == 50
    assert stream.reader.reportLatestOffset() == {topic: {"0": 50}}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_topic_made_anew_is_told_from_lost_records(kavka_broker: KavkaProcess, topic: str, restarted: bool) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic)
    tolerant = Stream(kavka_broker.bootstrap, topic, failOnDataLoss="false")
    stream.drain(), tolerant.drain()
    remake(kavka_broker.bootstrap, topic)
    produce(kavka_broker.bootstrap, topic, 50, partitions=1)
    if restarted:
        stream.restart(), tolerant.restart()
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 20 is wanted.*deleted and made anew"):
        stream.micro_batch()
    assert tolerant.drain() == [50]


def test_a_topic_made_anew_with_fewer_partitions_is_read_and_so_are_those_that_come_later(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 3)
    produce(kavka_broker.bootstrap, topic, 60, partitions=3)
    stream = Stream(kavka_broker.bootstrap, topic, failOnDataLoss="false", **{"kafkaConsumer.pollTimeoutMs": "5000"})
    assert stream.drain() == [60]
    remake(kavka_broker.bootstrap, topic)
    produce(kavka_broker.bootstrap, topic, 5, partitions=1)
    assert stream.drain() == [5]
    assert [*Offsets.from_json(json.loads(stream.at)).positions] == [TopicPartition(topic, 0)]
    add_partitions(kavka_broker.bootstrap, topic, 3)
    produce(kavka_broker.bootstrap, topic, 30, partitions=3)
    assert stream.drain() == [30]


@pytest.mark.parametrize("tolerant", [False, True])
def test_brokers_that_know_topics_by_name_only_give_no_row_of_a_topic_made_anew(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch, tolerant: bool
) -> None:
    """Those of Kafka 2.8 to 3.0: their metadata has ids, and a fetch has not. What is read of the new topic at the old
    one's offsets comes again when it is read from its beginning."""
    monkeypatch.setattr("kavka_spark.reader.HIGHEST_FETCH", HIGHEST_BY_NAME)
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic, **({"failOnDataLoss": "false"} if tolerant else {}))
    stream.drain()
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    start = json.loads(stream.at)
    end = json.loads(json.dumps(stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())))
    remake(kavka_broker.bootstrap, topic)
    produce(kavka_broker.bootstrap, topic, 50, partitions=1)
    tasks = stream.reader.partitions(start, end)
    if tolerant:
        assert rows(stream.reader, tasks) == []
        stream.at = json.dumps(end)
        assert stream.drain() == [50]
    else:
        with pytest.raises(DataLossError, match=f"{topic}-0: offset 20 .*made anew"):
            rows(stream.reader, tasks)


def test_a_topic_made_anew_ends_where_it_ends_whatever_a_broker_said_of_the_former_one(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends are asked for beside the topics: a slow answer about these may be of another topic."""
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic, failOnDataLoss="false", **{"kafkaConsumer.pollTimeoutMs": "5000"})
    stream.drain()

    async def find(cluster: Any, topics: Any, *, patient: bool = True) -> offsets.Found:
        await asyncio.sleep(0.5)  # The ends are known by now.
        await asyncio.to_thread(remake, kavka_broker.bootstrap, topic)
        await asyncio.to_thread(produce, kavka_broker.bootstrap, topic, 30, partitions=1)
        return await find_partitions(cluster, topics, patient=patient)

    with monkeypatch.context() as patched:
        patched.setattr(stream_source, "find_partitions", find)
        assert stream.micro_batch() == 30
    produce(kavka_broker.bootstrap, topic, 5, partitions=1)
    assert stream.drain() == [5]


def test_partitions_that_a_broker_has_not_heard_of_are_not_lost(
    kavka_broker: KavkaProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(kavka_broker.bootstrap, topic, 3)
    produce(kavka_broker.bootstrap, topic, 30, partitions=3)
    stream = Stream(kavka_broker.bootstrap, topic)
    stream.drain()
    produce(kavka_broker.bootstrap, topic, 30, partitions=3)
    asked = count()

    async def find(cluster: Any, topics: Any, *, patient: bool = True) -> offsets.Found:
        found = await find_partitions(cluster, topics, patient=patient)
        return found if next(asked) > 3 else found._replace(partitions=found.partitions[:1])

    monkeypatch.setattr(stream_source, "find_partitions", find)
    assert stream.drain() == [30]


def test_a_topic_that_is_deleted_is_told_soon(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    stream = Stream(kavka_broker.bootstrap, topic)
    tolerant = Stream(kavka_broker.bootstrap, topic, failOnDataLoss="false")
    stream.drain(), tolerant.drain()
    delete_topic(kavka_broker.bootstrap, topic)
    began = time.monotonic()
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 20 is wanted, but there is no such log.*was deleted"):
        stream.micro_batch()
    assert tolerant.drain() == []
    assert time.monotonic() - began < 30
    make_topic(kavka_broker.bootstrap, topic)
    produce(kavka_broker.bootstrap, topic, 5, partitions=1)
    assert tolerant.drain() == [5]


def test_a_corrupt_batch_is_named(start_kavka: Callable[..., KavkaProcess], tmp_path: Path, topic: str) -> None:
    broker = start_kavka(data_dir=tmp_path / "data")
    create_topic(broker.bootstrap, topic, 1)
    for rows_of_batch in (10, 10, 1):  # A single record is one batch, however busy the machine is.
        produce(broker.bootstrap, topic, rows_of_batch, partitions=1)
    (segment,) = (tmp_path / "data").rglob(f"{topic}-0/*.log")
    with segment.open("r+b") as file:
        file.seek(-5, 2)
        file.write(b"\xff")
    with pytest.raises(CorruptBatchError, match=f"{topic}-0 at offset 20"):
        batch(broker.bootstrap, topic)


def test_what_ages_out_between_micro_batches_is_told(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    stream = Stream(kavka_broker.bootstrap, topic)
    tolerant = Stream(kavka_broker.bootstrap, topic, failOnDataLoss="false", maxOffsetsPerTrigger="10")
    produce(kavka_broker.bootstrap, topic, 100, partitions=1)
    delete_records(kavka_broker.bootstrap, topic, 90)
    with pytest.raises(DataLossError, match=f"{topic}-0: offset 0 is wanted, but the log holds 90 to before 100"):
        stream.micro_batch()
    assert tolerant.drain() == [10]


def test_a_checkpoint_of_sparks_own_source_is_gone_on_with(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 2)
    produce(kavka_broker.bootstrap, topic, 100, partitions=2)
    stream = Stream(kavka_broker.bootstrap, topic, **{"kavka.offsets.topic.ids": "false"})
    stream.at = f'{{"{topic}":{{"1":40,"0":45}}}}'
    assert stream.drain() == [15]
    assert json.loads(stream.at) == {topic: {"0": 50, "1": 50}}


def test_a_stream_outlives_brokers_that_die_between_and_during_micro_batches(three: Cluster, topic: str) -> None:
    three.create_topic(topic, 3, 3)
    stream = Stream(three.bootstrap_servers, topic, maxOffsetsPerTrigger="500")
    written = threading.Thread(target=produce, args=(three.bootstrap_servers, topic, 6_000), kwargs={"partitions": 3})
    written.start()
    deadline = time.monotonic() + 180
    victims = iter((1, 2))
    while len(stream.rows) < 6_000 and time.monotonic() < deadline:
        stream.micro_batch()
        if len(stream.rows) > 1_000 and (victim := next(victims, None)) is not None:
            three.restore()
            three.kill(victim)
    written.join()
    stream.drain()
    three.restore()
    assert next(victims, None) is None
    assert len({value for _, _, value in stream.rows}) == 6_000
    assert len({row[:2] for row in stream.rows}) == len(stream.rows)


def _began_late(bootstrap: str, topic: str, **options: str) -> Stream:
    """A stream over two partitions that began at 50 of 0 to 99 in each, and has read the rest."""
    create_topic(bootstrap, topic, 2)
    produce(bootstrap, topic, 200, partitions=2)
    stream = Stream(bootstrap, topic, startingOffsets=json.dumps({topic: {"0": 50, "1": 50}}), **options)
    assert sum(stream.drain()) == 100
    return stream


def _started_again(stream: Stream, bootstrap: str, topic: str, **options: str) -> Stream:
    """The same stream with other options."""
    more = Stream(bootstrap, topic, **options)
    more.at, more.rows = stream.at, stream.rows
    return more


def _from(topic: str, *offsets: tuple[int, int]) -> dict[str, str]:
    """Options that fill in from and to before these offsets, by partition."""
    sides = zip(("from", "to"), zip(*offsets, strict=True), strict=True)
    return {
        f"kavka.backfill.{side}": json.dumps({topic: {str(p): at for p, at in enumerate(numbers)}})
        for side, numbers in sides
    }


def test_a_backfill_adds_what_was_before_the_streams_beginning_once_through_restarts(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    where = (kavka_broker.bootstrap, topic)
    stream = _started_again(_began_late(*where), *where, maxOffsetsPerTrigger="30", **_from(topic, (10, 50)))
    assert stream.micro_batch() == 30
    produce(kavka_broker.bootstrap, topic, 10, partitions=2)
    stream = _started_again(stream, *where)
    assert sum(stream.drain()) == 20, "what is left of it is in the checkpoint, and needs no option"
    stream = _started_again(stream, *where, maxOffsetsPerTrigger="7", **_from(topic, (0, 10), (0, 50)))
    assert set(stream.drain()[:-1]) <= {6, 7}
    assert len(stream.rows) == len(set(stream.rows)) == 210
    assert {(partition, offset) for partition, offset, _ in stream.rows} == {
        (p, offset) for p in range(2) for offset in range(105)
    }
    again = _started_again(stream, *where, **_from(topic, (0, 50), (20, 40)))
    assert again.drain() == [], "what was filled in is not filled in again"


def test_a_micro_batch_of_a_backfill_has_the_same_tasks_in_another_process(
    kavka_broker: KavkaProcess, topic: str
) -> None:
    where = (kavka_broker.bootstrap, topic)
    stream = _started_again(_began_late(*where), *where, **{"kavka.backfill.from": "earliest"})
    start = json.loads(stream.at)
    end = json.loads(json.dumps(stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())))
    stream.restart()
    assert len(rows(stream.reader, stream.reader.partitions(start, end))) == 100


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(0, 60)], r"from 0 to before 60 would write rows twice: the stream itself began at 50"),
        ([(70, 80)], r"would write rows twice: the stream itself began at 50"),
        ([(5, 20)], r"from 5 to before 20 would write rows twice: 10 to before 30 was filled in"),
        ([(9, 8)], r"ends at 8, before it begins at 9"),
        ([(0, 5), (0, 5), (0, 5)], r"names .*-2, which the stream does not read"),
    ],
)
def test_a_backfill_that_would_write_rows_twice_is_refused(
    kavka_broker: KavkaProcess, topic: str, ranges: list[tuple[int, int]], said: str
) -> None:
    where = (kavka_broker.bootstrap, topic)
    stream = _started_again(_began_late(*where), *where, **_from(topic, (10, 30)))
    assert sum(stream.drain()) == 20
    with pytest.raises(KavkaError, match=said):
        _started_again(stream, *where, **_from(topic, *ranges)).drain()


def test_a_backfill_by_time_ends_where_the_stream_began(kavka_broker: KavkaProcess, topic: str) -> None:
    create_topic(kavka_broker.bootstrap, topic, 1)
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    time.sleep(0.05)
    middle_ms = time.time_ns() // 1_000_000
    produce(kavka_broker.bootstrap, topic, 20, partitions=1)
    where = (kavka_broker.bootstrap, topic)
    stream = Stream(*where, startingOffsets="latest")
    produce(kavka_broker.bootstrap, topic, 5, partitions=1)
    assert stream.drain() == [5]
    stream = _started_again(stream, *where, **{"kavka.backfill.from": str(middle_ms)})
    assert stream.drain() == [20]
    stream = _started_again(stream, *where, **{"kavka.backfill.from": "0", "kavka.backfill.to": str(middle_ms)})
    assert stream.drain() == [20]
    assert len(set(stream.rows)) == len(stream.rows) == 45


def test_a_checkpoint_that_does_not_say_where_it_began_is_not_filled_in(kavka_broker: KavkaProcess, topic: str) -> None:
    where = (kavka_broker.bootstrap, topic)
    stream = _began_late(*where)
    stream.at = json.dumps({topic: json.loads(stream.at)[topic]})
    with pytest.raises(ConfigError, match="does not say where the stream began"):
        _started_again(stream, *where, **{"kavka.backfill.from": "earliest"}).drain()


def test_a_backfill_of_what_retention_has_removed_is_told(kavka_broker: KavkaProcess, topic: str) -> None:
    where = (kavka_broker.bootstrap, topic)
    stream = _began_late(*where)
    delete_records(kavka_broker.bootstrap, topic, 20)
    with pytest.raises(DataLossError, match="-0: offset 5 is wanted, but the log holds 20"):
        _started_again(stream, *where, **_from(topic, (5, 50))).drain()
    stream = _started_again(stream, *where, failOnDataLoss="false", **_from(topic, (5, 50)))
    assert stream.drain() == [30]
