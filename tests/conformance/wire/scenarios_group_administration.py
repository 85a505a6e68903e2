"""Scenarios of who looks after groups: offsets deleted, lists by filters, groups of other kinds, coordinators."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    join_group_request,
    leave_group_request,
    offset_commit_request,
    offset_delete_request,
    sync_group_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_groups import COMMIT, JOIN, LEAVE, MEMBER_ID_REQUIRED, SYNC, commit, join, leave
from tests.conformance.wire.wire_session import WireSession

GROUP, TRANSACTION, SHARE = 0, 1, 2


def subscription(*topics: str) -> bytes:
    """A consumer's subscription in version 0 of its format."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def stable(session: WireSession, group: str, metadata: bytes, protocol_type: str = "consumer") -> tuple[str, int]:
    """A group of one, whose member sends `metadata`; returns the member's id and the generation."""
    protocols = [join_group_request.JoinGroupRequestProtocol(name="range", metadata=metadata)]
    answer = session.connection.ask(join(group, protocols=protocols, protocol_type=protocol_type), JOIN)
    if answer.error_code == MEMBER_ID_REQUIRED:
        again = join(group, answer.member_id, protocols=protocols, protocol_type=protocol_type)
        answer = session.connection.ask(again, JOIN)
    assert answer.error_code == 0, answer
    assigned = sync_group_request.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"")
    request = m.SyncGroupRequest(
        group_id=group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=[assigned]
    )
    assert session.connection.ask(request, SYNC).error_code == 0
    return answer.member_id, answer.generation_id


