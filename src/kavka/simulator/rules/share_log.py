"""What the coordinators of share groups have committed, as one reads it who has nothing but the log.

Decides whether the records of `__share_group_state` follow from one another: it replays them offset by offset, as no
coordinator does, and compares. Must not know leaders, members or requests.

    SH2   what is acknowledged or archived stays so
    SH4   the start offset falls only where an administrator sets it, and is forgotten only with its state
    SH9   leader epochs and state epochs do not fall
    SH10  a snapshot is what the records before it come to
    SH14  what waits for its dead letter is archived next, and nothing else
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kavka.coordinator.share_state.decide.records import (
    UNKNOWN_START,
    ShareKey,
    SnapshotRecord,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.share.decide.spans import TERMINAL, RecordState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kavka.coordinator.share_state.decide.records import ShareState
    from kavka.model import Offset, StateBatch
    from kavka.records.batch import RecordBatch
    from kavka.simulator.rules.replica_view import View

TOPIC: Final = "__share_group_state"
DEAD_LETTERS: Final = "dlq.orders"
"""The topic of what the simulated group gives up."""
_Told = tuple[int, int]
"""State and count of deliveries."""


@dataclass
class Kept:
    """A share-partition's state, as its records say. `states` has what was said of each offset last, also of those
    below the start; `said`: all that was said of an offset, with the leader epoch of the record."""

    state_epoch: int
    leader_epoch: int
    start: Offset
    states: dict[Offset, _Told] = field(default_factory=dict)
    said: set[tuple[Offset, _Told, int]] = field(default_factory=set)
    begin: Offset = UNKNOWN_START
    """The start with which the state was made; -1: where its leader had the group begin."""

    def live(self) -> dict[Offset, _Told]:
        """From the start on."""
        return {offset: told for offset, told in self.states.items() if offset >= self.start}


class ShareLog:
    """All states of a cluster, by share-partition."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.kept: dict[ShareKey, Kept] = {}
        self.former: dict[ShareKey, list[Kept]] = {}
        """What states were before administrators set them anew, or had them deleted."""

    def times_set(self, key: ShareKey) -> int:
        """How often an administrator has set the state anew, or deleted it."""
        return len(self.former.get(key, ()))

    def is_said(self, key: ShareKey, offset: Offset, told: _Told, leader_epoch: int) -> bool:
        """Whether the log says this of the offset, or did before the state was set anew."""
        is_terminal = told[0] in TERMINAL
        present = self.kept.get(key)
        known = [*self.former.get(key, ()), *(() if present is None else (present,))]
        return any((offset, told, leader_epoch) in kept.said or (is_terminal and offset < kept.start) for kept in known)

    def on_committed(self, batches: Iterable[RecordBatch]) -> None:
        """These batches came to lie below the true high watermark of one of the topic's partitions."""
        for record in _records(batches):
            match record:
                case SnapshotRecord(key, None):
                    self._put_away(key)
                case SnapshotRecord(key, state) if state is not None:
                    self._on_snapshot(key, state)
                case UpdateRecord():
                    self._on_update(record)
                case _:
                    self._view.require("SH10", holds=False, text=f"{record}: nobody can read it")

    def _on_snapshot(self, key: ShareKey, state: ShareState) -> None:
        kept = self.kept.get(key)
        if kept is None or state.state_epoch > kept.state_epoch or kept.start == UNKNOWN_START:
            if kept is not None:
                self._epochs(key, kept, state.state_epoch, state.leader_epoch)
                is_forgotten = state.start_offset == UNKNOWN_START != kept.start
                text = f"{key}: the start {kept.start} is forgotten in epoch {state.state_epoch}, and was not deleted"
                self._view.require("SH4", not is_forgotten, text)
                if state.state_epoch > kept.state_epoch:
                    self._put_away(key)
            is_leaders = kept is not None and kept.state_epoch == state.state_epoch and state.leader_epoch >= 0
            begin = UNKNOWN_START if is_leaders else state.start_offset
            self.kept[key] = Kept(state.state_epoch, state.leader_epoch, state.start_offset, begin=begin)
            return
        self._epochs(key, kept, state.state_epoch, state.leader_epoch)
        before = dict(kept.states)
        # The write that it comes with is told in it, and nowhere else.
        self._take(key, kept, state.start_offset, state.batches, state.leader_epoch)
        told = _by_offset(state.batches)
        lost = {offset: each for offset, each in before.items() if offset >= state.start_offset and offset not in told}
        self._view.require("SH10", not lost, f"{key}: a snapshot from {state.start_offset} on lacks {lost}")

    def began_at(self, key: ShareKey) -> set[Offset]:
        """Where the group began each time that its state was made, or set anew."""
        present = self.kept.get(key)
        known = [*self.former.get(key, ()), *(() if present is None else (present,))]
        return {kept.begin for kept in known}

    def _put_away(self, key: ShareKey) -> None:
        kept = self.kept.pop(key, None)
        if kept is not None and kept.start != UNKNOWN_START:
            self.former.setdefault(key, []).append(kept)

    def _on_update(self, record: UpdateRecord) -> None:
        kept = self.kept.get(record.key)
        if kept is None:
            self._view.require("SH10", holds=False, text=f"{record.key}: an update of nothing")
            return
        self._epochs(record.key, kept, kept.state_epoch, record.leader_epoch)
        start = kept.start if record.start_offset == UNKNOWN_START else record.start_offset
        self._take(record.key, kept, start, record.batches, record.leader_epoch)

    def _epochs(self, key: ShareKey, kept: Kept, state_epoch: int, leader_epoch: int) -> None:
        text = f"{key}: epochs {state_epoch}, {leader_epoch} after {kept.state_epoch}, {kept.leader_epoch}"
        self._view.require("SH9", state_epoch >= kept.state_epoch and leader_epoch >= kept.leader_epoch, text)
        kept.leader_epoch = leader_epoch

    def _take(self, key: ShareKey, kept: Kept, start: Offset, batches: Sequence[StateBatch], leader_epoch: int) -> None:
        self._view.require("SH4", start >= kept.start, f"{key}: the start fell from {kept.start} to {start}")
        kept.start = start
        for offset, told in _by_offset(batches).items():
            before = kept.states.get(offset)
            is_same = before is None or before[0] not in TERMINAL or before[0] == told[0]
            self._view.require("SH2", is_same, f"{key}: {offset} was {before}, and then {told}")
            is_waiting = before is not None and before[0] == RecordState.ARCHIVING
            is_next = told[0] in (RecordState.ARCHIVING, RecordState.ARCHIVED)
            text = f"{key}: {offset} waited for its dead letter, and then was {told}"
            self._view.require("SH14", not is_waiting or is_next, text)
            kept.states[offset] = told
            kept.said.add((offset, told, leader_epoch))
        self._view.note(f"share {key} {start} {len(kept.states)}")

    def require_same(self, key: ShareKey, state: ShareState | None, whole: Iterable[RecordBatch]) -> None:
        """SH10: what a coordinator has in memory, and what is left of the log, is what was committed."""
        kept = self.kept.get(key)
        shown = None if state is None else (state.start_offset, _by_offset(state.batches))
        wanted = None if kept is None else (kept.start, kept.live())
        self._view.require("SH10", shown == wanted, f"{key}: its coordinator has {shown}, its log {wanted}")
        found = _left(key, whole)
        self._view.require("SH10", found == wanted, f"{key}: of its log {found} is left, it was {wanted}")


