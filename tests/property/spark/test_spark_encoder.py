"""Columns to batches: the bytes that the plain encoder gives, and the partitions that the client gives."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.client.partitioner import partition_for_key
from kavka.records.batch import iterate_batches
from kavka.records.compression import Compression
from kavka.records.record import encode_record
from kavka_spark.encoder import FEW_ROWS, RecordColumns, encode, lengths_of, starts_of
from kavka_spark.key_partitions import LONGEST_KEY, partitions_for_keys

HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
contents = st.none() | st.binary(max_size=200) | st.sampled_from([b"", b"x" * 63, b"y" * 64, b"z" * 9000])
names = st.text(max_size=10)
headers = st.none() | st.lists(st.tuples(names, st.none() | st.binary(max_size=70)), max_size=3)
rows = st.lists(
    st.tuples(
        contents, contents, headers, st.integers(min_value=-1, max_value=1 << 45), st.integers(min_value=0, max_value=3)
    ),
    min_size=1,
    max_size=60,
)


def columns_of(found: list, *, with_keys: bool, with_headers: bool) -> RecordColumns:
    """The rows as columns, which are slices of longer ones, as Arrow's often are."""
    padded = [found[0], *found]
    pairs = [
        None if listed is None else [{"key": name.encode(), "value": content} for name, content in listed]
        for _, _, listed, _, _ in padded
    ]
    return RecordColumns(
        pa.array([row[0] for row in padded], pa.binary()).slice(1) if with_keys else None,
        pa.array([row[1] for row in padded], pa.binary()).slice(1),
        pa.array(pairs, HEADERS).slice(1) if with_headers else None,
        np.array([row[3] for row in found], np.int64),
    )


@settings(max_examples=150)
@given(
    rows,
    st.booleans(),
    st.booleans(),
    st.sampled_from([200, 20_000, 1_000_000]),
    st.sampled_from(list(Compression)),
    st.sampled_from([0, FEW_ROWS]),
)
def test_batches_hold_the_rows_as_the_plain_encoder_lays_them(
    found: list, with_keys: bool, with_headers: bool, batch_bytes: int, compression: Compression, few_rows: int
) -> None:
    partitions = np.array([row[4] for row in found], np.int32)
    columns = columns_of(found, with_keys=with_keys, with_headers=with_headers)
    expected: dict[int, list] = {}
    for key, value, listed, timestamp, partition in found:
        expected.setdefault(partition, []).append(
            (timestamp, key if with_keys else None, value, tuple(listed or ()) if with_headers else ())
        )
    read: dict[int, list] = {}
    for partition, encoded, largest in encode(
        columns, partitions, batch_bytes=batch_bytes, compression=compression, few_rows=few_rows
    ):
        (batch,) = iterate_batches(memoryview(encoded.build()))
        assert batch.crc_is_right()
        records = list(batch.records())
        base = records[0].timestamp
        plain = [
            encode_record(delta, record.timestamp - base, record.key, record.value, record.headers)
            for delta, record in enumerate(records)
        ]
        assert bytes(batch.inflate()) == b"".join(plain)
        assert largest == max(map(len, plain))
        assert encoded.payload_bytes == sum(map(len, plain))
        assert encoded.payload_bytes <= batch_bytes or len(records) == 1
        assert batch.header.max_timestamp == max(record.timestamp for record in records)
        read.setdefault(partition, []).extend((r.timestamp, r.key, r.value, r.headers) for r in records)
    assert read == expected


@given(rows, st.sampled_from([40, 200, 20_000]))
def test_few_rows_are_cut_into_the_batches_of_many(found: list, batch_bytes: int) -> None:
    partitions = np.array([row[4] for row in found], np.int32)
    columns = columns_of(found, with_keys=True, with_headers=False)

    def batches(few_rows: int) -> list[tuple[int, bytes, int]]:
        made = encode(columns, partitions, batch_bytes=batch_bytes, few_rows=few_rows)
        return [(partition, bytes(encoded.build()), largest) for partition, encoded, largest in made]

    assert batches(FEW_ROWS) == batches(0)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"k" * (LONGEST_KEY + 3), b"k" * LONGEST_KEY]), max_size=40),
    st.integers(min_value=1, max_value=1000),
)
def test_keys_go_where_every_client_sends_them(keys: list[bytes], partition_count: int) -> None:
    column = pa.array([b"ahead", *keys], pa.binary()).slice(1)
    data, starts = starts_of(column)
    found = partitions_for_keys(data, starts, lengths_of(column), partition_count)
    assert found.tolist() == [partition_for_key(key, partition_count) for key in keys]
