"""UnifiedLog: the records of one partition on this broker.

Decides at which offset a batch lands or why it is refused, which bytes answer a read, when a segment is full, what may
be forgotten, and up to where records are stable. It must not know who leads, who replicates, who waits, or the time:
its callers say `now_ms`, and put the offset that the in-sync replicas have reached into `advance_high_watermark`.

Invariants
  I1  log start offset <= last stable offset <= high watermark <= log end offset.
  I2  Offsets only grow along the file. `append_as_leader` leaves no gap; `append_as_follower` keeps the leader's.
  I3  A batch is in the file whole before the log end offset passes it; nothing behind the log end offset is ever read.
  I4  What a refused append leaves behind is nothing: no byte, no sequence, no epoch.
  I5  After a write that did not end, for whatever reason, nothing more is accepted (`failure`): the file's end is
      unknown. What can fail before it (reading an index, a marker) is done before it.
  I6  A read costs no search where a reader goes on from where it was (or at the tail), and never one per batch.

Source: Kafka's UnifiedLog and LocalLog, 3.9; KIP-98 (producers), KIP-101 (epochs), KIP-107 (delete records).

Where this differs: a new partition is a directory and nothing else until its first batch, which brings the .log and
partition.metadata; only where a log begins behind 0 its .log is there before, as it alone says so. The leader epoch
checkpoint is written when the log is flushed or closed, not when an epoch starts: until then recovery finds the epochs
in the records (log_loader, I3). After a truncation the log ends behind its last record, as it would after a restart;
Kafka's ends at the offset it was asked for. Kafka syncs partition.metadata before the first batch; here a worker does
within a second after it, and the flush of the first records in any case.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kavka.errors import (
    CorruptRecords,
    DamagedLog,
    ErrorCode,
    InconsistentMetadata,
    InvariantViolation,
    OffsetOutOfRange,
    RecordsError,
    StorageError,
)
from kavka.filesystem import Buffer, File
from kavka.log.decide.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    format_epochs,
    format_partition_metadata,
)
from kavka.log.decide.indexes import TIME_ENTRY_SIZE, AbortedTransaction, CorruptIndex
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.decide.producer_state import AppendOrigin, BatchMetadata, LastRecord, ProducerEntry, Verification
from kavka.log.log_config import NEVER_MS, LogConfig
from kavka.log.log_loader import LoadedLog, rebuild_aborted, replay_producers
from kavka.log.record_scan import scan_headers
from kavka.log.segment import SWAP_SUFFIX, TXN_INDEX_SUFFIX, LogDirectory, RollLimits, Segment
from kavka.log.timestamp_search import TimestampSearch
from kavka.logger import Logger
from kavka.model import NO_OFFSET, NO_TIMESTAMP, FileSlice, LeaderEpoch, Offset, TopicPartition
from kavka.records.batch import HEADER_SIZE, BatchHeader, RecordBatch, TimestampType, assign_offset, batch_at
from kavka.records.builder import recompress
from kavka.records.compression import Compression
from kavka.records.control import EndTransactionMarker, read_marker
from kavka.records.validation import most_parts, validate_produced, validate_replicated

TAIL_POSITIONS = 32
"""Batches at the end of the active segment whose positions are remembered: where readers of the tail are."""
READ_POSITIONS = 64
"""Places where readers stopped that are remembered, so that they go on without a search."""
NEVER = (1 << 63) - 1
Markers: TypeAlias = Mapping[Offset, EndTransactionMarker | None]
"""What the control batches among others say, by their base offsets."""

_logger = Logger(__name__)


class AppendResult(NamedTuple):
    """Where a batch is in the log."""

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    """What the log stamped the batch with; -1 where the producer's timestamps stand."""
    log_start_offset: Offset
    is_duplicate: bool = False
    """The batch was there before, at these offsets; nothing was written."""


class ReadResult(NamedTuple):
    """Bytes of whole batches; the first may begin before the offset asked for."""

    chunks: list[FileSlice]
    size_bytes: int
    next_offset: Offset
    """Where the next read goes on; the offset asked for, if there was nothing."""


class DeletedSegments(NamedTuple):
    """Segments that retention took from a log."""

    reason: str
    base_offsets: tuple[Offset, ...]
    size_bytes: int
    log_start_offset: Offset


class PendingRemoval(NamedTuple):
    """A renamed file that goes for good at `due_ms`, by the wall clock: one that is set back has the file stay for as
    much longer, one that is set forward has it go early, which no reader that has it open notices."""

    due_ms: int
    path: str


class FlushTask:
    """What must reach the disk so that a log is durable up to `offset`. `sync` may run on another thread."""

    __slots__ = ("_directory", "_directory_changed", "_epochs", "_files", "_path", "is_whole", "offset")

    def __init__(
        self,
        directory: LogDirectory,
        offset: Offset,
        files: Sequence[File],
        epochs: bytes | None,
        *,
        directory_changed: bool,
        is_whole: bool,
    ) -> None:
        self.offset = offset
        self.is_whole = is_whole
        self._files = files
        self._epochs = epochs
        self._directory = directory
        self._path = directory.path
        self._directory_changed = directory_changed

    def sync(self) -> None:
        """Blocks until all of it is durable. Raises `StorageError`: then nobody may count on any of it."""
        for file in self._files:
            file.sync()
        filesystem = self._directory.filesystem
        try:
            if self._epochs is not None:
                # Replacing a file durably syncs its directory, with all new names in it.
                filesystem.write_atomically(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}", self._epochs)
            elif self._directory_changed:
                filesystem.sync_directory(self._path)
            self._directory.ensure_name()
        except (FileNotFoundError, StorageError):
            # Where the partition was deleted (its directory renamed) meanwhile, there is nothing left to be kept.
            if filesystem.exists(self._path):
                raise


