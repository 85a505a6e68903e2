"""One record inside a batch, and the zigzag varints that it is made of.

Decides where a record's fields begin and end. Knows nothing of headers of batches, codecs or logs.

Invariants
  I1  A length or count is believed only as far as bytes remain for it.
  I2  What is malformed raises `RecordsError(INVALID_RECORD)`, as Kafka's InvalidRecordException; never an IndexError.

Source: Kafka's protocol guide ("Record"). All integers but the attributes are zigzag varints; length -1 says null.

    length of the rest | attributes i8 (unused, 0) | timestamp delta (64 bit) | offset delta | key length | key |
    value length | value | header count | per header: key length | key (UTF-8) | value length | value
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from kavka.errors import ErrorCode, RecordsError
from kavka.records.compression import Buffer

Header: TypeAlias = tuple[str, bytes | None]

MIN_RECORD_SIZE = 7
"""Length, attributes, two deltas, null key, null value, no headers: one byte each."""
UNBOUNDED = 1 << 62
"""Bound on records and headers that bounds nothing."""
_SAFE_BASE = 1 << 62
_LONG_SPAN = 1 << 64
_LONG_HALF = 1 << 63
_MAX_VARINT_BITS = 32
_MAX_VARLONG_BITS = 64


class Record(NamedTuple):
    """A record as a reader sees it. `timestamp` is in ms since 1970, -1 for none; a null `value` is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def encode_varint(value: int) -> bytes:
    """`value` (signed, 32 or 64 bits) as a zigzag varint."""
    bits = value << 1 if value >= 0 else ~(value << 1)
    if bits < 0x80:
        return bytes((bits,))
    out = bytearray()
    while bits >= 0x80:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def add_timestamps(base: int, delta: int) -> int:
    """The sum in 64 bits, as in Java: after the largest number comes the smallest."""
    total = base + delta
    if -_LONG_HALF <= total < _LONG_HALF:
        return total
    return (total + _LONG_HALF) % _LONG_SPAN - _LONG_HALF


VARINTS = tuple(encode_varint(value) for value in range(1 << 13))
"""Varints of 0 to 8191, which covers nearly all lengths and offset deltas."""


