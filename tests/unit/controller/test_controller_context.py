"""What the controller knows of brokers and topics: who is there for what, and what is forgotten with whom."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
import structlog

from kavka.controller.decide.assignment import BrokerRack
from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.state_machines import PartitionStatus, Replica, ReplicaStatus
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper.znodes import MalformedZNode, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import registration

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def ids(*brokers: int) -> list[BrokerId]:
    return [BrokerId(each) for each in brokers]


def live(*brokers: int, epoch: int = 100) -> dict[BrokerId, LiveBroker]:
    """Registered in that order; each epoch is `epoch` and the broker's number."""
    return {
        broker_id: LiveBroker(registration(broker_id, f"r{broker_id}"), epoch + broker_id)
        for broker_id in ids(*brokers)
    }


def topic(name: str, *replicas: tuple[int, ...], topic_id: int | None = None) -> KnownTopic:
    known_id = None if topic_id is None else uuid.UUID(int=topic_id)
    return KnownTopic(TopicAssignment(name, dict(enumerate(replicas)), known_id), 1)


# -- brokers


def test_who_shuts_down_and_who_is_unreachable_are_there_for_some_things_and_not_for_others() -> None:
    context = ControllerContext(brokers=live(4, 3, 2, 1))
    context.shutting_down = {BrokerId(1): 101, BrokerId(2): 102}
    context.unreachable = {BrokerId(2): 102, BrokerId(3): 103}
    assert context.live_broker_ids() == ids(3, 4)
    assert context.reachable_broker_ids() == ids(1, 4)
    assert context.electable_broker_ids() == ids(4)
    assert context.broker_racks() == [BrokerRack(BrokerId(3), "r3"), BrokerRack(BrokerId(4), "r4")]


def test_a_broker_that_is_not_registered_has_an_epoch_that_no_broker_has() -> None:
    context = ControllerContext(brokers=live(0, 1))
    assert [context.broker_epoch(each) for each in ids(0, 1, 2)] == [100, 101, NO_BROKER_EPOCH]
    assert NO_BROKER_EPOCH == -1


def test_what_was_noticed_of_a_broker_is_of_that_registration_alone() -> None:
    context = ControllerContext(brokers=live(1, 2, 3))
    for marks in (context.shutting_down, context.unreachable):
        marks.update({BrokerId(1): 101, BrokerId(2): 102, BrokerId(3): 103})
    context.set_brokers({**live(1), **live(2, epoch=200)})
    assert context.shutting_down == context.unreachable == {BrokerId(1): 101}
    assert context.brokers.keys() == {1, 2}


def test_a_stop_that_was_not_clean_is_told_until_it_was_handled_in_that_registration() -> None:
    brokers = live(1, 2, 3, 4)
    for broker_id in ids(2, 3, 4):
        known = brokers[broker_id]
        brokers[broker_id] = known._replace(registration=replace(known.registration, is_unclean=True))
    context = ControllerContext(brokers=brokers, acted_on={BrokerId(3): 103, BrokerId(4): 99})
    assert context.unclean_broker_ids() == ids(2, 4)


def test_who_holds_replicas_is_known_and_so_is_who_is_registered() -> None:
    context = ControllerContext(brokers=live(1))
    assert context.known_broker_ids() == {1}
    context.set_topic(topic("t", (1, 2), (3,)))
    context.set_topic(topic("u", (4,)))
    assert context.known_broker_ids() == {1, 2, 3, 4}


def test_a_replica_serves_nothing_without_its_broker_or_its_disk() -> None:
    context = ControllerContext(brokers=live(1, 2))
    assert [context.is_offline(T0, each) for each in ids(1, 2, 3)] == [False, False, True]
    context.unreachable[BrokerId(2)] = 102
    assert [context.is_offline(T0, each) for each in ids(1, 2, 3)] == [False, True, True]
    context.failed_replicas[Replica(T0, BrokerId(1))] = None
    assert [context.is_offline(each, BrokerId(1)) for each in (T0, T1)] == [True, False]


