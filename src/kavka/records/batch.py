"""A record batch, format v2, as a view over bytes that somebody else owns.

Decides what the 61 bytes of a batch's header say and which of them a broker may change. It must not know logs, requests
or topics, and it never looks at the records behind the header except to hand them out.

Invariants
  I1  Reading and patching cost the same for one record and for a million; only the CRC reads the batch's bytes.
  I2  Nothing is copied: views are slices of the caller's buffer and live as long as that does.
  I3  Every length read is bounded by what remains of the buffer.
  I4  Base offset and leader epoch are outside the CRC, so patching them leaves it right; the only other patch,
      `set_timestamp_type`, computes the CRC anew.

Source: Kafka's protocol guide ("Record Batch"), KIP-98, KIP-32, KIP-534 (delete horizon).

| offset | width | field                                                                         |
|      0 |     8 | base offset                                                                   |
|      8 |     4 | batch length: bytes behind this field                                         |
|     12 |     4 | partition leader epoch                                                        |
|     16 |     1 | magic, 2                                                                      |
|     17 |     4 | CRC-32C of everything from byte 21                                            |
|     21 |     2 | attributes: 0-2 codec, 3 timestamp type, 4 transactional, 5 control,          |
|        |       | 6 base timestamp is a delete horizon                                          |
|     23 |     4 | last offset delta                                                             |
|     27 |     8 | base timestamp, ms                                                            |
|     35 |     8 | max timestamp, ms                                                             |
|     43 |     8 | producer id, -1 without idempotence                                           |
|     51 |     2 | producer epoch                                                                |
|     53 |     4 | base sequence                                                                 |
|     57 |     4 | record count                                                                  |
|     61 |       | records, deflated as a whole where a codec is set                             |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.model import new_tuple
from kavka.records.compression import MAX_INFLATED_BYTES, Buffer, Compression, decompress
from kavka.records.record import Record, iterate_records

HEADER_SIZE = 61
LENGTH_PREFIX_SIZE = 12
"""Base offset and batch length: the bytes that the batch length does not count."""
MAGIC_OFFSET = 16
CRC_OFFSET = 17
CRC_START = 21
MAGIC = 2
MIN_LEGACY_LENGTH = 14
"""Smallest length field of a message in the formats 0 and 1; anything less is corrupt in every format."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
_SEQUENCE_SPAN = 1 << 31

HEADER = struct.Struct("!qiibIhiqqqhii")
_read_fields = HEADER.unpack_from
_OFFSET_LENGTH_EPOCH = struct.Struct("!qii")


