"""Arrow columns in, records laid out for a batch out.

Decides the bytes of many records at once; which row goes to which partition was decided before. It must not know
topics, producers or Spark. No object is made per record: the varints of all rows are computed as columns of a matrix of
bytes, and one kernel of Arrow joins them with keys, values and headers: its result is the payload of a batch already.
The kernels take 0.5 ms however few the rows are, and more where a task has not been run for a while. A few rows without
headers, as a task of a small micro-batch has them, are laid out one after another.

Invariants
  I1  The payload equals what `kavka.records.record.encode_record` gives for the rows one after another.
  I2  A batch holds rows of one partition, in their order, and at most `batch_bytes` of records unless it is one.

Source: Kafka's protocol guide ("Record"). A record: length of the rest | attributes 0 | timestamp delta | offset delta
| key length | key | value length | value | header count | headers; numbers are zigzag varints, length -1 says null.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kavka.records.builder import BatchBuilder, EncodedRecords
from kavka.records.compression import Compression, compress
from kavka_spark.errors import SinkError

RECORD_OVERHEAD: Final = 32
"""At most what a record has beside key, value and headers: five bytes for each of five numbers, two of small ones."""
FEW_ROWS: Final = 256
"""So many are laid out sooner one by one (1.3 us each) than by the kernels."""

Array = npt.NDArray[Any]


class RecordColumns(NamedTuple):
    """Rows as columns of equal length: `key` and `value` binary, `headers` list<struct<key binary, value binary>> or
    None, `timestamps` int64 in ms."""

    key: pa.Array | None
    value: pa.Array
    headers: pa.Array | None
    timestamps: Array

    @property
    def row_count(self) -> int:
        return len(self.value)

    def take(self, rows: Array) -> RecordColumns:
        indices = pa.array(rows)
        return RecordColumns(
            None if self.key is None else self.key.take(indices),
            self.value.take(indices),
            None if self.headers is None else self.headers.take(indices),
            self.timestamps[rows],
        )


class EncodedBatch(NamedTuple):
    """A batch for a partition, and the size of its largest record (for messages about records that are too large)."""

    partition: int
    records: EncodedRecords
    largest_bytes: int


def encode(
    columns: RecordColumns,
    partitions: Array,
    *,
    batch_bytes: int,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    few_rows: int = FEW_ROWS,
) -> Iterator[EncodedBatch]:
    """The rows as batches, those of one partition in the order of the rows. Raises `SinkError` for a header without a
    name. Up to `few_rows` are laid out one by one."""
    if columns.row_count == 0:
        return
    if columns.row_count <= few_rows and columns.headers is None:
        yield from _encode_few(columns, partitions, batch_bytes, compression, level)
        return
    first = int(partitions[0])
    if (partitions != first).any():
        order = np.argsort(partitions, kind="stable")
        columns, partitions = columns.take(order), partitions[order]
    tails, tail_lengths = _tails(columns.headers, columns.row_count)
    sizes = lengths_of(columns.value) + tail_lengths + RECORD_OVERHEAD
    if columns.key is not None:
        sizes += lengths_of(columns.key)
    starts = _batch_starts(sizes, partitions, batch_bytes)
    counts = np.diff(np.append(starts, columns.row_count))
    deltas = np.arange(columns.row_count, dtype=np.int64) - np.repeat(starts, counts)
    base_timestamps = columns.timestamps[starts]
    joined = _join(columns, columns.timestamps - np.repeat(base_timestamps, counts), deltas, tails, tail_lengths)
    data, offsets = _bytes_of(joined)
    latest = np.maximum.reduceat(columns.timestamps, starts)
    largest = np.maximum.reduceat(np.diff(offsets), starts)
    for index, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        payload = data[int(offsets[start]) : int(offsets[start + count])]
        records = EncodedRecords(
            compress(compression, payload, level=level) if compression else payload,
            count,
            timestamps=(int(base_timestamps[index]), int(latest[index])),
            compression=compression,
            payload_bytes=len(payload),
        )
        yield EncodedBatch(int(partitions[start]), records, int(largest[index]))


def _encode_few(
    columns: RecordColumns, partitions: Array, batch_bytes: int, compression: Compression, level: int | None
) -> Iterator[EncodedBatch]:
    count = columns.row_count
    keys = [None] * count if columns.key is None else columns.key.to_pylist()
    values, stamps, chosen = columns.value.to_pylist(), columns.timestamps.tolist(), partitions.tolist()
    builder, partition, size, largest = BatchBuilder(compression, level=level), -1, 0, 0
    for row in sorted(range(count), key=chosen.__getitem__):
        key, value = keys[row], values[row]
        row_size = len(key or b"") + len(value or b"") + 1 + RECORD_OVERHEAD
        if builder.record_count and (chosen[row] != partition or size + row_size > batch_bytes):
            yield EncodedBatch(partition, builder.encoded(), largest)
            builder, size, largest = BatchBuilder(compression, level=level), 0, 0
        partition, before = chosen[row], builder.payload_bytes
        builder.append(stamps[row], key, value)
        largest = max(largest, builder.payload_bytes - before)
        size += row_size
    yield EncodedBatch(partition, builder.encoded(), largest)


def as_binary(column: pa.Array) -> pa.Array:
    """Text or bytes, with offsets of any width, as Arrow's plain binary."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