# -- topics


def test_what_is_new_of_a_topic_is_told_and_is_new() -> None:
    context = ControllerContext()
    assert context.set_topic(topic("t", (1, 2), topic_id=7)) == [T0]
    context.partitions.move([T0], PartitionStatus.ONLINE)
    assert context.set_topic(topic("t", (1, 2), (2, 3), topic_id=7)) == [T1]
    assert (context.partitions.state(T0), context.partitions.state(T1)) == (
        PartitionStatus.ONLINE,
        PartitionStatus.NEW,
    )
    replicas = [Replica(T0, BrokerId(1)), Replica(T0, BrokerId(2)), Replica(T1, BrokerId(2)), Replica(T1, BrokerId(3))]
    assert context.replicas_of([T0, T1]) == replicas
    assert context.replicas.keys(ReplicaStatus.NEW) == replicas
    assert context.topic_name(uuid.UUID(int=7)) == "t"
    assert context.topic_name(uuid.UUID(int=8)) is None


def test_with_a_topic_all_that_is_its_own_goes_and_nothing_else() -> None:
    context = ControllerContext()
    for known in (topic("t", (1,), (2,), topic_id=7), topic("u", (1,), topic_id=8)):
        context.set_topic(known)
    state = KnownState(PartitionState(BrokerId(1), 3, (BrokerId(1),), 5), 9)
    context.states = {T0: state, U0: state}
    context.failed_replicas = dict.fromkeys([Replica(T1, BrokerId(2)), Replica(U0, BrokerId(1))])
    context.topics_to_delete = dict.fromkeys(["t", "u"])
    for path in ("/brokers/topics/t/partitions/1/state", "/brokers/topics/tt/partitions/0/state"):
        context.malformed[path] = MalformedZNode(path, "no JSON")
    context.remove_topic("t")
    assert list(context.topics) == ["u"]
    assert context.topic_names == {uuid.UUID(int=8): "u"}
    assert context.states == {U0: state}
    assert list(context.failed_replicas) == [Replica(U0, BrokerId(1))]
    assert list(context.topics_to_delete) == ["u"]
    assert list(context.malformed) == ["/brokers/topics/tt/partitions/0/state"]
    assert context.partitions.keys(PartitionStatus.NEW) == [U0]
    assert context.replicas.keys(ReplicaStatus.NEW) == [Replica(U0, BrokerId(1))]


def test_a_partitions_lists_are_those_of_its_topics_znode() -> None:
    known = KnownTopic(TopicAssignment("t", {0: (3, 1, 2), 1: (1,)}, None, {0: (3,)}, {0: (1, 2)}), 4)
    assert [known.replicas(each) for each in (0, 1)] == [(3, 1, 2), (1,)]
    assert [known.adding(each) for each in (0, 1)] == [(3,), ()]
    assert [known.removing(each) for each in (0, 1)] == [(1, 2), ()]
    assert list(known.topic_partitions()) == [T0, T1]
    state = PartitionState(BrokerId(3), 6, (BrokerId(3), BrokerId(1)), 5)
    assert KnownState(state, 9).leader_and_isr == LeaderAndIsr(BrokerId(3), 6, (BrokerId(3), BrokerId(1)), 9)


@pytest.mark.parametrize("path", ["/brokers/topics/t", "/brokers/topics/t/partitions/0/state"])
def test_a_znode_that_cannot_be_read_is_told_with_what_to_do(path: str) -> None:
    context = ControllerContext()
    with structlog.testing.capture_logs() as lines:
        context.found_malformed(MalformedZNode(path, "no JSON"))
    (line,) = lines
    assert (line["log_level"], line["event"], line["path"]) == ("error", "znode cannot be read", path)
    assert line["why"] == f"{path}: malformed: no JSON"
    assert line["next_step"] == (
        "its topic or partition is left alone: repair the znode, then delete /controller so that everything is read "
        "again"
    )
    assert list(context.malformed) == [path]
