"""CleaningPass: one compaction of one log, in steps. The first steps find the last record of each key, the others
write what stays of each segment.

It reads batch by batch and asks `decide.compaction` what stays of each. It must not know the log: its caller
(`broker.upkeep.log_cleaner`) runs each step in a worker and swaps the new segments in.

  I1  A step handles about SLICE_BYTES, or one batch if that has more.
  I2  A new segment is durable, with its indexes, when `clean` ends; until then nothing looks at it.
  I3  A new segment may be larger than segment.bytes, and than those it was made of, but not than MAX_SEGMENT_BYTES.

Source: Kafka's Cleaner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RecordsError
from kavka.filesystem import File, FileSystem
from kavka.log.decide.compaction import Compaction, Retention
from kavka.log.decide.indexes import MAX_SEGMENT_BYTES, AbortedTransaction
from kavka.log.decide.offset_map import OffsetMap
from kavka.log.record_scan import scan_batches
from kavka.log.segment import Segment
from kavka.model import Offset
from kavka.records.batch import RecordBatch

SLICE_BYTES: Final = 64 * 1024
"""About a millisecond of work: the event loop waits for a worker's next bytecode no longer than for any other."""


class Source(NamedTuple):
    """A segment as a pass reads it: `file` up to `size` bytes, from `position` on, and the aborted transactions that
    have records in it."""

    file: File
    position: int
    size: int
    aborted: Sequence[AbortedTransaction]


class CleaningPass:
    """Call `index` for each dirty segment in order until one says that the map is full, then `clean` for each group of
    segments from the log's start on. Both are to be iterated to their ends; each item is the bytes that a step moved.
    """

    def __init__(self, first_dirty: Offset, offsets: OffsetMap) -> None:
        self._offsets = offsets
        self._compaction = Compaction(first_dirty, offsets)
        self.is_full = False
        self.stats = self._compaction.stats

    @property
    def end_offset(self) -> Offset:
        """Up to here the log is clean when the pass is over."""
        return self._compaction.end_offset

    # -- where each key is last

    def index(self, source: Source, next_base: Offset) -> Iterator[int]:
        """Notes the keys of a dirty segment; the one after it begins at `next_base`. Raises `CorruptRecords`,
        `RecordsError`, `StorageError`."""
        self._compaction.index_aborted(source.aborted)
        moved = 0
        for _, batch in scan_batches(source.file, source.position, source.size):
            if not self._compaction.index(batch):
                self.is_full = True
                break
            moved += len(batch.view)
            if moved >= SLICE_BYTES:
                self.stats.bytes_read += moved
                yield moved
                moved = 0
        else:
            self._compaction.index_ended(next_base)
        self.stats.bytes_read += moved
        self.stats.keys = len(self._offsets)
        yield moved

    # -- what stays

    def clean(
        self, sources: Sequence[Source], target: Segment, retention: Retention, index_interval_bytes: int
    ) -> Iterator[int]:
        """Writes what stays of the segments into `target`, and makes that durable. Raises as `index` does."""
        for source in sources:
            self._compaction.retain_aborted(source.aborted)
            read = 0
            kept: list[RecordBatch] = []
            pending = 0
            for _, batch in scan_batches(source.file, 0, source.size):
                left = self._compaction.retain(batch, retention)
                read += len(batch.view)
                if left is not None:
                    kept.append(left)
                    pending += len(left.view)
                if read >= SLICE_BYTES:
                    self._write(target, kept, index_interval_bytes)
                    self.stats.bytes_read += read
                    yield read + pending
                    read, pending, kept = 0, 0, []
            self._write(target, kept, index_interval_bytes)
            self.stats.bytes_read += read
            yield read + pending
        filesystem = target.directory.filesystem
        indexes = [filesystem.open(path) for path in target.write_indexes(closing=True)]
        for file in (target.file, *indexes, *target.transaction_index_files()):
            file.sync()
        filesystem.sync_directory(target.directory.path)
        yield 0

    def _write(self, target: Segment, kept: list[RecordBatch], index_interval_bytes: int) -> None:
        if kept:
            data = b"".join([batch.view for batch in kept])
            if target.size + len(data) > MAX_SEGMENT_BYTES:
                raise RecordsError(
                    ErrorCode.RECORD_LIST_TOO_LARGE,
                    f"more than {MAX_SEGMENT_BYTES} bytes would stay for the segment at {target.base_offset}, which is "
                    "all that one can have: batches grow where tombstones get their delete horizon, or deflate less",
                )
            target.append_many(data, kept, 0, len(kept), index_interval_bytes)
            self.stats.bytes_written += len(data)
        for transaction in self._compaction.take_kept_aborted():
            target.add_aborted(transaction)


def remove_files(filesystem: FileSystem, segment: Segment) -> None:
    """Removes the files of a segment that no reader ever opened."""
    for path in segment.all_paths():
        try:
            filesystem.remove(path)
        except FileNotFoundError:
            continue