class TimestampType(IntEnum):
    """Who set the timestamps: bit 3 of the attributes, and the topic setting message.timestamp.type."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


_CREATE_TIME, _LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
"""Asked of each batch: to find a member in its enum takes ten times as long as a name."""


class BatchHeader(NamedTuple):
    """The fields of a batch's header, as its bytes have them."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences go from 2^31-1 on to 0. -1 where the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_SPAN

    @property
    def codec_id(self) -> int:
        """Bits 0-2 of the attributes; `Compression(codec_id)` fails for 5 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Compression:
        """The batch's codec. Raises `RecordsError` for an unknown id."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise RecordsError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression type id {self.attributes & CODEC_MASK}"
            ) from None

    @property
    def timestamp_type(self) -> TimestampType:
        return _LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else _CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones, or None if no horizon was set yet (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


class RecordBatch(NamedTuple):
    """One batch: `view` is exactly its bytes, `header` what they said when it was read.

    Patches change the bytes, not `header`: the caller knows what it assigned.
    """

    view: memoryview
    header: BatchHeader

    @property
    def payload(self) -> memoryview:
        """The records' bytes, compressed if the header names a codec."""
        return self.view[HEADER_SIZE:]

    def crc_is_right(self) -> bool:
        """Whether the CRC covers the bytes; reads all of the batch, copies nothing."""
        return bool(crc32c(self.view[CRC_START:]) == self.header.crc)

    def inflate(self, *, max_size: int = MAX_INFLATED_BYTES) -> Buffer:
        """The records' bytes, inflated; raises as `compression.decompress` does."""
        return decompress(self.header.compression, self.view[HEADER_SIZE:], max_size=max_size)

    def records(self, *, max_size: int = MAX_INFLATED_BYTES) -> Iterator[Record]:
        """The records in order, one at a time; for clients, tools and compaction, never for produce and fetch.

        Raises `RecordsError` if the records' bytes are malformed, perhaps after some have been handed out. Offsets
        and timestamps are those of the header as it was read.
        """
        header = self.header
        if header.record_count == 0:
            return iter(())
        return iterate_records(
            self.inflate(max_size=max_size),
            header.record_count,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            log_append_time=header.max_timestamp if header.attributes & LOG_APPEND_TIME_FLAG else None,
        )


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; at least 61 bytes must be there, or `CorruptRecords` is raised.

    The fields are not judged: use `iterate_batches` on bytes that nobody has checked.
    """
    try:
        return new_tuple(BatchHeader, _read_fields(buffer, position))
    except struct.error:
        raise CorruptRecords(f"a batch's header needs {HEADER_SIZE} bytes, {len(buffer) - position} remain") from None


def batch_at(view: memoryview, position: int = 0) -> RecordBatch | None:
    """The batch that starts at `position`, or None if its end lies behind the buffer's.

    Raises `CorruptRecords` for an impossible length or an unknown magic, and
    `RecordsError(UNSUPPORTED_FOR_MESSAGE_FORMAT)` for the formats 0 and 1.
    """
    remaining = len(view) - position
    if remaining >= HEADER_SIZE:
        header = new_tuple(BatchHeader, _read_fields(view, position))
        if header.magic == MAGIC and header.batch_length >= HEADER_SIZE - LENGTH_PREFIX_SIZE:
            if header.batch_length > remaining - LENGTH_PREFIX_SIZE:
                return None
            end = position + LENGTH_PREFIX_SIZE + header.batch_length
            return new_tuple(RecordBatch, (view[position:end], header))
    _refuse_odd_batch(view, position, remaining)
    return None


def iterate_batches(view: memoryview) -> Iterator[RecordBatch]:
    """The complete batches in `view`, in order; an incomplete one at the end is left out, as Kafka's readers do.

    Raises like `batch_at` where what follows is no batch.
    """
    position, end = 0, len(view)
    while position < end:
        batch = batch_at(view, position)
        if batch is None:
            return
        yield batch
        position += LENGTH_PREFIX_SIZE + batch.header.batch_length


def _refuse_odd_batch(view: memoryview, position: int, remaining: int) -> None:
    """Raises for a batch of a legacy format or with an impossible header; returns if it only lacks bytes."""
    if remaining < LENGTH_PREFIX_SIZE:
        return
    length = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
    if length < MIN_LEGACY_LENGTH:
        raise CorruptRecords(f"batch length {length} at byte {position} is less than the minimum {MIN_LEGACY_LENGTH}")
    if remaining <= MAGIC_OFFSET:
        return
    magic = int.from_bytes(view[position + MAGIC_OFFSET : position + MAGIC_OFFSET + 1], "big", signed=True)
    if magic in (0, 1):
        raise RecordsError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic} at byte {position}, expected {MAGIC}"
        )
    if magic != MAGIC:
        raise CorruptRecords(f"invalid magic {magic} at byte {position}")
    if length < HEADER_SIZE - LENGTH_PREFIX_SIZE:
        raise CorruptRecords(f"batch of {length + LENGTH_PREFIX_SIZE} bytes is smaller than its header, {HEADER_SIZE}")


def assign_offset(batch: RecordBatch, base_offset: int, partition_leader_epoch: int) -> None:
    """Writes the offset and epoch that the leader gives the batch; `batch.view` must be writable."""
    _OFFSET_LENGTH_EPOCH.pack_into(batch.view, 0, base_offset, batch.header.batch_length, partition_leader_epoch)


def set_timestamp_type(batch: RecordBatch, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Writes who set the timestamps and the largest of them (ms), and the CRC that this needs.

    With LOG_APPEND_TIME every record of the batch is read with `max_timestamp`. Costs one pass over the batch, unless
    both already are so.
    """
    view, header = batch
    attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    struct.pack_into("!h", view, CRC_START, attributes)
    struct.pack_into("!q", view, 35, max_timestamp)
    struct.pack_into("!I", view, CRC_OFFSET, crc32c(view[CRC_START:]))
