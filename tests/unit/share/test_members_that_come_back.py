"""Members of a share group come back while its leader still knows the share-partition: something is being written, or
another member's session has outlived the group."""

from __future__ import annotations

import asyncio

import pytest

from kavka.coordinator.share_state.decide.records import NO_EPOCH
from kavka.errors import ErrorCode, RequestError
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType
from tests.kit.share_leader_case import KEY, LIMITS, ShareLeaderCase, settled


def test_dead_letters_that_are_being_written_are_not_begun_anew() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        before = await case.reject()
        assert case.writer.begun == [[(0, 1)]]
        case.leave()
        led = await case.find()
        await settled()
        assert case.writer.begun == [[(0, 1)]]
        assert led is before
        case.writer.may_write.set()
        await settled()
        assert (led.records.start, led.is_dropped) == (3, False)
        assert case.leaders.led() == [led]

    asyncio.run(play())


@pytest.mark.parametrize("is_writing", [False, True], ids=["dead letters", "a write"])
@pytest.mark.parametrize("change", ["set anew", "deleted and made again"])
def test_positions_that_were_set_anew_meanwhile_are_found(change: str, *, is_writing: bool) -> None:
    """What is on its way still comes to its end, and is fenced, or is a dead letter of a record that was rejected."""

    async def play() -> None:
        case = ShareLeaderCase()
        if is_writing:
            led = await case.find()
            case.states.goes_on.clear()
            led.records.acquire("m", [LogBatch(0, 2, is_aborted=False)], Wish(500, 500), 0, LIMITS)
            case.leaders.acknowledge(led, "m", [Acknowledgement(0, 2, [AcknowledgeType.ACCEPT])])
            await settled()
        else:
            led = await case.reject()
        case.leave()
        if change == "set anew":
            case.states.set(2, 0)
        else:
            case.states.make_again()
        case.states.goes_on.set()
        again = await case.find()
        assert again is not led
        assert led.is_dropped
        assert (again.records.start, again.records.end) == (0, 0)

    asyncio.run(play())


def test_who_leaves_again_before_the_state_was_looked_at_has_no_share_partition() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        led = await case.reject()
        case.leave()
        found = asyncio.get_running_loop().create_task(case.find())
        await asyncio.sleep(0)
        case.leave()
        with pytest.raises(RequestError) as refused:
            await found
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert led.is_unused
        case.writer.may_write.set()
        await settled()
        assert led.is_dropped

    asyncio.run(play())


@pytest.mark.parametrize("change", ["set anew", "deleted and made again"])
def test_who_comes_after_a_reset_gets_the_new_positions_although_an_old_session_lives(change: str) -> None:
    """1. a client stands still, and its group has no members any more; its session at the leader lives; 2. an
    administrator sets the positions anew; 3. a member comes. The leader has stored nothing meanwhile, so that nobody
    fenced it."""

    async def play() -> None:
        case = ShareLeaderCase()
        began = case.now()
        led = await case.find(began)
        led.records.acquire("m", [LogBatch(0, 2, is_aborted=False)], Wish(500, 500), 0, LIMITS)
        case.leaders.acknowledge(led, "m", [Acknowledgement(0, 2, [AcknowledgeType.ACCEPT])])
        await settled()
        if change == "set anew":
            case.states.set(2, 1)
        else:
            case.states.make_again()
        await asyncio.sleep(0.001)
        assert await case.find(began) is led
        again = await case.find()
        assert again is not led
        assert led.is_dropped
        assert again.records.start == (1 if change == "set anew" else 0)
        assert await case.find(began) is again

    asyncio.run(play())


def test_a_state_is_looked_at_once_for_each_session() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        led = await case.find()
        await asyncio.sleep(0.001)
        second = case.now()
        for _ in range(3):
            assert await case.find(second) is led
        assert case.states.summaries == 1

    asyncio.run(play())


def test_a_session_of_before_is_served_while_the_state_is_looked_at_for_another() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        began = case.now()
        led = await case.find(began)
        await asyncio.sleep(0.001)
        case.states.may_be_read.clear()
        looking = case.leaders.find(KEY, "orders", case.now())
        await settled()
        assert isinstance(looking, asyncio.Task)
        assert case.leaders.find(KEY, "orders", began) is led
        assert case.leaders.loaded(KEY, "orders") is led
        case.states.may_be_read.set()
        assert await looking is led

    asyncio.run(play())


def test_a_look_that_began_before_a_session_does_not_count_for_it() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        led = await case.find()
        await asyncio.sleep(0.001)
        case.states.may_be_read.clear()
        first = case.leaders.find(KEY, "orders", case.now())
        await settled()
        case.states.set(2, 1)
        await asyncio.sleep(0.001)
        since = case.now()
        assert case.leaders.find(KEY, "orders", since) is first
        case.states.may_be_read.set()
        assert isinstance(first, asyncio.Task)
        assert await first is led
        again = await case.find(since)
        assert again.records.start == 1

    asyncio.run(play())


def test_who_became_a_follower_before_it_looked_does_not_speak_for_the_next_leader() -> None:
    """In the next leader's epoch, its request counted as this leader's: whatever the next leader wrote was late."""

    async def play() -> None:
        case = ShareLeaderCase()
        found = case.leaders.find(KEY, "orders", case.now())
        assert isinstance(found, asyncio.Task)
        case.hosted.is_leader, case.hosted.leader_epoch = False, 5
        with pytest.raises(RequestError) as refused:
            await found
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await case.states.summary(KEY, 1.0)).leader_epoch == NO_EPOCH

    asyncio.run(play())
