"""What all coordinators share: which partition keeps a key, which order counts, what a log's answer means, loading."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.coordinator.shared.active_shards import ActiveShard, ActiveShards
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN, answer_for
from kavka.coordinator.shared.decide.partitions import Leaderships, Placement, java_string_hash, partition_for
from kavka.coordinator.shared.decide.records import (
    CoordinatorRecord,
    OpenTransaction,
    decode_value,
    in_batches,
    record_of,
    split_version,
    value_of,
    with_version,
)
from kavka.coordinator.shared.standstill import STOOD_STILL_S, TURNS, after_reading, due_at, stood_still
from kavka.coordinator.shared.uncommitted import Uncommitted
from kavka.errors import ErrorCode, ProtocolViolation, RequestError
from kavka.protocol.messages.offset_commit_value import OffsetCommitValue
from kavka.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from kavka.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from tests.kit.virtual_time import in_virtual_time

LOWEST = "polygenelubricants"
"""Its hash is the lowest integer."""


# -- where a key belongs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("Hello World!", -969099747),
        ("\u20ac", 8364),
        ("\U0001f600", 1772899),
        ("\udc00", 0xDC00),
        (LOWEST, -(2**31)),
    ],
)
def test_hashes_are_those_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(
    ("key", "count", "partition"),
    [("hello", 50, 22), ("Hello World!", 50, 47), (LOWEST, 50, 0), ("", 50, 0), ("a", 97, 0), ("a", 96, 1)],
)
def test_a_key_is_kept_where_kafka_keeps_it(key: str, count: int, partition: int) -> None:
    assert partition_for(key, count) == partition


def test_keys_stay_where_they_are_while_the_topic_is_there() -> None:
    placement = Placement()
    assert placement.count == 0
    assert placement.learn(0)
    assert placement.learn(50)
    assert placement.of("hello") == 22
    assert placement.learn(50)
    assert not placement.learn(60)
    assert placement.learn(60), "each number is complained of once"
    assert not placement.learn(70)
    assert not placement.learn(60)
    assert not placement.learn(1)
    assert (placement.count, placement.of("hello")) == (50, 22)
    assert placement.learn(0), "it is deleted"
    assert placement.learn(60)
    assert (placement.count, placement.of("hello")) == (60, 99162322 % 60)
    assert not placement.learn(1)
    assert not placement.learn(50)


# -- which order counts


def test_an_order_of_an_older_epoch_changes_nothing() -> None:
    known = Leaderships()
    assert known.begins(0, 0, served=None)
    assert known.begins(0, 5, served=0)
    assert not known.begins(0, 4, served=None)
    assert known.begins(0, 5, served=None), "it is not served yet"
    assert not known.begins(0, 5, served=5)
    assert not known.begins(0, 6, served=6)
    assert known.begins(1, 0, served=None), "each partition has its own"


def test_an_end_counts_from_its_epoch_on() -> None:
    known = Leaderships()
    assert known.ends(0, 3)
    assert not known.begins(0, 2, served=None), "an order to take over that comes late"
    assert known.begins(0, 3, served=None)
    assert not known.ends(0, 2)
    assert known.ends(0, 3)
    assert known.ends(0, None)
    assert not known.begins(0, 2, served=None)
    assert known.ends(0, 4)
    assert not known.ends(0, 3)
    assert known.ends(7, 0)


def test_a_partition_that_is_made_anew_begins_with_epochs_of_its_own() -> None:
    known = Leaderships()
    assert known.begins(0, 5, served=None)
    known.forget(0)
    known.forget(9)
    assert known.begins(0, 0, served=None)


# -- what a log's answer means


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_an_answer_of_the_log_is_told_as_kafka_tells_it(error: ErrorCode, answer: ErrorCode) -> None:
    assert answer_for(error) is answer
    is_too_large = answer is ErrorCode.UNKNOWN_SERVER_ERROR
    other = answer_for(error, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    assert other is (ErrorCode.INVALID_COMMIT_OFFSET_SIZE if is_too_large else answer)


def test_after_which_answers_records_may_be_committed_all_the_same() -> None:
    assert set(OUTCOME_UNKNOWN) == {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


# -- up to where the state is committed


def test_nobody_is_told_of_a_state_until_all_that_may_be_in_it_is_committed() -> None:
    ends: list[tuple[int, int] | None] = [(5, 5)]
    state = Uncommitted(lambda: ends[0])

    def is_open() -> bool:
        try:
            state.require_none()
        except RequestError as refused:
            return refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        return False

    assert not is_open()
    state.note()
    assert not is_open(), "all is committed"
    ends[0] = None
    state.note()
    assert not is_open(), "and stays so"
    ends[0] = (5, 5)
    state.note()
    ends[0] = None
    assert not is_open()
    ends[0] = (5, 8)
    assert not is_open(), "nobody said that it is in the state"
    state.note()
    ends[0] = (7, 9)
    assert is_open()
    ends[0] = None
    assert is_open(), "it is led elsewhere"
    state.note()
    ends[0] = (8, 12)
    assert not is_open()
    ends[0] = (0, 12)
    assert not is_open(), "once it was committed, it is"


# -- records


def test_a_version_stands_in_two_bytes_before_what_is_said() -> None:
    assert with_version(258, b"x") == b"\x01\x02x"
    assert split_version(b"\x01\x02x") == (258, b"x")
    assert split_version(b"\xff\xff") == (-1, b"")
    for short in (b"", b"\x00"):
        with pytest.raises(ProtocolViolation, match=rf"a coordinator record of {len(short)} bytes has no version"):
            split_version(short)


def test_a_record_of_a_newer_group_has_the_versions_of_key_and_value() -> None:
    key, value = ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=5, metadata_hash=7)
    record = record_of(11, key, value)
    assert record.key[:2] == b"\x00\x0b"
    assert record.value is not None
    version, body = split_version(record.value)
    assert version == 0
    assert value_of(ShareGroupMetadataValue, (0, body)) == value
    assert value_of(ShareGroupMetadataValue, None) is None
    assert record_of(11, key, None) == CoordinatorRecord(record.key, None)
    with pytest.raises(ProtocolViolation, match="ShareGroupMetadataValue has no version 1"):
        value_of(ShareGroupMetadataValue, (1, body))


def test_a_value_of_the_future_is_a_broken_record_and_no_answer_to_a_client() -> None:
    with pytest.raises(ProtocolViolation, match="a newer broker may have written it, or no broker"):
        decode_value(OffsetCommitValue, b"\x00\x63")


def test_batches_are_cut_where_they_are_full() -> None:
    def cut(sizes: Sequence[int], most: int | None = None) -> list[list[int]]:
        return list(in_batches(sizes, lambda size: size, 10, most=most))

    assert cut([]) == []
    assert cut([4, 6, 1]) == [[4, 6], [1]]
    assert cut([4, 7]) == [[4], [7]]
    assert cut([9, 4, 6, 1]) == [[9], [4, 6], [1]]
    assert cut([9, 5, 6]) == [[9], [5], [6]]
    assert cut([99, 1, 99, 99]) == [[99], [1], [99], [99]], "what fills more is alone"
    assert cut([3, 3, 3, 3, 3, 3, 3]) == [[3, 3, 3], [3, 3, 3], [3]]
    assert cut([1, 1, 1, 1, 1], most=2) == [[1, 1], [1, 1], [1]]
    assert cut([0, 0], most=1) == [[0], [0]]


# -- loading and unloading


class Log:
    """A log whose reading waits for `go`. `pieces` come one by one."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.go = asyncio.Event()
        self.settles = asyncio.get_running_loop().create_future()
        self.settled: list[int] = []

    async def read(self, partition: int) -> AsyncIterator[Any]:
        for piece in self.pieces:
            await self.go.wait()
            yield piece

    async def settle(self, partition: int) -> bool:
        self.settled.append(partition)
        return bool(await self.settles)


