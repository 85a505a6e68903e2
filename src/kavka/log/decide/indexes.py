"""Indexes of a segment: offset to position, timestamp to offset, and the aborted transactions.

Decides which entry answers a look-up and whether a file's bytes can be believed. It must not know segments, files or
when an entry is due: it turns entries into bytes and bytes into entries, in memory.

Invariants
  I1  Entries only grow: offsets and positions of an offset index, timestamps and offsets of a time index.
  I2  Entries cost 8 (12) bytes each in memory, as on disk; no object per entry.
  I3  Bytes that break I1 or point outside the segment raise `CorruptIndex`; they are never used.

Source: Kafka's OffsetIndex, TimeIndex, TransactionIndex, AbortedTxn. All integers are big-endian.

| file       | offset, width: field                                                                        |
| .index     | 0, 4: offset - base offset; 4, 4: position in the .log                                      |
| .timeindex | 0, 8: timestamp, ms; 8, 4: last offset - base offset of the batch with that timestamp       |
| .txnindex  | 0, 2: version 0; 2, 8: producer id; 10, 8: first offset; 18, 8: last offset;                |
|            | 26, 8: last stable offset when the transaction ended                                        |
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import le, lt
from typing import NamedTuple

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
ABORTED_ENTRY = struct.Struct("!hqqqq")
TXN_INDEX_VERSION = 0
MAX_RELATIVE_OFFSET = (1 << 31) - 1
MAX_SEGMENT_BYTES = (1 << 31) - 1
"""A position in an offset index has 31 bits."""
_SWAPPED = sys.byteorder == "little"


class CorruptIndex(Exception):
    """An index file that contradicts itself or its segment. The index is rebuilt from the records."""


class OffsetEntry(NamedTuple):
    """A batch's last offset, and where in the .log the batch starts."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to here, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: a reader of committed records skips the producer's records in between."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the abort marker."""
    last_stable_offset: int


class OffsetIndex:
    """Sparse map from offsets to positions in one segment's .log."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def parse(cls, data: bytes, base_offset: int, log_size: int) -> OffsetIndex:
        """The entries of a file's bytes; `log_size` bounds the positions.

        Zeros behind the last entry (Kafka lays its index files out at full size and cuts them on a clean stop) are
        left out.
        """
        flat = _words(data, OFFSET_ENTRY_SIZE, "offset")
        if _SWAPPED:
            flat.byteswap()
        index = cls(base_offset)
        offsets, positions = flat[0::2], flat[1::2]
        count = _without_zero_tail(data, OFFSET_ENTRY_SIZE)
        del offsets[count:], positions[count:]
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= log_size):
            raise CorruptIndex(f"offset index: an entry lies outside of the segment's {log_size} bytes")
        if not all(map(lt, offsets, offsets[1:])) or not all(map(lt, positions, positions[1:])):
            raise CorruptIndex("offset index: entries are not in ascending order")
        index._offsets, index._positions = offsets, positions
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[OffsetEntry]:
        for offset, position in zip(self._offsets, self._positions, strict=True):
            yield OffsetEntry(self.base_offset + offset, position)

    def append(self, offset: int, position: int) -> None:
        """Adds an entry. An offset that is not above the last one, as after a roll-back, adds nothing."""
        relative = offset - self.base_offset
        if not self._offsets or relative > self._offsets[-1]:
            self._offsets.append(relative)
            self._positions.append(position)

    def position_for(self, offset: int) -> int:
        """Position from which a scan finds `offset`: that of the last entry not above it, or 0."""
        slot = bisect_right(self._offsets, offset - self.base_offset)
        return self._positions[slot - 1] if slot else 0

    def last_position_within(self, position: int) -> int:
        """The largest indexed batch start up to `position`, or 0."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def truncate(self, position: int) -> None:
        """Drops the entries of batches that start at or after `position`."""
        slot = bisect_left(self._positions, position)
        del self._offsets[slot:], self._positions[slot:]

    def tobytes(self, first: int = 0) -> bytes:
        """The file's bytes from entry number `first`."""
        flat = array("i", bytes(OFFSET_ENTRY_SIZE * (len(self._offsets) - first)))
        flat[0::2] = self._offsets[first:]
        flat[1::2] = self._positions[first:]
        if _SWAPPED:
            flat.byteswap()
        return flat.tobytes()


