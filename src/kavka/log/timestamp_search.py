"""TimestampSearch: the first record of a log that is not older than a time, or the first with the largest timestamp.

Decides which segment and which batch may hold the record, and reads them. That may take long: index files of segments
that nobody read for a while, all headers of a segment whose timestamps went back, a batch to be inflated. So a worker
takes the steps, and what the log and its segments know is taken from them beforehand. It must not touch those
themselves: they belong to the event loop, and go on changing.

Invariants
  I1  A step handles up to STEP_ITEMS headers, one index file or STEP_ITEMS records, and inflates one batch at most.
  I2  Nothing but found, learned and the steps' own state is written. Whoever runs the steps looks whether the log still
      is what it was, and begins anew where it is not.
  I3  An index only narrows the search: where it lies, all of the segment is read.
  I4  What cannot be read raises; nothing is skipped, since the record may have been there.

Source: Kafka's UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp, RecordBatch.offsetOfMaxTimestamp.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.filesystem import File, FileSystem
from kavka.log.decide.indexes import TIME_ENTRY_SIZE, CorruptIndex, OffsetIndex, TimeEntry, TimeIndex
from kavka.log.record_scan import header_at, scan_batches, scan_headers
from kavka.log.segment import Segment, SegmentView, TimestampedOffset
from kavka.log.unified_log import UnifiedLog
from kavka.model import NO_TIMESTAMP, Offset
from kavka.records.batch import BatchHeader

STEP_ITEMS: Final = 500
"""About a millisecond: the event loop waits for a worker's next bytecode no longer than for any other."""
_Steps = Generator[None, None, None]


class Learned(NamedTuple):
    """What was read of a segment's index files, for the segment to know from now on."""

    segment: Segment
    largest: TimeEntry
    indexes: tuple[OffsetIndex, TimeIndex] | None


