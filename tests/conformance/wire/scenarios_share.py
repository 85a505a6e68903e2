"""Scenarios of share groups (KIP-932): their members, positions and deletion. Apache Kafka 3.9 has none of them."""

from __future__ import annotations

import uuid
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import alter_share_group_offsets_request as altering
from kavka.protocol.messages import delete_share_group_offsets_request as deleting
from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages import share_acknowledge_request as acknowledging
from kavka.protocol.messages import share_fetch_request as fetching
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_groups import stable
from tests.conformance.wire.wire_session import WireSession, batch

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
LAST_OFFSET = 2**63 - 1
UNKNOWN_ID = uuid.UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0001)


def beat(group: str, member: str, epoch: int, *topics: str) -> Any:
    return m.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )


def describe(group: str, topics: dict[str, list[int]] | None) -> Any:
    listed = None
    if topics is not None:
        listed = [
            describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    wanted = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=listed)
    return m.DescribeShareGroupOffsetsRequest(groups=[wanted])


def alter(group: str, topics: dict[str, dict[int, int]]) -> Any:
    listed = [
        altering.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in topics.items()
    ]
    return m.AlterShareGroupOffsetsRequest(group_id=group, topics=listed)


def delete(group: str, *topics: str) -> Any:
    listed = [deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return m.DeleteShareGroupOffsetsRequest(group_id=group, topics=listed)


def fetch(group: str, member: str, epoch: int, topic: uuid.UUID, *acks: Any, partition: int = 0, **fields: Any) -> Any:
    batches = [fetching.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=c) for a, b, c in acks]
    wanted = fetching.FetchPartition(partition_index=partition, acknowledgement_batches=batches)
    return m.ShareFetchRequest(
        **{
            "group_id": group,
            "member_id": member,
            "share_session_epoch": epoch,
            "max_wait_ms": 2_000,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [fetching.FetchTopic(topic_id=topic, partitions=[wanted])],
            **fields,
        }
    )


def acknowledge(group: str, member: str, epoch: int, topic: uuid.UUID, *acks: Any, **fields: Any) -> Any:
    batches = [
        acknowledging.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=c) for a, b, c in acks
    ]
    partition = acknowledging.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    return m.ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=[acknowledging.AcknowledgeTopic(topic_id=topic, partitions=[partition])],
        **fields,
    )


class Queue:
    """A share group with one member, on a topic of one partition with ten records, from the first on."""

    def __init__(self, session: WireSession, records: int = 10) -> None:
        self.session = session
        self.group, self.topic = session.name("shares"), session.topic()
        self.topic_id = session.topic_id(self.topic)
        session.coordinator_serves(self.group)
        change = configs.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = configs.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group, configs=[change]
        )
        answer = session.connection.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer
        session.produced(self.topic, batch([b"x"] * records))
        self.member = str(uuid.uuid4())
        self.epoch = self.joined(self.member)

    def joined(self, member: str) -> int:
        """The member's epoch once it has a partition."""
        epoch = 0

        def is_assigned() -> bool:
            nonlocal epoch
            answer = self.session.connection.ask(beat(self.group, member, epoch, *([self.topic] * (not epoch))), 1)
            assert answer.error_code in (0, 15, 16), answer
            epoch = epoch if answer.error_code else answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        self.session.until(is_assigned)
        return epoch

    def left(self, member: str = "") -> None:
        answer = self.session.connection.ask(beat(self.group, member or self.member, -1), 1)
        assert answer.error_code == 0, answer

    def took(self, member: str = "", **fields: Any) -> None:
        """The member has opened its share session and acquired records."""
        request = fetch(self.group, member or self.member, 0, self.topic_id, **fields)
        answer = self.session.connection.ask(request, 2)
        assert answer.responses[0].partitions[0].acquired_records, answer

    def has_lag(self, lag: int) -> bool:
        answer = self.session.connection.ask(describe(self.group, {self.topic: [0]}), 1)
        return bool(answer.groups[0].topics[0].partitions[0].lag == lag)


def without_epochs(session: WireSession, *steps: str) -> None:
    """Leader epochs of states are raised by who reads first, and differ by history."""
    for step in steps:
        for group in session.recorded[step]["groups"]:
            for topic in group["topics"]:
                for partition in topic["partitions"]:
                    partition.pop("leader_epoch")


