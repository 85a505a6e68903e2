"""RecordsSurvey: what a broker must know of all records of a batch, found without making a record object.

Decides whether bytes are the announced number of well-formed records, and what a broker must know of them: the range of
their timestamps, whether all have keys, whether their offsets count up. It must not know codecs, topics, or which
records are unwanted: to name single records, use `kavka.records.record.walk_records`.

A record has only its own length, so records are walked one after another, at about 0.4 us each. But producers often
send many records with the same layout: the same lengths at the same places, and other bytes between them. Whether the
next records have the layout of the first is checked for all of them at once: the bytes at one place of each record are
a slice of the payload with a step, which C makes and compares at about 1 ns for each record and place. The number of
records that are tried together grows while they are alike, and starts small again when they are not, so that a failed
try costs little.

Invariants
  I1  What `survey` accepts, and what it answers, is what `walk_records` reads.
  I2  Time and memory are linear in the payload, whatever its bytes are. Payloads that are deflated very small can still
      keep a broker for seconds, so that it may bound how many records and headers are looked at one by one.

Source: as `kavka.records.record`; Kafka's DefaultRecord.readFrom for what is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.errors import ErrorCode, RecordsError
from kavka.model import new_tuple
from kavka.records.compression import Buffer
from kavka.records.record import (
    MIN_RECORD_SIZE,
    UNBOUNDED,
    malformed,
    possible_headers,
    read_varint,
    skip_headers,
    too_many_parts,
)

LEAST_ALIKE = 24
"""Fewer records than this are walked: to find out that they are alike takes longer."""
WALKED_AT_ONCE = 64
"""Records that are tried together at first, and that are walked where they are not alike."""
WINDOW_GROWTH = 8
MAX_PLACES = 64
"""Bytes of a record that tell lengths and counts. One with more of them, from headers, is walked."""

_BLOCK = 1 << 13
"""Offset deltas below it have two bytes at most; from here on the two lower ones of three bytes repeat."""
_ONE_BYTE = bytes(range(0, 128, 2))
_LOW_BYTES = bytes(2 * delta & 0x7F | 0x80 for delta in range(_BLOCK))
_HIGH_BYTES = bytes(2 * delta >> 7 for delta in range(_BLOCK))
_MIDDLE_BYTES = bytes(byte | 0x80 for byte in _HIGH_BYTES)
_LAST_OF_VARINT = bytes(range(0x80))
_MOST_VARINT_BYTES = 10
_LAST_OF_LONGEST = b"\x00\x01"
"""Of ten bytes the last one has the highest of 64 bits. What it has beside that is lost, and would not compare."""
_MORE_OF_VARINT = bytes(range(0x80, 0x100))
_LONG_MAX = (1 << 63) - 1


class RecordsSurvey(NamedTuple):
    """Timestamp deltas in ms, as the records say them: their sums with a base may leave the 64 bits."""

    min_timestamp_delta: int
    max_timestamp_delta: int
    all_have_keys: bool
    counts_up: bool
    """Whether the offset deltas are 0, 1, 2, ..."""


class _Layout(NamedTuple):
    """Where in a record its parts are, counted from its start."""

    size: int
    places: list[int]
    """The bytes of all lengths and counts: what records that are alike have in common."""
    timestamp: int
    offset: int
    key: int
    """Where these begin; each ends where the next one begins."""


class _Walk:
    """`position` is where record `index` starts."""

    __slots__ = ("all_have_keys", "counts_up", "data", "index", "max_delta", "min_delta", "parts_left", "position")

    def __init__(self, data: bytes, most_parts: int) -> None:
        self.data = data
        self.parts_left = most_parts
        self.position = self.index = 0
        self.min_delta, self.max_delta = _LONG_MAX, ~_LONG_MAX
        self.all_have_keys = self.counts_up = True


def survey(payload: Buffer, count: int, *, most_parts: int = UNBOUNDED) -> RecordsSurvey:
    """Of `count` records, at least one, that should fill `payload`.

    Raises `RecordsError(INVALID_RECORD)` where a record is malformed, or where there are more or fewer, and
    `RecordsError(MESSAGE_TOO_LARGE)` behind `most_parts` records and headers that are not laid out alike.
    """
    data = bytes(payload)
    end = len(data)
    if not 0 < count * MIN_RECORD_SIZE <= end:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"{count} records cannot fit into {end} bytes")
    walk = _Walk(data, most_parts)
    if count < LEAST_ALIKE:
        _walk_singly(walk, count)
    else:
        _walk_many(walk, count)
    if walk.position != end:
        raise RecordsError(
            ErrorCode.INVALID_RECORD,
            f"{end - walk.position} bytes follow the last of the {count} records",
        )
    return new_tuple(RecordsSurvey, (walk.min_delta, walk.max_delta, walk.all_have_keys, walk.counts_up))


def _walk_many(walk: _Walk, count: int) -> None:
    """Moves behind `count` records, by many at once where they are laid out alike."""
    window = WALKED_AT_ONCE
    while walk.index < count:
        tried = min(window, count - walk.index)
        taken = _take_alike(walk, tried) if tried >= LEAST_ALIKE else 0
        if taken != tried:
            # A try that ends early takes as long as a walk.
            walk.parts_left -= WALKED_AT_ONCE
            if walk.parts_left < 0:
                raise too_many_parts(walk.index)
        if not taken:
            _walk_singly(walk, min(count, walk.index + WALKED_AT_ONCE))
        window = window * WINDOW_GROWTH if taken == tried else WALKED_AT_ONCE


def _take_alike(walk: _Walk, tried: int) -> int:
    """Moves behind those of the next `tried` records that are laid out as the first of them; how many, perhaps none."""
    data, start, index = walk.data, walk.position, walk.index
    layout = _layout(data, start)
    if layout is None:
        return 0
    size, places, timestamp, offset, key = layout
    expected = _expected_deltas(index, key - offset)
    if not expected:
        return 0
    taken = min(tried, (len(data) - start) // size, len(expected[0]))
    if taken < LEAST_ALIKE:
        return 0
    for place in places:
        position = start + place
        taken = _leading(data[position : position + size * (taken - 1) + 1 : size], data[position : position + 1])
        if taken < LEAST_ALIKE:
            return 0
    columns = [data[start + place : start + size * taken : size] for place in range(timestamp, offset)]
    last = _LAST_OF_LONGEST if len(columns) == _MOST_VARINT_BYTES else _LAST_OF_VARINT
    for column in columns:
        taken = min(taken, _leading(column, last if column is columns[-1] else _MORE_OF_VARINT))
    offsets = (data[start + place : start + size * taken : size] for place in range(offset, key))
    if taken < LEAST_ALIKE or any(column != part[:taken] for column, part in zip(offsets, expected, strict=True)):
        return 0
    for delta in _extremes([column[:taken] for column in columns]):
        walk.min_delta, walk.max_delta = min(walk.min_delta, delta), max(walk.max_delta, delta)
    # The key's length is one of the places: what the first record has, all have.
    walk.all_have_keys = walk.all_have_keys and read_varint(data, start + key)[0] >= 0
    walk.position, walk.index = start + size * taken, index + taken
    return taken


def _leading(column: bytes, allowed: bytes) -> int:
    """How many bytes at the front of `column` are among `allowed`."""
    if not column.translate(None, allowed):
        return len(column)
    return len(column) - len(column.lstrip(allowed))


def _extremes(columns: list[bytes]) -> Iterable[int]:
    """The least and the greatest of equally wide varints, which are given byte by byte; perhaps others of them too."""
    if len(columns) == 1:
        return [byte >> 1 ^ -(byte & 1) for byte in set(columns[0])]
    # The byte of the highest bits first, so that they compare as numbers do: the even ones stand for 0, 1, 2, ...,
    # the odd ones for -1, -2, -3, ...
    distinct = set(zip(*reversed(columns), strict=True))
    odd = {digits for digits in distinct if digits[-1] & 1}
    return [
        read_varint(bytes(reversed(digits)), 0, bits=64)[0]
        for numbers in (odd, distinct - odd)
        if numbers
        for digits in (min(numbers), max(numbers))
    ]


def _expected_deltas(index: int, width: int) -> tuple[bytes, ...]:
    """Byte by byte, the offset deltas from `index` on that are `width` bytes wide; empty if they have another width."""
    if index < len(_ONE_BYTE):
        return (_ONE_BYTE[index:],) if width == 1 else ()
    block, within = divmod(index, _BLOCK)
    if not block:
        return (_LOW_BYTES[within:], _HIGH_BYTES[within:]) if width == 2 else ()
    if width != 3 or block >= 0x80:
        return ()
    return (_LOW_BYTES[within:], _MIDDLE_BYTES[within:], bytes((block,)) * (_BLOCK - within))


def _layout(data: bytes, start: int) -> _Layout | None:
    """The layout of the record at `start`. None if it is malformed, where it has many headers, or where the record
    behind it is seen to be longer or shorter, which is the usual case where records are not alike."""
    places: list[int] = []

    def measure(position: int) -> tuple[int, int]:
        size, behind = read_varint(data, position)
        places.extend(range(position - start, behind - start))
        return max(size, 0), behind

    try:
        size, position = measure(start)
        end = position + size
        if data[end : end + len(places)] != data[start:position]:
            return None
        timestamp = position + 1
        _, offset = read_varint(data, timestamp, bits=64)
        _, key = read_varint(data, offset)
        size, position = measure(key)
        size, position = measure(position + size)
        header_count, behind = read_varint(data, position + size)
        places.extend(range(position + size - start, behind - start))
        if not 0 <= 2 * header_count <= MAX_PLACES:
            return None
        for _ in range(header_count):
            name_size, position = read_varint(data, behind)
            if name_size < 0:
                return None
            places.extend(range(behind - start, position - start))
            size, behind = measure(position + name_size)
            behind += size
    except (IndexError, RecordsError):
        return None
    if behind != end or len(places) > MAX_PLACES:
        return None
    return _Layout(end - start, places, timestamp - start, offset - start, key - start)


def _walk_singly(walk: _Walk, stop: int) -> None:
    """Moves on to the record `stop`. Varints of one or two bytes, as nearly all are, are read in place."""
    data, position = walk.data, walk.position
    end = len(data)
    min_delta, max_delta = walk.min_delta, walk.max_delta
    all_have_keys, counts_up = walk.all_have_keys, walk.counts_up
    index = walk.index
    try:
        for index in range(walk.index, stop):
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
            delta = data[position + 1]
            position += 2
            if delta >= 0x80:
                delta, position = read_varint(data, position - 1, bits=64)
            else:
                delta = delta >> 1 ^ -(delta & 1)
            if delta > max_delta:
                max_delta = delta
            if delta < min_delta:
                min_delta = delta
            delta = data[position]
            position += 1
            if delta >= 0x80:
                following = data[position]
                if following < 0x80:
                    position += 1
                    if delta & 0x7F | following << 7 != index << 1:
                        counts_up = False
                else:
                    delta, position = read_varint(data, position - 1)
                    if delta != index:
                        counts_up = False
            elif delta != index << 1:
                counts_up = False
            size = data[position]
            position += 1
            if size >= 0x80:
                size, position = read_varint(data, position - 1)
                if size >= 0:
                    position += size
                else:
                    all_have_keys = False
            elif size & 1:
                all_have_keys = False
            else:
                position += size >> 1
            size = data[position]
            position += 1
            if size >= 0x80:
                following = data[position]
                if following < 0x80:
                    position += 1
                    if not size & 1:
                        position += (size & 0x7F | following << 7) >> 1
                else:
                    size, position = read_varint(data, position - 1)
                    if size > 0:
                        position += size
            elif not size & 1:
                position += size >> 1
            if data[position]:
                walk.parts_left -= possible_headers(data, position, record_end)
                if walk.parts_left < 0:
                    raise too_many_parts(index)
                position = skip_headers(data, position, record_end, index)
            else:
                position += 1
            if position != record_end:
                raise malformed(index, f"record should end at byte {record_end} and ends at {position}")
    except IndexError:
        raise malformed(index, "a field reaches behind the end of the records") from None
    walk.position, walk.index = position, stop
    walk.min_delta, walk.max_delta = min_delta, max_delta
    walk.all_have_keys, walk.counts_up = all_have_keys, counts_up
