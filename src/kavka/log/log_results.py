"""What a log returns: where a batch was appended, what a read found, which segments retention took.

Decides nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.model import FileSlice, Offset


class AppendResult(NamedTuple):
    """Where a batch is in the log."""

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    """What the log stamped the batch with; -1 where the producer's timestamps stand."""
    log_start_offset: Offset
    is_duplicate: bool = False
    """The batch was there before, at these offsets; nothing was written."""


ENOUGH_BYTES: Final = 1 << 62
"""More than any fetch can ask for."""


class ReadResult(NamedTuple):
    """Bytes of whole batches; the first may begin before the offset asked for."""

    chunks: list[FileSlice]
    size_bytes: int
    next_offset: Offset
    """Where the next read goes on; the offset asked for, if there was nothing."""
    available_bytes: int = 0
    """What counts for who waits for so many bytes: the limit, where a batch more has no room within it; ENOUGH_BYTES in
    front of the last segment, of which a later answer would have no more. 0 if there was nothing."""


class DeletedSegments(NamedTuple):
    """Segments that retention took from a log."""

    reason: str
    base_offsets: tuple[Offset, ...]
    size_bytes: int
    log_start_offset: Offset
