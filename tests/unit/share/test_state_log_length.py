"""Where the log of share groups' states is cut, and what is written anew: of several partitions, while one is being
read, and where the log has more than is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from structlog.testing import capture_logs

from kavka.coordinator.share_state.decide.records import SnapshotRecord
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from tests.unit.share.test_state_flow import T1, Room, StatesLog, key, runs, some_turns, update


class HalfReadLog(StatesLog):
    """Gives all that it has, and comes to no end while the gate is closed."""

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        yield list(self.records.get(partition, []))
        if partition == 0:
            await self.read_gate.wait()


async def half_read() -> tuple[Room, asyncio.Future[None]]:
    """Partition 0 is being read, and partition 1 behind it is there; both have states that nobody has written since."""
    first = await Room(HalfReadLog(), partitions=2).loaded(0, 1)
    await first.begin(*(key(number) for number in range(6)))
    room = Room(first.log, partitions=2)
    room.log.read_gate.clear()
    loading = asyncio.ensure_future(room.coordinator.load(0, 0))
    await some_turns()
    await room.coordinator.load(1, 0)
    room.now_ms = 5_000
    return room, loading


def test_while_a_partition_is_read_its_states_are_left_alone_and_those_of_others_are_not() -> None:
    async def scenario() -> None:
        room, loading = await half_read()
        records = room.log.records
        before = {partition: len(records[partition]) for partition in (0, 1)}
        assert all(before.values()), "both partitions have some"
        with capture_logs() as logs:
            await room.coordinator.renew_cold(100)
        assert not logs, "it is not even tried"
        assert {partition: len(records[partition]) for partition in (0, 1)} == {0: before[0], 1: 2 * before[1]}
        await room.coordinator.prune()
        assert room.log.cuts == [(1, before[1])]
        await room.coordinator.on_topics_deleted([T1])
        assert {partition: len(records[partition]) for partition in (0, 1)} == {0: before[0], 1: 3 * before[1]}
        room.log.read_gate.set()
        await loading
        await room.coordinator.renew_cold(100)
        assert len(records[0]) == 2 * before[0], "once it is read"

    runs(scenario)


def test_how_far_a_state_lies_behind_is_counted_to_the_end_of_the_log() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        for offset in (5, 6):
            await room.coordinator.write(update(key(), offset), 1)
        room.now_ms, room.log.uncommitted = 5_000, 1
        await room.coordinator.renew_cold(100)
        assert [type(said) for said in room.log.said()[3:]] == [SnapshotRecord], (
            "three records, one for it and two more"
        )

    runs(scenario)


async def with_two_useless_records() -> Room:
    room = await Room().loaded()
    await room.begin(key(1))
    await room.coordinator.delete(key(1))
    return room


def test_a_state_begins_where_its_record_lies_although_what_is_before_is_not_committed_yet() -> None:
    async def scenario() -> None:
        room = await with_two_useless_records()
        room.log.uncommitted = 1
        await room.begin(key(0))
        room.log.uncommitted = 0
        await room.coordinator.prune()
        assert room.log.cuts == [(0, 2)]

    runs(scenario)


def test_nothing_is_cut_before_a_state_that_was_written_nobody_knows_where() -> None:
    """The log was led elsewhere at the moment of the write, and is led here again."""

    async def scenario() -> None:
        room = await with_two_useless_records()
        room.log.not_led.add(0)
        await room.begin(key(0))
        room.log.not_led.clear()
        await room.coordinator.prune()
        assert room.log.cuts == [(0, 0)]

    runs(scenario)


def test_what_is_written_is_not_kept() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        await some_turns()
        assert not room.coordinator._writes

    runs(scenario)
