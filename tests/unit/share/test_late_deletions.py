"""A request of a group's coordinator that was sent again, and arrives a second time after a later one."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.share import state_requests
from kavka.broker.share.persister import SharePersister
from kavka.coordinator.share_state.decide.records import (
    UNKNOWN_START,
    ShareKey,
    UpdateRecord,
    decode_share_state_record,
)
from kavka.coordinator.share_state.decide.shard import AskedNumber, ShareStateShard, WriteNumber
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages import delete_share_group_state_response as deleted
from kavka.protocol.messages import initialize_share_group_state_response as initialized
from kavka.protocol.messages import read_share_group_state_response as was_read
from kavka.protocol.messages import write_share_group_state_response as written

KEY = ShareKey("workers", uuid.UUID(int=1), 0)
LEADER = 3


def asked(ordinal: int, *, coordinator_epoch: int = 5, broker_epoch: int = 90) -> AskedNumber:
    return AskedNumber(uuid.UUID(int=9), coordinator_epoch, broker_epoch, ordinal)


def replay(shard: ShareStateShard, record: CoordinatorRecord | None) -> None:
    assert record is not None
    decoded = decode_share_state_record(record)
    assert decoded is not None
    shard.replay(decoded)


def made_again() -> ShareStateShard:
    """The state of a group that was deleted, and made again under its name."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 7, UNKNOWN_START, 0, asked(1)))
    replay(shard, shard.delete(KEY, asked(2)))
    replay(shard, shard.initialize(KEY, 1, UNKNOWN_START, 0, asked(3)))
    return shard


def test_a_late_deletion_deletes_no_state_that_was_made_again() -> None:
    """Its group takes it for one that is there, so that nobody would make it once more, and nobody could read it."""
    shard = made_again()
    with pytest.raises(RequestError, match="it is late") as late:
        shard.delete(KEY, asked(2))
    assert late.value.code == ErrorCode.INVALID_REQUEST
    assert KEY in shard.states


@pytest.mark.parametrize(
    "number",
    [asked(2, coordinator_epoch=4, broker_epoch=200), asked(2_000, broker_epoch=80)],
    ids=["the coordinator before", "the process before"],
)
def test_nor_does_that_of_who_coordinated_the_group_before(number: AskedNumber) -> None:
    shard = made_again()
    with pytest.raises(RequestError, match="it is late"):
        shard.delete(KEY, number)
    assert KEY in shard.states


@pytest.mark.parametrize("number", [None, asked(4), asked(1, broker_epoch=91), asked(1, coordinator_epoch=6)])
def test_a_deletion_in_time_is_carried_out(number: AskedNumber | None) -> None:
    """Other programs have no numbers."""
    shard = made_again()
    replay(shard, shard.delete(KEY, number))
    assert KEY not in shard.states


def test_coordinators_whose_topic_was_deleted_and_made_anew_are_not_late() -> None:
    """Leader epochs begin anew with a topic. What was on its way from those before is not known any more."""
    shard = made_again()
    replay(shard, shard.delete(KEY, asked(1, coordinator_epoch=0)._replace(topic_id=uuid.UUID(int=8))))
    assert KEY not in shard.states
    with pytest.raises(RequestError, match="it is late"):
        shard.initialize(KEY, 1, 0, 0, asked(0, coordinator_epoch=0)._replace(topic_id=uuid.UUID(int=8)))


