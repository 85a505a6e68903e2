"""Records in, the bytes of a batch out.

Decides how records are laid into a batch. It must not know topics, partitions or when a batch is full: its owner asks
`size_bytes` and decides.

Invariants
  I1  What `build` returns passes `validate_produced` where its offset is 0 and its stamp is none or a client's.
  I2  A batch is built from its records alone: no clock, no randomness; the same records give the same bytes.

Source: Kafka's MemoryRecordsBuilder for which timestamp is the base (the first record's) and which fields default to
what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from kavka.model import NO_EPOCH, NO_TIMESTAMP
from kavka.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_OFFSET,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    RecordBatch,
)
from kavka.records.compression import MAX_INFLATED_BYTES, Buffer, Compression, compress, decompress
from kavka.records.record import (
    UNBOUNDED,
    VARINTS,
    Header,
    Record,
    add_timestamps,
    encode_record,
    iterate_records,
    varint,
    walk_records,
)
from kavka.records.survey import survey

_TABLED = len(VARINTS)


class ProducerStamp(NamedTuple):
    """Who wrote a batch: the fields of idempotence and transactions. The default is a plain producer's."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False


NO_STAMP = ProducerStamp()


class BatchBuilder:
    """Collects records and builds one batch of them."""

    __slots__ = (
        "_base_timestamp",
        "_compression",
        "_level",
        "_max_timestamp",
        "_parts",
        "payload_bytes",
        "record_count",
    )

    def __init__(self, compression: Compression = Compression.NONE, *, level: int | None = None) -> None:
        self._compression = compression
        self._level = level
        self._parts: list[bytes] = []
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.payload_bytes = 0
        """Bytes of the records so far, not deflated."""
        self.record_count = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch if its records were not deflated."""
        return HEADER_SIZE + self.payload_bytes

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> int:
        """Adds a record with its timestamp in ms; returns its offset's delta, which counts from 0."""
        delta = self.record_count
        if delta == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        record = encode_record(delta, timestamp - self._base_timestamp, key, value, headers)
        self._parts.append(record)
        self.payload_bytes += len(record)
        self.record_count = delta + 1
        return delta

    def append_values(self, timestamp: int, values: Sequence[bytes], start: int, max_bytes: int) -> int:
        """Adds records without key and headers, all of one timestamp, from `values[start]` on.

        Stops before the payload would pass `max_bytes`, but takes at least one. Returns the index behind the last value
        taken. Three times as fast as `append` for each.
        """
        delta = self.record_count
        if delta == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        stamp = b"\x00" + varint(timestamp - self._base_timestamp)
        parts = self._parts
        size = self.payload_bytes
        fixed = len(stamp) + 2
        end = len(values)
        index = start
        while index < end:
            value = values[index]
            length = len(value)
            offset = VARINTS[delta] if delta < _TABLED else varint(delta)
            width = VARINTS[length] if length < _TABLED else varint(length)
            body = fixed + len(offset) + len(width) + length
            prefix = VARINTS[body] if body < _TABLED else varint(body)
            record_size = len(prefix) + body
            if size + record_size > max_bytes and index > start:
                break
            parts += (prefix, stamp, offset, b"\x01", width, value, b"\x00")
            size += record_size
            delta += 1
            index += 1
        self.payload_bytes = size
        self.record_count = delta
        return index

    def build(
        self, stamp: ProducerStamp = NO_STAMP, *, base_offset: int = 0, partition_leader_epoch: int = NO_EPOCH
    ) -> bytes:
        """The batch. The builder stays as it is, so a batch may be built again with another stamp."""
        header = _header(
            int(self._compression),
            self.record_count,
            (self._base_timestamp, self._max_timestamp),
            stamp,
            base_offset=base_offset,
            partition_leader_epoch=partition_leader_epoch,
        )
        return seal(header, self._payload())

    def encoded(self) -> EncodedRecords:
        """The records so far, deflated here and now, for whoever builds the batch."""
        return EncodedRecords(
            self._payload(),
            self.record_count,
            timestamps=(self._base_timestamp, self._max_timestamp),
            compression=self._compression,
            payload_bytes=self.payload_bytes,
        )

    def _payload(self) -> bytes:
        payload = b"".join(self._parts)
        return compress(self._compression, payload, level=self._level) if self._compression else payload


