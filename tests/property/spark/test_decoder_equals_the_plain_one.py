"""The vectorised decoder and the plain one give the same rows, for any batch and for any damage to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.errors import RecordsError
from kavka.records.batch import HEADER_SIZE, BatchHeader, RecordBatch, batch_at
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka_spark import decoder
from kavka_spark.batch_walk import Wanted, committed_batches
from kavka_spark.columns import SOURCE_TYPES, TYPES
from kavka_spark.decoder import ArrowDecoder, TableLimits, decode_batches, next_offset
from kavka_spark.errors import CorruptBatchError

optional_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4).map(tuple)
timestamps = st.integers(min_value=-1, max_value=2**45)
records = st.lists(st.tuples(timestamps, optional_bytes, optional_bytes, headers), min_size=1, max_size=40)
batches = st.lists(st.tuples(records, st.sampled_from(Compression), st.integers(0, 3)), min_size=1, max_size=5)
COLUMNS = tuple(SOURCE_TYPES)
ROW_LIMITS = {"max_rows": 7, "max_bytes": 500}


def built(items: list, *, first: int = 0) -> tuple[bytes, list[tuple[Any, ...]]]:
    """Batches one behind another with gaps between them, and the rows they hold."""
    data, rows, offset = b"", [], first
    for records, codec, gap in items:
        builder = BatchBuilder(codec)
        for record in records:
            builder.append(*record)
        data += builder.build(ProducerStamp(), base_offset=offset)
        rows += [(offset + index, *record) for index, record in enumerate(records)]
        offset += len(records) + gap
    return data, rows


def fast(data: bytes, columns: tuple[str, ...] = COLUMNS, **options: Any) -> list[dict[str, Any]]:
    limits = TableLimits(**{**ROW_LIMITS, **{name: options.pop(name) for name in ROW_LIMITS if name in options}})
    wanted = Wanted("t", 3, options.pop("start", 0), options.pop("end", None))
    tables = list(decode_batches(data, columns, wanted, limits=limits, **options))
    for table in tables:
        table.validate(full=True)
        assert 1 <= table.num_rows <= limits.max_rows
    return rows_of(tables)


def rows_of(tables: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """As Python values; timestamps as microseconds, because Python's own end with the year 9999."""
    columns = [
        [field.with_type(pa.int64()) if field.name == "timestamp" else field for field in table.schema]
        for table in tables
    ]
    return [
        row for table, fields in zip(tables, columns, strict=True) for row in table.cast(pa.schema(fields)).to_pylist()
    ]


class PlainOnly(ArrowDecoder):
    """Goes record by record from the start."""

    def decode(self, batches: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self._decode_plainly(batch, 0)


def plain(data: bytes, columns: tuple[str, ...] = COLUMNS, *, check_crcs: bool = True) -> list[dict[str, Any]]:
    walked = committed_batches(memoryview(data), Wanted("t", 3), check_crcs=check_crcs)
    tables = PlainOnly(columns, Wanted("t", 3), limits=TableLimits(**ROW_LIMITS)).decode(walked)
    return rows_of(list(tables))


def outcome(read: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return read(*arguments, **options)
    except CorruptBatchError as failure:
        return str(failure)


@given(batches)
def test_rows_come_back_as_they_went_in(items: list) -> None:
    data, expected = built(items)
    rows = fast(data)
    assert [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or ()])
        for row in rows
    ] == [(offset, key, value, list(fields)) for offset, _, key, value, fields in expected]
    assert [row["timestamp"] for row in rows] == [row[1] * 1000 for row in expected]
    assert rows == plain(data)
    assert next_offset(data) == expected[-1][0] + 1


@given(batches, st.integers(0, 120), st.integers(0, 120), st.integers(1, 50), st.integers(1, 3000))
def test_offsets_asked_for_and_limits_do_not_change_what_a_row_is(
    items: list, start: int, count: int, max_rows: int, max_bytes: int
) -> None:
    data, _ = built(items)
    everything = plain(data)
    found = fast(data, start=start, end=start + count, max_rows=max_rows, max_bytes=max_bytes)
    assert found == [row for row in everything if start <= row["offset"] < start + count]


@given(records, st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=6), st.booleans())
def test_damaged_records_have_one_outcome(items: list, damage: list[tuple[int, int]], all_columns: bool) -> None:
    """Behind the header anything may be wrong: the same rows, or the same error from the same batch."""
    intact, _ = built([(items, Compression.NONE, 0)])
    data = bytearray(intact + built([(items, Compression.NONE, 0)], first=len(items))[0])
    for place, byte in damage:
        data[HEADER_SIZE + place % (len(intact) - HEADER_SIZE)] = byte
    columns = tuple(TYPES) if all_columns else ("value", "offset")
    assert outcome(fast, bytes(data), columns, check_crcs=False) == outcome(
        plain, bytes(data), columns, check_crcs=False
    )


@settings(max_examples=60)
@given(batches, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_anywhere_has_one_outcome_and_with_crcs_never_gives_other_records(
    items: list, damage: list[tuple[int, int]]
) -> None:
    intact, _ = built(items)
    data = bytearray(intact)
    for place, byte in damage:
        data[place % len(data)] = byte
    assert outcome(fast, bytes(data), check_crcs=False) == outcome(plain, bytes(data), check_crcs=False)
    checked = outcome(fast, bytes(data), ("key", "value"))
    if isinstance(checked, list):
        everything = plain(intact, ("key", "value"))
        assert checked == everything[: len(checked)]


@given(st.binary(max_size=300))
def test_garbage_is_corrupt_or_nothing(data: bytes) -> None:
    assert outcome(fast, data, check_crcs=False) == outcome(plain, data, check_crcs=False)


@given(records, st.integers(0, 2**62), st.integers(-1, 40))
def test_the_plain_decoder_reads_what_the_client_reads(items: list, base_offset: int, damage: int) -> None:
    """The client's own reader, of which the plain decoder shares the varints only."""
    data = bytearray(built([(items, Compression.NONE, 0)], first=base_offset)[0])
    if damage >= 0:
        place = HEADER_SIZE + damage % (len(data) - HEADER_SIZE)
        data[place] ^= 0x55
    batch = batch_at(memoryview(data))
    assert batch is not None
    expected = outcome_of_client(batch)
    found = outcome(fast, bytes(data), ("key", "value"), check_crcs=False)
    if isinstance(found, list):
        assert [(row["key"], row["value"]) for row in found] == expected
    else:
        assert expected is None or offsets_leave_the_batch(batch)


def outcome_of_client(batch: RecordBatch) -> list[tuple[bytes | None, bytes | None]] | None:
    try:
        return [(record.key, record.value) for record in batch.records()]
    except RecordsError:
        return None


def offsets_leave_the_batch(batch: RecordBatch) -> bool:
    """What the client lets pass and a reader that counts on offsets cannot."""
    header: BatchHeader = batch.header
    offsets = [record.offset for record in batch.records()]
    return offsets != sorted(set(offsets)) or offsets[0] < header.base_offset or offsets[-1] > header.last_offset


@given(batches)
def test_healthy_batches_never_need_the_slow_way(items: list) -> None:
    data, expected = built(items)
    used = []
    original = decoder.plain_records
    decoder.plain_records = lambda *arguments, **options: used.append(1) or original(*arguments, **options)
    try:
        assert len(fast(data, tuple(TYPES))) == len(expected)
    finally:
        decoder.plain_records = original
    assert not used
