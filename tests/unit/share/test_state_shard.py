"""The states of share-partitions, as Kafka's ShareCoordinatorShard keeps them: which requests count, and which record
is a snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from kavka.coordinator.share_state.decide import shard as shard_module
from kavka.coordinator.share_state.decide.records import (
    ARCHIVING,
    NO_EPOCH,
    UNKNOWN_COUNT,
    UNKNOWN_START,
    ShareKey,
    ShareState,
    SnapshotRecord,
    UpdateRecord,
    decode_share_state_record,
)
from kavka.coordinator.share_state.decide.shard import MOST_BATCHES, AskedNumber, ShareStateShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch

TOPIC = uuid.UUID(int=1)
KEY = ShareKey("workers", TOPIC, 0)
ACCEPTED, RELEASED = 2, 0


def replay(shard: ShareStateShard, record: CoordinatorRecord | None) -> SnapshotRecord | UpdateRecord:
    assert record is not None
    decoded = decode_share_state_record(record)
    assert isinstance(decoded, SnapshotRecord | UpdateRecord)
    shard.replay(decoded)
    return decoded


def begun(updates_per_snapshot: int = 500, *, state_epoch: int = 1, leader_epoch: int = 4) -> ShareStateShard:
    shard = ShareStateShard(updates_per_snapshot)
    replay(shard, shard.initialize(KEY, state_epoch, 0, 100))
    replay(shard, shard.read(KEY, leader_epoch, 200)[1])
    return shard


def update(*batches: StateBatch, start: int = UNKNOWN_START, leader_epoch: int = 4) -> UpdateRecord:
    return UpdateRecord(KEY, 0, leader_epoch, start, 0, batches)


def refusal(work: Callable[[], object]) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        work()
    return ErrorCode(refused.value.code)


def test_a_new_state_is_a_snapshot_of_epoch_nought() -> None:
    shard = ShareStateShard(500)
    known = replay(shard, shard.initialize(KEY, 3, UNKNOWN_START, 77))
    assert known == SnapshotRecord(KEY, ShareState(0, 3, NO_EPOCH, UNKNOWN_START, UNKNOWN_COUNT, 77, 77))


def test_a_state_that_is_set_is_the_next_snapshot_and_counts_what_is_done_from_nought() -> None:
    shard = begun()
    known = replay(shard, shard.initialize(KEY, 3, 20, 300))
    assert known == SnapshotRecord(KEY, ShareState(1, 3, 4, 20, 0, 300, 300))
    again = replay(shard, shard.initialize(KEY, 4, 30, 400))
    assert again == SnapshotRecord(KEY, ShareState(2, 4, 4, 30, 0, 400, 400))


def test_so_many_changes_and_then_a_snapshot_of_all() -> None:
    shard = begun(updates_per_snapshot=3)  # Reading was the first change.
    kinds = []
    for offset in range(8):
        batch = StateBatch(offset, offset, ACCEPTED if offset % 2 else RELEASED, 1)
        kinds.append(replay(shard, shard.write(update(batch), 1, 300 + offset)))
    assert [type(one) for one in kinds] == [
        UpdateRecord,
        UpdateRecord,
        SnapshotRecord,
        UpdateRecord,
        UpdateRecord,
        UpdateRecord,
        SnapshotRecord,
        UpdateRecord,
    ]
    snapshot = kinds[2]
    assert isinstance(snapshot, SnapshotRecord)
    assert snapshot.state is not None
    assert snapshot.state[:7] == (1, 1, 4, 0, 0, 302, 302)
    assert [batch.first_offset for batch in snapshot.state.batches] == [0, 1, 2]
    assert [one.snapshot_epoch for one in kinds if isinstance(one, UpdateRecord)] == [0, 0, 1, 1, 1, 2]


def test_a_state_that_has_begun_is_stored_again_as_it_is() -> None:
    shard = begun()
    replay(shard, shard.write(update(StateBatch(0, 4, ACCEPTED, 1), start=5), 1, 300))
    before = shard.states[KEY]
    replay(shard, shard.initialize(KEY, 1, UNKNOWN_START, 400))
    assert shard.states[KEY] == before._replace(snapshot_epoch=1, created_ms=400, written_ms=400, updates=0)


def test_requests_of_older_epochs_change_nothing() -> None:
    shard = begun(state_epoch=2)
    batch = StateBatch(0, 0, ACCEPTED, 1)
    assert refusal(lambda: shard.read(KEY, 3, 0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(lambda: shard.write(update(batch, leader_epoch=3), 2, 0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(lambda: shard.write(update(batch), 1, 0)) is ErrorCode.FENCED_STATE_EPOCH
    assert refusal(lambda: shard.initialize(KEY, 1, 0, 0)) is ErrorCode.FENCED_STATE_EPOCH
    assert shard.read(KEY, 4, 0)[1] is None
    shard.write(update(batch), 2, 0)


def test_there_is_nothing_to_read_or_write_of_a_state_that_is_not_there() -> None:
    shard = ShareStateShard(500)
    assert refusal(lambda: shard.read(KEY, 0, 0)) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: shard.write(update(), 0, 0)) is ErrorCode.INVALID_REQUEST
    assert shard.delete(KEY) is None


def test_a_change_whose_snapshot_was_cut_off_is_a_state_of_its_own() -> None:
    """As Kafka takes it: of state epoch nought, with what the change says."""
    shard = ShareStateShard(500)
    shard.replay(UpdateRecord(KEY, 7, 4, 12, 3, [StateBatch(12, 13, ACCEPTED, 1)]))
    assert shard.states[KEY] == ShareState(7, 0, 4, 12, 3, 0, 0, (StateBatch(12, 13, ACCEPTED, 1),), 1)


def test_no_state_has_more_batches_than_a_record_can_hold() -> None:
    shard = begun()
    many = [StateBatch(offset, offset, RELEASED, 1 + offset // 2 % 2) for offset in range(0, 2 * MOST_BATCHES, 2)]
    replay(shard, shard.write(update(*many), 1, 0))
    assert len(shard.states[KEY].batches) == MOST_BATCHES
    within = StateBatch(0, 0, ACCEPTED, 2)
    replay(shard, shard.write(update(within), 1, 0))
    one_more = StateBatch(2 * MOST_BATCHES, 2 * MOST_BATCHES, RELEASED, 1)
    assert refusal(lambda: shard.write(update(one_more), 1, 0)) is ErrorCode.INVALID_REQUEST


def test_which_groups_wait_for_dead_letters() -> None:
    shard = begun()
    replay(shard, shard.write(update(StateBatch(0, 0, RELEASED, 1)), 1, 0))
    assert shard.groups_with_due_letters() == set()
    replay(shard, shard.write(update(StateBatch(0, 0, ACCEPTED, 1), StateBatch(1, 1, ARCHIVING, 5)), 1, 0))
    assert shard.groups_with_due_letters() == {"workers"}


def test_so_many_share_partitions_are_remembered_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "MOST_REMEMBERED", 3)
    shard = ShareStateShard(500)

    def delete(partition: int, ordinal: int) -> CoordinatorRecord | None:
        return shard.delete(ShareKey("workers", TOPIC, partition), AskedNumber(TOPIC, 0, 9, ordinal))

    for partition in range(3):
        delete(partition, 10 + partition)
    assert refusal(lambda: delete(0, 5)) is ErrorCode.INVALID_REQUEST  # And this is the last one now.
    delete(3, 20)
    assert refusal(lambda: delete(0, 6)) is ErrorCode.INVALID_REQUEST
    assert delete(1, 7) is None
