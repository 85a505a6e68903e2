"""Durability: what of a log a power cut may still take, or bring back, and what a flush must sync to end that.

Decides when a flush is due, what it consists of, and what is durable when it has ended. It must not know what the
records say, who waits for a flush, or which thread syncs.

Invariants
  I1  The recovery point is never above what was synced. A truncation bounds what the flush under way makes durable.
  I2  What a truncation took away may come back until a flush that began after it has ended.
  I3  A log is flushed by one worker at a time.

Source: Kafka's UnifiedLog.flush and LocalLog.flush; KAFKA-10101 for the recovery point.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.errors import StorageError
from kavka.filesystem import File
from kavka.log.decide.checkpoint import LEADER_EPOCH_CHECKPOINT, format_epochs
from kavka.log.decide.leader_epochs import LeaderEpochs
from kavka.log.log_config import NEVER_MS, LogConfig
from kavka.log.log_loader import LoadedLog
from kavka.log.log_segments import LogSegments
from kavka.log.partition_metadata import PartitionMetadata
from kavka.log.segment import LogDirectory
from kavka.model import NO_OFFSET, Offset

_UNBOUNDED: Offset = (1 << 63) - 1


class FlushTask:
    """What must reach the disk so that a log is durable up to `offset`. `sync` may run on another thread."""

    __slots__ = ("_directory", "_directory_changed", "_epochs", "_files", "_path", "offset")

    def __init__(
        self,
        directory: LogDirectory,
        offset: Offset,
        files: Sequence[File],
        epochs: bytes | None,
        *,
        directory_changed: bool,
    ) -> None:
        self.offset = offset
        self._files = files
        self._epochs = epochs
        self._directory = directory
        self._path = directory.path
        self._directory_changed = directory_changed

    def sync(self) -> None:
        """Blocks until all of it is durable. Raises `StorageError`: then none of it counts as durable."""
        for file in self._files:
            file.sync()
        filesystem = self._directory.filesystem
        try:
            if self._epochs is not None:
                self._write_epochs(self._epochs)
            elif self._directory_changed:
                filesystem.sync_directory(self._path)
            self._directory.ensure_name()
        except (FileNotFoundError, StorageError):
            # Where the partition was deleted (its directory renamed) meanwhile, there is nothing left to be kept.
            if self._is_where_it_was and filesystem.exists(self._path):
                raise

    @property
    def _is_where_it_was(self) -> bool:
        """False once the partition was deleted: what has the path then is another log."""
        return self._directory.path == self._path

    def _write_epochs(self, epochs: bytes) -> None:
        filesystem, path = self._directory.filesystem, f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"
        if self._is_where_it_was:
            # Replacing a file durably syncs its directory, with all new names in it.
            filesystem.write_atomically(path, epochs)
            if not self._is_where_it_was:
                # A topic that was made again under the name may have lost its own to this: it finds them in its
                # records.
                filesystem.remove(path)


class Durability:
    """What a log has written since its last flush, and the flush that is under way."""

    __slots__ = (
        "_cut",
        "_directory",
        "_flush_bound",
        "directory_changed",
        "epochs_changed",
        "files",
        "flush_in_progress",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(self, directory: LogDirectory, loaded: LoadedLog, now_ms: int) -> None:
        self._directory = directory
        self.recovery_point = loaded.recovery_point
        """Everything below is durable."""
        self.last_flush_ms = now_ms
        self.flush_in_progress = False
        self.files = list(loaded.files_to_sync)
        """Paths of small files beside the records that are written and not durable yet."""
        self.epochs_changed = not loaded.epochs_on_disk
        """Whether the leader epochs are not what their checkpoint says."""
        self.directory_changed = loaded.directory_changed
        """Whether a power cut may undo names in the directory, or bring removed ones back."""
        self._cut = loaded.unsynced_cut
        """A power cut may bring back what a truncation took away from here on; None for nothing."""
        # The flush under way makes nothing durable from here on: a truncation has been there since it was prepared.
        self._flush_bound = _UNBOUNDED

    def note_cut(self, offset: Offset) -> None:
        """A power cut may bring back what is cut off from `offset` on, until it is synced."""
        self._cut = offset if self._cut is None else min(self._cut, offset)
        self._directory.note()

    def end_at(self, offset: Offset) -> None:
        """The log ends at `offset` now. Nothing after it is durable, whatever the running flush syncs."""
        self.recovery_point = min(self.recovery_point, offset)
        self._directory.note()
        self._flush_bound = min(self._flush_bound, offset)

    def claimable(self, high_watermark: Offset) -> Offset:
        """The high watermark as far as it may be claimed after a power cut: above a truncation that is not synced yet
        the disk may have records again that nobody else has."""
        return high_watermark if self._cut is None else min(high_watermark, self._cut)

    @property
    def epochs_durable_to(self) -> Offset:
        """Up to here a power cut takes no leader epoch from the checkpoint. Above, only the records tell where an epoch
        began."""
        return self.recovery_point if self.epochs_changed or self.flush_in_progress else _UNBOUNDED

    def is_flush_due(self, log_end_offset: Offset, active_base: Offset, config: LogConfig, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush, or a segment that was rolled or a truncation is not
        durable yet."""
        if self.flush_in_progress:
            return False
        if self._cut is not None:
            return True
        if log_end_offset <= self.recovery_point:
            return False
        return (
            active_base > self.recovery_point
            or log_end_offset - self.recovery_point >= config.flush_messages
            or self._flush_time_is_over(config.flush_ms, now_ms)
        )

    def _flush_time_is_over(self, flush_ms: int, now_ms: int) -> bool:
        # Before the last flush: the clock was set back since, and nobody knows how long ago that flush is.
        return flush_ms != NEVER_MS and not 0 <= now_ms - self.last_flush_ms < flush_ms

    def has_nothing_to_sync(self, log_end_offset: Offset, metadata: PartitionMetadata) -> bool:
        """Whether the records are durable, with all beside them that cannot be found in the records themselves."""
        return (
            log_end_offset <= self.recovery_point
            and self._cut is None
            and not self.files
            and not (metadata.is_unsynced and log_end_offset)
            and not self.directory_changed
        )

    # -- flushes

    def prepare(
        self, log_end_offset: Offset, segments: LogSegments, epochs: LeaderEpochs, metadata: PartitionMetadata
    ) -> FlushTask:
        """What a worker must sync to make all durable. Raises `StorageError`. Call `complete` or `fail` afterwards."""
        files: list[File] = []
        for segment in segments.from_offset(self.recovery_point):
            # Also one that is empty: a truncation may have left nothing of it, before a kill too.
            if segment.is_made:
                files.append(segment.file)
                # Recovery has made anew those of all these segments, without what they were closed with.
                self.files.extend(segment.write_indexes(closing=segment is not segments.active))
                files.extend(segment.transaction_index_files())
        if metadata.is_unsynced:
            self.files.append(metadata.path)
        exists = self._directory.filesystem.exists
        files.extend(self._directory.open(path) for path in self.files if exists(path))
        self.files = []
        data = format_epochs(epochs.entries) if self.epochs_changed else None
        task = FlushTask(self._directory, log_end_offset, files, data, directory_changed=self.directory_changed)
        self.epochs_changed = self.directory_changed = metadata.is_unsynced = False
        self._flush_bound = _UNBOUNDED
        self.flush_in_progress = True
        return task

    def prepare_for(self, metadata: PartitionMetadata) -> FlushTask:
        """What a worker must sync to make the topic id durable, which is written. Raises `StorageError`."""
        files = [self._directory.open(metadata.path)]
        metadata.is_unsynced = self.directory_changed = False
        self.flush_in_progress = True
        return FlushTask(self._directory, NO_OFFSET, files, None, directory_changed=True)

    def complete(self, task: FlushTask, now_ms: int) -> None:
        """Notes that `task.sync()` returned."""
        self.flush_in_progress = False
        if task.offset == NO_OFFSET:
            return
        self.last_flush_ms = now_ms
        self.recovery_point = max(self.recovery_point, min(task.offset, self._flush_bound))
        if self._flush_bound == _UNBOUNDED:  # else it was cut again meanwhile
            self._cut = None

    def fail(self) -> None:
        """Notes that `task.sync()` raised: what was written since the last flush may be gone."""
        self.flush_in_progress = False

    def write_epochs(self, epochs: LeaderEpochs, *, durable: bool) -> None:
        """Writes the leader epoch checkpoint when no record is new, with a sync if `durable`. Raises `StorageError`.

        Epochs without a record may be lost. But a power cut may take the former content with them, and the records of a
        log that was compacted do not tell where their epochs began.
        """
        path = f"{self._directory.path}/{LEADER_EPOCH_CHECKPOINT}"
        self._directory.filesystem.write_atomically(path, format_epochs(epochs.entries), durable=durable)
        self.epochs_changed = False
