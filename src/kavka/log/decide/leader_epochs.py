"""LeaderEpochs: where each leader epoch starts in a log, and where it ends.

Decides which entries an append, a truncation or a moved log start leave. It must not know files; `unified_log` writes
the entries down.

Invariants
  I1  Epochs and start offsets both grow strictly from entry to entry.
  I2  An entry may start at the log end offset (a leader that has not written yet), never behind it.

Source: KIP-101, KIP-279, Kafka's LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kavka.model import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset


class EpochEntry(NamedTuple):
    """An epoch, and the offset of the first record written in it."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochs:
    """The epochs of one log. `latest_epoch` is -1 while there is none."""

    __slots__ = ("_epochs", "_starts", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        self.latest_epoch: LeaderEpoch = NO_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Records that `epoch` starts at `start_offset`. Returns whether this was new.

        Entries that contradict it (a later epoch, or a start that is not before this one) give way.
        """
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.latest_epoch = epoch
        return True

    def end_offset(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEntry:
        """The largest known epoch up to `epoch`, and the offset after its last record.

        For an epoch below all known ones: that epoch, and where the first known one starts. (-1, -1) where nothing
        can be said: an unknown epoch above the latest, or none at all.
        """
        epochs, starts = self._epochs, self._starts
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return EpochEntry(NO_EPOCH, NO_OFFSET)
        if epoch == epochs[-1]:
            return EpochEntry(epoch, log_end_offset)
        following = bisect_right(epochs, epoch)
        found = epochs[following - 1] if following else epoch
        return EpochEntry(found, starts[following])

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which `offset` was or will be written. -1 if it is before the first entry."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else NO_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drops epochs that start at or after `end_offset`. Returns whether there were any."""
        keep = bisect_left(self._starts, end_offset)
        if keep == len(self._starts):
            return False
        del self._starts[keep:], self._epochs[keep:]
        self.latest_epoch = self._epochs[-1] if self._epochs else NO_EPOCH
        return True

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Drops epochs that ended before `start_offset`. Its own epoch then starts there. True if any changed."""
        past = bisect_right(self._starts, start_offset)
        if not past or (past == 1 and self._starts[0] == start_offset):
            return False
        del self._starts[: past - 1], self._epochs[: past - 1]
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.latest_epoch = NO_EPOCH
