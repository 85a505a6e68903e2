"""Which partition a row goes to, and how many rows are laid out at once."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kavka.client.partitioner import partition_for_key
from kavka_spark.errors import SinkError
from kavka_spark.markers import Digest
from kavka_spark.row_encoder import CHUNK_BYTES, RowEncoder, TopicPartitions, chunks
from kavka_spark.sink_options import sink_options
from kavka_spark.sink_schema import SinkColumns

VALUE_ONLY = SinkColumns(value=0, key=-1, topic=-1, partition=-1, headers=-1, timestamp=-1)


PARTITIONS = TopicPartitions(4, (0, 1, 3))


def encoder(columns: SinkColumns, **options: str) -> RowEncoder:
    named = {name.replace("__", "."): text for name, text in options.items()}
    given = sink_options({"kafka.bootstrap.servers": "h:1", **named}, streaming=True)
    return RowEncoder(columns, given, lambda topic, named: PARTITIONS, now_ms=lambda: 77, random=Random(3))


def sent(found: RowEncoder, batch: pa.RecordBatch) -> list[tuple[str, int, int]]:
    """Topic, partition and number of records of each record batch."""
    return [(topic, encoded.partition, encoded.records.record_count) for topic, encoded in found.encode(batch)]


def values(count: int, size: int = 10) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"v" * size] * count)})


def test_rows_without_a_key_fill_one_partition_after_another_of_those_with_a_leader() -> None:
    found = encoder(VALUE_ONLY, topic="t", kafka__batch__size="420")
    counts: dict[int, int] = {}
    for topic, partition, count in sent(found, values(30)) + sent(found, values(30)):
        assert topic == "t"
        counts[partition] = counts.get(partition, 0) + count
    assert counts == {0: 20, 1: 20, 3: 20}


def test_a_partition_that_is_named_decides_before_the_key() -> None:
    columns = SinkColumns(value=1, key=0, topic=-1, partition=2, headers=-1, timestamp=-1)
    rows = pa.record_batch(
        {
            "key": pa.array([b"k", b"k", None]),
            "value": pa.array([b"", b"", b""]),
            "partition": pa.array([2, None, 2], pa.int32()),
        }
    )
    expected = sorted([("t", 2, 2), ("t", partition_for_key(b"k", 4), 1)])
    assert sorted(sent(encoder(columns, topic="t"), rows)) == expected


def test_each_row_goes_to_the_topic_that_it_names() -> None:
    columns = SinkColumns(value=0, key=-1, topic=1, partition=-1, headers=-1, timestamp=-1)
    rows = pa.record_batch({"value": pa.array([b"1", b"2", b"3"]), "topic": pa.array(["a", "b", "a"])})
    assert [(topic, count) for topic, _, count in sent(encoder(columns), rows)] == [("a", 2), ("b", 1)]


def test_a_header_without_a_name_is_refused() -> None:
    columns = SinkColumns(value=0, key=-1, topic=-1, partition=-1, headers=1, timestamp=-1)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch({"value": pa.array([b"v"]), "headers": pa.array([[{"key": None, "value": b"x"}]], kind)})
    with pytest.raises(SinkError, match="a header without a key"):
        sent(encoder(columns, topic="t"), rows)


def test_the_digest_is_the_same_in_whatever_order_and_pieces_the_rows_come() -> None:
    columns = SinkColumns(value=1, key=0, topic=-1, partition=-1, headers=-1, timestamp=-1)
    rows = [(b"a", b"11"), (None, b"2"), (b"b", None), (b"c", b"\xff" * 300)]

    def digest(order: list[int], pieces: int) -> Digest:
        found = encoder(columns, topic="t", exactlyOnce="true")
        for part in np.array_split(np.array(order), pieces):
            chosen = [rows[int(index)] for index in part]
            found.count_only(
                pa.record_batch(
                    {
                        "key": pa.array([key for key, _ in chosen], pa.binary()),
                        "value": pa.array([value for _, value in chosen], pa.binary()),
                    }
                )
            )
        return found.digest

    assert digest([0, 1, 2, 3], 1) == digest([3, 1, 0, 2], 3)
    assert digest([0, 1, 2, 3], 1) == Digest(4, 306, sum(b"abc112") + 300 * 255)


def test_rows_are_gathered_and_cut_to_what_is_laid_out_at_once() -> None:
    small = [values(100) for _ in range(50)]
    assert [chunk.num_rows for chunk in chunks(small)] == [5_000]
    large = list(chunks([values(40, 1 << 20), values(0), values(1, CHUNK_BYTES + 1), values(3)]))
    assert sum(chunk.num_rows for chunk in large) == 44
    assert all(chunk.nbytes <= CHUNK_BYTES or chunk.num_rows == 1 for chunk in large)
    assert len(large) <= 10
