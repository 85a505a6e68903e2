"""Records of `__share_group_state`, in Kafka's own formats.

    key version   key                        value
    0             group, topic id, partition ShareSnapshotValue 0: all that is stored; null deletes it
    1             group, topic id, partition ShareUpdateValue 0: what changed since

Source: Kafka's ShareCoordinatorRecordHelpers; written so that its dump-log decodes them.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version, with_version
from kavka.errors import ProtocolViolation
from kavka.model import Offset, StateBatch
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages.share_snapshot_key import ShareSnapshotKey
from kavka.protocol.messages.share_snapshot_value import ShareSnapshotValue
from kavka.protocol.messages.share_snapshot_value import StateBatch as SnapshotBatch
from kavka.protocol.messages.share_update_key import ShareUpdateKey
from kavka.protocol.messages.share_update_value import ShareUpdateValue
from kavka.protocol.messages.share_update_value import StateBatch as UpdateBatch

_SNAPSHOT_KEY: Final = 0
_UPDATE_KEY: Final = 1
_VALUE_VERSION: Final = 0
NO_EPOCH: Final = -1
UNKNOWN_START: Final = -1
UNKNOWN_COUNT: Final = -1
ARCHIVING: Final = 3
"""The state of a record whose dead letter is due."""
_STATES: Final = (0, 1, 2, 3, 4)
"""The numbers of records' states (`share.decide.spans.RecordState`)."""


class ShareKey(NamedTuple):
    """A share-partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int

    def __str__(self) -> str:
        """As FindCoordinator names it, and as it is placed: with Kafka's text of a topic id."""
        topic_id = base64.urlsafe_b64encode(self.topic_id.bytes).decode().rstrip("=")
        return f"{self.group_id}:{topic_id}:{self.partition}"


class ShareState(NamedTuple):
    """All that is stored of a share-partition. `updates`: how many came since the last snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: Offset
    complete_count: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...] = ()
    updates: int = 0


class SnapshotRecord(NamedTuple):
    """`state` is None if it was deleted."""

    key: ShareKey
    state: ShareState | None


class UpdateRecord(NamedTuple):
    """What changed. `start_offset` is -1 where that did not."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: Offset
    complete_count: int
    batches: Sequence[StateBatch]


class UnreadableRecord(NamedTuple):
    """A state that exists and cannot be read here: it is of a newer version, or damaged."""

    key: ShareKey
    why: str


ShareStateRecord: TypeAlias = SnapshotRecord | UpdateRecord | UnreadableRecord


def flaw(batches: Sequence[StateBatch]) -> str | None:
    """Why no leader could work with these. None if one can."""
    for batch in batches:
        if batch.state not in _STATES:
            return f"{batch.state} is no state of a record."
        if not 0 <= batch.first_offset <= batch.last_offset:
            return f"Offsets {batch.first_offset} to {batch.last_offset} are no range."
        if batch.deliveries < 0:
            return f"A record cannot be delivered {batch.deliveries} times."
    return None


def snapshot_record(key: ShareKey, state: ShareState | None) -> CoordinatorRecord:
    """The record that stores a state as a whole; None deletes it."""
    name = ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    encoded = with_version(_SNAPSHOT_KEY, encode(name, _SNAPSHOT_KEY))
    if state is None:
        return CoordinatorRecord(encoded, None)
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=[
            SnapshotBatch(first_offset=first, last_offset=last, delivery_state=code, delivery_count=count)
            for first, last, code, count in state.batches
        ],
    )
    return CoordinatorRecord(encoded, with_version(_VALUE_VERSION, encode(value, _VALUE_VERSION)))


def update_record(update: UpdateRecord) -> CoordinatorRecord:
    """The record that stores a change."""
    key = update.key
    name = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    value = ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.complete_count,
        state_batches=[
            UpdateBatch(first_offset=first, last_offset=last, delivery_state=code, delivery_count=count)
            for first, last, code, count in update.batches
        ],
    )
    return CoordinatorRecord(
        with_version(_UPDATE_KEY, encode(name, _UPDATE_KEY)),
        with_version(_VALUE_VERSION, encode(value, _VALUE_VERSION)),
    )


def decode_share_state_record(record: CoordinatorRecord) -> ShareStateRecord | None:
    """What a record says; None for a kind that is not known. Raises `ProtocolViolation` for a key that is none: nobody
    knows which state it is of."""
    key_version, key_body = split_version(record.key)
    name: ShareSnapshotKey | ShareUpdateKey
    if key_version == _SNAPSHOT_KEY:
        name = decode(ShareSnapshotKey, key_body, key_version)
    elif key_version == _UPDATE_KEY and record.value is not None:
        name = decode(ShareUpdateKey, key_body, key_version)
    else:
        return None
    key = ShareKey(name.group_id, name.topic_id, name.partition)
    try:
        return _decode_value(key_version, key, record.value)
    except ProtocolViolation as unreadable:
        return UnreadableRecord(key, str(unreadable))


def _decode_value(key_version: int, key: ShareKey, encoded: bytes | None) -> SnapshotRecord | UpdateRecord:
    if encoded is None:
        return SnapshotRecord(key, None)
    if key_version == _SNAPSHOT_KEY:
        value = decode(ShareSnapshotValue, _body(encoded), _VALUE_VERSION)
        state = ShareState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            value.create_timestamp,
            value.write_timestamp,
            tuple(_batches(value.state_batches)),
        )
        return SnapshotRecord(key, state)
    update = decode(ShareUpdateValue, _body(encoded), _VALUE_VERSION)
    return UpdateRecord(
        key,
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        _batches(update.state_batches),
    )


def _batches(read: Sequence[SnapshotBatch | UpdateBatch]) -> list[StateBatch]:
    batches = [
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) for batch in read
    ]
    why = flaw(batches)
    if why is not None:
        raise ProtocolViolation(why)
    return batches


def _body(value: bytes) -> bytes:
    version, body = split_version(value)
    if version != _VALUE_VERSION:
        raise ProtocolViolation(f"a share group's state has no version {version}")
    return body
