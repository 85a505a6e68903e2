"""The flow around streams groups to its edges: to the millisecond, out of turn, and where nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest
from structlog.testing import capture_logs

from kavka.coordinator.groups.classic.decide.membership import GroupState
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.share.decide.records import epoch_record
from kavka.coordinator.groups.streams.decide.group import Endpoint
from kavka.coordinator.groups.streams.decide.topology import StatusCode
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.streams_case import APPLICATION, LIMITS, StreamsCase, code, codes
from tests.kit.virtual_time import in_virtual_time


class TimedLog(OffsetsLog):
    """Notes when it is written to."""

    def __init__(self) -> None:
        super().__init__(delay_s=0.001)
        self.times_s: list[float] = []

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> Awaitable[ErrorCode]:
        self.times_s.append(asyncio.get_running_loop().time())
        return super().append(partition, records)


def test_what_could_not_be_written_is_tried_again_after_a_second() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        case.log = log = TimedLog()
        await case.start()
        await asyncio.sleep(0.0005)  # Timers are set to whole milliseconds: not at their edge.
        await case.beat("one")
        log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(LIMITS.session_timeout_ms / 1000 + 2)
        joined, failed, again = log.times_s
        assert round((failed - joined) * 1000) - LIMITS.session_timeout_ms in (0, 1)
        assert round((again - failed) * 1000) == 1_001, "from when it has failed, a millisecond later"
        assert list(case.group.members) == []

    in_virtual_time(scenario)


def test_a_share_group_is_told_apart_without_its_turn() -> None:
    """Its turn may take as long as other brokers take to make its states."""

    async def scenario() -> None:
        case = StreamsCase()
        case.log.records.append(epoch_record(APPLICATION, 3, 0))
        await case.start()
        await case.groups.shard_of(APPLICATION).turns.take(APPLICATION)
        for epoch in (0, 3, -1):
            async with asyncio.timeout(1):
                refusal = await case.refused("one", epoch)
            assert (code(refusal), refusal.message) == (
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {APPLICATION} is not a streams group.",
            )

    in_virtual_time(scenario)


def test_only_who_is_new_is_logged() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        with capture_logs() as first:
            await case.beat("one")
        assert [log["event"] for log in first] == ["streams group member joins"]
        with capture_logs() as again:
            await case.beat("one")
        assert again == []

    in_virtual_time(scenario)


def test_a_wish_to_stop_needs_no_record() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        await case.beat("two")
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await case.beat("one", 2, has={"0": [0, 1]})
        await case.beat("two", 3, has={})
        before = list(case.log.records)
        await case.beat("one", 3, has={"0": [0, 1]}, wants_shutdown=True)
        assert codes(await case.beat("two", 3, has={"0": [2, 3]})) == [StatusCode.SHUTDOWN_APPLICATION.name]
        assert case.log.records == before

    in_virtual_time(scenario)


def test_who_went_away_before_it_was_answered_is_a_member_for_a_session() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        case.log = OffsetsLog(delay_s=1.0)
        await case.start()
        beating = asyncio.create_task(case.beat("one"))
        await asyncio.sleep(0.5)
        beating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beating
        await asyncio.sleep(1)
        assert list(case.group.members) == ["one"]
        assert case.group.untold == {"one"}
        await asyncio.sleep(LIMITS.session_timeout_ms / 1000 + 1)
        assert list(case.group.members) == []

    in_virtual_time(scenario)


def test_only_a_new_epoch_is_a_rebalance() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        await case.beat("one")
        await case.beat("two")
        before = len(case.log.records)
        await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
        await case.beat("one", 2, has={"0": [0, 1]})
        assert len(case.log.records) == before + 2
        assert [(each.generation, each.why) for each in case.rebalances] == [
            (2, "member one joins from /127.0.0.1"),
            (3, "member two joins from /127.0.0.1"),
        ]

    in_virtual_time(scenario)


def test_the_epoch_of_endpoints_rises_by_one_with_each_change() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        told = [await case.beat("one", endpoint=Endpoint("h", 1)) for _ in range(3)]
        assert [answer.endpoint_epoch for answer in told] == [0, 1, 2]
        assert case.group.endpoint_epoch == 2

    in_virtual_time(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_classic_group_is_dead_while_its_end_is_written_and_else_as_before(error: ErrorCode) -> None:
    async def scenario() -> None:
        case = StreamsCase()
        await case.start()
        offsets = [OffsetToCommit("t", 0, 7, -1, "")]
        request = CommitRequest(APPLICATION, "", None, -1, offsets, api_version=9)
        assert await case.groups.offsets.commit(request) == [ErrorCode.NONE]
        case.log.delay_s, case.log.error = 1.0, error
        beating = asyncio.create_task(case.beat("one"))
        await asyncio.sleep(0.5)
        group = case.groups.describe_group(APPLICATION)
        assert group is not None
        assert group.state is GroupState.DEAD
        await asyncio.wait([beating])
        is_written = error is ErrorCode.NONE
        assert (beating.exception() is None) is is_written
        assert (case.groups.describe_group(APPLICATION) is None) is is_written
        assert group.state is (GroupState.DEAD if is_written else GroupState.EMPTY)

    in_virtual_time(scenario)
