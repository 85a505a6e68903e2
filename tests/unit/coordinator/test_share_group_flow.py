"""States of a share group's partitions are asked for again soon after they were refused, not after half a minute."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinProtocol, JoinRequest, Leaver
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.share.decide.group import ShareGroupLimits
from kavka.coordinator.groups.share.decide.heartbeat import ShareAnswer, ShareHeartbeat
from kavka.coordinator.groups.share.flow import RETRY_MS, ShareSurroundings
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog, group_surroundings
from tests.kit.one_by_one import OneByOne
from tests.kit.virtual_time import in_virtual_time

GROUP = "workers"
LIMITS = ShareGroupLimits(45_000, 5_000, 10, 0, 30_000)


class _States:
    """Makes all states but those of `refused` partitions."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.takes_s = 0.0
        self.refused: frozenset[int] = frozenset()

    async def initialize(
        self, group_id: str, state_epoch: int, topics: Mapping[uuid.UUID, Sequence[int]], coordinator_epoch: int
    ) -> Mapping[uuid.UUID, frozenset[int]]:
        made = {topic_id: frozenset(wanted) - self.refused for topic_id, wanted in topics.items()}
        self.asked.extend(sorted(wanted) for wanted in topics.values())
        await asyncio.sleep(self.takes_s)
        return {topic_id: partitions for topic_id, partitions in made.items() if partitions}


class ShareCase:
    """A coordinator of one partition, with a topic t of two partitions."""

    def __init__(self, limits: ShareGroupLimits = LIMITS) -> None:
        self.log = OffsetsLog(delay_s=0.001)
        self.states = _States()
        self.limits = limits
        self.now_ms = 0
        self.is_enabled = True

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        topics = self.topics = HandMadeTopics(t=2)
        states: Any = self.states
        self.groups = GroupCoordinator(
            loop,
            self.log,
            group_surroundings(topics),
            offset_metadata_max_bytes=16,
            share=ShareSurroundings(
                topics, lambda _group: self.limits, lambda: self.is_enabled, lambda: self.now_ms, states
            ),
        )
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)

    async def beat(self, member: str, epoch: int = 0, topics: Sequence[str] | None = None) -> ShareAnswer:
        if topics is None and epoch == 0:
            topics = ["t"]
        return await self.groups.share_heartbeat(
            ShareHeartbeat(GROUP, member, epoch, None, topics, "client", "/127.0.0.1")
        )

    async def refused(self, member: str, epoch: int = 0) -> ErrorCode:
        with pytest.raises(RequestError) as refusal:
            await self.beat(member, epoch)
        return ErrorCode(refusal.value.code)


def given(answer: ShareAnswer) -> list[int]:
    return sorted(index for partitions in (answer.assignment or {}).values() for index in partitions)


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_states_are_asked_for_after_the_group_could_not_be_written(error: ErrorCode) -> None:
    """What was to be asked for was noted as asked for, and nobody asked."""

    async def scenario() -> None:
        case = ShareCase()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        one = await case.beat("one")
        case.topics.put("t", 3)
        case.log.error = error
        assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert case.states.asked == [[0, 1]]
        assert given(await case.beat("one", one.member_epoch)) == [0, 1, 2]

    in_virtual_time(scenario)


@pytest.mark.parametrize("refused", [{0, 1}, {1}], ids=["all", "one of two"])
def test_states_that_are_refused_are_asked_for_with_the_next_heartbeat(refused: set[int]) -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        case.states.refused = frozenset(refused)
        one = await case.beat("one")
        assert given(one) == sorted({0, 1} - refused)
        await case.beat("one", one.member_epoch)
        assert len(case.states.asked) == 1, "not with each of many heartbeats"
        case.states.refused = frozenset()
        await asyncio.sleep(RETRY_MS / 1000 + 0.01)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]
        assert case.states.asked[1:] == [sorted(refused)]

    in_virtual_time(scenario)


def test_states_whose_making_could_not_be_noted_are_asked_for_again() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()

        async def fail_next(*asked: Any) -> Any:
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            return await _States.initialize(case.states, *asked)

        case.states.initialize = fail_next  # type: ignore[method-assign]
        one = await case.beat("one")
        assert given(one) == []
        del case.states.initialize  # type: ignore[method-assign]
        await asyncio.sleep(RETRY_MS / 1000 + 0.01)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]

    in_virtual_time(scenario)