@scenario(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets(session: WireSession, version: int) -> None:
    queue = Queue(session)
    nowhere = session.name("nowhere")
    session.record("unknown group, all", describe(session.name("none"), None), version)
    session.record("unknown group, a partition", describe(session.name("none"), {queue.topic: [0]}), version)
    session.record("group without a name", describe("", None), version)
    session.record("no topic", describe(queue.group, {}), version)
    session.record("no group", m.DescribeShareGroupOffsetsRequest(groups=[]), version)
    session.record("unknown topic", describe(queue.group, {nowhere: [0, 1]}), version)
    queue.took()
    done = acknowledge(queue.group, queue.member, 1, queue.topic_id, (0, 3, [ACCEPT]), (6, 7, [REJECT]))
    assert session.connection.ask(done, 2).responses[0].partitions[0].error_code == 0
    session.until(lambda: queue.has_lag(4))
    session.record("four accepted, two rejected", describe(queue.group, {queue.topic: [0]}), version)
    session.record("all of a group", describe(queue.group, None), version)
    both = describe(queue.group, {queue.topic: [0], nowhere: [0]})
    session.record("with an unknown topic", both, version)
    without_epochs(session, "four accepted, two rejected", "all of a group", "with an unknown topic")
    stable(session, session.name("classic"))
    session.record("a classic group", describe(session.name("classic"), None), version)


@scenario(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
def alter_share_group_offsets(session: WireSession, version: int) -> None:
    queue = Queue(session)
    nowhere, fresh = session.name("nowhere"), session.name("fresh")
    session.record("with a member", alter(queue.group, {queue.topic: {0: 3}}), version)
    queue.left()
    session.record("group without a name", alter("", {queue.topic: {0: 3}}), version)
    session.record("no topic", alter(queue.group, {}), version)
    session.record("unknown topic", alter(queue.group, {nowhere: {0: 3, 1: 4}}), version)
    session.record("partition that is not there", alter(queue.group, {queue.topic: {0: 2, 7: 3}}), version)
    session.record("what is there", describe(queue.group, {queue.topic: [0]}), 1)
    session.record("forwards", alter(queue.group, {queue.topic: {0: 6}}), version)
    session.record("forwards, described", describe(queue.group, {queue.topic: [0]}), 1)
    session.record("behind the end", alter(queue.group, {queue.topic: {0: 600}}), version)
    session.record("behind the end, described", describe(queue.group, {queue.topic: [0]}), 1)
    session.record("a group that is not there", alter(fresh, {queue.topic: {0: 5}}), version)
    session.record("it is there then", describe(fresh, None), 1)
    session.record("and is listed", m.ListGroupsRequest(types_filter=["share"]), 5, keep=session.ours)
    session.record("and goes", m.DeleteGroupsRequest(groups_names=[fresh]), 2)
    stable(session, session.name("classic"))
    session.record("a classic group", alter(session.name("classic"), {queue.topic: {0: 5}}), version)


@scenario(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
def delete_share_group_offsets(session: WireSession, version: int) -> None:
    queue = Queue(session)
    other, nowhere = session.topic("other"), session.name("nowhere")
    session.topic_id(other)
    session.record("with a member", delete(queue.group, queue.topic), version)
    queue.left()
    session.record("group without a name", delete("", queue.topic), version)
    session.record("unknown group", delete(session.name("none"), queue.topic), version)
    session.record("no topic", delete(queue.group), version)
    session.record("unknown topic", delete(queue.group, nowhere), version)
    session.record("topic that it does not read", delete(queue.group, other), version)
    session.record("its topic, with an unknown one", delete(queue.group, queue.topic, nowhere), version)
    session.record("again", delete(queue.group, queue.topic), version)
    session.record("what is left", describe(queue.group, {queue.topic: [0]}), 1)
    session.record("what is left in all", describe(queue.group, None), 1)
    stable(session, session.name("classic"))
    session.record("a classic group", delete(session.name("classic"), queue.topic), version)


@scenario(ApiKey.DELETE_GROUPS, min_version=2, beside=ApiKey.SHARE_GROUP_HEARTBEAT)
def delete_share_groups(session: WireSession, version: int) -> None:
    queue = Queue(session)
    session.record("with a member", m.DeleteGroupsRequest(groups_names=[queue.group]), version)
    queue.left()
    session.record("empty", m.DeleteGroupsRequest(groups_names=[queue.group]), version)
    session.record("again", m.DeleteGroupsRequest(groups_names=[queue.group]), version)
    session.record("described", describe(queue.group, {queue.topic: [0]}), 1)
    queue.joined(queue.member)
    queue.took()  # Everything, from the start: nothing is left of what the former group of this name did.
    session.record("a new one of this name, described", describe(queue.group, {queue.topic: [0]}), 1)
    without_epochs(session, "a new one of this name, described")


@scenario(ApiKey.LIST_GROUPS, min_version=5, beside=ApiKey.SHARE_GROUP_HEARTBEAT)
def list_share_groups(session: WireSession, version: int) -> None:
    queue = Queue(session)

    def listed(step: str, states: list[str], types: list[str]) -> None:
        request = m.ListGroupsRequest(states_filter=states, types_filter=types)
        session.record(step, request, version, keep=session.ours)

    listed("share", [], ["share"])
    listed("Share, stable", ["Stable"], ["Share"])
    listed("consumer", [], ["consumer"])
    listed("empty", ["Empty"], ["share"])
    queue.left()
    listed("without members", ["empty"], ["share"])


@scenario(ApiKey.SHARE_ACKNOWLEDGE, min_version=2)
def share_acknowledge_refused(session: WireSession, version: int) -> None:
    """What is not held, is another's, comes twice, overlaps or is reversed; and sessions' epochs."""
    queue = Queue(session)
    group, member, topic, other = queue.group, queue.member, queue.topic_id, str(uuid.uuid4())
    queue.joined(other)

    def ask(step: str, *acks: Any, epoch: int, who: str = member, where: uuid.UUID = topic, **fields: Any) -> None:
        session.record(step, acknowledge(group, who, epoch, where, *acks, **fields), version)

    ask("without a session", (0, 0, [ACCEPT]), epoch=1)
    ask("in the first epoch", (0, 0, [ACCEPT]), epoch=0)
    queue.took(max_records=4, share_acquire_mode=1)
    connection = session.connect()
    session.connection, mine = connection, session.connection
    queue.took(other)
    session.connection = mine
    ask("another's", (4, 9, [ACCEPT]), epoch=1)
    ask("partly another's", (2, 5, [ACCEPT]), epoch=2)
    ask("past the end", (0, 20, [ACCEPT]), epoch=3)
    ask("reversed", (3, 0, [ACCEPT]), epoch=4)
    ask("overlapping", (0, 2, [ACCEPT]), (1, 3, [ACCEPT]), epoch=5)
    ask("out of order", (2, 3, [ACCEPT]), (0, 1, [ACCEPT]), epoch=6)
    ask("two types for four records", (0, 3, [ACCEPT, REJECT]), epoch=7)
    ask("no type", (0, 3, []), epoch=8)
    ask("unknown type", (0, 3, [5]), epoch=9)
    ask("negative type", (0, 3, [-1]), epoch=10)
    ask("renewal that is not announced", (0, 3, [RENEW]), epoch=11)
    ask("unknown topic", (0, 3, [ACCEPT]), epoch=12, where=UNKNOWN_ID)
    ask("stale epoch", (0, 3, [ACCEPT]), epoch=12)
    ask("epoch to come", (0, 3, [ACCEPT]), epoch=40)
    ask("unknown member", (0, 3, [ACCEPT]), epoch=13, who="nobody")
    ask("no member", (0, 3, [ACCEPT]), epoch=13, who="")
    ask("renewed", (0, 3, [RENEW]), epoch=13, is_renew_ack=True)
    ask("some of them", (0, 1, [ACCEPT]), epoch=14)
    ask("twice", (0, 1, [ACCEPT]), epoch=15)
    ask("with some that are done", (1, 3, [ACCEPT]), epoch=16)
    ask("one of each", (2, 3, [ACCEPT, RELEASE]), epoch=17)
    ask("what was given back", (3, 3, [ACCEPT]), epoch=18)
    ask("the last epoch", epoch=-1)
    ask("after the last epoch", (3, 3, [ACCEPT]), epoch=19)


@scenario(ApiKey.SHARE_FETCH, min_version=2)
def share_fetch_refused(session: WireSession, version: int) -> None:
    queue = Queue(session)
    group, member, topic = queue.group, queue.member, queue.topic_id

    def ask(step: str, *acks: Any, epoch: int, who: str = member, where: uuid.UUID = topic, **fields: Any) -> None:
        session.record(step, fetch(group, who, epoch, where, *acks, **{"max_wait_ms": 0, **fields}), version)

    ask("without a session", epoch=1)
    ask("the last epoch of none", epoch=-1)
    ask("first epoch with acknowledgements", (0, 0, [ACCEPT]), epoch=0)
    ask("no member", epoch=0, who="")
    ask("a member's name of 40 letters", epoch=0, who="m" * 40)
    queue.took(max_records=4, share_acquire_mode=1)
    ask("stale epoch", epoch=2)
    ask("another's acknowledgement", (5, 5, [ACCEPT]), epoch=1, max_records=0)
    ask("renewal with records", (0, 3, [RENEW]), epoch=2, is_renew_ack=True)
    renewal = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
    ask("renewal", (0, 3, [RENEW]), epoch=2, is_renew_ack=True, **renewal)
    ask("accepted, and the rest", (0, 3, [ACCEPT]), epoch=3, max_wait_ms=2_000)
    ask("nothing left", epoch=4)
    ask("unknown topic", epoch=5, where=UNKNOWN_ID)
    ask("the last epoch", epoch=-1)


@scenario(ApiKey.SHARE_ACKNOWLEDGE, min_version=2)
def share_acknowledge_edges_refused(session: WireSession, version: int) -> None:
    """Ranges that meet, that are endless, or begin before the log; partitions that are not there, or come twice."""
    queue = Queue(session)
    group, member, topic = queue.group, queue.member, queue.topic_id
    queue.took()

    def ask(step: str, *acks: Any, epoch: int, **fields: Any) -> None:
        session.record(step, acknowledge(group, member, epoch, topic, *acks, **fields), version)

    def ask_of(step: str, *partitions: tuple[int, int], epoch: int) -> None:
        """Accepts one record in each of these partitions."""
        listed = [
            acknowledging.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    acknowledging.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[1])
                ],
            )
            for index, offset in partitions
        ]
        topics = [acknowledging.AcknowledgeTopic(topic_id=topic, partitions=listed)] if listed else []
        request = m.ShareAcknowledgeRequest(group_id=group, member_id=member, share_session_epoch=epoch, topics=topics)
        session.record(step, request, version)

    ask("endless", (0, LAST_OFFSET, [ACCEPT]), epoch=1)
    ask("before the log", (-5, -1, [ACCEPT]), epoch=2)
    ask("from the first to the last offset that there can be", (-LAST_OFFSET, LAST_OFFSET, [ACCEPT]), epoch=3)
    ask("the last offset that there can be", (LAST_OFFSET, LAST_OFFSET, [ACCEPT]), epoch=4)
    ask("200,000 types", (0, 199_999, [ACCEPT] * 200_000), epoch=5)
    ask("a type too many", (0, 9, [ACCEPT] * 11), epoch=6)
    ask("a type that is unknown among ten", (0, 9, [*([ACCEPT] * 9), 7]), epoch=7)
    ask("twice in one", (1, 1, [ACCEPT]), (1, 1, [ACCEPT]), epoch=8)
    ask("one ends where the next begins", (0, 2, [ACCEPT]), (2, 3, [ACCEPT]), epoch=9)
    ask("renewed twice in one", (2, 2, [RENEW]), (2, 2, [RENEW]), epoch=10, is_renew_ack=True)
    ask("nothing of a partition", epoch=11)
    ask_of("nothing", epoch=12)
    ask_of("partition below 0", (-1, 0), epoch=13)
    ask_of("partition that is not there", (99, 0), epoch=14)
    ask("a renewal that is none", (8, 9, [ACCEPT]), epoch=15, is_renew_ack=True)
    ask("renewed and accepted", (6, 7, [RENEW, ACCEPT]), epoch=16, is_renew_ack=True)
    ask("from before the log", (-1, 3, [ACCEPT]), epoch=17)
    ask("behind the start, twice", (1, 1, [ACCEPT]), (1, 1, [ACCEPT]), epoch=18)


