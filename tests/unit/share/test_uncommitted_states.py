"""Who asks again after a write of unknown outcome is told of it when it is committed, not because it was replayed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from kavka.coordinator.share_state.coordinator import ShareCoordinator, ShareStatePorts
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import OffsetsLog

KEY = ShareKey("workers", uuid.UUID(int=1), 0)
LEADER_EPOCH = 3


class StatesLog(OffsetsLog):
    """`__share_group_state` in memory, for one partition."""

    def cut(self, partition: int, offset: int) -> None:
        raise AssertionError("nothing prunes it")

    def loses_the_last(self) -> None:
        """Another broker leads it, which does not have the last record."""
        self.records.pop()
        self.uncommitted = 0


class Case:
    """A state that began at offset 5, read by a leader."""

    def __init__(self) -> None:
        self.log = StatesLog(delay_s=None, keeps_failed=True)

    async def start(self) -> ShareCoordinator:
        ports = ShareStatePorts(lambda: 0, lambda: 500, lambda key: True)
        coordinator = ShareCoordinator(asyncio.get_running_loop(), self.log, ports)
        coordinator.set_partition_count(1)
        await coordinator.load(0, 0)
        return coordinator

    async def begun(self) -> ShareCoordinator:
        coordinator = await self.start()
        await coordinator.initialize(KEY, 1, 5)
        await coordinator.read(KEY, LEADER_EPOCH)
        return coordinator

    async def fails(self, asked: Awaitable[object]) -> None:
        self.log.error, self.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 1
        assert await code(asked) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def code(asked: Awaitable[object]) -> ErrorCode:
    try:
        await asked
    except RequestError as refused:
        return ErrorCode(refused.code)
    return ErrorCode.NONE


async def told(coordinator: ShareCoordinator) -> object:
    return coordinator.summary(KEY)


def test_a_deletion_that_may_be_undone_is_not_answered_as_done() -> None:
    """The group was deleted then; made again under its name, it began where the former one was."""

    async def scenario() -> None:
        case = Case()
        coordinator = await case.begun()
        await case.fails(coordinator.delete(KEY))
        assert await code(coordinator.delete(KEY)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.loses_the_last()
        state = (await case.start()).summary(KEY)
        assert state is not None
        assert state.start_offset == 5

    asyncio.run(scenario())


def test_it_is_once_it_is_committed() -> None:
    async def scenario() -> None:
        case = Case()
        coordinator = await case.begun()
        await case.fails(coordinator.delete(KEY))
        case.log.uncommitted = 0
        await coordinator.delete(KEY)
        assert coordinator.summary(KEY) is None
        assert (await case.start()).summary(KEY) is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "ask", [told, lambda coordinator: coordinator.read(KEY, LEADER_EPOCH + 1)], ids=["summary", "read"]
)
def test_a_state_whose_epoch_may_be_undone_is_told_to_nobody(
    ask: Callable[[ShareCoordinator], Awaitable[object]],
) -> None:
    """Who led before could write again, after the next leader had begun from the state."""

    async def scenario() -> None:
        case = Case()
        coordinator = await case.begun()
        await case.fails(coordinator.read(KEY, LEADER_EPOCH + 1))
        assert await code(ask(coordinator)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.uncommitted = 0
        assert await code(ask(coordinator)) is ErrorCode.NONE

    asyncio.run(scenario())


def test_what_is_written_behind_it_is_answered_as_soon_as_that_is_committed() -> None:
    async def scenario() -> None:
        case = Case()
        coordinator = await case.begun()
        await case.fails(coordinator.read(KEY, LEADER_EPOCH + 1))
        case.log.uncommitted = 0
        await coordinator.initialize(KEY, 2, 9)
        state = coordinator.summary(KEY)
        assert state is not None
        assert (state.start_offset, state.leader_epoch) == (9, LEADER_EPOCH + 1)

    asyncio.run(scenario())