class TimestampSearch:
    """Iterate `steps` to their end; then `found` is the record, or None if the log has none.

    `timestamp` in ms; None asks for the largest of the log. Records below `start_offset` do not count for a time.
    """

    def __init__(
        self, filesystem: FileSystem, views: Sequence[SegmentView], timestamp: int | None, start_offset: Offset
    ) -> None:
        self.views = views
        self.found: TimestampedOffset | None = None
        self.unreadable: Offset | None = None
        """The base offset of the batch that could not be read, where a step raised for one."""
        self._filesystem = filesystem
        self._timestamp = timestamp
        self._start_offset = start_offset
        self._learned: dict[Segment, Learned] = {}
        self._misled: set[Segment] = set()
        """Segments whose time index promised what no batch has."""

    @classmethod
    def of(cls, log: UnifiedLog, timestamp: int | None) -> TimestampSearch:
        """The search in those segments of `log` that may have the record, as far as they know; for a worker.

        Call `teach` afterwards, if it `still_holds_for` the log.
        """
        with_records = [segment for segment in log.segments if segment.size]
        views = [segment.view() for segment in with_records if timestamp is None or segment.may_reach(timestamp)]
        return cls(log.filesystem, views, timestamp, log.log_start_offset)

    def still_holds_for(self, log: UnifiedLog) -> bool:
        """True if the log still has everything that was read."""
        return {view.segment for view in self.views} <= set(log.segments)

    def teach(self) -> None:
        """Gives the segments what the search read of their index files. For the event loop, after the last step."""
        for learned in self._learned.values():
            learned.segment.learn(learned.largest, learned.indexes)

    def steps(self) -> Iterator[None]:
        """Raises `StorageError`; FileNotFoundError where a file has gone meanwhile; and `RecordsError` with the code to
        answer where records cannot be read, `CorruptRecords` where there are none."""
        if self._timestamp is None:
            yield from self._find_largest()
            return
        for view in self.views:
            largest = yield from self._largest(view)
            if largest.timestamp >= self._timestamp:
                yield from self._find_in(view, self._timestamp)
                if self.found is not None:
                    return

    # -- a time

    def _find_in(self, view: SegmentView, timestamp: int) -> _Steps:
        offset_index, time_index = yield from self._indexes(view)
        offset = max(time_index.offset_before(timestamp), self._start_offset)
        yield from self._find_from(view, self._start(view, offset_index, offset), timestamp)

    def _find_from(self, view: SegmentView, start: int, timestamp: int) -> _Steps:
        for number, (position, header) in enumerate(scan_headers(self._file(view), start, view.size), 1):
            if not number % STEP_ITEMS:
                yield
            if header.max_timestamp >= timestamp and header.last_offset >= self._start_offset:
                yield from self._look_into(view, position, header, timestamp, or_later=True)
                if self.found is not None:
                    return

    # -- the largest

    def _find_largest(self) -> _Steps:
        largest: list[TimeEntry] = []
        for view in self.views:
            entry = yield from self._largest(view)
            largest.append(entry)
        while largest:
            number = max(range(len(largest)), key=lambda number: largest[number].timestamp)
            view = self.views[number]
            yield from self._find_exactly(view, largest[number])
            if self.found is not None or view.segment in self._misled:
                return
            # No batch has it: the index lies (I3).
            self._misled.add(view.segment)
            largest[number] = yield from self._largest_header(view)
            self._learned[view.segment] = Learned(view.segment, largest[number], None)

    def _find_exactly(self, view: SegmentView, largest: TimeEntry) -> _Steps:
        """Finds the first record with this timestamp in the first batch that has it, from the entry's offset on."""
        offset_index, _ = yield from self._indexes(view)
        start = self._start(view, offset_index, largest.offset)
        for number, (position, header) in enumerate(scan_headers(self._file(view), start, view.size), 1):
            if not number % STEP_ITEMS:
                yield
            if header.max_timestamp == largest.timestamp:
                yield from self._look_into(view, position, header, largest.timestamp, or_later=False)
                return

    # -- what both need

    def _start(self, view: SegmentView, offset_index: OffsetIndex, offset: Offset) -> int:
        """Where a search for `offset` begins; 0 where the index may lie. If the records do, that shows again."""
        start = offset_index.position_for(offset)
        if not start:
            return 0
        try:
            # The batch of an entry holds an offset that is not above the one looked for.
            return start if header_at(self._file(view), start, view.size).base_offset <= offset else 0
        except CorruptRecords:
            return 0

    def _look_into(
        self, view: SegmentView, position: int, header: BatchHeader, timestamp: int, *, or_later: bool
    ) -> _Steps:
        """Finds the first record of the batch with this timestamp, or a later one."""
        self.unreadable = header.base_offset
        _, batch = next(scan_batches(self._file(view), position, view.size))
        try:
            records = batch.records()
        except RecordsError as failure:
            # What Kafka answers where a codec fails; a client would ask again for what is corrupt.
            raise RecordsError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.message) from failure
        for number, record in enumerate(records, 1):
            if not number % STEP_ITEMS:
                yield
            if or_later:
                is_it = record.timestamp >= timestamp and record.offset >= self._start_offset
            else:
                is_it = record.timestamp == timestamp
            if is_it:
                self.found = TimestampedOffset(record.timestamp, record.offset, header.partition_leader_epoch)
                break
        self.unreadable = None

    def _largest(self, view: SegmentView) -> Generator[None, None, TimeEntry]:
        """The largest timestamp of a segment, and the last offset of its batch."""
        largest = view.largest
        if largest is None:
            yield
            largest = self._last_entry(view)
            if largest is None:
                _, time_index = yield from self._indexes(view)
                largest = time_index.last_entry()
            if largest is None:
                largest = yield from self._largest_header(view)
            self._learned.setdefault(view.segment, Learned(view.segment, largest, None))
        return largest

    def _last_entry(self, view: SegmentView) -> TimeEntry | None:
        """The last entry of the time index's file, read without the others. None if it cannot be told."""
        try:
            file = self._filesystem.open(view.time_index_path, read_only=True)
        except FileNotFoundError:
            return None
        size = file.size()
        if not size or size % TIME_ENTRY_SIZE:
            return None
        tail = file.read_at(max(size - 2 * TIME_ENTRY_SIZE, 0), 2 * TIME_ENTRY_SIZE)
        try:
            index = TimeIndex.parse(tail, view.base_offset)
        except CorruptIndex:
            return None
        # Kafka lays its files out at full size: zeros are no entries.
        is_whole = len(index) == len(tail) // TIME_ENTRY_SIZE and not index.may_be_blank
        return index.last_entry() if is_whole else None

    def _largest_header(self, view: SegmentView) -> Generator[None, None, TimeEntry]:
        largest = TimeEntry(NO_TIMESTAMP, view.base_offset)
        for number, (_, header) in enumerate(scan_headers(self._file(view), 0, view.size), 1):
            if not number % STEP_ITEMS:
                yield
            if header.max_timestamp > largest.timestamp:
                largest = TimeEntry(header.max_timestamp, header.last_offset)
        return largest

    def _indexes(self, view: SegmentView) -> Generator[None, None, tuple[OffsetIndex, TimeIndex]]:
        """The segment's indexes. Empty ones if they lie or are damaged: searches then read all of the segment."""
        if view.segment in self._misled:
            return OffsetIndex(view.base_offset), TimeIndex(view.base_offset)
        if view.indexes is not None:
            return view.indexes
        known = self._learned.get(view.segment)
        if known is not None and known.indexes is not None:
            return known.indexes
        try:
            offset_index = OffsetIndex.parse(self._filesystem.read(view.offset_index_path), view.base_offset, view.size)
            yield
            time_index = TimeIndex.parse(self._filesystem.read(view.time_index_path), view.base_offset)
            yield
        except (CorruptIndex, FileNotFoundError):
            return OffsetIndex(view.base_offset), TimeIndex(view.base_offset)
        if time_index.may_be_blank:
            return offset_index, TimeIndex(view.base_offset)
        largest = time_index.last_entry()
        if largest is not None:
            self._learned[view.segment] = Learned(view.segment, largest, (offset_index, time_index))
        return offset_index, time_index

    def _file(self, view: SegmentView) -> File:
        return view.file or self._filesystem.open(view.log_path, read_only=True)