@scenario(ApiKey.SHARE_FETCH, min_version=2)
def share_fetch_wishes(session: WireSession, version: int) -> None:
    """Who asks for no bytes or no records gets none, and takes none."""
    queue = Queue(session)
    group, member, topic = queue.group, queue.member, queue.topic_id

    def ask(step: str, *acks: Any, epoch: int, **fields: Any) -> None:
        session.record(step, fetch(group, member, epoch, topic, *acks, **fields), version)

    ask("no bytes", epoch=0, max_bytes=0)
    ask("no bytes again", epoch=1, max_bytes=0)
    ask("no records", epoch=2, max_records=0)
    ask("all", epoch=3, max_records=4, share_acquire_mode=1)
    ask("acknowledged, and no bytes", (0, 3, [ACCEPT]), epoch=4, max_bytes=0)
    ask("no records, of a partition that is not there", epoch=0, max_records=0, partition=9)
    ask("no bytes, of one more", epoch=1, max_bytes=0, partition=8)
    ask("no records, again", epoch=2, max_records=0)
    ask("all, again", epoch=3)
    ask("more bytes than it takes", epoch=4, min_bytes=1 << 20, max_bytes=10, max_wait_ms=100)


@scenario(ApiKey.SHARE_ACKNOWLEDGE, min_version=2)
def share_acknowledge_of_odd_shapes_refused(session: WireSession, version: int) -> None:
    """A partition that comes twice, a group in which the member has no session, epochs that no session has, gaps."""
    queue = Queue(session)
    group, member, topic = queue.group, queue.member, queue.topic_id
    queue.took(max_records=10)

    def ask(step: str, *acks: Any, epoch: int, in_group: str = group, **fields: Any) -> None:
        session.record(step, acknowledge(in_group, member, epoch, topic, *acks, **fields), version)

    def twice(*first: Any, second: Any) -> list[Any]:
        """The same partition in two entries of one topic."""
        parts = [acknowledge(group, member, 1, topic, *each).topics[0].partitions[0] for each in ((first), (second,))]
        return [acknowledging.AcknowledgeTopic(topic_id=topic, partitions=parts)]

    ask("another group", (0, 0, [ACCEPT]), epoch=1, in_group=session.name("other"))
    ask("epoch below -1", (0, 0, [ACCEPT]), epoch=-2)
    ask("the last epoch that there can be", (0, 0, [ACCEPT]), epoch=2**31 - 1)
    request = acknowledge(group, member, 1, topic)
    request.topics = twice((0, 0, [ACCEPT]), second=(1, 1, [ACCEPT]))
    session.record("a partition twice", request, version)
    request = acknowledge(group, member, 2, topic)
    request.topics = [*acknowledge(group, member, 2, topic, (2, 2, [ACCEPT])).topics] * 2
    session.record("a topic twice", request, version)
    ask("what the first said", (0, 0, [ACCEPT]), epoch=3)
    ask("what the second said", (1, 1, [ACCEPT]), epoch=4)
    ask("what both said", (2, 2, [ACCEPT]), epoch=5)
    ask("a gap where a record is", (3, 3, [0]), epoch=6)
    ask("a gap, then accepted", (3, 3, [ACCEPT]), epoch=7)
    ask("all kinds", (4, 7, [ACCEPT, RELEASE, REJECT, 0]), epoch=8)
    ask("with one that is not held", (8, 8, [ACCEPT]), (4, 4, [ACCEPT]), epoch=9)
    ask("which undid nothing", (8, 9, [RELEASE]), epoch=10)


