"""The group coordinator with groups of all kinds: what it lists, whom it refuses, and what becomes of members when its
partition is read, leaves, or its process has stood still."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.membership import (
    GroupState,
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from kavka.coordinator.groups.coordinator import GroupCoordinator, GroupListing
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.groups.share.decide.group import ShareGroupLimits
from kavka.coordinator.groups.share.decide.heartbeat import ShareAnswer, ShareHeartbeat
from kavka.coordinator.groups.share.flow import ShareSurroundings
from kavka.coordinator.groups.streams.decide.heartbeat import StreamsAnswer, StreamsHeartbeat
from kavka.coordinator.groups.streams.flow import StreamsSurroundings
from kavka.coordinator.shared.decide.partitions import java_string_hash
from kavka.coordinator.shared.standstill import STOOD_STILL_S, TURNS
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import subscription
from tests.kit.group_surroundings import HandMadeTopics, group_surroundings
from tests.kit.streams_case import LIMITS as STREAMS_LIMITS
from tests.kit.streams_case import STATELESS
from tests.kit.told_lines import told_lines
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator import MemoryLog

LOGGER = "kavka.coordinator.groups"
SESSION_S = 45
CLASSIC_SESSION_S = 10


class States:
    """Makes and deletes all states of share groups."""

    async def initialize(
        self, group_id: str, state_epoch: int, topics: Mapping[Any, Sequence[int]], coordinator_epoch: int
    ) -> Mapping[Any, frozenset[int]]:
        return {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}

    async def delete(self, group_id: str, topics: Mapping[Any, Sequence[int]], epoch: int) -> Mapping[Any, ErrorCode]:
        return dict.fromkeys(topics, ErrorCode.NONE)


class All:
    """A coordinator of one partition, with groups of all kinds and a topic t of two partitions."""

    def __init__(self, *, max_size: int = 100, share: bool = True, streams: bool = True) -> None:
        self.log = MemoryLog()
        self.rebalances: list[Rebalance] = []
        self.topics = HandMadeTopics(t=2)
        self.random = Random(1)
        self._max_size, self._share, self._streams = max_size, share, streams

    def make(self) -> GroupCoordinator:
        """One that has read nothing yet."""
        around = group_surroundings(self.topics)._replace(on_rebalance=self.rebalances.append, random=self.random)
        around = around._replace(classic_limits=replace(around.classic_limits, max_size=self._max_size))
        states: Any = States()
        share = ShareSurroundings(
            self.topics,
            lambda _group: ShareGroupLimits(45_000, 5_000, 10, 0, 30_000),
            lambda: True,
            lambda: 0,
            states,
        )
        streams = StreamsSurroundings(
            self.topics, lambda _group: STREAMS_LIMITS, lambda: True, lambda: 0, self.rebalances.append
        )
        self.groups = GroupCoordinator(
            asyncio.get_running_loop(),
            self.log,
            around,
            offset_metadata_max_bytes=16,
            share=share if self._share else None,
            streams=streams if self._streams else None,
        )
        self.groups.set_partition_count(1)
        return self.groups

    async def start(self) -> GroupCoordinator:
        await self.make().load(0, leader_epoch=0)
        return self.groups

    async def consumer(self, group_id: str, member: str = "m", epoch: int = 0, version: int = 1) -> HeartbeatAnswer:
        is_joining = epoch == 0
        beat = ConsumerHeartbeat(
            group_id,
            member,
            epoch,
            None,
            None,
            20_000 if is_joining else -1,
            ["t"] if is_joining else None,
            None,
            None,
            {} if is_joining else None,
            "client",
            "/h",
            version,
        )
        return await self.groups.consumer_heartbeat(beat)

    async def share(self, group_id: str, member: str = "m", epoch: int = 0) -> ShareAnswer:
        topics = None if epoch else ["t"]
        return await self.groups.share_heartbeat(ShareHeartbeat(group_id, member, epoch, None, topics, "c", "/h"))

    async def streams(self, group_id: str, member: str = "m", epoch: int = 0) -> StreamsAnswer:
        nothing: Any = {} if epoch == 0 else None
        process, topology = (None, None) if epoch else ("p", STATELESS)
        limit_ms = -1 if epoch else 20_000
        return await self.groups.streams_heartbeat(
            StreamsHeartbeat(
                group_id,
                member,
                epoch,
                0,
                None,
                None,
                limit_ms,
                topology,
                nothing,
                nothing,
                nothing,
                process,
                None,
                None if epoch else (),
                False,
                False,
                False,
                "c",
                "/h",
            )
        )

    async def one_of_each(self) -> None:
        """In an order in which nobody lists them."""
        await self.groups.join("d", joining())
        await self.consumer("c")
        await self.share("b")
        await self.streams("a")


def joining(member_id: str = "", **fields: Any) -> JoinRequest:
    request = JoinRequest(
        member_id,
        None,
        "old",
        "/h",
        1_000 * CLASSIC_SESSION_S,
        20_000,
        "consumer",
        [JoinProtocol("range", b"s")],
        False,
    )
    return request._replace(**fields)


def syncing(member_id: str, generation: int = 1, **parts: bytes) -> SyncRequest:
    return SyncRequest(member_id, None, generation, "consumer", "range", parts)


def offset(value: int, partition: int = 0) -> OffsetToCommit:
    return OffsetToCommit("orders", partition, value, 3, "")


async def refused(asking: Any) -> ErrorCode:
    with pytest.raises(RequestError) as refusal:
        await asking
    return refusal.value.code


# -- what is there


def test_groups_of_all_kinds_are_listed_by_id_counted_by_state_and_described_as_what_they_are() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        assert (groups.list_groups(), groups.census()) == ([], Counter())
        await case.one_of_each()
        await case.consumer("e")
        await case.consumer("e", epoch=-1)
        assert groups.list_groups() == [
            GroupListing("a", "streams", "Stable", "streams"),
            GroupListing("b", "share", "Stable", "share"),
            GroupListing("c", "consumer", "Stable", "consumer"),
            GroupListing("d", "consumer", "CompletingRebalance", "classic"),
            GroupListing("e", "consumer", "Empty", "consumer"),
        ]
        assert groups.census() == {
            ("streams", "Stable"): 1,
            ("share", "Stable"): 1,
            ("consumer", "Stable"): 1,
            ("consumer", "Empty"): 1,
            ("classic", "CompletingRebalance"): 1,
        }
        describes: list[Any] = [
            groups.describe_streams_group,
            groups.describe_share_group,
            groups.describe_consumer_group,
            groups.describe_group,
        ]
        for place, group_id in enumerate("abcd"):
            found = [describe(group_id) for describe in describes]
            assert [each is not None for each in found] == [place == number for number in range(4)]
            assert found[place].group_id == group_id
            assert groups.is_there(group_id)
        assert not groups.is_there("f")
        assert groups.assignors("c") == ("uniform", "range")

    in_virtual_time(scenario)


def test_a_group_that_was_never_one_of_members_has_no_protocol_type() -> None:
    async def scenario() -> None:
        groups = await All().start()
        await groups.offsets.commit(CommitRequest("g", "", None, -1, [offset(7)]))
        assert groups.list_groups() == [GroupListing("g", "", "Empty", "classic")]

    in_virtual_time(scenario)


def test_while_a_partition_is_read_no_list_is_complete_and_its_groups_do_not_count() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.one_of_each()
        case.log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(1)
        with pytest.raises(RequestError) as told:
            groups.list_groups()
        assert told.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.census() == Counter()
        assert [active.loading for active in groups.shards()] == [True]
        case.log.settled.set_result(True)
        await loading
        # The classic group had no generation that was written.
        assert [group.group_id for group in groups.list_groups()] == ["a", "b", "c"]

    in_virtual_time(scenario)


def test_rebalances_are_counted_by_kind_and_told_of() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.one_of_each()
        await case.consumer("c", "another")
        # Of the share group when its member joined, and when the states of its partitions were made.
        assert groups.rebalances == {"classic": 1, "consumer": 2, "share": 2, "streams": 1}
        assert [(told.group_id, told.kind) for told in case.rebalances] == [
            ("d", "classic"),
            ("c", "consumer"),
            ("a", "streams"),
            ("c", "consumer"),
        ]

    in_virtual_time(scenario)


# -- who is refused


def test_without_share_and_streams_groups_their_heartbeats_are_of_no_version() -> None:
    async def scenario() -> None:
        case = All(share=False, streams=False)
        groups = await case.start()
        assert await refused(case.share("g")) is ErrorCode.UNSUPPORTED_VERSION
        assert await refused(case.streams("g")) is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(RequestError) as told:
            _ = groups.shares
        assert told.value.code is ErrorCode.UNSUPPORTED_VERSION

    in_virtual_time(scenario)


def test_only_offsets_and_administrators_know_a_group_without_a_name() -> None:
    """Any client may commit to it (Kafka's isGroupIdNotEmpty guards membership alone)."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        for asking in (
            groups.join("", joining()),
            groups.sync("", syncing("m")),
            groups.leave("", [Leaver("m")]),
            groups.offsets.commit_transactional(CommitRequest("", "", None, -1, [offset(1)]), 9, 0),
            groups.offsets.delete("", [("orders", 0)]),
        ):
            assert await refused(asking) is ErrorCode.INVALID_GROUP_ID
        for describe in (
            groups.describe_consumer_group,
            groups.describe_share_group,
            groups.describe_streams_group,
            groups.shard_of,
        ):
            with pytest.raises(RequestError) as told:
                describe("")
            assert told.value.code is ErrorCode.INVALID_GROUP_ID
        with pytest.raises(RequestError) as told:
            groups.heartbeat("", "m", None, 1)
        assert told.value.code is ErrorCode.INVALID_GROUP_ID
        assert groups.describe_group("") is None
        assert not groups.is_there("")
        assert await groups.offsets.commit(CommitRequest("", "", None, -1, [offset(7)])) == [ErrorCode.NONE]
        assert groups.is_there("")
        found = groups.offsets.fetch("", "orders", 0)
        assert found is not None
        assert found.offset == 7
        await groups.delete_group("")
        assert not groups.is_there("")

    in_virtual_time(scenario)


