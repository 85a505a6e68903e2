"""Scenarios of consumer groups: FindCoordinator, the classic group protocol, committed offsets, administration."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    join_group_request,
    leave_group_request,
    offset_commit_request,
    offset_fetch_request,
    sync_group_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

UNKNOWN_ID = UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)
# A consumer's subscription to "topic" and its assignment of partition 0 of it, both in version 0 of their formats.
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff"
ASSIGNMENT = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\x00\x00\x00\x01" + bytes(4) + b"\xff\xff\xff\xff"
MEMBER_ID_REQUIRED = 79
# Versions for the requests that only prepare a scenario.
JOIN, SYNC, LEAVE, COMMIT = 5, 3, 3, 8


# ---- FindCoordinator ----------------------------------------------------------------------------------------------


def find(*keys: str, key_type: int = 0) -> Any:
    return m.FindCoordinatorRequest(key=keys[0] if keys else "", key_type=key_type, coordinator_keys=list(keys))


@scenario(ApiKey.FIND_COORDINATOR)
def find_coordinator(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    session.record("of a group", find(group), version)
    session.record("of the empty group", find(""), version)
    if version >= 1:
        session.record("unknown type of key", find(group, key_type=9), version)
    if version >= 4:
        session.record("of two groups", find(group, session.name("other")), version)
        session.record("of the same group twice", find(group, group), version)
        session.record("of none", find(), version)


# ---- the classic group protocol -----------------------------------------------------------------------------------


def protocols(*names: str) -> list[Any]:
    return [join_group_request.JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in names]


def join(group: str, member: str = "", *, instance: str | None = None, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    }
    return m.JoinGroupRequest(**(fields | changes))


def joined(session: WireSession, group: str, *, instance: str | None = None) -> tuple[str, int]:
    """Joins as the only member; returns its id and the generation. The group waits for the leader's assignment."""
    answer = session.connection.ask(join(group, instance=instance), JOIN)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = session.connection.ask(join(group, answer.member_id, instance=instance), JOIN)
    assert answer.error_code == 0, answer
    return answer.member_id, answer.generation_id


def sync(group: str, member: str, generation: int, assigned: bool = True, **more: Any) -> Any:
    assignment = sync_group_request.SyncGroupRequestAssignment(member_id=member, assignment=ASSIGNMENT)
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | more
    return m.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        assignments=[assignment] if assigned else [],
        **fields,
    )


def stable(session: WireSession, group: str, *, instance: str | None = None) -> tuple[str, int]:
    """A group of one with its assignment; returns the member's id and the generation."""
    member, generation = joined(session, group, instance=instance)
    answer = session.connection.ask(sync(group, member, generation, group_instance_id=instance), SYNC)
    assert answer.error_code == 0, answer
    return member, generation


def leave(group: str, member: str, instance: str | None = None) -> Any:
    identity = leave_group_request.MemberIdentity(member_id=member, group_instance_id=instance)
    return m.LeaveGroupRequest(group_id=group, member_id=member, members=[identity])


def beat(group: str, generation: int, member: str, instance: str | None = None) -> Any:
    return m.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)


