"""Whose turn it is to change a group: who has it may be cancelled, and one kind of group may follow another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

import pytest

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.classic.decide.membership import GroupLimits, JoinProtocol, JoinRequest
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import Case
from tests.kit.streams_case import APPLICATION, StreamsCase
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_share_group_flow import GROUP, ShareCase

LIMITS = GroupLimits(10, 1_800_000, 0, 100)


def test_a_change_that_is_cancelled_before_it_begins_gives_the_turn_on() -> None:
    """A broker that stops cancels what is carried out, in the step in which it was decided maybe. Who waits for the
    group's turn hears that the group is not here."""

    async def scenario() -> None:
        active = ActiveGroupShard(0, GroupShard(LIMITS, offset_metadata_max_bytes=4_096), 1, lambda: (0, 0))

        async def written() -> ErrorCode:
            return ErrorCode.NONE

        async def decide() -> tuple[Work | None, None]:
            return written, None

        def stopping(work: Coroutine[None, None, ErrorCode]) -> asyncio.Task[ErrorCode]:
            active.is_gone = True
            task = asyncio.get_running_loop().create_task(work)
            task.cancel()
            return task

        first = asyncio.create_task(active.in_turn("g", decide, stopping))
        second = asyncio.create_task(active.in_turn("g", decide, stopping))
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(RequestError) as refused:
                await second
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert not active.turns.is_taken("g")

    asyncio.run(scenario())


@pytest.mark.parametrize("delay_ms", [0, 20])
def test_a_classic_member_joins_what_comes_after_an_empty_group(delay_ms: int) -> None:
    """Fuzzed sequences: a join was never answered. A member of the newer protocol had waited for the turn in which the
    empty group gave its place up; its records ended the classic group that the join had entered."""

    async def scenario() -> None:
        case = Case(initial_delay_ms=delay_ms)
        groups = await case.start()
        await case.beat("one")
        await case.beat("one", -1)
        joining = asyncio.create_task(case.join())
        await asyncio.sleep(0)
        beating = asyncio.create_task(case.beat("two"))
        async with asyncio.timeout(60):
            joined, beat = await joining, await beating
        assert (joined.error, joined.leader) == (ErrorCode.NONE, ""), "the broker assigns"
        group = groups.describe_consumer_group("g")
        assert group is not None
        assert set(group.members) == {joined.member_id, beat.member_id}

    in_virtual_time(scenario)


def test_a_classic_member_joins_what_comes_after_an_empty_streams_group() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        groups = await case.start()
        await case.beat("one")
        await case.beat("one", -1)
        request = JoinRequest(
            "", None, "old", "/127.0.0.1", 10_000, 20_000, "stream", [JoinProtocol("stream", b"")], False
        )
        joining = asyncio.create_task(groups.join(APPLICATION, request))
        await asyncio.sleep(0)
        beating = asyncio.create_task(case.beat("two"))
        async with asyncio.timeout(60):
            joined, beat = await joining, await beating
        assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert set(case.group.members) == {"two"} == {beat.member_id}
        assert groups.describe_group(APPLICATION) is None

    in_virtual_time(scenario)


def test_a_join_that_made_room_is_refused_where_its_coordinator_has_moved_meanwhile() -> None:
    """The partition went to another broker when the end of the empty group was in the log, and before the join went on:
    nobody would ever answer a join of a group that is not here."""

    async def scenario() -> None:
        case = Case(initial_delay_ms=20)
        groups = await case.start()
        await case.beat("one")
        await case.beat("one", -1)
        written = case.log._append

        async def moves_when_written(records: Sequence[CoordinatorRecord]) -> ErrorCode:
            error = await written(records)
            asyncio.get_running_loop().call_soon(groups.unload, 0, 1)
            return error

        case.log._append = moves_when_written  # type: ignore[method-assign]
        joining = asyncio.create_task(case.join())
        async with asyncio.timeout(60):
            with pytest.raises(RequestError) as refused:
                await joining
        assert refused.value.code is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


def test_a_shut_down_ends_an_administrator_who_waits_for_states_and_gives_no_turn_that_is_not_taken() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        case.states.takes_s = 5.0
        await case.beat("one")
        await case.beat("one", -1)
        deleting = asyncio.ensure_future(case.groups.delete_group(GROUP))
        await asyncio.sleep(0.1)
        case.groups.shut_down()
        await asyncio.sleep(0.1)
        assert deleting.cancelled()

    in_virtual_time(scenario)
