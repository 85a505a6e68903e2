"""A write of a state that was sent again, and arrives a second time after the next one."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.share import state_requests
from kavka.broker.share.persister import SharePersister
from kavka.coordinator.share_state.decide.records import ShareKey, UpdateRecord, decode_share_state_record
from kavka.coordinator.share_state.decide.shard import ShareStateShard, WriteNumber
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch
from kavka.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from kavka.protocol.messages.write_share_group_state_response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from kavka.share.decide.share_partition import Write

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
    replay(shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 7)))
    replay(
        shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 7))
    )  # Sent again: who asks does not know that it is stored.
    replay(shard, shard.write(ACCEPTED, 1, 0, WriteNumber(90, 8)))
    before = shard.states[KEY]
    with pytest.raises(RequestError, match="it is late") as late:
        shard.write(RELEASED, 1, 0, WriteNumber(90, 7))
    assert late.value.code == ErrorCode.INVALID_REQUEST
    assert shard.states[KEY] == before
    assert before.start_offset == 2


def test_without_numbers_it_would() -> None:
    """What other programs send: their leaders have to see to it themselves."""
    shard = led()
    replay(shard, shard.write(ACCEPTED, 1, 0))
    replay(shard, shard.write(RELEASED, 1, 0))
    assert shard.states[KEY].start_offset == 0


def test_the_next_leader_begins_with_its_own_numbers() -> None:
    shard = led()
    replay(shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 900)))
    replay(shard, shard.read(KEY, 4, 0)[1])
    replay(shard, shard.write(ACCEPTED._replace(leader_epoch=4), 1, 0, WriteNumber(90, 1)))
    assert shard.states[KEY].start_offset == 2


def test_a_process_that_leads_on_in_the_epoch_of_the_one_before_is_not_late() -> None:
    """A partition with one replica keeps its leader epoch if no controller saw the broker gone. The clock is not asked:
    it may have been set back. What the process before has sent, and comes now, is late."""
    sent: list[WriteNumber] = []

    async def take(_coordinator: Any, message: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        data = message.topics[0].partitions[0]
        sent.append(WriteNumber(data.kavka_broker_epoch, data.kavka_number))
        return WriteShareGroupStateResponse(results=[WriteStateResult(partitions=[PartitionResult()])])

    def process(broker_epoch: int, *, writes: int) -> None:
        persister = SharePersister(
            metadata, lambda: coordinator, peers, lambda: asyncio.sleep(0), broker_epoch=lambda: broker_epoch
        )
        for _ in range(writes):
            asyncio.run(persister.write(KEY, Write(0, 0, (), 0), state_epoch=1, leader_epoch=3, patience_s=1))

    metadata: Any = SimpleNamespace(partition=lambda topic, index: SimpleNamespace(state=SimpleNamespace(leader=1)))
    coordinator: Any = SimpleNamespace(partition_for=lambda name: 0)
    peers: Any = SimpleNamespace(broker_id=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state_requests, "write", take)
        process(90, writes=900)
        process(97, writes=2)
    assert sent == sorted(set(sent))
    shard = led()
    for number in [*sent[:850], *sent[900:]]:
        replay(shard, shard.write(RELEASED, 1, 0, number))
    for late in sent[850:900]:
        with pytest.raises(RequestError, match="it is late"):
            shard.write(ACCEPTED, 1, 0, late)


def test_a_state_that_is_deleted_and_made_again_takes_any_number() -> None:
    shard = led()
    replay(shard, shard.write(ACCEPTED, 1, 0, WriteNumber(90, 8)))
    replay(shard, shard.delete(KEY))
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    replay(shard, shard.read(KEY, 3, 0)[1])
    replay(shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 2)))


def test_a_write_from_before_its_deletion_changes_no_state_that_was_made_again() -> None:
    """With the epoch that it had: the group's epochs begin anew, too."""
    shard = led()
    replay(shard, shard.delete(KEY))
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    with pytest.raises(RequestError) as fenced:
        shard.write(ACCEPTED, 1, 0, WriteNumber(90, 8))
    assert fenced.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert shard.states[KEY].start_offset == 0


def test_nor_one_that_somebody_has_read_since() -> None:
    """It was read by the same leader, in the same leader epoch; the numbers are forgotten with the former state."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 5, 0, 0))
    replay(shard, shard.read(KEY, 3, 0)[1])
    replay(shard, shard.delete(KEY))
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    replay(shard, shard.read(KEY, 3, 0)[1])
    with pytest.raises(RequestError) as fenced:
        shard.write(ACCEPTED, 5, 0, WriteNumber(90, 8))
    assert fenced.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert shard.states[KEY].start_offset == 0


def test_nor_one_of_the_same_epoch_that_its_leader_has_read_since() -> None:
    """The group's epochs begin anew, and nothing is written yet: the read has a number, too."""
    shard = led()
    replay(shard, shard.delete(KEY))
    replay(shard, shard.initialize(KEY, 1, 0, 0))
    replay(shard, shard.read(KEY, 3, 0, WriteNumber(90, 9))[1])
    with pytest.raises(RequestError, match="it is late"):
        shard.write(ACCEPTED, 1, 0, WriteNumber(90, 8))
    replay(shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 10)))
    assert shard.states[KEY].start_offset == 0


def test_a_late_read_takes_no_number_back() -> None:
    shard = led()
    replay(shard, shard.write(RELEASED, 1, 0, WriteNumber(90, 7)))
    assert shard.read(KEY, 3, 0, WriteNumber(90, 5))[1] is None
    with pytest.raises(RequestError, match="it is late"):
        shard.write(ACCEPTED, 1, 0, WriteNumber(90, 6))


def test_a_leader_that_has_read_a_position_that_was_lost_with_its_coordinator_reads_again() -> None:
    """An administrator set it, and was told of a failure: what the next coordinator has is of the epoch before. The
    leader's write would have the group pass over all before that position."""
    shard = led()
    with pytest.raises(RequestError) as fenced:
        shard.write(UpdateRecord(KEY, 0, 3, 50, 0, ()), 2, 0, WriteNumber(90, 7))
    assert fenced.value.code == ErrorCode.FENCED_STATE_EPOCH
    assert shard.states[KEY].start_offset == 0
