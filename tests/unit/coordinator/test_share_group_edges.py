"""Share groups through their coordinator, where something comes between: states that do not come, members that leave
while they wait, requests that are given up, settings that change; and what is counted and logged of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup
from kavka.coordinator.groups.share.decide.heartbeat import ShareAnswer
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import OffsetsLog
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_share_group_administration import SESSION_S, States, T, active, left, refused
from tests.unit.coordinator.test_share_group_flow import GROUP, LIMITS, ShareCase, given


async def started(log: OffsetsLog | None = None, **limits: int) -> ShareCase:
    case = ShareCase(replace(LIMITS, **limits))
    if log is not None:
        case.log = log
    await case.start()
    return case


def group_of(case: ShareCase) -> ShareGroup:
    group = case.groups.describe_share_group(GROUP)
    assert group is not None
    return group


def said(logs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{key: value for key, value in log.items() if key not in ("log_level", "logger")} for log in logs]


# -- states


def test_states_that_take_long_are_waited_for_three_seconds() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.takes_s = 10.0
        began = asyncio.get_running_loop().time()
        await case.beat("one")
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0, abs=0.1)

    in_virtual_time(scenario)


async def failing_states(case: ShareCase, *, is_noted: bool) -> list[int]:
    """States take a second, and then are refused, or cannot be noted. Returns when, in ms of the coordinator."""
    failed_ms: list[int] = []
    make = case.states.initialize

    async def initialize(*asked: Any) -> Any:
        await asyncio.sleep(1)
        failed_ms.append(case.groups.now_ms())
        if is_noted:
            return {}
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        return await make(*asked)

    states: Any = case.states
    states.initialize = initialize
    return failed_ms


@pytest.mark.parametrize("is_noted", [True, False], ids=["refused", "not noted"])
def test_who_waited_for_states_in_vain_is_answered_as_it_was_decided(*, is_noted: bool) -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=None))
        failed_ms = await failing_states(case, is_noted=is_noted)
        one = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.5)
        two = asyncio.ensure_future(case.beat("two"))
        with capture_logs() as logs:
            assert await one == ("one", 1, 5_000, {})
            assert await two == ("two", 2, 5_000, {})
        warned = [log for log in said(logs) if log["event"].startswith("states of a share group")]
        if is_noted:
            assert warned == [{"event": "states of a share group are not there yet", "group": GROUP}]
        else:
            why = "COORDINATOR_NOT_AVAILABLE"
            assert warned == [{"event": "states of a share group not noted yet", "group": GROUP, "why": why}]
        assert group_of(case).asks_again_ms == failed_ms[0] + 1_000

    in_virtual_time(scenario)


def test_who_leaves_while_it_waits_for_states_is_answered_as_it_was_decided() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.takes_s = 1.0
        joining = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.5)
        await case.beat("one", -1)
        assert await joining == ("one", 1, 5_000, {})
        assert group_of(case).state == "Empty"

    in_virtual_time(scenario)


def test_where_the_partition_goes_while_a_member_waits_it_is_answered_as_it_was_decided() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.takes_s = 1.0
        joining = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.5)
        case.groups.unload(0)
        assert await joining == ("one", 1, 5_000, {})

    in_virtual_time(scenario)


def test_a_heartbeat_that_is_refused_has_no_states_asked_for_before_their_time() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.refused = frozenset({0, 1})
        one = await case.beat("one")
        assert await case.refused("one", one.member_epoch + 7) is ErrorCode.FENCED_MEMBER_EPOCH
        await case.beat("one", one.member_epoch)
        assert len(case.states.asked) == 1

    in_virtual_time(scenario)


def test_states_of_a_heartbeat_that_was_given_up_are_asked_for_with_the_next_one() -> None:
    """Its records were committed, and nobody asked for what they say is asked for."""

    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=0.5))
        joining = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.1)
        joining.cancel()
        await asyncio.sleep(1)
        assert (list(group_of(case).members), case.states.asked) == (["one"], [])
        assert given(await case.beat("one", 1)) == [0, 1]

    in_virtual_time(scenario)


def test_what_is_made_beside_something_else_is_waited_for_after_that_is_there() -> None:
    async def scenario() -> None:
        case = await started()
        unheard: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
        case.states.takes_s = 1.0
        one = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.1)
        case.topics.put("t", 3)
        case.states.takes_s = 2.0
        again = asyncio.ensure_future(case.beat("one", 1))
        await one
        assert case.states.asked == [[0, 1], [2]]
        began = asyncio.get_running_loop().time()
        await case.beat("two")
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.1, abs=0.05)
        await again
        assert not unheard
        assert not case.groups.shares._making, "what is made is let go"

    in_virtual_time(scenario)


# -- the group's epoch, and what is told


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_change_of_topics_that_could_not_be_written_is_seen_again(version: int) -> None:
    """Whatever version of the metadata it came with."""

    async def scenario() -> None:
        case = await started()
        one = await case.beat("one")
        one = await case.beat("one", one.member_epoch)
        case.groups.unload(0)
        case.topics.put("t", 1)
        case.topics.version = version
        await case.groups.load(0, leader_epoch=1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await case.refused("one", one.member_epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        after = await case.beat("one", one.member_epoch)
        assert (after.member_epoch, given(after)) == (one.member_epoch + 1, [0])

    in_virtual_time(scenario)


def test_a_group_that_waits_for_states_is_not_at_rest_in_the_first_metadata_of_a_broker() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.refused = frozenset({0, 1})
        case.topics.version = 0
        one = await case.beat("one")
        await case.beat("one", one.member_epoch)
        case.states.refused = frozenset()
        await asyncio.sleep(1.1)
        assert given(await case.beat("one", one.member_epoch)) == [0, 1]

    in_virtual_time(scenario)


def test_a_member_hears_in_the_same_epoch_what_its_failed_answer_would_have_told() -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=0.001, keeps_failed=True), assignment_interval_ms=1_000)
        case.topics.put("other", 1)
        one = await case.beat("one")
        without = await case.beat("one", one.member_epoch, ["other"])
        assert without.assignment == {}
        case.log.error = ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(RequestError):
            await case.beat("one", without.member_epoch, ["other", "t"])
        again = await case.beat("one", without.member_epoch)
        assert again.member_epoch == without.member_epoch
        assert (again.assignment or {}) == {T: frozenset({0, 1})}
        assert (await case.beat("one", without.member_epoch)).assignment is None

    in_virtual_time(scenario)


def test_nobody_is_told_what_is_not_committed() -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=0.001, keeps_failed=True))
        one = await case.beat("one")
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 1
        with pytest.raises(RequestError):
            await case.beat("one", one.member_epoch, ["t", "u"])
        group = group_of(case)
        epoch = group.members["one"].epoch
        assert await case.refused("one", epoch) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.uncommitted = 0
        assert (await case.beat("one", epoch)).member_epoch == epoch

    in_virtual_time(scenario)


def test_rebalances_are_counted_once_for_each_epoch() -> None:
    async def scenario() -> None:
        case = await started()
        one = await case.beat("one")
        assert (one.member_epoch, case.groups.rebalances["share"]) == (2, 2), "it joined, and its states came"
        await case.beat("one", one.member_epoch, ["t"])
        case.states.refused = frozenset({2})
        await case.beat("one", one.member_epoch)
        assert case.groups.rebalances["share"] == 2
        await case.beat("one", -1)
        assert (group_of(case).epoch, case.groups.rebalances["share"]) == (3, 3)

    in_virtual_time(scenario)


def test_a_group_whose_making_is_cut_off_has_not_rebalanced() -> None:
    """What its first member reads fills a batch; the next one, with the group's epoch, is refused."""

    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=1.0))
        joining = asyncio.ensure_future(case.beat("one", 0, [f"{number:0240}" for number in range(2_300)]))
        await asyncio.sleep(0.5)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await refused(joining) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (group_of(case).epoch, case.groups.rebalances["share"]) == (0, 0)

    in_virtual_time(scenario)