def lengths_of(column: pa.Array) -> Array:
    """Bytes of each value of a binary column as int64, 0 for null."""
    _, offsets = _bytes_of(column)
    lengths = np.diff(offsets).astype(np.int64)
    if column.null_count:
        lengths[nulls_of(column)] = 0
    return lengths


def nulls_of(column: pa.Array) -> Array:
    """For each value of a column whether it is null."""
    return np.asarray(pc.is_null(column))


def starts_of(column: pa.Array) -> tuple[Array, Array]:
    """The bytes of a binary column as uint8, and where in them each value begins."""
    data, offsets = _bytes_of(column)
    return np.frombuffer(data, np.uint8), offsets[:-1].astype(np.int64)


def _bytes_of(column: pa.Array) -> tuple[memoryview, Array]:
    """The values' bytes of a binary column and its offsets into them, one more than there are values."""
    _, offsets, data = column.buffers()
    found = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return memoryview(data) if data is not None else memoryview(b""), found


def _batch_starts(sizes: Array, partitions: Array, batch_bytes: int) -> Array:
    """The rows at which a batch begins: where the partition changes, or where the batch would become too large."""
    edges = np.flatnonzero(np.diff(partitions)) + 1
    starts: list[int] = []
    ends = np.cumsum(sizes)
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(sizes)], strict=True):
        row = start
        while row < stop:
            starts.append(row)
            before = int(ends[row - 1]) if row else 0
            row = max(int(np.searchsorted(ends, before + batch_bytes, side="right")), row + 1)
    return np.asarray(starts, np.int64)


def _join(
    columns: RecordColumns, timestamp_deltas: Array, offset_deltas: Array, tails: pa.Array, tail_lengths: Array
) -> pa.Array:
    """Every row's record, as a binary array whose bytes are the payload."""
    rows = columns.row_count
    key_lengths = _told_lengths(columns.key, rows)
    value_lengths = _told_lengths(columns.value, rows)
    fields = [_varints(numbers) for numbers in (timestamp_deltas, offset_deltas, key_lengths)]
    values = _varints(value_lengths)
    body = 1 + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0) + tail_lengths
    for _, mask in (*fields, values):
        body += mask.sum(axis=1)
    attributes = (np.zeros((rows, 1), np.uint8), np.ones((rows, 1), np.bool_))
    heads = _binary([_varints(body), attributes, *fields])
    parts = [heads] if columns.key is None else [heads, columns.key]
    parts += [_binary([values]), columns.value, tails]
    return pc.binary_join_element_wise(
        *parts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def _told_lengths(column: pa.Array | None, rows: int) -> Array:
    """Lengths as a record has them: -1 for null."""
    if column is None:
        return np.full(rows, -1, np.int64)
    lengths = lengths_of(column)
    if column.null_count:
        lengths[nulls_of(column)] = -1
    return lengths


def _varints(numbers: Array) -> tuple[Array, Array]:
    """Each number's zigzag varint as a row of bytes, and which of the row's bytes are part of it."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max((int(zigzag.max(initial=0)).bit_length() + 6) // 7, 1)
    out = np.empty((len(numbers), width), np.uint8)
    mask = np.empty((len(numbers), width), np.bool_)
    mask[:, 0] = True
    for index in range(width):
        out[:, index] = zigzag & np.uint64(0x7F)
        zigzag = zigzag >> np.uint64(7)
        if index + 1 < width:
            more = zigzag != 0
            mask[:, index + 1] = more
            out[:, index] |= more.astype(np.uint8) << np.uint8(7)
    return out, mask


def _binary(fields: list[tuple[Array, Array]]) -> pa.Array:
    """Fields of bytes side by side, as a binary array with one value per row."""
    bytes_, mask = fields[0] if len(fields) == 1 else tuple(np.hstack(part) for part in zip(*fields, strict=True))
    offsets = np.zeros(len(bytes_) + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(bytes_), [None, pa.py_buffer(offsets), pa.py_buffer(bytes_[mask])], null_count=0
    )


def _tails(headers: pa.Array | None, rows: int) -> tuple[pa.Array, Array]:
    """What follows each value (the count of headers, and the headers), and its length."""
    if headers is None:
        none = _binary([_varints(np.zeros(rows, np.int64))])
        return none, np.ones(rows, np.int64)
    lists = pc.fill_null(headers, pa.scalar([], headers.type)) if headers.null_count else headers
    counts = np.asarray(pc.list_value_length(lists), np.int64)
    pairs = lists.flatten()
    names, contents = (as_binary(pairs.field(index)) for index in (0, 1))
    if pairs.null_count or names.null_count:
        raise SinkError(
            "a header without a key: every entry of the headers column needs one; filter such entries out, or set "
            "headers to null"
        )
    entries = pc.binary_join_element_wise(
        _binary([_varints(_told_lengths(names, len(names)))]),
        names,
        _binary([_varints(_told_lengths(contents, len(contents)))]),
        contents,
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    data, entry_offsets = _bytes_of(entries)
    offsets = entry_offsets[np.append(0, np.cumsum(counts))]
    blocks = pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)], null_count=0
    )
    tails = pc.binary_join_element_wise(_binary([_varints(counts)]), blocks, pa.scalar(b"", pa.binary()))
    return tails, lengths_of(tails)
