"""Random walks of consumer groups (KIP-848): honest members, lost answers, crashes, topics that grow, new coordinators.

G1  no partition is owned by two members that the group still knows
G2  a group's epoch only rises, and a member's but when it begins anew
G6  left alone, the group is Stable, with every partition assigned
and what a new coordinator reads from the log is what the one before had.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog, group_surroundings
from tests.kit.virtual_time import in_virtual_time

GROUP = "g"
REFUSED_LEAVES = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""Of who is not a member any more, or of whose leave it is not known whether it is in the log."""
Owned = dict[uuid.UUID, set[int]]


class Member:
    """An honest member: it gives back before it says that it owns no more."""

    def __init__(self, name: str, topics: frozenset[str], instance_id: str | None) -> None:
        self.member_id = name
        self.instance_id = instance_id
        self.topics = topics
        self.epoch = 0
        self.owned: Owned = {}
        self.said: Owned | None = None

    def request(self) -> ConsumerHeartbeat:
        joins = self.epoch == 0
        if joins:
            self.owned = {}
        owned = {topic_id: frozenset(partitions) for topic_id, partitions in self.owned.items() if partitions}
        return ConsumerHeartbeat(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance_id,
            None,
            60_000,
            sorted(self.topics),
            None,
            None,
            owned,
            "client",
            "/127.0.0.1",
        )

    def take(self, answer: HeartbeatAnswer) -> None:
        assert self.epoch == 0 or answer.member_epoch >= self.epoch, "a member's epoch fell"
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {topic_id: set(partitions) for topic_id, partitions in answer.assignment.items()}


class Walk:
    def __init__(self) -> None:
        self.topics = HandMadeTopics(a=3, b=4)
        self.log = OffsetsLog(delay_s=0.002, keeps_failed=True)
        self.members: dict[int, Member] = {}
        self.epoch = 0
        self.named = 0

    async def new_coordinator(self) -> None:
        loop = asyncio.get_running_loop()
        self.groups = GroupCoordinator(
            loop,
            self.log,
            group_surroundings(
                self.topics,
                wall_ms=lambda: 1_700_000_000_000 + int(loop.time() * 1000),
                session_timeout_ms=30_000,
            ),
            offset_metadata_max_bytes=16,
        )
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)

    def group(self) -> ConsumerGroup | None:
        return self.groups.describe_consumer_group(GROUP)

    async def beat(self, place: int, *, loses_answer: bool = False) -> None:
        member = self.members[place]
        try:
            answer = await self.groups.consumer_heartbeat(member.request())
        except RequestError as refused:
            if refused.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                member.epoch, member.owned = 0, {}
            elif refused.code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
                del self.members[place]
            elif refused.code is ErrorCode.GROUP_ID_NOT_FOUND:
                member.epoch, member.owned = 0, {}
            elif refused.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            return
        if not loses_answer:
            member.take(answer)

    async def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("join", place, topics, static):
                if place not in self.members:
                    self.named += 1
                    self.members[place] = Member(f"m{self.named}", topics, f"i{place}" if static else None)
                await self.beat(place)
            case ("beat", place, loses_answer) if place in self.members:
                await self.beat(place, loses_answer=loses_answer)
            case ("all beat", times):
                for _ in range(times):
                    for place in list(self.members):
                        await self.beat(place)
                        self.check()
            case ("leave", place, epoch) if place in self.members:
                member = self.members.pop(place)
                epoch = -1 if member.instance_id is None else epoch
                try:
                    await self.groups.consumer_heartbeat(member.request()._replace(member_epoch=epoch))
                except RequestError as refused:
                    if refused.code not in REFUSED_LEAVES:
                        raise
            case ("crash", place):
                self.members.pop(place, None)
            case ("wait", seconds):
                await asyncio.sleep(seconds)
            case ("grow", name, count):
                known = self.topics.topic(name)
                self.topics.put(name, count + (0 if known is None else known.partition_count))
            case ("restart",):
                await asyncio.sleep(0.01)  # What a timer has begun ends.
                before = self.picture()
                self.groups.unload(0, 1)
                await self.new_coordinator()
                assert self.picture() == before
            case ("fail", error):
                self.log.error = error

    def picture(self) -> Mapping[str, object] | None:
        group = self.group()
        if group is None:
            return None
        return {
            "epochs": (group.epoch, group.assignment_epoch, group.metadata_hash),
            "members": dict(sorted(group.members.items())),
            "target": dict(sorted(group.target.items())),
            "regexes": group.regexes,
        }

    def check(self) -> None:
        group = self.group()
        if group is None:
            self.epoch = 0
            return
        assert group.epoch >= self.epoch, "the group's epoch fell"
        assert group.assignment_epoch <= group.epoch
        self.epoch = group.epoch
        owners: dict[tuple[uuid.UUID, int], str] = {}
        for member in self.members.values():
            known = group.members.get(member.member_id)
            if known is None or member.epoch == 0:
                continue
            for topic_id, partitions in member.owned.items():
                for partition in partitions:
                    assert (topic_id, partition) not in owners, "a partition has two owners"
                    owners[topic_id, partition] = member.member_id

    async def settle(self) -> None:
        """Nothing happens any more but heartbeats."""
        for _ in range(16):
            for place in list(self.members):
                await self.beat(place)
            await asyncio.sleep(5)
            self.check()
        group = self.group()
        if group is None or not self.members:
            assert group is None or not group.members, "who is silent is gone"
            return
        assert group.state == "Stable", group.state
        wanted = {
            (topic.topic_id, partition)
            for member in self.members.values()
            for name in member.topics
            if (topic := self.topics.topic(name)) is not None
            for partition in range(topic.partition_count)
        }
        owned = {
            (topic_id, partition)
            for member in self.members.values()
            for topic_id, partitions in member.owned.items()
            for partition in partitions
        }
        assert owned == wanted, "a partition is nobody's"


PLACES = st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(
        st.just("join"), PLACES, st.sampled_from([frozenset("a"), frozenset("b"), frozenset("ab")]), st.booleans()
    ),
    st.tuples(st.just("beat"), PLACES, st.booleans()),
    st.tuples(st.just("beat"), PLACES, st.just(False)),
    st.tuples(st.just("all beat"), st.integers(1, 3)),
    st.tuples(st.just("leave"), PLACES, st.sampled_from([-1, -2])),
    st.tuples(st.just("crash"), PLACES),
    st.tuples(st.just("wait"), st.sampled_from([1, 20, 40])),
    st.tuples(st.just("grow"), st.sampled_from("ab"), st.integers(1, 2)),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fail"), st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])),
)


@settings(max_examples=200)
@given(st.lists(ACTIONS, min_size=8, max_size=50))
def test_honest_members_share_the_partitions_whatever_happens(actions: list[tuple[Any, ...]]) -> None:
    async def scenario() -> None:
        walk = Walk()
        await walk.new_coordinator()
        for action in actions:
            await walk.act(action)
            walk.check()
        walk.log.error = ErrorCode.NONE
        await walk.settle()

    in_virtual_time(scenario)
