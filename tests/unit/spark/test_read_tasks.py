"""Ranges into tasks, limits of a micro-batch, offsets as JSON, filters as bounds: decisions without a cluster."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from kavka.model import TopicPartition
from kavka_spark.errors import DataLossError
from kavka_spark.filter_bounds import Bounds
from kavka_spark.lag import KEPT_QUERIES, Lag, LagListener
from kavka_spark.offsets import Offsets
from kavka_spark.read_tasks import SHARED_BYTES, SHARED_OFFSETS, OffsetRange, ReadTask, as_tasks, cut, may_share
from kavka_spark.source_options import source_options
from kavka_spark.stream_source import KavkaStreamReader
from kavka_spark.trigger_limits import Sample, limit_bytes, limit_rows

SIZES = st.lists(st.integers(min_value=0, max_value=1_000_000), min_size=1, max_size=8)


def names(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


def test_a_partition_is_one_task_and_an_empty_one_is_none() -> None:
    spans = [OffsetRange("t", 0, 5, 10), OffsetRange("t", 1, 7, 7), OffsetRange("t", 2, 9, 3)]
    assert cut(spans) == spans[:1]


@pytest.mark.parametrize(
    ("sizes", "min_partitions", "max_records", "tasks"),
    [
        ((100, 100), 5, None, [33, 33, 34, 33, 33, 34]),
        ((1, 1, 1, 1_000), 8, None, [1, 1, 1, 200, 200, 200, 200, 200]),
        ((100, 100, 100), 7, None, [50] * 6),
        ((100, 100), 2, None, [100, 100]),
        ((100, 40), 6, 50, [25, 25, 25, 25, 20, 20]),
    ],
)
def test_tasks_are_as_many_as_sparks_own_source_makes(
    sizes: tuple[int, ...], min_partitions: int, max_records: int | None, tasks: list[int]
) -> None:
    """By KafkaOffsetRangeCalculator: half a task counts as one; what stays whole takes no part in the proportion."""
    spans = [OffsetRange("t", number, 7, 7 + size) for number, size in enumerate(sizes)]
    assert [span.size for span in cut(spans, min_partitions=min_partitions, max_records=max_records)] == tasks


def test_nothing_to_read_is_one_task_that_reads_nothing() -> None:
    assert [task.spans for task in as_tasks([], cores=2)] == [()]
    spans = (OffsetRange("t", 0, 1, 2),)
    assert pickle.loads(pickle.dumps(ReadTask(spans))).spans == spans


def partitions_of(tasks: list[ReadTask]) -> list[list[int]]:
    return [[span.partition for span in task.spans] for task in tasks]


def test_small_ranges_share_a_task_where_there_would_be_more_tasks_than_cores() -> None:
    spans = [OffsetRange("t", number, 0, 100) for number in range(8)]
    assert partitions_of(as_tasks(spans, cores=16)) == [[number] for number in range(8)]
    assert partitions_of(as_tasks(spans, cores=8)) == [[number] for number in range(8)]
    assert [len(task.spans) for task in as_tasks(spans, cores=4)] == [2, 2, 2, 2]
    assert [len(task.spans) for task in as_tasks(spans, cores=1)] == [8]
    assert len(as_tasks(spans, cores=1, min_partitions=2)) == len(spans)
    assert all(sum(span.size for span in task.spans) <= 250 for task in as_tasks(spans, cores=1, max_records=250))


def test_large_ranges_take_their_cores_and_small_ones_share_the_rest() -> None:
    sizes = (SHARED_OFFSETS + 1, 10, 10, 1_000_000, 10, 10)
    spans = [OffsetRange("t", number, 7, 7 + size) for number, size in enumerate(sizes)]
    assert sorted(map(len, partitions_of(as_tasks(spans, cores=4)))) == [1, 1, 2, 2]
    assert partitions_of(as_tasks(spans, cores=2)) == [[0], [1, 2, 4, 5], [3]]


def test_ranges_share_a_task_up_to_a_limit_of_offsets_whatever_the_cores() -> None:
    spans = [OffsetRange("t", number, 0, SHARED_OFFSETS // 2) for number in range(8)]
    assert [len(task.spans) for task in as_tasks(spans, cores=1)] == [2, 2, 2, 2]


def test_few_offsets_that_are_large_records_share_no_task() -> None:
    spans = [OffsetRange("t", number, 0, 2) for number in range(8)]
    assert len(as_tasks(spans, cores=1)) == 1
    large = {("t", number): 5_000_000.0 for number in range(8)}
    assert [task.spans for task in as_tasks(spans, cores=1, offset_bytes=large)] == [(span,) for span in spans]
    some = {("t", number): SHARED_BYTES / 4 for number in range(8)}
    assert [len(task.spans) for task in as_tasks(spans, cores=1, offset_bytes=some)] == [2, 2, 2, 2]


def test_tasks_that_are_shared_are_about_equal() -> None:
    spans = [OffsetRange("t", number, 0, 100) for number in range(6)]
    sizes = {("t", number): 10_000.0 if number < 2 else 1_000.0 for number in range(6)}
    assert partitions_of(as_tasks(spans, cores=3, offset_bytes=sizes)) == [[0], [1], [2, 3, 4, 5]]


@given(SIZES, st.integers(1, 10), st.one_of(st.none(), st.integers(100, 1_000_000)))
def test_no_core_is_idle_because_ranges_share_a_task(sizes: list[int], cores: int, max_records: int | None) -> None:
    spans = [OffsetRange("t", number, 3, 3 + size) for number, size in enumerate(sizes)]
    whole = cut(spans, max_records=max_records)
    tasks = as_tasks(spans, cores=cores, max_records=max_records)
    assert len(tasks) >= max(min(cores, len(whole)), 1)
    assert sorted(span for task in tasks for span in task.spans) == sorted(whole)


def test_only_small_ranges_that_are_too_many_for_the_cores_are_looked_into() -> None:
    assert may_share([OffsetRange("t", 0, 0, 2), OffsetRange("t", 1, 0, SHARED_OFFSETS + 1)], 1) == []
    small = [OffsetRange("t", number, 0, number) for number in range(3)]
    assert may_share(small, 1) == small[1:]
    assert may_share(small, 2) == []


def test_the_end_of_the_first_micro_batch_says_where_the_stream_began() -> None:
    first = Offsets({TopicPartition("t", 0): 5}, {"t": UUID(int=7)})
    end = Offsets({TopicPartition("t", 0): 9}, {"t": UUID(int=7)}, first)
    written = end.to_json()
    assert Offsets.from_json(json.loads(json.dumps(written))) == end
    assert json.dumps(Offsets.from_json(written).to_json()) == json.dumps(written)
    assert end.to_json(with_ids=False) == {"t": {"0": 9}}


@given(SIZES, st.one_of(st.none(), st.integers(1, 50)), st.one_of(st.none(), st.integers(100, 1_000_000)))
def test_tasks_are_disjoint_and_together_all_there_is(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    spans = [OffsetRange("t", number, 3, 3 + size) for number, size in enumerate(sizes)]
    tasks = cut(spans, min_partitions=min_partitions, max_records=max_records)
    assert all(task.size > 0 for task in tasks)
    assert max_records is None or all(task.size <= max_records for task in tasks)
    for span in spans:
        at = span.start
        for task in (task for task in tasks if task.partition == span.partition):
            assert task.start == at
            at = task.end
        assert at == span.end


def test_a_large_partition_gives_most_of_the_tasks() -> None:
    tasks = cut([OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)], min_partitions=10)
    assert [task.partition for task in tasks] == [0] * 9 + [1]


@given(SIZES, st.integers(1, 1_000_000))
def test_a_limit_of_rows_is_shared_out_and_always_lets_something_through(sizes: list[int], limit: int) -> None:
    starts = dict.fromkeys(names(len(sizes)), 10)
    ends = {name: 10 + size for name, size in zip(starts, sizes, strict=True)}
    limited = limit_rows(starts, ends, limit)
    assert all(starts[name] <= limited[name] <= ends[name] for name in ends)
    taken = sum(limited[name] - starts[name] for name in ends)
    assert taken <= limit + len(sizes)
    assert taken > 0 or sum(sizes) == 0


def test_a_limit_of_bytes_takes_the_samples_word_for_the_rest() -> None:
    first, second, unasked = names(3)
    starts = {first: 0, second: 100, unasked: 0}
    ends = {first: 1000, second: 1100, unasked: 5}
    samples = {first: Sample(1000, 10), second: Sample(3000, 10)}
    limited = limit_bytes(starts, ends, samples, 40_000)
    assert limited == {first: 100, second: 200, unasked: 5}
    assert limit_bytes(starts, ends, samples, 400_000) == ends
    assert limit_bytes(starts, ends, samples, 1) == {first: 1, second: 101, unasked: 5}


def test_offsets_are_written_in_order_as_sparks_own_source_writes_them_and_ids_beside() -> None:
    positions = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    ids = {"b": UUID(int=2), "a": UUID(int=1)}
    offsets = Offsets(positions, ids)
    assert json.dumps(offsets.to_json(with_ids=False)) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'
    written = json.dumps(offsets.to_json())
    assert written.index("topic ids") > written.index('"b"')
    assert Offsets.from_json(json.loads(written)) == offsets
    assert Offsets.from_json({"a": {"0": 3}}) == Offsets({TopicPartition("a", 0): 3}, {})


PARTITION, OFFSET, TIME = ("partition",), ("offset",), ("timestamp",)


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(PARTITION, 2),
        In(PARTITION, (1, 2)),
        GreaterThan(PARTITION, 1),
        LessThanOrEqual(PARTITION, 2),
        GreaterThanOrEqual(OFFSET, 10),
        LessThan(OFFSET, 20),
        IsNotNull(OFFSET),
    ],
)
def test_a_filter_on_partition_or_offset_is_taken_over(condition: Filter) -> None:
    bounds = Bounds()
    assert bounds.take(condition)
    assert bounds.has(2)
    assert bounds.first_offset <= 10
    assert bounds.end_offset >= 20


@pytest.mark.parametrize(
    "condition",
    [
        Not(EqualTo(PARTITION, 2)),
        In(OFFSET, (1, 2)),
        EqualTo(("key",), b"k"),
        StringStartsWith(("topic",), "a"),
        EqualTo(("headers", "partition"), 1),
    ],
)
def test_a_filter_that_is_no_range_is_left_to_spark(condition: Filter) -> None:
    bounds = Bounds()
    assert not bounds.take(condition)
    assert bounds.has(99)
    assert bounds.first_offset == 0


def test_filters_narrow_each_other() -> None:
    bounds = Bounds()
    for condition in (In(PARTITION, (1, 2, 3)), LessThan(PARTITION, 3), GreaterThan(OFFSET, 4), EqualTo(OFFSET, 9)):
        assert bounds.take(condition)
    assert [number for number in range(5) if bounds.has(number)] == [1, 2]
    assert (bounds.first_offset, bounds.end_offset) == (9, 10)


def test_a_time_moves_the_start_and_stays_sparks_to_apply() -> None:
    bounds = Bounds()
    since = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    assert not bounds.take(GreaterThanOrEqual(TIME, since))
    assert bounds.first_timestamp_ms == int(since.timestamp()) * 1000 + 678
    assert not bounds.take(LessThan(TIME, datetime(2027, 1, 1, tzinfo=UTC)))
    assert bounds.first_timestamp_ms == int(since.timestamp()) * 1000 + 678


def test_the_tasks_of_a_micro_batch_are_the_same_in_another_process() -> None:
    options = source_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "minpartitions": "5"}, streaming=True
    )
    before = Offsets({TopicPartition("t", 0): 10}, {"t": UUID(int=1)}).to_json()
    grown = Offsets({TopicPartition("t", 0): 40, TopicPartition("t", 1): 7}, {"t": UUID(int=1)}).to_json()
    anew = Offsets({TopicPartition("t", 0): 5}, {"t": UUID(int=2)}).to_json()

    def spans(start: dict[str, dict[str, object]], end: dict[str, dict[str, object]]) -> list[tuple[int, int, int]]:
        reader = pickle.loads(pickle.dumps(KavkaStreamReader(options, ("value",))))
        return [tuple(span[1:4]) for task in reader.partitions(start, end) for span in task.spans]

    assert spans(before, grown) == spans(before, grown)
    assert spans(before, grown) == [(0, 10, 17), (0, 17, 25), (0, 25, 32), (0, 32, 40), (1, 0, 7)]
    assert spans(before, anew) == [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]


def progress(name: str, end: str, latest: str) -> StreamingQueryProgress:
    """As Spark hands it to listeners."""
    source = {
        "description": "kavka",
        "startOffset": "{}",
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "metrics": {},
    }
    return StreamingQueryProgress.fromJson(
        {
            "id": str(UUID(int=1)),
            "runId": str(UUID(int=2)),
            "name": name,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "batchId": 7,
            "batchDuration": 1,
            "durationMs": {},
            "eventTime": {},
            "stateOperators": [],
            "sources": [source],
            "sink": {"description": "noop", "numOutputRows": 0, "metrics": {}},
            "numInputRows": 0,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 0.0,
            "observedMetrics": {},
        }
    )


def test_lag_is_what_lies_between_the_end_of_a_micro_batch_and_the_end_of_the_log() -> None:
    heard: list[Lag] = []
    listener = LagListener(heard.append)
    read = json.dumps(Offsets({TopicPartition("t", 0): 40}, {"t": UUID(int=1)}).to_json())
    listener.onQueryProgress(QueryProgressEvent(progress("orders", read, '{"t": {"0": 100, "1": 10}}')))
    (lag,) = heard
    assert (lag.query, lag.batch_id, lag.total) == ("orders", 7, 70)
    assert lag.behind == {TopicPartition("t", 0): 60, TopicPartition("t", 1): 10}
    assert lag.metrics == {
        "avgOffsetsBehindLatest": 35.0,
        "maxOffsetsBehindLatest": 60,
        "minOffsetsBehindLatest": 10,
    }


@pytest.mark.parametrize(("end", "latest"), [("7", "9"), ("null", "null"), ('{"a": 1}', '{"a": 2}'), ("", "")])
def test_a_source_that_is_no_topic_has_no_lag(end: str, latest: str) -> None:
    heard: list[Lag] = []
    LagListener(heard.append).onQueryProgress(QueryProgressEvent(progress("rate", end, latest)))
    assert heard == []


def test_queries_that_were_silent_longest_are_forgotten() -> None:
    listener = LagListener()
    for number in range(KEPT_QUERIES + 1):
        listener.onQueryProgress(QueryProgressEvent(progress(f"q{number}", '{"t": {"0": 1}}', '{"t": {"0": 1}}')))
    assert len(listener.latest) == KEPT_QUERIES
    assert "q0" not in listener.latest


def test_a_loss_says_what_is_wanted_what_is_there_and_what_to_do() -> None:
    lost = DataLossError("orders", 3, 17, 40, 90, "retention removed it")
    text = str(lost)
    for part in ("orders-3", "offset 17", "40 to before 90", "retention removed it", "failOnDataLoss=false"):
        assert part in text
    assert str(pickle.loads(pickle.dumps(lost))) == text
