"""ProducerSnapshots: the .snapshot files of one log.

Decides which snapshot a state is loaded from and which files may go. It must not know what the state means.

Invariants
  I1  A snapshot at offset N tells of the records before N. One at the base offset of every segment but the first, and
      one at the log end after a clean stop, so that at most one segment is read again.
  I2  A snapshot is written without a sync: its CRC says whether it arrived, and the records say the same. The log has
      it durable with its next flush, so that of a clean stop before the stop's mark: behind a mark no record is read.

Source: Kafka's ProducerStateManager (takeSnapshot, loadFromSnapshot, removeStraySnapshots).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Container, Iterable

from kavka.log.decide.producer_state import CorruptSnapshot, ProducerState
from kavka.log.segment import SNAPSHOT_SUFFIX, LogDirectory
from kavka.model import Offset

OnBadSnapshot = Callable[[str, str], None]
"""Told the path of a snapshot that cannot be used, and why."""


class ProducerSnapshots:
    """The snapshots in `directory`, by offset."""

    __slots__ = ("_directory", "_offsets")

    def __init__(self, directory: LogDirectory, offsets: Iterable[Offset] = ()) -> None:
        self._directory = directory
        self._offsets = sorted(offsets)

    @property
    def offsets(self) -> list[Offset]:
        return list(self._offsets)

    def path(self, offset: Offset) -> str:
        return self._directory.file_path(offset, SNAPSHOT_SUFFIX)

    def take(self, state: ProducerState) -> str | None:
        """Writes a snapshot of `state` at its end offset. Returns the path, or None if it exists already."""
        offset = state.end_offset
        if self._offsets and self._offsets[-1] >= offset:
            return None
        path = self.path(offset)
        self._directory.filesystem.write_atomically(path, state.snapshot(), durable=False)
        insort(self._offsets, offset)
        return path

    def load(
        self,
        state: ProducerState,
        up_to: Offset,
        start_offset: Offset,
        now_ms: int,
        expiration_ms: int,
        on_bad: OnBadSnapshot,
    ) -> None:
        """Makes `state` the latest good snapshot's that is not above `up_to`, or empty at `start_offset`.

        Bad ones are removed.
        """
        while slot := bisect_right(self._offsets, up_to):
            offset = self._offsets[slot - 1]
            try:
                data = self._directory.filesystem.read(self.path(offset))
                state.load(data, offset, now_ms, expiration_ms)
                return
            except (CorruptSnapshot, FileNotFoundError) as error:
                on_bad(self.path(offset), str(error))
                self._remove(slot - 1)
        state.clear(start_offset)

    def remove_above(self, offset: Offset) -> None:
        """Removes the snapshots that cover records at or after `offset`."""
        while self._offsets and self._offsets[-1] > offset:
            self._remove(len(self._offsets) - 1)

    def remove_below(self, offset: Offset) -> None:
        """Removes the snapshots below `offset`, as the segments that they were for go."""
        for _ in range(bisect_left(self._offsets, offset)):
            self._remove(0)

    def remove_strays(self, base_offsets: Iterable[Offset]) -> None:
        """Removes all but the last one and those at the segments' base offsets."""
        kept = {*base_offsets, *self._offsets[-1:]}
        for slot in reversed(range(len(self._offsets))):
            if self._offsets[slot] not in kept:
                self._remove(slot)

    def remove_at(self, offsets: Container[Offset]) -> None:
        """Removes the snapshots at these offsets but the last one, as compaction joins segments that began there."""
        for slot in reversed(range(len(self._offsets) - 1)):
            if self._offsets[slot] in offsets:
                self._remove(slot)

    def remove_all(self) -> None:
        while self._offsets:
            self._remove(len(self._offsets) - 1)

    def _remove(self, slot: int) -> None:
        self._directory.remove_if_there(self.path(self._offsets.pop(slot)))
