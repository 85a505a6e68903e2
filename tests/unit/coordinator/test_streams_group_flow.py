"""The flow around streams groups: who is kept for having been heard of, what takes a group's place, what is told."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, JoinRequest
from kavka.coordinator.groups.consumer.decide import records as consumer_records
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.coordinator.groups.decide.records import group_tombstone
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.share.decide import records as share_records
from kavka.coordinator.groups.streams.decide.topology import Status, StatusCode
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.streams_case import (
    APPLICATION,
    CHANGELOG,
    COUNTS,
    LIMITS,
    REPARTITION,
    StreamsCase,
    active,
    code,
    codes,
)
from tests.kit.virtual_time import in_virtual_time

SESSION_S = LIMITS.session_timeout_ms / 1000
CONSUMERS = consumer_records.epoch_record(APPLICATION, 3, 0)
SHARES = share_records.epoch_record(APPLICATION, 3, 0)


async def started(**limits: int) -> StreamsCase:
    case = StreamsCase(**limits)
    await case.start()
    return case


async def settled(case: StreamsCase) -> None:
    """Two members with two tasks each, in epoch 3."""
    await case.beat("one")
    await case.beat("two")
    await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
    await case.beat("one", 2, has={"0": [0, 1]})
    await case.beat("two", 3, has={})


# -- whom a group keeps


def test_who_is_heard_of_is_kept_though_nothing_can_be_written() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        for _ in range(3):
            await asyncio.sleep(SESSION_S - 1)
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            refusal = await case.refused("one", 2, rack_id="another")
            assert code(refusal) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert list(case.group.members) == ["one"]
        await asyncio.sleep(SESSION_S + 1)
        assert list(case.group.members) == []

    in_virtual_time(scenario)


def test_who_is_heard_of_is_kept_though_it_takes_longer_than_a_session_to_see_that_nothing_can_be_written() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        case.log.error, case.log.commits_after_s = ErrorCode.NOT_ENOUGH_REPLICAS, SESSION_S + 1
        assert code(await case.refused("one", 2, rack_id="another")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.error, case.log.commits_after_s = ErrorCode.NONE, 0.0
        await asyncio.sleep(SESSION_S - 1)
        assert list(case.group.members) == ["one"]
        await asyncio.sleep(2)
        assert list(case.group.members) == []

    in_virtual_time(scenario)


def test_who_is_refused_for_what_it_says_is_not_kept_for_it() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        await asyncio.sleep(SESSION_S - 1)
        assert code(await case.refused("one", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
        await asyncio.sleep(2)
        assert list(case.group.members) == []

    in_virtual_time(scenario)


def test_who_was_removed_is_no_member_for_having_asked() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        await case.beat("two")
        await case.beat("one", -1)
        assert code(await case.refused("one", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert list(case.group.members) == list(case.group.deadlines) == ["two"]

    in_virtual_time(scenario)


def test_a_removal_that_could_not_be_written_is_tried_again_a_second_later() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        heard_s = asyncio.get_running_loop().time()
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await asyncio.sleep(heard_s + SESSION_S + 0.9985 - asyncio.get_running_loop().time())
            assert list(case.group.members) == ["one"]
            assert case.log.error is ErrorCode.NONE, "it was tried"
            await asyncio.sleep(0.005)
            assert list(case.group.members) == []
        removed = (
            "streams group member removed",
            {"group": APPLICATION, "member": "one", "why": "no heartbeat in time"},
        )
        assert [
            (log.pop("event"), {name: log[name] for name in log if name in ("group", "member", "why")}) for log in logs
        ] == [
            removed,
            (
                "what a streams group waits for is not done yet",
                {"group": APPLICATION, "why": "COORDINATOR_NOT_AVAILABLE"},
            ),
            removed,
        ]
        assert case.rebalances[-1] == Rebalance(
            APPLICATION, "streams", "member one is removed: no heartbeat in time", 2, 3, 1, 0, None
        )

    in_virtual_time(scenario)


def test_all_whose_time_is_up_are_removed_at_once() -> None:
    async def scenario() -> None:
        case = await started()
        await settled(case)
        case.groups.shut_down()
        await case.start()  # from when all have a session
        before = case.group.epoch
        await asyncio.sleep(SESSION_S + 1)
        assert (case.group.epoch, list(case.group.members)) == (before + 1, [])
        late = "is removed: no heartbeat in time"
        assert case.rebalances[-1].why == f"member one {late}; member two {late}"

    in_virtual_time(scenario)


# -- joining and leaving


def test_who_joins_and_leaves_is_logged_once() -> None:
    async def scenario() -> None:
        case = await started()
        with capture_logs() as logs:
            await case.beat("one")
            await case.beat("one")
            await case.beat("one", 2, has={"0": [0, 1, 2, 3]})
            assert code(await case.refused("two", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
            assert code(await case.refused("two", -1)) is ErrorCode.UNKNOWN_MEMBER_ID
            left = await case.beat("one", -1)
        assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("one", -1, 0)
        assert (left.tasks, list(left.statuses), left.endpoints) == (None, [], None)
        assert [(log["event"], log["group"], log["member"]) for log in logs] == [
            ("streams group member joins", APPLICATION, "one"),
            ("streams group member left", APPLICATION, "one"),
        ]

    in_virtual_time(scenario)


def test_each_new_epoch_is_told_with_its_cause() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one", application=COUNTS)
        await case.beat("two", application=COUNTS)
        await case.beat("two", 3, rack_id="r")
        for name in (CHANGELOG, REPARTITION):
            case.topics.put(name, 4)
        await case.beat("two", 4)
        await case.beat("two", 5, has={"0": []})
        await case.beat("two", -1)
        told = [
            ("member one joins from /127.0.0.1", 0, 2, 0, 1),
            ("member two joins from /127.0.0.1", 2, 3, 1, 2),
            ("member two says something new of itself", 3, 4, 2, 2),
            ("the topics that its tasks need, or its settings, have changed", 4, 5, 2, 2),
            ("member two leaves", 5, 6, 2, 1),
        ]
        assert [
            (each.why, each.generation_before, each.generation, each.members_before, each.members)
            for each in case.rebalances
        ] == told

    in_virtual_time(scenario)


def test_topics_that_came_while_the_first_assignment_waited_are_its_cause() -> None:
    async def scenario() -> None:
        case = await started(initial_delay_ms=3_000)
        await case.beat("one", application=COUNTS)
        for name in (CHANGELOG, REPARTITION):
            case.topics.put(name, 4)
        await asyncio.sleep(3.1)
        assert [rebalance.why for rebalance in case.rebalances] == [
            "member one joins from /127.0.0.1",
            "its internal topics are there",
        ]
        group = case.group
        assert group.configured is not None
        assert (group.configured.is_ready, group.checked_version) == (True, case.topics.version)
        assert group.delayed_until_ms is None

    in_virtual_time(scenario)


def test_a_first_assignment_that_could_not_be_written_is_tried_again_a_second_later() -> None:
    async def scenario() -> None:
        case = await started(initial_delay_ms=3_000)
        await case.beat("one")
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(3.9)
        assert case.log.error is ErrorCode.NONE, "it was tried"
        assert case.group.assignment_epoch == 1
        await asyncio.sleep(0.2)
        assert (case.group.assignment_epoch, case.group.delayed_until_ms) == (2, None)
        assert active(await case.beat("one", 1, has={})) == {"0": [0, 1, 2, 3]}

    in_virtual_time(scenario)


# -- who wants all to stop


def shutdown(member: str) -> Status:
    return Status(
        StatusCode.SHUTDOWN_APPLICATION,
        f"Streams group member {member} encountered a fatal error and requested a shutdown for the entire application.",
    )


@pytest.mark.parametrize("epoch", [3, -1], ids=["stays", "leaves"])
def test_the_first_that_wants_all_to_stop_is_named(epoch: int) -> None:
    async def scenario() -> None:
        case = await started()
        await settled(case)
        await case.beat("three")
        with capture_logs() as logs:
            await case.beat("one", epoch, wants_shutdown=True)
            told = await case.beat("two", 3, has={"0": [2, 3]}, wants_shutdown=True)
            assert list(told.statuses) == [shutdown("one")]
            again = await case.beat("two", 3, has={"0": [2, 3]})
            assert list(again.statuses) == [shutdown("one")]
        asked = [log for log in logs if log["event"] == "streams group is asked to shut down"]
        assert [(log["group"], log["member"]) for log in asked] == [(APPLICATION, "one")]

    in_virtual_time(scenario)


def test_of_the_last_that_leaves_nobody_is_asked_to_stop() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        with capture_logs() as logs:
            await case.beat("one", -1, wants_shutdown=True)
        assert case.group.shutdown_asked_by is None
        assert [log["event"] for log in logs] == ["streams group member left"]
        assert codes(await case.beat("two")) == []

    in_virtual_time(scenario)


# -- whose place a group takes


@pytest.mark.parametrize("other", [CONSUMERS, SHARES], ids=["consumer", "share"])
def test_a_group_of_another_kind_stays(other: CoordinatorRecord) -> None:
    async def scenario() -> None:
        case = StreamsCase()
        case.log.records.append(other)
        await case.start()
        for epoch in (0, 2):
            refusal = await case.refused("one", epoch)
            assert (code(refusal), refusal.message) == (
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {APPLICATION} is not a streams group.",
            )
        assert code(await case.refused("one", -1)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert case.log.records == [other]

    in_virtual_time(scenario)


async def commit(case: StreamsCase) -> None:
    """Makes a classic group without members."""
    offsets = [OffsetToCommit("t", 0, 7, -1, "")]
    request = CommitRequest(APPLICATION, "", None, -1, offsets, api_version=9)
    assert await case.groups.offsets.commit(request) == [ErrorCode.NONE]


async def join(case: StreamsCase) -> ErrorCode:
    request = JoinRequest(
        "", None, "old", "/127.0.0.1", 10_000, 20_000, "consumer", [JoinProtocol("range", b"")], False
    )
    async with asyncio.timeout(60):
        return (await case.groups.join(APPLICATION, request)).error


def test_a_classic_group_without_members_ends_with_the_record_before_the_first_of_a_streams_group() -> None:
    async def scenario() -> None:
        fresh, case = await started(), await started()
        await commit(case)
        before = len(case.log.records)
        assert code(await case.refused("one", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
        await asyncio.gather(fresh.beat("one"), case.beat("one"))
        assert case.log.records[before:] == [group_tombstone(APPLICATION), *fresh.log.records]
        assert [group.kind for group in case.groups.list_groups()] == ["streams"]

    in_virtual_time(scenario)


def test_a_classic_group_with_members_stays() -> None:
    async def scenario() -> None:
        case = await started()
        assert await join(case) is ErrorCode.NONE
        before = len(case.log.records)
        assert code(await case.refused("one")) is ErrorCode.GROUP_ID_NOT_FOUND
        assert len(case.log.records) == before

    in_virtual_time(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_while_it_is_written_that_a_classic_group_ends_nobody_joins_it_and_else_it_goes_on(error: ErrorCode) -> None:
    async def scenario() -> None:
        case = StreamsCase()
        case.log = OffsetsLog(delay_s=1.0, keeps_failed=True)
        await case.start()
        await commit(case)
        case.log.error = error
        beating = asyncio.create_task(case.refused("one"))
        await asyncio.sleep(0.5)
        joining = asyncio.create_task(join(case))
        await asyncio.sleep(0.4)
        assert not joining.done()
        assert code(await beating) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_written = error is ErrorCode.REQUEST_TIMED_OUT
        assert (await joining is ErrorCode.NONE) is not is_written
        kinds = [group.kind for group in case.groups.list_groups()]
        assert kinds == (["streams"] if is_written else ["classic"])

    in_virtual_time(scenario)


# -- where a coordinator moves


def test_what_was_committed_when_the_coordinator_moved_is_answered_and_told_by_the_next_one() -> None:
    async def scenario() -> None:
        case = StreamsCase()
        case.log = OffsetsLog(delay_s=1.0)
        await case.start()
        beating = asyncio.create_task(case.beat("one"))
        await asyncio.sleep(0.5)
        case.groups.unload(0, 1)
        assert (await beating).member_epoch == 2
        assert case.rebalances == []
        await case.groups.load(0, 2)
        assert list(case.group.members) == ["one"]

    in_virtual_time(scenario)
