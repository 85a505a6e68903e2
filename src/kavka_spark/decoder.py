"""Decoder: record batches (format v2) as Arrow record batches, with no object per record.

Decides how batches are taken together and cut into Arrow batches. What a reader may see is `batch_walk`'s to decide,
where fields lie `record_fields`', and what is wrong with a malformed batch `plain_decoder`'s. It must not know
connections, files or Spark.

    batches -> inflate -> hop over the records' lengths -> up to `max_rows` of them -> locate their fields -> gather

Invariants
  I1  The rows are those of the plain decoder, for any bytes: where the fast way is in doubt, it hands over.
  I2  An Arrow batch has 1 to `max_rows` rows of `max_bytes` of records together, or one row: offsets of 32 bits do.
  I3  A codec yields at most `max_inflated_bytes` a batch; whatever else is allocated is bounded by the bytes given,
      `max_rows` and `max_bytes`.
  I4  What is malformed raises `CorruptBatchError`, after the rows of the batches before it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kavka.errors import CorruptRecords, RecordsError
from kavka.records.batch import CODEC_MASK, HEADER_SIZE, LENGTH_PREFIX_SIZE
from kavka.records.compression import decompress
from kavka.records.record import MIN_RECORD_SIZE, Record
from kavka_spark.batch_columns import CONSTANTS, ConstantColumns, batch_column, batch_value
from kavka_spark.batch_walk import NO_OFFSET, PlacedBatch, Wanted, committed_batches, next_offset
from kavka_spark.chunk import Chunk, Run
from kavka_spark.columns import TYPES, schema
from kavka_spark.errors import CorruptBatchError
from kavka_spark.gather import MAX_SPAN_BYTES, gather, gather_headers
from kavka_spark.plain_decoder import MAX_TIMESTAMP_MS, plain_records
from kavka_spark.record_fields import Longs, RecordFields, hop, locate

__all__ = ["ArrowDecoder", "TableLimits", "Wanted", "decode_batches", "next_offset", "schema"]

DEFAULT_MAX_ROWS = 10_000
"""Rows in an Arrow batch. At 100 bytes a record Spark takes 10,000 a batch three times as fast as 1,000."""
DEFAULT_MAX_BYTES = 8 << 20
DEFAULT_MAX_INFLATED_BYTES = 256 << 20
"""Bound on one batch's inflated records; a producer's batch of 1 MB at 1:100 has 100 MB."""
_SEQUENCE_SPAN = 1 << 31
_SAFE_SUMMAND = 1 << 62
"""Two numbers up to this limit can be added in 64 bits."""


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Bounds on one Arrow batch, and on one batch's inflated records. Raises ValueError."""

    max_rows: int = DEFAULT_MAX_ROWS
    max_bytes: int = DEFAULT_MAX_BYTES
    max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES

    def __post_init__(self) -> None:
        if self.max_rows < 1 or self.max_bytes < 1:
            raise ValueError(f"expected at least one row and one byte, found {self.max_rows} and {self.max_bytes}")


DEFAULT_LIMITS = TableLimits()


