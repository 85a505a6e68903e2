"""SegmentSwap: puts the segment that compaction made in the place of those that it was made from.

Decides the order of the steps that the log and its directory see; the compaction's own steps, and its syncs between
these, are the cleaner's (kavka.broker.upkeep.log_cleaner, I3). It must not know what was compacted away.

    begin        the new segment's files are renamed to .swap: after the next sync a restart believes it
    install      readers find it instead of the old ones, whose files are renamed to .deleted
    finish       its files get their own names
    remove_later the old files may go: `finish` is durable
    cancel       instead of install: a truncation, or a log that changed meanwhile, takes it back

Source: Kafka's UnifiedLog.replaceSegments and LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.log.durability import Durability
from kavka.log.log_segments import LogSegments, PendingRemoval
from kavka.log.producer_snapshots import ProducerSnapshots
from kavka.log.segment import SWAP_SUFFIX, LogDirectory, Segment
from kavka.model import Offset


class SegmentSwap:
    """The swaps of one log, one at a time."""

    __slots__ = ("_cleaned", "_directory", "_durability", "_segments", "_snapshots")

    def __init__(
        self, directory: LogDirectory, segments: LogSegments, snapshots: ProducerSnapshots, durability: Durability
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._snapshots = snapshots
        self._durability = durability
        self._cleaned: Segment | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the segment of `begin` has neither its final names nor been taken back."""
        return self._cleaned is not None

    @property
    def bound(self) -> Offset:
        """Up to here the log can do without the first records of its leader epochs: the disk has where they began."""
        return self._durability.epochs_durable_to

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these still are consecutive segments of the log."""
        return self._segments.hold(segments)

    def begin(self, cleaned: Segment) -> None:
        """Compaction has made `cleaned`, complete and durable. Raises `StorageError`.

        After the next sync of the directory a restart puts it in the place of what it covers. A truncation meanwhile
        takes it back.
        """
        self._cleaned = cleaned
        cleaned.move_to(self._directory, SWAP_SUFFIX)

    def install(self, segments: Sequence[Segment], due_ms: int) -> list[PendingRemoval]:
        """Puts the segment of `begin` in the place of `segments`, which it `holds`. Raises `StorageError`.

        Every reader finds it from now on. Returns the renamed files of the old ones, which may be removed at `due_ms`:
        give them to `remove_later` when `finish` is durable.
        """
        cleaned, own = self._cleaned, self._segments
        assert cleaned is not None
        first = own.number_of(segments[0].base_offset)
        bases = {segment.base_offset for segment in segments if segment.base_offset != cleaned.base_offset}
        before, own.removals = own.removals, []
        self._durability.directory_changed = True
        try:
            own.remove(first, first + len(segments), due_ms)
        finally:
            removals, own.removals = own.removals, before
            # Also where the disk fails: until the directory is offline readers must not find a hole.
            own.insert(first, cleaned)
        self._directory.open_segments.opened(cleaned)
        self._snapshots.remove_at(bases)
        return removals

    def finish(self) -> None:
        """Gives the installed segment its final names. Raises `StorageError`."""
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is not None:
            cleaned.move_to(self._directory, "")
        self._durability.directory_changed = True

    def remove_later(self, removals: Sequence[PendingRemoval]) -> None:
        """Removes the files that `install` renamed, once their delay is over."""
        self._segments.removals.extend(removals)
        self._directory.note()

    def cancel(self) -> None:
        """Takes the segment of `begin` back, unless it is installed."""
        cleaned = self._cleaned
        if cleaned is not None and cleaned not in self._segments.listed:
            self._cleaned = None
            for path in cleaned.all_paths():
                self._directory.remove_if_there(path)
