"""A member of a group: the table of its states, and what the coordinator is told."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.group import CommittedOffset, GroupMember, MemberState
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset
from kavka.client.transactions import GroupMetadata
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from kavka.records.builder import BatchBuilder
from tests.unit.client.fake_cluster import FakeCluster

SETTINGS = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=1_000, api_timeout_ms=1_500, topic_propagation_ms=200
)
GROUP = ConsumerSettings(
    group_id="g",
    auto_offset_reset=OffsetReset.EARLIEST,
    heartbeat_interval_ms=10,
    session_timeout_ms=1_000,
    rebalance_timeout_ms=1_000,
    auto_commit_interval_ms=10_000,
    fetch_max_wait_ms=10,
)
P0 = TopicPartition("t", 0)


def run(scenario: Callable[[FakeCluster, Cluster], Awaitable[None]], *, brokers: int = 1) -> FakeCluster:
    fake = FakeCluster(brokers)
    fake.add_topic("t", 2)

    async def main() -> None:
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            await scenario(fake, cluster)

    asyncio.run(asyncio.wait_for(main(), 60))
    return fake


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is a state, not an event
        await asyncio.sleep(0.002)


def test_a_member_takes_the_id_it_is_given_and_joins_with_it() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        member = GroupMember(cluster, GROUP, ["t"])
        assert await member.join() == [TopicPartition("t", 0), TopicPartition("t", 1)]
        assert (member.state, member.member_id, member.generation) == (MemberState.MEMBER, "member-1", 1)
        await until(lambda: len(fake.asked(ApiKey.HEARTBEAT)) >= 3)
        await member.leave()
        beats = len(fake.asked(ApiKey.HEARTBEAT))
        await asyncio.sleep(0.03)
        assert len(fake.asked(ApiKey.HEARTBEAT)) == beats
        assert member.state is MemberState.OUTSIDE

    fake = run(scenario)
    assert [request.member_id for request in fake.asked(ApiKey.JOIN_GROUP)] == ["", "member-1"]
    assert [m.member_id for request in fake.asked(ApiKey.LEAVE_GROUP) for m in request.members] == ["member-1"]


def test_older_brokers_are_asked_in_the_fields_that_they_know() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        member = GroupMember(cluster, GROUP, ["t"])
        await member.join()
        await member.leave()

    fake = FakeCluster()
    fake.add_topic("t", 2)
    fake.versions.update({ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.LEAVE_GROUP: (0, 2), ApiKey.JOIN_GROUP: (0, 3)})

    async def main() -> None:
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            await scenario(fake, cluster)

    asyncio.run(main())
    assert [request.key for request in fake.asked(ApiKey.FIND_COORDINATOR)] == ["g"]
    assert [request.member_id for request in fake.asked(ApiKey.LEAVE_GROUP)] == ["member-1"]
    assert len(fake.asked(ApiKey.JOIN_GROUP)) == 1


@pytest.mark.parametrize(
    ("code", "state", "keeps_id"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, MemberState.REJOIN, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, MemberState.OUTSIDE, False),
        (ErrorCode.ILLEGAL_GENERATION, MemberState.OUTSIDE, True),
        (ErrorCode.FENCED_INSTANCE_ID, MemberState.FENCED, True),
    ],
)
def test_what_a_heartbeat_is_told_moves_the_state(code: ErrorCode, state: MemberState, keeps_id: bool) -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        member = GroupMember(cluster, GROUP, ["t"])
        await member.join()
        fake.faults[ApiKey.HEARTBEAT].append(lambda *_: HeartbeatResponse(error_code=code))
        await until(lambda: member.state is not MemberState.MEMBER)
        assert member.state is state
        assert bool(member.member_id) is keeps_id
        if state is MemberState.FENCED:
            with pytest.raises(RequestError, match="another member has the instance id"):
                await member.join()
        else:
            await member.join()
            assert member.state is MemberState.MEMBER
        await member.leave()

    run(scenario)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_join_that_others_disturb_is_tried_again(key: ApiKey, code: ErrorCode) -> None:
    refusals: dict[ApiKey, Any] = {ApiKey.JOIN_GROUP: JoinGroupResponse, ApiKey.SYNC_GROUP: SyncGroupResponse}

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.faults[key].append(lambda *_: refusals[key](error_code=code))
        member = GroupMember(cluster, GROUP, ["t"])
        assert len(await member.join()) == 2
        await member.leave()

    run(scenario)


def test_a_refusal_for_good_is_raised() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        refusal = JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        fake.faults[ApiKey.JOIN_GROUP].append(lambda *_: refusal)
        with pytest.raises(RequestError, match="GROUP_AUTHORIZATION_FAILED"):
            await GroupMember(cluster, GROUP, ["t"]).join()

    run(scenario)


def test_a_coordinator_that_moves_is_found_again() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        member = GroupMember(cluster, GROUP, ["t"])
        await member.join()
        fake.coordinator = 2
        fake.stop(1)
        await member.commit({P0: CommittedOffset(7)})
        assert fake.committed == {P0: 7}
        assert (await member.committed([P0, TopicPartition("t", 1)])) == {P0: CommittedOffset(7)}
        await member.leave()

    run(scenario, brokers=2)


def test_a_commit_of_an_old_generation_is_refused_and_joins_again() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        member = GroupMember(cluster, GROUP, ["t"])
        await member.join()
        fake.generation += 1
        with pytest.raises(RequestError, match="ILLEGAL_GENERATION"):
            await member.commit({P0: CommittedOffset(7)})
        assert member.state is MemberState.OUTSIDE
        assert fake.committed == {}
        await member.leave()

    run(scenario)


def test_who_lost_its_membership_commits_as_who_it_was() -> None:
    """As nobody it would be let through: by an empty group, and in a transaction by every group (KIP-447)."""

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Consumer(cluster, GROUP) as consumer:
            assert consumer.group_metadata == GroupMetadata("g")
            await consumer.subscribe(["t"])
            member_id, generation = consumer.membership
            fake.faults[ApiKey.HEARTBEAT].append(lambda *_: HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            await until(lambda: consumer.membership == ("", -1))
            assert consumer.group_metadata == GroupMetadata("g", generation, member_id)
            fake.generation += 1
            with pytest.raises(RequestError, match="ILLEGAL_GENERATION"):
                await consumer.commit({P0: 7})
            assert fake.committed == {}

    run(scenario)


def test_a_consumer_commits_before_it_gives_partitions_up_and_goes_on_where_it_committed() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        builder = BatchBuilder()
        for number in range(10):
            builder.append(1, None, b"%d" % number)
        fake.log(P0).append(builder.build())
        async with Consumer(cluster, GROUP) as consumer:
            await consumer.subscribe(["t"])
            offsets: list[int] = []
            while len(offsets) < 4:
                offsets += [record.offset for record in await consumer.poll(max_records=2)]
            fake.faults[ApiKey.HEARTBEAT].append(
                lambda *_: HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            )
            await asyncio.sleep(0.05)
            while len(offsets) < 10:
                offsets += [record.offset for record in await consumer.poll(max_records=2)]
            assert consumer.rebalances == 2
            assert offsets == list(range(10))
        assert fake.committed[P0] == 10

    run(scenario)


def test_a_request_for_the_controller_follows_it() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.controller = 2
        assert await Admin(cluster).create_topics([NewTopic("new", 3, 1)]) == {}
        failures = await Admin(cluster).create_topics([NewTopic("new", 3, 1), NewTopic("newer", 1, 1)])
        assert {name: failure.code for name, failure in failures.items()} == {"new": ErrorCode.TOPIC_ALREADY_EXISTS}

    fake = run(scenario, brokers=2)
    assert len(fake.topics["new"]) == 3
    assert "newer" in fake.topics


def test_a_controller_that_died_is_looked_for_again() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        assert await Admin(cluster).create_topics([NewTopic("new", 1, 1)]) == {}
        fake.stop(1)
        fake.controller = 2
        assert await Admin(cluster).create_topics([NewTopic("newer", 1, 1)]) == {}

    assert "newer" in run(scenario, brokers=2).topics