class TimeIndex:
    """Sparse map from timestamps to offsets in one segment."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> TimeIndex:
        """The entries in a file's bytes, without the zeros after the last one.

        A single entry of zeros is one: the first record of a segment may be of the begin of time.
        """
        words = _words(data, TIME_ENTRY_SIZE, "time")
        count = _without_zero_tail(data, TIME_ENTRY_SIZE) or int(len(data) == TIME_ENTRY_SIZE)
        index = cls(base_offset)
        # Three 32-bit words an entry: the first two are the halves of the timestamp.
        halves = array("i", bytes(8 * count))
        halves[0::2], halves[1::2] = words[0 : 3 * count : 3], words[1 : 3 * count : 3]
        timestamps, offsets = array("q", halves.tobytes()), words[2 : 3 * count : 3]
        if _SWAPPED:
            timestamps.byteswap()
            offsets.byteswap()
        if offsets and offsets[0] < 0:
            raise CorruptIndex("time index: an entry lies before the segment")
        if not all(map(lt, timestamps, timestamps[1:])) or not all(map(le, offsets, offsets[1:])):
            raise CorruptIndex("time index: entries are not in ascending order")
        index._timestamps, index._offsets = timestamps, offsets
        return index

    def __len__(self) -> int:
        return len(self._timestamps)

    def __iter__(self) -> Iterator[TimeEntry]:
        for timestamp, offset in zip(self._timestamps, self._offsets, strict=True):
            yield TimeEntry(timestamp, self.base_offset + offset)

    @property
    def may_be_blank(self) -> bool:
        """Whether the bytes were one entry of zeros: of a segment that is of the begin of time, or of a file that lost
        its content."""
        return len(self._timestamps) == 1 and not self._timestamps[0] and not self._offsets[0]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if its timestamp is larger than that of the last one."""
        if timestamp >= 0 and (not self._timestamps or timestamp > self._timestamps[-1]):
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def last_entry(self) -> TimeEntry | None:
        if not self._timestamps:
            return None
        return TimeEntry(self._timestamps[-1], self.base_offset + self._offsets[-1])

    def offset_before(self, timestamp: int) -> int:
        """Offset up to which every record is older than `timestamp`; a scan for it may start there."""
        slot = bisect_left(self._timestamps, timestamp)
        return self.base_offset + (self._offsets[slot - 1] if slot else 0)

    def truncate(self, offset: int) -> None:
        """Drops the entries of `offset` and above."""
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del self._timestamps[slot:], self._offsets[slot:]

    def tobytes(self, first: int = 0) -> bytes:
        """The file's bytes from entry number `first`."""
        timestamps, offsets = self._timestamps[first:], self._offsets[first:]
        if _SWAPPED:
            timestamps.byteswap()
            offsets.byteswap()
        halves = array("i", timestamps.tobytes())
        words = array("i", bytes(TIME_ENTRY_SIZE * len(offsets)))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return words.tobytes()


def parse_aborted(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """The entries of a .txnindex. Raises `CorruptIndex`."""
    if len(data) % ABORTED_ENTRY.size:
        raise CorruptIndex(f"transaction index: {len(data)} bytes are not a whole number of entries")
    entries = []
    for version, *fields in ABORTED_ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != TXN_INDEX_VERSION:
            raise CorruptIndex(f"transaction index: version {version}, expected {TXN_INDEX_VERSION}")
        if entry.last_offset < max(entry.first_offset, base_offset):
            raise CorruptIndex(f"transaction index: {entry} does not end in the segment at {base_offset}")
        entries.append(entry)
    return entries


def aborted_bytes(entry: AbortedTransaction) -> bytes:
    """One entry of a .txnindex."""
    return ABORTED_ENTRY.pack(TXN_INDEX_VERSION, *entry)


def _words(data: bytes, entry_size: int, kind: str) -> array[int]:
    """The file's 32-bit words, with their bytes in the file's order."""
    if len(data) % entry_size:
        raise CorruptIndex(f"{kind} index: {len(data)} bytes are not a whole number of entries of {entry_size}")
    return array("i", data)


def _without_zero_tail(data: bytes, entry_size: int) -> int:
    """Number of entries before the all-zero ones at the end."""
    return -(-len(data.rstrip(b"\0")) // entry_size)