@pytest.mark.parametrize("member_id", ["", "m"])
def test_no_classic_member_joins_a_share_or_a_streams_group(member_id: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.one_of_each()
        for group_id in ("a", "b"):
            answer = await groups.join(group_id, joining(member_id))
            assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert groups.describe_group(group_id) is None
        assert (await groups.join("d", joining("stranger"))).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await groups.join("new", joining("stranger"))).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.describe_group("new") is None

    in_virtual_time(scenario)


def test_a_classic_member_joins_after_an_empty_streams_group_and_not_where_there_are_none() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.streams("a")
        await case.streams("a", epoch=-1)
        assert (await groups.join("a", joining())).error is ErrorCode.NONE
        assert groups.describe_streams_group("a") is None
        assert [group.kind for group in groups.list_groups()] == ["classic"]
        # What an earlier configuration has left in the log stays: nobody is here who could end it.
        case = All()
        await case.start()
        await case.streams("a")
        await case.streams("a", epoch=-1)
        without = All(streams=False)
        without.log = case.log
        answer = await (await without.start()).join("a", joining())
        assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    in_virtual_time(scenario)


def test_a_join_that_made_room_of_a_streams_group_is_refused_where_its_coordinator_has_moved_meanwhile() -> None:
    """The end of the empty group is in the log, and nobody would ever answer a join here."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await case.streams("a")
        await case.streams("a", epoch=-1)
        case.log.commits_after_s = 1
        making_room = asyncio.ensure_future(groups.join("a", joining()))
        await asyncio.sleep(0.5)
        groups.unload(0)
        async with asyncio.timeout(60):
            assert await refused(making_room) is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


@pytest.mark.parametrize(("session_ms", "is_refused"), [(9, True), (10, False), (1_800_000, False), (1_800_001, True)])
def test_a_session_is_as_long_as_the_broker_s_limits_allow(session_ms: int, is_refused: bool) -> None:
    async def scenario() -> None:
        groups = await All().start()
        asking = groups.join("g", joining(session_timeout_ms=session_ms))
        if is_refused:
            assert await refused(asking) is ErrorCode.INVALID_SESSION_TIMEOUT
        else:
            assert (await asking).error is ErrorCode.NONE

    in_virtual_time(scenario)


UUID_CHARS = 36
LONGEST = 32_767 - 1 - UUID_CHARS
"""Of a name that an id may be made of: a string on the wire has 32767 bytes at most."""


@pytest.mark.parametrize(
    ("client_id", "instance", "made_of"), [("c", None, "c"), ("c", "i", "i"), ("c", "", ""), ("", None, "")]
)
def test_an_id_is_made_of_the_instance_id_or_else_of_the_client_id(
    client_id: str, instance: str | None, made_of: str
) -> None:
    """As in Kafka's ClassicGroup.generateMemberId."""

    async def scenario() -> None:
        groups = await All().start()
        ids = [
            (await groups.join(group_id, joining(client_id=client_id, group_instance_id=instance))).member_id
            for group_id in ("g", "h")
        ]
        assert ids[0] != ids[1]
        for member_id in ids:
            assert re.fullmatch(
                made_of + r"-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", member_id
            )

    in_virtual_time(scenario)