def test_rebalances_are_not_counted_for_records_that_leave_the_epoch() -> None:
    async def scenario() -> None:
        case = await started()
        case.states.takes_s = 5.0
        await case.beat("one")
        assert case.groups.rebalances["share"] == 1
        await asyncio.sleep(5)
        assert group_of(case).states.initialized, "they were noted"
        assert case.groups.rebalances["share"] == 1

    in_virtual_time(scenario)


def test_a_first_member_that_could_not_be_written_leaves_no_group() -> None:
    async def scenario() -> None:
        case = await started()
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await case.refused("one") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert case.groups.list_groups() == []
        assert given(await case.beat("one")) == [0, 1]

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", ["consumer_groups", "groups", "streams_groups"])
@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_a_group_of_another_kind_is_none(kind: str, epoch: int) -> None:
    async def scenario() -> None:
        case = await started()
        getattr(active(case).shard, kind)[GROUP] = object()
        with pytest.raises(RequestError) as refusal:
            await case.beat("one", epoch)
        assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert refusal.value.message == f"Group {GROUP} is not a share group."

    in_virtual_time(scenario)


# -- sessions


def test_a_shorter_session_holds_from_the_next_heartbeat_on() -> None:
    async def scenario() -> None:
        case = await started()
        one = await case.beat("one")
        case.limits = replace(case.limits, session_timeout_ms=10_000)
        await case.beat("one", one.member_epoch)
        await asyncio.sleep(9.9)
        assert list(group_of(case).members) == ["one"]
        await asyncio.sleep(0.2)
        assert list(group_of(case).members) == []

    in_virtual_time(scenario)