@scenario(ApiKey.SHARE_FETCH, min_version=2)
def share_fetch_of_odd_shapes(session: WireSession, version: int) -> None:
    """Limits below 0, a mode that there is not, what is fetched and forgotten at once, acknowledgements of partitions
    that the session has not."""
    queue = Queue(session)
    group, member, topic = queue.group, queue.member, queue.topic_id

    def ask(step: str, *acks: Any, epoch: int, **fields: Any) -> None:
        session.record(step, fetch(group, member, epoch, topic, *acks, **{"max_wait_ms": 0, **fields}), version)

    ask("epoch below -1", epoch=-2)
    ask("nothing in the first epoch", epoch=0, topics=[])
    ask("nothing in the next", epoch=1, topics=[])
    absent = fetching.FetchTopic(topic_id=topic, partitions=[fetching.FetchPartition(partition_index=7)])
    ask("a partition that is not there", epoch=2, topics=[absent])
    gone = [fetching.ForgottenTopic(topic_id=topic, partitions=[7])]
    ask("it is forgotten", epoch=3, topics=[], forgotten_topics_data=gone)
    ask("bytes below 0", epoch=4, max_bytes=-1)
    ask("waiting below 0", epoch=5, max_records=0, max_wait_ms=-5)
    ask("a batch of none", epoch=6, max_records=4, batch_size=0, share_acquire_mode=1, max_wait_ms=2_000)
    gone = [fetching.ForgottenTopic(topic_id=topic, partitions=[0])]
    ask("fetched and forgotten", epoch=7, forgotten_topics_data=gone)
    ask("forgotten again", epoch=8, topics=[], forgotten_topics_data=gone)
    ask("acknowledged beside the session", (0, 0, [ACCEPT]), epoch=9, max_records=0)
    ask("a mode that there is not", epoch=10, max_records=2, share_acquire_mode=7)
    ask("the first epoch again", epoch=0, topics=[])
    ask("what the session before acquired", (1, 1, [ACCEPT]), epoch=1, max_records=0)
    ask("the last epoch", epoch=-1)
    ask("the last epoch again", epoch=-1)


