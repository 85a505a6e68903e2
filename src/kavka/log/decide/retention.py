"""How many of a log's oldest segments retention deletes.

Decides on what the segments say of themselves. It must not know files, or what becomes of the segments. The answer is
always a number of segments from the oldest on: what stays of a log has no hole.

Source: Kafka's UnifiedLog.deleteOldSegments (deleteLogStartOffsetBreachedSegments, deleteRetentionSizeBreachedSegments,
deleteRetentionMsBreachedSegments).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kavka.model import Offset


def below_log_start(base_offsets: Sequence[Offset], log_start_offset: Offset) -> int:
    """Segments that end at or below the log start. `base_offsets` are those of all segments, oldest first."""
    return sum(base_offset <= log_start_offset for base_offset in base_offsets[1:])


def over_size(sizes: Iterable[int], excess_bytes: int) -> int:
    """Segments that can go without leaving less than retention.bytes. The log is larger by `excess_bytes` than that."""
    count = 0
    for size in sizes:
        if excess_bytes < size:
            break
        excess_bytes -= size
        count += 1
    return count


def over_age(ages_from_ms: Iterable[int | None], now_ms: int, retention_ms: int) -> int:
    """Segments whose youngest record is older than `retention_ms`, up to the first that is not.

    `ages_from_ms` has the time of each segment's youngest record. None stands for a segment that compaction emptied: it
    has no age, and goes with the next segment that goes. A time is not asked for before it is needed.
    """
    count = 0
    for number, age_from_ms in enumerate(ages_from_ms, 1):
        if age_from_ms is None:
            continue
        if now_ms - age_from_ms <= retention_ms:
            break
        count = number
    return count
