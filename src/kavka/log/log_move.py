"""LogMove: a copy of a partition's log in another log directory, until it is whole and takes the log's place.

Decides what is still to be copied and when so little is left that it can be done in one go. The log goes on meanwhile:
it grows, rolls, is truncated, loses its oldest segments, is compacted. It must not know log directories' rules or who
wants the move; a caller has the copying done by a worker, slice by slice, and the rest on the event loop.

The log itself stays the same object with all its state; what changes is where its files lie. What is copied lies in
TOPIC-PARTITION.ID-future, as with Kafka, and counts for nothing before `finish`.

    1. slices are copied and synced                            a restart removes the copy
    2. nothing else runs: the new directory's checkpoints take the log's offsets, which count for nothing yet; the rest
       is copied and synced, with indexes, snapshots, epochs and
       a mark, undecided; then the log gets one, undecided too
    3. the copy gets the name TOPIC-PARTITION, is the log      a restart with both takes the one with the higher number,
       from now on, and is synced                              and removes the other; with one of them it serves neither
    4. the copy's mark is decided                              a restart takes the copy
    5. the former directory is renamed, to be deleted later    the copy is all there is
    6. the mark is removed                                     nothing is left of the move

    A log directory that is offline may have an older copy, so the mark stays until a start finds all directories. Where
    step 3 fails, the copy may have the name all the same: the log goes on, and its mark is decided, with a higher
    number.

Invariants
  I1  What was durable before the move is durable in the copy before step 3.
  I2  At a restart after any step there is one whole log of the partition.
  I3  Nothing is written to the former directory when the copy has the name: a restart would not find it.
  I4  Where either disk is missing at a restart, the other's copy is served only if it is the log for sure. Otherwise:
      the former disk fails in step 5, records are acknowledged in the copy; a restart finds the former disk alone,
      serves what it has, and whatever is acknowledged there is lost as soon as both are there.

Source: KIP-113, Kafka's ReplicaAlterLogDirsThread and LogManager.replaceCurrentWithFutureLog. There the copy is a log
of its own that fetches records from the other; here files are copied, so that batches, indexes and the state of
producers need not be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

from kavka.errors import StorageError
from kavka.filesystem import File, FileSystem
from kavka.log.decide.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, format_epochs
from kavka.log.move_marks import MoveMark, read_mark, write_mark
from kavka.log.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    offset_name,
)
from kavka.log.unified_log import UnifiedLog
from kavka.model import Offset

SLICE_BYTES: Final = 1 << 20
REST_BYTES: Final = 256 * 1024
"""What may be left for the event loop: a millisecond, and the disk's time for a sync."""
_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class _Copied:
    __slots__ = ("file", "indexes", "size", "synced")

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = 0
        self.synced = 0
        self.indexes = False
        """Whether its indexes are there, as they were when it had been rolled."""


class Progress(NamedTuple):
    """How far a move is: bytes copied, and the offset up to which that goes."""

    size_bytes: int
    offset: Offset


