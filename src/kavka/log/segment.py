"""Segment: one .log file of a partition with its indexes.

Decides where an offset or a timestamp is in the file, when an index entry is due, and when an index is wrong and must
be rebuilt. It must not know other segments, producers, epochs or the high watermark.

Invariants
  I1  `size` is how far the file may be read; bytes after it are never served.
  I2  Index entries live in memory and reach their files at `write_indexes` (roll, flush, close), not one by one: after
      an unclean stop they are rebuilt from the records. Only the transaction index is written with each entry, and
      synced with the records: nobody could tell later that one is missing.
  I3  An index only narrows a search. Every position from an index is checked against the batch there; a wrong index is
      rebuilt, and the answer is the same as without it.
  I4  Damaged records harm only their readers. An append never needs to read any: a rebuilt index ends at the first
      damage, and continues with the next batch that is appended.
  I5  The first files of a log are made with the first batch; all are opened on first use. `OpenSegments` bounds how
      many segments keep a descriptor and a loaded index.

Source: Kafka's LogSegment, LazyIndex; KIP-33 (time index). Entries are per batch, as Kafka 4 has them, on every path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kavka.errors import CorruptRecords, StorageError
from kavka.filesystem import Buffer, File, FileSystem
from kavka.log.decide.indexes import (
    ABORTED_ENTRY,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTransaction,
    CorruptIndex,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    aborted_bytes,
    parse_aborted,
)
from kavka.log.made_directories import MadeDirectories
from kavka.log.record_scan import header_at, scan_batches, scan_headers
from kavka.logger import Logger
from kavka.model import NO_TIMESTAMP, Offset
from kavka.records.batch import BatchHeader, RecordBatch

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DEFAULT_MAX_OPEN_SEGMENTS = 8192
_REBUILT_INTERVAL_BYTES = 4096
"""As index.interval.bytes has it by default."""

_logger = Logger(__name__)


def offset_name(offset: Offset) -> str:
    """The first part of the names of the files that start at `offset`: 20 digits."""
    return f"{offset:020d}"


class BatchPosition(NamedTuple):
    """Where a batch starts in a segment, and its header."""

    position: int
    header: BatchHeader


class TimestampedOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch of its batch (-1 if unknown)."""

    timestamp: int
    offset: Offset
    leader_epoch: int


class LogDirectory:
    """The directory of one partition, shared by all that keep files in it; `path` changes when it is renamed."""

    __slots__ = ("_made", "_noted", "_number", "filesystem", "log", "open_segments", "path")

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        open_segments: OpenSegments,
        made: MadeDirectories | None = None,
        noted: dict[LogDirectory, None] | None = None,
    ) -> None:
        """`made`: of the log directory, where the name of this one may not be durable yet. `noted`: where `note` notes
        it."""
        self.filesystem = filesystem
        self.path = path
        self.open_segments = open_segments
        self._made = made
        self._number = 0 if made is None else made.add()
        self._noted = {} if noted is None else noted
        self.log: UnifiedLog | None = None
        """Whose directory it is."""

    def note(self) -> None:
        """Something has changed that the log's periodic work looks at: whoever changes it says so, and nothing has to
        look at all logs to find those that changed."""
        self._noted[self] = None

    def ensure_name(self) -> None:
        """Makes the directory's own name durable. Blocks, on any thread. Raises `StorageError`."""
        if self._made is not None:
            self._made.ensure(self._number)

    def rename(self, path: str) -> None:
        """Moves the directory; open files stay open. Raises `StorageError`."""
        try:
            self.filesystem.rename(self.path, path)
        except FileNotFoundError as error:
            raise StorageError(self.path, "is gone") from error
        self.path = path

    def relocate(self, path: str) -> None:
        """Is another directory from now on, in another log directory perhaps, whose name the caller makes durable."""
        self.path = path
        self._made = None  # Or flushes would go on asking the disk that the log came from.

    def file_path(self, offset: Offset, suffix: str) -> str:
        return f"{self.path}/{offset:020d}{suffix}"

    def open(self, path: str) -> File:
        """Opens an existing file of the log. Raises `StorageError`, also if somebody removed it."""
        try:
            return self.filesystem.open(path)
        except FileNotFoundError as error:
            raise StorageError(path, "is gone") from error

    def remove_if_there(self, path: str) -> bool:
        """Removes a file; returns whether it was there."""
        try:
            self.filesystem.remove(path)
        except FileNotFoundError:
            return False
        return True


