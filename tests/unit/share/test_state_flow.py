"""The flow around share groups' states: turns, what is answered when, deleted topics, and the log's length."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

import pytest
from structlog.testing import capture_logs

from kavka.coordinator.share_state.coordinator import DELETED_AT_ONCE, DueLetters, ShareCoordinator, ShareStatePorts
from kavka.coordinator.share_state.decide.records import (
    ShareKey,
    SnapshotRecord,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
    snapshot_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch

T1, T2 = uuid.UUID(int=1), uuid.UUID(int=2)
LEADER_EPOCH = 3


def key(partition: int = 0, topic_id: uuid.UUID = T1, group: str = "workers") -> ShareKey:
    return ShareKey(group, topic_id, partition)


class StatesLog:
    """`__share_group_state` in memory. `error` answers appends; `gate` holds them back while it is closed."""

    def __init__(self) -> None:
        self.records: dict[int, list[CoordinatorRecord]] = {}
        self.error = ErrorCode.NONE
        self.gate = asyncio.Event()
        self.gate.set()
        self.not_led: set[int] = set()
        self.uncommitted = 0
        self.cuts: list[tuple[int, int]] = []
        self.read_gate = asyncio.Event()
        self.read_gate.set()
        self.under_way = 0
        self.most_under_way = 0

    async def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if self.error in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            self.records.setdefault(partition, []).extend(records)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
        finally:
            self.under_way -= 1
        return self.error

    def ends(self, partition: int) -> tuple[int, int] | None:
        if partition in self.not_led:
            return None
        end = len(self.records.get(partition, []))
        return end - self.uncommitted, end

    def cut(self, partition: int, offset: int) -> None:
        self.cuts.append((partition, offset))

    async def settle(self, partition: int) -> bool:
        return True

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        await self.read_gate.wait()
        yield list(self.records.get(partition, []))
        yield OpenTransaction(7, 0, ())

    def said(self, partition: int = 0) -> list[object]:
        return [decode_share_state_record(record) for record in self.records.get(partition, [])]


class Room:
    """A coordinator with what it needs."""

    def __init__(self, log: StatesLog | None = None, *, partitions: int = 1) -> None:
        self.log = log or StatesLog()
        self.now_ms = 1_000
        self.updates_per_snapshot = 500
        self.gone: set[ShareKey] = set()
        self.coordinator = ShareCoordinator(
            asyncio.get_running_loop(),
            self.log,
            ShareStatePorts(lambda: self.now_ms, lambda: self.updates_per_snapshot, lambda key: key not in self.gone),
        )
        self.coordinator.set_partition_count(partitions)

    async def loaded(self, *partitions: int) -> Room:
        for partition in partitions or (0,):
            await self.coordinator.load(partition, 0)
        return self

    async def begin(self, *keys: ShareKey) -> None:
        for each in keys:
            await self.coordinator.initialize(each, 1, 5)


def update(of: ShareKey, offset: int) -> UpdateRecord:
    return UpdateRecord(of, 0, LEADER_EPOCH, -1, 0, [StateBatch(offset, offset, 2, 1)])


async def code(asked: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        await asked
    return ErrorCode(refused.value.code)


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 30)

    asyncio.run(bounded())


# -- requests


def test_a_state_from_its_beginning_to_its_end() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        shares = room.coordinator
        assert shares.summary(key()) is None
        await room.begin(key())
        assert (await shares.read(key(), LEADER_EPOCH)).start_offset == 5
        await shares.write(update(key(), 5), 1)
        state = shares.summary(key())
        assert state is not None
        assert (state.state_epoch, state.leader_epoch, state.batches) == (1, LEADER_EPOCH, (StateBatch(5, 5, 2, 1),))
        await shares.delete(key())
        assert shares.summary(key()) is None
        assert [type(said) for said in room.log.said()] == [SnapshotRecord, UpdateRecord, UpdateRecord, SnapshotRecord]
        # There is nothing to be written of who reads the same again, and of what is gone.
        await shares.delete(key())
        assert len(room.log.records[0]) == 4

    runs(scenario)


def test_who_takes_over_has_the_states_and_the_setting_of_the_day() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        await room.coordinator.write(update(key(), 5), 1)
        again = Room(room.log)
        again.updates_per_snapshot = 1
        await again.loaded()
        assert again.coordinator.summary(key()) == room.coordinator.summary(key())
        await again.coordinator.write(update(key(), 6), 1)
        assert isinstance(room.log.said()[-1], SnapshotRecord)

    runs(scenario)


def test_what_is_not_there_has_no_state_but_may_be_deleted() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        shares = room.coordinator
        await room.begin(key())
        room.gone.add(key())
        for asked in (shares.initialize(key(), 1, 5), shares.read(key(), 1), shares.write(update(key(), 5), 1)):
            assert await code(asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(RequestError) as refused:
            shares.summary(key())
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await shares.delete(key())
        room.gone.clear()
        assert shares.summary(key()) is None

    runs(scenario)


def test_no_partition_has_a_negative_number() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        for asked in (
            room.coordinator.read(key(-1), 1),
            room.coordinator.delete(key(-1)),
            room.coordinator.initialize(key(-1), 1, 5),
        ):
            with pytest.raises(RequestError, match="The partition id cannot be a negative number") as refused:
                await asked
            assert refused.value.code is ErrorCode.INVALID_REQUEST
        await room.begin(key(0))

    runs(scenario)


def test_requests_before_the_log_is_read_and_after_it_is_led_elsewhere_are_refused() -> None:
    async def scenario() -> None:
        room = Room(partitions=0)
        assert await code(room.coordinator.read(key(), 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        room = Room()
        assert await code(room.coordinator.read(key(), 1)) is ErrorCode.NOT_COORDINATOR
        room.log.read_gate.clear()
        loading = asyncio.ensure_future(room.coordinator.load(0, 0))
        await some_turns()
        assert await code(room.coordinator.read(key(), 1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert room.coordinator.topic_ids() == frozenset()
        assert room.coordinator.due_letters() == DueLetters([], [])
        await room.coordinator.on_topics_deleted([T1])
        await room.coordinator.renew_cold(0)
        await room.coordinator.prune()
        assert room.log.cuts == []
        room.log.read_gate.set()
        await loading
        await room.begin(key())
        room.coordinator.unload(0)
        assert await code(room.coordinator.read(key(), 1)) is ErrorCode.NOT_COORDINATOR

    runs(scenario)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_log_refuses_is_answered_so_and_what_it_may_have_is_replayed(
    error: ErrorCode, answer: ErrorCode
) -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        room.log.error = error
        assert await code(room.coordinator.initialize(key(), 1, 5)) is answer
        room.log.error = ErrorCode.NONE
        state = room.coordinator.summary(key())
        assert (state is not None) is (error is ErrorCode.REQUEST_TIMED_OUT)

    runs(scenario)


# -- turns


def test_changes_of_one_state_take_turns_and_those_of_two_do_not() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key(0), key(1))
        room.log.gate.clear()
        first = asyncio.ensure_future(room.coordinator.write(update(key(0), 5), 1))
        second = asyncio.ensure_future(room.coordinator.write(update(key(0), 6), 1))
        other = asyncio.ensure_future(room.coordinator.write(update(key(1), 5), 1))
        await some_turns()
        assert room.log.under_way == 2
        assert not any(asked.done() for asked in (first, second, other))
        state = room.coordinator.summary(key(0))
        assert state is not None
        assert state.batches == (), "it is replayed once it is committed"
        room.log.gate.set()
        await asyncio.gather(first, second, other)
        state = room.coordinator.summary(key(0))
        assert state is not None
        assert state.batches == (StateBatch(5, 6, 2, 1),)

    runs(scenario)


def test_a_write_goes_on_where_who_asked_has_gone_and_the_next_one_waits_for_it() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        room.log.gate.clear()
        asked = asyncio.ensure_future(room.coordinator.write(update(key(), 5), 1))
        await some_turns()
        asked.cancel()
        following = asyncio.ensure_future(room.coordinator.write(update(key(), 6), 1))
        await some_turns()
        assert asked.cancelled()
        assert room.log.under_way == 1
        room.log.gate.set()
        await following
        state = room.coordinator.summary(key())
        assert state is not None
        assert state.batches == (StateBatch(5, 6, 2, 1),)

    runs(scenario)


def test_a_request_that_is_refused_gives_its_turn_on() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        assert await code(room.coordinator.write(update(key(), 5), 1)) is ErrorCode.INVALID_REQUEST
        await room.begin(key())

    runs(scenario)


def test_who_waited_while_the_partition_went_is_sent_on() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        room.log.gate.clear()
        first = asyncio.ensure_future(room.coordinator.write(update(key(), 5), 1))
        second = asyncio.ensure_future(room.coordinator.write(update(key(), 6), 1))
        await some_turns()
        room.coordinator.unload(0)
        room.log.gate.set()
        await first
        assert await code(second) is ErrorCode.NOT_COORDINATOR
        assert len(room.log.records[0]) == 2

    runs(scenario)


def test_a_shut_down_ends_what_is_being_written() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        room.log.gate.clear()
        asked = asyncio.ensure_future(room.coordinator.initialize(key(), 1, 5))
        await some_turns()
        room.coordinator.shut_down()
        await some_turns()
        assert asked.cancelled()
        assert room.log.under_way == 0
        assert await code(room.coordinator.read(key(), 1)) is ErrorCode.NOT_COORDINATOR

    runs(scenario)


def test_how_long_writes_took_is_counted_in_ms_also_of_those_that_fail() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        times = iter([10.0, 10.25, 11.0, 12.0])

        class Clock:
            def time(self) -> float:
                return next(times)

            def create_task(self, work: Coroutine[None, None, ErrorCode]) -> asyncio.Task[ErrorCode]:
                return asyncio.ensure_future(work)

        room.coordinator._loop = Clock()  # type: ignore[assignment]
        assert room.coordinator.write_ms.count == 0
        await room.coordinator.write(update(key(), 5), 1)
        assert (room.coordinator.write_ms.count, room.coordinator.write_ms.sum) == (1, 250)
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await code(room.coordinator.write(update(key(), 6), 1))
        assert (room.coordinator.write_ms.count, room.coordinator.write_ms.sum) == (2, 1250)

    runs(scenario)


# -- topics that are gone


def test_states_of_deleted_topics_go_and_others_stay() -> None:
    async def scenario() -> None:
        room = await Room(partitions=2).loaded(0, 1)
        keys = [key(number, topic) for topic in (T1, T2) for number in range(6)]
        await room.begin(*keys)
        assert sorted(room.log.records) == [0, 1], "both partitions have some of them"
        assert room.coordinator.topic_ids() == {T1, T2}
        room.gone.update(keys[:6])
        with capture_logs() as logs:
            await room.coordinator.on_topics_deleted([T1])
        assert room.coordinator.topic_ids() == {T2}
        assert {log["event"] for log in logs} == {"states of deleted topics deleted"}
        assert sum(log["states"] for log in logs) == 6
        assert {log["partition"] for log in logs} == {0, 1}
        with capture_logs() as logs:
            await room.coordinator.on_topics_deleted([T1])
        assert logs == []

    runs(scenario)


def test_so_many_states_are_deleted_at_once_and_then_the_next_ones() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(*(key(number) for number in range(DELETED_AT_ONCE + 5)))
        room.log.most_under_way = 0
        with capture_logs() as logs:
            await room.coordinator.on_topics_deleted({T1})
        assert room.log.most_under_way == DELETED_AT_ONCE == 100
        assert [log["states"] for log in logs] == [100, 5]
        assert room.coordinator.topic_ids() == frozenset()

    runs(scenario)


def test_states_that_cannot_be_deleted_now_are_left_for_the_next_time() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(*(key(number) for number in range(DELETED_AT_ONCE + 5)))
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await room.coordinator.on_topics_deleted([T1])
        (log,) = logs
        assert (log["event"], log["why"], log["states"]) == (
            "states of deleted topics not deleted yet",
            "COORDINATOR_NOT_AVAILABLE",
            100,
        )
        room.log.error = ErrorCode.NONE
        await room.coordinator.on_topics_deleted([T1])
        assert room.coordinator.topic_ids() == frozenset()

    runs(scenario)


def test_a_bug_while_states_are_deleted_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())

        def fails(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(room.log, "append", fails)
        with pytest.raises(ZeroDivisionError):
            await room.coordinator.on_topics_deleted([T1])

    runs(scenario)


def test_groups_whose_dead_letters_are_due_are_named_with_the_partitions_that_say_so() -> None:
    async def scenario() -> None:
        room = await Room(partitions=3).loaded(2, 0)
        placed = {room.coordinator.partition_for(str(key(group=group))): group for group in "abcdefgh"}
        assert set(placed) == {0, 1, 2}
        assert room.coordinator.due_letters() == DueLetters([0, 2], [])
        for partition in (0, 2):
            of = key(group=placed[partition])
            await room.begin(of)
            await room.coordinator.write(update(of, 5)._replace(batches=[StateBatch(5, 5, 3, 1)]), 1)
        assert room.coordinator.due_letters() == DueLetters([0, 2], sorted([placed[0], placed[2]]))

    runs(scenario)


# -- the log's length


def test_cold_states_are_written_anew_and_the_log_is_cut_before_them() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key(0), key(1))
        for offset in range(5, 15):
            room.now_ms += 10
            await room.coordinator.write(update(key(1), offset), 1)
        await room.coordinator.prune()
        assert room.log.cuts == [(0, 0)]
        assert room.coordinator.cuts == {0: 0}
        before = room.coordinator.summary(key(0))
        # Written at 1000 ms: not cold at 1100 ms for who asks for more than 100 ms.
        await room.coordinator.renew_cold(100)
        assert len(room.log.records[0]) == 12
        room.now_ms += 1
        await room.coordinator.renew_cold(100)
        assert len(room.log.records[0]) == 14, "both snapshots are that old"
        after = room.coordinator.summary(key(0))
        assert before is not None
        assert after == before._replace(snapshot_epoch=1, created_ms=1101, written_ms=1101)
        await room.coordinator.prune()
        assert room.coordinator.cuts == {0: 12}
        assert room.log.cuts[-1] == (0, 12)
        room.coordinator.unload(0)
        assert room.coordinator.cuts == {}

    runs(scenario)


def test_what_cannot_be_written_anew_is_left_for_the_next_time() -> None:
    async def scenario() -> None:
        room = await Room(partitions=2).loaded(0, 1)
        keys = [key(number) for number in range(8)]
        await room.begin(*keys)
        again = await Room(room.log, partitions=2).loaded(0, 1)  # It only read them: all are to be renewed.
        again.now_ms = 5_000
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await again.coordinator.renew_cold(100)
        assert [log["event"] for log in logs] == ["share group state not written anew"] * 2, (
            "one try for each partition"
        )
        assert {log["why"] for log in logs} == {"COORDINATOR_NOT_AVAILABLE"}
        assert {log["key"] for log in logs} <= {str(each) for each in keys}
        room.log.error = ErrorCode.NONE
        again.gone = set(keys)  # Also those of topics that are gone: their states hold the log as others do.
        await again.coordinator.renew_cold(100)
        assert sum(map(len, room.log.records.values())) == 16

    runs(scenario)


def test_nothing_is_cut_or_renewed_of_a_log_that_is_not_led_or_cannot_be_read() -> None:
    async def scenario() -> None:
        log = StatesLog()
        room = await Room(log).loaded()
        await room.begin(key(0), key(1))
        log.not_led.add(0)
        room.now_ms = 50_000
        await room.coordinator.prune()
        await room.coordinator.renew_cold(0)
        assert (log.cuts, len(log.records[0])) == ([], 2)
        log.not_led.clear()
        state = room.coordinator.summary(key(1))
        unreadable = snapshot_record(key(1), state)
        assert unreadable.value is not None
        log.records[0].append(unreadable._replace(value=b"\x00\x01" + unreadable.value[2:]))
        with capture_logs() as logs:
            again = await Room(log).loaded()
        (said,) = logs
        assert (said["event"], said["log_level"]) == ("share group state unreadable", "error")
        assert (said["partition"], said["share_partition"]) == (0, str(key(1)))
        assert said["why"] == "a share group's state has no version 1"
        assert "this share-partition is not served" in said["next_step"]
        assert isinstance(log.said()[-1], UnreadableRecord)
        assert await code(again.coordinator.read(key(1), 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await again.coordinator.prune()
        assert log.cuts == []

    runs(scenario)


def test_what_is_not_committed_is_not_cut() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.begin(key())
        await room.coordinator.delete(key())
        room.log.uncommitted = 1
        await room.coordinator.prune()
        assert room.log.cuts == [(0, 1)]

    runs(scenario)


# -- what the log says


def test_garbage_is_passed_over_and_what_is_unknown_too() -> None:
    async def scenario() -> None:
        log = StatesLog()
        first = await Room(log).loaded()
        await first.begin(key())
        log.records[0][:0] = [CoordinatorRecord(b"\0", b"\0"), CoordinatorRecord(b"\0\7", b"\0\0")]
        with capture_logs() as logs:
            room = await Room(log).loaded()
        (said,) = logs
        assert (said["event"], said["log_level"], said["partition"]) == ("share group state skipped", "warning", 0)
        assert said["why"]
        assert room.coordinator.summary(key()) == first.coordinator.summary(key())

    runs(scenario)


def test_another_number_of_partitions_is_an_error_that_says_what_to_do() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        with capture_logs() as logs:
            room.coordinator.set_partition_count(50)
        (said,) = logs
        assert (said["log_level"], said["partitions"], said["states_placed_by"]) == ("error", 50, 1)
        assert said["event"] == "the number of partitions of the share groups' states has changed"
        assert said["next_step"].startswith("do not restart a broker")
        assert room.coordinator.partition_for(str(key())) == 0

    runs(scenario)
