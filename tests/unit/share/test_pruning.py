"""Which prefix of the log of share groups' states nobody needs: held against replaying what is left of it."""

from __future__ import annotations

import random
import uuid

import pytest

from kavka.coordinator.share_state.decide.pruning import WASTE, Pruning
from kavka.coordinator.share_state.decide.records import ShareKey, ShareState, SnapshotRecord, UpdateRecord
from kavka.coordinator.share_state.decide.shard import ShareStateShard
from kavka.model import StateBatch

KEYS = [ShareKey("workers", uuid.UUID(int=1), index) for index in range(3)]
A, B, C = KEYS


def state(written_ms: int = 0) -> ShareState:
    return ShareState(0, 0, 0, 0, 0, 0, written_ms)


def snapshot(key: ShareKey) -> SnapshotRecord:
    return SnapshotRecord(key, state())


def wrote(pruning: Pruning, key: ShareKey, offset: int) -> None:
    pruning.on_writing(key, offset)
    pruning.on_written(key, snapshot(key))


def test_the_log_begins_at_the_oldest_state() -> None:
    pruning = Pruning()
    wrote(pruning, A, 3)
    wrote(pruning, B, 7)
    assert pruning.bound({A: state(), B: state()}, 20) == 3
    wrote(pruning, A, 11)
    assert pruning.bound({A: state(), B: state()}, 20) == 7
    pruning.on_writing(B, 12)
    pruning.on_written(B, SnapshotRecord(B, None))
    assert pruning.bound({A: state()}, 20) == 11
    assert pruning.bound({}, 20) == 20


def test_nothing_is_cut_while_a_state_was_only_read() -> None:
    pruning = Pruning()
    wrote(pruning, A, 30)
    assert pruning.bound({A: state(), C: state()}, 40) == 0


def test_what_may_be_lost_holds_nothing_and_what_is_on_its_way_is_kept() -> None:
    pruning = Pruning()
    wrote(pruning, A, 3)
    pruning.on_writing(A, 9)
    assert pruning.bound({A: state()}, 20) == 3
    pruning.on_written(A, None)  # Nobody knows whether that snapshot is committed.
    assert pruning.bound({A: state()}, 20) == 3
    pruning.on_writing(B, 4)  # The first record of a state that is not there yet.
    assert pruning.bound({}, 20) == 4


def test_an_update_moves_nothing() -> None:
    pruning = Pruning()
    wrote(pruning, A, 3)
    pruning.on_writing(A, 9)
    pruning.on_written(A, UpdateRecord(A, 0, 0, 0, 0, ()))
    assert pruning.bound({A: state()}, 20) == 3


def test_cold_states_are_written_anew_where_the_log_has_grown_behind_them() -> None:
    pruning = Pruning()
    wrote(pruning, A, 3)
    wrote(pruning, B, 90)
    states = {A: state(), B: state(), C: state(written_ms=100)}
    assert pruning.to_renew(states, 100, not_written_since_ms=50) == [A, B]
    assert pruning.to_renew(states, 90 + WASTE * 3, not_written_since_ms=50) == [A]
    wrote(pruning, A, 100)
    assert pruning.to_renew(states, 101 + WASTE, not_written_since_ms=50) == [B]
    assert pruning.to_renew(states, 101 + WASTE, not_written_since_ms=500) == [B, C]


def test_a_state_is_cold_from_the_moment_after_which_it_was_not_written() -> None:
    pruning = Pruning()
    wrote(pruning, A, 3)
    assert pruning.to_renew({A: state(written_ms=49)}, 100, not_written_since_ms=50) == [A]
    assert pruning.to_renew({A: state(written_ms=50)}, 100, not_written_since_ms=50) == []


def test_a_state_is_far_from_the_end_with_more_than_two_records_for_each_behind_it() -> None:
    pruning = Pruning()
    wrote(pruning, A, 10)
    wrote(pruning, B, 90)
    states = {A: state(), B: state()}
    assert pruning.to_renew(states, 14, not_written_since_ms=50) == []
    assert pruning.to_renew(states, 15, not_written_since_ms=50) == [A]


def test_a_state_that_is_being_written_is_not_written_anew_beside_that() -> None:
    pruning = Pruning()
    pruning.on_writing(A, 3)
    assert pruning.to_renew({A: state(), B: state()}, 100, not_written_since_ms=50) == [B]
    pruning.on_written(A, None)
    assert pruning.to_renew({A: state(), B: state()}, 100, not_written_since_ms=50) == [A, B]


def test_a_deletion_of_a_state_that_nobody_has_written_here_is_one() -> None:
    pruning = Pruning()
    pruning.on_writing(A, 3)
    pruning.on_written(A, SnapshotRecord(A, None))
    assert pruning.bound({}, 20) == 20
    wrote(pruning, A, 4)
    assert pruning.bound({A: state()}, 20) == 4
    pruning.on_writing(A, 5)
    pruning.on_written(A, SnapshotRecord(A, None))
    assert pruning.bound({A: state()}, 20) == 0, "a state that came from elsewhere begins nobody knows where"


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_of_the_log_replays_to_the_same_states(seed: int) -> None:
    drawn = random.Random(seed)
    shard, pruning = ShareStateShard(4), Pruning()
    log: list[SnapshotRecord | UpdateRecord] = []
    begin = 0

    def put(record: SnapshotRecord | UpdateRecord) -> None:
        pruning.on_writing(record.key, len(log))
        log.append(record)
        shard.replay(record)
        pruning.on_written(record.key, record)

    for step in range(200):
        key = drawn.choice(KEYS)
        known = shard.states.get(key)
        if known is None or drawn.random() < 0.1:
            put(SnapshotRecord(key, state(step)._replace(start_offset=step)))
        elif drawn.random() < 0.05:
            put(SnapshotRecord(key, None))
        else:
            put(UpdateRecord(key, 0, 0, -1, 0, [StateBatch(step, step + drawn.randrange(9), 2, 1)]))
        if drawn.random() < 0.2:
            bound = pruning.bound(shard.states, len(log))
            assert bound >= begin
            begin = bound
        again = ShareStateShard(4)
        for record in log[begin:]:
            again.replay(record)
        assert again.states == shard.states
    assert begin > 0
