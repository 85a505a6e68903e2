"""Where a reader's log and this one part: the two questions about leader epochs that a reader may ask of a log.

A reader is a follower or a consumer. Whether it may ask at all is decided before (`partition`).

Source: KIP-101, KIP-279 (the answer also tells the epoch), KIP-320 (each fetch carries the epoch of the last record).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import OffsetOutOfRange
from kavka.model import LeaderEpoch, Offset
from kavka.replication.decide.partition_results import EpochEndOffset

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog


def diverging_epoch(log: UnifiedLog, last_fetched_epoch: LeaderEpoch, offset: Offset) -> EpochEndOffset | None:
    """Where a reader's log diverged from this one, None if it did not.

    `last_fetched_epoch` is the epoch of the record before `offset` in the reader's log, -1 if the reader does not say.
    Raises `OffsetOutOfRange` if this log no longer knows that epoch.
    """
    if last_fetched_epoch < 0:
        return None
    end = end_offset_for_epoch(log, last_fetched_epoch)
    if end.end_offset < 0:
        raise OffsetOutOfRange(f"{log.topic_partition} knows no epoch up to {last_fetched_epoch}")
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(f"{log.topic_partition}: offset {offset} is below {log.log_start_offset}")
    if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
        return end
    return None


def end_offset_for_epoch(log: UnifiedLog, leader_epoch: LeaderEpoch) -> EpochEndOffset:
    """The end of the largest epoch that is not above `leader_epoch`; (-1, -1) where none is known."""
    epoch, end_offset = log.end_offset_for_epoch(leader_epoch)
    return EpochEndOffset(epoch, end_offset)