def test_a_late_request_makes_no_state_that_was_deleted() -> None:
    """It was of a later epoch than those of the group that is made under this name, which could make none then."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 7, UNKNOWN_START, 0, asked(1)))
    replay(shard, shard.delete(KEY, asked(2)))
    with pytest.raises(RequestError, match="it is late"):
        shard.initialize(KEY, 7, UNKNOWN_START, 0, asked(1))
    replay(shard, shard.initialize(KEY, 1, UNKNOWN_START, 0, asked(3)))
    assert shard.states[KEY].state_epoch == 1


def test_nor_where_there_was_none_to_delete() -> None:
    shard = ShareStateShard(500)
    assert shard.delete(KEY, asked(2)) is None
    with pytest.raises(RequestError, match="it is late"):
        shard.initialize(KEY, 7, 50, 0, asked(1))


def test_a_position_that_is_set_twice_in_one_epoch_is_set_once() -> None:
    """What was done meanwhile would be delivered again."""
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 2, 50, 0, asked(1)))
    replay(shard, shard.read(KEY, LEADER, 0)[1])
    replay(shard, shard.write(UpdateRecord(KEY, 0, LEADER, 70, 0, ()), 2, 0, WriteNumber(90, 2)))
    replay(shard, shard.initialize(KEY, 2, 50, 0, asked(1)))
    assert (shard.states[KEY].start_offset, shard.states[KEY].state_epoch) == (70, 2)


def test_a_position_that_could_not_be_stored_is_set_by_the_same_request_again() -> None:
    shard = ShareStateShard(500)
    replay(shard, shard.initialize(KEY, 1, 10, 0, asked(1)))
    shard.initialize(KEY, 2, 50, 0, asked(2))  # The log did not take it.
    replay(shard, shard.initialize(KEY, 2, 50, 0, asked(2)))
    assert (shard.states[KEY].start_offset, shard.states[KEY].state_epoch) == (50, 2)


def test_a_deletion_that_could_not_be_stored_is_carried_out_by_the_same_request_again() -> None:
    shard = made_again()
    shard.delete(KEY, asked(4))
    replay(shard, shard.delete(KEY, asked(4)))
    assert KEY not in shard.states


def test_so_many_numbers_are_remembered() -> None:
    """And no more: else a broker's memory grows with every group that is deleted."""
    shard, most = ShareStateShard(500), 10_000
    for index in range(most + 1):
        shard.delete(KEY._replace(partition=index), asked(10))
    for index in (1, most):
        with pytest.raises(RequestError, match="it is late"):
            shard.initialize(KEY._replace(partition=index), 1, 0, 0, asked(9))
    replay(shard, shard.initialize(KEY, 1, 0, 0, asked(9)))


def test_the_requests_of_a_process_are_numbered_in_their_order() -> None:
    """A leader's reads among its writes: what it wrote before it read a state anew is late."""
    numbers: list[tuple[int, int, int]] = []

    def take(answer: Any, results: Any, partitions: Any) -> Any:
        async def one(_coordinator: Any, message: Any) -> Any:
            data = message.topics[0].partitions[0]
            epoch = getattr(data, "kavka_coordinator_epoch", None)
            assert getattr(data, "kavka_coordinators_topic", uuid.UUID(int=9)) == uuid.UUID(int=9)
            numbers.append((data.kavka_number, data.kavka_broker_epoch, -1 if epoch is None else epoch))
            return answer(results=[results(partitions=[partitions()])])

        return one

    metadata: Any = SimpleNamespace(
        partition=lambda topic, index: SimpleNamespace(state=SimpleNamespace(leader=1)),
        topic_id=lambda name: uuid.UUID(int=9 if name == "__consumer_offsets" else 0),
    )
    coordinator: Any = SimpleNamespace(partition_for=lambda name: 0)
    peers: Any = SimpleNamespace(broker_id=1)

    async def scenario() -> None:
        from kavka.share.decide.share_partition import Write

        persister = SharePersister(metadata, lambda: coordinator, peers, lambda: asyncio.sleep(0), lambda: 90)
        await persister.initialize(KEY.group_id, 1, {KEY.topic_id: [0]}, 1, coordinator_epoch=5)
        await persister.read(KEY, 3, 1)
        await persister.write(KEY, Write(0, 0, (), 0), state_epoch=1, leader_epoch=3, patience_s=1)
        await persister.begin(KEY, 2, 50, 1, coordinator_epoch=5)
        await persister.delete(KEY, 1, coordinator_epoch=6)

    with pytest.MonkeyPatch.context() as patched:
        for name, of in (("initialize", initialized), ("read", was_read), ("write", written), ("delete", deleted)):
            message = {"initialize": "Initialize", "read": "Read", "write": "Write", "delete": "Delete"}[name]
            answer = getattr(of, f"{message}ShareGroupStateResponse")
            patched.setattr(
                state_requests, name, take(answer, getattr(of, f"{message}StateResult"), of.PartitionResult)
            )
        asyncio.run(scenario())
    assert numbers == [(1, 90, 5), (2, 90, -1), (3, 90, -1), (4, 90, 5), (5, 90, 6)]
