"""What compaction reads of a batch and what it leaves of one.

Decides the bytes of a batch after some of its records went. It must not know why they went, nor segments, logs or
transactions.

Invariants
  I1  What stays of a batch keeps its offsets, its range of offsets, producer, sequence, leader epoch, codec and kind.
  I2  A batch of which nothing went is the same bytes. Of others the records' bytes are copied, not encoded anew, unless
      a delete horizon is set, which takes the place of the base timestamp.
  I3  Memory is bounded by one batch, inflated.

Source: Kafka's MemoryRecords.filterTo and DefaultRecordBatch.writeEmptyHeader; KIP-534 for the delete horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kavka.errors import ErrorCode, RecordsError
from kavka.model import NO_TIMESTAMP
from kavka.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    RecordBatch,
)
from kavka.records.builder import retain_records, seal
from kavka.records.compression import Buffer, compress
from kavka.records.record import add_timestamps, read_varint


class Entry(NamedTuple):
    """A record in a batch's decompressed bytes: its position, and what compaction asks about it."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def read_entries(payload: Buffer, count: int) -> list[Entry]:
    """The `count` records in `payload`. Raises `RecordsError` if they are malformed."""
    data = bytes(payload)
    end = len(data)
    entries: list[Entry] = []
    position = 0
    for index in range(count):
        start = position
        try:
            length = data[position]
            if length < 0x80:
                length, position = length >> 1 ^ -(length & 1), position + 1
            else:
                length, position = read_varint(data, position)
            record_end = position + length
            timestamp_delta = data[position + 1]
            if timestamp_delta < 0x80:
                timestamp_delta, position = timestamp_delta >> 1 ^ -(timestamp_delta & 1), position + 2
            else:
                timestamp_delta, position = read_varint(data, position + 1, bits=64)
            offset_delta = data[position]
            if offset_delta < 0x80:
                offset_delta, position = offset_delta >> 1 ^ -(offset_delta & 1), position + 1
            else:
                offset_delta, position = read_varint(data, position)
            size = data[position]
            if size < 0x80:
                size, position = size >> 1 ^ -(size & 1), position + 1
            else:
                size, position = read_varint(data, position)
            key = None
            if size >= 0:
                key = data[position : position + size]
                position += size
            # The sign of a zigzag varint is its lowest bit.
            has_value = not data[position] & 1
        except IndexError:
            raise _malformed(index, "a field reaches behind the end of the records") from None
        if position >= record_end or record_end > end:
            raise _malformed(index, f"it ends at byte {record_end} of {end}, its value begins at {position}")
        entries.append(Entry(start, record_end, offset_delta, timestamp_delta, key, has_value))
        position = record_end
    if position != end:
        raise _malformed(count, f"{end - position} bytes follow the last record")
    return entries


def retain_entries(batch: RecordBatch, payload: Buffer, kept: Sequence[Entry]) -> bytes:
    """`batch` with none but the records `kept`, at least one, which lie in its inflated `payload`."""
    header = batch.header
    data = memoryview(payload)
    parts: list[Buffer] = []
    start = end = kept[0].start
    for entry in kept:
        if entry.start != end:
            parts.append(data[start:end])
            start = entry.start
        end = entry.end
    parts.append(data[start:end])
    max_timestamp = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME_FLAG:
        base = header.base_timestamp
        # Without a timestamp the deltas are 0; a base of -1 tells it.
        max_timestamp = max(add_timestamps(base, entry.timestamp_delta) for entry in kept)
    return seal(
        header._replace(max_timestamp=max_timestamp, record_count=len(kept)),
        compress(header.compression, b"".join(parts)),
    )


def with_delete_horizon(batch: RecordBatch, kept: Sequence[Entry], horizon_ms: int) -> bytes:
    """`batch` with the records `kept`, and from now on with a delete horizon."""
    offsets = {batch.header.base_offset + entry.offset_delta for entry in kept}
    records = [record for record in batch.records() if record.offset in offsets]
    return retain_records(batch, records, delete_horizon_ms=horizon_ms)


def emptied(batch: RecordBatch) -> bytes:
    """`batch` without records. Its header keeps the producer and the last offset."""
    header = batch.header
    return seal(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def _malformed(index: int, why: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, f"record {index} of the batch: {why}")
