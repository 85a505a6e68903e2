"""A state with a record of a newer version, or a damaged one: it alone is not served, and nothing takes its place."""

from __future__ import annotations

import uuid

import pytest

from kavka.coordinator.share_state.decide.records import (
    ShareKey,
    SnapshotRecord,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
    snapshot_record,
    update_record,
)
from kavka.coordinator.share_state.decide.shard import ShareStateShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch

KEY, OTHER = (ShareKey("workers", uuid.UUID(int=1), index) for index in range(2))
UPDATE = UpdateRecord(KEY, 0, 3, 5, 0, [StateBatch(5, 9, 2, 1)])


def shard_with_two_states() -> ShareStateShard:
    shard = ShareStateShard(10)
    for key in (KEY, OTHER):
        replay(shard, shard.initialize(key, 1, 5, 0))
    return shard


def replay(shard: ShareStateShard, record: CoordinatorRecord) -> None:
    decoded = decode_share_state_record(record)
    assert decoded is not None
    shard.replay(decoded)


def newer(record: CoordinatorRecord) -> CoordinatorRecord:
    assert record.value is not None
    return record._replace(value=b"\x00\x01" + record.value[2:])


def damaged(record: CoordinatorRecord) -> CoordinatorRecord:
    assert record.value is not None
    return record._replace(value=record.value[:-3])


@pytest.mark.parametrize("spoil", [newer, damaged])
@pytest.mark.parametrize("kind", ["snapshot", "update"])
def test_what_cannot_be_read_is_neither_served_nor_overwritten(kind: str, spoil: object) -> None:
    shard = shard_with_two_states()
    record = update_record(UPDATE) if kind == "update" else shard.renew(KEY, 0)
    assert record is not None
    assert isinstance(decode_share_state_record(spoil(record)), UnreadableRecord)  # type: ignore[operator]
    replay(shard, spoil(record))  # type: ignore[operator]
    for ask in (
        lambda: shard.read(KEY, 7, 0),
        lambda: shard.write(UPDATE, 1, 0),
        lambda: shard.initialize(KEY, 9, 0, 0),
        lambda: shard.summary(KEY),
    ):
        with pytest.raises(RequestError) as refused:
            ask()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shard.renew(KEY, 0) is None
    assert shard.read(OTHER, 7, 0)[0].start_offset == 5


def test_it_is_served_again_once_it_is_written_whole_or_deleted() -> None:
    shard = shard_with_two_states()
    whole = shard.renew(KEY, 0)
    assert whole is not None
    replay(shard, newer(update_record(UPDATE)))
    replay(shard, whole)
    assert shard.read(KEY, 7, 0)[0].start_offset == 5
    replay(shard, newer(update_record(UPDATE)))
    deletion = shard.delete(KEY)
    assert deletion == snapshot_record(KEY, None)
    replay(shard, deletion)
    assert shard.summary(KEY) is None
    replay(shard, shard.initialize(KEY, 1, 5, 0))
    assert isinstance(decode_share_state_record(deletion), SnapshotRecord)
