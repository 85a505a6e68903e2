"""RecordFields: where the fields of many records begin and end, found for all of them at once.

Decides by the bytes alone. It must not know batches, codecs, offsets or Arrow. Where anything is odd it answers None
and leaves it to the plain decoder to say what is wrong: there is one place that makes messages, and one that judges.

A record tells only its own length, so that the starts are found one after another: `hop` reads one varint a record, in
Python; where records in a row are equally long, which it tries now and then, of all of them in one step. The other
varints are then read for all records together, field by field, in NumPy.

Invariants
  I1  `hop` moves on with every record and ends after `count`, whatever the bytes are.
  I2  `locate` reads within `source` only, and answers only where every field of every record lies inside its record
      and fills it: each position is at least the one before, and the last is the record's end.
  I3  What `locate` answers is what `kavka.records.record.iterate_records` reads.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kavka.errors import CorruptRecords, RecordsError
from kavka.records.record import MIN_RECORD_SIZE, read_varint

Longs: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]

_VARINT_BYTES = 5
_VARLONG_BYTES = 10
HOPPED_SINGLY = 128
"""Records that are walked one by one before it is tried again whether those that follow are equally long."""
LEAST_ALIKE = 16
"""Fewer than so many are not worth the try, of some microseconds."""
MAX_RECORD_HEADERS = 1 << 20
"""Headers of one record that are read; a header has two bytes at least and costs 60 here, so that a record of nothing
else would grow to gigabytes. Kafka's own clients have no bound but their memory."""
WALKED_TOGETHER = 16
"""Headers are read in rounds, the first of every record, then the second. A round costs about 30 us however few
records it has left, so that the last few are walked one by one, at about 1 us a header."""


class HeaderFields(NamedTuple):
    """Headers in the order of their records: positions in the source, and sizes, -1 for null."""

    key_starts: Longs
    key_sizes: Longs
    value_starts: Longs
    value_sizes: Longs


class RecordFields(NamedTuple):
    """One element per record: positions in the source, and sizes, -1 for null."""

    offset_deltas: Longs
    timestamp_deltas: Longs
    key_starts: Longs
    key_sizes: Longs
    value_starts: Longs
    value_sizes: Longs
    header_counts: Longs
    headers: HeaderFields | None
    """None if no record has any."""


def hop(payload: memoryview, position: int, count: int, starts: array[int]) -> int | None:
    """Appends where each of the next `count` records starts; returns where the last one ends, None where none can.

    The end may lie behind that of the batch, which is for the caller to compare.
    """
    while count:
        taken, position = _hop_alike(payload, position, count, starts)
        count -= taken
        one_by_one = min(count, HOPPED_SINGLY)
        after = _hop_singly(payload, position, one_by_one, starts)
        if after is None:
            return None
        position = after
        count -= one_by_one
    return position


