"""UnifiedLog: the records of one partition on this broker.

Decides which offset a batch gets, which bytes answer a read, when a segment is full, what may be removed, and up to
which offset records are stable. It must not know who leads, who replicates, who waits, or the time: its callers give
`now_ms`, and pass the offset that the in-sync replicas have reached to `advance_high_watermark`.

Invariants
  I1  log start offset <= last stable offset <= high watermark <= log end offset.
  I2  Offsets only grow along the file. `append_as_leader` leaves no gap; `append_as_follower` keeps the leader's.
  I3  A batch is completely in the file before the log end offset passes it; nothing after the log end offset is ever
      read.
  I4  A refused append leaves nothing behind: no byte, no sequence, no epoch.
  I5  After a write that did not end, for whatever reason, nothing more is accepted (`failure`): the file's end is
      unknown. Steps that can fail, such as reading an index or a marker, come before the write.
  I6  A read needs no search if the reader continues where it was (or at the tail), and never one per batch.

Source: Kafka's UnifiedLog and LocalLog, 3.9; KIP-98 (producers), KIP-101 (epochs), KIP-107 (delete records).

Differences from Kafka: a new partition is an empty directory until its first batch, which creates the .log and
partition.metadata. Only a log that begins after offset 0 has its .log before, because only its name says so. The leader
epoch checkpoint is written when the log is flushed or closed, not when an epoch starts: until then recovery finds the
epochs in the records (log_loader, I3). After a truncation the log ends after its last record, as after a restart;
Kafka's ends at the requested offset.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kavka.errors import DamagedLog, InvariantViolation, OffsetOutOfRange, RecordsError, StorageError
from kavka.filesystem import Buffer, FileSystem
from kavka.log.decide.accepted_batches import (
    Markers,
    accept_own,
    accept_produced,
    check_order,
    over_segment_bytes,
    read_markers,
)
from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET, TIME_ENTRY_SIZE, AbortedTransaction
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.decide.producer_state import AppendOrigin, BatchMetadata
from kavka.log.decide.retention import below_log_start, over_age, over_size
from kavka.log.decide.segment_roll import RollLimits, must_roll
from kavka.log.durability import Durability, FlushTask
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import LoadedLog, rebuild_producers
from kavka.log.log_results import ENOUGH_BYTES, AppendResult, DeletedSegments, ReadResult
from kavka.log.log_segments import TAIL_POSITIONS, LogSegments, ages_from_ms, fit
from kavka.log.partition_metadata import PartitionMetadata
from kavka.log.record_scan import has_no_record
from kavka.log.segment import Segment
from kavka.log.segment_swap import SegmentSwap
from kavka.logger import Logger
from kavka.model import NO_OFFSET, NO_TIMESTAMP, FileSlice, LeaderEpoch, Offset, TopicPartition, new_tuple
from kavka.records.batch import HEADER_SIZE, BatchHeader, RecordBatch, TimestampType, assign_offset
from kavka.records.control import EndTransactionMarker, read_marker
from kavka.records.validation import validate_replicated

_logger = Logger(__name__)

_CLIENT, _LOG_APPEND_TIME = AppendOrigin.CLIENT, TimestampType.LOG_APPEND_TIME


class UnifiedLog:
    """One partition's log. All offsets are attributes that cost nothing to read; see I1.

    One class, because each of its methods moves several of its parts at once: an append, a truncation or a deletion
    is offsets, segments, epochs, producers and what is to be synced, and one of them alone would break an invariant.
    What a part does alone is in the part: `LogSegments`, `Durability`, `PartitionMetadata`, `SegmentSwap`. Decisions
    that need none of them are in `kavka.log.decide`.
    """

    __slots__ = (
        "_config",
        "_directory",
        "_durability",
        "_epochs",
        "_jitter",
        "_limits",
        "_segments",
        "_snapshots",
        "cleaned_to",
        "failure",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "metadata",
        "producers",
        "swap",
        "topic_partition",
        "truncations",
    )

    def __init__(  # noqa: PLR0913 - made in one place, by the manager, of parts that share nothing
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
        self.failure: StorageError | None = None
        """Why the log accepts nothing more (I5)."""
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.cleaned_to: Offset | None = None
        """Compaction has cleaned the log up to here; None if it never did."""
        self.truncations = 0
        """How often something was taken from the end, or the files moved: what was read of segments before is void."""
        self.producers = loaded.producers
        """What the log remembers of producers and their transactions. Others only ask it."""
        self._jitter = jitter
        self._directory = directory = loaded.segments[-1].directory
        self._segments = LogSegments(loaded.segments)
        self._epochs = loaded.epochs
        self._snapshots = loaded.snapshots
        self._durability = Durability(directory, loaded, now_ms)
        self.metadata = PartitionMetadata(
            directory,
            topic_id,
            is_unwritten=topic_id is not None and not topic_id_is_on_disk,
            # Before the first flush nobody knows whether it is durable: after a kill, or with the first records.
            is_unsynced=topic_id is not None and topic_id_is_on_disk and loaded.recovery_point == 0,
        )
        directory.log = self
        self.swap = SegmentSwap(directory, self._segments, loaded.snapshots, self._durability)
        """How compaction puts a segment in the place of others."""
        self.reconfigure(config)

    # -- state

    @property
    def config(self) -> LogConfig:
        return self._config

    def reconfigure(self, config: LogConfig) -> None:
        """Obeys `config` from now on."""
        self._config = config
        self._directory.note()
        self._limits = RollLimits(
            config.segment_bytes, config.max_segment_ms, max(config.segment_index_bytes // TIME_ENTRY_SIZE - 1, 1)
        )

    @property
    def directory(self) -> str:
        """The path of the log's directory."""
        return self._directory.path

    @property
    def filesystem(self) -> FileSystem:
        return self._directory.filesystem

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments by base offset; the last one is active."""
        return tuple(self._segments.listed)

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here no transaction is open (or ended above the high watermark)."""
        unstable = self.producers.first_unstable_offset
        if unstable == NO_OFFSET or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raises the high watermark to `offset`, at most to the log end. Returns False if it was that high already."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Sets the high watermark to `offset` within [log start, log end], for a new role or from a checkpoint."""
        self.high_watermark = max(min(offset, self.log_end_offset), self.log_start_offset)
        self.producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    # -- appending

    def append_as_leader(
        self, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        """Appends the one batch in `records`, which gets the next offsets; its bytes are patched in place.

        Looks at every record that a client sends, which blocks. Raises `StorageError`, or, with nothing changed,
        `RecordsError` with the code to answer; kavka.log.decide and kavka.records.validation say when.
        """
        config = self._config
        view = memoryview(records)
        if view.readonly:
            view = memoryview(bytearray(view))
        is_clients = origin is _CLIENT
        batch = accept_produced(view, config, now_ms) if is_clients else accept_own(view, config)
        view, header = batch
        size = len(view)
        if size > config.segment_bytes:
            raise over_segment_bytes(size, config.segment_bytes)
        stamped = is_clients and config.message_timestamp_type is _LOG_APPEND_TIME
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = self._checked_marker(batch, origin)
            elif (duplicate := self.producers.check(header, origin)) is not None:
                return self._duplicate(duplicate)
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        if self.failure is not None:
            raise self.failure
        segments, is_torn = self._segments, False
        try:
            segment = segments.active
            if must_roll(segment, size, last_offset, header.max_timestamp, now_ms, self._limits):
                segment = self.roll(now_ms)
            assign_offset(batch, first_offset, leader_epoch)
            position = segment.size
            if not position:
                self._begin(segment)
            segment.prepare_append(size, config.index_interval_bytes)
            is_torn = True
            segment.append(view, last_offset, header.max_timestamp, config.index_interval_bytes)
            self.log_end_offset = last_offset + 1
            tail = segments.tail
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
        log_append_time_ms = now_ms if stamped else NO_TIMESTAMP
        return new_tuple(AppendResult, (first_offset, last_offset, log_append_time_ms, self.log_start_offset, False))

    def _on_torn_append(self) -> None:
        """An exception came between a write and its last note (I5): a StorageError, or an unforeseen one."""
        if self.failure is None:
            self.failure = StorageError(
                self._directory.path, "an append ended half way; a restart shows what was written"
            )

    def _checked_marker(self, batch: RecordBatch, origin: AppendOrigin) -> EndTransactionMarker | None:
        marker = read_marker(batch)
        if marker is not None:
            self.producers.check_marker(batch.header, marker, origin)
        return marker

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Makes the log fail if the disk does (I5)."""
        try:
            yield
        except StorageError as error:
            self.failure = error
            raise

    def _duplicate(self, duplicate: BatchMetadata) -> AppendResult:
        first, last, start = duplicate.first_offset, duplicate.last_offset, self.log_start_offset
        return AppendResult(first, last, duplicate.timestamp, start, is_duplicate=True)

    def _note_producer(
        self, header: BatchHeader, marker: EndTransactionMarker | None, offset: Offset, segment: Segment
    ) -> None:
        if not header.is_control:
            self.producers.append(header, offset)
        elif marker is not None:
            aborted = self.producers.end_transaction(header, marker, offset)
            if aborted is not None:
                segment.add_aborted(aborted)
                # The file may be new: the next flush syncs its name too.
                self._durability.directory_changed = True

    def append_as_follower(
        self, records: Buffer, now_ms: int, *, last_epoch: LeaderEpoch | None = None
    ) -> AppendResult | None:
        """Appends batches as the leader wrote them, up to the first one of a later epoch than `last_epoch`; None if
        there is no complete one.

        Raises `RecordsError` (`CorruptRecords`) for a wrong CRC, for offsets that go back, and for a marker that cannot
        be read: nothing was appended then. After a `StorageError` some of it may have been.
        """
        view = memoryview(records)
        batches = validate_replicated(view, last_epoch)
        if not batches:
            return None
        check_order(batches, self.log_end_offset, self.topic_partition)
        markers = read_markers(batches)
        if self.failure is not None:
            raise self.failure
        try:
            self._append_batches(view, batches, markers, now_ms)
        except StorageError as error:
            self.failure = error
            raise
        first, last = batches[0].header, batches[-1].header
        return AppendResult(first.base_offset, last.last_offset, NO_TIMESTAMP, self.log_start_offset)

    def _append_batches(self, view: memoryview, batches: list[RecordBatch], markers: Markers, now_ms: int) -> None:
        """Writes runs of batches that fit into one segment with one call each."""
        run, start, end = 0, 0, 0
        for number, batch in enumerate(batches):
            header, size = batch.header, len(batch.view)
            pending = end - start
            active = self._segments.active
            if must_roll(active, pending + size, header.last_offset, header.max_timestamp, now_ms, self._limits):
                if number > run:
                    self._append_run(view[start:end], batches[run:number], markers)
                # Named for the log end, also before a gap: recovery takes gaps between segments for losses.
                is_far = header.last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET
                self.roll(now_ms, header.base_offset if is_far else 0)
                run, start = number, end
            end += size
        self._append_run(view[start:end], batches[run:], markers)

    def _append_run(self, data: memoryview, batches: list[RecordBatch], markers: Markers) -> None:
        segment, interval = self._segments.active, self._config.index_interval_bytes
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
            self._segments.remember(batches[0].header.base_offset, segment, position)
            is_torn = False
        finally:
            if is_torn:
                self._on_torn_append()

    def _begin(self, segment: Segment) -> None:
        """The first batch of a segment is about to be written."""
        self._durability.directory_changed = True
        self.write_topic_id()
        if self._config.preallocate:
            segment.preallocate(self._config.segment_bytes)

    def roll(self, now_ms: int, base_offset: Offset = 0) -> Segment:
        """Starts a new segment at the log end (or at `base_offset` if that is higher). Raises `StorageError`."""
        base_offset = max(base_offset, self.log_end_offset)
        active = self._segments.active
        if not active.size and active.base_offset == base_offset:
            return active
        # Who believes a time index that lost its end lets retention have the records too early.
        self._durability.files.extend(active.write_indexes(closing=True))
        active.trim()
        segment = Segment.create(
            self._directory, base_offset, now_ms=now_ms, roll_jitter_ms=self._config.roll_jitter_ms(self._jitter)
        )
        self.producers.end_offset = base_offset
        snapshot = self._snapshots.take(self.producers)
        if snapshot is not None:
            self._durability.files.append(snapshot)
        self._use(segment)
        if not active.size:
            # An empty segment before others would look like one that lost its bytes.
            count = len(self._segments.listed)
            self._remove_segments(count - 2, count - 1, now_ms)
        return segment

    def _use(self, segment: Segment) -> None:
        self._segments.add(segment)
        self._durability.directory_changed = True

    # -- reading

    def read(self, start_offset: Offset, max_bytes: int, *, max_offset: Offset, min_one_batch: bool) -> ReadResult:
        """Whole batches from the one that holds `start_offset` on, below `max_offset`, of one segment.

        At most `max_bytes`, but with `min_one_batch` the first batch even if it is larger. Where there are more bytes
        than that, it may stop up to an index interval early. Raises `OffsetOutOfRange` outside of
        [log start offset, log end offset], `CorruptRecords` where the segment is damaged, and `StorageError`.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= start_offset <= end_offset:
            bounds = f"[{self.log_start_offset}, {end_offset}]"
            raise OffsetOutOfRange(f"{self.topic_partition}: offset {start_offset} is outside of {bounds}")
        if start_offset >= max_offset or start_offset == end_offset:
            return ReadResult([], 0, start_offset)
        segments = self._segments
        segment = segments.active
        position = segments.tail.get(start_offset, -1)
        if position < 0:
            segment, position = segments.read_ends.get(start_offset) or segments.locate(start_offset)
        if segment is segments.active:
            end, next_offset = segment.size, end_offset
        else:
            end, next_offset = segment.size, segments.bases[bisect_right(segments.bases, segment.base_offset)]
        least = ENOUGH_BYTES if next_offset < max_offset else 0
        if max_offset < next_offset:
            end, next_offset = segments.position_of(max_offset, segment), max_offset
        size = end - position
        if size > max_bytes:
            least = max(least, max_bytes)
            size, next_offset = fit(segment, position, max_bytes, min_one_batch=min_one_batch)
        if size <= 0:
            return ReadResult([], 0, start_offset)
        if next_offset != end_offset:
            segments.remember(next_offset, segment, position + size)
        piece = new_tuple(FileSlice, (segment.file, position, size))
        return new_tuple(ReadResult, ([piece], size, next_offset, size if size > least else least))

    def read_records(
        self, start_offset: Offset, max_bytes: int, *, max_offset: Offset, min_one_batch: bool
    ) -> ReadResult:
        """As `read`, for a consumer: does not return empty batches only, if others follow. Raises as `read` does.

        Compaction leaves a header without a record of a live producer's last batch. Consumers of kafka-go, and of
        sarama up to 1.45.1, learn nothing from an answer without records and ask for the same offset for ever.
        """
        result = self.read(start_offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
        while result.size_bytes and not result.size_bytes % HEADER_SIZE and has_no_record(result.chunks):
            following = self.read(result.next_offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
            if not following.size_bytes:
                break
            result = following
        return result

    def aborted_transactions(self, start_offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start_offset, end_offset), for a reader of committed records.

        Raises `StorageError`, and `CorruptRecords` where an index is damaged and the records that would mend it too.
        """
        return self._segments.aborted_transactions(start_offset, end_offset)

    # -- looking up

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
            self._durability.epochs_changed = True

    # -- forgetting the start

    def delete_records(self, offset: Offset) -> bool:
        """Moves the log start to `offset`, for DeleteRecords. Returns False if it was not below.

        Raises `OffsetOutOfRange` above the high watermark. Segments below go at the next `delete_old_segments`.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: {offset} is above the high watermark {self.high_watermark}"
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
        self._durability.recovery_point = max(self._durability.recovery_point, offset)
        self._durability.epochs_changed |= self._epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> list[DeletedSegments]:
        """Removes the segments below the log start, and those that retention no longer keeps.

        Only whole segments below the high watermark go, oldest first. Their files are renamed now and removed by
        `take_removals` after file.delete.delay.ms. Raises `StorageError`.
        """
        segments, config = self._segments, self._config
        below = below_log_start(segments.bases, self.log_start_offset)
        deleted = [self._delete_oldest("log start offset", below, now_ms)]
        if config.cleanup_delete:
            if config.retention_bytes >= 0:
                sizes = [segment.size for segment in segments.below(self.high_watermark, self.log_end_offset)]
                count = over_size(sizes, segments.size_bytes - config.retention_bytes)
                deleted.append(self._delete_oldest("retention.bytes", count, now_ms))
            if config.retention_ms >= 0:
                ages = ages_from_ms(segments.below(self.high_watermark, self.log_end_offset))
                deleted.append(self._delete_oldest("retention.ms", over_age(ages, now_ms, config.retention_ms), now_ms))
        return [group for group in deleted if group is not None]

    def _delete_oldest(self, reason: str, count: int, now_ms: int) -> DeletedSegments | None:
        if not count:
            return None
        with self._failing():
            if count == len(self._segments.listed):
                self.roll(now_ms)
                # Only the name of the new segment tells where the log goes on when the others are gone.
                self._directory.filesystem.sync_directory(self._directory.path)
            gone = self._segments.listed[:count]
            self.advance_log_start_offset(self._segments.bases[count])
            self._remove_segments(0, count, now_ms)
            self._snapshots.remove_below(self._segments.bases[0])
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
        """Renames the files of these segments. No reader finds them any more."""
        self._durability.directory_changed = True
        self._segments.remove(first, end, now_ms + self._config.file_delete_delay_ms)

    @property
    def has_removals(self) -> bool:
        return bool(self._segments.removals)

    def take_removals(self, now_ms: int) -> list[str]:
        """Paths of renamed files whose delay is over; the caller removes them, on any thread."""
        return self._segments.take_removals(now_ms)

    # -- forgetting the end

    def truncate_to(self, offset: Offset, now_ms: int) -> bool:
        """Removes everything from `offset` on. Returns False if there was nothing.

        Raises `StorageError`, and `DamagedLog` where the records that it has to read are damaged: the log has failed.

        The log then ends behind its last record below `offset`: at `offset`, or before it where that lies inside of a
        batch (all of which goes) or in a gap.
        """
        if offset < 0:
            raise InvariantViolation(f"{self.topic_partition}: truncation to the negative offset {offset}")
        if self._epochs.truncate_from_end(min(offset, self.log_end_offset)):
            # An epoch that is lost is found in the records; one that came back would not be.
            self._durability.epochs_changed = self._durability.directory_changed = True
        if offset >= self.log_end_offset:
            return False
        if offset < self._segments.bases[0]:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        name, end, known = str(self.topic_partition), self.log_end_offset, self.high_watermark
        _logger.info("log truncated", partition=name, log_end_offset=end, truncated_to=offset, high_watermark=known)
        try:
            self.truncations += 1
            self.swap.cancel()
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
        segments = self._segments
        # Be it of none: places are forgotten, and names are to be synced. Snapshots go too, and one that came back
        # would tell of records that are cut off.
        self._remove_segments(segments.number_of(offset) + 1, len(segments.listed), now_ms)
        active = segments.end_with_last()
        found = active.find(offset)
        if found is not None:
            active.truncate(found.position, min(offset, found.header.base_offset), now_ms)
        end_offset = max(active.next_offset(), min(offset, self.log_start_offset))
        self._durability.note_cut(end_offset)
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self._durability.end_at(end_offset)
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, end_offset)
        if self._epochs.truncate_from_end(end_offset):
            self._durability.epochs_changed = True

    def _rebuild_producers(self, now_ms: int) -> None:
        end_offset = self.log_end_offset
        self._snapshots.remove_above(end_offset)
        segments, start_offset = self._segments.listed, self.log_start_offset
        rebuild_producers(
            self.producers, self._snapshots, segments, start_offset=start_offset, end_offset=end_offset, now_ms=now_ms
        )
        self.producers.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(
        self, offset: Offset, now_ms: int, *, log_start_offset: Offset | None = None
    ) -> None:
        """Removes everything; the log is empty at `offset`. A follower does so if the leader no longer has any of its
        log."""
        _logger.info(
            "log truncated fully",
            partition=str(self.topic_partition),
            log_end_offset=self.log_end_offset,
            starts_at=offset,
        )
        with self._failing():
            self.truncations += 1
            self.swap.cancel()
            self._durability.note_cut(min(self.high_watermark, offset))
            self._remove_segments(0, len(self._segments.listed), now_ms)
            jitter_ms = self._config.roll_jitter_ms(self._jitter)
            self._use(Segment.create(self._directory, offset, now_ms=now_ms, roll_jitter_ms=jitter_ms))
            self._snapshots.remove_all()
        self.producers.clear(offset)
        self._epochs.clear()
        self._durability.epochs_changed = True
        self.log_end_offset = offset
        self.log_start_offset = offset if log_start_offset is None else min(log_start_offset, offset)
        self.high_watermark = offset
        self._durability.end_at(offset)
        if self.cleaned_to is not None:
            self.cleaned_to = offset

    # -- durability

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.metadata.topic_id

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Takes the id of its topic, which it did not know. It reaches the disk before the first batch.

        Raises `InconsistentMetadata` if it has another one.
        """
        self.metadata.assign(topic_id, self.topic_partition)

    def write_topic_id(self) -> None:
        """Writes partition.metadata if it is not written yet. `prepare_topic_id_sync` makes it durable soon."""
        if self.metadata.is_unwritten:
            self.metadata.write()
            self.metadata.is_unsynced = self._durability.directory_changed = True

    @property
    def topic_id_due(self) -> bool:
        """True if there are records, their topic id is not durable yet, and a sync of it may begin."""
        return self.metadata.is_due(self.log_end_offset) and not self.flush_in_progress and self.failure is None

    def prepare_topic_id_sync(self) -> FlushTask | None:
        """What a worker must sync to make the topic id durable; else as `prepare_flush`."""
        if not self.topic_id_due:
            return None
        with self._failing():
            self.write_topic_id()
            return self._durability.prepare_for(self.metadata)

    @property
    def recovery_point(self) -> Offset:
        """Everything below is durable."""
        return self._durability.recovery_point

    @property
    def flush_in_progress(self) -> bool:
        return self._durability.flush_in_progress

    @property
    def is_flush_asked_for(self) -> bool:
        """Whether as many messages are not flushed as flush.messages allows."""
        return self.log_end_offset - self._durability.recovery_point >= self._config.flush_messages

    @property
    def durable_high_watermark(self) -> Offset:
        """The high watermark as far as it may be claimed after a power cut."""
        return self._durability.claimable(self.high_watermark)

    def flush_due(self, now_ms: int) -> bool:
        """Whether it is time for a flush; `Durability` says when that is."""
        active_base = self._segments.active.base_offset
        return self._durability.is_flush_due(self.log_end_offset, active_base, self._config, now_ms)

    @property
    def is_durable(self) -> bool:
        """True if a power cut would neither remove anything from the log nor bring anything back."""
        return self._records_are_durable and not self._durability.epochs_changed

    @property
    def _records_are_durable(self) -> bool:
        return self._durability.has_nothing_to_sync(self.log_end_offset, self.metadata)

    def prepare_flush(self) -> FlushTask | None:
        """What a worker must sync to make the log durable; None if nothing is to be done or a flush is under way.
        Call `complete_flush` afterwards, here, or `fail_flush`. Raises `StorageError`."""
        if self.flush_in_progress or self.failure is not None or self.is_durable:
            return None
        with self._failing():
            return self._durability.prepare(self.log_end_offset, self._segments, self._epochs, self.metadata)

    def complete_flush(self, task: FlushTask, now_ms: int) -> None:
        """Notes that `task.sync()` returned."""
        self._durability.complete(task, now_ms)

    def fail_flush(self, error: StorageError) -> None:
        """Notes that `task.sync()` raised: what was written since the last flush may be gone."""
        self._durability.fail()
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
        """Writes everything that a clean start trusts. The next flush makes it durable. Raises `StorageError`."""
        with self._failing():
            if self.log_end_offset:
                self.write_topic_id()
            elif self.metadata.is_unwritten:
                self.metadata.write()  # Nobody can take over what is not there, so it need not last.
            self.producers.end_offset = self.log_end_offset
            if self.producers.producers or self._snapshots.offsets:
                snapshot = self._snapshots.take(self.producers)
                if snapshot is not None:
                    self._durability.files.append(snapshot)
                    self._durability.directory_changed = True
            for segment in self._segments.listed:
                segment.trim()
                self._durability.files.extend(segment.write_indexes(closing=True))

    def close(self, now_ms: int) -> None:
        """Makes everything durable that a clean start trusts, and closes the log. Blocks. Raises `StorageError`.

        Otherwise a power cut could undo a snapshot, epochs or a truncation, and leave the mark of the clean stop.
        """
        self.write_all()
        if not self._records_are_durable:
            self.flush(now_ms)
        elif self._durability.epochs_changed:
            is_compacted = self._config.cleanup_compact or self.cleaned_to is not None
            self._durability.write_epochs(self._epochs, durable=is_compacted and self.size_bytes > 0)
        for segment in self._segments.listed:
            segment.close()

    def abandon(self) -> None:
        """Closes all files without writing anything, as after the failure of their disk. The log is not used again."""
        self._directory.log = None  # So that it goes by itself, with its indexes and producers.
        for segment in self._segments.listed:
            self._directory.open_segments.forget(segment)
            segment.release()

    def relocate(self, path: str) -> None:
        """The log's files lie in the directory `path` from now on, whole and durable; readers keep what they have."""
        self._directory.relocate(path)
        self.truncations += 1
        self._segments.removals = []
        self._durability.files = []
        for segment in self._segments.listed:
            segment.reopen()

    def rename_directory(self, path: str) -> None:
        """Moves the log's directory; open files stay open. Raises `StorageError`."""
        self._directory.rename(path)
