"""A write of a state that was sent again, and arrives a second time after the next one."""

from __future__ import annotations

import uuid

import pytest

from kavka.coordinator.share_state.decide.records import ShareKey, UpdateRecord, decode_share_state_record
from kavka.coordinator.share_state.decide.shard import UNNUMBERED, ShareStateShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch

KEY = ShareKey("workers", uuid.UUID(int=1), 0)


def replay(shard: ShareStateShard, record: CoordinatorRecord | None) -> None:
    assert record is not None
    decoded = decode_share_state_record(record)
    assert decoded is not None
    shard.replay(decoded)


def led(epoch: int = 3) -> ShareStateShard:
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    replay(shard, shard.read(KEY, epoch, 0)[1])
    return shard


RELEASED = UpdateRecord(KEY, 0, 3, 0, 0, [StateBatch(0, 1, 0, 1)])
ACCEPTED = UpdateRecord(KEY, 0, 3, 2, 0, [StateBatch(0, 1, 2, 2)])
"""Records that were released were given out again, and accepted."""


def test_a_late_write_undoes_nothing() -> None:
    shard = led()
    replay(shard, shard.write(RELEASED, 1, 0, 7))
    replay(shard, shard.write(RELEASED, 1, 0, 7))  # Sent again: who asks does not know that it is stored.
    replay(shard, shard.write(ACCEPTED, 1, 0, 8))
    before = shard.states[KEY]
    with pytest.raises(RequestError, match="it is late") as late:
        shard.write(RELEASED, 1, 0, 7)
    assert late.value.code == ErrorCode.INVALID_REQUEST
    assert shard.states[KEY] == before
    assert before.start_offset == 2


def test_without_numbers_it_would() -> None:
    """What other programs send: their leaders have to see to it themselves."""
    shard = led()
    replay(shard, shard.write(ACCEPTED, 1, 0, UNNUMBERED))
    replay(shard, shard.write(RELEASED, 1, 0, UNNUMBERED))
    assert shard.states[KEY].start_offset == 0


def test_the_next_leader_begins_with_its_own_numbers() -> None:
    shard = led()
    replay(shard, shard.write(RELEASED, 1, 0, 900))
    replay(shard, shard.read(KEY, 4, 0)[1])
    replay(shard, shard.write(ACCEPTED._replace(leader_epoch=4), 1, 0, 1))
    assert shard.states[KEY].start_offset == 2


def test_a_state_that_is_deleted_and_made_again_takes_any_number() -> None:
    shard = led()
    replay(shard, shard.write(ACCEPTED, 1, 0, 8))
    replay(shard, shard.delete(KEY))
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    replay(shard, shard.write(RELEASED, 1, 0, 2))