def test_a_heartbeat_of_a_share_group_at_rest_looks_at_no_other_member() -> None:
    """Else the heartbeats of a group cost the square of its members."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        one = await case.beat("one", 2)
        for _ in range(2):
            one, two = await case.beat("one", one.member_epoch), await case.beat("two", two.member_epoch)
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        group.members, group.sessions, group.target = whole = (
            OneByOne(group.members),
            OneByOne(group.sessions),
            OneByOne(group.target),
        )
        for _ in range(3):
            await asyncio.sleep(LIMITS.heartbeat_interval_ms / 1000)
            assert (await case.beat("one", one.member_epoch)).member_epoch == one.member_epoch
            assert (await case.beat("two", two.member_epoch)).member_epoch == two.member_epoch
        group.members, group.sessions, group.target = (each.whole() for each in whole)
        case.topics.put("t", 3)
        one = await case.beat("one", one.member_epoch)
        assert case.states.asked[-1] == [2], "topics that change end the rest"
        assert 2 in {*given(one), *given(await case.beat("two", two.member_epoch))}
        await asyncio.sleep(LIMITS.session_timeout_ms / 1000 - 1)
        await case.beat("one", one.member_epoch)
        await asyncio.sleep(2)
        assert list(group.members) == ["one"], "sessions end as before"
        assert given(await case.beat("one", one.member_epoch)) == [0, 1, 2]

    in_virtual_time(scenario)


@pytest.mark.parametrize("left", [1, 3])
def test_a_share_group_that_waits_for_states_is_not_at_rest(left: int) -> None:
    async def scenario() -> None:
        case = ShareCase()
        case.states.refused = frozenset({1})
        await case.start()
        one = await case.beat("one")
        for _ in range(left):
            one = await case.beat("one", one.member_epoch)
        case.states.refused = frozenset()
        await asyncio.sleep(LIMITS.initialize_retry_ms / 1000 + 1)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]

    in_virtual_time(scenario)


def test_requests_of_other_kinds_do_not_wait_for_an_administrator_of_a_share_group() -> None:
    """States are deleted at another broker, which may take its time; that the group is a share group is known."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        answer = await case.beat("one")
        await case.beat("one", -1)
        deleted: asyncio.Future[Mapping[uuid.UUID, ErrorCode]] = asyncio.get_running_loop().create_future()
        topics: Any = answer.assignment
        case.states.delete = lambda _group, _topics, _epoch: deleted  # type: ignore[attr-defined]
        deleting = asyncio.ensure_future(case.groups.delete_group(GROUP))
        await asyncio.sleep(1)
        join = JoinRequest("", None, "old", "/h", 10_000, 10_000, "consumer", [JoinProtocol("range", b"")], False)
        beat = ConsumerHeartbeat(GROUP, "m", 0, None, None, 1_000, ["t"], None, None, {}, "c", "/h")
        async with asyncio.timeout(1):
            assert (await case.groups.join(GROUP, join)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert await case.groups.leave(GROUP, [Leaver("m")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
            with pytest.raises(RequestError) as refused:
                await case.groups.consumer_heartbeat(beat)
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        deleted.set_result(dict.fromkeys(topics, ErrorCode.NONE))
        await deleting
        assert (await case.groups.join(GROUP, join)).error is ErrorCode.NONE

    in_virtual_time(scenario)


def test_an_administrator_who_goes_away_leaves_no_exception_that_nobody_hears_of() -> None:
    """1. a group's deletion deletes its states first; 2. who asked gives up; 3. the deletion cannot be written."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        answer = await case.beat("one")
        await case.beat("one", -1)
        unheard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
        deleted: asyncio.Future[Mapping[uuid.UUID, ErrorCode]] = asyncio.get_running_loop().create_future()
        topics: Any = answer.assignment
        case.states.delete = lambda _group, _topics, _epoch: deleted  # type: ignore[attr-defined]
        deleting = asyncio.ensure_future(case.groups.delete_group(GROUP))
        await asyncio.sleep(1)
        deleting.cancel()
        await asyncio.wait([deleting])
        del deleting  # Its traceback has the task that goes on.
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        deleted.set_result(dict.fromkeys(topics, ErrorCode.NONE))
        await asyncio.sleep(1)
        assert case.log.error is ErrorCode.NONE, "the write was tried, and refused"
        gc.collect()
        assert not unheard

    in_virtual_time(scenario)


def test_a_member_is_not_told_to_read_what_it_has_unsubscribed_from_while_the_next_assignment_waits() -> None:
    """As in Apache Kafka 4.3: what it subscribes to besides, it gets with the next assignment."""

    async def scenario() -> None:
        case = ShareCase(replace(LIMITS, assignment_interval_ms=1_000))
        await case.start()
        t, other = case.topics.topic("t"), case.topics.put("other", 1)
        assert t is not None
        one = await case.beat("one")
        assert one.assignment == {t.topic_id: {0, 1}}
        only_other = await case.beat("one", one.member_epoch, ["other"])
        assert only_other.assignment == {}
        assert (await case.beat("one", only_other.member_epoch)).assignment is None
        both = await case.beat("one", only_other.member_epoch, ["other", "t"])
        assert both.assignment == {t.topic_id: {0, 1}}
        case.now_ms = 1_000
        assert (await case.beat("one", both.member_epoch)).assignment == {t.topic_id: {0, 1}, other: {0}}

    in_virtual_time(scenario)


@pytest.mark.parametrize("takes_s", [0.0, 0.1])
def test_states_are_made_once_for_members_who_join_together(takes_s: float) -> None:
    """They were made twice, and the second making took back where the group begins, which a leader had stored."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        case.states.takes_s = takes_s
        answers = await asyncio.gather(case.beat("one"), case.beat("two"))
        assert case.states.asked == [[0, 1]]
        assert sorted(map(given, answers)) == [[0], [1]], "who joins is answered when the states are there"

    in_virtual_time(scenario)


def test_states_that_take_long_are_not_asked_for_again_meanwhile() -> None:
    async def scenario() -> None:
        case = ShareCase(replace(LIMITS, initialize_retry_ms=1_000))
        await case.start()
        case.states.takes_s = 5.0
        one = await case.beat("one")
        assert given(one) == []
        await case.beat("one", one.member_epoch)
        assert case.states.asked == [[0, 1]]
        await asyncio.sleep(5.0)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]

    in_virtual_time(scenario)


def test_who_did_not_hear_of_its_present_epoch_is_told_its_assignment_again() -> None:
    """It had partitions that it never knew of, and nobody read them. Apache Kafka 4.3 tells it only if it asks."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        lost = await case.beat("one", one.member_epoch)
        assert lost.member_epoch > one.member_epoch
        again = await case.beat("one", one.member_epoch)
        assert again.assignment is not None
        assert again.assignment == lost.assignment
        assert (await case.beat("one", again.member_epoch)).assignment is None, "it has heard"

    in_virtual_time(scenario)


def test_a_new_coordinator_tells_each_member_its_assignment() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        one = await case.beat("one")
        case.groups.unload(0)
        await case.groups.load(0, leader_epoch=1)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]
        assert (await case.beat("one", one.member_epoch)).assignment is None

    in_virtual_time(scenario)


def test_a_member_is_told_of_what_was_written_though_its_answer_was_a_failure() -> None:
    async def scenario() -> None:
        case = ShareCase()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        one = await case.beat("one")
        await case.beat("two")
        case.log.error = ErrorCode.REQUEST_TIMED_OUT
        assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(given(await case.beat("one", one.member_epoch))) == 1

    in_virtual_time(scenario)


def test_who_is_not_the_coordinator_refuses_what_the_coordinator_would() -> None:
    """As Apache Kafka; the client looked for the coordinator first, to be refused there."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        case.groups.unload(0)
        assert await case.refused("one") is ErrorCode.NOT_COORDINATOR
        assert await case.refused("one", -2) is ErrorCode.INVALID_REQUEST
        case.is_enabled = False
        assert await case.refused("one", -2) is ErrorCode.UNSUPPORTED_VERSION

    in_virtual_time(scenario)