class LogMove:
    """The copy of `log` in the directory `path`, which exists and is empty."""

    def __init__(self, filesystem: FileSystem, log: UnifiedLog, path: str) -> None:
        self.log = log
        self.path = path
        self._filesystem = filesystem
        self._truncations = log.truncations
        self._copied: dict[Segment, _Copied] = {}

    @property
    def progress(self) -> Progress:
        offset = self.log.log_start_offset
        for segment in self.log.segments:
            copied = self._copied.get(segment)
            if copied is None or copied.size < segment.size:
                break
            offset = segment.base_offset
        else:
            offset = self.log.log_end_offset
        return Progress(sum(copied.size for copied in self._copied.values()), offset)

    def next_slice(self) -> Callable[[], int] | None:
        """What a worker is to copy next, which returns its bytes; None when only a rest is left. Raises
        `StorageError`."""
        self._forget_what_is_gone()
        segments, durable_to = self.log.segments, self.log.recovery_point
        for segment, following in pairwise(segments):
            copied = self._of(segment)
            if copied.size < segment.size:
                return self._copy(copied, segment.file, copied.size, min(segment.size - copied.size, SLICE_BYTES))
            if not copied.indexes and following.base_offset <= durable_to:
                # A flush has written them whole. Before, they may have what was there before recovery.
                copied.indexes = True
                return self._copy_indexes(copied, segment)
        active = segments[-1]
        copied = self._of(active)
        left = active.size - copied.size
        if left > REST_BYTES:
            return self._copy(copied, active.file, copied.size, min(left, SLICE_BYTES))
        if copied.size - copied.synced > REST_BYTES:
            return self._sync(copied)
        return None

    @property
    def can_finish(self) -> bool:
        """Whether nothing works on the log's files just now."""
        return not self.log.flush_in_progress and not self.log.swap.is_under_way and self.next_slice() is None

    def finish(self, path: str) -> str:
        """Copies the rest, gives the copy its final `path` and has the log live there; returns the former path.

        Blocks for a few syncs. Call it when `can_finish`. Raises `StorageError`: the log is where it was, unless the
        copy has the name already: a restart would take it, so it is the log, and fails with its disk.
        """
        log, filesystem = self.log, self._filesystem
        former = log.directory
        for segment in log.segments:
            copied = self._of(segment)
            if not segment.size and not filesystem.exists(segment.path(LOG_SUFFIX)):
                filesystem.remove(copied.file.path)  # It gets its file with its first batch.
                continue
            if copied.size < segment.size:
                self._copy(copied, segment.file, copied.size, segment.size - copied.size)()
            if copied.synced < copied.size:
                self._sync(copied)()
            if not copied.indexes:
                segment.write_indexes(closing=segment is not log.segments[-1])
                self._copy_indexes(copied, segment)()
        for name in filesystem.list_files(former):
            if name.endswith(SNAPSHOT_SUFFIX) or name == PARTITION_METADATA:
                # Durably: a clean stop takes a snapshot that is there for one that lasts.
                filesystem.write_atomically(f"{self.path}/{name}", filesystem.read(f"{former}/{name}"))
        filesystem.write_atomically(f"{self.path}/{LEADER_EPOCH_CHECKPOINT}", format_epochs(log.epoch_entries))
        mark = read_mark(filesystem, former)
        number = 0 if mark is None else mark.number
        write_mark(filesystem, self.path, MoveMark(number + 1, is_decided=False))
        try:
            write_mark(filesystem, former, MoveMark(number, is_decided=False))
            filesystem.rename(self.path, path)
        except (StorageError, FileNotFoundError):
            # It may have the name all the same. The log goes on where it is, and a restart takes the higher number.
            write_mark(filesystem, former, MoveMark(number + 2, is_decided=True))
            raise
        log.relocate(path)
        filesystem.sync_directory(path.rpartition("/")[0])
        write_mark(filesystem, path, MoveMark(number + 1, is_decided=True))
        return former

    def _of(self, segment: Segment) -> _Copied:
        copied = self._copied.get(segment)
        if copied is None:
            file = self._filesystem.open(f"{self.path}/{offset_name(segment.base_offset)}{LOG_SUFFIX}", create=True)
            if file.size():
                file.truncate(0)
            copied = self._copied[segment] = _Copied(file)
        return copied

    def _copy(self, copied: _Copied, source: File, position: int, length: int) -> Callable[[], int]:
        def copy() -> int:
            data = source.read_at(position, length)
            copied.file.append(data)
            copied.size = position + len(data)
            return len(data)

        return copy

    def _sync(self, copied: _Copied) -> Callable[[], int]:
        size = copied.size

        def sync() -> int:
            copied.file.sync()
            copied.synced = size
            return 0

        return sync

    def _copy_indexes(self, copied: _Copied, segment: Segment) -> Callable[[], int]:
        sources = [(segment.path(suffix), f"{offset_name(segment.base_offset)}{suffix}") for suffix in _INDEX_SUFFIXES]
        filesystem = self._filesystem

        def copy() -> int:
            copied.file.sync()
            copied.synced = copied.size
            for source, name in sources:
                try:
                    data = filesystem.read(source)
                except FileNotFoundError:
                    continue  # Indexes are built anew where they are missing, and not every segment has the third.
                filesystem.write_atomically(f"{self.path}/{name}", data)
            return 0

        return copy

    def _forget_what_is_gone(self) -> None:
        present = set(self.log.segments)
        is_other = self.log.truncations != self._truncations
        self._truncations = self.log.truncations
        for segment in list(self._copied):
            # After a truncation nobody knows which of the bytes are still right.
            if is_other or segment not in present:
                del self._copied[segment]
                if not any(other.base_offset == segment.base_offset for other in self._copied):
                    self._remove(segment.base_offset)

    def _remove(self, base_offset: Offset) -> None:
        for suffix in (LOG_SUFFIX, *_INDEX_SUFFIXES):
            try:
                self._filesystem.remove(f"{self.path}/{offset_name(base_offset)}{suffix}")
            except FileNotFoundError:
                continue
