"""A request to make a state that was sent again, or came from two heartbeats, and arrives when the group has begun."""

from __future__ import annotations

import uuid

import pytest

from kavka.coordinator.share_state.decide.records import (
    UNKNOWN_START,
    ShareKey,
    ShareState,
    UpdateRecord,
    decode_share_state_record,
)
from kavka.coordinator.share_state.decide.shard import ShareStateShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch

KEY = ShareKey("workers", uuid.UUID(int=1), 0)
LEADER = 3


def replay(shard: ShareStateShard, record: CoordinatorRecord | None) -> None:
    assert record is not None
    decoded = decode_share_state_record(record)
    assert decoded is not None
    shard.replay(decoded)


def stored(shard: ShareStateShard) -> ShareState:
    """Without how often and when it was stored."""
    return shard.states[KEY]._replace(snapshot_epoch=0, created_ms=0, written_ms=0, updates=0)


def made() -> ShareStateShard:
    """With a leader that has read it, and not decided yet where the group begins."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 1, UNKNOWN_START, 0))
    replay(shard, shard.read(KEY, LEADER, 0)[1])
    return shard


def begun() -> ShareStateShard:
    """The group began at the end of the log, at 100; one record is done, one was released."""
    shard = made()
    replay(shard, shard.write(UpdateRecord(KEY, 0, LEADER, 100, 0, ()), 1, 0))
    done = [StateBatch(100, 100, 0, 1), StateBatch(101, 101, 2, 1)]
    replay(shard, shard.write(UpdateRecord(KEY, 0, LEADER, 100, 1, done), 1, 0))
    return shard


@pytest.mark.parametrize("state_epoch", [1, 2, -1])
def test_it_does_not_undo_where_the_group_is(state_epoch: int) -> None:
    """Else the group would begin anew at the end of the log, and pass over what it was not given."""
    shard = begun()
    before = stored(shard)

    replay(shard, shard.initialize(KEY, state_epoch, UNKNOWN_START, 7))

    assert stored(shard) == before
    assert before.start_offset == 100


def test_its_leader_goes_on_writing_then() -> None:
    shard = begun()
    replay(shard, shard.initialize(KEY, 2, UNKNOWN_START, 7))

    replay(shard, shard.write(UpdateRecord(KEY, 0, LEADER, 102, 0, [StateBatch(100, 100, 2, 2)]), 1, 0))

    assert shard.states[KEY].start_offset == 102


def test_a_position_that_an_administrator_has_set_stays_too() -> None:
    """The setting could not be noted in the group, so that its next member asks for a state."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 6, 50, 0))

    replay(shard, shard.initialize(KEY, 7, UNKNOWN_START, 0))

    assert (shard.states[KEY].start_offset, shard.states[KEY].state_epoch) == (50, 6)


def test_what_has_not_begun_is_made_in_the_later_epoch() -> None:
    shard = made()
    replay(shard, shard.initialize(KEY, 2, UNKNOWN_START, 0))
    assert (shard.states[KEY].start_offset, shard.states[KEY].state_epoch) == (UNKNOWN_START, 2)


def test_an_administrator_sets_a_position_anew() -> None:
    shard = begun()
    replay(shard, shard.initialize(KEY, 2, 20, 0))
    assert (stored(shard).start_offset, stored(shard).batches) == (20, ())


def test_an_earlier_epoch_is_refused_as_before() -> None:
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 6, 50, 0))
    with pytest.raises(RequestError) as fenced:
        shard.initialize(KEY, 5, UNKNOWN_START, 0)
    assert fenced.value.code == ErrorCode.FENCED_STATE_EPOCH