class Shards(ActiveShards[ActiveShard]):
    """Notes what happens."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, missing_topic=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.happened: list[object] = []

    def _new_shard(self, partition: int, leader_epoch: int) -> ActiveShard:
        return ActiveShard(partition, leader_epoch)

    def _on_read(self, active: ActiveShard, found: Sequence[CoordinatorRecord] | OpenTransaction) -> None:
        self.happened.append((active.partition, found))

    def _on_loaded(self, active: ActiveShard) -> None:
        active.loading = False
        self.happened.append(("loaded", active.partition, active.leader_epoch))

    def _on_unloaded(self, active: ActiveShard) -> None:
        assert active.is_gone
        self.happened.append(("unloaded", active.partition, active.leader_epoch))

    def _on_other_count(self, count: int) -> None:
        self.happened.append(("count", count))

    def answer(self, key: str = "hello") -> ErrorCode:
        try:
            self._find(key)
        except RequestError as refused:
            return refused.code
        return ErrorCode.NONE


def test_requests_are_refused_until_a_partition_is_read_and_committed() -> None:
    async def scenario() -> None:
        log = Log("a", "b")
        shards = Shards(log)
        assert shards.answer() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(RequestError) as refused:
            shards.partition_for("hello")
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert shards.partition_count == 0
        shards.set_partition_count(50)
        assert (shards.partition_count, shards.partition_for("hello")) == (50, 22)
        assert shards.answer() is ErrorCode.NOT_COORDINATOR
        loading = asyncio.ensure_future(shards.load(22, 3))
        assert shards.answer() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "from the call on"
        log.go.set()
        await asyncio.sleep(1)
        assert shards.answer() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "what was read may not be committed"
        log.settles.set_result(True)
        await loading
        assert shards.answer() is ErrorCode.NONE
        assert shards.happened == [(22, "a"), (22, "b"), ("loaded", 22, 3)]
        assert log.settled == [22]
        shards.set_partition_count(60)
        shards.set_partition_count(60)
        assert shards.happened[3:] == [("count", 60)]
        assert shards.answer() is ErrorCode.NONE
        await shards.load(22, 3)
        await shards.load(22, 2)
        shards.unload(22, 2)
        assert shards.answer() is ErrorCode.NONE, "orders of before"
        shards.unload(22, 3)
        assert shards.answer() is ErrorCode.NOT_COORDINATOR
        shards.unload(22, 4)
        assert shards.happened[4:] == [("unloaded", 22, 3)], "once"
        await shards.load(22, 3)
        assert shards.answer() is ErrorCode.NOT_COORDINATOR, "another leads it since epoch 4"

    in_virtual_time(scenario)


def test_a_later_epoch_is_loaded_in_the_place_of_the_one_before() -> None:
    async def scenario() -> None:
        log = Log("a")
        log.settles.set_result(True)
        shards = Shards(log)
        shards.set_partition_count(50)
        first, second = asyncio.ensure_future(shards.load(22, 3)), asyncio.ensure_future(shards.load(22, 4))
        log.go.set()
        await asyncio.gather(first, second)
        assert shards.happened == [("unloaded", 22, 3), (22, "a"), ("loaded", 22, 4)]

    in_virtual_time(scenario)


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("gone", ["before", "meanwhile", "never"])
def test_what_is_led_elsewhere_meanwhile_is_not_served(settles: bool, gone: str) -> None:
    async def scenario() -> None:
        log = Log("a")
        shards = Shards(log)
        shards.set_partition_count(50)
        loading = asyncio.ensure_future(shards.load(22, 3))
        if gone == "before":
            await asyncio.sleep(1)
            shards.unload(22)
        log.go.set()
        await asyncio.sleep(1)
        if gone == "meanwhile":
            shards.unload(22)
        if not log.settles.done():
            log.settles.set_result(settles)
        await loading
        is_served = settles and gone == "never"
        assert (("loaded", 22, 3) in shards.happened) is is_served
        assert ((22, "a") in shards.happened) is (gone != "before")
        assert log.settled == ([] if gone == "before" else [22])

    in_virtual_time(scenario)


def test_an_empty_log_of_a_partition_that_is_gone_is_not_waited_for() -> None:
    async def scenario() -> None:
        log = Log()
        shards = Shards(log)
        loading = shards.load(22, 3)
        shards.unload(22)
        await loading
        assert (log.settled, shards.happened) == ([], [("unloaded", 22, 3)])

    in_virtual_time(scenario)


def test_a_partition_that_was_deleted_is_loaded_in_epochs_of_its_own() -> None:
    async def scenario() -> None:
        log = Log()
        log.settles.set_result(True)
        shards = Shards(log)
        shards.set_partition_count(50)
        await shards.load(22, 3)
        shards.forget(22)
        assert shards.answer() is ErrorCode.NOT_COORDINATOR
        await shards.load(22, 0)
        assert shards.answer() is ErrorCode.NONE
        await shards.load(1, 0)
        shards.shut_down()
        assert shards.happened[-2:] == [("unloaded", 22, 0), ("unloaded", 1, 0)]
        assert shards.answer() is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


# -- after a standstill


class At:
    """A handle that tells when it was due, and a loop that tells the time."""

    def __init__(self, due: float, now: float) -> None:
        self.when = lambda: due
        self.time = lambda: now


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [(10.0, 10.0, False), (0.0, STOOD_STILL_S, False), (0.0, STOOD_STILL_S * 1.01, True), (-5.0, 0.0, True)],
)
def test_a_timer_that_is_late_tells_that_the_process_stood_still(due: float, now: float, expected: bool) -> None:
    at: Any = At(due, now)
    assert stood_still(at, at) is expected


def test_what_was_due_at_once_is_no_timer() -> None:
    at_once: Any = SimpleNamespace()
    assert due_at(at_once) == -math.inf
    loop: Any = At(0.0, 1e9)
    assert not stood_still(loop, at_once)


def test_work_is_done_after_so_many_turns_in_which_what_arrived_is_read() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        done: list[float] = []
        timer = after_reading(loop, lambda: done.append(loop.time()))
        assert due_at(timer) == pytest.approx(loop.time() + STOOD_STILL_S)
        turns = 0

        def count() -> None:
            nonlocal turns
            if not done:
                turns += 1
                loop.call_soon(count)

        loop.call_at(timer.when(), count)
        await asyncio.sleep(STOOD_STILL_S * 0.99)
        assert not done
        await asyncio.sleep(1)
        assert turns in (TURNS, TURNS + 1), "of two timers of one moment either may be first"

    in_virtual_time(scenario)


def test_what_is_cancelled_before_its_turns_is_not_done() -> None:
    async def scenario() -> None:
        done: list[int] = []
        after_reading(asyncio.get_running_loop(), lambda: done.append(1)).cancel()
        await asyncio.sleep(1)
        assert not done

    in_virtual_time(scenario)