def varint(value: int) -> bytes:
    """`encode_varint` by table for small non-negative values."""
    return VARINTS[value] if 0 <= value < 8192 else encode_varint(value)


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()
) -> bytes:
    """One record's bytes, its length in front."""
    body = b"".join(
        (
            b"\x00",
            varint(timestamp_delta),
            varint(offset_delta),
            b"\x01" if key is None else varint(len(key)),
            key or b"",
            b"\x01" if value is None else varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    return varint(len(body)) + body


def _encode_headers(headers: Iterable[Header]) -> bytes:
    encoded = [_encode_header(name, content) for name, content in headers]
    return varint(len(encoded)) + b"".join(encoded)


def _encode_header(name: str, content: bytes | None) -> bytes:
    key = name.encode()
    if content is None:
        return varint(len(key)) + key + b"\x01"
    return varint(len(key)) + key + varint(len(content)) + content


def iterate_records(
    payload: Buffer, count: int, *, base_offset: int, base_timestamp: int, log_append_time: int | None = None
) -> Iterator[Record]:
    """`count` records out of the inflated bytes of a batch, one at a time.

    `log_append_time` (ms) replaces the records' own timestamps. Raises `RecordsError(INVALID_RECORD)` where a record
    is malformed, or where `payload` holds more or fewer than `count`.
    """
    # The varints are read in place: one of one or two bytes, as nearly all are, costs no call.
    data = bytes(payload)
    end = len(data)
    position = 0
    # A delta of one byte cannot leave the 64 bits from such a base.
    is_near_the_edge = not -_SAFE_BASE < base_timestamp < _SAFE_BASE
    _check_count(count, end)
    for index in range(count):
        try:
            length = data[position]
            position += 1
            if length >= 0x80:
                following = data[position]
                if following < 0x80:
                    length = length & 0x7F | following << 7
                    length = length >> 1 ^ -(length & 1)
                    position += 1
                else:
                    length, position = read_varint(data, position - 1)
            else:
                length = length >> 1 ^ -(length & 1)
            record_end = position + length
            if length < MIN_RECORD_SIZE - 1 or record_end > end:
                raise malformed(index, f"record of {length} bytes where {end - position} remain")
            position += 1  # attributes
            delta = data[position]
            position += 1
            if delta >= 0x80:
                delta, position = read_varint(data, position - 1, bits=_MAX_VARLONG_BITS)
                timestamp = add_timestamps(base_timestamp, delta)
            elif is_near_the_edge:
                timestamp = add_timestamps(base_timestamp, delta >> 1 ^ -(delta & 1))
            else:
                timestamp = base_timestamp + (delta >> 1 ^ -(delta & 1))
            if log_append_time is not None:
                timestamp = log_append_time
            delta = data[position]
            position += 1
            if delta >= 0x80:
                following = data[position]
                if following < 0x80:
                    delta = delta & 0x7F | following << 7
                    delta = delta >> 1 ^ -(delta & 1)
                    position += 1
                else:
                    delta, position = read_varint(data, position - 1)
            else:
                delta = delta >> 1 ^ -(delta & 1)
            size = data[position]
            position += 1
            if size >= 0x80:
                following = data[position]
                if following < 0x80:
                    size = size & 0x7F | following << 7
                    size = size >> 1 ^ -(size & 1)
                    position += 1
                else:
                    size, position = read_varint(data, position - 1)
            else:
                size = size >> 1 ^ -(size & 1)
            key: bytes | None = None
            if size >= 0:
                key = data[position : position + size]
                position += size
            size = data[position]
            position += 1
            if size >= 0x80:
                following = data[position]
                if following < 0x80:
                    size = size & 0x7F | following << 7
                    size = size >> 1 ^ -(size & 1)
                    position += 1
                else:
                    size, position = read_varint(data, position - 1)
            else:
                size = size >> 1 ^ -(size & 1)
            value: bytes | None = None
            if size >= 0:
                value = data[position : position + size]
                position += size
            headers: tuple[Header, ...] = ()
            if data[position]:
                headers, position = _read_headers(data, position, record_end, index)
            else:
                position += 1
        except IndexError:
            raise malformed(index, "a field reaches behind the end of the records") from None
        if position != record_end:
            raise malformed(index, f"record should end at byte {record_end} and ends at {position}")
        yield Record(base_offset + delta, timestamp, key, value, headers)
    if position != end:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{end - position} bytes follow the last of the {count} records")


def walk_records(payload: Buffer, count: int, *, most_parts: int = UNBOUNDED) -> Iterator[tuple[int, int, bool]]:
    """(offset delta, timestamp delta, has a key) of each record, without making keys, values or headers.

    Checks and raises as `iterate_records` does, and `RecordsError(MESSAGE_TOO_LARGE)` behind `most_parts` records and
    headers.
    """
    data = bytes(payload)
    end = len(data)
    position = 0
    parts_left = most_parts
    _check_count(count, end)
    for index in range(count):
        try:
            length, position = read_varint(data, position)
            record_end = position + length
            if length < MIN_RECORD_SIZE - 1 or record_end > end:
                raise malformed(index, f"record of {length} bytes where {end - position} remain")
            timestamp_delta, position = read_varint(data, position + 1, bits=_MAX_VARLONG_BITS)
            offset_delta, position = read_varint(data, position)
            key_size, position = read_varint(data, position)
            value_size, position = read_varint(data, position + max(key_size, 0))
            position += max(value_size, 0)
            parts_left -= 1 + possible_headers(data, position, record_end)
            if parts_left < 0:
                raise too_many_parts(index)
            position = skip_headers(data, position, record_end, index)
        except IndexError:
            raise malformed(index, "a field reaches behind the end of the records") from None
        if position != record_end:
            raise malformed(index, f"record should end at byte {record_end} and ends at {position}")
        yield offset_delta, timestamp_delta, key_size >= 0
    if position != end:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{end - position} bytes follow the last of the {count} records")


def read_varint(data: Buffer, position: int, *, bits: int = _MAX_VARINT_BITS) -> tuple[int, int]:
    """(value, position behind it) of the zigzag varint at `position`.

    Raises IndexError at the end of `data` and `RecordsError(INVALID_RECORD)` for more than `bits` bits.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position
    result = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise RecordsError(ErrorCode.INVALID_RECORD, f"varint of more than {bits} bits at byte {position}")
    result &= (1 << bits) - 1
    return result >> 1 ^ -(result & 1), position


def _read_headers(data: bytes, position: int, record_end: int, index: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= (record_end - position) // 2:
        raise malformed(index, f"{count} headers where {record_end - position} bytes remain")
    headers: list[Header] = []
    for _ in range(count):
        size, position = read_varint(data, position)
        if not 0 <= size <= record_end - position:
            raise malformed(index, f"header key of {size} bytes where {record_end - position} remain")
        name = data[position : position + size].decode("utf-8", "replace")
        position += size
        size, position = read_varint(data, position)
        if size > record_end - position:
            raise malformed(index, f"header of {size} bytes where {record_end - position} remain")
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[position : position + size]))
            position += size
    return tuple(headers), position


def skip_headers(data: bytes, position: int, record_end: int, index: int) -> int:
    """The position after the headers at `position`. Raises as `iterate_records` and `read_varint` do."""
    count, position = read_varint(data, position)
    if not 0 <= count <= (record_end - position) // 2:
        raise malformed(index, f"{count} headers where {record_end - position} bytes remain")
    for _ in range(count):
        size, position = read_varint(data, position)
        if not 0 <= size <= record_end - position:
            raise malformed(index, f"header key of {size} bytes where {record_end - position} remain")
        size, position = read_varint(data, position + size)
        if size > record_end - position:
            raise malformed(index, f"header of {size} bytes where {record_end - position} remain")
        position += max(size, 0)
    return position


def possible_headers(data: bytes, position: int, record_end: int) -> int:
    """The number of headers, read at `position`, if there can be so many in the bytes that follow."""
    return max(min(read_varint(data, position)[0], (record_end - position) // 2), 0)


def _check_count(count: int, size: int) -> None:
    if not 0 <= count * MIN_RECORD_SIZE <= size:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{count} records cannot fit into {size} bytes")


def malformed(index: int, message: str) -> RecordsError:
    """The refusal of a batch whose record `index` is malformed."""
    return RecordsError(ErrorCode.INVALID_RECORD, f"record {index} of the batch: {message}")


def too_many_parts(index: int) -> RecordsError:
    """The refusal of a batch that is not looked at beyond record `index`."""
    return RecordsError(
        ErrorCode.MESSAGE_TOO_LARGE, f"the batch has too many records and headers: the check ended after record {index}"
    )
