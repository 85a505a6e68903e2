"""MetadataLog: a partition's log without records, as far as `Partition` decides by it.

Decides nothing but arithmetic of offsets. Records are the eight bytes of the offset that the log ends at behind them.
"""

from __future__ import annotations

from kavka.filesystem import Buffer
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_results import AppendResult
from kavka.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset

OFFSET_BYTES = 8


class MetadataLog:
    """Where a log begins, ends and is committed."""

    def __init__(self) -> None:
        self.log_start_offset: Offset = 0
        self.log_end_offset: Offset = 0
        self.high_watermark: Offset = 0
        self.latest_epoch: LeaderEpoch = NO_EPOCH

    def be_at(self, *, log_start_offset: Offset, high_watermark: Offset, log_end_offset: Offset) -> None:
        """It is there now, by what a follower copies, cuts off or forgets."""
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset

    def append_as_leader(
        self, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        first = self.log_end_offset
        self.log_end_offset = max(first, int.from_bytes(records, "big"))
        self.latest_epoch = leader_epoch
        return AppendResult(first, self.log_end_offset - 1, NO_TIMESTAMP, self.log_start_offset)

    def advance_high_watermark(self, offset: Offset) -> bool:
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def assign_epoch_start_offset(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        self.latest_epoch = max(self.latest_epoch, epoch)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEntry:
        """What is asked by followers only, who have their answer."""
        return EpochEntry(NO_EPOCH, NO_OFFSET)


def records_up_to(end_offset: Offset) -> bytes:
    """What is appended so that the log ends there."""
    return end_offset.to_bytes(OFFSET_BYTES, "big")
