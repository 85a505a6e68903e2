"""Pruning: which prefix of a partition of `__share_group_state` nobody needs any more.

Keeps, for each share-partition, the offset of the record with which its state begins. Decides where the log may begin,
and which states are to be written anew so that it may begin later. Must not know what a state says.

    I1  nothing is cut that a state is made of: neither its last snapshot that is committed, nor
        an update after it. A snapshot of which nobody knows whether it is may be lost with this leadership
    I2  of a state that was read and not written since, nobody knows where it begins: nothing is cut until it is written
    I3  a tombstone is not cut while what it deletes is still there: only prefixes go

Source: Kafka's ShareCoordinatorOffsetsManager and ShareCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.coordinator.share_state.decide.records import ShareKey, ShareState, ShareStateRecord, SnapshotRecord
from kavka.model import Offset

WASTE: Final = 2
"""Records for each state that a log may have behind the oldest one, before that one is written anew."""


class Pruning:
    """The beginnings of the states of one partition, led here."""

    def __init__(self) -> None:
        self._begins: dict[ShareKey, Offset] = {}
        self._writing: dict[ShareKey, Offset] = {}

    def on_writing(self, key: ShareKey, offset: Offset) -> None:
        """A record is appended at `offset`; whether it counts is not known yet."""
        self._writing[key] = offset

    def on_written(self, key: ShareKey, committed: ShareStateRecord | None) -> None:
        """Its content if it is committed. None if it is not, or if that is unknown."""
        offset = self._writing.pop(key)
        if isinstance(committed, SnapshotRecord):
            if committed.state is None:
                self._begins.pop(key, None)
            else:
                self._begins[key] = offset

    def bound(self, states: Mapping[ShareKey, ShareState], high_watermark: Offset) -> Offset:
        """Where the log may begin; 0 where nothing can be cut."""
        begins = [self._begins.get(key, 0) for key in states]
        return min([high_watermark, *begins, *self._writing.values()])

    def to_renew(
        self, states: Mapping[ShareKey, ShareState], log_end: Offset, *, not_written_since_ms: int
    ) -> list[ShareKey]:
        """States that hold back the cut: written last before `not_written_since_ms` (wall clock), and far from the end
        of the log. A quiet log is not written to for ever: who was renewed lies near the end."""
        room = WASTE * len(states)
        return [
            key
            for key, state in states.items()
            if state.written_ms < not_written_since_ms
            and key not in self._writing
            and (key not in self._begins or self._begins[key] + room < log_end)
        ]
