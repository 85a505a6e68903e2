"""A group between the protocols, whatever its members say: nothing that a client chooses may break a rule of ours.

Beside Apache Kafka 4.3: tests/conformance/groups/test_mixed_groups_as_kafka.py.
"""

from __future__ import annotations

import asyncio

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import decode_assignment, encode_assignment
from kavka.coordinator.groups.classic.decide.membership import GroupState, SyncRequest
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import GROUP, Case, subscription, told
from tests.kit.virtual_time import in_virtual_time

HALF, OTHER_HALF = encode_assignment({"t": [0, 1]}, 1), encode_assignment({"t": [2, 3]}, 1)
ALL = encode_assignment({"t": [0, 1, 2, 3]}, 1)
USER_DATA = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + bytes(4) + b"\x00\x00\x00\x01x"
"""Partition 0 of topic t, and a byte that only the group's own assignor understands."""
GARBAGE = [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\xff\xff"]


def test_a_group_in_a_rolling_change_of_its_assignor_is_upgraded() -> None:
    """One member has given up the protocol in force, the other one has not joined again yet."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        both = ("range", "cooperative-sticky")
        changing, other = await case.two_classic_members(HALF, OTHER_HALF, *both)
        held = asyncio.ensure_future(case.join(changing.member_id, "cooperative-sticky"))
        await asyncio.sleep(0)
        new = await case.beat("new")
        assert (await held).error is ErrorCode.REBALANCE_IN_PROGRESS
        assert new.member_epoch > changing.generation
        again = await case.join(changing.member_id, "cooperative-sticky", owned={"t": [0, 1]})
        assert again.protocol == "cooperative-sticky"
        mine = decode_assignment((await case.sync(again, protocol="cooperative-sticky")).assignment).partitions["t"]
        with pytest.raises(RequestError) as rebalance:
            groups.heartbeat(GROUP, other.member_id, None, other.generation)
        assert rebalance.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        again = await case.join(other.member_id, *both, owned={"t": [2, 3]})
        theirs = decode_assignment((await case.sync(again)).assignment).partitions["t"]
        assert not set(mine) & set(theirs)

    in_virtual_time(scenario)


@pytest.mark.parametrize("meanwhile", ["nothing", "another joins", "the leader's assignment is refused"])
def test_what_members_had_before_a_generation_that_is_not_complete_stays_theirs(meanwhile: str) -> None:
    """Cooperative consumers read on through it. Who joined then was given the same partitions."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        joining = asyncio.ensure_future(case.join())
        await asyncio.sleep(0)
        old = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        await joining
        if meanwhile == "another joins":
            joining = asyncio.ensure_future(case.join())
            await asyncio.sleep(0)
        elif meanwhile != "nothing":
            case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            await case.sync(old, {old.member_id: HALF})
        new = await case.beat("new")
        assert told(new) == []
        with pytest.raises(RequestError) as rebalance:
            groups.heartbeat(GROUP, old.member_id, None, old.generation)
        assert rebalance.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        again = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        keeps = decode_assignment((await case.sync(again)).assignment).partitions["t"]
        assert told(await case.beat("new", new.member_epoch, owned={}, rebalance_timeout_ms=1, topics=["t"])) == []
        await case.join(old.member_id, owned={"t": keeps})
        shown = told(await case.beat("new", new.member_epoch))
        assert shown
        assert not set(shown) & set(keeps)

    in_virtual_time(scenario)


def test_a_group_that_has_just_become_classic_rebalances_though_its_coordinator_changes() -> None:
    """What the member that left had was read by nobody, until something else had the group rebalance."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        old = await case.classic_member()
        new = await case.beat("new")
        first = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        keeps = decode_assignment((await case.sync(first)).assignment).partitions["t"]
        first = await case.join(old.member_id, owned={"t": keeps})
        await case.sync(first)
        assert told(await case.beat("new", new.member_epoch, owned={}))
        assert case.state == "Stable"
        await case.beat("new", -1)
        groups = await case.start()
        with pytest.raises(RequestError) as rebalance:
            groups.heartbeat(GROUP, old.member_id, None, first.generation)
        assert rebalance.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        again = await case.join(old.member_id, owned={"t": keeps})
        assert (again.leader, again.generation) == (old.member_id, first.generation + 1)

    in_virtual_time(scenario)


@pytest.mark.parametrize("assignment", [data for data in GARBAGE if data])
def test_a_group_whose_assignments_cannot_be_read_stays_as_it_is(assignment: bytes) -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.join()
        await case.sync(old, {old.member_id: assignment})
        with pytest.raises(RequestError) as refused:
            await case.beat("new")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.value.message.endswith("because the embedded consumer protocol is malformed.")
        groups.heartbeat(GROUP, old.member_id, None, old.generation)

    in_virtual_time(scenario)


@pytest.mark.parametrize("metadata", GARBAGE)
def test_a_group_whose_subscriptions_cannot_be_read_stays_as_it_is(metadata: bytes) -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.join(metadata=metadata)
        await case.sync(old, {old.member_id: ALL})
        with pytest.raises(RequestError) as refused:
            await case.beat("new")
        assert refused.value.message.endswith("because the embedded consumer protocol is malformed.")
        groups.heartbeat(GROUP, old.member_id, None, old.generation)

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    "assignments",
    [pytest.param((USER_DATA, b""), id="data of an assignor of its own"), pytest.param((ALL, HALF), id="shared")],
)
def test_a_group_with_an_assignor_that_only_it_has_stays_as_it_is(assignments: tuple[bytes, bytes]) -> None:
    """What such an assignor does, one of the broker's could not go on with: Kafka Streams' tasks, for one; or it gives
    a partition to several members, which G1 forbids."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        members = await case.two_classic_members(*assignments)
        with pytest.raises(RequestError) as refused:
            await case.beat("new")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert "because an unsupported custom assignor is in use." in refused.value.message
        for member in members:
            groups.heartbeat(GROUP, member.member_id, None, member.generation)

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("limits", "protocol_type", "why"),
    [
        ({"upgrade_allowed": False}, "consumer", "because online upgrade is disabled."),
        ({}, "connect", "because the group does not use the consumer embedded protocol."),
        ({"max_size": 1}, "consumer", "because the group size exceeds the consumer group maximum size."),
    ],
)
def test_a_refused_upgrade_says_why(limits: dict[str, object], protocol_type: str, why: str) -> None:
    async def scenario() -> None:
        case = Case(**limits)
        await case.start()
        case.protocol_type = protocol_type
        await case.two_classic_members(HALF, OTHER_HALF)
        with pytest.raises(RequestError) as refused:
            await case.beat("new")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.value.message == f"Cannot upgrade classic group {GROUP} to consumer group {why}"

    in_virtual_time(scenario)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("topics", [("t",), ("t", "u")])
