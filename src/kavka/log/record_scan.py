"""Batches read out of a .log file in windows.

Decides how much is read at once. It must not know segments or what the batches are read for.

Invariants
  I1  Memory is bounded by the window and the largest batch, whatever the file's size.
  I2  `scan_headers` reads of a large batch only its header.
  I3  Nothing behind `end` is looked at; an incomplete batch before it ends the scan as damage does: with
      `CorruptRecords`, whose caller knows how far the good prefix went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kavka.errors import CorruptRecords
from kavka.model import FileSlice, ReadableFile, new_tuple
from kavka.records.batch import HEADER, HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC, BatchHeader, RecordBatch, batch_at

HEADER_WINDOW_BYTES = 16 * 1024
"""One read when looking for a batch: holds what lies between two index entries at the default interval."""
BATCH_WINDOW_BYTES = 1024 * 1024
MIN_BATCH_LENGTH = HEADER_SIZE - LENGTH_PREFIX_SIZE


def scan_headers(
    file: ReadableFile, position: int, end: int, *, window_bytes: int = HEADER_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `position` on, which must be where one starts.

    Raises `CorruptRecords` at bytes that are no header, or at a batch that is not complete before `end`.
    """
    window, window_start = b"", position
    while position < end:
        in_window = position - window_start
        if in_window + HEADER_SIZE > len(window):
            window = file.read_at(position, min(window_bytes, end - position))
            window_start, in_window = position, 0
            if len(window) < HEADER_SIZE:
                raise CorruptRecords(f"{len(window)} bytes at position {position} are not a batch header")
        header = new_tuple(BatchHeader, HEADER.unpack_from(window, in_window))
        if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
            raise CorruptRecords(
                f"no batch at position {position}: magic {header.magic}, batch length {header.batch_length}"
            )
        next_position = position + LENGTH_PREFIX_SIZE + header.batch_length
        if next_position > end:
            raise CorruptRecords(f"the batch at position {position} ends at {next_position}, behind {end}")
        yield position, header
        position = next_position


def header_at(file: ReadableFile, position: int, end: int) -> BatchHeader:
    """The header of the batch that starts at `position`. Raises as `scan_headers` does."""
    for _, header in scan_headers(file, position, end, window_bytes=HEADER_SIZE):
        return header
    raise CorruptRecords(f"no batch at position {position}: the segment ends at {end}")


def scan_batches(file: ReadableFile, position: int, end: int) -> Iterator[tuple[int, RecordBatch]]:
    """(position, batch) from `position` on, each whole in memory until the next one is asked for.

    Raises `CorruptRecords` (or `RecordsError` for a legacy format) as `scan_headers` does; CRCs are not checked.
    """
    window, window_start = memoryview(b""), position
    while position < end:
        batch = batch_at(window, position - window_start)
        if batch is None:
            size = min(BATCH_WINDOW_BYTES, end - position)
            if size >= HEADER_SIZE:
                prefix = file.read_at(position, LENGTH_PREFIX_SIZE)
                length = int.from_bytes(prefix[8:], "big", signed=True)
                if LENGTH_PREFIX_SIZE + length > end - position:
                    raise CorruptRecords(f"the batch at position {position} is longer than the file, {length} bytes")
                size = max(size, LENGTH_PREFIX_SIZE + length)
            window, window_start = memoryview(file.read_at(position, size)), position
            batch = batch_at(window)
            if batch is None:
                raise CorruptRecords(f"{len(window)} bytes at position {position} are not a complete batch")
        yield position, batch
        position += len(batch.view)


def has_no_record(chunks: Iterable[FileSlice]) -> bool:
    """Whether all batches in `chunks` are headers without a record, as compaction may leave them."""
    try:
        return not any(
            header.record_count
            for chunk in chunks
            for _, header in scan_headers(chunk.file, chunk.position, chunk.position + chunk.length)
        )
    except CorruptRecords:
        return False  # What is damaged is for its reader to judge.