@scenario(ApiKey.JOIN_GROUP)
def join_group(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    answer = session.record("first join", join(group, protocols=protocols("range", "roundrobin")), version)
    if answer.error_code == MEMBER_ID_REQUIRED:
        again = join(group, answer.member_id, protocols=protocols("range", "roundrobin"))
        answer = session.record("with the id that was given", again, version)
    member = answer.member_id
    session.record("leader's assignment", sync(group, member, answer.generation_id), 3)
    answer = session.record("same member again", join(group, member, protocols=protocols("range")), version)
    session.record("new generation", sync(group, member, answer.generation_id), 3)


@scenario(ApiKey.JOIN_GROUP)
def join_group_refused(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)

    def ask(step: str, request: Any) -> None:
        session.record(step, request, version)

    ask("empty group", join(""))
    ask("unknown member", join(group, "nobody"))
    ask("session timeout too short", join(group, session_timeout_ms=100))
    ask("session timeout too long", join(group, session_timeout_ms=100_000_000))
    ask("no protocols", join(group, protocols=[]))
    ask("no protocol type", join(group, protocol_type=""))
    stable(session, group)
    ask("other protocol", join(group, protocols=protocols("other")))
    ask("other protocol type", join(group, protocol_type="connect"))
    ask("unknown member of a group in use", join(group, "nobody"))


@scenario(ApiKey.JOIN_GROUP)
def join_group_of_two(session: WireSession, version: int) -> None:
    """A second member makes the first rejoin; both get the same generation, the leader gets the list of members."""
    group = session.name("group")
    session.coordinator_serves(group)
    first, generation = stable(session, group)
    second = session.connect()
    request = join(group)
    second.send(request, version)
    if version >= 4:
        told = second.receive(request, version)
        request = join(group, told.member_id)
        second.send(request, version)
    # Until the first member comes back its heartbeats say that there is a rebalance.
    session.until(lambda: session.connection.ask(beat(group, generation, first), 3).error_code == 27)
    leader = session.record("leader", join(group, first), version)
    follower = second.receive(request, version)
    session.keep_answer("follower", follower, version)
    sync_second = sync(group, follower.member_id, follower.generation_id, assigned=False)
    second.send(sync_second, 3)
    both = [
        sync_group_request.SyncGroupRequestAssignment(member_id=name, assignment=data)
        for name, data in ((first, b"for the leader"), (follower.member_id, b"for the follower"))
    ]
    assigned = m.SyncGroupRequest(group_id=group, generation_id=leader.generation_id, member_id=first, assignments=both)
    session.record("leader's part", assigned, 3)
    session.keep_answer("follower's part", second.receive(sync_second, 3), 3)
    session.record("follower leaves", leave(group, follower.member_id), LEAVE)
    session.record("leader hears of it", beat(group, leader.generation_id, first), 3)


@scenario(ApiKey.JOIN_GROUP, min_version=5)
def join_group_with_static_members(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    answer = session.record("static member", join(group, instance="one"), version)
    first = answer.member_id
    session.record("its assignment", sync(group, first, answer.generation_id, group_instance_id="one"), 3)
    answer = session.record("after a restart", join(group, instance="one"), version)
    session.record("the old one is fenced", beat(group, answer.generation_id, first, "one"), 3)
    session.record("the new one is not", beat(group, answer.generation_id, answer.member_id, "one"), 3)
    session.record("wrong id for the instance", join(group, first, instance="one"), version)
    unknown = join(group, "nobody", instance="two")
    session.record("unknown member with an instance", unknown, version)


@scenario(ApiKey.SYNC_GROUP)
def sync_group(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    session.record("unknown group", sync(session.name("nowhere"), "nobody", 1), version)
    session.record("empty group", sync("", "nobody", 1), version)
    member, generation = joined(session, group)
    session.record("wrong generation", sync(group, member, generation + 5), version)
    session.record("unknown member", sync(group, "nobody", generation), version)
    if version >= 5:
        session.record("other protocol", sync(group, member, generation, protocol_name="other"), version)
        session.record("other protocol type", sync(group, member, generation, protocol_type="connect"), version)
        session.record("no protocol", sync(group, member, generation, protocol_type=None, protocol_name=None), version)
    session.record("leader", sync(group, member, generation), version)
    session.record("again", sync(group, member, generation, assigned=False), version)


@scenario(ApiKey.HEARTBEAT)
def heartbeat(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    session.record("empty group", beat("", 1, "nobody"), version)
    session.record("unknown group", beat(session.name("nowhere"), 1, "nobody"), version)
    member, generation = joined(session, group)
    session.record("before the assignment", beat(group, generation, member), version)
    session.connection.ask(sync(group, member, generation), SYNC)
    session.record("stable", beat(group, generation, member), version)
    session.record("old generation", beat(group, generation - 1, member), version)
    session.record("unknown member", beat(group, generation, "nobody"), version)
    session.connection.ask(leave(group, member), LEAVE)
    session.record("after leaving", beat(group, generation, member), version)


@scenario(ApiKey.LEAVE_GROUP)
def leave_group(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    session.record("empty group", leave("", "nobody"), version)
    session.record("unknown group", leave(session.name("nowhere"), "nobody"), version)
    member, _generation = stable(session, group)
    session.record("unknown member", leave(group, "nobody"), version)
    session.record("member", leave(group, member), version)
    session.record("again", leave(group, member), version)
    if version >= 3:
        member, _generation = stable(session, group, instance="one")
        session.record("instance without id", leave(group, "", "one"), version)
        session.record("unknown instance", leave(group, "", "two"), version)
        identity = leave_group_request.MemberIdentity
        member, _generation = stable(session, group, instance="three")
        several = m.LeaveGroupRequest(
            group_id=group,
            members=[identity(member_id="nobody"), identity(member_id=member, group_instance_id="three")],
        )
        session.record("one known, one unknown", several, version)


# ---- committed offsets --------------------------------------------------------------------------------------------


def commit(session: WireSession, group: str, topic: str, offset: int, metadata: str | None = "", **more: Any) -> Any:
    oc = offset_commit_request
    known = more.pop("known", True)
    partition = oc.OffsetCommitRequestPartition(
        partition_index=more.pop("partition", 0),
        committed_offset=offset,
        committed_leader_epoch=more.pop("leader_epoch", -1),
        committed_metadata=metadata,
    )
    topic_id = session.topic_id(topic) if known else UNKNOWN_ID
    return m.OffsetCommitRequest(
        group_id=group,
        topics=[oc.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
        **more,
    )


def committed(session: WireSession, group: str, topics: dict[str, list[int]] | None, **more: Any) -> Any:
    of = offset_fetch_request
    member: dict[str, Any] = {key: more.pop(key) for key in ("member_id", "member_epoch") if key in more}
    old = new = None
    if topics is not None:
        ids = {name: UNKNOWN_ID if "unknown" in name else session.topic_id(name) for name in topics}
        old = [of.OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        new = [
            of.OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    entry = of.OffsetFetchRequestGroup(group_id=group, topics=new, **member)
    return m.OffsetFetchRequest(group_id=group, topics=old, groups=[entry], **more)


@scenario(ApiKey.OFFSET_COMMIT)
def offset_commit(session: WireSession, version: int) -> None:
    group, topic = session.name("group"), session.topic(partitions=2)
    session.coordinator_serves(group)

    def ask(step: str, request: Any) -> None:
        session.record(step, request, version)

    ask("without members", commit(session, group, topic, 5, "half-way ü", leader_epoch=0))
    session.record("fetched", committed(session, group, {topic: [0, 1]}), 7)
    ask("null metadata", commit(session, group, topic, 6, None))
    session.record("fetched after null metadata", committed(session, group, {topic: [0]}), 7)
    ask("metadata too long", commit(session, group, topic, 7, "m" * 5000))
    ask("negative offset", commit(session, group, topic, -1))
    ask("unknown partition", commit(session, group, topic, 1, partition=9))
    ask("unknown topic", commit(session, group, session.name("unknown"), 1, known=False))
    ask("empty group", commit(session, "", topic, 1))
    ask("generation without member", commit(session, group, topic, 8, generation_id_or_member_epoch=3))
    member = {"member_id": "nobody", "generation_id_or_member_epoch": 3}
    ask("unknown member", commit(session, session.name("fresh"), topic, 8, **member))
    ask("no topics", m.OffsetCommitRequest(group_id=group))


@scenario(ApiKey.OFFSET_COMMIT)
def offset_commit_of_members(session: WireSession, version: int) -> None:
    group, topic = session.name("group"), session.topic()
    session.coordinator_serves(group)
    member, generation = joined(session, group)

    def ask(step: str, member_id: str, generation_id: int) -> None:
        request = commit(session, group, topic, 5, member_id=member_id, generation_id_or_member_epoch=generation_id)
        session.record(step, request, version)

    ask("before the assignment", member, generation)
    session.connection.ask(sync(group, member, generation), SYNC)
    ask("member", member, generation)
    ask("old generation", member, generation - 1)
    ask("unknown member", "nobody", generation)
    ask("from outside", "", -1)
    session.connection.ask(leave(group, member), LEAVE)
    ask("after leaving", member, generation)
    ask("from outside an empty group", "", -1)


@scenario(ApiKey.OFFSET_FETCH)
def offset_fetch(session: WireSession, version: int) -> None:
    group, topic, other = session.name("group"), session.topic(partitions=2), session.topic("other")
    session.coordinator_serves(group)

    def ask(step: str, request: Any) -> None:
        session.record(step, request, version)

    ask("unknown group", committed(session, session.name("nowhere"), {topic: [0]}))
    session.connection.ask(commit(session, group, topic, 5, "half-way ü", leader_epoch=0), COMMIT)
    session.connection.ask(commit(session, group, other, 7), COMMIT)
    ask("one partition", committed(session, group, {topic: [0]}))
    ask("one without offset", committed(session, group, {topic: [0, 1]}))
    ask("two topics", committed(session, group, {topic: [0], other: [0]}))
    ask("unknown partition", committed(session, group, {topic: [9]}))
    ask("unknown topic", committed(session, group, {session.name("unknown"): [0]}))
    ask("no topics", committed(session, group, {}))
    ask("empty group", committed(session, "", {topic: [0]}))
    if version >= 2:
        ask("all", committed(session, group, None))
        ask("all of an unknown group", committed(session, session.name("nowhere"), None))
    if version >= 7:
        ask("stable ones", committed(session, group, {topic: [0]}, require_stable=True))
    if version >= 9:
        member = {"member_id": "nobody", "member_epoch": 3}
        ask("unknown member", committed(session, group, {topic: [0]}, **member))


@scenario(ApiKey.OFFSET_FETCH, min_version=8)
def offset_fetch_of_the_same_again(session: WireSession, version: int) -> None:
    """Groups, topics and partitions that one request names several times."""
    of, group, topic = offset_fetch_request, session.name("group"), session.topic(partitions=2)
    session.coordinator_serves(group)
    session.connection.ask(commit(session, group, topic, 5, "here"), COMMIT)

    def entry(*indexes: int, times: int = 1) -> Any:
        fields = {"name": topic, "topic_id": session.topic_id(topic), "partition_indexes": list(indexes)}
        return of.OffsetFetchRequestGroup(group_id=group, topics=[of.OffsetFetchRequestTopics(**fields)] * times)

    every = of.OffsetFetchRequestGroup(group_id=group, topics=None)
    for step, entries in {
        "all twice": [every, every],
        "all and one": [every, entry(0)],
        "one twice": [entry(0), entry(0)],
        "one and another": [entry(0), entry(1)],
        "a topic twice": [entry(0, times=2)],
        "a partition twice": [entry(0, 1, 0)],
    }.items():
        session.record(step, m.OffsetFetchRequest(groups=entries), version)


# ---- administration -----------------------------------------------------------------------------------------------


@scenario(ApiKey.LIST_GROUPS)
def list_groups(session: WireSession, version: int) -> None:
    stable_group, empty = session.name("stable"), session.name("empty")
    topic = session.topic()
    session.coordinator_serves(stable_group)
    session.coordinator_serves(empty)
    stable(session, stable_group)
    session.connection.ask(commit(session, empty, topic, 5), COMMIT)

    def ask(step: str, **filters: Any) -> None:
        session.record(step, m.ListGroupsRequest(**filters), version, keep=session.ours)

    ask("all")
    if version >= 4:
        ask("stable", states_filter=["Stable"])
        ask("empty, in small letters", states_filter=["empty"])
        ask("unknown state", states_filter=["Sleepy"])
    if version >= 5:
        ask("classic", types_filter=["classic"])
        ask("consumer", types_filter=["consumer"])
        ask("unknown type", types_filter=["odd"])


@scenario(ApiKey.DESCRIBE_GROUPS)
def describe_groups(session: WireSession, version: int) -> None:
    group, topic = session.name("group"), session.topic()
    session.coordinator_serves(group)

    def ask(step: str, *groups: str, **more: Any) -> None:
        session.record(step, m.DescribeGroupsRequest(groups=list(groups), **more), version)

    ask("unknown group", session.name("nowhere"))
    member, generation = joined(session, group, instance="one" if version >= 4 else None)
    ask("before the assignment", group)
    instance = "one" if version >= 4 else None
    session.connection.ask(sync(group, member, generation, group_instance_id=instance), SYNC)
    ask("stable", group)
    if version >= 3:
        ask("authorised operations", group, include_authorized_operations=True)
    session.connection.ask(
        commit(session, group, topic, 5, member_id=member, generation_id_or_member_epoch=generation), COMMIT
    )
    session.connection.ask(leave(group, member, instance), LEAVE)
    ask("empty", group)
    ask("two", group, session.name("nowhere"))
    simple = session.name("simple")
    session.connection.ask(commit(session, simple, topic, 5), COMMIT)
    ask("with offsets alone", simple)


@scenario(ApiKey.DELETE_GROUPS)
def delete_groups(session: WireSession, version: int) -> None:
    group, topic = session.name("group"), session.topic()
    session.coordinator_serves(group)

    def ask(step: str, *groups: str) -> None:
        session.record(step, m.DeleteGroupsRequest(groups_names=list(groups)), version)

    ask("unknown group", session.name("nowhere"))
    ask("none")
    member, generation = stable(session, group)
    ask("with a member", group)
    session.connection.ask(
        commit(session, group, topic, 5, member_id=member, generation_id_or_member_epoch=generation), COMMIT
    )
    session.connection.ask(leave(group, member), LEAVE)
    ask("empty", group)
    ask("again", group)
    session.record("its offsets", committed(session, group, {topic: [0]}), 7)


@scenario(ApiKey.DELETE_GROUPS)
def delete_the_group_without_a_name(session: WireSession, version: int) -> None:
    """Consumers of before KIP-289 committed to it; whoever cleans up must be able to delete it."""
    session.coordinator_serves(session.name("group"))
    request = m.DeleteGroupsRequest(groups_names=[""])
    session.connection.ask(request, version)
    session.record("not there", request, version)
    session.connection.ask(commit(session, "", session.topic(), 5), COMMIT)
    session.record("there", request, version)
    session.record("gone", request, version)
