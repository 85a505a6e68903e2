"""What an observer knows of a log: where its batches end, and a digest of any stretch of them.

Decides whether two logs are the same between two offsets, at the cost of a few look-ups: a batch's identity (base
offset, leader epoch, CRC) is hashed once, when it is seen first, and the sums of the hashes are kept. Sums, and no
chain: so logs that begin at different offsets, as records were deleted from one earlier, are compared on what both
have.

    I1  `ends` rises strictly; `sums[i]` is `_before` and the hashes of all batches up to the one that ends at
        `ends[i]`, `epochs[i]` the leader epoch of that one
    I2  nothing is read twice: `follow` reads what is new, and as much of the last batch as tells that it is the same
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kavka.records.batch import iterate_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kavka.log.unified_log import UnifiedLog
    from kavka.model import LeaderEpoch, Offset
    from kavka.records.batch import BatchHeader

READ_BYTES: Final = 64 * 1024 * 1024


class LogMirror:
    """Batch ends and sums of one replica's log, or of what is committed."""

    __slots__ = ("_before", "ends", "epochs", "start", "sums")

    def __init__(self) -> None:
        self.start: Offset = 0
        self.ends: list[Offset] = []
        self.sums: list[int] = []
        self.epochs: list[LeaderEpoch] = []
        self._before = 0
        """The sum of what is no longer in the lists."""

    @property
    def end(self) -> Offset:
        return self.ends[-1] if self.ends else self.start

    def follow(self, log: UnifiedLog) -> bool:
        """Takes over what changed; whether anything did."""
        if log.log_end_offset == self.end and log.log_start_offset == self.start and self._last_is_there(log):
            return False
        self._begin_at(log.log_start_offset)
        keep = bisect_right(self.ends, log.log_end_offset)
        del self.ends[keep:], self.sums[keep:], self.epochs[keep:]
        while self.ends and not self._last_is_there(log):
            self.ends.pop()
            self.sums.pop()
            self.epochs.pop()
        offset = self.end
        total = self.sums[-1] if self.sums else self._before
        while offset < log.log_end_offset:
            result = log.read(offset, READ_BYTES, max_offset=log.log_end_offset, min_one_batch=True)
            for chunk in result.chunks:
                for header in _headers(chunk.tobytes()):
                    total += _identity(header)
                    self.ends.append(header.last_offset + 1)
                    self.sums.append(total)
                    self.epochs.append(header.partition_leader_epoch)
            offset = result.next_offset
        return True

    def _begin_at(self, start: Offset) -> None:
        """The log starts here now."""
        if start < self.start:  # It was begun anew.
            self.ends.clear()
            self.sums.clear()
            self.epochs.clear()
        gone = bisect_right(self.ends, start)
        if gone:
            self._before = self.sums[gone - 1]
            del self.ends[:gone], self.sums[:gone], self.epochs[:gone]
        self.start = start

    def _last_is_there(self, log: UnifiedLog) -> bool:
        """Whether the last batch known is still the one that the log has there."""
        if not self.ends:
            return True
        begin = self.ends[-2] if len(self.ends) > 1 else self.start
        if self.ends[-1] > log.log_end_offset or begin < log.log_start_offset:
            return False
        before = self.sums[-2] if len(self.sums) > 1 else self._before
        result = log.read(begin, 1, max_offset=log.log_end_offset, min_one_batch=True)
        for chunk in result.chunks:
            for header in _headers(chunk.tobytes()):
                return before + _identity(header) == self.sums[-1]
        return False

    def extend(self, other: LogMirror, bound: Offset) -> None:
        """Takes what `other` has behind this one's end, up to `bound`, and begins no earlier than it."""
        if other.start > self.start:
            self._begin_at(other.start)
        have, keep = bisect_right(other.ends, self.end), bisect_right(other.ends, bound)
        shift = (self.sums[-1] if self.sums else self._before) - other._sum_before(have)
        self.ends += other.ends[have:keep]
        self.epochs += other.epochs[have:keep]
        self.sums += [total + shift for total in other.sums[have:keep]]

    def stretch(self, start: Offset, end: Offset) -> tuple[Offset, int]:
        """(end of the last batch that ends at or before `end`, sum of the batches that end behind `start` up to it)."""
        first, last = bisect_right(self.ends, start), bisect_right(self.ends, end)
        if last <= first:
            return start, 0
        return self.ends[last - 1], self.sums[last - 1] - self._sum_before(first)

    def _sum_before(self, index: int) -> int:
        return self.sums[index - 1] if index else self._before


def differ(one: LogMirror, other: LogMirror, bound: Offset) -> str:
    """How the two differ below `bound`, in what both have; empty if they do not."""
    start = max(one.start, other.start)
    if start >= bound:
        return ""
    here, there = one.stretch(start, bound), other.stretch(start, bound)
    return "" if here == there else f"from {start} to {bound}: {here} and {there}"


def _headers(data: bytes) -> Iterator[BatchHeader]:
    return (batch.header for batch in iterate_batches(memoryview(data)))


def _identity(header: BatchHeader) -> int:
    return zlib.crc32(b"%d %d %d" % (header.base_offset, header.partition_leader_epoch, header.crc))
