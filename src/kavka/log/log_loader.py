"""LogLoader: which files of a partition's directory can be trusted when a broker starts.

Decides which segments, epochs and producer states a log starts from, and what is removed. It must not know other
partitions, or replicas that could replace what is lost here.

Invariants
  I1  After a stop that was not clean, every batch from the segment of the recovery point on was read and its CRC found
      right before anything is served.
  I2  What remains is a prefix of what was written: the segment is cut at the first byte that is not part of a good
      batch, and all later segments are removed, even if they are whole (as Kafka does: an offset that once may have
      been read must not come back with other records behind a hole).
  I3  Everything except the .log files can be lost: indexes, snapshots, epochs and checkpoints are rebuilt or not
      needed, and each time a reason is logged.
  I4  A clean stop is believed as long as the last segment can be read to its end.

Source: Kafka's LogLoader and LogSegment.recover; docs/design/known-bugs.md S37, S38.

The CRC does not cover a batch's base offset, so recovery also looks at the order of the offsets: a batch that goes back
behind its predecessor is damage. If that predecessor itself jumped ahead, it is the one that lies, and goes as well.
A segment that lost its end exactly between two batches looks like one that was compacted: the log continues with the
next segment then, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.errors import CorruptRecords, RecordsError
from kavka.filesystem import File
from kavka.log.decide.checkpoint import LEADER_EPOCH_CHECKPOINT, MalformedCheckpoint, parse_epochs
from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET, AbortedTransaction, CorruptIndex
from kavka.log.decide.leader_epochs import EpochEntry, LeaderEpochs
from kavka.log.decide.producer_state import ProducerState
from kavka.log.log_config import NEVER_MS, LogConfig
from kavka.log.producer_snapshots import ProducerSnapshots
from kavka.log.record_scan import scan_batches, scan_headers
from kavka.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    LogDirectory,
    Segment,
    offset_name,
)
from kavka.logger import Logger
from kavka.model import LeaderEpoch, Offset
from kavka.records.batch import RecordBatch
from kavka.records.control import read_marker

_logger = Logger(__name__)
_TEMPORARY_SUFFIX = ".tmp"
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, _TEMPORARY_SUFFIX)
_OFFSET_DIGITS = 20
_MAX_BASE_OFFSET = (1 << 63) - 1 - MAX_RELATIVE_OFFSET
"""A segment that begins later could not be filled: no file of a log has such a name."""


MARK_IGNORED = "clean shutdown mark ignored"
"""What a `RecoveryReason` says where the log was not what the mark vouches for."""


class RecoveryReason(NamedTuple):
    """One thing that was not as a clean stop leaves it, and what was done about it."""

    what: str
    """A constant phrase: "segment cut", "segment dropped", "leftover removed", ..."""
    path: str
    why: str
    offset: Offset = -1
    """First offset that is gone, where records were lost."""
    cut_bytes: int = 0


class LoadedLog(NamedTuple):
    """What a log starts with. `segments` has at least one."""

    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    epochs: LeaderEpochs
    producers: ProducerState
    snapshots: ProducerSnapshots
    reasons: list[RecoveryReason]
    directory_changed: bool
    """Whether a power cut may undo names in the directory, or bring removed ones back."""
    epochs_on_disk: bool = True
    """Whether the leader epoch checkpoint says what `epochs` does."""
    files_to_sync: Sequence[str] = ()
    """Paths of small files that may not be durable."""
    unsynced_cut: Offset | None = None
    """From here on recovery has cut something off, and a power cut may bring it back."""


class LoadRequest(NamedTuple):
    """What is known of a log besides the files in its directory."""

    config: LogConfig
    was_clean: bool
    """Whether the directory's clean-shutdown mark was there."""
    recovery_point: Offset
    """Everything below it is on disk; 0 if unknown."""
    log_start_offset: Offset
    """As checkpointed; 0 if unknown."""
    now_ms: int
    producer_id_expiration_ms: int
    cleaned_to: Offset | None = None
    """Up to here compaction has been, as checkpointed."""
    roll_jitter_ms: int = 0


