"""Turns, batches and outcomes: who may change a group, what is appended in which order, and what is replayed when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.classic.decide.membership import GroupLimits
from kavka.coordinator.groups.consumer.decide.records import EpochRecord
from kavka.coordinator.groups.consumer.decide.records import epoch_record as consumer_epoch
from kavka.coordinator.groups.decide.records import CommittedOffset, OffsetRecord, offset_record
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.shard_writer import BATCH_BYTES, ShardWriter, batches
from kavka.coordinator.groups.share.decide.records import ShareEpochRecord
from kavka.coordinator.groups.share.decide.records import epoch_record as share_epoch
from kavka.coordinator.groups.streams.decide.records import Epoch, GroupChange, StreamsGroupRecord
from kavka.coordinator.groups.streams.decide.records import epoch_record as streams_epoch
from kavka.coordinator.groups.turns import Turns
from kavka.coordinator.shared.decide.records import CoordinatorRecord, with_version
from kavka.errors import ErrorCode, RequestError
from tests.kit.virtual_time import in_virtual_time

LIMITS = GroupLimits(10, 1_800_000, 0, 100)
COMMITTED = CommittedOffset(7, -1, "", 1)


def offset(partition: int, committed: CommittedOffset | None = COMMITTED, *, topic: str = "t") -> CoordinatorRecord:
    return offset_record("g", topic, partition, committed)


class Log:
    """Each append is answered by hand. `ends` are the high watermark and the end."""

    def __init__(self) -> None:
        self.appended: list[Sequence[CoordinatorRecord]] = []
        self.answers: list[asyncio.Future[ErrorCode]] = []
        self.ends: tuple[int, int] | None = (0, 0)

    def append(self, partition: int, records: Sequence[CoordinatorRecord], **_producer: int) -> Awaitable[ErrorCode]:
        assert partition == 3
        self.appended.append(records)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


def shard(log: Log) -> tuple[ActiveGroupShard, ShardWriter]:
    active = ActiveGroupShard(3, GroupShard(LIMITS, offset_metadata_max_bytes=4_096), 1, lambda: log.ends)
    writes: Any = log
    return active, ShardWriter(writes, lambda: 0)


def held(active: ActiveGroupShard) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partition, _ in active.shard.offsets.of_group("g")]


# -- turns


def test_turns_are_taken_in_order_and_each_group_has_its_own() -> None:
    async def scenario() -> None:
        turns, order = Turns(), []

        async def take(group_id: str, name: str) -> None:
            await turns.take(group_id)
            order.append(name)

        assert not turns.is_taken("g")
        await take("g", "first")
        waiting = [asyncio.ensure_future(take("g", name)) for name in ("second", "third")]
        await take("other", "another group's")
        await asyncio.sleep(1)
        assert (order, turns.is_taken("g")) == (["first", "another group's"], True)
        turns.give("g")
        await asyncio.sleep(1)
        assert order[2:] == ["second"]
        turns.give("g")
        await asyncio.sleep(1)
        assert order[2:] == ["second", "third"]
        turns.give("g")
        assert not turns.is_taken("g")
        assert turns.is_taken("other")
        await asyncio.gather(*waiting)

    in_virtual_time(scenario)


@pytest.mark.parametrize("given_first", [True, False])
def test_who_is_cancelled_while_it_waits_does_not_keep_the_turn(given_first: bool) -> None:
    """Also where the turn had become its own in that moment."""

    async def scenario() -> None:
        turns = Turns()
        await turns.take("g")
        second, third = (asyncio.ensure_future(turns.take("g")) for _ in range(2))
        await asyncio.sleep(1)
        if given_first:
            turns.give("g")
            second.cancel()
        else:
            second.cancel()
            await asyncio.sleep(1)
            assert not third.done()
            turns.give("g")
        async with asyncio.timeout(1):
            await third
        assert second.cancelled()
        turns.give("g")
        assert not turns.is_taken("g")

    in_virtual_time(scenario)


# -- one change in turn


def spawn(work: Any) -> asyncio.Task[ErrorCode]:
    return asyncio.get_running_loop().create_task(work)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_next_change_is_decided_when_the_one_before_is_carried_out(at_once: bool) -> None:
    async def scenario() -> None:
        active, _ = shard(Log())
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        decided: list[str] = []

        async def carry() -> ErrorCode:
            return await outcome

        async def decide(name: str, work: Work | None) -> tuple[Work | None, str]:
            decided.append(name)
            return work, name

        first = spawn(active.in_turn("g", lambda: decide("first", carry), spawn, at_once=at_once))
        second = spawn(active.in_turn("g", lambda: decide("second", None), spawn))
        await asyncio.sleep(1)
        assert (decided, first.done()) == (["first"], False)
        outcome.set_result(ErrorCode.NONE)
        assert [await first, await second] == ["first", "second"]
        assert not active.turns.is_taken("g")

    in_virtual_time(scenario)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_change_that_fails_is_refused_and_gives_the_turn_on(at_once: bool) -> None:
    async def scenario() -> None:
        active, _ = shard(Log())

        async def carry() -> ErrorCode:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE

        async def decide() -> tuple[Work | None, None]:
            return carry, None

        async def refuse() -> tuple[Work | None, None]:
            raise RequestError(ErrorCode.FENCED_MEMBER_EPOCH)

        for deciding, code in (
            (decide, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (refuse, ErrorCode.FENCED_MEMBER_EPOCH),
        ):
            with pytest.raises(RequestError) as refused:
                await active.in_turn("g", deciding, spawn, at_once=at_once)
            assert refused.value.code is code
            assert not active.turns.is_taken("g")

    in_virtual_time(scenario)


@pytest.mark.parametrize("gone", ["before", "while it was decided"])
def test_what_is_led_elsewhere_is_not_changed(gone: str) -> None:
    async def scenario() -> None:
        active, _ = shard(Log())
        active.is_gone = gone == "before"
        decided, carried = [], []

        async def carry() -> ErrorCode:
            carried.append(1)
            return ErrorCode.NONE

        async def decide() -> tuple[Work | None, None]:
            decided.append(1)
            active.is_gone = True
            return carry, None

        with pytest.raises(RequestError) as refused:
            await active.in_turn("g", decide, spawn)
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert (len(decided), carried) == (0 if gone == "before" else 1, [])
        assert not active.turns.is_taken("g")

    in_virtual_time(scenario)


def test_a_change_goes_on_though_who_asked_goes_away() -> None:
    async def scenario() -> None:
        active, _ = shard(Log())
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        ended: list[ErrorCode] = []

        async def carry() -> ErrorCode:
            ended.append(await outcome)
            return ended[0]

        async def decide() -> tuple[Work | None, None]:
            return carry, None

        asking = spawn(active.in_turn("g", decide, spawn))
        await asyncio.sleep(1)
        asking.cancel()
        await asyncio.wait([asking])
        assert active.turns.is_taken("g")
        outcome.set_result(ErrorCode.NONE)
        await asyncio.sleep(1)
        assert ended == [ErrorCode.NONE]
        assert not active.turns.is_taken("g")

    in_virtual_time(scenario)


def test_positions_rise_and_a_shard_begins_as_loading() -> None:
    active, _ = shard(Log())
    assert [active.next_position() for _ in range(3)] == [1, 2, 3]
    assert (active.partition, active.leader_epoch, active.loading, active.is_gone) == (3, 1, True, False)


# -- batches


def test_a_batch_is_half_of_the_largest_that_kafka_takes_by_default() -> None:
    assert BATCH_BYTES == 512 * 1024
    half = CoordinatorRecord(b"k" * 1024, b"v" * (BATCH_BYTES // 2 - 1024))
    none = CoordinatorRecord(b"k", None)
    assert list(batches([half, half, none, none])) == [[half, half], [none, none]]
    assert list(batches([none, half, half])) == [[none, half], [half]]
    assert list(batches([])) == []


# -- writing


@pytest.mark.parametrize(
    ("outcome", "is_replayed"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False),
    ],
)
def test_records_hold_once_they_are_committed(outcome: ErrorCode, is_replayed: bool) -> None:
    async def scenario() -> None:
        log = Log()
        active, writer = shard(log)
        assert await writer.write(active, []) is ErrorCode.NONE
        assert log.appended == []
        writing = spawn(writer.write(active, [offset(0), offset(1)]))
        await asyncio.sleep(1)
        assert (len(log.appended), held(active)) == (1, [])
        log.answers[0].set_result(outcome)
        assert await writing is outcome
        assert held(active) == ([("t", 0), ("t", 1)] if is_replayed else [])

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("outcome", "answer", "is_replayed", "is_open"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE, True, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE, True, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE, False, False),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR, False, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, False, False),
        (ErrorCode.NONE, ErrorCode.NONE, True, False),
    ],
)
@pytest.mark.parametrize("is_deletion", [True, False])
def test_what_is_perhaps_in_the_log_is_replayed_and_nobody_is_told_of_it(
    outcome: ErrorCode, answer: ErrorCode, is_replayed: bool, is_open: bool, is_deletion: bool
) -> None:
    async def scenario() -> None:
        log = Log()
        log.ends = (0, 2)
        active, writer = shard(log)
        if is_deletion:
            writer.replay(active, offset(0), active.next_position(), loading=False)
            writing = spawn(writer.delete(active, [offset(0, None)]))
        else:
            writing = spawn(writer.write_change(active, [offset(0)]))
        await asyncio.sleep(1)
        log.answers[0].set_result(outcome)
        assert await writing is answer
        assert held(active) == ([] if is_replayed is is_deletion else [("t", 0)])
        if is_open:
            with pytest.raises(RequestError):
                active.require_committed()
            log.ends = (2, 2)
        active.require_committed()

    in_virtual_time(scenario)


def many(committed: CommittedOffset | None = COMMITTED) -> list[CoordinatorRecord]:
    """A few more than fit into two batches."""
    name = "t" * 200
    each = len(offset_record("g", name, 0, committed).key) + len(offset_record("g", name, 0, committed).value or b"")
    return [offset_record("g", name, number, committed) for number in range(2 * BATCH_BYTES // each + 5)]


def test_a_change_is_written_batch_after_batch_until_one_fails() -> None:
    async def scenario() -> None:
        log = Log()
        active, writer = shard(log)
        records = many()
        writing = spawn(writer.write_change(active, records))
        await asyncio.sleep(1)
        assert len(log.appended) == 1, "the next one when this one is committed"
        log.answers[0].set_result(ErrorCode.NONE)
        await asyncio.sleep(1)
        assert len(log.appended) == 2
        assert [*log.appended[0], *log.appended[1]] == records[: len(log.appended[0]) + len(log.appended[1])]
        log.answers[1].set_result(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert await writing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (len(log.appended), len(held(active))) == (2, len(log.appended[0]))

    in_virtual_time(scenario)


def test_a_change_ends_where_its_partition_is_led_elsewhere() -> None:
    async def scenario() -> None:
        log = Log()
        active, writer = shard(log)
        writing = spawn(writer.write_change(active, many()))
        await asyncio.sleep(1)
        active.is_gone = True
        log.answers[0].set_result(ErrorCode.NONE)
        assert await writing is ErrorCode.NOT_COORDINATOR
        assert len(log.appended) == 1
        assert await writer.write_change(active, []) is ErrorCode.NONE

    in_virtual_time(scenario)


def test_deletions_are_appended_in_one_step_and_the_first_failure_is_told() -> None:
    """A record between two batches would say more than what was known when this was decided."""

    async def scenario() -> None:
        log = Log()
        active, writer = shard(log)
        for record in many():
            writer.replay(active, record, active.next_position(), loading=False)
        before = len(held(active))
        deleting = writer.delete(active, many(None))
        sizes = [len(each) for each in log.appended]
        assert (len(sizes) > 1, sum(sizes)) == (True, len(many(None)))
        for answer, code in zip(
            log.answers,
            [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE],
            strict=False,
        ):
            answer.set_result(code)
        assert await deleting is ErrorCode.NOT_COORDINATOR
        assert len(held(active)) < before

    in_virtual_time(scenario)


# -- what a record says


def test_a_record_of_each_kind_is_read() -> None:
    _, writer = shard(Log())
    assert writer.decoded(3, offset(0)) == OffsetRecord("g", "t", 0, COMMITTED)
    assert writer.decoded(3, consumer_epoch("g", 5, 7)) == EpochRecord("g", 5, 7)
    assert writer.decoded(3, share_epoch("g", 5, 7)) == ShareEpochRecord("g", 5, 7)
    told = Epoch(5, 7, 1, {})
    assert writer.decoded(3, streams_epoch("g", told)) == StreamsGroupRecord("g", GroupChange(told))


def test_a_record_of_an_unknown_kind_and_garbage_say_nothing() -> None:
    active, writer = shard(Log())
    unknown = CoordinatorRecord(with_version(999, b""), with_version(0, b""))
    garbage = CoordinatorRecord(with_version(1, b"\xff"), with_version(0, b""))
    for record in (unknown, garbage, CoordinatorRecord(b"", None)):
        assert writer.decoded(3, record) is None
        writer.replay(active, record, 1, loading=True)
    assert active.shard.offsets.group_ids() == []