class OpenSegments:
    """Bounds the segments that hold a descriptor and indexes in memory, over all logs that share it.

    The one that was opened first is closed; it opens again when it is needed.
    """

    __slots__ = ("_opened", "max_open")

    def __init__(self, max_open: int = DEFAULT_MAX_OPEN_SEGMENTS) -> None:
        self.max_open = max_open
        self._opened: dict[int, Segment] = {}

    def __len__(self) -> int:
        return len(self._opened)

    def opened(self, segment: Segment) -> None:
        opened = self._opened
        opened[id(segment)] = segment
        while len(opened) > self.max_open:
            oldest = next(iter(opened))
            opened.pop(oldest).release()

    def taking_over(self, other: OpenSegments) -> OpenSegments:
        """This one, with what `other` had open besides."""
        if other is not self:
            for segment in other._opened.values():
                self.opened(segment)
        return self

    def forget(self, segment: Segment) -> None:
        self._opened.pop(id(segment), None)


class Segment:
    """One segment. `size` is in bytes; `max_timestamp` the largest of its batches, -1 without any; `created_ms` when it
    was made, loaded or emptied, by the wall clock.

    One class, because the records' file and its indexes change together: an append, a truncation or a rename that
    reached one of them without the others would be damage.
    """

    __slots__ = (
        "_aborted",
        "_bytes_since_entry",
        "_directory",
        "_extra_suffix",
        "_file",
        "_first_timestamp",
        "_index_files_lie",
        "_is_preallocated",
        "_is_unmade",
        "_max",
        "_offset_entries_written",
        "_offset_index",
        "_time_entries_written",
        "_time_index",
        "base_offset",
        "created_ms",
        "roll_jitter_ms",
        "size",
    )

    def __init__(
        self, directory: LogDirectory, base_offset: Offset, *, size: int, created_ms: int, roll_jitter_ms: int
    ) -> None:
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self._directory = directory
        # Behind the names of all files while compaction has not put the segment in its place.
        self._extra_suffix = ""
        self._file: File | None = None
        # None: not in memory; it is in the file, or to be built.
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._offset_entries_written = 0
        self._time_entries_written = 0
        # They may have more than the entries that were written, or others.
        self._index_files_lie = False
        self._aborted: list[AbortedTransaction] | None = None
        self._bytes_since_entry = 0
        # The largest timestamp so far and its batch's last offset; None: ask the time index.
        self._max: TimeEntry | None = None if size else TimeEntry(NO_TIMESTAMP, base_offset)
        # Of the first batch; None: not read yet.
        self._first_timestamp: int | None = None
        self._is_unmade = False
        self._is_preallocated = False

    @classmethod
    def create(cls, directory: LogDirectory, base_offset: Offset, *, now_ms: int, roll_jitter_ms: int = 0) -> Segment:
        """A new, empty segment. Its .log is emptied if one is there; at offset 0 it is made with the first batch.

        Elsewhere it is made at once: when all segments before it are gone, its name alone says where the log goes on.
        """
        segment = cls._unmade(directory, base_offset, now_ms, roll_jitter_ms)
        if base_offset:
            segment._open_file()
        return segment

    @classmethod
    def _unmade(cls, directory: LogDirectory, base_offset: Offset, now_ms: int, roll_jitter_ms: int) -> Segment:
        segment = cls(directory, base_offset, size=0, created_ms=now_ms, roll_jitter_ms=roll_jitter_ms)
        segment._offset_index, segment._time_index = OffsetIndex(base_offset), TimeIndex(base_offset)
        segment._is_unmade = True
        segment._aborted = []
        return segment

    @classmethod
    def create_cleaned(cls, directory: LogDirectory, base_offset: Offset, *, now_ms: int) -> Segment:
        """A new, empty segment for compaction to fill. Its .log exists, and all names end in CLEANED_SUFFIX."""
        segment = cls._unmade(directory, base_offset, now_ms, 0)
        segment._extra_suffix = CLEANED_SUFFIX
        for path in segment.all_paths():
            directory.remove_if_there(path)
        segment._open_file()
        return segment

    @classmethod
    def open(cls, directory: LogDirectory, base_offset: Offset, *, now_ms: int, roll_jitter_ms: int = 0) -> Segment:
        """The segment of an existing .log, taken at its whole size and unchecked."""
        size = directory.filesystem.open(directory.file_path(base_offset, LOG_SUFFIX)).size()
        return cls(directory, base_offset, size=size, created_ms=now_ms, roll_jitter_ms=roll_jitter_ms)

    def path(self, suffix: str) -> str:
        return self._directory.file_path(self.base_offset, suffix) + self._extra_suffix

    def all_paths(self) -> list[str]:
        """Of all files that the segment may have."""
        return [self.path(suffix) for suffix in SEGMENT_SUFFIXES]

    def move_to(self, directory: LogDirectory, extra_suffix: str) -> None:
        """Gives all files another ending behind their names, and the segment to `directory`, where they lie. Raises
        `StorageError`."""
        sources = self.all_paths()
        self._directory, self._extra_suffix = directory, extra_suffix
        for source, target in zip(sources, self.all_paths(), strict=True):
            try:
                directory.filesystem.rename(source, target)
            except FileNotFoundError:
                continue  # It has no such file, or was deleted meanwhile.

    @property
    def directory(self) -> LogDirectory:
        return self._directory

    @property
    def is_made(self) -> bool:
        """Whether the segment has its .log: it comes with the first batch."""
        return not self._is_unmade

    @property
    def file(self) -> File:
        """The open .log."""
        return self._file or self._open_file()

    def _open_file(self) -> File:
        path = self.path(LOG_SUFFIX)
        if not self._is_unmade:
            file = self._directory.open(path)
        else:
            file = self._directory.filesystem.open(path, create=True)
            self._is_unmade = False
            if file.size():
                file.truncate(0)
            self._directory.remove_if_there(self.path(TXN_INDEX_SUFFIX))
        self._file = file
        self._directory.open_segments.opened(self)
        return file

    # -- appending

    def prepare_append(self, size: int, index_interval_bytes: int) -> None:
        """Opens and loads what an append of `size` bytes will need: it can then fail in its write alone. Raises
        `StorageError`, with nothing written."""
        if self._file is None:
            self._open_file()
        if self._offset_index is None and (self._max is None or self._bytes_since_entry + size > index_interval_bytes):
            self._load_indexes()

    def append(self, batch: Buffer, last_offset: Offset, max_timestamp: int, index_interval_bytes: int) -> None:
        """Writes one batch at the end; the caller has checked that it fits. Whatever is raised leaves `size` as it was,
        and the file's end unknown."""
        position = self.size
        (self._file or self._open_file()).append(batch)
        size = len(batch)
        self._note(position, size, last_offset, max_timestamp, index_interval_bytes)
        self.size = position + size

    def append_many(
        self, data: Buffer, batches: list[RecordBatch], first: int, end: int, index_interval_bytes: int
    ) -> None:
        """Writes `batches[first:end]`, whose bytes are `data`, with one call. Raises as `append`."""
        position = self.size
        self.file.append(data)
        for batch in batches[first:end]:
            header, size = batch.header, len(batch.view)
            last_offset = header.base_offset + header.last_offset_delta
            self._note(position, size, last_offset, header.max_timestamp, index_interval_bytes)
            position += size
        self.size = position

    def preallocate(self, size: int) -> None:
        """Reserves room for `size` bytes, where the disk has it. Raises `StorageError`."""
        if self.file.preallocate(size):
            self._is_preallocated = True
        else:
            _logger.warning(
                "segment not preallocated",
                path=self.path(LOG_SUFFIX),
                why=f"the disk has no room for {size} bytes more, or its file system cannot reserve any",
                next_step="make room, lower segment.bytes, or switch preallocate off",
            )

    def trim(self) -> None:
        """Releases the space that was reserved and not used: nothing more is appended. Raises `StorageError`."""
        if self._is_preallocated:
            self.file.truncate(self.size)
            self._is_preallocated = False

    def _note(self, position: int, size: int, last_offset: Offset, max_timestamp: int, interval: int) -> None:
        if not position:
            self._first_timestamp = max_timestamp
        largest = self._max
        if largest is None:
            largest = self._load_max()
        if max_timestamp > largest.timestamp:
            largest = self._max = TimeEntry(max_timestamp, last_offset)
        if self._bytes_since_entry > interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(largest.timestamp, largest.offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Notes a transaction whose abort marker was appended here."""
        aborted = self._aborted_to_change()
        # A write that failed half way may have left bytes behind the entries.
        self._replace_tail(TXN_INDEX_SUFFIX, len(aborted) * ABORTED_ENTRY.size, aborted_bytes(transaction))
        aborted.append(transaction)

    def _aborted_to_change(self) -> list[AbortedTransaction]:
        try:
            return self.aborted_transactions
        except CorruptIndex as error:
            # Loading mends it, unless the records before it are damaged too.
            raise StorageError(self.path(TXN_INDEX_SUFFIX), str(error)) from error

    def set_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Replaces the transaction index with `transactions`, even if its file was damaged. Raises `StorageError`."""
        path = self.path(TXN_INDEX_SUFFIX)
        # Emptied rather than removed: what was there must not come back after a power cut.
        if transactions or self._directory.filesystem.exists(path):
            self._directory.filesystem.write_atomically(path, b"".join(map(aborted_bytes, transactions)), durable=True)
        self._aborted = transactions

    def transaction_index_files(self) -> list[File]:
        """The transaction index, if it has entries and may have been written since the segment was made or loaded."""
        return [self._directory.open(self.path(TXN_INDEX_SUFFIX))] if self._aborted else []

    @property
    def index_entries(self) -> int:
        """Entries of the offset index; 0 while it is not in memory."""
        index = self._offset_index
        return 0 if index is None else len(index)

    @property
    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch, ms; -1 if there is no batch, or it has none or is damaged."""
        first = self._first_timestamp
        if first is None:
            if not self.size:
                return NO_TIMESTAMP
            try:
                first = header_at(self.file, 0, self.size).max_timestamp
            except CorruptRecords:
                first = NO_TIMESTAMP
            self._first_timestamp = first
        return first

    @property
    def max_timestamp(self) -> int:
        return (self._max or self._load_max()).timestamp

    @property
    def age_from_ms(self) -> int:
        """From when the segment ages: its largest timestamp, or where no batch has one, the last write to the .log.

        Raises `StorageError`. Source: Kafka's LogSegment.largestTimestamp.
        """
        latest = self.max_timestamp
        if latest >= 0:
            return latest
        path = self.path(LOG_SUFFIX)
        try:
            return self._directory.filesystem.modified_ms(path)
        except FileNotFoundError as error:
            raise StorageError(path, "is gone") from error

    def _load_max(self) -> TimeEntry:
        # A segment that was closed or rolled has its largest timestamp as the last entry. An index that has to be built
        # anew has no such entry: whoever builds it finds the largest.
        last = self.time_index.last_entry()
        if self._max is None:
            self._max = last or TimeEntry(NO_TIMESTAMP, self.base_offset)
        return self._max

    # -- finding

    def find(self, offset: Offset) -> BatchPosition | None:
        """The first batch whose last offset is not below `offset`; None if all are below.

        Raises `CorruptRecords` if the records themselves are damaged.
        """
        start = self.offset_index.position_for(offset)
        if start:
            try:
                found = self._scan_for(offset, start)
            except CorruptRecords as error:
                self._distrust_indexes(str(error))
            else:
                # The batch of an entry holds an offset that is not above the one looked for.
                if found is None or found.position > start or found.header.base_offset <= offset:
                    return found
                self._distrust_indexes(f"offset {offset} lies before the batch at {start}")
            start = self.offset_index.position_for(offset)
        return self._scan_for(offset, start)

    def _scan_for(self, offset: Offset, start: int) -> BatchPosition | None:
        for position, header in scan_headers(self.file, start, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return BatchPosition(position, header)
        return None

    def batch_end_within(self, position: int, limit: int) -> BatchPosition | None:
        """The last batch that starts behind `position`, where one starts, and not behind `limit`, found cheaply.

        It is the last such batch, or one at most an index interval before it. None if there is none before `limit`.
        """
        start = self.offset_index.last_position_within(limit)
        if start > position:
            try:
                return BatchPosition(start, header_at(self.file, start, self.size))
            except CorruptRecords as error:
                self._distrust_indexes(str(error))
        last = None
        for found, header in scan_headers(self.file, position, self.size):
            if found > position:
                last = BatchPosition(found, header)
            if found + header.size_bytes > limit:
                break
        return last

    def may_reach(self, timestamp: int) -> bool:
        """Whether a batch may have this timestamp (ms) or a later one, as far as that is in memory."""
        return self._max is None or self._max.timestamp >= timestamp

    def view(self) -> SegmentView:
        """The segment as a search that does not touch it may read it."""
        largest, indexes = self._max, None
        if self._offset_index is not None and self._time_index is not None:
            indexes = self._offset_index, self._time_index
            largest = largest or self._load_max()
        return SegmentView(
            self,
            self.base_offset,
            self.size,
            self.path(LOG_SUFFIX),
            self.path(OFFSET_INDEX_SUFFIX),
            self.path(TIME_INDEX_SUFFIX),
            self._file,
            largest,
            indexes,
        )

    def learn(self, largest: TimeEntry, indexes: tuple[OffsetIndex, TimeIndex] | None) -> None:
        """Takes what somebody else read of the index files, if the segment has not read them meanwhile."""
        if self._max is None:
            self._max = largest
        if indexes is not None and self._offset_index is None and self._time_index is None:
            self._adopt(*indexes)

    def batch_at(self, position: int) -> RecordBatch:
        """The whole batch that starts at `position`."""
        for _, batch in scan_batches(self.file, position, self.size):
            return batch
        raise CorruptRecords(f"{self.path(LOG_SUFFIX)}: no batch at position {position} of {self.size}")

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that starts at `position`."""
        return header_at(self.file, position, self.size)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from `position` on."""
        return scan_headers(self.file, position, self.size)

    def next_offset(self) -> Offset:
        """The offset after the last batch, or the base offset if there is none. Raises `CorruptRecords`."""
        if not self.size:
            return self.base_offset
        start = self.offset_index.last_position_within(self.size)
        try:
            return self._last_offset(start) + 1
        except CorruptRecords as error:
            if not start:
                raise
            self._distrust_indexes(str(error))
            return self._last_offset(0) + 1

    def _last_offset(self, start: int) -> Offset:
        last = self.base_offset - 1
        for _, header in scan_headers(self.file, start, self.size):
            last = header.base_offset + header.last_offset_delta
        return last

    # -- indexes

    @property
    def offset_index(self) -> OffsetIndex:
        return self._offset_index if self._offset_index is not None else self._load_indexes()[0]

    @property
    def time_index(self) -> TimeIndex:
        return self._time_index if self._time_index is not None else self._load_indexes()[1]

    @property
    def aborted_transactions(self) -> list[AbortedTransaction]:
        """The transactions whose abort markers lie in this segment, in order of the markers.

        Raises `CorruptIndex` if the file cannot be believed; `set_aborted` mends it.
        """
        if self._aborted is None:
            try:
                data = self._directory.filesystem.read(self.path(TXN_INDEX_SUFFIX))
            except FileNotFoundError:
                data = b""
            self._aborted = parse_aborted(data, self.base_offset)
        return self._aborted

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if not self.size:
            self._offset_index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
            return self._offset_index, self._time_index
        read = self._directory.filesystem.read
        try:
            offset_index = OffsetIndex.parse(read(self.path(OFFSET_INDEX_SUFFIX)), self.base_offset, self.size)
            time_index = TimeIndex.parse(read(self.path(TIME_INDEX_SUFFIX)), self.base_offset)
            if not time_index and self.first_timestamp != NO_TIMESTAMP:
                raise CorruptIndex("time index: no entry for records with timestamps")
            if time_index.may_be_blank and self.first_timestamp > 0:
                raise CorruptIndex("time index: zeros for records with timestamps")
        except (CorruptIndex, FileNotFoundError) as error:
            return self._distrust_indexes(str(error))
        self._adopt(offset_index, time_index)
        return offset_index, time_index

    def _adopt(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Takes indexes that are what the files have."""
        self._offset_index, self._time_index = offset_index, time_index
        self._offset_entries_written, self._time_entries_written = len(offset_index), len(time_index)
        self._directory.open_segments.opened(self)

    def _distrust_indexes(self, why: str) -> tuple[OffsetIndex, TimeIndex]:
        """Rebuilds both indexes from the batches' headers, up to the first damage (I4)."""
        known = self._max or (None if self._time_index is None else self._time_index.last_entry())
        self.reset_indexes()
        indexed_to, damage = 0, ""
        try:
            for position, header in scan_headers(self.file, 0, self.size):
                last_offset = header.base_offset + header.last_offset_delta
                self._note(position, header.size_bytes, last_offset, header.max_timestamp, _REBUILT_INTERVAL_BYTES)
                indexed_to = position + header.size_bytes
        except CorruptRecords as error:
            damage = str(error)
            # Of the batches behind it nothing is left but that one of them may have had the largest timestamp.
            if known is not None and known.timestamp > self.max_timestamp:
                self._max = known
        _logger.warning(
            "index rebuilt",
            segment=self.path(LOG_SUFFIX),
            size_bytes=self.size,
            why=why,
            indexed_to=indexed_to,
            damage=damage or None,
        )
        return self.offset_index, self.time_index

    def reset_indexes(self) -> None:
        """Empties the indexes, before the segment's batches are noted one by one."""
        self._offset_index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._offset_entries_written = self._time_entries_written = 0
        self._index_files_lie = True
        self._bytes_since_entry = 0
        self._max = TimeEntry(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None

    def note_recovered(self, position: int, batch: RecordBatch, index_interval_bytes: int) -> None:
        """Notes a batch that recovery found good; after `reset_indexes`, in order."""
        header = batch.header
        last_offset = header.base_offset + header.last_offset_delta
        self._note(position, len(batch.view), last_offset, header.max_timestamp, index_interval_bytes)

    def write_indexes(self, *, closing: bool) -> list[str]:
        """Brings new index entries to their files; returns the paths of those that were written, and are to be synced.

        With `closing`, as of every segment but the active one, the largest timestamp becomes the last entry of the time
        index, and the files exist afterwards even if they are empty. A segment that never had a batch has no files.
        """
        if self._is_unmade:
            return []
        are_loaded = self._offset_index is not None and self._time_index is not None
        if not are_loaded and (not closing or (self._index_files_exist() and self._time_index_file_is_closed())):
            return []
        offset_index, time_index = self.offset_index, self.time_index
        if closing:
            largest = self._max or self._load_max()
            time_index.maybe_append(largest.timestamp, largest.offset)
        written = []
        everything = closing or self._index_files_lie
        if everything or len(offset_index) != self._offset_entries_written:
            data = offset_index.tobytes(self._offset_entries_written)
            size = self._offset_entries_written * OFFSET_ENTRY_SIZE
            if self._replace_tail(OFFSET_INDEX_SUFFIX, size, data):
                written.append(self.path(OFFSET_INDEX_SUFFIX))
            self._offset_entries_written = len(offset_index)
        if everything or len(time_index) != self._time_entries_written:
            data = time_index.tobytes(self._time_entries_written)
            size = self._time_entries_written * TIME_ENTRY_SIZE
            if self._replace_tail(TIME_INDEX_SUFFIX, size, data):
                written.append(self.path(TIME_INDEX_SUFFIX))
            self._time_entries_written = len(time_index)
        self._index_files_lie = False
        return written

    def _index_files_exist(self) -> bool:
        exists = self._directory.filesystem.exists
        return exists(self.path(OFFSET_INDEX_SUFFIX)) and exists(self.path(TIME_INDEX_SUFFIX))

    def _time_index_file_is_closed(self) -> bool:
        """Whether its last entry is the largest timestamp, as far as that is known: a flush writes the entries alone,
        and their file may be all that is left of them (`release`)."""
        largest = self._max
        if largest is None or largest.timestamp < 0:
            return True
        file = self._directory.open(self.path(TIME_INDEX_SUFFIX))
        begin = file.size() - TIME_ENTRY_SIZE
        return begin >= 0 and int.from_bytes(file.read_at(begin, 8), "big") == largest.timestamp

    def _replace_tail(self, suffix: str, size: int, data: bytes) -> bool:
        """Makes the file's bytes from `size` on be `data`; False if that is what they were."""
        file = self._directory.filesystem.open(self.path(suffix), create=True)
        found = file.size()
        if found != size:
            file.truncate(size)
        if data:
            file.append(data)
        return bool(data) or found != size

    # -- the end

    def truncate(self, position: int, offset: Offset, now_ms: int) -> None:
        """Cuts the segment at the batch that starts at `position`; its first offset is at least `offset`. One of which
        nothing is left is as young as a new one."""
        offset_index, time_index = self.offset_index, self.time_index
        aborted = self._aborted_to_change()
        self.file.truncate(position)
        self.size = position
        offset_index.truncate(position)
        time_index.truncate(offset)
        self._offset_entries_written = min(self._offset_entries_written, len(offset_index))
        self._time_entries_written = min(self._time_entries_written, len(time_index))
        self._index_files_lie = True
        if aborted and aborted[-1].last_offset >= offset:
            self.set_aborted([entry for entry in aborted if entry.last_offset < offset])
        self._bytes_since_entry = 0
        if not position:
            self._first_timestamp, self.created_ms = None, now_ms
        self._max = self._largest_remaining(time_index)

    def _largest_remaining(self, time_index: TimeIndex) -> TimeEntry:
        largest = time_index.last_entry() or TimeEntry(NO_TIMESTAMP, self.base_offset)
        start = self.offset_index.position_for(largest.offset)
        for _, header in scan_headers(self.file, start, self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimeEntry(header.max_timestamp, header.base_offset + header.last_offset_delta)
        return largest

    def reopen(self) -> None:
        """Makes the next use of the .log open it at its present path."""
        self._directory.open_segments.forget(self)
        self._file = None

    def release(self) -> None:
        """Lets go of the descriptor, and of the indexes if their files have all of them."""
        self._file = None
        if (
            self._offset_index is not None
            and self._time_index is not None
            and self._offset_entries_written == len(self._offset_index)
            and self._time_entries_written == len(self._time_index)
            and self._offset_entries_written
            and not self._index_files_lie
        ):
            self._offset_index = self._time_index = None

    def close(self) -> None:
        """Lets go of the files; what is to be written is written."""
        self._directory.open_segments.forget(self)
        self._file = None

    def mark_deleted(self) -> list[str]:
        """Renames the segment's files so that no loader takes them for live ones. Returns the paths, to be removed."""
        self._directory.open_segments.forget(self)
        filesystem = self._directory.filesystem
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            try:
                filesystem.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            renamed.append(path + DELETED_SUFFIX)
        return renamed


class SegmentView(NamedTuple):
    """What a segment knows of itself at one moment. `segment` says which one, and is not to be touched by a worker."""

    segment: Segment
    base_offset: Offset
    size: int
    log_path: str
    offset_index_path: str
    time_index_path: str
    file: File | None
    """The open .log; None if the segment does not hold it open."""
    largest: TimeEntry | None
    """The largest timestamp and the last offset of its batch; None if it is not known."""
    indexes: tuple[OffsetIndex, TimeIndex] | None
    """As they go on growing; None if they are in the files alone."""
