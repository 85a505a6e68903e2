"""When a segment is full, so that the next batch starts a new one (a roll).

Decides on what the segment says of itself and of the batch. It must not know files, or how a segment is made.

Source: Kafka's LogSegment.shouldRoll.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.log.decide.indexes import MAX_RELATIVE_OFFSET
from kavka.model import Offset


class RollLimits(NamedTuple):
    """What bounds a segment: bytes, milliseconds, entries of its offset index."""

    segment_bytes: int
    segment_ms: int
    max_index_entries: int


class GrowingSegment(Protocol):
    """What a segment says of itself. `first_timestamp` is that of its first batch in ms, -1 without one."""

    size: int
    base_offset: Offset
    created_ms: int
    roll_jitter_ms: int

    @property
    def index_entries(self) -> int: ...

    @property
    def first_timestamp(self) -> int: ...


def must_roll(
    segment: GrowingSegment, size: int, last_offset: Offset, max_timestamp: int, now_ms: int, limits: RollLimits
) -> bool:
    """Whether a batch of `size` bytes up to `last_offset` must start a new segment.

    A segment's age is the span of its records' times; where the first has none, the time since it was made. The first
    timestamp is not asked for before it is needed: it may have to be read.
    """
    if segment.size + size > limits.segment_bytes:
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if not segment.size:
        return False
    if segment.index_entries >= limits.max_index_entries:
        return True
    first = segment.first_timestamp
    age_ms = max_timestamp - first if first >= 0 else now_ms - segment.created_ms
    return age_ms > limits.segment_ms - segment.roll_jitter_ms
