"""Scenarios of topics at the corners: which of several mistakes is told, manual assignments, limits, elections."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    elect_leaders_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_topics import creatable, create, delete, metadata, shown
from tests.conformance.wire.wire_session import WireSession

NOBODY = 4711
BAD_SETTING = [("retention.ms", "soon")]
NULL_SETTING = [("retention.ms", None)]
UNKNOWN_SETTING = [("no.such", "1")]


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_with_two_mistakes(session: WireSession, version: int) -> None:
    """The one that is told is told by at least one line of Apache Kafka."""
    name, broker = session.name, session.broker_id
    existing = session.topic("existing")
    colliding = session.topic("col.lision").replace(".", "_")

    def ask(step: str, *topics: Any, validate_only: bool = True) -> None:
        session.record(step, create(*topics, validate_only=validate_only), version, keep=shown)

    ask("exists, null setting", creatable(existing, 1, 1, NULL_SETTING))
    ask("exists, assigned and counted", creatable(existing, 1, 1, (), {0: [broker]}))
    ask("exists, too many replicas", creatable(existing, 1, 9))
    ask("bad name, null setting", creatable("a/b", 1, 1, NULL_SETTING))
    ask("bad name, too many replicas", creatable("a/b", 1, 9))
    ask("collides, null setting", creatable(colliding, 1, 1, NULL_SETTING))
    ask("collides, bad setting", creatable(colliding, 1, 1, BAD_SETTING))
    ask("collides, too many replicas", creatable(colliding, 1, 9))
    ask("null setting, assigned and counted", creatable(name("a"), 1, 1, NULL_SETTING, {0: [broker]}))
    ask("null setting, too many replicas", creatable(name("b"), 1, 9, NULL_SETTING))
    ask("null setting, no partitions", creatable(name("c"), 0, 1, NULL_SETTING))
    ask("null setting, no replicas", creatable(name("d"), 1, 0, NULL_SETTING))
    ask("null setting, replica twice", creatable(name("e"), -1, -1, NULL_SETTING, {0: [broker, broker]}))
    ask("null setting, unknown setting", creatable(name("f"), 1, 1, [*NULL_SETTING, *UNKNOWN_SETTING]))
    ask("bad setting, assigned and counted", creatable(name("g"), 1, 1, BAD_SETTING, {0: [broker]}))
    ask("bad setting, too many replicas", creatable(name("h"), 1, 9, BAD_SETTING))
    ask("bad setting, unknown broker", creatable(name("i"), -1, -1, BAD_SETTING, {0: [NOBODY]}))
    ask("no partitions, no replicas", creatable(name("j"), 0, 0))
    ask("no partitions, too many replicas", creatable(name("k"), 0, 9))
    ask("a setting twice, first bad", creatable(name("l"), 1, 1, [*BAD_SETTING, ("retention.ms", "5000")]))
    ask("a setting twice, last bad", creatable(name("m"), 1, 1, [("retention.ms", "5000"), *BAD_SETTING]))
    ask("twice, one of them bad", creatable(name("n")), creatable(name("n"), 1, 9))
    ask("cluster metadata twice", creatable("__cluster_metadata"), creatable("__cluster_metadata"))
    ask("empty name twice", creatable(""), creatable(""))
    ask("two that collide", creatable(name("o.p")), creatable(name("o_p")))


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_that_collide_with_each_other(session: WireSession, version: int) -> None:
    one, other = session.name("two.at_once"), session.name("two_at.once")
    session.record("both", create(creatable(one), creatable(other)), version, keep=lambda struct: False)
    asked = metadata(one, other, allow_auto_topic_creation=False)
    session.recorded["how many there are"] = sum(
        topic.error_code == 0 for topic in session.connection.ask(asked, 9).topics
    )


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_assigned(session: WireSession, version: int) -> None:
    name, broker = session.name, session.broker_id

    def ask(step: str, assignments: list[tuple[int, list[int]]], *, validate_only: bool = True, **counts: int) -> None:
        ct = create_topics_request
        topic = creatable(name(step.replace(" ", "-").replace(",", "")), -1, -1)
        topic.num_partitions = counts.get("partitions", -1)
        topic.replication_factor = counts.get("replicas", -1)
        topic.assignments = [
            ct.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments
        ]
        session.record(step, create(topic, validate_only=validate_only), version, keep=shown)

    ask("good", [(0, [broker])], validate_only=False)
    ask("out of order", [(1, [broker]), (0, [broker])])
    ask("a gap", [(0, [broker]), (2, [broker])])
    ask("negative partition", [(-1, [broker]), (0, [broker])])
    ask("only a negative partition", [(-1, [broker])])
    ask("nobody", [(0, [])])
    ask("nobody beside somebody", [(0, [broker]), (1, [])])
    ask("somebody behind nobody", [(0, []), (1, [broker])])
    ask("replica twice beside a good one", [(0, [broker]), (1, [broker, broker])])
    ask("counted replicas only", [(0, [broker])], replicas=1)
    ask("counted partitions only", [(0, [broker])], partitions=1)
    ask("counted with -2", [(0, [broker])], partitions=-2)


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_assigned_to_unknown_brokers(session: WireSession, version: int) -> None:
    name, broker = session.name, session.broker_id
    for step, ids in (
        ("unknown", [NOBODY]),
        ("negative", [-1]),
        ("known and unknown", [broker, NOBODY]),
    ):
        topic = creatable(name(step.replace(" ", "-")), -1, -1, (), {0: ids})
        session.record(step, create(topic, validate_only=True), version, keep=shown)


@scenario(ApiKey.CREATE_TOPICS)
def create_topics_of_odd_settings(session: WireSession, version: int) -> None:
    def ask(step: str, *configs: tuple[str, str | None]) -> None:
        topic = creatable(session.name("odd"), 1, 1, configs)
        session.record(step, create(topic, validate_only=True), version, keep=shown)

    ask("empty number", ("retention.ms", ""))
    ask("spaces around a number", ("retention.ms", " 5000 "))
    ask("plus sign", ("retention.ms", "+5000"))
    ask("minus two", ("retention.ms", "-2"))
    ask("too large", ("retention.ms", "9223372036854775808"))
    ask("a fraction for a number", ("retention.ms", "5000.0"))
    ask("too large for 32 bits", ("segment.bytes", "2147483648"))
    ask("boolean in capitals", ("preallocate", "TRUE"))
    ask("boolean with spaces", ("preallocate", " true "))
    ask("no boolean", ("preallocate", "yes"))
    ask("empty boolean", ("preallocate", ""))
    ask("empty list", ("cleanup.policy", ""))
    ask("list of commas", ("cleanup.policy", ","))
    ask("list with spaces", ("cleanup.policy", " compact , delete "))
    ask("list with a doublet", ("cleanup.policy", "compact,compact"))
    ask("list in capitals", ("cleanup.policy", "COMPACT"))
    ask("list ends with a comma", ("cleanup.policy", "compact,"))
    ask("double", ("min.cleanable.dirty.ratio", "0.5"))
    ask("double out of range", ("min.cleanable.dirty.ratio", "1.5"))
    ask("double not a number", ("min.cleanable.dirty.ratio", "NaN"))
    ask("double with a letter", ("min.cleanable.dirty.ratio", "0.5d"))
    ask("codec", ("compression.type", "lz4"))
    ask("codec in capitals", ("compression.type", "LZ4"))
    ask("unknown codec", ("compression.type", "lzma"))
    ask("level out of range", ("compression.gzip.level", "10"))
    ask("level of zero", ("compression.gzip.level", "0"))
    ask("level of minus one", ("compression.gzip.level", "-1"))
    ask("timestamp type", ("message.timestamp.type", "LogAppendTime"))
    ask("timestamp type in small letters", ("message.timestamp.type", "logappendtime"))
    ask("lags in conflict", ("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "9"))
    ask("no replicas in sync", ("min.insync.replicas", "0"))
    ask("many replicas in sync", ("min.insync.replicas", "9"))
    ask("throttled, all", ("leader.replication.throttled.replicas", "*"))
    ask("throttled, some", ("leader.replication.throttled.replicas", "0:1,1:2"))
    ask("throttled, none", ("leader.replication.throttled.replicas", ""))
    ask("throttled, with spaces", ("leader.replication.throttled.replicas", "0:1, 1:2"))
    ask("throttled, no number", ("leader.replication.throttled.replicas", "a:b"))
    ask("throttled, negative", ("follower.replication.throttled.replicas", "0:-1"))
    ask("throttled, all and some", ("follower.replication.throttled.replicas", "*,0:1"))
    ask("throttled, partitions alone", ("follower.replication.throttled.replicas", "0,1"))
    ask("local retention of minus three", ("local.retention.ms", "-3"))
    ask("segment of 14 bytes", ("segment.bytes", "14"))
    ask("flush never", ("flush.messages", "0"))
    ask("index of three bytes", ("segment.index.bytes", "3"))
    ask("empty name of a setting", ("", "1"))
    ask("setting of a broker", ("log.retention.ms", "5000"))
    ask("setting in capitals", ("RETENTION.MS", "5000"))


@scenario(ApiKey.CREATE_TOPICS, min_version=4)
def create_too_many_partitions(session: WireSession, version: int) -> None:
    """No topic is made: 3.9 has no limit, and would make them."""

    def ask(step: str, *counts: int) -> None:
        topics = [creatable(session.name(f"many-{index}"), count, 1) for index, count in enumerate(counts)]
        answer = session.connection.ask(create(*topics, validate_only=True), version)
        session.recorded[step] = [topic.error_code for topic in answer.topics]

    ask("10,000", 10_000)
    ask("10,001", 10_001)
    ask("10,000 and one", 10_000, 1)
    ask("one and 10,000", 1, 10_000)
    ask("10,000 and none", 10_000, 0)
    ask("10,000 and the default", 10_000, -1)


@scenario(ApiKey.CREATE_PARTITIONS)
def create_too_many_new_partitions(session: WireSession, version: int) -> None:
    one, other = session.topic("one"), session.topic("other")

    def ask(step: str, *counts: int) -> None:
        cp = create_partitions_request
        topics = [
            cp.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in zip((one, other), counts, strict=False)
        ]
        request = m.CreatePartitionsRequest(topics=topics, timeout_ms=15_000, validate_only=True)
        answer = session.connection.ask(request, version)
        by_name = {result.name: result.error_code for result in answer.results}
        session.recorded[step] = [by_name.get(name) for name in (one, other)]

    ask("to 10,001", 10_001)
    ask("to 10,002", 10_002)


@scenario(ApiKey.CREATE_PARTITIONS)
def create_partitions_of_several(session: WireSession, version: int) -> None:
    one, two, broker = session.topic("one"), session.topic("two"), session.broker_id
    cp = create_partitions_request

    def ask(step: str, *wanted: tuple[str, int, list[list[int]] | None], **more: Any) -> None:
        topics = [
            cp.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assigned is None
                else [cp.CreatePartitionsAssignment(broker_ids=ids) for ids in assigned],
            )
            for name, count, assigned in wanted
        ]
        request = m.CreatePartitionsRequest(topics=topics, timeout_ms=more.pop("timeout_ms", 15_000), **more)
        session.record(step, request, version)

    ask("good beside bad", (one, 2, None), (two, 0, None))
    session.until_it_serves(one, 2)
    ask("a topic twice beside a good one", (two, 3, None), (two, 3, None), (one, 3, None))
    session.until_it_serves(one, 3)
    ask("unknown twice", ("no-such", 3, None), ("no-such", 4, None))
    ask("no topics")
    ask("empty name", ("", 3, None))
    ask("illegal name", ("no spaces", 3, None))
    ask("fewer, and assigned", (one, 1, [[broker]]))
    ask("as many, and assigned to none", (one, 3, []))
    ask("one more, assigned to none", (one, 4, []))
    ask("unknown broker, one too many", (one, 4, [[NOBODY], [broker]]))
    ask("unknown broker, of unknown topic", ("no-such", 4, [[NOBODY]]))
    ask("one good, one of nobody", (one, 5, [[broker], []]))
    ask("one of nobody, one good", (one, 5, [[], [broker]]))
    ask("negative broker", (one, 4, [[-1]]))
    ask("two replicas where there is one", (one, 4, [[broker, NOBODY]]))
    ask("only validated, no time", (one, 4, None), validate_only=True, timeout_ms=0)
    ask("negative time", (one, 4, None), timeout_ms=-1)
    described = session.connection.ask(metadata(two, allow_auto_topic_creation=False), 9)
    session.recorded["partitions of the second"] = len(described.topics[0].partitions)


@scenario(ApiKey.DELETE_TOPICS)
def delete_topics_of_several(session: WireSession, version: int) -> None:
    one, two = session.topic("one"), session.topic("two")
    session.record("good beside unknown", delete(one, session.name("unknown")), version)
    session.record("unknown beside illegal", delete(session.name("unknown"), "no spaces", ""), version)
    session.record("unknown twice", delete(session.name("unknown"), session.name("unknown")), version)
    session.record("empty name", delete(""), version)
    session.record("internal, not there", delete("__cluster_metadata"), version)
    if version >= 6:
        dt, found = delete_topics_request, session.topic_id(two)
        both = [dt.DeleteTopicState(name=two, topic_id=found)]
        session.record("name and id", m.DeleteTopicsRequest(topics=both, timeout_ms=15_000), version)
        same = [dt.DeleteTopicState(name=two), dt.DeleteTopicState(name=None, topic_id=found)]
        answer = session.connection.ask(m.DeleteTopicsRequest(topics=same, timeout_ms=15_000), version)
        session.recorded["name beside its id"] = sorted(result.error_code for result in answer.responses)
        gone = metadata(two, allow_auto_topic_creation=False)
        session.recorded["it is there"] = session.connection.ask(gone, 9).topics[0].error_code == 0


@scenario(ApiKey.ELECT_LEADERS)
def elect_leaders_of_odd_shapes(session: WireSession, version: int) -> None:
    partitions = elect_leaders_request.TopicPartitions
    topic = session.topic()

    def ask(step: str, *wanted: tuple[str, list[int]], kind: int = 0, timeout_ms: int = 10_000) -> None:
        chosen = [partitions(topic=name, partitions=indexes) for name, indexes in wanted]
        request = m.ElectLeadersRequest(election_type=kind, topic_partitions=chosen, timeout_ms=timeout_ms)
        session.record(step, request, version)

    ask("illegal name", ("no spaces", [0]))
    ask("unknown twice", ("unknown", [0, 0]))
    ask("negative time", (topic, [0]), timeout_ms=-1)
    if version >= 1:
        ask("negative kind", (topic, [0]), kind=-1)
        ask("unknown kind, unknown topic", ("unknown", [0]), kind=2)
        ask("unknown kind, nothing", kind=2)
        every = m.ElectLeadersRequest(election_type=2, topic_partitions=None, timeout_ms=10_000)
        session.record("unknown kind, all", every, version, keep=session.ours)
        every = m.ElectLeadersRequest(election_type=1, topic_partitions=None, timeout_ms=10_000)
        session.record("unclean, all", every, version, keep=session.ours)