def test_who_gave_up_while_it_joined_is_removed_after_a_session() -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=0.5))
        joining = asyncio.ensure_future(case.beat("one"))
        await asyncio.sleep(0.1)
        joining.cancel()
        await asyncio.sleep(SESSION_S)
        assert list(group_of(case).members) == ["one"]
        with capture_logs() as logs:
            await asyncio.sleep(1.5)
        assert list(group_of(case).members) == []
        why = "no heartbeat in time"
        assert said(logs) == [{"event": "share group member removed", "group": GROUP, "member": "one", "why": why}]

    in_virtual_time(scenario)


def test_a_session_begins_anew_when_a_heartbeat_comes_and_again_with_its_answer() -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=5.0))
        one = await case.beat("one")
        one = await case.beat("one", one.member_epoch)
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("one", one.member_epoch, ["t", "u"])  # It takes until after the session's end.
        assert list(group_of(case).members) == ["one"]
        await asyncio.sleep(SESSION_S - 0.1)
        assert case.log.records[-1].value is not None, "nobody is being removed"
        await asyncio.sleep(0.2 + 5.0)
        assert list(group_of(case).members) == []

    in_virtual_time(scenario)


def test_who_leaves_at_the_end_of_its_session_is_not_removed_once_more() -> None:
    """Its removal waits for its leaving, and then there is nothing to do: no epoch for nothing."""

    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=0.5))
        one = await case.beat("one")
        await case.beat("one", one.member_epoch)
        epoch = group_of(case).epoch
        await asyncio.sleep(SESSION_S - 0.2)
        await case.beat("one", -1)  # It takes until after the session's end.
        await asyncio.sleep(2)
        assert (list(group_of(case).members), group_of(case).epoch) == ([], epoch + 1)

    in_virtual_time(scenario)


def test_a_removal_that_cannot_be_written_is_logged_and_tried_after_a_second() -> None:
    async def scenario() -> None:
        case = await started(OffsetsLog(delay_s=None))
        await case.beat("one")
        until_ms = group_of(case).sessions["one"]
        await asyncio.sleep(SESSION_S - 1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await asyncio.sleep(1.5)
        assert [log["event"] for log in logs] == ["share group member removed", "share group members not removed yet"]
        assert said(logs)[1] == {
            "event": "share group members not removed yet",
            "group": GROUP,
            "why": "COORDINATOR_NOT_AVAILABLE",
        }
        assert group_of(case).sessions["one"] == pytest.approx(until_ms + 1_000, abs=2)

    in_virtual_time(scenario)


def test_who_leaves_is_logged() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one")
        with capture_logs() as logs:
            await case.beat("one", -1)
        assert said(logs) == [{"event": "share group member left", "group": GROUP, "member": "one"}]

    in_virtual_time(scenario)


# -- administration


def test_of_a_group_that_is_not_there_no_state_is_asked_for() -> None:
    async def scenario() -> None:
        case = await started()
        states = States(case)
        assert await refused(case.groups.shares.delete(active(case), GROUP)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert states.asked == []

    in_virtual_time(scenario)


def test_a_group_without_a_state_is_deleted_without_a_record_before() -> None:
    async def scenario() -> None:
        case = await started()
        await case.beat("one", 0, ["nowhere"])
        await case.beat("one", -1)
        States(case)
        before = len(case.log.records)
        await case.groups.delete_group(GROUP)
        assert case.groups.list_groups() == []
        assert [record.value for record in case.log.records[before:]] == [None] * 3

    in_virtual_time(scenario)


def test_after_an_administrator_who_had_to_wait_the_group_goes_on() -> None:
    async def scenario() -> None:
        case = await started()
        states = States(case)
        case.states.takes_s = 5.0
        await case.beat("one")
        await case.beat("one", -1)
        deleting = case.groups.shares.delete_offsets(active(case), GROUP, ["t"])
        async with asyncio.timeout(10):
            await deleting
            assert states.asked == [("delete", GROUP, {T: [0, 1]}, 0)]
            case.states.takes_s = 0.0
            assert given(await case.beat("one")) == [0, 1]

    in_virtual_time(scenario)


def test_deleted_topics_that_are_not_forgotten_yet_are_logged() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await left(case)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await case.groups.shares.on_topics_deleted([active(case)], [T])
        event = "deleted topics of a share group not forgotten yet"
        assert said(logs) == [{"event": event, "group": GROUP, "why": "COORDINATOR_NOT_AVAILABLE"}]
        assert group_of(case).states.initialized == {T: NamedPartitions("t", frozenset({0, 1}))}

    in_virtual_time(scenario)


def test_an_answer_has_no_assignment_unless_it_says_so() -> None:
    assert ShareAnswer("one", 1, 5_000) == ("one", 1, 5_000, None)
