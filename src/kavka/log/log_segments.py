"""LogSegments: the segments of one log in the order of their offsets, and where among them an offset is.

Decides in which segment and at which position a batch is found, which places are remembered so that readers need no
search, and when the files of segments that are gone may be removed. It must not know why segments come and go, nor the
log's start, end or high watermark.

Invariants
  I1  There is a segment at any time; `active`, the last one, is the one that is appended to.
  I2  A place that is remembered is the start of a batch in a segment that is here. What takes bytes or segments away
      forgets all of them.
  I3  At most TAIL_POSITIONS and READ_POSITIONS places are remembered.

Source: Kafka's LogSegments and LocalLog.read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kavka.log.decide.indexes import AbortedTransaction, CorruptIndex
from kavka.log.log_loader import rebuild_aborted
from kavka.log.segment import TXN_INDEX_SUFFIX, Segment
from kavka.logger import Logger
from kavka.model import Offset

TAIL_POSITIONS = 32
"""Batches at the end of the active segment whose positions are remembered: where readers of the tail are."""
READ_POSITIONS = 64
"""Places where readers stopped that are remembered, so that they go on without a search."""

_logger = Logger(__name__)


class PendingRemoval(NamedTuple):
    """A renamed file that is removed at `due_ms`, by the wall clock. If the clock is set back, the file stays for as
    much longer. If it is set forward, the file goes early, which no reader that has it open notices."""

    due_ms: int
    path: str


class LogSegments:
    """The segments of one log. There is at least one."""

    __slots__ = ("active", "bases", "listed", "read_ends", "removals", "tail")

    def __init__(self, segments: list[Segment]) -> None:
        self.listed = segments
        """By base offset; the last one is `active`."""
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.tail: dict[Offset, int] = {}
        """Offset -> position of the last batches of the active segment. Who appends one notes it here."""
        self.read_ends: dict[Offset, tuple[Segment, int]] = {}
        """Offset -> (segment, position) of the batch that begins with it."""
        self.removals: list[PendingRemoval] = []
        """Renamed files of segments that are gone."""

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.listed)

    def number_of(self, offset: Offset) -> int:
        """The index of the segment that holds `offset`: the last one that begins at or before it. -1 for none."""
        return bisect_right(self.bases, offset) - 1

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The segments from the one that holds `offset` on."""
        return self.listed[max(self.number_of(offset), 0) :]

    def below(self, high_watermark: Offset, log_end_offset: Offset) -> list[Segment]:
        """The segments that lie wholly below the high watermark, oldest first."""
        ends = [*self.bases[1:], log_end_offset]
        return [
            segment
            for segment, end in zip(self.listed, ends, strict=True)
            if end <= high_watermark and (segment is not self.active or segment.size)
        ]

    def hold(self, segments: Sequence[Segment]) -> bool:
        """Whether these still are consecutive segments of the log."""
        first = self.number_of(segments[0].base_offset)
        return first >= 0 and self.listed[first : first + len(segments)] == list(segments)

    # -- where an offset is

    def locate(self, offset: Offset) -> tuple[Segment, int]:
        """The segment and position of the first batch that ends at or after `offset`."""
        for segment in self.from_offset(offset):
            found = segment.find(offset)
            if found is not None:
                place = (segment, found.position)
                if found.header.base_offset == offset:
                    self.remember(offset, *place)
                return place
        return self.active, self.active.size

    def position_of(self, offset: Offset, segment: Segment) -> int:
        """The position of the first batch of `segment` that is not wholly below `offset`."""
        if segment is self.active:
            position = self.tail.get(offset, -1)
            if position >= 0:
                return position
        place = self.read_ends.get(offset)
        if place is not None and place[0] is segment:
            return place[1]
        found = segment.find(offset)
        if found is None:
            return segment.size
        if found.header.base_offset == offset:
            self.remember(offset, segment, found.position)
        return found.position

    def remember(self, offset: Offset, segment: Segment, position: int) -> None:
        """Notes that the batch which begins with `offset` is at `position`. At the end of a segment the next one is
        meant."""
        ends = self.read_ends
        if position >= segment.size and segment is not self.active:
            segment, position = self.listed[bisect_right(self.bases, segment.base_offset)], 0
            if not segment.size and segment is not self.active:
                # Compaction emptied it: what follows is found by a search.
                return
        ends[offset] = (segment, position)
        if len(ends) > READ_POSITIONS:
            del ends[next(iter(ends))]

    def forget_places(self) -> None:
        self.read_ends.clear()
        self.tail.clear()

    def aborted_transactions(self, start_offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start_offset, end_offset).

        Raises `StorageError`, and `CorruptRecords` where an index is damaged and the records that would mend it too.
        """
        found: list[AbortedTransaction] = []
        for number in range(max(self.number_of(start_offset), 0), len(self.listed)):
            segment = self.listed[number]
            try:
                entries = segment.aborted_transactions
            except CorruptIndex as error:
                path = segment.path(TXN_INDEX_SUFFIX)
                _logger.warning("transaction index rebuilt", path=path, why=str(error))
                entries = rebuild_aborted(self.listed, number)
            for entry in entries:
                if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    # -- segments come and go

    def add(self, segment: Segment) -> None:
        """Makes `segment` the active one."""
        self.listed.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        self.tail.clear()
        segment.directory.note()

    def remove(self, first: int, end: int, due_ms: int) -> None:
        """Takes `listed[first:end]` out, which nobody finds any more, and renames their files, to be removed at
        `due_ms`. All places are forgotten, also where none is taken out. Raises `StorageError`.

        `active` stays as it is: who takes the last one out adds a new one, or calls `end_with_last`.
        """
        gone = self.listed[first:end]
        del self.listed[first:end], self.bases[first:end]
        self.forget_places()
        for segment in gone:
            self.removals.extend(PendingRemoval(due_ms, path) for path in segment.mark_deleted())
            segment.directory.note()

    def end_with_last(self) -> Segment:
        """Makes the last segment that is left the active one, after a truncation."""
        self.active = self.listed[-1]
        return self.active

    def insert(self, number: int, segment: Segment) -> None:
        """Puts a segment between others."""
        self.listed.insert(number, segment)
        self.bases.insert(number, segment.base_offset)

    def take_removals(self, now_ms: int) -> list[str]:
        """Paths of renamed files whose delay is over; the caller removes them, on any thread."""
        due = [removal.path for removal in self.removals if removal.due_ms <= now_ms]
        if due:
            self.removals = [removal for removal in self.removals if removal.due_ms > now_ms]
        return due


def fit(segment: Segment, position: int, max_bytes: int, *, min_one_batch: bool) -> tuple[int, Offset]:
    """(size, next offset) of the batches of `segment` from `position` that `max_bytes` hold.

    With `min_one_batch` the first one at least.
    """
    following = segment.batch_end_within(position, position + max_bytes)
    if following is not None:
        return following.position - position, following.header.base_offset
    first = segment.header_at(position)
    if first.size_bytes > max_bytes and not min_one_batch:
        return 0, first.base_offset
    return first.size_bytes, first.last_offset + 1


def ages_from_ms(segments: Iterable[Segment]) -> Iterator[int | None]:
    """From when each segment ages, found when it is asked for; None for one that compaction emptied."""
    return (segment.age_from_ms if segment.size else None for segment in segments)
