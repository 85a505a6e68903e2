"""BuriedRecords: what the log says of the offsets whose dead letters are due.

Decides which of them never had a record, and whose keys and values a dead letter may have. Must not know what a dead
letter says or where it goes, nor how the log is read.

    I1  an offset counts as one without a record only where the log says so: a transaction marker, or a hole between
        records that compaction left. What cannot be read, and what lies below the log's start, had one
    I2  what is copied is bounded: `most_bytes` of keys and values, and a batch that inflates to more than
        MAX_INFLATED_BYTES is not copied from

Source: ShareGroupDLQRecordFetcher of Apache Kafka 4.4.0. It has no I1: Kafka writes a dead letter, with headers alone,
of each offset between two records of a batch that was delivered too often, and of transaction markers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from kavka.errors import RecordsError
from kavka.model import Offset
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.share.decide.spans import Span

MAX_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""A batch that is larger is not copied from."""

Content = tuple[bytes | None, bytes | None]
"""A record's key and value."""


class BuriedRecords:
    """Of the offsets in `spans`. `most_bytes`: how much is copied of them; None for nothing, so that batches without
    holes are not inflated.

    `contents` has what was copied, `missing` the offsets without a record. Where `is_full`, only offsets below
    `known_to` were looked at.
    """

    def __init__(self, spans: Sequence[Span], most_bytes: int | None) -> None:
        self._offsets = [offset for span in spans for offset in range(span.first, span.last + 1)]
        self._next = 0
        self._copies = most_bytes is not None
        self._left = most_bytes or 0
        self.contents: dict[Offset, Content] = {}
        self.missing: set[Offset] = set()
        self.is_full = False
        self.known_to: Offset = 0

    @property
    def position(self) -> Offset | None:
        """Where to read next, None where all is known. Records between two spans are not read."""
        return None if self.is_full or self._next >= len(self._offsets) else self._offsets[self._next]

    def pass_to(self, offset: Offset) -> None:
        """The log begins there now."""
        self._next = bisect_left(self._offsets, offset, self._next)

    def take(self, data: bytes) -> None:
        """Looks at what was read from `position` on. Takes as long as it takes to inflate it."""
        try:
            for batch in iterate_batches(memoryview(data)):
                self._look_at(batch)
                if self.is_full:
                    return
        except RecordsError:
            pass  # There is no batch. At the position where it begins nothing is found then.

    def _look_at(self, batch: RecordBatch) -> None:
        header = batch.header
        begin = bisect_left(self._offsets, header.base_offset, self._next)
        self.missing.update(self._offsets[self._next : begin])
        end = bisect_right(self._offsets, header.last_offset, begin)
        wanted = self._offsets[begin:end]
        self._next = max(self._next, end)
        is_whole = header.record_count == header.last_offset - header.base_offset + 1
        if header.is_control:
            self.missing.update(wanted)
        elif wanted and (self._copies or not is_whole):
            self._look_into(batch, wanted)

    def _look_into(self, batch: RecordBatch, wanted: Sequence[Offset]) -> None:
        asked, found = frozenset(wanted), set()
        try:
            for record in batch.records(max_size=MAX_INFLATED_BYTES):
                if record.offset not in asked:
                    continue
                found.add(record.offset)
                if not self._copies:
                    continue
                self.contents[record.offset] = (record.key, record.value)
                self._left -= len(record.key or b"") + len(record.value or b"")
                if self._left <= 0:
                    self.is_full, self.known_to = True, record.offset + 1
                    break
        except RecordsError:
            return  # Nobody can read it, or it is too large for a copy: what lies behind it is next.
        self.missing.update(offset for offset in wanted if offset not in found)