def test_partitions_that_do_not_exist_are_given_to_nobody(assignor: str, topics: tuple[str, ...]) -> None:
    """A leader may assign any number; with topics that differ from member to member the assignor indexes by it."""

    async def scenario() -> None:
        case = Case(assignors=(assignor,))
        case.topics.put("u", 2)
        await case.start()
        old = await case.join(topics=topics)
        await case.sync(old, {old.member_id: encode_assignment({"t": [-5, -1, 0, 99], "gone": [1]}, 1)})
        new = await case.beat("new")
        assert new.assignment is not None
        again = await case.join(old.member_id, owned={}, topics=topics)
        mine = decode_assignment((await case.sync(again)).assignment).partitions
        new = await case.beat("new", new.member_epoch, owned={})
        group = case.groups.describe_consumer_group(GROUP)
        assert group is not None
        target = [
            (topic_id, number)
            for part in group.target.values()
            for topic_id, numbers in part.items()
            for number in numbers
        ]
        wanted = [(case.topics.put("t", 4), number) for number in range(4)]
        if "u" in topics:
            wanted += [(case.topics.put("u", 2), number) for number in range(2)]
        assert sorted(target) == sorted(wanted)
        assert not set(mine["t"]) & {-5, -1, 99}

    in_virtual_time(scenario)


def test_a_classic_member_does_not_join_again_before_there_is_something_to_join_for() -> None:
    """Members that come at once are assigned together (group.consumer.assignment.interval.ms). Until then a classic
    member was sent from its SyncGroup to JoinGroup and back, as fast as it could, with nothing to read meanwhile."""

    async def scenario() -> None:
        case = Case(assignment_interval_ms=1_000)
        groups = await case.start()
        old = await case.classic_member()
        await case.beat("new")
        old = await case.join(old.member_id, owned={"t": [0, 1, 2, 3]})
        mine = decode_assignment((await case.sync(old)).assignment).partitions["t"]
        old = await case.join(old.member_id, owned={"t": mine})
        await case.beat("newer")
        assert case.state == "Assigning"
        again = await case.join(old.member_id, owned={"t": mine})
        assert again.generation == old.generation
        assert decode_assignment((await case.sync(again)).assignment).partitions["t"] == mine
        groups.heartbeat(GROUP, old.member_id, None, old.generation)
        await asyncio.sleep(1.1)
        with pytest.raises(RequestError) as rebalance:
            groups.heartbeat(GROUP, old.member_id, None, old.generation)
        assert rebalance.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        await case.join(old.member_id, owned={"t": mine})
        assert case.state == "Reconciling"

    in_virtual_time(scenario)