def test_all_bits_of_an_id_but_those_of_its_version_are_chance() -> None:
    class Ones(Random):
        def getrandbits(self, k: int) -> int:
            return (1 << k) - 1

    async def scenario() -> None:
        case = All()
        case.random = Ones()
        groups = await case.start()
        assert (await groups.join("g", joining())).member_id == "old-ffffffff-ffff-4fff-bfff-ffffffffffff"
        assert (await case.consumer("h", "", version=0)).member_id == "ffffffff-ffff-4fff-bfff-ffffffffffff"

    in_virtual_time(scenario)


def test_who_is_not_the_coordinator_refuses_what_the_coordinator_would() -> None:
    """As in Kafka's GroupCoordinatorService, which looks at a heartbeat before it looks for the group."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        groups.unload(0)
        assert await refused(case.consumer("g")) is ErrorCode.NOT_COORDINATOR
        assert await refused(case.consumer("g", epoch=-3)) is ErrorCode.INVALID_REQUEST
        assert await refused(case.streams("g")) is ErrorCode.NOT_COORDINATOR
        assert await refused(case.streams("g", epoch=-3)) is ErrorCode.INVALID_REQUEST
        assert await refused(groups.sync("g", syncing("m"))) is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


def test_a_name_is_refused_from_the_length_on_that_no_answer_could_carry() -> None:
    async def scenario() -> None:
        groups = await All().start()
        fits = (await groups.join("g", joining(client_id="é" * (LONGEST // 2)))).member_id
        assert len(fits.encode()) == 32_767 - LONGEST % 2
        for name in ({"client_id": "c" * (LONGEST + 1)}, {"group_instance_id": "c" * (LONGEST + 1)}):
            with pytest.raises(RequestError) as told:
                await groups.join("h", joining(**name))
            assert told.value.code is ErrorCode.INVALID_REQUEST
            assert str(told.value).endswith(f"the instance id or client id is too long: {LONGEST + 1} bytes")
        # Who has an id needs no other.
        assert (await groups.join("g", joining(fits, client_id="c" * 32_767))).error is ErrorCode.NONE

    in_virtual_time(scenario)


# -- leaving


def test_who_joins_and_leaves_a_classic_group_is_told_of_with_its_reason() -> None:
    async def scenario() -> None:
        groups = await All().start()
        with told_lines(LOGGER) as told:
            one = (await groups.join("g", joining(group_instance_id="i", reason="it begins"))).member_id
            await groups.sync("g", syncing(one))
            assert await groups.leave("nobody's", [Leaver("a"), Leaver("b")]) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
            leavers = [Leaver("stranger", None, "no reason"), Leaver("", "i")]
            assert await groups.leave("g", leavers) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
            two = (await groups.join("h", joining())).member_id
            await groups.leave("h", [Leaver(two, None, "it has had enough")])
        assert told == [
            ("debug", "group member joins", {"group": "g", "member": "", "why": "it begins"}),
            ("info", "group member left", {"group": "g", "member": "i", "why": "it did not say"}),
            ("debug", "group member joins", {"group": "h", "member": "", "why": ""}),
            ("info", "group member left", {"group": "h", "member": two, "why": "it has had enough"}),
        ]

    in_virtual_time(scenario)


def test_who_is_silent_is_told_of_when_it_is_removed() -> None:
    async def scenario() -> None:
        groups = await All().start()
        with told_lines(LOGGER) as told:
            one = (await groups.join("g", joining())).member_id
            await groups.sync("g", syncing(one))
            await asyncio.sleep(CLASSIC_SESSION_S + 1)
        why = "no heartbeat, join or sync in time"
        assert told[1:] == [("info", "group member removed", {"group": "g", "member": one, "why": why})]

    in_virtual_time(scenario)


# -- what a classic group writes


async def held_second(case: All) -> tuple[str, asyncio.Task[JoinAnswer]]:
    """A group g of one member, and a second one whose join waits for the first."""
    first = (await case.groups.join("g", joining())).member_id
    await case.groups.sync("g", syncing(first))
    second = asyncio.ensure_future(case.groups.join("g", joining()))
    await asyncio.sleep(1)
    return first, second


def members_of(groups: GroupCoordinator) -> list[str]:
    group = groups.describe_group("g")
    assert group is not None
    return list(group.members)


def test_who_is_put_out_of_a_group_that_is_empty_with_that_is_answered_when_it_is_written() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        _, held = await held_second(case)
        case.log.gate = asyncio.Event()
        await groups.leave("g", [Leaver(member_id) for member_id in members_of(groups)])
        await asyncio.sleep(1)
        assert not held.done()
        assert [told.members for told in case.rebalances] == [1]
        case.log.gate.set()
        assert (await held).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert [(told.generation, told.members) for told in case.rebalances] == [(1, 1), (2, 0)]

    in_virtual_time(scenario)


@pytest.mark.parametrize("commits_after_s", [0.0, 0.02])
def test_a_group_that_ends_in_the_moment_in_which_it_is_left_is_not_brought_back(commits_after_s: float) -> None:
    """The record of the empty group would lie behind the tombstone in the log."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        _, held = await held_second(case)
        case.log.commits_after_s = commits_after_s
        leavers = [Leaver(member_id) for member_id in members_of(groups)]
        errors, _ = await asyncio.gather(groups.leave("g", leavers), groups.offsets.expire(0))
        assert errors == [ErrorCode.NONE] * 2
        assert (await held).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert [(told.generation, told.members) for told in case.rebalances] == [(1, 1), (2, 0)]
        await asyncio.sleep(1)
        assert groups.list_groups() == []
        assert case.log.records[0][-1].value is None
        assert (await case.start()).list_groups() == []

    in_virtual_time(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_static_member_has_its_new_id_when_that_is_written(error: ErrorCode) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        former = (await groups.join("g", joining(group_instance_id="i"))).member_id
        await groups.sync("g", syncing(former))
        case.log.gate, case.log.error = asyncio.Event(), error
        back = asyncio.ensure_future(groups.join("g", joining(group_instance_id="i")))
        await asyncio.sleep(1)
        assert not back.done()
        case.log.gate.set()
        answer = await back
        if error is ErrorCode.NONE:
            assert (answer.error, answer.generation) == (ErrorCode.NONE, 1)
            assert members_of(groups) == [answer.member_id] != [former]
        else:
            assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert members_of(groups) == [former]

    in_virtual_time(scenario)


def test_who_does_not_wait_any_more_is_passed_over_when_the_others_are_answered() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        first, gone = await held_second(case)
        third = asyncio.ensure_future(groups.join("g", joining()))
        await asyncio.sleep(1)
        gone.cancel()
        answers = await asyncio.gather(groups.join("g", joining(first)), third)
        assert [answer.error for answer in answers] == [ErrorCode.NONE] * 2
        leader, silent, follower = members_of(groups)
        assert leader == answers[0].leader
        waiting, other = (asyncio.ensure_future(groups.sync("g", syncing(each, 2))) for each in (silent, follower))
        await asyncio.sleep(1)
        waiting.cancel()
        await groups.sync("g", syncing(leader, 2, **{follower: b"its"}))
        synced = await other
        assert (synced.error, synced.assignment) == (ErrorCode.NONE, b"its")

    in_virtual_time(scenario)


# -- classic members of a consumer group


async def classic_in_consumer_group(case: All, **fields: Any) -> JoinAnswer:
    """A member of each protocol in the group g."""
    await case.consumer("g", "one")
    request = joining(protocols=[JoinProtocol("range", subscription("t"))], **fields)
    joined = await case.groups.join("g", request)
    await case.groups.sync("g", syncing(joined.member_id, joined.generation))
    return joined


@pytest.mark.parametrize("asks", ["sync", "heartbeat"])
def test_who_is_to_join_again_has_its_rebalance_time_out_for_that_though_its_session_is_longer(asks: str) -> None:
    """As in Kafka's scheduleConsumerGroupJoinTimeoutIfNeeded."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        joined = await classic_in_consumer_group(case, rebalance_timeout_ms=2_000)
        await asyncio.sleep(3)
        await case.consumer("g", "two")
        if asks == "sync":
            code = await refused(groups.sync("g", syncing(joined.member_id, joined.generation)))
        else:
            with pytest.raises(RequestError) as told:
                groups.heartbeat("g", joined.member_id, None, joined.generation)
            code = told.value.code
        assert code is ErrorCode.REBALANCE_IN_PROGRESS
        group = groups.describe_consumer_group("g")
        assert group is not None
        await asyncio.sleep(1.9)
        assert set(group.members) == {"one", "two", joined.member_id}
        await asyncio.sleep(0.2)
        assert set(group.members) == {"one", "two"}

    in_virtual_time(scenario)


def test_no_classic_member_is_told_of_an_assignment_that_may_be_lost() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        joined = await classic_in_consumer_group(case)
        case.log.error, case.log.keeps_failed, case.log.uncommitted = ErrorCode.REQUEST_TIMED_OUT, True, 1
        assert await refused(case.consumer("g", "two")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        asks = syncing(joined.member_id, joined.generation)
        assert await refused(groups.sync("g", asks)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.uncommitted = 0
        assert await refused(groups.sync("g", asks)) is ErrorCode.REBALANCE_IN_PROGRESS

    in_virtual_time(scenario)


# -- reading the log


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_that_ends_while_its_offsets_are_read_has_ended_when_they_are_served(committed: bool) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 0)
        await groups.offsets.commit_transactional(CommitRequest("h", "", None, -1, [offset(43)]), 10, 0)
        case.log.settled = asyncio.get_running_loop().create_future()
        loading = asyncio.ensure_future(groups.load(0, leader_epoch=1))
        await asyncio.sleep(1)
        groups.offsets.on_marker(0)(9, 0, committed)
        case.log.settled.set_result(True)
        await loading
        assert groups.offsets.pending("g") == frozenset()
        found = groups.offsets.fetch("g", "orders", 0)
        assert (None if found is None else found.offset) == (42 if committed else None)
        assert groups.offsets.pending("h") == {("orders", 0)}
        assert groups.offsets.fetch("h", "orders", 0) is None

    in_virtual_time(scenario)


def test_a_group_of_which_only_an_open_transaction_tells_is_there() -> None:
    """As in Kafka, which makes it when it reads the offset (OffsetMetadataManager.replay)."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await groups.offsets.commit_transactional(CommitRequest("g", "", None, -1, [offset(42)]), 9, 0)
        await groups.offsets.commit_transactional(CommitRequest("h", "", None, -1, [offset(42)]), 9, 0)
        groups = await case.start()
        assert [group.group_id for group in groups.list_groups()] == ["g", "h"]

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_members_that_are_read_from_the_log_have_a_session_from_then_on(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        session_s = CLASSIC_SESSION_S if kind == "classic" else SESSION_S
        if kind == "classic":
            joined = await groups.join("g", joining())
            await groups.sync("g", syncing(joined.member_id))
        else:
            await case.consumer("g")
        groups.shut_down()
        await asyncio.sleep(100)
        groups = await case.start()
        await asyncio.sleep(session_s - 0.1)
        states = [group.state for group in groups.list_groups()]
        await asyncio.sleep(0.2)
        assert (states, [group.state for group in groups.list_groups()]) == (["Stable"], ["Empty"])

    in_virtual_time(scenario)


def test_a_classic_group_that_is_larger_than_it_may_be_by_now_rebalances_once_it_is_read() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        leader = (await groups.join("g", joining())).member_id
        follows = asyncio.ensure_future(groups.join("g", joining()))
        await asyncio.sleep(1)
        again = asyncio.ensure_future(groups.join("g", joining(leader)))
        await asyncio.gather(follows, again)
        await groups.sync("g", syncing(leader, 2))
        case._max_size = 1
        groups = await case.start()
        group = groups.describe_group("g")
        assert group is not None
        assert group.state is GroupState.PREPARING_REBALANCE

    in_virtual_time(scenario)


def names_in(partition: int, of: int, count: int) -> list[str]:
    """Names of groups that have this place."""
    found = (name for name in map(str, range(1_000)) if (java_string_hash(name) & 0x7FFFFFFF) % of == partition)
    return [next(found) for _ in range(count)]


def test_groups_in_a_wrong_partition_are_counted_and_one_is_named() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        right, wrong = names_in(0, 2, 1), names_in(1, 2, 3)
        for name in (*right, *wrong):
            await groups.offsets.commit(CommitRequest(name, "", None, -1, [offset(7)]))
        with told_lines(LOGGER) as told:
            await case.start()
            assert told == []
            again = case.make()
            again.set_partition_count(0)
            again.set_partition_count(2)
            await again.load(0, leader_epoch=0)
            nowhere = case.make()
            nowhere.set_partition_count(0)
            await nowhere.load(0, leader_epoch=0)
        why = "the number of partitions of the offsets topic has changed; their offsets are not found"
        keys = {"partition": 0, "groups": 3, "one_of_them": wrong[0], "why": why}
        assert told == [("warning", "groups in a wrong partition", keys)]

    in_virtual_time(scenario)


# -- the end


def test_a_coordinator_that_stops_serves_nothing_and_ends_what_it_does_beside() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        joined = await case.consumer("g")
        done = groups.spawn(asyncio.sleep(1))
        await asyncio.sleep(2)
        beside = groups.spawn(asyncio.sleep(1_000))
        groups.shut_down()
        await asyncio.sleep(1)
        assert (done.cancelled(), beside.cancelled()) == (False, True)
        assert groups.shards() == []
        assert await refused(case.consumer("g", epoch=joined.member_epoch)) is ErrorCode.NOT_COORDINATOR

    in_virtual_time(scenario)


def test_a_partition_that_leaves_refuses_the_joins_that_it_holds_of_each_group() -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        held = []
        for group_id in ("g", "h"):
            await groups.join(group_id, joining())
            held.append(asyncio.ensure_future(groups.join(group_id, joining())))
        await asyncio.sleep(1)
        assert groups.shard_at(0) is not None
        groups.unload(0)
        assert groups.shard_at(0) is None
        assert [(await each).error for each in held] == [ErrorCode.NOT_COORDINATOR] * 2

    in_virtual_time(scenario)


# -- a process that stood still


def stands_still(seconds: float) -> None:
    """The clock goes on, and nothing is done meanwhile."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


async def one_member(case: All, kind: str) -> tuple[str, int]:
    """A settled group g of one member: its id and its generation or epoch."""
    if kind == "classic":
        joined = await case.groups.join("g", joining())
        await case.groups.sync("g", syncing(joined.member_id))
        return joined.member_id, 1
    joins: dict[str, Any] = {"consumer": case.consumer, "share": case.share, "streams": case.streams}
    return "m", (await joins[kind]("g")).member_epoch


async def beats(case: All, kind: str, member_id: str, epoch: int) -> None:
    match kind:
        case "classic":
            case.groups.heartbeat("g", member_id, None, epoch)
        case "consumer":
            await case.consumer("g", epoch=epoch)
        case "share":
            await case.share("g", epoch=epoch)
        case _:
            await case.streams("g", epoch=epoch)


def state(groups: GroupCoordinator) -> str:
    return groups.list_groups()[0].state


KINDS = ["classic", "consumer", "share", "streams"]


def length_s(kind: str) -> int:
    return CLASSIC_SESSION_S if kind == "classic" else SESSION_S


@pytest.mark.parametrize("kind", KINDS)
def test_who_was_heard_of_while_the_process_stood_still_is_no_late_member(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        member = await one_member(case, kind)
        stands_still(length_s(kind) + STOOD_STILL_S + 0.01)
        for _ in range(TURNS):  # What arrived meanwhile is read after timers have run.
            await asyncio.sleep(0)
        await beats(case, kind, *member)
        await asyncio.sleep(length_s(kind) - 1)
        assert state(groups) == "Stable"
        await asyncio.sleep(1.1)
        assert state(groups) == "Empty", "its next session ends as any other"

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stood_still", [True, False])
def test_who_was_not_heard_of_is_out_when_what_has_arrived_is_read(kind: str, stood_still: bool) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await one_member(case, kind)
        if stood_still:
            stands_still(length_s(kind) + STOOD_STILL_S + 0.01)
            await asyncio.sleep(STOOD_STILL_S / 2)
            assert state(groups) == "Stable"
            await asyncio.sleep(STOOD_STILL_S)
        else:
            await asyncio.sleep(length_s(kind) - 0.01)
            assert state(groups) == "Stable"
            await asyncio.sleep(0.02)
        assert state(groups) == "Empty"

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_that_leaves_while_what_has_arrived_is_read_removes_nobody(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        with told_lines(LOGGER) as told:
            await one_member(case, kind)
            told.clear()
        written = len(case.log.records[0])
        stands_still(length_s(kind) + STOOD_STILL_S + 0.01)
        await asyncio.sleep(STOOD_STILL_S)
        active = groups.shard_at(0)
        assert active is not None
        groups.unload(0)
        await asyncio.sleep(2 * length_s(kind))
        assert [line for line in told if line.level != "debug"] == []
        assert len(case.log.records[0]) == written
        shard = active.shard
        kept: list[Any] = [shard.consumer_groups, shard.share_groups, shard.streams_groups]
        assert [list(group.members) for kind in kept for group in kind.values()] == [["m"]] * (kind != "classic")

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_standstill_is_not_waited_for(kind: str) -> None:
    """What was sent before the session ended has been read after the first."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await one_member(case, kind)
        stands_still(length_s(kind) + STOOD_STILL_S + 0.01)
        await asyncio.sleep(STOOD_STILL_S / 2)
        stands_still(1)
        before = asyncio.get_running_loop().time()
        for _ in range(2 * TURNS):
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() == before
        assert state(groups) == "Empty"

    in_virtual_time(scenario)


# -- timers


def timers_set() -> list[float]:
    """How far away each timer of a group is that is set from now on."""
    loop = asyncio.get_running_loop()
    before, found = loop.call_later, []

    def call_later(delay: float, callback: Any, *args: Any, **rest: Any) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == "_on_time":
            found.append(delay)
        return before(delay, callback, *args, **rest)

    loop.call_later = call_later  # type: ignore[method-assign]
    return found


def test_the_clock_is_the_loop_s_in_milliseconds() -> None:
    async def scenario() -> None:
        groups = await All().start()
        before = groups.now_ms()
        stands_still(123.4567)
        assert groups.now_ms() - before == 123_456

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_has_one_timer_and_heartbeats_set_none(kind: str) -> None:
    """A deadline that moves away leaves the timer as it is: it finds nothing due, and is set anew."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        timers = timers_set()
        member = await one_member(case, kind)
        await beats(case, kind, *member)
        assert timers == [length_s(kind)]
        await asyncio.sleep(4)
        await beats(case, kind, *member)
        await asyncio.sleep(length_s(kind) - 4)
        assert timers[1:] == [pytest.approx(4)]
        await asyncio.sleep(4 + STOOD_STILL_S)
        assert (len(timers), state(groups)) == (2, "Empty")

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_to_a_group_that_has_been_left_has_a_session_of_its_own(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        member_id, _ = await one_member(case, kind)
        await asyncio.sleep(2)
        if kind == "classic":
            await groups.leave("g", [Leaver(member_id)])
        else:
            leaves: dict[str, Any] = {"consumer": case.consumer, "share": case.share, "streams": case.streams}
            await leaves[kind]("g", member_id, -1)
        await asyncio.sleep(1)
        assert state(groups) == "Empty"
        await one_member(case, kind)
        await asyncio.sleep(length_s(kind) - 0.1)
        assert state(groups) in ("Stable", "CompletingRebalance")
        await asyncio.sleep(0.2)
        assert state(groups) == "Empty"

    in_virtual_time(scenario)


def test_a_classic_group_whose_end_is_being_written_puts_nobody_out() -> None:
    """It may go on, and its members have a session from then on."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        request = joining(protocols=[JoinProtocol("range", subscription("t"))])
        joined = await groups.join("g", request)
        parts = {joined.member_id: encode_assignment({"t": [0, 1]}, 1)}
        await groups.sync("g", syncing(joined.member_id, 1, **parts))
        await asyncio.sleep(CLASSIC_SESSION_S - 0.1)
        case.log.commits_after_s, case.log.error = 1, ErrorCode.NOT_ENOUGH_REPLICAS
        assert await refused(case.consumer("g")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert members_of(groups) == [joined.member_id]
        case.log.commits_after_s, case.log.error = 0, ErrorCode.NONE
        await asyncio.sleep(CLASSIC_SESSION_S - 0.1)
        assert members_of(groups) == [joined.member_id]
        await asyncio.sleep(20)
        assert members_of(groups) == []

    in_virtual_time(scenario)


def test_what_was_done_beside_is_kept_no_longer() -> None:
    async def scenario() -> None:
        groups = await All().start()
        done = weakref.ref(groups.spawn(asyncio.sleep(1)))
        await asyncio.sleep(2)
        gc.collect()
        assert done() is None

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_partition_kept_is_given_up_when_it_leaves(kind: str) -> None:
    """Sessions take up to half an hour: until then its timers would hold all its groups."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        await one_member(case, kind)
        left = weakref.ref(groups.shard_of("g").shard)
        groups.unload(0)
        await asyncio.sleep(0.1)
        gc.collect()
        assert left() is None

    in_virtual_time(scenario)
