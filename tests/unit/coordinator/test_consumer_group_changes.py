"""Changes of consumer groups that meet what came between: a client that goes away, a write that fails, an empty group
of the other protocol, and a share group in the place."""

from __future__ import annotations

import asyncio

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, Leaver
from kavka.coordinator.groups.consumer import flow
from kavka.coordinator.groups.decide.records import group_tombstone
from kavka.coordinator.shared.decide.topic_pattern import InvalidPattern, TopicPattern
from kavka.errors import ErrorCode
from tests.kit.group_case import GROUP, SESSION_S, Case, subscription
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_consumer_group_flow_edges import ByHand, members, refusal
from tests.unit.coordinator.test_group_coordinator_edges import All, joining, syncing


def test_a_member_whose_client_goes_away_before_the_answer_has_joined_and_has_a_session() -> None:
    """The next change waits until that is done."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        await case.beat("one")
        case.log.delay_s = 1
        gone = asyncio.ensure_future(case.beat("two"))
        await asyncio.sleep(0.5)
        gone.cancel()
        three = await case.beat("three")
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert list(group.members) == ["one", "two", "three"]
        await asyncio.sleep(SESSION_S - 2)
        await case.beat("three", three.member_epoch)
        await asyncio.sleep(4)
        assert members(case) == ["three"]

    in_virtual_time(scenario)


@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_made_a_group_and_goes_away_before_the_answer_is_out_after_its_session(leaves_first: bool) -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        if leaves_first:
            await case.beat("one")
            await case.beat("one", -1)
        case.log.delay_s = 1
        gone = asyncio.ensure_future(case.beat("two"))
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.sleep(1)
        assert members(case) == ["two"]
        await asyncio.sleep(SESSION_S - 1)
        assert members(case) == ["two"]
        await asyncio.sleep(3)
        assert members(case) == []

    in_virtual_time(scenario)


def test_nobody_is_told_of_a_state_that_may_be_lost() -> None:
    async def scenario() -> None:
        case = Case()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        one = await case.beat("one")
        assert (await case.beat("one", one.member_epoch)).assignment is None
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 100
        assert await case.refused("two") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        written = len(case.log.records)
        assert await case.refused("two", 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await refusal(case.join()))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(case.log.records) > written
        case.log.uncommitted = 0
        await case.beat("two", 0)

    in_virtual_time(scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_topics_that_have_changed_count_though_the_first_to_say_so_could_not_write_it(version: int) -> None:
    async def scenario() -> None:
        case = Case()
        case.topics = HandMadeTopics()
        case.topics.version = version - 1
        await case.start()
        one = await case.beat("one")
        added = case.topics.put("t", 1)
        assert case.topics.version == version
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await case.beat("one", one.member_epoch)).assignment == {added: {0}}

    in_virtual_time(scenario)


def test_an_empty_classic_group_ends_in_the_log_too() -> None:
    """Else what is left of it after compaction is a group again, when the other one has been deleted."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        await groups.leave(GROUP, [Leaver(old.member_id)])
        await asyncio.sleep(1)
        before = len(case.log.records)
        await case.beat("new")
        assert case.log.records[before] == group_tombstone(GROUP)
        await case.beat("new", -1)
        await groups.delete_group(GROUP)
        assert (await case.start()).list_groups() == []

    in_virtual_time(scenario)


def test_an_expression_that_is_none_here_keeps_no_other_from_being_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown: set[str] = set()

    class Known(TopicPattern):
        def __init__(self, text: str) -> None:
            if text in unknown:
                raise InvalidPattern("unknown here")
            super().__init__(text)

    monkeypatch.setattr(flow, "TopicPattern", Known)

    async def scenario() -> None:
        case = ByHand()
        case.topics.put("u", 1)
        await case.start()
        await case.beat("one", topics=None, topic_regex="u.*")
        two = await case.beat("two", topics=None, topic_regex="t.*")
        unknown.add("u.*")
        case.topics.put("t2", 1)
        case.wall_ms += 20_000
        await case.beat("two", two.member_epoch)
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        assert group.regexes["t.*"].topics == {"t", "t2"}

    in_virtual_time(scenario)


def test_what_is_asked_of_a_share_group_does_not_wait_for_its_turn() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.share("g")
        active = groups.shard_at(0)
        assert active is not None
        await active.turns.take("g")
        async with asyncio.timeout(1):
            assert (await refusal(case.consumer("g")))[0] is ErrorCode.GROUP_ID_NOT_FOUND
            assert (await groups.join("g", joining())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert await groups.leave("g", [Leaver("m")]) == [ErrorCode.UNKNOWN_MEMBER_ID]

    in_virtual_time(scenario)


def test_a_classic_group_that_stays_waits_for_its_members_as_long_as_they_say() -> None:
    """Not for a session, which may be longer."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        request = joining(protocols=[JoinProtocol("range", subscription("t"))], rebalance_timeout_ms=2_000)
        joined = await groups.join("g", request)
        parts = {joined.member_id: encode_assignment({"t": [0, 1]}, 1)}
        await groups.sync("g", syncing(joined.member_id, 1, **parts))
        await asyncio.sleep(1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await refusal(case.consumer("g")))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.error = ErrorCode.NONE
        group = groups.describe_group("g")
        assert group is not None
        await asyncio.sleep(1.9)
        assert list(group.members) == [joined.member_id]
        await asyncio.sleep(0.2)
        assert list(group.members) == []

    in_virtual_time(scenario)


def test_a_static_member_that_comes_back_with_the_classic_protocol_leaves_others_as_they_are() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("stays")
        await case.beat("static", instance_id="i")
        back = await case.join(instance="i")
        assert back.error is ErrorCode.NONE
        assert set(members(case)) == {"stays", back.member_id}
        assert groups.describe_group(GROUP) is None

    in_virtual_time(scenario)
