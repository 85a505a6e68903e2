"""Whose turn it is to change a group, where who has the turn is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.classic.decide.membership import GroupLimits
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.errors import ErrorCode, RequestError

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
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await first
            with pytest.raises(RequestError) as refused:
                await second
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        assert not active.turns.is_taken("g")

    asyncio.run(scenario())
