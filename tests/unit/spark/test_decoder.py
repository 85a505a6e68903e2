"""What of a partition's bytes becomes rows, and what each column says."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import cramjam
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
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

from kavka.records import batch as batch_format
from kavka.records.batch import HEADER_SIZE, iterate_batches, read_header, set_timestamp_type
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.records.record import encode_record, encode_varint
from kavka_spark.columns import BATCH_TYPES, SOURCE_TYPES
from kavka_spark.decoder import TableLimits, Wanted, decode_batches, next_offset, schema
from kavka_spark.errors import CorruptBatchError
from kavka_spark.record_fields import MAX_RECORD_HEADERS, WALKED_TOGETHER


def batch_of(
    *values: bytes | None, base_offset: int = 0, stamp: ProducerStamp | None = None, codec: Compression | None = None
) -> bytes:
    builder = BatchBuilder(codec or Compression.NONE)
    for index, value in enumerate(values):
        builder.append(1000 + index, b"k%d" % index, value)
    return builder.build(stamp or ProducerStamp(), base_offset=base_offset)


def transactional(producer_id: int) -> ProducerStamp:
    return ProducerStamp(producer_id, 0, 0, is_transactional=True)


def marker(producer_id: int, base_offset: int, kind: ControlType) -> bytes:
    return build_marker(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=base_offset
    )


def resealed(data: bytes) -> bytes:
    """With the CRC that the bytes need."""
    return seal(read_header(data), data[HEADER_SIZE:])


def read(data: bytes, columns: tuple[str, ...] = ("offset", "value"), **options: Any) -> list[tuple[Any, ...]]:
    wanted = Wanted("orders", 2, options.pop("start", 0), options.pop("end", None))
    bounds = [name for name in ("max_rows", "max_bytes", "max_inflated_bytes") if name in options]
    limits = TableLimits(**{name: options.pop(name) for name in bounds})
    tables = decode_batches(data, columns, wanted, limits=limits, **options)
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def test_the_schema_is_the_one_that_spark_makes_of_the_same_columns() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    official = StructType(
        [
            StructField("key", BinaryType()),
            StructField("value", BinaryType()),
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("timestampType", IntegerType()),
            StructField("headers", ArrayType(header)),
        ]
    )
    assert schema(tuple(SOURCE_TYPES)) == to_arrow_schema(official, timezone="UTC")
    assert schema(["value"], include_headers=True).names == ["value", "headers"]


@pytest.mark.parametrize("columns", [("value", "value"), ("valu",)])
def test_a_column_that_is_unknown_or_named_twice_is_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected different columns out of key, value"):
        schema(columns)


def test_nulls_empty_values_and_tombstones_are_three_different_things() -> None:
    builder = BatchBuilder()
    builder.append(1, b"a", None)
    builder.append(2, None, b"")
    builder.append(3, b"", b"x")
    assert read(builder.build(), ("key", "value")) == [(b"a", None), (None, b""), (b"", b"x")]


def test_headers_are_null_without_any_and_keep_order_repeats_and_nulls() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"1", ())
    builder.append(2, None, b"2", (("h", b"x"), ("h", None), ("", b"")))
    builder.append(3, None, b"3", (("é", b"y"),))
    found = [row[0] for row in read(builder.build(), ("headers",))]
    assert found == [
        None,
        [{"key": "h", "value": b"x"}, {"key": "h", "value": None}, {"key": "", "value": b""}],
        [{"key": "é", "value": b"y"}],
    ]


@pytest.mark.parametrize("count", [WALKED_TOGETHER, WALKED_TOGETHER + 1, 3 * WALKED_TOGETHER])
def test_headers_are_the_same_whether_walked_together_or_one_by_one(count: int) -> None:
    builder, expected = BatchBuilder(), []
    for index in range(count):
        fields = tuple((f"h{number}", b"%d" % index) for number in range(index % 7))
        builder.append(index, None, b"v", fields)
        expected.append([{"key": name, "value": value} for name, value in fields] or None)
    assert [row[0] for row in read(builder.build(), ("headers",))] == expected


def test_a_header_key_that_is_not_utf_8_is_replaced_as_javas_clients_do() -> None:
    body = b"\x00\x00\x00\x01\x01" + encode_varint(1) + encode_varint(2) + b"\xff\x41" + encode_varint(1) + b"v"
    intact = batch_of(b"")
    data = intact[:HEADER_SIZE] + encode_varint(len(body)) + body
    assert read(resealed(data), ("headers",)) == [([{"key": "�A", "value": b"v"}],)]


def test_every_record_of_a_batch_with_log_append_time_has_its_time() -> None:
    data = bytearray(batch_of(b"a", b"b"))
    (batch,) = iterate_batches(memoryview(data))
    set_timestamp_type(batch, batch_format.TimestampType.LOG_APPEND_TIME, 5_000)
    rows = read(bytes(data) + batch_of(b"c", base_offset=2), ("timestamp", "timestampType"))
    assert [(stamp.timestamp(), kind) for stamp, kind in rows] == [(5.0, 1), (5.0, 1), (1.0, 0)]


def test_a_record_without_a_timestamp_is_a_millisecond_before_1970_as_in_sparks_own_source() -> None:
    builder = BatchBuilder()
    builder.append(-1, None, b"v")
    (table,) = decode_batches(builder.build(), ["timestamp"], Wanted("t", 0))
    assert table.column(0).cast(pa.int64()).to_pylist() == [-1000]


def test_a_timestamp_beyond_sparks_names_the_record_and_can_be_left_out() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"a")
    builder.append(2**62, None, b"b")
    with pytest.raises(CorruptBatchError, match="record 1 of the batch has the timestamp 4611686018427387904 ms"):
        read(builder.build(), ("timestamp",))
    assert read(builder.build(), ("value",)) == [(b"a",), (b"b",)]


def test_only_the_offsets_asked_for_are_read_over_batches_and_compacted_gaps() -> None:
    data = batch_of(b"0", b"1", b"2") + batch_of(b"7", b"8", base_offset=7) + batch_of(b"20", base_offset=20)
    assert read(data, start=2, end=8) == [(2, b"2"), (7, b"7")]
    assert read(data, start=9) == [(20, b"20")]
    assert read(data, start=21) == []


def test_a_compacted_batch_keeps_its_offsets_and_an_emptied_one_has_no_rows() -> None:
    compacted = bytearray(batch_of(b"a", b"b", b"c"))
    records = encode_record(0, 0, b"k", b"a") + encode_record(2, 2, b"k", b"c")
    data = bytes(compacted[:HEADER_SIZE]) + records
    data = data[:57] + struct.pack("!i", 2) + data[61:]
    emptied = batch_of(b"x", b"y", base_offset=3)[:HEADER_SIZE]
    emptied = emptied[:57] + struct.pack("!i", 0) + emptied[61:]
    log = resealed(data) + resealed(emptied)
    assert read(log) == [(0, b"a"), (2, b"c")]
    assert next_offset(log) == 5


def test_markers_and_aborted_transactions_are_left_out() -> None:
    data = (
        batch_of(b"a1", base_offset=0, stamp=transactional(1))
        + batch_of(b"b1", base_offset=1, stamp=transactional(2))
        + batch_of(b"plain", base_offset=2)
        + marker(1, 3, ControlType.ABORT)
        + batch_of(b"a2", base_offset=4, stamp=transactional(1))
        + marker(2, 5, ControlType.COMMIT)
        + marker(1, 6, ControlType.COMMIT)
    )
    assert read(data, aborted=[(1, 0)]) == [(1, b"b1"), (2, b"plain"), (4, b"a2")]
    assert read(data) == [(0, b"a1"), (1, b"b1"), (2, b"plain"), (4, b"a2")]
    assert next_offset(data) == 7


def test_a_transaction_that_was_aborted_twice_and_began_before_the_fetch_is_left_out_each_time() -> None:
    data = (
        batch_of(b"x", base_offset=10, stamp=transactional(1))
        + marker(1, 11, ControlType.ABORT)
        + batch_of(b"y", base_offset=12, stamp=transactional(1))
        + marker(1, 13, ControlType.ABORT)
        + batch_of(b"z", base_offset=14, stamp=transactional(1))
    )
    assert read(data, start=10, aborted=[(1, 12), (1, 4)]) == [(14, b"z")]


def test_an_incomplete_batch_at_the_end_is_no_error() -> None:
    whole, cut = batch_of(b"a"), batch_of(b"b", base_offset=1)[:-1]
    assert read(whole + cut) == [(0, b"a")]
    assert next_offset(whole + cut) == 1
    assert next_offset(cut) == -1
    assert next_offset(b"") == -1


@pytest.mark.parametrize("codec", Compression)
def test_every_codec_gives_the_same_rows_through_one_chunk(codec: Compression) -> None:
    data = b"".join(batch_of(b"v" * 100, b"w", base_offset=2 * index, codec=codec) for index in range(50))
    mixed = data + batch_of(b"plain", base_offset=100)
    (table,) = decode_batches(mixed, ["offset", "value", "key"], Wanted("t", 0), limits=TableLimits(max_rows=1000))
    assert table.num_rows == 101
    assert table.column(0).to_pylist() == list(range(101))
    assert table.column(1).to_pylist() == [b"v" * 100, b"w"] * 50 + [b"plain"]


def test_arrow_batches_keep_to_rows_and_bytes() -> None:
    data = batch_of(*(b"x" * 100 for _ in range(95)))
    tables = list(decode_batches(data, ["value"], Wanted("t", 0), limits=TableLimits(max_rows=10, max_bytes=500)))
    assert sum(table.num_rows for table in tables) == 95
    assert max(table.num_rows for table in tables) == 4  # of some 110 bytes each


def test_a_record_larger_than_an_arrow_batch_may_be_comes_alone() -> None:
    data = batch_of(b"a", b"b" * 5000, b"c")
    tables = list(decode_batches(data, ["value"], Wanted("t", 0), limits=TableLimits(max_bytes=1000)))
    assert [table.num_rows for table in tables] == [1, 1, 1]


def test_a_wrong_crc_names_the_batch_and_comes_after_the_rows_before_it() -> None:
    bad = bytearray(batch_of(b"b", base_offset=1))
    bad[-1] ^= 1
    data = batch_of(b"a") + bytes(bad)
    tables = decode_batches(data, ["value"], Wanted("orders", 2))
    assert next(tables).to_pylist() == [{"value": b"a"}]
    with pytest.raises(CorruptBatchError, match=r"orders-2 at offset 1: its CRC-32C is 0x") as failure:
        next(tables)
    assert failure.value.offset == 1
    again = pickle.loads(pickle.dumps(failure.value))
    assert str(again) == str(failure.value)


def with_field(data: bytes, position: int, field: bytes) -> bytes:
    return resealed(data[:position] + field + data[position + len(field) :])


@pytest.mark.parametrize(
    ("position", "field", "reason"),
    [
        (57, struct.pack("!i", 2**31 - 1), "2147483647 records at 2 offsets"),
        (57, struct.pack("!i", -1), "-1 records at 2 offsets"),
        (57, struct.pack("!i", 1), "bytes remain behind the 1 records"),
        (23, struct.pack("!i", -5), "a last delta of -5"),
        (0, struct.pack("!q", -7), "offsets from -7 on"),
        (0, struct.pack("!q", 2**63 - 1), "offsets from 9223372036854775807 on"),
        (21, struct.pack("!h", 7), "unknown compression type id 7"),
        (21, struct.pack("!h", 1), "gzip records"),
        (21, struct.pack("!h", 4), "zstd"),
        (HEADER_SIZE, b"\x7f", "record 0 of the batch: length -64"),
        (HEADER_SIZE, b"\xff\xff\xff\xff\x7f", "record 0 of the batch: length"),
        (HEADER_SIZE, b"\xff\xff\xff\xff\xff\xff", "varint of more than 32 bits"),
        (HEADER_SIZE + 3, b"\x08", "record 0 of the batch has the offset delta 4, expected one of 0 to 1"),
        (HEADER_SIZE + 4, b"\x80\x80\x80\x80\x10", "record 0 of the batch"),
    ],
)
def test_what_lies_is_corrupt_with_its_reason(position: int, field: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        read(with_field(batch_of(b"abcdefgh", b"ijklmnop"), position, field))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_with_their_number(magic: int) -> None:
    data = bytearray(batch_of(b"a"))
    data[16] = magic
    with pytest.raises(CorruptBatchError, match=f"message format {magic}"):
        read(bytes(data))


def test_offsets_that_go_back_from_batch_to_batch_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="starts at offset 1, the batch before it ends at 1"):
        read(batch_of(b"a", b"b") + batch_of(b"c", base_offset=1))


def test_a_batch_that_inflates_without_end_is_stopped() -> None:
    bomb = bytes(cramjam.zstd.compress(bytes(64 << 20), level=19))
    data = batch_of(b"a")[:HEADER_SIZE] + bomb
    data = data[:8] + struct.pack("!i", len(data) - 12) + data[12:]
    with pytest.raises(CorruptBatchError, match="zstd records inflate to more than 1048576 bytes"):
        read(with_field(data, 21, struct.pack("!h", 4)), max_inflated_bytes=1 << 20)


def test_a_record_of_nothing_but_headers_is_stopped() -> None:
    count = MAX_RECORD_HEADERS + 1
    body = b"\x00\x00\x00\x01\x01" + encode_varint(count) + b"\x00\x01" * count
    record = encode_varint(len(body)) + body
    data = batch_of(b"a")[:HEADER_SIZE] + record
    data = resealed(data[:8] + struct.pack("!i", len(data) - 12) + data[12:])
    for columns in (("value",), ("headers",)):
        with pytest.raises(CorruptBatchError, match=f"{count} headers, more than the {MAX_RECORD_HEADERS}"):
            read(data, columns)


def test_the_columns_of_a_batch_say_what_its_header_says() -> None:
    stamp = ProducerStamp(77, 5, 2**31 - 1, is_transactional=True)
    data = batch_of(b"a", b"b", base_offset=40, stamp=stamp, codec=Compression.LZ4)
    (table,) = decode_batches(data, tuple(BATCH_TYPES), Wanted("t", 0))
    first, second = table.to_pylist()
    assert first["sequence"] == 2**31 - 1
    assert second["sequence"] == 0  # sequences go from 2^31-1 on to 0
    assert first == {
        "base_offset": 40,
        "leader_epoch": -1,
        "producer_id": 77,
        "producer_epoch": 5,
        "sequence": 2**31 - 1,
        "attributes": 0x13,
        "compression": "lz4",
        "transactional": True,
        "control": False,
        "aborted": False,
        "crc_ok": True,
        "file": "",
        "position": 0,
    }


def test_every_column_differs_from_batch_to_batch_where_the_batches_do() -> None:
    plain = batch_of(b"a")
    stamped = batch_of(b"b", base_offset=1, stamp=ProducerStamp(9, 1, 4), codec=Compression.GZIP)
    names = ("producer_id", "compression", "position", "sequence", "base_offset")
    assert read(plain + stamped, names) == [(-1, "none", 0, -1, 0), (9, "gzip", len(plain), 4, 1)]


@pytest.mark.parametrize("limits", [{"max_rows": 0}, {"max_bytes": 0}])
def test_limits_of_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least one row and one byte"):
        TableLimits(**limits)