def test_a_member_whose_first_choice_cannot_be_read_is_answered_in_the_lowest_version() -> None:
    """The group works with another one of its protocols, and is upgraded with that."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        case.metadata["odd"] = b""
        case.topics.remove("t")
        leader = await case.join("", "odd", "range")
        joining = asyncio.ensure_future(case.join("", "range"))
        await asyncio.sleep(0)
        leader = await case.join(leader.member_id, "odd", "range")
        follower = await joining
        await asyncio.gather(case.sync(leader, {}), case.sync(follower))
        # Nothing to read for anybody: the upgrade raises no epoch, and the old members may go on without a join.
        await case.beat("new", topics=[])
        synced = await groups.sync(GROUP, SyncRequest(leader.member_id, None, leader.generation, None, None, {}))
        assert (synced.error, decode_assignment(synced.assignment)[0]) == (ErrorCode.NONE, {})

    in_virtual_time(scenario)


def test_a_static_member_that_takes_a_group_back_amid_a_change_has_it_rebalance() -> None:
    """What the others have then is not what they are to have: somebody must assign anew."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        old = await case.classic_member()
        static = await case.beat("new", instance_id="i")
        assert told(static) == [], "the classic member has everything still"
        back = await case.join(instance="i")
        assert back.error is ErrorCode.NONE
        group = groups.describe_group(GROUP)
        assert group is not None
        assert group.state is GroupState.PREPARING_REBALANCE
        joined = await asyncio.gather(case.join(old.member_id), case.join(back.member_id, instance="i"))
        assert {answer.generation for answer in joined} == {back.generation + 1}

    in_virtual_time(scenario)


@pytest.mark.parametrize("member_id", ["", "new"], ids=["of a new client", "under its own id"])
def test_a_static_member_that_takes_a_settled_group_back_disturbs_nobody(member_id: str) -> None:
    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        epoch = (await case.beat("new", instance_id="i")).member_epoch
        back = await case.join(member_id, instance="i", owned={"t": [0, 1, 2, 3]})
        assert back.generation == epoch
        group = groups.describe_group(GROUP)
        assert group is not None
        assert group.state is GroupState.STABLE
        assert decode_assignment((await case.sync(back, instance="i")).assignment).partitions == {"t": [0, 1, 2, 3]}
        groups.heartbeat(GROUP, back.member_id, "i", back.generation)

    in_virtual_time(scenario)


def test_a_static_member_that_comes_back_with_other_topics_has_the_group_it_takes_back_rebalance() -> None:
    async def scenario() -> None:
        case = Case()
        case.topics.put("u", 1)
        groups = await case.start()
        await case.beat("new", instance_id="i")
        await case.join(instance="i", topics=("t", "u"))
        group = groups.describe_group(GROUP)
        assert group is not None
        assert group.state is GroupState.PREPARING_REBALANCE

    in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("upgrade", "downgrade", "joins"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_where_groups_may_not_change_their_protocol_no_classic_member_joins(
    upgrade: bool, downgrade: bool, joins: bool
) -> None:
    """group.consumer.migration.policy: only `disabled` keeps classic members out of a group of the newer protocol."""

    async def scenario() -> None:
        case = Case(upgrade_allowed=upgrade, downgrade_allowed=downgrade)
        await case.start()
        await case.beat("new")
        if joins:
            assert (await case.join()).error is ErrorCode.NONE
            return
        with pytest.raises(RequestError) as refused:
            await case.join()
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    in_virtual_time(scenario)


def test_a_member_id_that_no_answer_could_carry_is_not_made() -> None:
    """Ids are made of what the client calls itself, and a string of the protocol has at most 32,767 bytes."""

    async def scenario() -> None:
        case = Case()
        groups = await case.start()
        with pytest.raises(RequestError) as refused:
            await case.join(instance="i" * 32_760)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert groups.list_groups() == []

    in_virtual_time(scenario)


def test_subscriptions_are_read_as_kafka_reads_them() -> None:
    """Bytes that are not UTF-8 are a name that no topic has, no malformed subscription."""

    async def scenario() -> None:
        case = Case()
        await case.start()
        await case.beat("new")
        joined = await case.join(metadata=b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x02\xff\xfe" + bytes(4))
        assert joined.error is ErrorCode.NONE
        joined = await case.join(metadata=subscription("t")[:-1] + b"\x00 and what a later version adds")
        assert joined.error is ErrorCode.NONE

    in_virtual_time(scenario)