def _hop_alike(payload: memoryview, position: int, count: int, starts: array[int]) -> tuple[int, int]:
    """As `hop`, over records that are all as long as the first one; how many there were, and where the last one ends.

    As far as lengths of one or two bytes go: whether the next records say the same is asked of all of them at once.
    """
    if count < LEAST_ALIKE or position + 2 > len(payload):
        return 0, position
    first = payload[position]
    second = payload[position + 1] if first >= 0x80 else -1
    if second >= 0x80:
        return 0, position
    size = 1 + (first >> 1) if second < 0 else 2 + ((first & 0x7F | second << 7) >> 1)
    width = 1 if second < 0 else 2
    following = position + size
    if following + width > len(payload) or payload[following] != first:
        return 0, position
    fitting = min(count, (len(payload) - width - position) // size + 1)
    source = np.frombuffer(payload, dtype=np.uint8)
    end = position + (fitting - 1) * size + 1
    is_alike = source[position:end:size] == first
    if width == 2:
        is_alike &= source[position + 1 : end + 1 : size] == second
    taken = fitting if is_alike.all() else int(is_alike.argmin())
    starts.frombytes(np.arange(position, position + taken * size, size, dtype=np.int64).tobytes())
    return taken, position + taken * size


def _hop_singly(payload: memoryview, position: int, count: int, starts: array[int]) -> int | None:
    """As `hop`, record by record."""
    append = starts.append
    try:
        for _ in range(count):
            append(position)
            byte = payload[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            else:
                following = payload[position + 1]
                if following < 0x80:
                    # (byte & 0x7F | following << 7) >> 1, two bytes further on
                    position += (byte >> 1) + (following << 6) - 62
                else:
                    length, position = read_varint(payload, position)
                    if length < 0:
                        return None
                    position += length
    except (IndexError, RecordsError):
        return None
    return position


def locate(source: Bytes, starts: Longs, ends: Longs) -> RecordFields | None:
    """The fields of the records at `starts`, each of which should end at `ends`; None where one is malformed.

    Raises `CorruptRecords` for more than MAX_RECORD_HEADERS headers in one record.
    """
    try:
        lengths, position = _varints(source, starts, _VARINT_BYTES)
        if (lengths < MIN_RECORD_SIZE - 1).any() or (position + lengths != ends).any():
            return None
        timestamp_deltas, position = _varints(source, position + 1, _VARLONG_BYTES)
        offset_deltas, position = _varints(source, position, _VARINT_BYTES)
        key_sizes, key_starts = _varints(source, position, _VARINT_BYTES)
        value_sizes, value_starts = _varints(source, key_starts + np.maximum(key_sizes, 0), _VARINT_BYTES)
        header_counts, position = _varints(source, value_starts + np.maximum(value_sizes, 0), _VARINT_BYTES)
        headers = None
        if header_counts.any():
            if (header_counts < 0).any() or (header_counts > (ends - position) // 2).any():
                return None
            if (header_counts > MAX_RECORD_HEADERS).any():
                raise too_many_headers(int(header_counts.max()))
            headers = _locate_headers(source, position, ends, header_counts)
    except _OddVarintError:
        return None
    if (position != ends).any():
        return None
    return RecordFields(
        offset_deltas, timestamp_deltas, key_starts, key_sizes, value_starts, value_sizes, header_counts, headers
    )


def too_many_headers(count: int) -> CorruptRecords:
    """The message for a record with more than MAX_RECORD_HEADERS headers."""
    return CorruptRecords(f"a record with {count} headers, more than the {MAX_RECORD_HEADERS} that are read")


class _OddVarintError(Exception):
    """A varint with more bytes than it may have, or a header that does not fit into its record."""


def _varints(source: Bytes, position: Longs, max_bytes: int) -> tuple[Longs, Longs]:
    """(values, positions behind them) of the zigzag varints at `position`. Positions behind the source read its last
    byte; that they are behind is seen when the records' ends are compared."""
    byte = source.take(position, mode="clip")
    position = position + 1
    more = byte >= 0x80
    if not more.any():
        small = (byte >> 1).astype(np.int64)
        np.negative(small + 1, out=small, where=(byte & 1).astype(bool))
        return small, position
    bits = byte.astype(np.uint64)
    bits &= np.uint64(0x7F)
    long = np.flatnonzero(more)
    for index in range(1, max_bytes):
        following = source.take(position[long], mode="clip")
        bits[long] |= (following & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        position[long] += 1
        long = long[following >= 0x80]
        if not long.size:
            break
    else:
        raise _OddVarintError
    if max_bytes == _VARINT_BYTES:
        bits &= np.uint64(0xFFFFFFFF)
    values = (bits >> np.uint64(1)).astype(np.int64)
    values ^= -(bits & np.uint64(1)).astype(np.int64)
    return values, position


def _locate_headers(source: Bytes, position: Longs, ends: Longs, counts: Longs) -> HeaderFields:
    """Reads `counts` headers of each record, from `position` on, which is moved behind them."""
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    fields = HeaderFields(*(np.empty(total, np.int64) for _ in range(4)))
    active = np.flatnonzero(counts)
    read = 0
    while active.size > WALKED_TOGETHER:
        sizes, starts = _varints(source, position[active], _VARINT_BYTES)
        limit = ends[active]
        if (sizes < 0).any() or (starts + sizes > limit).any():
            raise _OddVarintError
        value_sizes, value_starts = _varints(source, starts + sizes, _VARINT_BYTES)
        after = value_starts + np.maximum(value_sizes, 0)
        if (after > limit).any():
            raise _OddVarintError
        slots = first[active] + read
        fields.key_starts[slots], fields.key_sizes[slots] = starts, sizes
        fields.value_starts[slots], fields.value_sizes[slots] = value_starts, np.maximum(value_sizes, -1)
        position[active] = after
        read += 1
        active = active[counts[active] > read]
    for record in active.tolist():
        slot = int(first[record]) + read
        position[record] = _walk_headers(
            source.data,
            int(position[record]),
            int(ends[record]),
            fields,
            range(slot, slot + int(counts[record]) - read),
        )
    return fields


def _walk_headers(data: memoryview, position: int, end: int, fields: HeaderFields, slots: range) -> int:
    try:
        for slot in slots:
            size, start = read_varint(data, position)
            if not 0 <= size <= end - start:
                raise _OddVarintError
            fields.key_starts[slot], fields.key_sizes[slot] = start, size
            size, start = read_varint(data, start + size)
            if size > end - start:
                raise _OddVarintError
            fields.value_starts[slot], fields.value_sizes[slot] = start, max(size, -1)
            position = start + max(size, 0)
    except (IndexError, RecordsError):
        raise _OddVarintError from None
    return position