def decode_batches(
    data: bytes | memoryview,
    columns: Sequence[str],
    wanted: Wanted,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    check_crcs: bool = True,
    limits: TableLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The records of `data` that are wanted, in `columns`, in order.

    `data` is what a Fetch answer holds for the partition: batches, the last one perhaps cut. `aborted` is the answer's
    list of (producer id, first offset) under read_committed; the records of those transactions are left out, as markers
    always are. Raises `CorruptBatchError`, also for a batch that is left out where `check_crcs`.
    """
    decoder = ArrowDecoder(columns, wanted, limits=limits)
    return decoder.decode(committed_batches(memoryview(data), wanted, aborted=aborted, check_crcs=check_crcs))


_Inflated: TypeAlias = tuple[PlacedBatch, memoryview, int, int]
"""A batch, the bytes with its records, where they begin and where they should end."""


class _Stamps(NamedTuple):
    offsets: Longs
    timestamps: Longs
    """In ms; empty if nobody asked for them."""


class ArrowDecoder:
    """Decodes batches of one partition into `columns`; `file` is what the column of that name says."""

    def __init__(
        self,
        columns: Sequence[str],
        wanted: Wanted,
        *,
        limits: TableLimits = DEFAULT_LIMITS,
        file: str = "",
    ) -> None:
        self.schema = schema(columns)
        self._topic = wanted.topic
        self._partition = wanted.partition
        self._start = wanted.start
        self._end = wanted.end
        self._max_rows = limits.max_rows
        self._max_bytes = min(limits.max_bytes, MAX_SPAN_BYTES)
        self._max_inflated_bytes = limits.max_inflated_bytes
        self._wants_timestamp = "timestamp" in self.schema.names
        self._constants = ConstantColumns(topic=wanted.topic, partition=wanted.partition, file=file)
        self._previous_offset = NO_OFFSET
        self.malformed: PlacedBatch | None = None
        """The batch that the last `CorruptBatchError` was raised for, of those that `decode` was given."""

    def decode(self, batches: Iterable[PlacedBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of `batches` in order, for the offsets that were asked for."""
        max_rows, max_bytes = self._max_rows, self._max_bytes
        runs: list[Run] = []
        positions = array("q")
        rows = size = 0
        for found in self._inflated(batches):
            if isinstance(found, CorruptBatchError):
                yield from self._flush(runs, positions)
                raise found
            batch, source, position, end = found
            index, count = 0, batch.header.record_count
            fits = count * MIN_RECORD_SIZE <= end - position
            while index < count:
                taken = min(count - index, max_rows - rows)
                mark = len(positions)
                after = hop(source, position, taken, positions) if fits else None
                if after is None or after > end or (index + taken == count and after != end):
                    yield from self._flush(runs, positions[:mark])
                    runs, positions, rows, size = [], array("q"), 0, 0
                    yield from self._decode_plainly(batch, index)
                    break
                positions.append(after)
                if runs and size + after - position > max_bytes:
                    yield from self._flush(runs, positions[:mark])
                    runs, positions, rows, size = [], positions[mark:], 0, 0
                runs.append(Run(batch, source, position, after, taken, index))
                rows, size = rows + taken, size + after - position
                if rows == max_rows:
                    yield from self._flush(runs, positions)
                    runs, positions, rows, size = [], array("q"), 0, 0
                index, position = index + taken, after
        yield from self._flush(runs, positions)

    def _inflated(self, batches: Iterable[PlacedBatch]) -> Iterator[_Inflated | CorruptBatchError]:
        """Each batch with its records' bytes; the failure that ends them is the last one, so that the rows before it
        are handed out first."""
        try:
            for batch in batches:
                yield batch, *self._inflate(batch)
        except CorruptBatchError as failure:
            yield failure

    def _inflate(self, batch: PlacedBatch) -> tuple[memoryview, int, int]:
        """(bytes, where in them the batch's records begin, where they should end)."""
        if not batch.header.attributes & CODEC_MASK:
            return batch.data, batch.start + HEADER_SIZE, batch.start + LENGTH_PREFIX_SIZE + batch.header.batch_length
        try:
            inflated = decompress(batch.header.compression, batch.payload, max_size=self._max_inflated_bytes)
        except RecordsError as failure:
            raise self._corrupt(batch, failure) from failure
        return memoryview(inflated), 0, len(inflated)

    def _flush(self, runs: Sequence[Run], positions: array[int]) -> Iterator[pa.RecordBatch]:
        """The rows of `runs`, located together and cut so that each Arrow batch stays within its bytes."""
        if not runs:
            return
        chunk = Chunk(runs, positions)
        first, count = 0, len(chunk.starts)
        while first < count:
            limit = chunk.starts[first] + self._max_bytes
            last = max(first + 1, int(np.searchsorted(chunk.ends, limit, side="right")))
            rows = slice(first, last)
            try:
                fields = locate(chunk.bytes, chunk.starts[rows], chunk.ends[rows])
            except CorruptRecords as failure:
                raise self._corrupt(runs[int(chunk.run_of_row[first])].batch, failure) from failure
            stamps = None if fields is None else self._stamps(fields, chunk, rows)
            if fields is None or stamps is None:
                yield from self._decode_runs_plainly(runs, first)
                return
            self._previous_offset = int(stamps.offsets[-1])
            yield from self._arrow_batches(chunk, rows, fields, stamps)
            first = last

    def _stamps(self, fields: RecordFields, chunk: Chunk, rows: slice) -> _Stamps | None:
        """Offsets and timestamps of the records; None if they are impossible."""
        run_of_row = chunk.run_of_row[rows]
        deltas = fields.offset_deltas
        offsets = chunk.of_headers("base_offset")[run_of_row] + deltas
        if (
            offsets[0] <= self._previous_offset
            or (offsets[1:] <= offsets[:-1]).any()
            or (deltas < 0).any()
            or (deltas > chunk.of_headers("last_offset_delta")[run_of_row]).any()
        ):
            return None
        if not self._wants_timestamp:
            return _Stamps(offsets, offsets[:0])
        bases, deltas_count = chunk.timestamps()
        if not _within(bases, _SAFE_SUMMAND) or not _within(fields.timestamp_deltas, _SAFE_SUMMAND):
            return None
        timestamps = bases[run_of_row] + fields.timestamp_deltas * deltas_count[run_of_row]
        if not _within(timestamps, MAX_TIMESTAMP_MS):
            return None
        return _Stamps(offsets, timestamps)

    def _arrow_batches(
        self, chunk: Chunk, rows: slice, fields: RecordFields, stamps: _Stamps
    ) -> Iterator[pa.RecordBatch]:
        """One Arrow batch, or nothing if no offset of it was asked for."""
        offsets, run_of_row = stamps.offsets, chunk.run_of_row[rows]
        # They rise, so that those asked for lie one beside another.
        kept = slice(
            int(np.searchsorted(offsets, self._start)),
            len(offsets) if self._end is None else int(np.searchsorted(offsets, self._end)),
        )
        count = kept.stop - kept.start
        if count <= 0:
            return
        buffer = pa.py_buffer(chunk.source)
        arrays: list[pa.Array] = []
        for name in self.schema.names:
            match name:
                case "key":
                    arrays.append(gather(buffer, fields.key_starts[kept], fields.key_sizes[kept], pa.binary()))
                case "value":
                    arrays.append(gather(buffer, fields.value_starts[kept], fields.value_sizes[kept], pa.binary()))
                case "offset":
                    arrays.append(pa.array(offsets[kept]))
                case "timestamp":
                    arrays.append(pa.array(stamps.timestamps[kept] * 1000).cast(TYPES[name]))
                case "sequence":
                    bases = chunk.of_headers("base_sequence")[run_of_row]
                    sequences = np.where(bases < 0, -1, (bases + fields.offset_deltas) % _SEQUENCE_SPAN)
                    arrays.append(pa.array(sequences[kept].astype(np.int32)))
                case "headers":
                    arrays.append(gather_headers(buffer, fields.header_counts, fields.headers).slice(kept.start, count))
                case _ if name in CONSTANTS:
                    arrays.append(self._constants.column(name, count))
                case _:
                    arrays.append(batch_column(name, chunk, run_of_row[kept]))
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _decode_runs_plainly(self, runs: Sequence[Run], first_row: int) -> Iterator[pa.RecordBatch]:
        """The rows of `runs` from `first_row` on, which the fast way could not decode."""
        skipped = first_row
        for run in runs:
            if skipped < run.row_count:
                yield from self._decode_plainly(run.batch, run.first_index + skipped, run.row_count - skipped)
            skipped = max(0, skipped - run.row_count)

    def _decode_plainly(self, batch: PlacedBatch, first: int, count: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of `batch` from index `first` on, record by record; `count` of them, or to its end."""
        source, position, end = self._inflate(batch)
        records = plain_records(source[position:end], batch.header, check_timestamps=self._wants_timestamp)
        rows: list[Record] = []
        size = 0
        try:
            for record in islice(records, first, None if count is None else first + count):
                self._previous_offset = record.offset
                if record.offset < self._start or (self._end is not None and record.offset >= self._end):
                    continue
                record_size = _size(record)
                if rows and (len(rows) == self._max_rows or size + record_size > self._max_bytes):
                    yield self._arrow_batch_of_records(batch, rows)
                    rows, size = [], 0
                rows.append(record)
                size += record_size
        except CorruptRecords as failure:
            raise self._corrupt(batch, failure) from failure
        if rows:
            yield self._arrow_batch_of_records(batch, rows)

    def _arrow_batch_of_records(self, batch: PlacedBatch, records: Sequence[Record]) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        for name, kind in zip(self.schema.names, self.schema.types, strict=True):
            match name:
                case "key" | "value" | "offset":
                    arrays.append(pa.array([getattr(record, name) for record in records], kind))
                case "timestamp":
                    arrays.append(pa.array([record.timestamp * 1000 for record in records], pa.int64()).cast(kind))
                case "sequence":
                    base, base_offset = batch.header.base_sequence, batch.header.base_offset
                    arrays.append(
                        pa.array(
                            [
                                -1 if base < 0 else (base + record.offset - base_offset) % _SEQUENCE_SPAN
                                for record in records
                            ],
                            kind,
                        )
                    )
                case "headers":
                    arrays.append(pa.array([list(record.headers) or None for record in records], kind))
                case _ if name in CONSTANTS:
                    arrays.append(self._constants.column(name, len(records)))
                case _:
                    arrays.append(pa.array([batch_value(name, batch)] * len(records), kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _corrupt(self, batch: PlacedBatch, failure: RecordsError) -> CorruptBatchError:
        self.malformed = batch
        return CorruptBatchError(self._topic, self._partition, batch.header.base_offset, failure.message)


def _within(numbers: Longs, bound: int) -> bool:
    return bool(numbers.max() <= bound and numbers.min() >= -bound)


def _size(record: Record) -> int:
    """What `max_bytes` counts of a record."""
    headers = sum(len(name) + len(content or b"") for name, content in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