class UnifiedLog:
    """One partition's log. All offsets are attributes that cost nothing to read; see I1."""

    __slots__ = (
        "_active",
        "_bases",
        "_config",
        "_directory",
        "_directory_changed",
        "_epochs",
        "_epochs_dirty",
        "_files_to_sync",
        "_flush_bound",
        "_jitter",
        "_limits",
        "_producers",
        "_read_ends",
        "_removals",
        "_segments",
        "_snapshots",
        "_swapping",
        "_tail",
        "_topic_id_unsynced",
        "_topic_id_unwritten",
        "_unsynced_cut",
        "cleaned_to",
        "failure",
        "flush_in_progress",
        "high_watermark",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        loaded: LoadedLog,
        config: LogConfig,
        *,
        now_ms: int,
        topic_id: uuid.UUID | None = None,
        topic_id_is_on_disk: bool = True,
        jitter: Callable[[int], int] = lambda limit_ms: 0,
    ) -> None:
        """`jitter(limit_ms)` draws from [0, limit_ms) and is asked when segment.jitter.ms is set."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self._topic_id_unwritten = topic_id is not None and not topic_id_is_on_disk
        # Before the first flush after a kill nobody knows whether it is durable.
        self._topic_id_unsynced = topic_id is not None and loaded.recovery_point == 0 < loaded.log_end_offset
        self.failure: StorageError | None = None
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = now_ms
        self.flush_in_progress = False
        self.cleaned_to: Offset | None = None
        """Up to here compaction has been; None where it never was."""
        self.truncations = 0
        """How often something was taken from the end, or the files moved: whoever read segments before knows nothing of
        them any more."""
        self._swapping: Segment | None = None
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._directory = self._active.directory
        self._epochs = loaded.epochs
        self._epochs_dirty = not loaded.epochs_on_disk
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._jitter = jitter
        self._files_to_sync = list(loaded.files_to_sync)
        """Small files beside the records that are written and not durable yet."""
        # The flush under way makes nothing durable from here on: a truncation has been there since it was prepared.
        self._flush_bound: Offset = NEVER
        self._unsynced_cut = loaded.unsynced_cut
        self._directory_changed = loaded.directory_changed
        self._removals: list[PendingRemoval] = []
        # Offset -> position of batches in the active segment.
        self._tail: dict[Offset, int] = {}
        # Offset -> (segment, position) where the batch with that offset starts.
        self._read_ends: dict[Offset, tuple[Segment, int]] = {}
        self.reconfigure(config)

    # -- state

    @property
    def config(self) -> LogConfig:
        return self._config

    def reconfigure(self, config: LogConfig) -> None:
        """Obeys `config` from now on."""
        self._config = config
        self._limits = RollLimits(
            config.segment_bytes, config.max_segment_ms, max(config.segment_index_bytes // TIME_ENTRY_SIZE - 1, 1)
        )

    @property
    def directory(self) -> str:
        """The path of the log's directory."""
        return self._directory.path

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments by base offset; the last one is active."""
        return tuple(self._segments)

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here no transaction is open (or ended above the high watermark)."""
        unstable = self._producers.first_unstable_offset
        if unstable == NO_OFFSET or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raises the high watermark to `offset`, at most to the log end; False if it was not below."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self._producers.on_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Puts the high watermark to `offset` within [log start, log end], as a new role or a checkpoint wants it."""
        self.high_watermark = max(min(offset, self.log_end_offset), self.log_start_offset)
        self._producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    # -- appending

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Appends the one batch in `records`, which gets the next offsets; its bytes are patched in place.

        Every record that a client sends is looked at, which blocks. Raises `StorageError`, or, with nothing changed,
        `RecordsError` with the code to answer: see kavka.records.validation and kavka.log.decide.producer_state;
        RECORD_LIST_TOO_LARGE for a batch over segment.bytes.
        """
        config = self._config
        view = memoryview(records)
        if view.readonly:
            view = memoryview(bytearray(view))
        if origin is AppendOrigin.CLIENT:
            batch = self._accept(view, now_ms)
        else:
            batch = _own_batch(view, config.max_message_bytes)
        view, header = batch
        size = len(view)
        if size > config.segment_bytes:
            raise RecordsError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the batch has {size} bytes, over segment.bytes of {config.segment_bytes}",
            )
        stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME and origin is AppendOrigin.CLIENT
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    self._producers.check_marker(header, marker, origin)
            else:
                duplicate = self._producers.check(header, origin)
                if duplicate is not None:
                    return self._duplicate(duplicate)
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        if self.failure is not None:
            raise self.failure
        is_torn = False
        try:
            segment = self._active
            if segment.is_full(size, last_offset, header.max_timestamp, now_ms, self._limits):
                segment = self.roll(now_ms)
            assign_offset(batch, first_offset, leader_epoch)
            position = segment.size
            if not position:
                self._begin(segment)
            segment.prepare_append(size, config.index_interval_bytes)
            is_torn = True
            segment.append(view, last_offset, header.max_timestamp, config.index_interval_bytes)
            self.log_end_offset = last_offset + 1
            tail = self._tail
            tail[first_offset] = position
            if len(tail) > TAIL_POSITIONS:
                del tail[next(iter(tail))]
            if leader_epoch != self._epochs.latest_epoch:
                self.assign_epoch_start_offset(leader_epoch, first_offset)
            if header.producer_id >= 0:
                self._note_producer(header, marker, first_offset, segment)
            is_torn = False
        except StorageError as error:
            self.failure = error
            raise
        finally:
            if is_torn:
                self._on_torn_append()
        return AppendResult(first_offset, last_offset, now_ms if stamped else NO_TIMESTAMP, self.log_start_offset)

    def _on_torn_append(self) -> None:
        """Something was raised between a write and its last note (I5): a StorageError, or what nobody foresaw."""
        if self.failure is None:
            self.failure = StorageError(
                self._directory.path, "an append ended half way; a restart finds out what was written"
            )

    def _accept(self, view: memoryview, now_ms: int) -> RecordBatch:
        config = self._config
        batch = validate_produced(view, config.produce_rules, now_ms)
        codec = config.compression_type
        if codec is not None and batch.header.codec_id != codec:
            return self._recompressed(batch, codec)
        return batch

    def _recompressed(self, batch: RecordBatch, codec: Compression) -> RecordBatch:
        level = self._config.compression_level
        laid_out = recompress(batch, codec, level=level, most_parts=most_parts(batch.header))
        changed = batch_at(memoryview(bytearray(laid_out)))
        assert changed is not None
        if len(changed.view) > self._config.max_message_bytes:
            raise RecordsError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch has {len(changed.view)} bytes with the codec {codec.name} of the topic, over "
                f"max.message.bytes of {self._config.max_message_bytes}",
            )
        return changed

    def _duplicate(self, duplicate: BatchMetadata) -> AppendResult:
        return AppendResult(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            self.log_start_offset,
            is_duplicate=True,
        )

    def _note_producer(
        self, header: BatchHeader, marker: EndTransactionMarker | None, offset: Offset, segment: Segment
    ) -> None:
        if not header.is_control:
            self._producers.append(header, offset)
            return
        if marker is None:
            return
        aborted = self._producers.end_transaction(header, marker, offset)
        if aborted is not None:
            segment.add_aborted(aborted)
            # The file may be new: the next flush syncs its name too.
            self._directory_changed = True

    def append_as_follower(self, records: Buffer, now_ms: int) -> AppendResult | None:
        """Appends batches as the leader wrote them; None if `records` holds no complete one.

        Raises `RecordsError` (`CorruptRecords`) for a wrong CRC, for offsets that go back behind the log end or each
        other, or for a marker that cannot be read: nothing of `records` was appended then. Raises `StorageError` after
        which some of it may have been.
        """
        view = memoryview(records)
        batches = validate_replicated(view)
        if not batches:
            return None
        self._check_order(batches)
        markers = _read_markers(batches)
        if self.failure is not None:
            raise self.failure
        try:
            self._append_batches(view, batches, markers, now_ms)
        except StorageError as error:
            self.failure = error
            raise
        first, last = batches[0].header, batches[-1].header
        return AppendResult(first.base_offset, last.last_offset, NO_TIMESTAMP, self.log_start_offset)

    def _check_order(self, batches: list[RecordBatch]) -> None:
        next_offset = self.log_end_offset
        for index, batch in enumerate(batches):
            header = batch.header
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise CorruptRecords(
                    f"{self.topic_partition}: batch {index} from the leader has the offsets [{header.base_offset}, "
                    f"{header.last_offset}], expected none below {next_offset}"
                )
            next_offset = header.last_offset + 1

    def _append_batches(self, view: memoryview, batches: list[RecordBatch], markers: Markers, now_ms: int) -> None:
        """Writes runs of batches that fit into one segment with one call each."""
        run, start, end = 0, 0, 0
        for number, batch in enumerate(batches):
            header, size = batch.header, len(batch.view)
            pending = end - start
            if self._active.is_full(pending + size, header.last_offset, header.max_timestamp, now_ms, self._limits):
                if number > run:
                    self._append_run(view[start:end], batches[run:number], markers)
                self.roll(now_ms, header.base_offset)
                run, start = number, end
            end += size
        self._append_run(view[start:end], batches[run:], markers)

    def _append_run(self, data: memoryview, batches: list[RecordBatch], markers: Markers) -> None:
        segment, interval = self._active, self._config.index_interval_bytes
        position = segment.size
        if not position:
            self._begin(segment)
        segment.prepare_append(len(data), interval)
        is_torn = True
        try:
            segment.append_many(data, batches, 0, len(batches), interval)
            for batch in batches:
                header = batch.header
                self.log_end_offset = header.last_offset + 1
                if header.partition_leader_epoch > self._epochs.latest_epoch:
                    self.assign_epoch_start_offset(header.partition_leader_epoch, header.base_offset)
                if header.producer_id >= 0:
                    self._note_producer(header, markers.get(header.base_offset), header.base_offset, segment)
            self._remember(batches[0].header.base_offset, segment, position)
            is_torn = False
        finally:
            if is_torn:
                self._on_torn_append()

    def _begin(self, segment: Segment) -> None:
        """The first batch of a segment is about to be written."""
        self._directory_changed = True
        self.write_topic_id()
        if self._config.preallocate:
            segment.preallocate(self._config.segment_bytes)

    def roll(self, now_ms: int, base_offset: Offset = 0) -> Segment:
        """Starts a new segment at the log end (or at `base_offset` if that is higher). Raises `StorageError`."""
        base_offset = max(base_offset, self.log_end_offset)
        active = self._active
        if not active.size and active.base_offset == base_offset:
            return active
        # Who believes a time index that lost its end lets retention have the records too early.
        self._files_to_sync.extend(active.write_indexes(closing=True))
        active.trim()
        segment = Segment.create(
            self._directory, base_offset, now_ms=now_ms, roll_jitter_ms=self._config.roll_jitter_ms(self._jitter)
        )
        self._producers.end_offset = base_offset
        snapshot = self._snapshots.take(self._producers)
        if snapshot is not None:
            self._files_to_sync.append(snapshot)
        self._use(segment)
        if not active.size:
            # An empty segment before others would look like one that lost its bytes.
            self._remove_segments(len(self._segments) - 2, len(self._segments) - 1, now_ms)
        return segment

    def _use(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment
        self._directory_changed = True
        self._tail.clear()

    # -- reading

    def read(self, start_offset: Offset, max_bytes: int, *, max_offset: Offset, min_one_batch: bool) -> ReadResult:
        """Whole batches from the one that holds `start_offset` on, below `max_offset`, of one segment.

        At most `max_bytes`, but with `min_one_batch` the first batch even if it is larger. Where there are more bytes
        than that, it may stop up to an index interval early. Raises `OffsetOutOfRange` outside of
        [log start offset, log end offset], `CorruptRecords` where the segment is damaged, and `StorageError`.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= start_offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: offset {start_offset} is outside of [{self.log_start_offset}, {end_offset}]"
            )
        if start_offset >= max_offset or start_offset == end_offset:
            return ReadResult([], 0, start_offset)
        segment = self._active
        position = self._tail.get(start_offset, -1)
        if position < 0:
            segment, position = self._read_ends.get(start_offset) or self._locate(start_offset)
        if segment is self._active:
            end, next_offset = segment.size, end_offset
        else:
            end, next_offset = segment.size, self._bases[bisect_right(self._bases, segment.base_offset)]
        if max_offset < next_offset:
            end, next_offset = self._position_of(max_offset, segment), max_offset
        size = end - position
        if size > max_bytes:
            size, next_offset = self._fit(segment, position, max_bytes, min_one_batch=min_one_batch)
        if size <= 0:
            return ReadResult([], 0, start_offset)
        if next_offset != end_offset:
            self._remember(next_offset, segment, position + size)
        return ReadResult([FileSlice(segment.file, position, size)], size, next_offset)

    def read_records(
        self, start_offset: Offset, max_bytes: int, *, max_offset: Offset, min_one_batch: bool
    ) -> ReadResult:
        """As `read`, for a consumer: not with emptied batches alone where others follow. Raises as `read` does.

        What compaction leaves of a live producer's last batch is a header without a record. Consumers of kafka-go, and
        of sarama up to 1.45.1, learn nothing from an answer without records and ask for the same offset for ever.
        """
        result = self.read(start_offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
        while result.size_bytes and not result.size_bytes % HEADER_SIZE and _has_no_record(result):
            following = self.read(result.next_offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
            if not following.size_bytes:
                break
            result = following
        return result

    def _locate(self, offset: Offset) -> tuple[Segment, int]:
        """Where the first batch starts that ends at `offset` or behind it."""
        first = bisect_right(self._bases, offset) - 1
        for segment in self._segments[max(first, 0) :]:
            found = segment.find(offset)
            if found is not None:
                place = (segment, found.position)
                if found.header.base_offset == offset:
                    self._remember(offset, *place)
                return place
        return self._active, self._active.size

    def _position_of(self, offset: Offset, segment: Segment) -> int:
        """Where the first batch of `segment` starts that is not wholly below `offset`."""
        if segment is self._active:
            position = self._tail.get(offset, -1)
            if position >= 0:
                return position
        place = self._read_ends.get(offset)
        if place is not None and place[0] is segment:
            return place[1]
        found = segment.find(offset)
        if found is None:
            return segment.size
        if found.header.base_offset == offset:
            self._remember(offset, segment, found.position)
        return found.position

    def _fit(self, segment: Segment, position: int, max_bytes: int, *, min_one_batch: bool) -> tuple[int, Offset]:
        """(size, next offset) of the batches from `position` that `max_bytes` hold."""
        following = segment.batch_end_within(position, position + max_bytes)
        if following is not None:
            return following.position - position, following.header.base_offset
        first = segment.header_at(position)
        if first.size_bytes > max_bytes and not min_one_batch:
            return 0, first.base_offset
        return first.size_bytes, first.last_offset + 1

    def _remember(self, offset: Offset, segment: Segment, position: int) -> None:
        ends = self._read_ends
        if position >= segment.size and segment is not self._active:
            number = bisect_right(self._bases, segment.base_offset)
            segment, position = self._segments[number], 0
            if not segment.size and segment is not self._active:
                # Compaction emptied it: what follows is found by a search.
                return
        ends[offset] = (segment, position)
        if len(ends) > READ_POSITIONS:
            del ends[next(iter(ends))]

    def aborted_transactions(self, start_offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start_offset, end_offset), for a reader of committed records.

        Raises `StorageError`, and `CorruptRecords` where an index is damaged and the records that would mend it too.
        """
        found: list[AbortedTransaction] = []
        for number in range(max(bisect_right(self._bases, start_offset) - 1, 0), len(self._segments)):
            segment = self._segments[number]
            try:
                entries = segment.aborted_transactions
            except CorruptIndex as error:
                path = segment.path(TXN_INDEX_SUFFIX)
                _logger.warning("transaction index built anew", path=path, why=str(error))
                entries = rebuild_aborted(self._segments, number)
            for entry in entries:
                if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    # -- looking up

    def search_timestamp(self, timestamp: int | None) -> TimestampSearch:
        """The search for the first record that is not older than `timestamp` (ms), or with None for the first one with
        the largest timestamp; for a worker. Give it to `learn` afterwards if the log `is_as_searched`."""
        views = [
            segment.view()
            for segment in self._segments
            if segment.size and (timestamp is None or segment.may_reach(timestamp))
        ]
        return TimestampSearch(self._directory.filesystem, views, timestamp, self.log_start_offset)

    def is_as_searched(self, search: TimestampSearch) -> bool:
        """Whether all that the search read still is the log's."""
        return {view.segment for view in search.views} <= set(self._segments)

    def learn(self, search: TimestampSearch) -> None:
        """Keeps what a search has read of index files."""
        for learned in search.learned:
            learned.segment.learn(learned.largest, learned.indexes)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The latest leader epoch known, -1 for none."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> list[EpochEntry]:
        return self._epochs.entries

    def leader_epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The leader epoch that `offset` was written in, -1 if unknown."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEntry:
        """(the largest known epoch not above `epoch`, the offset behind its last record); (-1, -1) if unknown."""
        return self._epochs.end_offset(epoch, self.log_end_offset)

    def assign_epoch_start_offset(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Notes that `epoch` starts at `start_offset`, as a new leader does before it writes."""
        if epoch >= 0 and self._epochs.assign(epoch, start_offset):
            self._epochs_dirty = True

    # -- producers

    def producer_ids(self) -> list[int]:
        """The producers that the log remembers."""
        return list(self._producers.producers)

    def producers(self) -> list[ProducerEntry]:
        """What the log remembers of each producer, by id; not to be changed."""
        return [entry for _producer_id, entry in sorted(self._producers.producers.items())]

    def producer(self, producer_id: int) -> ProducerEntry | None:
        """What the log remembers of a producer; not to be changed."""
        return self._producers.producers.get(producer_id)

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        return self._producers.has_ongoing_transaction(producer_id)

    def verification(self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int) -> Verification | None:
        """What is to be granted before a batch of the producer may begin a transaction here; None where one is open."""
        return self._producers.verification(producer_id, producer_epoch, sequence, now_ms)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forgets producers that have been silent for producer.id.expiration.ms; returns their ids."""
        return self._producers.expire(now_ms, expiration_ms)

    # -- forgetting the start

    def delete_records(self, offset: Offset) -> bool:
        """Moves the log start to `offset`, as DeleteRecords asks; False if it was not below.

        Raises `OffsetOutOfRange` above the high watermark. Segments below go at the next `delete_old_segments`.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: log start offset {offset} is above the high watermark {self.high_watermark}"
            )
        return self.advance_log_start_offset(offset)

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Raises the log start to `offset`, at most to the log end, as a follower does after its leader."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.set_high_watermark(offset)
        self.recovery_point = max(self.recovery_point, offset)
        if self._epochs.truncate_from_start(offset):
            self._epochs_dirty = True
        return True

    def delete_old_segments(self, now_ms: int) -> list[DeletedSegments]:
        """Takes the segments out that lie below the log start, or that retention no longer keeps.

        Only whole segments below the high watermark go, oldest first. Their files are renamed now and removed by
        `take_removals` after file.delete.delay.ms. Raises `StorageError`.
        """
        deleted = [self._delete_oldest("log start offset", self._below_start(), now_ms)]
        config = self._config
        if config.cleanup_delete:
            if config.retention_bytes >= 0:
                count = self._over_size(config.retention_bytes)
                deleted.append(self._delete_oldest("retention.bytes", count, now_ms))
            if config.retention_ms >= 0:
                count = self._over_age(now_ms, config.retention_ms)
                deleted.append(self._delete_oldest("retention.ms", count, now_ms))
        return [group for group in deleted if group is not None]

    def _deletable(self) -> list[Segment]:
        """The segments that lie wholly below the high watermark, oldest first."""
        ends = [*self._bases[1:], self.log_end_offset]
        return [
            segment
            for segment, end in zip(self._segments, ends, strict=True)
            if end <= self.high_watermark and (segment is not self._active or segment.size)
        ]

    def _below_start(self) -> int:
        return sum(base <= self.log_start_offset for base in self._bases[1:])

    def _over_size(self, retention_bytes: int) -> int:
        excess, count = self.size_bytes - retention_bytes, 0
        for segment in self._deletable():
            if excess < segment.size:
                break
            excess -= segment.size
            count += 1
        return count

    def _over_age(self, now_ms: int, retention_ms: int) -> int:
        count = 0
        for number, segment in enumerate(self._deletable(), 1):
            if not segment.size:
                # Compaction emptied it: it has no age, and goes with the next one that goes.
                continue
            if now_ms - segment.age_from_ms <= retention_ms:
                break
            count = number
        return count

    def _delete_oldest(self, reason: str, count: int, now_ms: int) -> DeletedSegments | None:
        if not count:
            return None
        try:
            if count == len(self._segments):
                self.roll(now_ms)
                # Only the name of the new segment tells where the log goes on when the others are gone.
                self._directory.filesystem.sync_directory(self._directory.path)
            gone = self._segments[:count]
            self.advance_log_start_offset(self._bases[count])
            self._remove_segments(0, count, now_ms)
            self._snapshots.remove_below(self._bases[0])
        except StorageError as error:
            self.failure = error
            raise
        size_bytes = sum(segment.size for segment in gone)
        bases = tuple(segment.base_offset for segment in gone)
        _logger.info(
            "segments deleted",
            partition=str(self.topic_partition),
            why=reason,
            base_offsets=bases,
            size_bytes=size_bytes,
            log_start_offset=self.log_start_offset,
        )
        return DeletedSegments(reason, bases, size_bytes, self.log_start_offset)

    def _remove_segments(self, first: int, end: int, now_ms: int) -> None:
        """Renames the files of `segments[first:end]`, which nobody finds any more."""
        gone = self._segments[first:end]
        del self._segments[first:end], self._bases[first:end]
        self._read_ends.clear()
        self._tail.clear()
        self._directory_changed = self._directory_changed or bool(gone)
        due_ms = now_ms + self._config.file_delete_delay_ms
        for segment in gone:
            self._removals.extend(PendingRemoval(due_ms, path) for path in segment.mark_deleted())

    # -- compaction

    def last_records_of_producers(self) -> dict[int, LastRecord]:
        """What the log must keep of each producer that it knows."""
        return self._producers.last_records()

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these still are segments of the log, one behind the other."""
        first = bisect_right(self._bases, segments[0].base_offset) - 1
        return first >= 0 and self._segments[first : first + len(segments)] == list(segments)

    def begin_swap(self, cleaned: Segment) -> None:
        """Compaction has made `cleaned`, complete and durable: from the next sync of the directory on a restart puts it
        in the place of what it covers. A truncation meanwhile takes it back. Raises `StorageError`."""
        self._swapping = cleaned
        cleaned.move_to(self._directory, SWAP_SUFFIX)

    @property
    def is_swapping(self) -> bool:
        """Whether the segment of `begin_swap` is neither installed nor taken back."""
        return self._swapping is not None

    def install_swapped(self, segments: Sequence[Segment], now_ms: int) -> list[PendingRemoval]:
        """Puts the segment of `begin_swap` in the place of `segments`, which `holds`, for every reader from now on.

        Returns the renamed files of the old ones, to be given to `remove_later` when `finish_swap` is durable.
        """
        cleaned = self._swapping
        assert cleaned is not None
        first = bisect_right(self._bases, segments[0].base_offset) - 1
        bases = {segment.base_offset for segment in segments if segment.base_offset != cleaned.base_offset}
        before, self._removals = self._removals, []
        try:
            self._remove_segments(first, first + len(segments), now_ms)
        finally:
            removals, self._removals = self._removals, before
            # Also where the disk fails: until the directory is offline readers must not find a hole.
            self._segments.insert(first, cleaned)
            self._bases.insert(first, cleaned.base_offset)
        self._directory.open_segments.opened(cleaned)
        self._snapshots.remove_at(bases)
        return removals

    def finish_swap(self) -> None:
        """Gives the installed segment its final names. Raises `StorageError`."""
        cleaned, self._swapping = self._swapping, None
        if cleaned is not None:
            cleaned.move_to(self._directory, "")
        self._directory_changed = True

    def remove_later(self, removals: Sequence[PendingRemoval]) -> None:
        """Has files that `install_swapped` renamed removed when their delay is over."""
        self._removals.extend(removals)

    def cancel_swap(self) -> None:
        """Takes the segment of `begin_swap` back, unless it is installed."""
        swapping = self._swapping
        if swapping is not None and swapping not in self._segments:
            self._swapping = None
            for path in swapping.all_paths():
                self._directory.remove_if_there(path)

    def take_removals(self, now_ms: int) -> list[str]:
        """Paths of renamed files whose delay is over; the caller removes them, on any thread."""
        due = [removal.path for removal in self._removals if removal.due_ms <= now_ms]
        if due:
            self._removals = [removal for removal in self._removals if removal.due_ms > now_ms]
        return due

    # -- forgetting the end

    def truncate_to(self, offset: Offset, now_ms: int) -> bool:
        """Removes what is at `offset` and behind it; False if there was nothing.

        Raises `StorageError`, and `DamagedLog` where the records that it has to read are damaged: the log has failed.

        The log then ends behind its last record below `offset`: at `offset`, or before it where that lies inside of a
        batch (all of which goes) or in a gap.
        """
        if offset < 0:
            raise InvariantViolation(f"{self.topic_partition}: truncation to the negative offset {offset}")
        if self._epochs.truncate_from_end(min(offset, self.log_end_offset)):
            # An epoch that is lost is found in the records; one that came back would not be.
            self._epochs_dirty = self._directory_changed = True
        if offset >= self.log_end_offset:
            return False
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        _logger.info(
            "log truncated",
            partition=str(self.topic_partition),
            log_end_offset=self.log_end_offset,
            truncated_to=offset,
            high_watermark=self.high_watermark,
        )
        try:
            self.truncations += 1
            self.cancel_swap()
            self._cut_segments(offset, now_ms)
            self._rebuild_producers(now_ms)
        except StorageError as error:
            self.failure = error
            raise
        except RecordsError as damage:
            # It may be half done, with the log end behind what the files have (I5).
            self.failure = DamagedLog(self._directory.path, f"the log cannot be truncated to {offset}: {damage}")
            raise self.failure from damage
        return True

    def _cut_segments(self, offset: Offset, now_ms: int) -> None:
        keep = bisect_right(self._bases, offset)
        self._remove_segments(keep, len(self._segments), now_ms)
        active = self._active = self._segments[-1]
        found = active.find(offset)
        if found is not None:
            active.truncate(found.position, min(offset, found.header.base_offset))
        end_offset = max(active.next_offset(), min(offset, self.log_start_offset))
        self._note_cut(end_offset)
        self._tail.clear()
        self._read_ends.clear()
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, end_offset)
        self._flush_bound = min(self._flush_bound, end_offset)
        if self._epochs.truncate_from_end(end_offset):
            self._epochs_dirty = True

    def _note_cut(self, offset: Offset) -> None:
        """A power cut may bring back what was cut off from `offset` on, until it is synced."""
        self._unsynced_cut = offset if self._unsynced_cut is None else min(self._unsynced_cut, offset)

    def _rebuild_producers(self, now_ms: int) -> None:
        end_offset = self.log_end_offset
        self._snapshots.remove_above(end_offset)
        # A snapshot that came back would tell of records that are cut off.
        self._directory_changed = True
        self._snapshots.load(
            self._producers,
            end_offset,
            self.log_start_offset,
            now_ms,
            NEVER,
            lambda path, why: _logger.warning("producer snapshot not used", path=path, why=why),
        )
        replay_producers(self._producers, self._segments, end_offset)
        self._producers.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(
        self, offset: Offset, now_ms: int, *, log_start_offset: Offset | None = None
    ) -> None:
        """Removes everything; the log is empty at `offset`, as a follower does whose log the leader no longer has."""
        _logger.info(
            "log truncated fully",
            partition=str(self.topic_partition),
            log_end_offset=self.log_end_offset,
            starts_at=offset,
        )
        try:
            self.truncations += 1
            self.cancel_swap()
            self._note_cut(min(self.high_watermark, offset))
            self._remove_segments(0, len(self._segments), now_ms)
            jitter_ms = self._config.roll_jitter_ms(self._jitter)
            self._use(Segment.create(self._directory, offset, now_ms=now_ms, roll_jitter_ms=jitter_ms))
            self._snapshots.remove_all()
        except StorageError as error:
            self.failure = error
            raise
        self._producers.clear(offset)
        self._epochs.clear()
        self._epochs_dirty = True
        self.log_end_offset = offset
        self.log_start_offset = offset if log_start_offset is None else min(log_start_offset, offset)
        self.high_watermark = offset
        self.recovery_point = min(self.recovery_point, offset)
        if self.cleaned_to is not None:
            self.cleaned_to = offset
        self._flush_bound = min(self._flush_bound, offset)

    # -- durability

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Takes the id of its topic, which it did not know. It reaches the disk before the first batch."""
        if self.topic_id is not None and self.topic_id != topic_id:
            raise InconsistentMetadata(
                f"{self._directory.path}/{PARTITION_METADATA}",
                f"the log of {self.topic_partition} has the topic id {self.topic_id}, expected {topic_id}",
            )
        if self.topic_id is None:
            self.topic_id, self._topic_id_unwritten = topic_id, True

    def write_topic_id(self) -> None:
        """Writes partition.metadata if that is still to be done. A flush has it durable before any record, and
        `prepare_topic_id_sync` soon: with records on the disk and no id beside them, a topic of the same name that is
        made later would take them for its own."""
        if self._topic_id_unwritten:
            self._write_topic_id()
            self._topic_id_unsynced = self._directory_changed = True

    def _write_topic_id(self) -> None:
        assert self.topic_id is not None
        # Not beside and renamed: nobody reads it before a restart, and what a crash tears is malformed, not wrong.
        file = self._directory.filesystem.open(self._topic_id_path, create=True)
        if file.size():
            file.truncate(0)
        file.append(format_partition_metadata(self.topic_id))
        self._topic_id_unwritten = False

    @property
    def _topic_id_path(self) -> str:
        return f"{self._directory.path}/{PARTITION_METADATA}"

    @property
    def topic_id_due(self) -> bool:
        """Whether there are records and the topic id beside them is not durable yet."""
        is_due = self._topic_id_unsynced or (self._topic_id_unwritten and self.log_end_offset > 0)
        return is_due and not self.flush_in_progress and self.failure is None

    def prepare_topic_id_sync(self) -> FlushTask | None:
        """What a worker must sync to make the topic id durable, and no more; else as `prepare_flush`."""
        if not self.topic_id_due:
            return None
        try:
            self.write_topic_id()
            files = [self._directory.open(self._topic_id_path)]
        except StorageError as error:
            self.failure = error
            raise
        self._topic_id_unsynced = self._directory_changed = False
        self.flush_in_progress = True
        return FlushTask(self._directory, NO_OFFSET, files, None, directory_changed=True, is_whole=False)

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    @property
    def durable_high_watermark(self) -> Offset:
        """The high watermark as far as it may be claimed after a power cut: above a truncation that is not synced yet
        the disk may have records again that nobody else has."""
        return self.high_watermark if self._unsynced_cut is None else min(self.high_watermark, self._unsynced_cut)

    def flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush, or a segment that was rolled or a truncation is not
        durable yet."""
        if self.flush_in_progress:
            return False
        if self._unsynced_cut is not None:
            return True
        if self.log_end_offset <= self.recovery_point:
            return False
        return (
            self._active.base_offset > self.recovery_point
            or self.unflushed_messages >= self._config.flush_messages
            or self._flush_time_is_over(now_ms)
        )

    def _flush_time_is_over(self, now_ms: int) -> bool:
        flush_ms = self._config.flush_ms
        # Before the last flush: the clock was set back since, and nobody knows how long ago that flush is.
        return flush_ms != NEVER_MS and not 0 <= now_ms - self.last_flush_ms < flush_ms

    @property
    def is_durable(self) -> bool:
        """Whether a power cut would take nothing of the log, nor bring anything back."""
        return self._records_are_durable and not self._epochs_dirty

    @property
    def _records_are_durable(self) -> bool:
        """With all that cannot be found in the records themselves."""
        return (
            self.log_end_offset <= self.recovery_point
            and self._unsynced_cut is None
            and not self._files_to_sync
            and not self._topic_id_unsynced
            and not self._directory_changed
        )

    def prepare_flush(self, *, rolled_only: bool = False) -> FlushTask | None:
        """What a worker must sync to make the log durable; None if nothing is to be done or a flush is under way.

        With `rolled_only` the active segment is left out. Call `complete_flush` afterwards, here, or `fail_flush`.
        """
        offset = self._active.base_offset if rolled_only else self.log_end_offset
        if self.flush_in_progress or self.failure is not None or self.is_durable:
            return None
        files: list[File] = []
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        try:
            for segment in self._segments[first:]:
                # Also one that is empty: a truncation may have left nothing of it, before a kill too.
                if segment.is_made and (segment.base_offset < offset or not rolled_only):
                    files.append(segment.file)
                    self._files_to_sync.extend(segment.write_indexes(closing=False))
                    files.extend(segment.transaction_index_files())
            if self._topic_id_unsynced:
                self._files_to_sync.append(self._topic_id_path)
            exists = self._directory.filesystem.exists
            files.extend(self._directory.open(path) for path in self._files_to_sync if exists(path))
        except StorageError as error:
            self.failure = error
            raise
        self._files_to_sync = []
        epochs = format_epochs(self._epochs.entries) if self._epochs_dirty else None
        task = FlushTask(
            self._directory, offset, files, epochs, directory_changed=self._directory_changed, is_whole=not rolled_only
        )
        self._epochs_dirty = self._directory_changed = self._topic_id_unsynced = False
        self._flush_bound = NEVER
        self.flush_in_progress = True
        return task

    def complete_flush(self, task: FlushTask, now_ms: int) -> None:
        """Notes that `task.sync()` returned."""
        self.flush_in_progress = False
        if task.offset == NO_OFFSET:
            return
        self.last_flush_ms = now_ms
        self.recovery_point = max(self.recovery_point, min(task.offset, self._flush_bound))
        if task.is_whole and self._flush_bound == NEVER:  # else it was cut again meanwhile
            self._unsynced_cut = None

    def fail_flush(self, error: StorageError) -> None:
        """Notes that `task.sync()` raised: what was written since the last flush may be gone."""
        self.flush_in_progress = False
        self.failure = error

    def flush(self, now_ms: int) -> None:
        """Makes everything durable, here and now. Blocks. Raises `StorageError`."""
        task = self.prepare_flush()
        if task is not None:
            try:
                task.sync()
            except StorageError as error:
                self.fail_flush(error)
                raise
            self.complete_flush(task, now_ms)

    def write_all(self) -> None:
        """Writes down all that a clean start believes: the next flush has all of it durable. Raises `StorageError`."""
        try:
            if self.log_end_offset:
                self.write_topic_id()
            elif self._topic_id_unwritten:
                self._write_topic_id()  # Nobody can take over what is not there, so it need not last.
            self._producers.end_offset = self.log_end_offset
            if self._producers.producers or self._snapshots.offsets:
                snapshot = self._snapshots.take(self._producers)
                if snapshot is not None:
                    self._files_to_sync.append(snapshot)
                    self._directory_changed = True
            for segment in self._segments:
                segment.trim()
                self._files_to_sync.extend(segment.write_indexes(closing=True))
        except StorageError as error:
            self.failure = error
            raise

    def close(self, now_ms: int) -> None:
        """Makes all durable that a clean start believes, and lets go of it. Blocks. Raises `StorageError`.

        A power cut after the stop would else leave a mark that vouches for a snapshot, epochs or a truncation that are
        gone, and nobody would look at the records.
        """
        self.write_all()
        if not self._records_are_durable:
            self.flush(now_ms)
        elif self._epochs_dirty:
            # Epochs without a record: no harm is done if they are lost, so they need not wait for the disk.
            path = f"{self._directory.path}/{LEADER_EPOCH_CHECKPOINT}"
            self._directory.filesystem.write_atomically(path, format_epochs(self._epochs.entries), durable=False)
            self._epochs_dirty = False
        for segment in self._segments:
            segment.close()

    def abandon(self) -> None:
        """Lets go of all files without writing anything, as after the failure of their disk."""
        for segment in self._segments:
            self._directory.open_segments.forget(segment)
            segment.release()

    def relocate(self, path: str) -> None:
        """The log's files lie in the directory `path` from now on, whole and durable; readers keep what they have."""
        self._directory.path = path
        self.truncations += 1
        self._read_ends.clear()
        self._removals = []
        self._files_to_sync = []
        for segment in self._segments:
            segment.reopen()

    def rename_directory(self, path: str) -> None:
        """Moves the log's directory; open files stay open. Raises `StorageError`."""
        try:
            self._directory.filesystem.rename(self._directory.path, path)
        except FileNotFoundError as error:
            raise StorageError(self._directory.path, "is gone") from error
        self._directory.path = path


def _has_no_record(result: ReadResult) -> bool:
    try:
        return not any(
            header.record_count
            for chunk in result.chunks
            for _, header in scan_headers(chunk.file, chunk.position, chunk.position + chunk.length)
        )
    except CorruptRecords:
        return False  # What is damaged is for its reader to judge.


def _read_markers(batches: list[RecordBatch]) -> Markers:
    """Raises `RecordsError` where one cannot be read: there is no way back once the batches are written."""
    return {
        header.base_offset: read_marker(batch)
        for batch in batches
        # An emptied control batch, as compaction may leave it, tells nothing any more.
        if (header := batch.header).is_control and header.producer_id >= 0 and header.record_count
    }


def _own_batch(view: memoryview, max_message_bytes: int) -> RecordBatch:
    """The batch that this broker built itself."""
    batch = batch_at(view)
    if batch is None or len(batch.view) != len(view):
        raise InvariantViolation(f"{len(view)} bytes from a coordinator are not one batch")
    if len(view) > max_message_bytes:
        raise RecordsError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(view)} bytes, over max.message.bytes of {max_message_bytes}",
        )
    return batch
