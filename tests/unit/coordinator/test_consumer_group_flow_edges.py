"""The flow around consumer groups: what is refused in which words, when expressions are matched again, whose session
goes on, and what is told of each change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.coordinator.groups.classic.decide.membership import JoinAnswer, JoinProtocol, Leaver
from kavka.coordinator.groups.consumer import flow
from kavka.coordinator.groups.consumer.flow import NAMES_AT_ONCE, RETRY_MS
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.coordinator.shared.decide.topic_pattern import InvalidPattern, TopicPattern
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import GROUP, REBALANCE_MS, SESSION_S, Case, subscription, told
from tests.kit.group_surroundings import OffsetsLog, group_surroundings
from tests.kit.told_lines import Line, told_lines
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator_edges import All, joining, syncing

LOGGER = "kavka.coordinator.groups.consumer"
CLASSIC_S = 10


class ByHand(Case):
    """Its wall clock is set by hand; `is_enabled` may be too."""

    wall_ms = 1_000_000_000
    is_enabled = True

    async def start(self) -> GroupCoordinator:
        around = group_surroundings(self.topics, wall_ms=lambda: self.wall_ms, **self._limits)
        around = around._replace(on_rebalance=self.rebalances.append, is_enabled=lambda: self.is_enabled)
        self.groups = GroupCoordinator(asyncio.get_running_loop(), self.log, around, offset_metadata_max_bytes=16)
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)
        return self.groups


async def refusal(asking: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(RequestError) as refused:
        await asking
    return refused.value.code, str(refused.value)


def members(case: Case) -> list[str]:
    group = case.groups.describe_consumer_group(GROUP)
    assert group is not None
    return list(group.members)


# -- who is refused


def test_where_the_newer_protocol_is_not_enabled_there_is_none() -> None:
    async def scenario() -> None:
        case = ByHand()
        await case.start()
        case.is_enabled = False
        assert await case.refused("one") is ErrorCode.UNSUPPORTED_VERSION
        assert await case.refused("one", -3) is ErrorCode.UNSUPPORTED_VERSION, "whatever it asks"
        case.is_enabled = True
        assert await case.refused("one", -3) is ErrorCode.INVALID_REQUEST
        assert await case.refused("one", assignor="unknown") is ErrorCode.UNSUPPORTED_ASSIGNOR
        await case.beat("one")

    in_virtual_time(scenario)


def test_a_group_of_another_kind_or_none_is_named_as_kafka_names_it() -> None:
    """GroupMetadataManager.getOrMaybeCreateConsumerGroup for who stays, and consumerGroup for who leaves."""

    async def scenario() -> None:
        case = All()
        await case.start()
        await case.one_of_each()

        async def said(group_id: str, epoch: int) -> str:
            code, text = await refusal(case.consumer(group_id, epoch=epoch))
            assert code is ErrorCode.GROUP_ID_NOT_FOUND
            return text

        assert await said("none", 5) == "Consumer group none not found."
        assert await said("none", -1) == "Group none not found."
        for group_id in "ab":
            assert await said(group_id, 0) == f"Group {group_id} is not a consumer group."
        for epoch in (-1, 5):
            assert await said("d", epoch) == "Group d is not a consumer group."

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_who_waits_for_its_turn_finds_what_the_group_has_become_meanwhile(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        case.log.commits_after_s = 0.1
        first = asyncio.ensure_future({"share": case.share, "streams": case.streams}[kind]("g"))
        await asyncio.sleep(0.05)
        code, _ = await refusal(case.consumer("g"))
        await first
        assert code is ErrorCode.GROUP_ID_NOT_FOUND
        assert [group.kind for group in groups.list_groups()] == [kind]

    in_virtual_time(scenario)


def test_an_expression_that_is_none_is_refused_with_what_is_wrong() -> None:
    async def scenario() -> None:
        case = ByHand()
        await case.start()
        code, text = await refusal(case.beat("one", topics=None, topic_regex="[t"))
        assert code is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert text.startswith("SubscribedTopicRegex `[t` is not a valid regular expression: ")
        assert case.state == "none"

    in_virtual_time(scenario)


# -- when expressions are matched


@pytest.mark.parametrize(
    ("age_ms", "adds", "is_written"),
    [
        (0, None, False),
        (-1, None, True),
        (600_000, None, False),
        (600_001, None, True),
        (0, "t2", False),
        (10_000, "t2", False),
        (10_001, "t2", True),
        (-1, "t2", True),
        (10_001, "other", False),
    ],
)
def test_an_expression_is_matched_again_when_it_is_old_or_topics_have_changed(
    age_ms: int, adds: str | None, is_written: bool
) -> None:
    """Old after group.consumer.regex.refresh.interval.ms, or where the clock went back; for topics when more than ten
    seconds have passed since the last match (Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""

    async def scenario() -> None:
        case = ByHand(regex_refresh_interval_ms=600_000)
        groups = await case.start()
        began_ms = case.wall_ms
        one = await case.beat("one", topics=None, topic_regex="t.*")
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        written = len(case.log.records)
        case.wall_ms += age_ms
        if adds is not None:
            case.topics.put(adds, 1)
        await case.beat("one", one.member_epoch)
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        resolved = group.regexes["t.*"]
        names = {"t", "t2"} if is_written and adds == "t2" else {"t"}
        assert (resolved.topics, resolved.timestamp_ms) == (names, case.wall_ms if is_written else began_ms)
        assert (len(case.log.records) > written) is is_written

    in_virtual_time(scenario)


def test_each_expression_of_a_group_is_matched_by_itself() -> None:
    async def scenario() -> None:
        case = ByHand()
        groups = await case.start()
        for name in ("o1", "p1"):
            case.topics.put(name, 1)
        await case.beat("one", topics=None, topic_regex="t.*")
        case.wall_ms += 1
        await case.beat("two", topics=None, topic_regex="o.*")
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        found = {regex: (each.topics, each.timestamp_ms - 1_000_000_000) for regex, each in group.regexes.items()}
        assert found == {"t.*": ({"t"}, 0), "o.*": ({"o1"}, 1)}

    in_virtual_time(scenario)


def test_what_another_broker_matched_an_expression_to_that_is_none_here_goes_on_to_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried once for each change of the topics."""
    tried: list[str] = []
    unknown: set[str] = set()

    class Known(TopicPattern):
        def __init__(self, text: str) -> None:
            tried.append(text)
            if text in unknown:
                raise InvalidPattern("unknown here")
            super().__init__(text)

    monkeypatch.setattr(flow, "TopicPattern", Known)

    async def scenario() -> None:
        case = ByHand()
        case.topics.put("u", 1)
        await case.start()
        await case.beat("one", topics=None, topic_regex="u.*")
        unknown.add("u.*")
        groups = await case.start()
        two = await case.beat("two", topics=None, topic_regex="t.*")
        for name in ("t2", "u2"):
            case.topics.put(name, 1)
        case.wall_ms += 20_000
        tried.clear()
        for _ in range(3):
            two = await case.beat("two", two.member_epoch)
        assert tried == ["u.*", "t.*"]
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        assert {regex: each.topics for regex, each in group.regexes.items()} == {"u.*": {"u"}, "t.*": {"t", "t2"}}

    in_virtual_time(scenario)


def test_others_have_their_turn_after_every_hundred_names() -> None:
    assert NAMES_AT_ONCE == 100
    taken: list[str] = []

    def names() -> Iterator[str]:
        for number in range(250):
            taken.append("t" if number % 2 else "u")
            yield f"{taken[-1]}{number}"

    matching: Any = flow._matching(TopicPattern("t.*"), names())
    matching.send(None)
    assert len(taken) == 100
    matching.send(None)
    assert len(taken) == 200
    with pytest.raises(StopIteration) as ended:
        matching.send(None)
    assert ended.value.value == [f"t{number}" for number in range(1, 250, 2)]


# -- sessions


@pytest.mark.parametrize("epoch", [-1, 99])
def test_who_could_not_leave_or_is_fenced_has_no_new_session(epoch: int) -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        await case.beat("one")
        await asyncio.sleep(SESSION_S - 1)
        if epoch == -1:
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await case.refused("one", epoch)
        assert members(case) == ["one"]
        await asyncio.sleep(1.1)
        assert members(case) == []

    in_virtual_time(scenario)


def test_a_removal_that_could_not_be_written_is_tried_again_after_a_second() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        with told_lines(LOGGER) as lines:
            await case.beat("one")
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            await asyncio.sleep(SESSION_S + RETRY_MS / 1000 - 0.1)
            assert members(case) == ["one"]
            failed = len(lines)
            await asyncio.sleep(0.2)
            assert members(case) == []
        assert RETRY_MS == 1_000
        why = "no heartbeat in time"
        removed = Line("info", "consumer group member removed", {"group": GROUP, "member": "one", "why": why})
        refused = {"group": GROUP, "why": "COORDINATOR_NOT_AVAILABLE"}
        assert lines[failed - 2 :] == [
            removed,
            Line("warning", "consumer group members not removed yet", refused),
            removed,
        ]
        assert [each.why for each in case.rebalances[1:]] == [f"member one is removed: {why}"]

    in_virtual_time(scenario)


def test_who_is_late_together_goes_together() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        await case.beat("one")
        await case.beat("two")
        three = await case.beat("three")
        await asyncio.sleep(SESSION_S - 1)
        await case.beat("three", three.member_epoch)
        before = len(case.rebalances)
        await asyncio.sleep(2)
        assert members(case) == ["three"]
        assert sum(each.members_before - each.members for each in case.rebalances[before:]) == 2

    in_virtual_time(scenario)


# -- what is told


def test_rebalances_are_told_of_with_the_epochs_and_sizes_before_and_after() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one", topics=[])
        assert case.rebalances == [
            Rebalance(GROUP, "consumer", "member one joins from /127.0.0.1", 0, 1, 0, 1, None)
        ], "the first epoch, where nothing is read"
        one = await case.beat("one", one.member_epoch, topics=["t"])
        assert case.rebalances[1:] == [
            Rebalance(GROUP, "consumer", "member one subscribes to something else", 1, 2, 1, 1, None)
        ]
        one = await case.beat("one", one.member_epoch, owned=dict(one.assignment or {}))
        await case.beat("one", one.member_epoch, instance_id=None, rebalance_timeout_ms=30_000)
        assert len(case.rebalances) == 2, "a record that raises no epoch is no rebalance"

    in_virtual_time(scenario)


def test_a_static_member_that_goes_for_a_while_and_one_that_leaves_are_told_of() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        with told_lines(LOGGER) as lines:
            await case.beat("one", instance_id="i")
            await case.beat("two")
            assert lines == []
            answer = await case.beat("one", -2, instance_id="i")
            assert (answer.member_id, answer.member_epoch) == ("one", -2)
            assert members(case) == ["one", "two"]
            await case.beat("two", -1)
            assert members(case) == ["one"]
        left = "consumer group member left"
        assert lines == [("info", left, {"group": GROUP, "member": member}) for member in ("one", "two")]
        assert [each.why for each in case.rebalances[2:]] == ["member two leaves"]

    in_virtual_time(scenario)


def test_members_that_an_administrator_takes_out_are_told_of_with_the_reason() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        await case.beat("one")
        await case.beat("two")
        await case.beat("three")
        with told_lines(LOGGER) as lines:
            await case.groups.leave(GROUP, [Leaver("one"), Leaver("two", None, "too slow")])
            assert await case.groups.leave(GROUP, [Leaver("one")]) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert lines == [
            ("info", "group member left", {"group": GROUP, "member": "one", "why": "it did not say"}),
            ("info", "group member left", {"group": GROUP, "member": "two", "why": "too slow"}),
        ]
        assert case.rebalances[-1].why == "member one leaves; member two leaves: too slow"

    in_virtual_time(scenario)


# -- between the protocols


async def classic_pair(case: Case) -> tuple[JoinAnswer, asyncio.Task[JoinAnswer]]:
    """A classic group of one, and a second member whose join waits."""
    first = await case.classic_member()
    second = asyncio.ensure_future(case.join())
    await asyncio.sleep(1)
    assert not second.done()
    return first, second


def test_a_join_that_is_held_is_refused_when_its_group_is_upgraded() -> None:
    """To join again, which it does as a member of the other group."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        _, held = await classic_pair(case)
        with told_lines(LOGGER) as lines:
            await case.beat("new")
        assert held.done()
        assert (await held).error is ErrorCode.REBALANCE_IN_PROGRESS
        group = groups.describe_consumer_group(GROUP)
        assert group is not None
        upgraded = [line for line in lines if line.event == "group upgraded"]
        assert upgraded == [("info", "group upgraded", {"group": GROUP, "members": 2, "epoch": 1})]

    in_virtual_time(scenario)


def test_a_classic_group_that_stays_has_its_members_join_in_time_or_puts_them_out() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await case.refused("new") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        group = groups.describe_group(GROUP)
        assert group is not None
        await asyncio.sleep(CLASSIC_S - 0.1)
        assert list(group.members) == [old.member_id]
        await asyncio.sleep(REBALANCE_MS / 1000)
        assert list(group.members) == []

    in_virtual_time(scenario)


def test_a_group_that_becomes_classic_is_told_of_and_puts_out_who_does_not_join_again() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("new")
        await case.join()
        with told_lines(LOGGER) as lines:
            await case.beat("new", -1)
        assert ("info", "group downgraded", {"group": GROUP, "members": 1}) in lines
        group = groups.describe_group(GROUP)
        assert group is not None
        assert group.state.value == "PreparingRebalance"
        await asyncio.sleep(CLASSIC_S - 0.1)
        assert len(group.members) == 1
        await asyncio.sleep(REBALANCE_MS / 1000)
        assert len(group.members) == 0

    in_virtual_time(scenario)


def test_a_group_whose_coordinator_moves_while_it_becomes_classic_becomes_so_elsewhere() -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        await case.beat("new")
        await case.join()
        active = groups.shard_at(0)
        assert active is not None
        case.log.delay_s = 1
        with told_lines(LOGGER) as lines:
            leaving = asyncio.ensure_future(case.beat("new", -1))
            await asyncio.sleep(0.5)
            groups.unload(0)
            await asyncio.wait([leaving])
            await asyncio.sleep(100)
        assert [line.event for line in lines] == ["consumer group member left"]
        assert (await case.start()).describe_group(GROUP) is not None

    in_virtual_time(scenario)


def test_a_classic_member_of_a_consumer_group_syncs_within_its_rebalance_time_out() -> None:
    """As in Kafka's scheduleConsumerGroupSyncTimeout."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.consumer("g", "one")
        request = joining(
            protocols=[JoinProtocol("range", subscription("t"))], session_timeout_ms=40_000, rebalance_timeout_ms=2_000
        )
        for syncs in (True, False):
            joined = await groups.join("g", request)
            if syncs:
                await groups.sync("g", syncing(joined.member_id, joined.generation))
            await asyncio.sleep(2.1)
            group = groups.describe_consumer_group("g")
            assert group is not None
            assert (joined.member_id in group.members) is syncs

    in_virtual_time(scenario)


def test_a_join_that_is_not_written_or_not_committed_is_refused() -> None:
    async def scenario() -> None:
        case = Case()
        case.log = OffsetsLog(delay_s=0.001, keeps_failed=True)
        await case.start()
        await case.beat("one")
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await refusal(case.join()))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert members(case) == ["one"]
        case.log.error, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, 100
        assert await case.refused("two") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await refusal(case.join()))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await case.refused("one", 99) is ErrorCode.FENCED_MEMBER_EPOCH

    in_virtual_time(scenario)


def test_who_joins_and_leaves_in_one_moment_leaves_the_group_as_it_was() -> None:
    async def scenario() -> None:
        case = Case()
        await case.start()
        one = await case.beat("one")
        two, _ = await asyncio.gather(case.beat("two"), case.beat("two", -1))
        assert two.member_epoch > one.member_epoch
        assert members(case) == ["one"]
        again = await case.beat("one", one.member_epoch, owned={}, topics=["t"], rebalance_timeout_ms=1)
        assert told(again) == [0, 1, 2, 3]

    in_virtual_time(scenario)