def _left(key: ShareKey, batches: Iterable[RecordBatch]) -> tuple[Offset, dict[Offset, _Told]] | None:
    """What these records come to, of which the first may be updates of a snapshot that was cut off."""
    start: Offset | None = None
    states: dict[Offset, _Told] = {}
    for record in _records(batches):
        if record.key != key or isinstance(record, UnreadableRecord):
            continue
        if isinstance(record, SnapshotRecord):
            start = None if record.state is None else record.state.start_offset
            states = {} if record.state is None else _by_offset(record.state.batches)
        elif start is not None:
            start = start if record.start_offset == UNKNOWN_START else record.start_offset
            states |= _by_offset(record.batches)
    return None if start is None else (start, {offset: told for offset, told in states.items() if offset >= start})


def _records(batches: Iterable[RecordBatch]) -> Iterable[SnapshotRecord | UpdateRecord | UnreadableRecord]:
    for batch in batches:
        if batch.header.is_control:
            continue
        for record in batch.records():
            value = None if record.value is None else bytes(record.value)
            found = decode_share_state_record(CoordinatorRecord(bytes(record.key or b""), value))
            if found is not None:
                yield found


def _by_offset(batches: Sequence[StateBatch]) -> dict[Offset, _Told]:
    return {
        offset: (batch.state, batch.deliveries)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
