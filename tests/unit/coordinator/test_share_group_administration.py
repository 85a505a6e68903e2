"""Share groups through their coordinator: positions that are set and forgotten, deletion, sessions, topics that go."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from kavka.coordinator.groups.share.decide.group import NamedPartitions, StatePartitions
from kavka.coordinator.groups.share.decide.offsets import AlteredPartition, DeletedTopic
from kavka.coordinator.groups.share.flow import RETRY_MS, STATES_S
from kavka.errors import ErrorCode, RequestError
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_share_group_flow import GROUP, LIMITS, ShareCase, given

SESSION_S = LIMITS.session_timeout_ms / 1000
T, U = uuid.UUID(int=1), uuid.UUID(int=2)


class States:
    """Sets and deletes states as it is told to. `asked` is what it was asked, in order."""

    def __init__(self, case: ShareCase) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.errors: dict[object, ErrorCode] = {}
        states: Any = case.states
        states.set, states.delete = self._set, self._delete

    async def _set(
        self, group_id: str, epoch: int, offsets: Mapping[uuid.UUID, Mapping[int, int]], coordinator_epoch: int
    ) -> Mapping[tuple[uuid.UUID, int], ErrorCode]:
        self.asked.append(("set", group_id, epoch, dict(offsets), coordinator_epoch))
        await asyncio.sleep(0.1)
        return {
            (topic_id, index): self.errors.get((topic_id, index), ErrorCode.NONE)
            for topic_id, partitions in offsets.items()
            for index in partitions
        }

    async def _delete(
        self, group_id: str, topics: Mapping[uuid.UUID, Sequence[int]], coordinator_epoch: int
    ) -> Mapping[uuid.UUID, ErrorCode]:
        self.asked.append(("delete", group_id, dict(topics), coordinator_epoch))
        await asyncio.sleep(0.1)
        return {topic_id: self.errors.get(topic_id, ErrorCode.NONE) for topic_id in topics}


async def refused(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as refusal:
        await work
    return refusal.value.code


async def left(case: ShareCase) -> States:
    """A group that had a member, with states of t."""
    await case.start()
    await case.beat("one")
    await case.beat("one", -1)
    return States(case)


def states_of(case: ShareCase) -> StatePartitions:
    group = case.groups.describe_share_group(GROUP)
    assert group is not None
    return group.states


def named(name: str, *indexes: int) -> NamedPartitions:
    return NamedPartitions(name, frozenset(indexes))


def active(case: ShareCase) -> Any:
    return case.groups.shard_of(GROUP)


# -- positions


def test_positions_are_set_in_a_new_epoch_and_states_that_could_not_be_set_are_not_there() -> None:
    async def scenario() -> None:
        case = ShareCase()
        states = await left(case)
        case.topics.put("u", 1)
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        epoch = group.epoch
        states.errors[U, 0] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        altered = await case.groups.shares.alter_offsets(
            active(case), GROUP, {"t": {0: 7, 5: 1}, "u": {0: 3}, "gone": {0: 1}}
        )
        assert states.asked == [("set", GROUP, epoch + 1, {T: {0: 7}, U: {0: 3}}, 0)]
        assert altered == [
            AlteredPartition("t", T, 0, ErrorCode.NONE),
            AlteredPartition("u", U, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            AlteredPartition("t", T, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            AlteredPartition("gone", None, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert group.epoch == epoch + 1
        assert states_of(case) == StatePartitions({U: named("u", 0)}, {T: named("t", 0, 1)}, {})

    in_virtual_time(scenario)


def test_positions_of_a_group_that_is_not_there_make_it_and_of_no_partition_do_not() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        states = States(case)
        nothing = await case.groups.shares.alter_offsets(active(case), GROUP, {"gone": {0: 1}})
        assert [each.error for each in nothing] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (states.asked, case.groups.list_groups()) == ([], [])
        await case.groups.shares.alter_offsets(active(case), GROUP, {"t": {0: 7}})
        assert [(group.kind, group.state) for group in case.groups.list_groups()] == [("share", "Empty")]
        states.errors[T, 0] = ErrorCode.NOT_COORDINATOR
        before = len(case.log.records)
        await case.groups.shares.alter_offsets(active(case), GROUP, {"t": {0: 8}})
        assert len(case.log.records) == before + 2, "nothing is noted as done"

    in_virtual_time(scenario)


def test_positions_in_a_topic_are_forgotten_where_their_states_are_gone() -> None:
    async def scenario() -> None:
        case = ShareCase()
        states = await left(case)
        case.topics.put("u", 1)
        await case.groups.shares.alter_offsets(active(case), GROUP, {"u": {0: 3}})
        states.errors[U] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        states.asked.clear()
        found = await case.groups.shares.delete_offsets(active(case), GROUP, ["t", "u", "gone"])
        assert states.asked == [("delete", GROUP, {T: [0, 1], U: [0]}, 0)]
        assert found == [
            DeletedTopic("t", T),
            DeletedTopic("u", U, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            DeletedTopic("gone", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert states_of(case) == StatePartitions({}, {}, {U: "u"})
        before = len(case.log.records)
        again = await case.groups.shares.delete_offsets(active(case), GROUP, ["t"])
        assert [each.error for each in again] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await case.groups.shares.delete_offsets(active(case), GROUP, ["u"])
        assert len(case.log.records) == before + 1, "it is being deleted, and nothing more is known of it"
        states.errors.clear()
        await case.groups.shares.delete_offsets(active(case), GROUP, ["u"])
        assert states_of(case) == StatePartitions()

    in_virtual_time(scenario)


def test_a_group_is_deleted_once_all_of_its_states_are() -> None:
    async def scenario() -> None:
        case = ShareCase()
        states = await left(case)
        states.errors[T] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await refused(case.groups.delete_group(GROUP)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert states_of(case) == StatePartitions({}, {}, {T: "t"})
        states.errors.clear()
        await case.groups.delete_group(GROUP)
        assert states.asked == [("delete", GROUP, {T: [0, 1]}, 0)] * 2
        assert case.groups.list_groups() == []
        await case.start()
        assert case.groups.list_groups() == []

    in_virtual_time(scenario)


def test_who_administers_is_refused_as_kafka_refuses() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        States(case)
        shares = case.groups.shares
        for work in (
            shares.delete(active(case), GROUP),
            shares.delete_offsets(active(case), GROUP, ["t"]),
        ):
            assert await refused(work) is ErrorCode.GROUP_ID_NOT_FOUND
        await case.beat("one")
        for work in (
            shares.delete(active(case), GROUP),
            shares.delete_offsets(active(case), GROUP, ["t"]),
            shares.alter_offsets(active(case), GROUP, {"t": {0: 1}}),
        ):
            assert await refused(work) is ErrorCode.NON_EMPTY_GROUP
        await case.beat("one", -1)
        case.is_enabled = False
        for work in (
            shares.delete(active(case), GROUP),
            shares.delete_offsets(active(case), GROUP, ["t"]),
            shares.alter_offsets(active(case), GROUP, {"t": {0: 1}}),
        ):
            assert await refused(work) is ErrorCode.UNSUPPORTED_VERSION
        assert await refused(case.beat("one")) is ErrorCode.UNSUPPORTED_VERSION

    in_virtual_time(scenario)


def test_what_cannot_be_noted_first_is_not_asked_for() -> None:
    async def scenario() -> None:
        case = ShareCase()
        states = await left(case)
        for work in (
            lambda: case.groups.shares.alter_offsets(active(case), GROUP, {"t": {0: 1}}),
            lambda: case.groups.shares.delete_offsets(active(case), GROUP, ["t"]),
            lambda: case.groups.delete_group(GROUP),
        ):
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            assert await refused(work()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert states.asked == []
        assert states_of(case) == StatePartitions({}, {T: named("t", 0, 1)}, {})

    in_virtual_time(scenario)


def test_an_administrator_waits_until_states_that_are_being_made_are_there() -> None:
    """Else one would be made behind the deletion, and nobody could load it."""

    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        states = States(case)
        case.states.takes_s = STATES_S + 2
        await case.beat("one")
        await case.beat("one", -1)
        began = asyncio.get_running_loop().time()
        await case.groups.delete_group(GROUP)
        assert asyncio.get_running_loop().time() - began > 1
        assert states.asked == [("delete", GROUP, {T: [0, 1]}, 0)]
        assert case.groups.list_groups() == []

    in_virtual_time(scenario)


def test_where_the_partition_is_led_elsewhere_meanwhile_the_administrator_is_told() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await left(case)
        deleting = asyncio.ensure_future(refused(case.groups.delete_group(GROUP)))
        await asyncio.sleep(0.05)
        case.groups.unload(0)
        assert await deleting is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


# -- topics that go


def test_groups_forget_topics_that_are_deleted_and_what_cannot_be_written_is_left() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await left(case)
        shards = [active(case)]
        assert case.groups.shares.topic_ids(shards) == {T}
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await case.groups.shares.on_topics_deleted(shards, [T])
        assert case.groups.shares.topic_ids(shards) == {T}
        before = len(case.log.records)
        await case.groups.shares.on_topics_deleted(shards, [U])
        assert len(case.log.records) == before, "no group knows it"
        case.is_enabled = False
        await case.groups.shares.on_topics_deleted(shards, [T])
        assert case.groups.shares.topic_ids(shards) == {T}
        case.is_enabled = True
        shards[0].loading = True
        assert case.groups.shares.topic_ids(shards) == frozenset()
        await case.groups.shares.on_topics_deleted(shards, [T])
        shards[0].loading = False
        assert case.groups.shares.topic_ids(shards) == {T}
        shards[0].is_gone = True
        await case.groups.shares.on_topics_deleted(shards, [T])
        shards[0].is_gone = False
        assert case.groups.shares.topic_ids(shards) == {T}
        await case.groups.shares.on_topics_deleted(shards, [T])
        assert case.groups.shares.topic_ids(shards) == frozenset()

    in_virtual_time(scenario)


# -- sessions and members


def test_a_member_that_is_silent_for_its_session_is_removed_and_others_get_its_partitions() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        await case.beat("one")
        two = await case.beat("two")
        await asyncio.sleep(SESSION_S - 1)
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        await case.beat("two", two.member_epoch)
        assert list(group.members) == ["one", "two"]
        await asyncio.sleep(1.1)
        assert list(group.members) == ["two"]
        assert given(await case.beat("two", two.member_epoch)) == [0, 1]
        await asyncio.sleep(SESSION_S - 0.1)
        assert group.members
        await asyncio.sleep(0.2)
        assert group.state == "Empty"

    in_virtual_time(scenario)


def test_a_removal_that_cannot_be_written_is_tried_again_soon() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        await case.beat("one")
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        await asyncio.sleep(SESSION_S - 0.1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(RETRY_MS / 1000)
        assert (list(group.members), case.log.error) == (["one"], ErrorCode.NONE), "it was tried"
        await asyncio.sleep(0.3)
        assert list(group.members) == []

    in_virtual_time(scenario)


def test_a_member_whose_heartbeat_could_not_be_written_was_heard_of_all_the_same() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        one = await case.beat("one")
        await asyncio.sleep(SESSION_S - 1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(RequestError):
            await case.beat("one", one.member_epoch, ["t", "u"])
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        await asyncio.sleep(SESSION_S - 1)
        assert list(group.members) == ["one"]
        assert await case.refused("one", one.member_epoch + 7) is ErrorCode.FENCED_MEMBER_EPOCH
        await asyncio.sleep(1.1)
        assert list(group.members) == [], "what is refused renews nothing"

    in_virtual_time(scenario)


def test_members_of_a_loaded_group_have_a_whole_session() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        await case.beat("one")
        await asyncio.sleep(SESSION_S - 1)
        case.groups.unload(0)
        await case.groups.load(0, leader_epoch=1)
        group = case.groups.describe_share_group(GROUP)
        assert group is not None
        await asyncio.sleep(SESSION_S - 1)
        assert list(group.members) == ["one"]
        await asyncio.sleep(2)
        assert list(group.members) == []

    in_virtual_time(scenario)


def test_who_leaves_is_answered_in_the_epoch_of_leaving_and_who_is_no_member_is_refused() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        assert await case.refused("one", -1) is ErrorCode.GROUP_ID_NOT_FOUND
        assert await case.refused("one", 1) is ErrorCode.GROUP_ID_NOT_FOUND
        await case.beat("one")
        assert await case.refused("two", -1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await case.beat("one", -1)) == ("one", -1, 0, None)
        assert case.groups.rebalances["share"] >= 2

    in_virtual_time(scenario)


def test_who_joins_waits_for_states_no_longer_than_the_bound() -> None:
    async def scenario() -> None:
        case = ShareCase()
        await case.start()
        case.states.takes_s = STATES_S + 1
        loop = asyncio.get_running_loop()
        began = loop.time()
        one = await case.beat("one")
        assert (given(one), loop.time() - began) == ([], pytest.approx(STATES_S, abs=0.1))
        began = loop.time()
        two = await case.beat("two")
        assert loop.time() - began == pytest.approx(1.0, abs=0.1), "who joins meanwhile waits for them too"
        assert len(given(two)) == 1
        began = loop.time()
        await case.beat("one", one.member_epoch)
        assert loop.time() - began < 0.1

    in_virtual_time(scenario)
