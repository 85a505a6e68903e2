"""Which log is compacted next, from where to where, and which of its segments become one.

Decides on what logs say of themselves and `now_ms`. It must not know files, threads, or how compaction works.

    first dirty offset   where the last pass ended; the log start where that is not known, or cannot be right
    uncleanable from     the first of: the last stable offset, the active segment, where the leader epochs are not on
                         the disk yet, the first dirty segment with a record younger than min.compaction.lag.ms; and
                         from there back to the begin of its segment
    dirty ratio          bytes between the two, of all bytes below the second
    must be cleaned      a dirty segment begins with a record older than max.compaction.lag.ms

Among those that must be cleaned, or are over min.cleanable.dirty.ratio, the one with the highest ratio is next.

The leader epochs are on the disk with the next flush. Compacted before, a segment may lose the first records of an
epoch, which are all that says where it began: 1. a broker stops there without order; 2. its recovery places the epoch
at the first record that is left; 3. it leads, and a former leader keeps records before that which it alone has. Apache
Kafka writes an epoch down when it begins.

Source: Kafka's LogCleanerManager (cleanableOffsets, grabFilthiestCompactedLog, maxCompactionDelay) and
Cleaner.groupSegmentsBySize; KIP-354 for max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET, TIME_ENTRY_SIZE
from kavka.log.segment import Segment
from kavka.log.unified_log import UnifiedLog
from kavka.model import Offset


class LogToClean(NamedTuple):
    """A log with something dirty. Offsets as in the module's table; sizes in bytes."""

    log: UnifiedLog
    first_dirty: Offset
    uncleanable_from: Offset
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """How long ago it had to be cleaned; 0 where it need not be."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.cleanable_bytes:
            return False
        return self.compaction_delay_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def look_at(log: UnifiedLog, now_ms: int) -> LogToClean:
    """How dirty a log is, whose cleanup.policy says compact. May read the first batch of a segment and time indexes.

    Raises `CorruptRecords` if those are damaged, and `StorageError`.
    """
    config = log.config
    segments = log.segments
    first_dirty = log.cleaned_to
    if first_dirty is None or not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    ends = [segment.base_offset for segment in segments[1:]]
    dirty = [segment for segment, end in zip(segments[:-1], ends, strict=True) if end > first_dirty]
    bound = min(log.last_stable_offset, segments[-1].base_offset, log.swap.bound)
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        bound = min([bound, *(segment.base_offset for segment in dirty if segment.age_from_ms > youngest)])
    uncleanable_from = max(
        (segment.base_offset for segment in segments if segment.base_offset <= max(bound, first_dirty)),
        default=segments[0].base_offset,
    )
    first_timestamps = [segment.first_timestamp for segment in dirty]
    earliest = min((timestamp for timestamp in first_timestamps if timestamp > 0), default=now_ms)
    delay_ms = max(now_ms - config.max_compaction_lag_ms - earliest, 0)
    clean_bytes = cleanable_bytes = 0
    for segment, end in zip(segments[:-1], ends, strict=True):
        if end <= first_dirty:
            clean_bytes += segment.size
        elif segment.base_offset < uncleanable_from:
            cleanable_bytes += segment.size
    return LogToClean(log, first_dirty, uncleanable_from, clean_bytes, cleanable_bytes, delay_ms)


def filthiest(looked_at: Iterable[LogToClean]) -> LogToClean | None:
    """The log to be compacted next; None if none is due."""
    due = [found for found in looked_at if found.is_due]
    return max(due, key=lambda found: (found.dirty_ratio, found.log.topic_partition), default=None)


def group_segments(log: UnifiedLog, end_offset: Offset) -> list[list[Segment]]:
    """The segments that begin below `end_offset`, in runs that become one each: together they are no larger than
    segment.bytes, fit into one index, and their batches span no more offsets than a segment may."""
    config = log.config
    max_index_entries = config.segment_index_bytes // TIME_ENTRY_SIZE - 1
    segments = log.segments
    groups: list[list[Segment]] = []
    size = entries = 0
    for segment, end in zip(segments[:-1], [following.base_offset for following in segments[1:]], strict=True):
        if segment.base_offset >= end_offset:
            break
        segment_entries = segment.size // max(config.index_interval_bytes, 1) + 1
        joins = (
            bool(groups)
            and size + segment.size <= config.segment_bytes
            and entries + segment_entries <= max_index_entries
            and (not segment.size or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if joins:
            groups[-1].append(segment)
            size, entries = size + segment.size, entries + segment_entries
        else:
            groups.append([segment])
            size, entries = segment.size, segment_entries
    return groups


def dirty_segments(found: LogToClean) -> Sequence[Segment]:
    """The segments with something dirty that may be cleaned."""
    segments = found.log.segments
    return [
        segment
        for segment, following in pairwise(segments)
        if following.base_offset > found.first_dirty and segment.base_offset < found.uncleanable_from
    ]