class EncodedRecords:
    """Records that were laid out elsewhere, many at a time: a batch that only lacks who writes it.

    `payload` is the records' bytes, deflated already where `compression` names a codec; `payload_bytes` their size
    before that. Built, validated and stamped as a `BatchBuilder`'s batch.
    """

    __slots__ = ("_base_timestamp", "_compression", "_max_timestamp", "_payload", "payload_bytes", "record_count")

    def __init__(
        self,
        payload: Buffer,
        record_count: int,
        *,
        timestamps: tuple[int, int],
        compression: Compression = Compression.NONE,
        payload_bytes: int | None = None,
    ) -> None:
        """`timestamps`: that of the first record, from which the deltas count, and the largest, in ms."""
        self._payload = payload
        self._base_timestamp, self._max_timestamp = timestamps
        self._compression = compression
        self.payload_bytes = len(payload) if payload_bytes is None else payload_bytes
        self.record_count = record_count

    def build(self, stamp: ProducerStamp = NO_STAMP) -> bytes:
        """The batch; may be built again with another stamp."""
        header = _header(int(self._compression), self.record_count, (self._base_timestamp, self._max_timestamp), stamp)
        return seal(header, self._payload)


def _header(
    codec: int,
    record_count: int,
    timestamps: tuple[int, int],
    stamp: ProducerStamp,
    *,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_EPOCH,
) -> BatchHeader:
    """The header of a new batch; `seal` puts length and CRC in."""
    attributes = codec
    if stamp.is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if stamp.is_control:
        attributes |= CONTROL_FLAG
    return BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=record_count - 1,
        base_timestamp=timestamps[0],
        max_timestamp=timestamps[1],
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        base_sequence=stamp.base_sequence,
        record_count=record_count,
    )


def seal(header: BatchHeader, payload: Buffer) -> bytes:
    """The bytes of a batch of `header` and the (deflated) records `payload`, with length and CRC computed."""
    head = bytearray(HEADER.pack(*header._replace(batch_length=HEADER_SIZE - LENGTH_PREFIX_SIZE + len(payload))))
    crc = crc32c(payload, crc32c(memoryview(head)[CRC_START:]))
    head[CRC_OFFSET:CRC_START] = crc.to_bytes(4, "big")
    return b"".join((head, payload))


def recompress(
    batch: RecordBatch,
    compression: Compression,
    *,
    level: int | None = None,
    max_inflated_bytes: int = MAX_INFLATED_BYTES,
    most_parts: int = UNBOUNDED,
) -> bytes:
    """The same batch with its records deflated by another codec, for topics whose compression.type names one.

    Offsets that do not count up are made to, as Kafka makes them. Blocks; raises as `compression.decompress` and
    `survey` do, and as `walk_records` where offsets do not count up.
    """
    header = batch.header
    payload = decompress(header.compression, batch.payload, max_size=max_inflated_bytes)
    if not survey(payload, header.record_count, most_parts=most_parts).counts_up:
        for _ in walk_records(payload, header.record_count, most_parts=most_parts):
            pass
        payload = _renumbered(payload, header.record_count)
    attributes = header.attributes & ~CODEC_MASK | compression
    return seal(header._replace(attributes=attributes), compress(compression, payload, level=level))


def _renumbered(payload: Buffer, count: int) -> bytes:
    records = iterate_records(payload, count, base_offset=0, base_timestamp=0)
    return b"".join(
        encode_record(index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    )


def retain_records(
    batch: RecordBatch, records: Sequence[Record], *, delete_horizon_ms: int | None = None, level: int | None = None
) -> bytes:
    """`batch` with only `records` left, as compaction leaves it.

    Offsets, the range of offsets, producer, codec and kind stay those of `batch`, so that sequences and end offsets
    stay known; with no records an empty batch remains. `delete_horizon_ms` sets the horizon (KIP-534); None keeps what
    the batch has.
    """
    header = batch.header
    horizon = header.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    attributes = header.attributes
    if horizon is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = horizon
    else:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = header.max_timestamp
    if not attributes & LOG_APPEND_TIME_FLAG and records:
        max_timestamp = max(record.timestamp for record in records)
    if not records:
        attributes &= ~CODEC_MASK
    payload = b"".join(
        encode_record(
            record.offset - header.base_offset,
            add_timestamps(record.timestamp, -base_timestamp),
            record.key,
            record.value,
            record.headers,
        )
        for record in records
    )
    return seal(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(records),
        ),
        compress(Compression(attributes & CODEC_MASK), payload, level=level),
    )