@scenario(ApiKey.OFFSET_DELETE)
def offset_delete(session: WireSession, version: int) -> None:
    od = offset_delete_request
    topic, other = session.topic(partitions=2), session.topic("other")
    group, unknown = session.name("group"), session.name("unknown")
    session.coordinator_serves(group)

    def ask(step: str, wanted_group: str, *wanted: tuple[str, list[int]]) -> None:
        topics = [
            od.OffsetDeleteRequestTopic(
                name=name, partitions=[od.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in wanted
        ]
        session.record(step, m.OffsetDeleteRequest(group_id=wanted_group, topics=topics), version)

    ask("unknown group", session.name("nowhere"), (topic, [0]))
    ask("unknown group, unknown topic", session.name("nowhere"), (unknown, [0]))
    ask("empty group", "", (topic, [0]))
    for name in (topic, other):
        session.connection.ask(commit(session, group, name, 5), COMMIT)
    ask("one", group, (topic, [0]))
    ask("again", group, (topic, [0]))
    ask("one without an offset", group, (topic, [1]))
    ask("unknown partition", group, (topic, [9]))
    ask("unknown topic", group, (unknown, [0]))
    ask("known and unknown", group, (other, [0]), (unknown, [0]))
    ask("topic twice", group, (topic, [0]), (topic, [1]))
    ask("partition twice", group, (topic, [0, 0]))
    ask("topic without partitions", group, (topic, []))
    ask("no topics", group)
    simple = session.name("simple")
    session.connection.ask(commit(session, simple, topic, 5), COMMIT)
    ask("the last one of a group", simple, (topic, [0]))
    ask("of the group that has none left", simple, (topic, [0]))


@scenario(ApiKey.OFFSET_DELETE)
def offset_delete_beside_members(session: WireSession, version: int) -> None:
    od = offset_delete_request
    topic, other = session.topic(), session.topic("other")
    consumers, others, odd = session.name("consumers"), session.name("others"), session.name("odd")
    session.coordinator_serves(consumers)

    def ask(step: str, group: str, *names: str) -> None:
        one = od.OffsetDeleteRequestPartition(partition_index=0)
        topics = [od.OffsetDeleteRequestTopic(name=name, partitions=[one]) for name in names]
        session.record(step, m.OffsetDeleteRequest(group_id=group, topics=topics), version)

    member, generation = stable(session, consumers, subscription(topic))
    for name in (topic, other):
        request = commit(session, consumers, name, 5, member_id=member, generation_id_or_member_epoch=generation)
        assert session.connection.ask(request, COMMIT).topics[0].partitions[0].error_code == 0
    ask("subscribed", consumers, topic)
    ask("not subscribed", consumers, other)
    ask("both", consumers, topic, other)
    session.connection.ask(leave(consumers, member), LEAVE)
    ask("after leaving", consumers, topic)
    stable(session, others, b"anything", "connect")
    ask("members that are no consumers", others, topic)
    stable(session, odd, b"x")
    ask("a subscription that nobody can read", odd, topic)


@scenario(ApiKey.LIST_GROUPS, min_version=4)
def list_groups_by_filters(session: WireSession, version: int) -> None:
    consumers, others, empty = session.name("consumers"), session.name("others"), session.name("empty")
    session.coordinator_serves(consumers)
    stable(session, consumers, subscription("topic"))
    stable(session, others, b"anything", "connect")
    session.connection.ask(commit(session, empty, session.topic(), 5), COMMIT)

    def ask(step: str, **filters: Any) -> None:
        session.record(step, m.ListGroupsRequest(**filters), version, keep=session.ours)

    ask("two states", states_filter=["Stable", "Empty"])
    ask("a state twice", states_filter=["Stable", "stable"])
    ask("a known and an unknown state", states_filter=["Stable", "Sleepy"])
    ask("the state without a name", states_filter=[""])
    for state in ("PreparingRebalance", "CompletingRebalance", "Dead", "Assigning", "Reconciling", "STABLE"):
        ask(f"state {state}", states_filter=[state])
    if version >= 5:
        ask("state and type", states_filter=["Empty"], types_filter=["classic"])
        ask("state and another type", states_filter=["Empty"], types_filter=["consumer"])
        ask("two types", types_filter=["classic", "consumer"])
        ask("a known and an unknown type", types_filter=["classic", "odd"])
        ask("the type without a name", types_filter=[""])
        for kind in ("Classic", "CLASSIC", "Consumer", "share", "streams", "unknown"):
            ask(f"type {kind}", types_filter=[kind])


@scenario(ApiKey.DESCRIBE_GROUPS)
def describe_groups_of_all_kinds(session: WireSession, version: int) -> None:
    consumers, others, nowhere = session.name("consumers"), session.name("others"), session.name("nowhere")
    session.coordinator_serves(consumers)

    def ask(step: str, *groups: str, **more: Any) -> None:
        session.record(step, m.DescribeGroupsRequest(groups=list(groups), **more), version)

    ask("none")
    ask("empty name", "")
    ask("unknown ones", nowhere, session.name("neither"))
    ask("unknown one twice", nowhere, nowhere)
    stable(session, consumers, subscription("topic"))
    stable(session, others, b"anything", "connect")
    ask("no consumers", others)
    ask("twice", others, others)
    if version >= 3:
        asked = {"include_authorized_operations": True}
        ask("authorised operations of an unknown one", nowhere, **asked)


@scenario(ApiKey.DELETE_GROUPS)
def delete_groups_of_all_kinds(session: WireSession, version: int) -> None:
    consumers, others, nowhere = session.name("consumers"), session.name("others"), session.name("nowhere")
    topic = session.topic()
    session.coordinator_serves(consumers)
    stable(session, others, b"anything", "connect")
    session.connection.ask(commit(session, consumers, topic, 5), COMMIT)

    def ask(step: str, *groups: str) -> None:
        session.record(step, m.DeleteGroupsRequest(groups_names=list(groups)), version)

    ask("unknown twice", nowhere, nowhere)
    ask("empty name beside another", "", nowhere)
    ask("one twice", consumers, consumers)
    ask("members that are no consumers", others)


@scenario(ApiKey.CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(session: WireSession, version: int) -> None:
    classic, offsets = session.name("classic"), session.name("offsets")
    nowhere = session.name("nowhere")
    session.coordinator_serves(classic)
    stable(session, classic, subscription("topic"))
    session.connection.ask(commit(session, offsets, session.topic(), 5), COMMIT)

    def ask(step: str, *groups: str, **more: Any) -> None:
        session.record(step, m.ConsumerGroupDescribeRequest(group_ids=list(groups), **more), version)

    ask("none")
    ask("unknown", nowhere)
    ask("unknown twice", nowhere, nowhere)
    ask("empty name", "")
    ask("null beside a name", "", nowhere)
    ask("classic", classic)
    ask("with offsets alone", offsets)
    ask("two", classic, nowhere)
    ask("authorised operations", nowhere, include_authorized_operations=True)


@scenario(ApiKey.FIND_COORDINATOR, min_version=1)
def find_coordinator_of_each_kind(session: WireSession, version: int) -> None:
    group, transaction = session.name("group"), session.name("transaction")
    session.coordinator_serves(group)

    def ask(step: str, kind: int, *keys: str) -> None:
        request = m.FindCoordinatorRequest(key=keys[0] if keys else "", key_type=kind, coordinator_keys=list(keys))
        session.record(step, request, version)

    def found() -> bool:
        request = m.FindCoordinatorRequest(key=transaction, key_type=TRANSACTION)
        return bool(session.connection.ask(request, 3).error_code == 0)

    session.until(found)
    ask("of a transaction", TRANSACTION, transaction)
    ask("of the transaction without a name", TRANSACTION, "")
    ask("of a negative type", -1, group)
    if version >= 4:
        ask("of two transactions", TRANSACTION, transaction, session.name("other"))
        ask("of a transaction twice", TRANSACTION, transaction, transaction)
        ask("of no transaction", TRANSACTION)
        ask("of two groups, one without a name", GROUP, group, "")
        ask("unknown type of two", 9, group, session.name("other"))
        ask("unknown type of none", 9)
    if version < 6:
        ask("of a share group's partition, too early", SHARE, f"{group}:AAAAAAAAAAAAAAAAAAAAAQ:0")


@scenario(ApiKey.LEAVE_GROUP, min_version=3)
def leave_group_of_several(session: WireSession, version: int) -> None:
    group = session.name("group")
    session.coordinator_serves(group)
    identity = leave_group_request.MemberIdentity

    def ask(step: str, *members: Any) -> None:
        session.record(step, m.LeaveGroupRequest(group_id=group, members=list(members)), version)

    ask("nobody of an unknown group")
    member, _generation = stable(session, group, subscription("topic"))
    ask("nobody")
    ask("neither id nor instance", identity(member_id=""))
    ask("an id with an instance that it has not", identity(member_id=member, group_instance_id="one"))
    ask("twice", identity(member_id=member), identity(member_id=member))
    ask("of the empty group", identity(member_id=member))


@scenario(ApiKey.OFFSET_COMMIT)
def offset_commit_of_the_same_again(session: WireSession, version: int) -> None:
    oc, group, topic = offset_commit_request, session.name("group"), session.topic(partitions=2)
    session.coordinator_serves(group)
    topic_id = session.topic_id(topic)

    def partition(index: int, offset: int) -> Any:
        return oc.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")

    def ask(step: str, *topics: list[Any]) -> None:
        wanted = [oc.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=each) for each in topics]
        session.record(step, m.OffsetCommitRequest(group_id=group, topics=wanted), version)

    ask("a partition twice", [partition(0, 5), partition(0, 6)])
    ask("a topic twice", [partition(0, 7)], [partition(1, 8)])
    ask("known and unknown", [partition(0, 7), partition(9, 8)])
    ask("no partitions", [])


@scenario(ApiKey.JOIN_GROUP, min_version=5)
def join_group_without_a_known_member(session: WireSession, version: int) -> None:
    """Ids and names at their edges, each in a group of its own: who is taken in there waits for nobody."""

    def ask(step: str, **fields: Any) -> None:
        group = session.name(step)
        session.coordinator_serves(group)
        session.record(step, join(group, **fields), version)

    ask("empty instance", instance="")
    ask("illegal instance", instance="no spaces")
    ask("instance of two dots", instance="..")
    ask("negative session timeout", session_timeout_ms=-1)
