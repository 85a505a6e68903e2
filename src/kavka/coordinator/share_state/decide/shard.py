"""ShareStateShard: the share-partitions of one partition of `__share_group_state`.

Decides whether a request counts, and which record it leads to. State changes only in `replay`.

    I1  a write with an older leader epoch or an older state epoch than was seen changes nothing: of two leaders of a
        partition the later one writes, and what was decided before a reset of the offsets is not stored after it
    I2  snapshot and updates together say what the state is (`batches`)
    I3  the same write twice leaves what it leaves once: who does not know what came of it sends it again
    I4  a state with a record that cannot be read is not served, and not overwritten, until it is deleted, or written as
        a whole by somebody who can: an older state in its place would deliver again what is done. Others are served
    I5  no state has more than MOST_BATCHES
    I6  of the numbered reads and writes of one leader no write is taken after a later one: it is one that was sent
        again meanwhile. The numbers are in memory only. What is late comes over a connection to this process, but a
        process that has given the partition away and got it back meanwhile does not know them any more
    I7  a numbered write changes no state that no leader has read. Else: 1. a leader's write is on its way; 2. the group
        is deleted, and made again under its name, with the epochs that it had; 3. the write arrives, and the new group
        passes over records that it never saw. Kafka does not notice. Nor one of an earlier epoch than its own: 1. a
        position is set, but that is lost with this coordinator; 2. the share-partition's leader has read it meanwhile;
        3. its next write would have the group pass over all before that position, though who set it was told of a
        failure
    I8  who asks for a state without a start makes one where there is none, and undoes no position. Else: 1. a group's
        coordinator asks for a state, hears nothing, and asks again; 2. the state is made, and its leader has the group
        begin; 3. the other request arrives, and the start is forgotten; 4. the group begins once more, by its
        share.auto.offset.reset: at the end of the log, behind records that nobody was given. Kafka does not notice
    I9  of the numbered requests of a group's coordinators none is taken after a later one, and a position is set once.
        Else: 1. a group's coordinator has a state deleted, hears nothing, and asks again; 2. the group is deleted, and
        made again under its name, and its state too; 3. the first request arrives. The group takes the state for one
        that is there, and nobody reads the partition. Kafka does not notice. The numbers are in memory, as those of
        I6, and only the last MOST_REMEMBERED: what is late is late by minutes

Source: Kafka's ShareCoordinatorShard.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, assert_never

from kavka.coordinator.share_state.decide.batches import combined
from kavka.coordinator.share_state.decide.records import (
    ARCHIVING,
    NO_EPOCH,
    UNKNOWN_COUNT,
    UNKNOWN_START,
    ShareKey,
    ShareState,
    ShareStateRecord,
    SnapshotRecord,
    UnreadableRecord,
    UpdateRecord,
    flaw,
    snapshot_record,
    update_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import Offset, StateBatch

MOST_BATCHES: Final = 30_000
"""Batches of one state. A leader comes to no more: with 10,000 runs it begins nothing new (`share.decide`), and the
20,000 records that may be in flight by then are a run each at most. These fit into a record of a megabyte, which a
snapshot is. Kafka has no bound."""
MOST_REMEMBERED: Final = 10_000
"""Share-partitions of which the last request of a group's coordinator is remembered, also where the state is gone."""


class WriteNumber(NamedTuple):
    """The `ordinal`-th request of a leader's process, whose broker is registered in `broker_epoch`. Other programs have
    none."""

    broker_epoch: int
    ordinal: int


class AskedNumber(NamedTuple):
    """The same of a group's coordinator, which leads the group's partition of a topic in `coordinator_epoch`. Another
    topic's epochs begin anew."""

    topic_id: uuid.UUID
    coordinator_epoch: int
    broker_epoch: int
    ordinal: int