@scenario(ApiKey.SHARE_GROUP_DESCRIBE, min_version=1)
def share_group_describe(session: WireSession, version: int) -> None:
    queue = Queue(session)
    none = session.name("none")
    session.record("unknown", m.ShareGroupDescribeRequest(group_ids=[none]), version)
    session.record("without a name", m.ShareGroupDescribeRequest(group_ids=[""]), version)
    session.record("none", m.ShareGroupDescribeRequest(group_ids=[]), version)
    stable(session, session.name("classic"))
    session.record("a classic group", m.ShareGroupDescribeRequest(group_ids=[session.name("classic")]), version)
    session.record("as a consumer group", m.ConsumerGroupDescribeRequest(group_ids=[queue.group]), 1)
    session.record("as a classic group", m.DescribeGroupsRequest(groups=[queue.group]), 6)


@scenario(ApiKey.SHARE_GROUP_HEARTBEAT, min_version=1)
def share_group_heartbeat_refused(session: WireSession, version: int) -> None:
    queue = Queue(session)

    def ask(step: str, request: Any) -> None:
        session.record(step, request, version)

    ask("no group", beat("", "m", 0, queue.topic))
    ask("blank group", beat(" ", "m", 0, queue.topic))
    ask("no member", beat(queue.group, "", 0, queue.topic))
    ask("no topics", beat(queue.group, "m", 0))
    ask("epoch below -1", beat(queue.group, "m", -2, queue.topic))
    ask("unknown member", beat(queue.group, "m", 3))
    ask("unknown member leaves", beat(queue.group, "m", -1))
    ask("unknown group", beat(session.name("none"), "m", 3))
    ask("epoch to come", beat(queue.group, queue.member, 99))
    stable(session, session.name("classic"))
    ask("a classic group", beat(session.name("classic"), "m", 0, queue.topic))


@scenario(ApiKey.SHARE_FETCH, min_version=1)
def share_fetch_for_no_group(session: WireSession, version: int) -> None:
    """Of a group without a name there is no state. That is said; the connection stays."""
    topic_id = session.topic_id(session.topic())
    session.record("no name", fetch("", str(uuid.UUID(int=77)), 0, topic_id), version)


@scenario(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets_of_no_group(session: WireSession, version: int) -> None:
    topic = session.topic()
    session.record("no name", describe("", {topic: [0]}), version)
    session.record("no name, no partitions", describe("", {topic: []}), version)
    session.record("no name, unknown topic", describe("", {session.name("unknown"): [0]}), version)
