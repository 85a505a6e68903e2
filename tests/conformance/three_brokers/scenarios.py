"""Scenarios of three brokers: what is asked of a controller that has several, some of which are down or move.

Each is a function of a `TrioSession`, and named as the function is. Requests are of the newest version that Apache
Kafka 3.9 and 4.3 both have, unless a step is of a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kavka.protocol import messages as m
from kavka.protocol.messages import (
    alter_partition_reassignments_request,
    create_partitions_request,
    create_topics_request,
    delete_records_request,
    delete_topics_request,
    elect_leaders_request,
    incremental_alter_configs_request,
    list_partition_reassignments_request,
)
from tests.conformance.three_brokers.trio_session import TrioSession

Steps = Callable[[TrioSession], None]
SCENARIOS: Final[dict[str, Steps]] = {}

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ELECT, REASSIGN, LIST, CONFIGS, DELETE_RECORDS = 7, 6, 3, 2, 0, 0, 1, 2
REASSIGN_WITH_FACTOR: Final = 1
"""4.1 and later: may the number of replicas change?"""
PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER = 2, 4
CRAWL = "1000"
"""Bytes a second, for a move that does not end by itself."""


def scenario(steps: Steps) -> Steps:
    SCENARIOS[steps.__name__] = steps
    return steps


# ---- requests -----------------------------------------------------------------------------------------------------


def creatable(name: str, partitions: int, replicas: int, assigned: Sequence[Sequence[int]] | None = None) -> Any:
    ct = create_topics_request
    return ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            ct.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in enumerate(assigned or ())
        ],
    )


def create(*topics: Any, timeout_ms: int = 10_000, validate_only: bool = False) -> Any:
    return m.CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def no_settings(struct: Any) -> bool:
    return type(struct).__name__ != "CreatableTopicConfigs"


def delete(*names: str, timeout_ms: int = 10_000) -> Any:
    dt = delete_topics_request
    return m.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=name) for name in names], timeout_ms=timeout_ms)


def grow(
    topic: str, count: int, assigned: Sequence[Sequence[int]] | None = None, *, validate_only: bool = False
) -> Any:
    cp = create_partitions_request
    listed = None if assigned is None else [cp.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assigned]
    wanted = cp.CreatePartitionsTopic(name=topic, count=count, assignments=listed)
    return m.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=validate_only)


def elect(kind: int, topic: str, *partitions: int) -> Any:
    chosen = elect_leaders_request.TopicPartitions(topic=topic, partitions=list(partitions))
    return m.ElectLeadersRequest(election_type=kind, topic_partitions=[chosen], timeout_ms=10_000)


def elect_all(kind: int) -> Any:
    return m.ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=10_000)


def reassign(topic: str, targets: dict[int, Sequence[int] | None], **more: Any) -> Any:
    ap = alter_partition_reassignments_request
    partitions = [
        ap.ReassignablePartition(partition_index=index, replicas=None if ids is None else list(ids))
        for index, ids in targets.items()
    ]
    wanted = ap.ReassignableTopic(name=topic, partitions=partitions)
    return m.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000, **more)


def moving(topic: str, *partitions: int) -> Any:
    lp = list_partition_reassignments_request
    wanted = lp.ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(partitions))
    return m.ListPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000)


def set_config(kind: int, name: str, values: dict[str, str | None]) -> Any:
    ia = incremental_alter_configs_request
    entries = [
        ia.AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
        for key, value in values.items()
    ]
    resource = ia.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def has_factor(session: TrioSession) -> bool:
    """Whether a reassignment may say that the number of replicas must stay."""
    answer = session.connection.ask(m.ApiVersionsRequest(), 0)
    return any(each.api_key == 45 and each.max_version >= REASSIGN_WITH_FACTOR for each in answer.api_keys)


# ---- topics -------------------------------------------------------------------------------------------------------


@scenario
def create_topics_on_three(session: TrioSession) -> None:
    name = session.name

    def ask(step: str, topic: Any, *, validate_only: bool = True) -> None:
        session.tell(step, create(topic, validate_only=validate_only), CREATE_TOPICS, keep=no_settings)

    ask("three replicas", creatable(name("three"), 2, 3), validate_only=False)
    ask("four replicas", creatable(name("four"), 1, 4))
    ask("one partition on each pair", creatable(name("pairs"), -1, -1, [(1, 2), (2, 3)]), validate_only=False)
    session.until(lambda: session.is_settled(name("pairs"), (1, 2), (2, 3)))
    session.look("the pairs", name("pairs"))
    ask("another number of replicas each", creatable(name("uneven"), -1, -1, [(1, 2), (3,)]))
    ask("a broker twice", creatable(name("twice"), -1, -1, [(1, 2), (3, 3)]))
    ask("nobody second", creatable(name("nobody"), -1, -1, [(1,), ()]))
    session.tell("grown, others", grow(name("pairs"), 3, [(3, 1)], validate_only=True), CREATE_PARTITIONS)
    session.tell("grown, one replica", grow(name("pairs"), 3, [(3,)]), CREATE_PARTITIONS)
    session.tell("grown, three replicas", grow(name("pairs"), 3, [(3, 1, 2)]), CREATE_PARTITIONS)
    session.tell("grown, unequal", grow(name("pairs"), 4, [(3, 1), (2,)]), CREATE_PARTITIONS)
    session.tell("grown, a broker twice", grow(name("pairs"), 3, [(3, 3)]), CREATE_PARTITIONS)


@scenario
def topics_while_a_broker_is_down(session: TrioSession) -> None:
    """Broker 3 has been there, and holds replicas."""
    name = session.name
    pair, whole, gone = (
        session.assigned("pair", (1, 3)),
        session.assigned("whole", (1, 2, 3)),
        session.assigned("gone", (1, 3)),
    )
    with session.without(3):
        session.look("who serves", pair, whole)

        def ask(step: str, topic: Any, *, validate_only: bool = False) -> None:
            session.tell(step, create(topic, validate_only=validate_only), CREATE_TOPICS, keep=no_settings)

        ask("two replicas", creatable(name("two"), 1, 2))
        ask("three replicas", creatable(name("three"), 1, 3), validate_only=True)
        ask("four replicas", creatable(name("four"), 1, 4), validate_only=True)
        ask("assigned, who is down second", creatable(name("second"), -1, -1, [(1, 3)]))
        ask("assigned, who is down first", creatable(name("first"), -1, -1, [(3, 1)]))
        ask("assigned to who is down", creatable(name("alone"), -1, -1, [(3,)]), validate_only=True)
        session.tell("grown, assigned with who is down", grow(pair, 2, [(3, 1)]), CREATE_PARTITIONS)
        session.tell("grown, assigned to who is down", grow(name("two"), 2, [(3, 3)]), CREATE_PARTITIONS)
        session.tell("grown to as many as live", grow(pair, 3), CREATE_PARTITIONS)
        session.tell("grown to more than live", grow(whole, 2, validate_only=True), CREATE_PARTITIONS)
        session.tell("deleted", delete(gone), DELETE_TOPICS)
    session.until(lambda: all(each.error_code == 3 for each in session.about(1, gone).topics))
    for made in (name("second"), name("first")):
        replicas = (1, 3) if "second" in made else (3, 1)
        session.until(lambda made=made, replicas=replicas: session.is_settled(made, replicas))  # type: ignore[misc]
    session.look("with all", name("second"), name("first"))


@scenario
def a_deleted_topic_is_in_the_way_of_its_name(session: TrioSession) -> None:
    topic = session.assigned("deleted", (1, 3))
    with session.without(3):
        session.tell("deleted", delete(topic), DELETE_TOPICS)
        session.look("not there", topic)
        session.tell("deleted again", delete(topic, timeout_ms=1_000), DELETE_TOPICS)
        session.tell("elected for", elect(PREFERRED, topic, 0), ELECT)
        session.tell("moved", reassign(topic, {0: (1, 2)}), REASSIGN)
        session.tell("grown", grow(topic, 2), CREATE_PARTITIONS)
    session.until(lambda: session.ask(create(creatable(topic, 1, 1)), CREATE_TOPICS).topics[0].error_code == 0)
    session.recorded["made anew"] = True


# ---- elections ----------------------------------------------------------------------------------------------------


@scenario
def preferred_elections(session: TrioSession) -> None:
    topic = session.assigned("preferred", (3, 1), (3, 2), (1, 3))
    with session.without(3):
        session.until(lambda: session.leads(topic, 1))
        session.look("without 3", topic)
        session.tell("down", elect(PREFERRED, topic, 0, 1, 2), ELECT)
        session.tell("all, down", elect_all(PREFERRED), ELECT, keep=session.ours)
        session.tell("unclean", elect(UNCLEAN, topic, 0, 2), ELECT)
        session.tell("unclean, all", elect_all(UNCLEAN), ELECT, keep=session.ours)
    session.until(lambda: session.is_settled(topic, (3, 1), (3, 2), (1, 3)))
    session.look("3 is back", topic)
    session.tell("one", elect(PREFERRED, topic, 0, 2, 7), ELECT)
    session.until(lambda: session.leads(topic, 3))
    session.tell("all", elect_all(PREFERRED), ELECT, keep=session.ours)
    session.until(lambda: session.leads(topic, 3, 1))
    session.look("3 leads", topic)
    session.tell("all again", elect_all(PREFERRED), ELECT, keep=session.ours)


@scenario
def unclean_elections(session: TrioSession) -> None:
    """Broker 2 is back without what broker 3 alone has, and broker 3 is gone."""
    topic, alone = session.assigned("unclean", (3, 2)), session.assigned("alone", (3,))
    session.filled(topic, 3)
    session.stop(2)
    session.until(lambda: [each.isr_nodes for each in session.about(3, topic).topics[0].partitions[:1]] == [[3]])
    session.filled(topic, 3)
    session.stage.stop(3)
    session.down.add(3)
    session._by_broker.pop(3).close()
    session.start(2)
    session.until(lambda: session.leads(topic, -1))
    session.look("nobody leads", topic, alone)
    session.tell("preferred", elect(PREFERRED, topic, 0), ELECT)
    session.tell("preferred, of one", elect(PREFERRED, alone, 0), ELECT)
    session.tell("unclean, nobody to be had", elect(UNCLEAN, alone, 0), ELECT)
    session.tell("unclean", elect(UNCLEAN, topic, 0), ELECT)
    session.until(lambda: session.leads(topic, 2))
    session.look("2 leads", topic)
    session.tell("unclean again", elect(UNCLEAN, topic, 0), ELECT)
    session.start(3)
    session.until(lambda: session.leads(alone, 3))


# ---- reassignments ------------------------------------------------------------------------------------------------


def slowed(session: TrioSession, prefix: str, replicas: Sequence[int]) -> str:
    """A topic with three megabytes, of which a new replica gets a thousand bytes a second."""
    topic = session.assigned(prefix, replicas)
    session.filled(topic, replicas[0], batches=30, size=100_000)
    session.until(lambda: session.is_settled(topic, replicas))
    for broker in (1, 2, 3):
        rates: dict[str, str | None] = {
            "leader.replication.throttled.rate": CRAWL,
            "follower.replication.throttled.rate": CRAWL,
        }
        session.broker(broker).ask(set_config(BROKER, str(broker), rates), CONFIGS)
    session.ask(
        set_config(
            TOPIC,
            topic,
            {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"},
        ),
        CONFIGS,
    )
    return topic


def quickened(session: TrioSession) -> None:
    for broker in (1, 2, 3):
        none: dict[str, str | None] = {
            "leader.replication.throttled.rate": None,
            "follower.replication.throttled.rate": None,
        }
        session.broker(broker).ask(set_config(BROKER, str(broker), none), CONFIGS)


@scenario
def a_reassignment_that_crawls(session: TrioSession) -> None:
    topic = slowed(session, "crawls", (1, 2))
    with_factor = has_factor(session)
    try:
        session.tell("begun", reassign(topic, {0: (1, 3)}), REASSIGN)
        session.tell("listed", moving(topic, 0), LIST)
        session.until(lambda: session.about(1, topic).topics[0].partitions[0].replica_nodes == [1, 3, 2])
        session.look("on its way", topic)
        session.tell("the same again", reassign(topic, {0: (1, 3)}), REASSIGN)
        session.tell("listed again", moving(topic, 0, 1), LIST)
        session.tell("grown", grow(topic, 2, [(1, 2)], validate_only=True), CREATE_PARTITIONS)
        session.tell("elected", elect(PREFERRED, topic, 0), ELECT)
        session.tell("three of them", reassign(topic, {0: (1, 2, 3)}), REASSIGN)
        session.tell("listed, three", moving(topic, 0), LIST)
        if with_factor:
            for step, ids in (("two", (1, 2)), ("three", (2, 1, 3)), ("one", (1,))):
                asked = reassign(topic, {0: ids}, allow_replication_factor_change=False)
                session.tell(f"{step}, as many as there are", asked, REASSIGN_WITH_FACTOR)
        session.tell("other order", reassign(topic, {0: (3, 2, 1)}), REASSIGN)
        session.tell("listed, other order", moving(topic, 0), LIST)
        session.tell("cancelled", reassign(topic, {0: None}), REASSIGN)
        session.tell("listed, cancelled", moving(topic, 0), LIST)
        session.until(lambda: set(session.about(1, topic).topics[0].partitions[0].replica_nodes) == {1, 2})
        session.tell("cancelled again", reassign(topic, {0: None}), REASSIGN)
        session.look("where it was", topic)
    finally:
        quickened(session)


@scenario
def reassignments_with_a_dead_broker(session: TrioSession) -> None:
    onto, off, order, alone = (
        session.assigned("onto", (1, 2)),
        session.assigned("off", (1, 3)),
        session.assigned("order", (3, 1)),
        session.assigned("alone", (3,)),
    )
    with session.without(3):
        session.tell("onto it", reassign(onto, {0: (1, 3)}), REASSIGN)
        session.tell("off it", reassign(off, {0: (1, 2)}), REASSIGN)
        session.until(lambda: session.is_settled(off, (1, 2)))
        session.tell("it moves back", reassign(order, {0: (1, 3)}), REASSIGN)
        session.tell("who was alone", reassign(alone, {0: (1,)}), REASSIGN)
        session.tell("listed", moving(alone, 0), LIST)
        session.tell("cancelled", reassign(alone, {0: None}), REASSIGN)
        session.tell("listed, cancelled", moving(alone, 0), LIST)
        session.tell("and again", reassign(alone, {0: (1,)}), REASSIGN)
        session.look("without it", order)
    session.until(lambda: session.is_settled(alone, (1,)))
    session.look("with it", off, alone)


@scenario
def a_topic_that_moves_is_deleted(session: TrioSession) -> None:
    topic = slowed(session, "doomed", (1, 2))
    try:
        session.tell("begun", reassign(topic, {0: (1, 3)}), REASSIGN)
        session.ask(delete(topic, timeout_ms=2_000), DELETE_TOPICS)
    finally:
        quickened(session)
    session.until(lambda: session.about(1, topic).topics[0].error_code == 3)
    session.until(lambda: not session.ask(moving(topic, 0), LIST).topics)
    session.tell("listed", moving(topic, 0), LIST)
    session.tell("moved", reassign(topic, {0: (1, 2)}), REASSIGN)
    session.until(lambda: session.ask(create(creatable(topic, 1, 1)), CREATE_TOPICS).topics[0].error_code == 0)
    session.recorded["made anew"] = True


@scenario
def reassignments_within_a_set(session: TrioSession) -> None:
    """What needs no copy is done at once."""
    topic = session.assigned("within", (1, 2, 3), (1, 2, 3), (1, 2, 3))
    session.tell("another order", reassign(topic, {0: (3, 2, 1)}), REASSIGN)
    session.tell("fewer", reassign(topic, {1: (3, 2)}), REASSIGN)
    session.tell("one", reassign(topic, {2: (2,)}), REASSIGN)
    session.until(lambda: session.is_settled(topic, (3, 2, 1), (3, 2), (2,)))
    session.look("done", topic)
    session.tell("good beside bad", reassign(topic, {0: (1, 2), 1: (9,), 2: (2, 2), 3: (1,)}), REASSIGN)
    session.until(lambda: session.is_settled(topic, (1, 2), (3, 2), (2,)))
    session.look("the good one", topic)


# ---- settings and records -----------------------------------------------------------------------------------------


@scenario
def questions_to_another_broker(session: TrioSession) -> None:
    topic = session.assigned("other", (1, 2))
    session.filled(topic, 1)
    dr = delete_records_request
    wanted = dr.DeleteRecordsTopic(name=topic, partitions=[dr.DeleteRecordsPartition(partition_index=0, offset=1)])
    request = m.DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000)
    session.tell("records, at a follower", request, DELETE_RECORDS, broker=2)
    session.tell("records, where there is no replica", request, DELETE_RECORDS, broker=3)
    session.tell("records, at the leader", request, DELETE_RECORDS, broker=1)
    one = {"log.cleaner.backoff.ms": "20000"}
    session.tell("settings of another broker", set_config(BROKER, "2", one), CONFIGS, broker=1)
    session.tell("settings of a broker", set_config(BROKER, "1", one), CONFIGS, broker=1)
    session.broker(1).ask(set_config(BROKER, "1", {"log.cleaner.backoff.ms": None}), CONFIGS)


@scenario
def records_are_deleted_while_a_replica_is_down(session: TrioSession) -> None:
    topic = session.assigned("records", (1, 3))
    session.filled(topic, 1, batches=3)
    dr = delete_records_request

    def wanted(offset: int, timeout_ms: int = 10_000) -> Any:
        partition = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
        return m.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=timeout_ms
        )

    with session.without(3):
        session.tell("deleted", wanted(2), DELETE_RECORDS, broker=1)
    session.until(lambda: session.is_settled(topic, (1, 3)))
    session.tell("deleted again", wanted(1), DELETE_RECORDS, broker=1)
    session.tell("all", wanted(-1), DELETE_RECORDS, broker=1)
    session.tell("beyond", wanted(99), DELETE_RECORDS, broker=1)