def create_log(directory: LogDirectory, request: LoadRequest) -> LoadedLog:
    """A new log with its first segment, in a new directory, which must exist."""
    start = request.log_start_offset
    segment = Segment.create(directory, start, now_ms=request.now_ms, roll_jitter_ms=request.roll_jitter_ms)
    producers = ProducerState()
    producers.clear(start)
    snapshots = ProducerSnapshots(directory)
    return LoadedLog([segment], start, start, start, LeaderEpochs(), producers, snapshots, [], directory_changed=False)


def load_log(directory: LogDirectory, request: LoadRequest) -> LoadedLog:
    """The log in an existing directory, recovered where that is needed. Raises `StorageError`."""
    return _LogLoader(directory, request).load()


class _LogLoader:
    def __init__(self, directory: LogDirectory, request: LoadRequest) -> None:
        self._directory = directory
        self._request = request
        self._reasons: list[RecoveryReason] = []
        self._producers = ProducerState()
        self._epochs = LeaderEpochs()
        self._segments: list[Segment] = []
        self._snapshots = ProducerSnapshots(directory)
        self._checkpointed_epochs: list[EpochEntry] = []
        self._has_changed = False
        self._replayed_to: Offset = 0

    def load(self) -> LoadedLog:
        names = self._clear_leftovers(self._directory.filesystem.list_files(self._directory.path))
        self._segments = self._open_segments(names)
        self._snapshots = ProducerSnapshots(self._directory, _offsets(names, SNAPSHOT_SUFFIX))
        if self._segments:
            # One from before the log's files was removed with others, and a power cut undid that: it does not know what
            # came between, such as the ends of its transactions.
            self._snapshots.remove_below(self._segments[0].base_offset)
        recover_from = None if self._request.was_clean else self._request.recovery_point
        if recover_from is None and self._segments:
            try:
                self._segments[-1].next_offset()
            except CorruptRecords as error:
                self._note(MARK_IGNORED, self._segments[-1].path(LOG_SUFFIX), str(error))
                recover_from = self._segments[-1].base_offset
        self._read_epochs(names, recover_from)
        if recover_from is not None:
            self._recover(recover_from)
        end_offset = self._segments[-1].next_offset() if self._segments else -1
        if end_offset < self._request.log_start_offset:
            end_offset = self._start_over(self._request.log_start_offset)
        start_offset = max(self._request.log_start_offset, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        if recover_from is None:
            self._load_producers(start_offset, end_offset)
        self._check_transaction_indexes(names)
        self._snapshots.remove_above(end_offset)
        self._snapshots.remove_strays(segment.base_offset for segment in self._segments)
        recovery_point = end_offset if recover_from is None else min(max(recover_from, start_offset), end_offset)
        return LoadedLog(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=recovery_point,
            epochs=self._epochs,
            producers=self._producers,
            snapshots=self._snapshots,
            reasons=self._reasons,
            epochs_on_disk=self._epochs.entries == self._checkpointed_epochs,
            directory_changed=recover_from is not None or self._has_changed,
            files_to_sync=() if recover_from is None else self._maybe_not_durable(recovery_point),
            unsynced_cut=min((reason.offset for reason in self._reasons if reason.offset >= 0), default=None),
        )

    def _maybe_not_durable(self, recovery_point: Offset) -> list[str]:
        """What a process that was killed wrote, or recovery just now, since the last flush."""
        return [self._snapshots.path(offset) for offset in self._snapshots.offsets if offset >= recovery_point]

    def _note(self, what: str, path: str, why: str, *, offset: Offset = -1, cut_bytes: int = 0) -> None:
        self._has_changed = True
        self._reasons.append(RecoveryReason(what, path, why, offset, cut_bytes))
        _logger.warning(what, path=path, why=why, offset=offset, cut_bytes=cut_bytes)

    # -- leftovers of deletions and compactions

    def _clear_leftovers(self, names: list[str]) -> list[str]:
        """Removes what a deletion or compaction left half done and finishes what only lacked its renames."""
        if not any(name.endswith(_LEFTOVER_SUFFIXES) for name in names):
            return names
        self._has_changed = True
        swaps: list[str] = []
        first_cleaned: Offset | None = None
        for name in names:
            path = f"{self._directory.path}/{name}"
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
                self._directory.remove_if_there(path)
                if name.endswith(CLEANED_SUFFIX):
                    offset = _offset_of(name)
                    if offset is not None and (first_cleaned is None or offset < first_cleaned):
                        first_cleaned = offset
            elif name.endswith(SWAP_SUFFIX):
                swaps.append(name)
        # A .swap behind a .cleaned belongs to a split that did not get far enough: the old segment is still whole.
        valid = []
        for name in swaps:
            offset = _offset_of(name)
            if offset is None or (first_cleaned is not None and offset >= first_cleaned):
                self._directory.remove_if_there(f"{self._directory.path}/{name}")
            else:
                valid.append(name)
        if valid:
            self._finish_swap(valid, names)
        return self._directory.filesystem.list_files(self._directory.path)

    def _finish_swap(self, swaps: list[str], names: list[str]) -> None:
        """Puts complete new segments in the place of the old ones whose offsets they cover."""
        filesystem, directory = self._directory.filesystem, self._directory.path
        logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        covered = [self._covered(f"{directory}/{name}", _offset_of(name) or 0) for name in logs]
        first = min((start for start, _ in covered), default=0)
        end = max((end for _, end in covered), default=0)
        for name in names:
            offset = _offset_of(name)
            replaced = offset is not None and first <= offset < end and name.endswith(SEGMENT_SUFFIXES)
            if replaced and self._directory.remove_if_there(f"{directory}/{name}"):
                self._note("segment replaced", f"{directory}/{name}", "a compaction had written its successor")
        for name in swaps:
            filesystem.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")

    def _covered(self, path: str, base_offset: Offset) -> tuple[Offset, Offset]:
        """The offsets whose old segments go: those up to the new one's last batch. Compaction left nothing of old ones
        behind it, which may as well stay: other records have taken the place of theirs, or they are aborted."""
        file = self._directory.filesystem.open(path)
        end = base_offset + 1
        for _, header in scan_headers(file, 0, file.size()):
            end = header.base_offset + header.last_offset_delta + 1
        return base_offset, end

    def _open_segments(self, names: list[str]) -> list[Segment]:
        bases = _offsets(names, LOG_SUFFIX)
        known = set(bases)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            for offset in _offsets(names, suffix):
                if offset not in known:
                    path = self._directory.file_path(offset, suffix)
                    self._directory.remove_if_there(path)
                    self._note("index without a segment removed", path, f"no {offset_name(offset)}{LOG_SUFFIX}")
        now_ms, jitter_ms = self._request.now_ms, self._request.roll_jitter_ms
        return [Segment.open(self._directory, base, now_ms=now_ms, roll_jitter_ms=jitter_ms) for base in bases]

    # -- recovery

    def _recover(self, recovery_point: Offset) -> None:
        """Reads every batch from the segment of `recovery_point` on; the producers' state is up to date afterwards."""
        segments = self._segments
        first = self._first_to_recover(recovery_point)
        start_offset = max(self._request.log_start_offset, segments[0].base_offset if segments else 0)
        up_to = segments[first].base_offset if segments else start_offset
        # The checkpoint may be older than a truncation; from here on the records tell the epochs (`_begin_epoch`).
        self._epochs.truncate_from_end(up_to)
        self._replayed_to = up_to
        self._load_producers(min(start_offset, up_to), up_to, segments[:first])
        # Those above are made anew. One may tell of records that were cut off: 1. a truncation removes it; 2. other
        # records come there; 3. a power cut undoes the removal; 4. a stop at its very offset takes it for its own.
        self._snapshots.remove_above(up_to)
        for number in range(first, len(segments)):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if number > first:
                self._producers.end_offset = segments[number].base_offset
                self._snapshots.take(self._producers)
            if self._recover_segment(segments[number], following):
                for dropped in segments[number + 1 :]:
                    self._drop(dropped, f"the segment before it was cut at {segments[number].size}")
                del segments[number + 1 :]
                break
        if segments:
            self._producers.end_offset = segments[-1].next_offset()

    def _first_to_recover(self, recovery_point: Offset) -> int:
        """Number of the segment that contains the recovery point."""
        below = sum(segment.base_offset <= recovery_point for segment in self._segments)
        return max(below - 1, 0)

    def _recover_segment(self, segment: Segment, following: Offset | None) -> bool:
        """Makes `segment` its longest good prefix; returns whether something was cut off."""
        path, size = segment.path(LOG_SUFFIX), segment.size
        if not size and following is not None and not self._may_be_compacted(segment):
            # Nothing but compaction leaves an empty segment before others: a power cut took its bytes.
            self._note("segment cut", path, "it is empty and segments follow", offset=segment.base_offset)
            return True
        end, why = _plausible_end(segment.file, segment.base_offset, size, following)
        segment.reset_indexes()
        segment.set_aborted([])
        good, next_offset = 0, segment.base_offset
        try:
            for position, batch in scan_batches(segment.file, 0, end):
                if not batch.crc_is_right():
                    why = f"the CRC of the batch at position {position} is not {batch.header.crc:#010x}"
                    break
                self._replay(segment, batch)
                segment.note_recovered(position, batch, self._request.config.index_interval_bytes)
                good = position + len(batch.view)
                next_offset = batch.header.last_offset + 1
        except RecordsError as error:
            why = str(error)
        if good == size:
            if following is not None and self._request.config.preallocate:
                segment.file.truncate(size)  # A kill came between its roll and the return of what was reserved.
            return following is not None and self._is_hole(segment, next_offset, following)
        segment.file.truncate(good)
        segment.size = good
        self._note("segment cut", path, why, offset=next_offset, cut_bytes=size - good)
        return True

    def _is_hole(self, segment: Segment, end: Offset, following: Offset) -> bool:
        """Whether a power cut took what stood between the segment, which is whole, and the next one: a segment with its
        name, or the last batches of this one.

        Where no compaction has been, a segment is named for the log end that it began at (`UnifiedLog.roll`), in copies
        of compacted logs too, so nothing else leaves such a gap above the recovery point. Apache Kafka names a
        follower's segment for its first batch. So an unclean stop of Apache Kafka may leave one that looks like a loss:
        in a replica of a topic that was compacted once and is not now.
        """
        below = max(self._request.recovery_point, self._request.log_start_offset)
        is_far = following - end > MAX_RELATIVE_OFFSET
        if end >= following or following <= below or is_far or self._may_be_compacted(segment):
            return False
        path = segment.path(LOG_SUFFIX)
        self._note("segment cut", path, f"the next one begins at {following}", offset=end, cut_bytes=0)
        return True

    def _may_be_compacted(self, segment: Segment) -> bool:
        """Also where cleanup.policy has been another one since."""
        return self._request.config.cleanup_compact or segment.base_offset < (self._request.cleaned_to or 0)

    def _replay(self, segment: Segment, batch: RecordBatch) -> None:
        header = batch.header
        if header.partition_leader_epoch > self._epochs.latest_epoch:
            self._begin_epoch(header.partition_leader_epoch, header.base_offset)
        self._replayed_to = header.last_offset + 1
        if header.producer_id >= 0:
            aborted = note_producer(self._producers, batch, header.base_offset)
            if aborted is not None:
                segment.add_aborted(aborted)

    def _begin_epoch(self, epoch: LeaderEpoch, offset: Offset) -> None:
        """The first batch of an epoch that is left begins at `offset`.

        Compaction may have taken the epoch's first batches, and earlier epochs whole. To say that the last epoch before
        ends at `offset` then would have a replica keep what it alone has behind the true end. A checkpoint that knows
        the epoch tells where it began, and what was between: whoever wrote of this epoch had the log of its leader.
        """
        known = [entry for entry in self._checkpointed_epochs if self._replayed_to <= entry.start_offset <= offset]
        if any(entry.epoch == epoch for entry in known):
            for entry in known:
                if self._epochs.latest_epoch < entry.epoch <= epoch:
                    self._epochs.assign(*entry)
        else:
            self._epochs.assign(epoch, offset)

    def _drop(self, segment: Segment, why: str) -> None:
        self._note("segment dropped", segment.path(LOG_SUFFIX), why, offset=segment.base_offset, cut_bytes=segment.size)
        self._directory.open_segments.forget(segment)
        for suffix in SEGMENT_SUFFIXES:
            self._directory.remove_if_there(segment.path(suffix))

    def _start_over(self, log_start_offset: Offset) -> Offset:
        """A new first segment at the log start, which the records do not reach."""
        for segment in self._segments:
            self._drop(segment, f"it ends before the log start offset {log_start_offset}")
        self._snapshots.remove_all()
        self._epochs.clear()
        self._producers.clear(log_start_offset)
        request = self._request
        self._segments = [
            Segment.create(
                self._directory, log_start_offset, now_ms=request.now_ms, roll_jitter_ms=request.roll_jitter_ms
            )
        ]
        return log_start_offset

    def _check_transaction_indexes(self, names: list[str]) -> None:
        """Rebuilds the transaction indexes that are damaged. Recovery has rebuilt those of its segments."""
        written = set(_offsets(names, TXN_INDEX_SUFFIX))
        for number, segment in enumerate(self._segments):
            if segment.base_offset in written:
                following = self._segments[number + 1].base_offset if number + 1 < len(self._segments) else None
                try:
                    check_aborted(segment.aborted_transactions, following)
                except CorruptIndex as error:
                    self._note("transaction index rebuilt", segment.path(TXN_INDEX_SUFFIX), str(error))
                    try:
                        rebuild_aborted(self._segments, number)
                    except CorruptRecords as damage:
                        # A clean stop is trusted, so the records were not read before. Their readers will get the
                        # error.
                        self._note("transaction index not built", segment.path(LOG_SUFFIX), str(damage))

    # -- epochs and producers

    def _read_epochs(self, names: list[str], recover_from: Offset | None) -> None:
        path = f"{self._directory.path}/{LEADER_EPOCH_CHECKPOINT}"
        why = "there is none"
        if LEADER_EPOCH_CHECKPOINT in names:
            try:
                for entry in parse_epochs(self._directory.filesystem.read(path)):
                    self._epochs.assign(*entry)
                self._checkpointed_epochs = self._epochs.entries
                return
            except MalformedCheckpoint as error:
                why = str(error)
        # Recovery reads the epochs of its own segments; those before them must be read here.
        earlier = self._segments if recover_from is None else self._segments[: self._first_to_recover(recover_from)]
        if any(segment.size for segment in earlier):
            self._note("leader epochs read from the records", path, why)
            try:
                for segment in earlier:
                    for _, header in segment.headers():
                        if header.partition_leader_epoch > self._epochs.latest_epoch:
                            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            except CorruptRecords as damage:
                # Some of them would say of later epochs that they end where an earlier one does. None is what logs have
                # that are older than leader epochs; it is what Kafka goes on with in any case.
                self._epochs.clear()
                self._note("leader epochs unknown", path, str(damage))

    def _load_producers(self, start_offset: Offset, up_to: Offset, segments: Iterable[Segment] | None = None) -> None:
        """Rebuilds the producers' state up to `up_to`, from the latest snapshot and the records after it."""
        if self._request.was_clean and not self._snapshots.offsets:
            # Nobody idempotent wrote: a clean stop would have left a snapshot.
            self._producers.clear(up_to)
            return
        self._snapshots.load(
            self._producers,
            up_to,
            start_offset,
            self._request.now_ms,
            self._request.producer_id_expiration_ms,
            lambda path, why: self._note("producer snapshot not used", path, why),
        )
        replay_producers(self._producers, self._segments if segments is None else segments, up_to)


def replay_producers(producers: ProducerState, segments: Iterable[Segment], up_to: Offset) -> None:
    """Brings `producers` from its end offset to `up_to` by what is in `segments`; of most batches only headers."""
    ordered = list(segments)
    for number, segment in enumerate(ordered):
        following = ordered[number + 1].base_offset if number + 1 < len(ordered) else up_to
        if following <= producers.end_offset or segment.base_offset >= up_to:
            continue
        found = segment.find(producers.end_offset)
        if found is None:
            continue
        for position, header in segment.headers(found.position):
            if header.base_offset >= up_to:
                break
            # Of a batch that the log start lies in, the end belongs to the log, and is what its producer goes on from.
            if header.producer_id < 0 or header.last_offset < producers.end_offset:
                continue
            if header.is_control:
                note_producer(producers, segment.batch_at(position), header.base_offset)
            else:
                producers.append(header, header.base_offset)
    producers.end_offset = up_to


def rebuild_producers(
    producers: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    *,
    start_offset: Offset,
    end_offset: Offset,
    now_ms: int,
) -> None:
    """Makes `producers` what a snapshot and the records below `end_offset` say, after a truncation.

    Nobody expires by it. Raises `StorageError`, and `RecordsError` where the records are damaged.
    """
    snapshots.load(
        producers,
        end_offset,
        start_offset,
        now_ms,
        NEVER_MS,
        lambda path, why: _logger.warning("producer snapshot not used", path=path, why=why),
    )
    replay_producers(producers, segments, end_offset)


def check_aborted(entries: list[AbortedTransaction], following: Offset | None) -> None:
    """Raises `CorruptIndex` if the entries of a segment, which ends before `following`, contradict each other."""
    previous = -1
    for entry in entries:
        in_order = 0 <= entry.first_offset < entry.last_offset and previous < entry.last_offset
        if not in_order or not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
            raise CorruptIndex(f"transaction index: {entry} cannot follow the end of a transaction at {previous}")
        if following is not None and entry.last_offset >= following:
            raise CorruptIndex(f"transaction index: {entry} does not end before the segment at {following}")
        previous = entry.last_offset


def rebuild_aborted(segments: Sequence[Segment], number: int) -> list[AbortedTransaction]:
    """Builds the transaction index of `segments[number]` anew, from the batches of it and of those before it.

    What was deleted before the first segment is not missed: nobody reads it, so a transaction may as well have begun
    with its first batch that is left. Raises `CorruptRecords` and `StorageError`.
    """
    producers = ProducerState()
    found: list[AbortedTransaction] = []
    for segment in segments[: number + 1]:
        for position, header in segment.headers():
            if header.producer_id < 0:
                continue
            if not header.is_control:
                producers.append(header, header.base_offset)
                continue
            aborted = note_producer(producers, segment.batch_at(position), header.base_offset)
            if aborted is not None and segment is segments[number]:
                found.append(aborted)
    segments[number].set_aborted(found)
    return found


def note_producer(producers: ProducerState, batch: RecordBatch, offset: Offset) -> AbortedTransaction | None:
    """Notes a batch of a producer that is in the log at `offset`; an aborted transaction, if it is the end of one."""
    header = batch.header
    if not header.is_control:
        producers.append(header, offset)
        return None
    # An emptied control batch, as compaction may leave it, tells nothing any more.
    marker = read_marker(batch) if header.record_count else None
    return None if marker is None else producers.end_transaction(header, marker, offset)


def _plausible_end(file: File, base_offset: Offset, size: int, following: Offset | None) -> tuple[int, str]:
    """The position up to which the batches' headers are in order, and why not further."""
    end, next_offset, jumped_at = 0, base_offset, -1
    try:
        for position, header in scan_headers(file, 0, size):
            last_offset = header.base_offset + header.last_offset_delta
            if header.base_offset < next_offset:
                why = f"the batch at position {position} goes back to offset {header.base_offset} from {next_offset}"
                return (position, why) if jumped_at < 0 else (jumped_at, f"{why}; the one before had jumped ahead")
            if last_offset - base_offset > MAX_RELATIVE_OFFSET or (following is not None and last_offset >= following):
                return position, f"the batch at position {position} has the offset {last_offset}"
            jumped_at = position if header.base_offset > next_offset else -1
            next_offset = last_offset + 1
            end = position + header.size_bytes
    except CorruptRecords as error:
        return end, str(error)
    return end, ""


def _offset_of(name: str) -> Offset | None:
    digits = name[:_OFFSET_DIGITS]
    if len(digits) != _OFFSET_DIGITS or not digits.isdigit() or not digits.isascii():
        return None
    offset = int(digits)
    return offset if offset <= _MAX_BASE_OFFSET else None


def _offsets(names: Iterable[str], suffix: str) -> list[Offset]:
    """The offsets of the files named 20 digits and `suffix`, in order."""
    found = []
    for name in names:
        if name.endswith(suffix) and len(name) == _OFFSET_DIGITS + len(suffix):
            offset = _offset_of(name)
            if offset is not None:
                found.append(offset)
    return sorted(found)
