"""What may be created, grown and deleted, and which writes that takes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping

import pytest
import structlog

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.state_machines import PartitionStatus, Replica, ReplicaStatus
from kavka.controller.decide.topic_plans import (
    MAX_MULTI_BYTES,
    MAX_PARTITIONS_PER_REQUEST,
    MAX_TOPIC_NAME_LENGTH,
    PartitionsPlan,
    PartitionsRequest,
    Refusal,
    TopicPlan,
    TopicRequest,
    TopicRules,
    TopicZNodes,
    colliding_topics,
    deletion_operations,
    guarded_multis,
    partitions_operations,
    plan_partitions,
    plan_topic,
    topic_name_error,
    topic_operations,
    within_limit,
)
from kavka.errors import ConfigError, ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import Check, Create, Delete, SetData, request_size_bytes
from kavka.zookeeper.znodes import MalformedZNode, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import registration

RULES = TopicRules()


def cluster(*broker_ids: int, racks: str = "") -> ControllerContext:
    return ControllerContext(
        epoch=5,
        epoch_version=9,
        brokers={
            BrokerId(broker_id): LiveBroker(registration(broker_id, racks[index] if racks else None), 100 + broker_id)
            for index, broker_id in enumerate(broker_ids)
        },
    )


def plan(context: ControllerContext, wish: TopicRequest, rules: TopicRules = RULES) -> TopicPlan | Refusal:
    return plan_topic(wish, context, rules, random.Random(3))


def with_topic(context: ControllerContext, name: str, **wish: int) -> KnownTopic:
    planned = plan(context, TopicRequest(name, **wish))
    assert isinstance(planned, TopicPlan)
    known = KnownTopic(planned.assignment, version=4)
    context.set_topic(known)
    return known


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * (MAX_TOPIC_NAME_LENGTH + 1), "is longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "contains one or more characters"),
        ("a/b", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
    ],
)
def test_illegal_names(name: str, reason: str) -> None:
    assert reason in (topic_name_error(name) or "")
    assert plan(cluster(1), TopicRequest(name, 1, 1)) == Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION, topic_name_error(name) or ""
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "x" * MAX_TOPIC_NAME_LENGTH])
def test_legal_names(name: str) -> None:
    assert topic_name_error(name) is None


def test_dots_and_underscores_collide() -> None:
    assert colliding_topics("a_b.c", ["a.b_c", "a_b.c", "abc", "a_b_c"]) == ["a.b_c", "a_b_c"]
    assert colliding_topics("abc", ["a.c"]) == []
    assert colliding_topics("a.b", ["a_b"]) == ["a_b"]
    context = cluster(1)
    with_topic(context, "a.b")
    assert plan(context, TopicRequest("a_b")) == Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topics: a.b"
    )


def test_a_plan_has_replicas_states_configuration_and_an_id() -> None:
    planned = plan(cluster(1, 2), TopicRequest("t", 3, 2, config={"retention.ms": "5"}))
    assert isinstance(planned, TopicPlan)
    assert planned.assignment.topic_id is not None
    assert planned.config == {"retention.ms": "5"}
    assert list(planned.assignment.partitions) == [0, 1, 2]
    for partition, replicas in planned.assignment.partitions.items():
        assert sorted(replicas) == [1, 2]
        assert planned.states[partition] == PartitionState(replicas[0], 0, tuple(replicas), 5)


@pytest.mark.setting("num.partitions", "default.replication.factor")
def test_counts_default_to_the_brokers_settings() -> None:
    rules = TopicRules(default_partition_count=4, default_replication_factor=2)
    for wish in (TopicRequest("t"), TopicRequest("t", -1, -1)):
        planned = plan(cluster(1, 2, 3), wish, rules)
        assert isinstance(planned, TopicPlan)
        assert [len(replicas) for replicas in planned.assignment.partitions.values()] == [2] * 4
    for count in (0, -2):
        assert isinstance(plan(cluster(1, 2, 3), TopicRequest("t", count), rules), Refusal)
        assert isinstance(plan(cluster(1, 2, 3), TopicRequest("t", 1, count), rules), Refusal)


def test_who_is_down_may_be_assigned_a_replica_by_hand_beside_one_that_lives() -> None:
    """As with Apache Kafka of either line, when a broker is being replaced or starts again."""
    context = cluster(1, 2)
    with_topic(context, "t", partition_count=1, replication_factor=2)
    del context.brokers[BrokerId(2)]
    planned = plan(context, TopicRequest("u", assignment={0: [2, 1]}))
    assert isinstance(planned, TopicPlan)
    assert planned.assignment.partitions == {0: (2, 1)}
    assert planned.states == {0: PartitionState(BrokerId(1), 0, (BrokerId(1),), 5)}
    for assignment in ({0: [1, 3]}, {0: [2]}):
        refused = plan(context, TopicRequest("u", assignment=assignment))
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    grown = plan_partitions(PartitionsRequest("t", 2, [[2, 1]]), context)
    assert isinstance(grown, PartitionsPlan)
    assert grown.states == {1: PartitionState(BrokerId(1), 0, (BrokerId(1),), 5)}


def test_of_several_mistakes_the_one_is_told_that_apache_kafka_4_tells() -> None:
    """Name, settings, then how replicas and partitions are given, how many replicas, how many partitions."""

    def check_config(config: Mapping[str, str]) -> None:
        if config:
            raise ConfigError("Unknown topic config name: nope")

    bad, null = {"nope": "1"}, {"nope": None}
    context = cluster(1)
    with_topic(context, "t")
    for wish, code in (
        (TopicRequest("t", config=null), ErrorCode.TOPIC_ALREADY_EXISTS),
        (TopicRequest("a/b", 1, assignment={0: [1]}, config=null), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TopicRequest("u", 1, assignment={0: [9]}, config=bad), ErrorCode.INVALID_CONFIG),
        (TopicRequest("u", 0, 0, config=bad), ErrorCode.INVALID_CONFIG),
        (TopicRequest("u", 1, assignment={0: [9]}), ErrorCode.INVALID_REQUEST),
        (TopicRequest("u", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (TopicRequest("u", 0, 9), ErrorCode.INVALID_PARTITIONS),
    ):
        refused = plan(context, wish, TopicRules(check_config=check_config))
        assert isinstance(refused, Refusal)
        assert refused.code is code


def test_refusals() -> None:
    def check_config(config: object) -> None:
        raise ConfigError("Unknown topic config name: nope")

    context = cluster(1)
    with_topic(context, "t")
    assert plan(context, TopicRequest("t", 1, 1)) == Refusal(
        ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."
    )
    context.topics_to_delete["dying"] = None
    assert plan(context, TopicRequest("dying", 1, 1)).code is ErrorCode.TOPIC_ALREADY_EXISTS  # type: ignore[union-attr]
    refused = plan(context, TopicRequest("u", config={"nope": "1"}), TopicRules(check_config=check_config))
    assert refused == Refusal(ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope")
    refused = plan(context, TopicRequest("u", 1, assignment={0: [1]}))
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.INVALID_REQUEST
    for wish in (TopicRequest("u", 1, assignment={0: [1]}), TopicRequest("u", 0, 9), TopicRequest("u")):
        refused = plan(context, wish._replace(config={"flush.ms": None, "nope": None, "retention.ms": "5"}))
        message = "Null value not supported for topic configs: flush.ms,nope"
        assert refused == Refusal(ErrorCode.INVALID_CONFIG, message)
    refused = plan(context, TopicRequest("u", assignment={0: [2]}))
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    refused = plan(context, TopicRequest("__cluster_metadata"))
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.INVALID_REQUEST


def test_brokers_that_shut_down_get_no_new_replicas() -> None:
    context = cluster(1, 2)
    context.shutting_down[BrokerId(2)] = None
    planned = plan(context, TopicRequest("t", 2, 1))
    assert isinstance(planned, TopicPlan)
    assert planned.assignment.partitions == {0: (1,), 1: (1,)}
    assert isinstance(plan(context, TopicRequest("u", 1, 2)), Refusal)


def test_a_request_has_a_limit_of_partitions() -> None:
    """As with Apache Kafka 4.3, a request that goes beyond it creates nothing, wherever in it that is."""
    half = 5_000
    wishes = [TopicRequest("a", half), TopicRequest("b", half), TopicRequest("none", 0), TopicRequest("odd", -7)]
    assert within_limit(wishes, RULES) == wishes
    for beyond in (
        TopicRequest("c"),
        TopicRequest("c", 2**31 - 1),
        TopicRequest("c", assignment={0: [1]}),
    ):
        for limited in (within_limit([*wishes, beyond], RULES), within_limit([beyond, *wishes], RULES)):
            assert [each.code for each in limited if isinstance(each, Refusal)] == [ErrorCode.POLICY_VIOLATION] * 5
    (refused,) = within_limit([TopicRequest("c", 2 * half + 1)], RULES)
    assert isinstance(refused, Refusal)
    assert refused.message.startswith(f"{2 * half + 1} partitions are more than")
    context = cluster(1)
    with_topic(context, "t")
    assert not isinstance(plan_partitions(PartitionsRequest("t", MAX_PARTITIONS_PER_REQUEST + 1), context), Refusal)
    for wish, most in ((MAX_PARTITIONS_PER_REQUEST + 2, MAX_PARTITIONS_PER_REQUEST), (3, 1), (2, 0)):
        refused = plan_partitions(PartitionsRequest("t", wish), context, most=most)
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.POLICY_VIOLATION
        assert refused.message.startswith("10001 partitions are more than")


def test_the_writes_of_a_creation_in_order() -> None:
    planned = plan(cluster(1), TopicRequest("t", 2, config={"a": "b"}))
    assert isinstance(planned, TopicPlan)
    state = b'{"controller_epoch":5,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    assert list(topic_operations(planned, config_exists=False)) == [
        Create("/config/topics/t", b'{"version":1,"config":{"a":"b"}}'),
        Create("/brokers/topics/t", planned.assignment.encode()),
        Create("/brokers/topics/t/partitions"),
        Create("/brokers/topics/t/partitions/0"),
        Create("/brokers/topics/t/partitions/0/state", state),
        Create("/brokers/topics/t/partitions/1"),
        Create("/brokers/topics/t/partitions/1/state", state),
    ]
    first = next(topic_operations(planned, config_exists=True))
    assert first == SetData("/config/topics/t", b'{"version":1,"config":{"a":"b"}}')


def test_every_multi_is_guarded_and_fits() -> None:
    planned = plan(cluster(1), TopicRequest("t", MAX_PARTITIONS_PER_REQUEST))
    assert isinstance(planned, TopicPlan)
    operations = list(topic_operations(planned, config_exists=False))
    batches = list(guarded_multis(operations, epoch_version=9))
    assert len(batches) > 1
    assert [operation for batch in batches for operation in batch[1:]] == operations
    for batch in batches:
        assert batch[0] == Check("/controller_epoch", 9)
        assert sum(map(request_size_bytes, batch)) <= MAX_MULTI_BYTES
    assert list(guarded_multis([], epoch_version=9)) == []
    huge = Create("/x", b"x" * MAX_MULTI_BYTES)
    assert [batch[1:] for batch in guarded_multis([huge, huge], epoch_version=9)] == [[huge], [huge]]


def test_a_multi_is_filled_to_its_limit_and_no_further() -> None:
    guard = Check("/controller_epoch", 9)
    small = Create("/s", b"")
    # ZooKeeper's jute.maxbuffer is 1,048,575 as it comes.
    room = 900_000 - request_size_bytes(guard) - request_size_bytes(small)
    fits = Create("/x", b"x" * (room - request_size_bytes(Create("/x", b""))))
    assert request_size_bytes(fits) == room
    assert list(guarded_multis([small, fits], epoch_version=9)) == [[guard, small, fits]]
    larger = Create("/x", (fits.data or b"") + b"x")
    assert list(guarded_multis([small, larger], epoch_version=9)) == [[guard, small], [guard, larger]]


def test_growth() -> None:
    context = cluster(1, 2)
    known = with_topic(context, "t", partition_count=2, replication_factor=2)
    planned = plan_partitions(PartitionsRequest("t", 4), context)
    assert not isinstance(planned, Refusal)
    assert planned.added == (2, 3)
    assert list(planned.assignment.partitions) == [0, 1, 2, 3]
    assert {len(replicas) for replicas in planned.assignment.partitions.values()} == {2}
    assert planned.assignment.topic_id == known.topic_id
    operations = list(partitions_operations(planned))
    assert operations[0] == SetData("/brokers/topics/t", planned.assignment.encode(), 4)
    assert [operation.path for operation in operations[1:]] == [
        "/brokers/topics/t/partitions/2",
        "/brokers/topics/t/partitions/2/state",
        "/brokers/topics/t/partitions/3",
        "/brokers/topics/t/partitions/3/state",
    ]
    by_hand = plan_partitions(PartitionsRequest("t", 3, [[2, 1]]), context)
    assert not isinstance(by_hand, Refusal)
    assert by_hand.assignment.partitions[2] == (2, 1)
    two = plan_partitions(PartitionsRequest("t", 4, [[2, 1], [1, 2]]), context)
    assert not isinstance(two, Refusal)
    assert (two.assignment.partitions[2], two.assignment.partitions[3]) == ((2, 1), (1, 2))


@pytest.mark.parametrize(
    ("wish", "code", "message"),
    [
        (PartitionsRequest("gone", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'gone' does not exist."),
        (PartitionsRequest("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (
            PartitionsRequest("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            PartitionsRequest("t", 4, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            PartitionsRequest("t", 3, [[1, 2]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [2] have "
            "replication factors [2], respectively.",
        ),
    ],
)
def test_growth_that_is_refused(wish: PartitionsRequest, code: ErrorCode, message: str) -> None:
    context = cluster(1, 2)
    with_topic(context, "t", partition_count=2)
    assert plan_partitions(wish, context) == Refusal(code, message)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_coordinators_topics_do_not_grow(topic: str) -> None:
    """Groups and transactional ids are placed by the number of partitions: with another one theirs were not found."""
    context = cluster(1, 2)
    with_topic(context, topic, partition_count=50)
    for wish in (PartitionsRequest(topic, 51), PartitionsRequest(topic, 51, [[1]])):
        refused = plan_partitions(wish, context)
        assert isinstance(refused, Refusal)
        assert refused.code is ErrorCode.INVALID_PARTITIONS
        assert refused.message.startswith(f"Topic '{topic}' must keep its 50 partitions")
    for count in (50, 49):
        same = plan_partitions(PartitionsRequest(topic, count), context)
        assert isinstance(same, Refusal)
        assert "50 partitions" in same.message


def test_a_topic_in_reassignment_cannot_grow() -> None:
    context = cluster(1, 2)
    known = with_topic(context, "t")
    moving = TopicAssignment("t", known.assignment.partitions, known.topic_id, {0: (2,)})
    context.topics["t"] = KnownTopic(moving, 5)
    refused = plan_partitions(PartitionsRequest("t", 2), context)
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_the_writes_of_a_deletion_go_from_the_leaves_up_and_the_mark_goes_last() -> None:
    assert list(deletion_operations("t", TopicZNodes([1], [0, 1], partitions_node=True, config=True))) == [
        Delete("/brokers/topics/t/partitions/1/state"),
        Delete("/brokers/topics/t/partitions/0"),
        Delete("/brokers/topics/t/partitions/1"),
        Delete("/brokers/topics/t/partitions"),
        Delete("/brokers/topics/t"),
        Delete("/config/topics/t"),
        Delete("/admin/delete_topics/t"),
    ]
    assert list(deletion_operations("t", TopicZNodes([], [], partitions_node=False, config=False))) == [
        Delete("/brokers/topics/t"),
        Delete("/admin/delete_topics/t"),
    ]


def test_the_context_follows_topics() -> None:
    context = cluster(1)
    known = with_topic(context, "t", partition_count=2)
    t0 = TopicPartition("t", 0)
    assert context.partitions.state(t0) is PartitionStatus.NEW
    assert context.set_topic(known) == [], "nothing of it is new"
    context.states[t0] = KnownState(PartitionState(BrokerId(1), 0, (BrokerId(1),), 5), 3)
    assert context.states[t0].leader_and_isr.partition_epoch == 3
    assert [replica.broker_id for replica in context.replicas_of([t0])] == [1]
    context.remove_topic("t")
    context.remove_topic("t")
    assert context.states == {}
    assert context.partitions.keys(PartitionStatus.NEW) == []
    assert context.replicas.count(ReplicaStatus.NEW) == 0


def test_the_context_forgets_a_topics_id_and_its_failed_replicas_with_it() -> None:
    context = cluster(1)
    known = with_topic(context, "t")
    assert known.topic_id is not None
    t0 = Replica(TopicPartition("t", 0), BrokerId(1))
    context.failed_replicas[t0] = None
    context.remove_topic("t")
    assert context.topic_name(known.topic_id) is None
    assert context.failed_replicas == {}


def test_a_topic_that_is_made_anew_under_its_name_is_known_by_its_new_id_alone() -> None:
    context = cluster(1)
    before = with_topic(context, "t")
    after = KnownTopic(TopicAssignment("t", {0: (1,)}, uuid.UUID(int=9)), 1)
    context.set_topic(after)
    assert before.topic_id is not None
    assert context.topic_name(before.topic_id) is None
    assert context.topic_name(uuid.UUID(int=9)) == "t"
    context.set_topic(KnownTopic(TopicAssignment("t", {0: (1,)}, None), 2))
    assert context.topic_names == {}, "an older controller wrote it without an id"


def test_a_znode_that_cannot_be_read_is_logged_once_for_each_content() -> None:
    context = cluster(1)
    with structlog.testing.capture_logs() as lines:
        for detail in ("no JSON", "no JSON", "'leader' is missing", "'leader' is missing"):
            context.found_malformed(MalformedZNode("/brokers/topics/t", detail))
    assert [(line["event"], line["why"].rpartition(": ")[2]) for line in lines] == [
        ("znode cannot be read", "no JSON"),
        ("znode cannot be read", "'leader' is missing"),
    ]


def test_without_settings_a_topic_has_one_partition_with_one_replica() -> None:
    planned = plan(cluster(1, 2), TopicRequest("t"))
    assert isinstance(planned, TopicPlan)
    assert [len(replicas) for replicas in planned.assignment.partitions.values()] == [1]
    assert (RULES.default_partition_count, RULES.default_replication_factor) == (1, 1)


def test_a_topic_that_is_being_deleted_does_not_grow() -> None:
    context = cluster(1)
    with_topic(context, "t")
    context.topics_to_delete["t"] = None
    assert plan_partitions(PartitionsRequest("t", 2), context) == Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 't' does not exist."
    )


@pytest.mark.parametrize(("adding", "removing"), [({0: (2,)}, {}), ({}, {0: (1,)})])
def test_a_topic_of_which_replicas_come_or_go_does_not_grow(
    adding: dict[int, tuple[int, ...]], removing: dict[int, tuple[int, ...]]
) -> None:
    context = cluster(1, 2)
    known = with_topic(context, "t")
    moving = TopicAssignment("t", known.assignment.partitions, known.topic_id, adding, removing)
    context.topics["t"] = KnownTopic(moving, 5)
    assert plan_partitions(PartitionsRequest("t", 2), context) == Refusal(
        ErrorCode.REASSIGNMENT_IN_PROGRESS, "A partition reassignment is in progress for the topic 't'."
    )


def test_what_is_refused_before_anything_is_looked_at_says_so_in_kafkas_words() -> None:
    context = cluster(1)
    assert plan(context, TopicRequest("__cluster_metadata", 1, 1)) == Refusal(
        ErrorCode.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."
    )
    both = (
        "Both numPartitions or replicationFactor and replicasAssignments were set. "
        "Both cannot be used at the same time."
    )
    for wish in (TopicRequest("t", 1, assignment={0: [1]}), TopicRequest("t", -1, 1, assignment={0: [1]})):
        assert plan(context, wish) == Refusal(ErrorCode.INVALID_REQUEST, both)