class ShareStateShard:
    """States by share-partition. A snapshot follows after `updates_per_snapshot` updates."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self.states: dict[ShareKey, ShareState] = {}
        self._last_writes: dict[ShareKey, tuple[int, WriteNumber]] = {}
        """Of each state: the leader epoch of the last numbered read or write, and its number (I6)."""
        self._last_asked: dict[ShareKey, AskedNumber] = {}
        """The last numbered request of a group's coordinator, those that came last at the end (I9)."""
        self.unreadable: dict[ShareKey, str] = {}
        """Why each of these cannot be read (I4)."""

    # -- requests

    def initialize(
        self,
        key: ShareKey,
        state_epoch: int,
        start_offset: Offset,
        wall_ms: int,
        number: AskedNumber | None = None,
    ) -> CoordinatorRecord:
        """A state that restarts; or is stored once more as it is, if it has begun and no start is asked for (I8), or
        was set in this epoch before (I9): who asked is answered once that is committed. Raises `RequestError`:
        FENCED_STATE_EPOCH, INVALID_REQUEST."""
        self._check_readable(key)
        _check_start(start_offset)
        known = self.states.get(key)
        if known is not None and state_epoch != NO_EPOCH and known.state_epoch > state_epoch:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_order(key, number)
        if known is not None and known.start_offset != UNKNOWN_START:
            # A coordinator of groups sets a position in an epoch of its own.
            is_set = number is not None and known.state_epoch == state_epoch
            if is_set or start_offset == UNKNOWN_START:
                return snapshot_record(key, _again(known, wall_ms))
        snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
        leader_epoch = NO_EPOCH if known is None else known.leader_epoch
        complete = UNKNOWN_COUNT if start_offset == UNKNOWN_START else 0
        state = ShareState(snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, wall_ms, wall_ms)
        return snapshot_record(key, state)

    def read(
        self, key: ShareKey, leader_epoch: int, wall_ms: int, number: WriteNumber | None = None
    ) -> tuple[ShareState, CoordinatorRecord | None]:
        """The state, and the record that raises its leader epoch. Raises `RequestError`: INVALID_REQUEST for a state
        that was never initialised, FENCED_LEADER_EPOCH."""
        state = self._checked(key, leader_epoch, NO_EPOCH, "read")
        if number is not None:
            epoch, last = self._last_writes.get(key, (leader_epoch, number))
            self._last_writes[key] = leader_epoch, max(last, number) if epoch == leader_epoch else number
        if leader_epoch in (NO_EPOCH, state.leader_epoch):
            return state, None
        change = UpdateRecord(key, state.snapshot_epoch, leader_epoch, state.start_offset, state.complete_count, ())
        return state, self._change(state, change, wall_ms)

    def write(
        self, update: UpdateRecord, state_epoch: int, wall_ms: int, number: WriteNumber | None = None
    ) -> CoordinatorRecord:
        """The record of a change; its snapshot epoch is looked up here. Raises `RequestError` as `read`,
        FENCED_STATE_EPOCH, and INVALID_REQUEST for what no leader could go on with."""
        _check_start(update.start_offset)
        why = flaw(update.batches)
        if why is not None:
            raise RequestError(ErrorCode.INVALID_REQUEST, why)
        state = self._checked(update.key, update.leader_epoch, state_epoch, "write")
        if len(state.batches) + len(update.batches) > MOST_BATCHES:
            count = len(_merged(state, update).batches)
            if count > MOST_BATCHES:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"The state would have {count} batches, more than {MOST_BATCHES}."
                )
        self._check_number(update, state_epoch, number)
        leader_epoch = max(update.leader_epoch, state.leader_epoch)
        return self._change(
            state, update._replace(snapshot_epoch=state.snapshot_epoch, leader_epoch=leader_epoch), wall_ms
        )

    def _check_number(self, update: UpdateRecord, state_epoch: int, number: WriteNumber | None) -> None:
        if number is None:
            return
        state = self.states[update.key]
        if state.leader_epoch == NO_EPOCH:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH, "The state was made anew, and no leader has read it yet.")
        if state.state_epoch != state_epoch:
            raise RequestError(
                ErrorCode.FENCED_STATE_EPOCH, f"The state is of epoch {state.state_epoch}, the write of {state_epoch}."
            )
        epoch, last = self._last_writes.get(update.key, (update.leader_epoch, number))
        if epoch == update.leader_epoch and number < last:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Write {number.ordinal} of this leader, in broker epoch {number.broker_epoch}, follows its request "
                f"{last.ordinal} in broker epoch {last.broker_epoch}; it is late.",
            )
        self._last_writes[update.key] = update.leader_epoch, number

    def _check_order(self, key: ShareKey, number: AskedNumber | None) -> None:
        if number is None:
            return
        last = self._last_asked.pop(key, number)
        if last.topic_id != number.topic_id:
            last = number
        self._last_asked[key] = max(last, number)
        if len(self._last_asked) > MOST_REMEMBERED:
            del self._last_asked[next(iter(self._last_asked))]
        if number < last:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Request {number.ordinal} of the group's coordinator in epoch {number.coordinator_epoch} comes after "
                f"{last.ordinal} in epoch {last.coordinator_epoch}; it is late.",
            )

    def delete(self, key: ShareKey, number: AskedNumber | None = None) -> CoordinatorRecord | None:
        """The record that deletes a state; None if there is none. Raises `RequestError`: INVALID_REQUEST (I9)."""
        self._check_order(key, number)
        return snapshot_record(key, None) if key in self.states or key in self.unreadable else None

    def renew(self, key: ShareKey, wall_ms: int) -> CoordinatorRecord | None:
        """The record that stores a whole state again. None if it is gone, or cannot be read."""
        state = self.states.get(key)
        if state is None or key in self.unreadable:
            return None
        return snapshot_record(key, _again(state, wall_ms))

    def summary(self, key: ShareKey) -> ShareState | None:
        """The state; None if there is none. Raises `RequestError` (I4)."""
        self._check_readable(key)
        return self.states.get(key)

    def share_partitions(self) -> list[ShareKey]:
        """All that have a state, whether it can be read or not."""
        return list(dict.fromkeys((*self.states, *self.unreadable)))

    def groups_with_due_letters(self) -> set[str]:
        """Groups that have given up records whose dead letters are not written yet."""
        return {
            key.group_id
            for key, state in self.states.items()
            if any(batch.state == ARCHIVING for batch in state.batches)
        }

    def _check_readable(self, key: ShareKey) -> None:
        if key in self.unreadable:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.unreadable[key])

    def _checked(self, key: ShareKey, leader_epoch: int, state_epoch: int, what: str) -> ShareState:
        self._check_readable(key)
        state = self.states.get(key)
        if state is None:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"{what.capitalize()} operation on uninitialized share partition not allowed.",
            )
        if leader_epoch != NO_EPOCH and state.leader_epoch > leader_epoch:
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
        if state_epoch != NO_EPOCH and state.state_epoch > state_epoch:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH)
        return state

    def _change(self, state: ShareState, update: UpdateRecord, wall_ms: int) -> CoordinatorRecord:
        if state.updates < self._updates_per_snapshot:
            batches = combined((), update.batches, update.start_offset)
            return update_record(update._replace(batches=batches))
        return snapshot_record(update.key, _again(_merged(state, update), wall_ms))

    # -- the log

    def replay(self, record: ShareStateRecord) -> None:
        """Applies a record that is committed, or was read."""
        match record:
            case UnreadableRecord(key, why):
                self.unreadable[key] = why
            case SnapshotRecord(key, state):
                self.unreadable.pop(key, None)
                if state is None:
                    self.states.pop(key, None)
                    self._last_writes.pop(key, None)
                else:
                    self.states[key] = state._replace(batches=combined(state.batches, (), state.start_offset))
            case UpdateRecord(key):
                known = self.states.get(key)
                if known is None:
                    # Of a log whose beginning was cut off too far. Kafka takes it as a state as well.
                    known = ShareState(record.snapshot_epoch, 0, NO_EPOCH, UNKNOWN_START, UNKNOWN_COUNT, 0, 0)
                self.states[key] = _merged(known, record)._replace(updates=known.updates + 1)
            case _:
                assert_never(record)


def _check_start(start_offset: Offset) -> None:
    if start_offset < UNKNOWN_START:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"A group cannot begin at offset {start_offset}.")


def _again(state: ShareState, wall_ms: int) -> ShareState:
    """The same state, as the next snapshot has it."""
    return state._replace(snapshot_epoch=state.snapshot_epoch + 1, created_ms=wall_ms, written_ms=wall_ms)


def _merged(state: ShareState, update: UpdateRecord) -> ShareState:
    start = state.start_offset if update.start_offset == UNKNOWN_START else update.start_offset
    batches: Sequence[StateBatch] = combined(state.batches, update.batches, start)
    return state._replace(
        leader_epoch=max(state.leader_epoch, update.leader_epoch),
        start_offset=start,
        complete_count=update.complete_count,
        batches=tuple(batches),
    )
