"""PlainDecoder: the records of one batch, one at a time, and what is wrong with them if they are malformed.

The slow way, about 5 us a record: the fallback where the fast one is in doubt, and what it is compared with. It must
not share code with the fast way but for the varints.

Invariants
  I1  Every length is believed only as far as the record's bytes go; nothing is allocated by a length that lies.
  I2  What is malformed raises `CorruptRecords` with the record's index and reason, never an IndexError.

Source: kavka.records.record, whose `iterate_records` reads the same records. Beyond it, offsets have to rise within
those of the batch: a record elsewhere would be read twice, or never.
"""

from __future__ import annotations

from collections.abc import Iterator

from kavka.errors import CorruptRecords, RecordsError
from kavka.records.batch import LOG_APPEND_TIME_FLAG, BatchHeader
from kavka.records.record import MIN_RECORD_SIZE, Header, Record, read_varint
from kavka_spark.record_fields import MAX_RECORD_HEADERS, too_many_headers

MAX_TIMESTAMP_MS = ((1 << 63) - 1) // 1000
"""The largest timestamp that fits into microseconds, Spark's and Arrow's unit."""


def plain_records(payload: memoryview, header: BatchHeader, *, check_timestamps: bool) -> Iterator[Record]:
    """The records in a batch's inflated bytes. `check_timestamps`: refuse those that no column of Spark's can hold."""
    end = len(payload)
    if header.record_count * MIN_RECORD_SIZE > end:
        raise CorruptRecords(f"{header.record_count} records cannot fit into {end} bytes")
    position = 0
    last_delta = -1
    log_append = bool(header.attributes & LOG_APPEND_TIME_FLAG)
    for index in range(header.record_count):
        try:
            length, body = read_varint(payload, position)
            position = body + length
            if length < MIN_RECORD_SIZE - 1 or position > end:
                raise CorruptRecords(f"length {length} where {end - body} bytes remain")
            record = _read_body(payload[body:position], header)
        except IndexError:
            raise CorruptRecords(f"record {index} of the batch: a field reaches behind its end") from None
        except RecordsError as failure:
            raise CorruptRecords(f"record {index} of the batch: {failure.message}") from failure
        delta = record.offset - header.base_offset
        if not last_delta < delta <= header.last_offset_delta:
            raise CorruptRecords(
                f"record {index} of the batch has the offset delta {delta}, expected one of "
                f"{last_delta + 1} to {header.last_offset_delta}"
            )
        last_delta = delta
        if log_append:
            record = record._replace(timestamp=header.max_timestamp)
        if check_timestamps and abs(record.timestamp) > MAX_TIMESTAMP_MS:
            raise CorruptRecords(
                f"record {index} of the batch has the timestamp {record.timestamp} ms, which is more than a timestamp "
                "holds; it can be read without the column `timestamp`"
            )
        yield record
    if position != end:
        raise CorruptRecords(f"{end - position} bytes remain behind the {header.record_count} records of the batch")


def _read_body(body: memoryview, header: BatchHeader) -> Record:
    """One record, without its length."""
    timestamp_delta, position = read_varint(body, 1, bits=64)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    count, position = read_varint(body, position)
    if not 0 <= count <= (len(body) - position) // 2:
        raise CorruptRecords(f"{count} headers where {len(body) - position} bytes remain")
    if count > MAX_RECORD_HEADERS:
        raise too_many_headers(count)
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(body, position)
        if name is None:
            raise CorruptRecords("a header without a key")
        content, position = _read_bytes(body, position)
        headers.append((name.decode("utf-8", "replace"), content))
    if position != len(body):
        raise CorruptRecords(f"{len(body) - position} bytes remain behind its fields")
    return Record(
        header.base_offset + offset_delta, header.base_timestamp + timestamp_delta, key, value, tuple(headers)
    )


def _read_bytes(body: memoryview, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        return None, position
    if size > len(body) - position:
        raise CorruptRecords(f"a field of {size} bytes where {len(body) - position} remain")
    return bytes(body[position : position + size]), position + size
