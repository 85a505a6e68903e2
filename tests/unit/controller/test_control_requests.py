"""Requests: who is told what, in which order, with which epochs."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.state_machines import Replica
from kavka.controller.orders.control_requests import FULL, INCREMENTAL, ControlRequest, control_requests
from kavka.controller.orders.orders import ClusterChange, DeletedTopic, StopOrder, partition_order
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.codec import decode, encode
from kavka.zookeeper.znode_paths import partition_state_path, topic_path
from kavka.zookeeper.znodes import RECOVERING, MalformedZNode, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import registration

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
A_ID = uuid.UUID(int=1)
LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def context(*brokers: int) -> ControllerContext:
    """Controller epoch 7. Topic a with id: 0 on (1, 2), 1 on (2, 3); topic b without one: 0 on (3,)."""
    known = ControllerContext(epoch=7)
    known.set_brokers({each: LiveBroker(registration(each, rack=f"r{each}"), 100 + each) for each in ids(*brokers)})
    known.set_topic(KnownTopic(TopicAssignment("a", {0: (1, 2), 1: (2, 3)}, A_ID), 0))
    known.set_topic(KnownTopic(TopicAssignment("b", {0: (3,)}, None), 0))
    known.states[A0] = KnownState(PartitionState(BrokerId(1), 4, ids(1, 2), 6), 10)
    known.states[A1] = KnownState(PartitionState(BrokerId(2), 5, ids(2), 6, RECOVERING), 11)
    known.states[B0] = KnownState(PartitionState(BrokerId(3), 0, ids(3), 6), 0)
    return known


def requests(known: ControllerContext, change: ClusterChange) -> dict[BrokerId, list[ControlRequest]]:
    made = control_requests(change, known, controller_id=BrokerId(1), listener_name="PLAINTEXT")
    return dict(made)


def keys(made: dict[BrokerId, list[ControlRequest]]) -> dict[BrokerId, list[ApiKey]]:
    return {broker_id: [request.key for request in of_broker] for broker_id, of_broker in made.items()}


def partitions(request: ControlRequest) -> list[TopicPartition]:
    message: Any = request.message
    return [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in message.topic_states
        for state in topic.partition_states
    ]


def test_replicas_are_told_to_act_and_everybody_gets_the_metadata() -> None:
    known = context(1, 2, 3)
    made = requests(known, ClusterChange(partitions=(partition_order(known, A0, is_new=True),)))
    assert keys(made) == {
        1: [LEADER_AND_ISR, UPDATE_METADATA],
        2: [LEADER_AND_ISR, UPDATE_METADATA],
        3: [UPDATE_METADATA],
    }
    message: Any = made[BrokerId(2)][0].message
    assert (message.controller_id, message.controller_epoch, message.broker_epoch) == (1, 7, 102)
    assert (message.type, message.is_k_raft_controller) == (INCREMENTAL, False)
    (topic,) = message.topic_states
    assert (topic.topic_name, topic.topic_id) == ("a", A_ID)
    (state,) = topic.partition_states
    assert (state.partition_index, state.controller_epoch, state.leader, state.leader_epoch) == (0, 6, 1, 4)
    assert (state.isr, state.partition_epoch, state.replicas, state.is_new) == ([1, 2], 10, [1, 2], True)
    assert [(leader.broker_id, leader.port) for leader in message.live_leaders] == [(1, 9093)]
    metadata: Any = made[BrokerId(3)][0].message
    assert (metadata.broker_epoch, [broker.id for broker in metadata.live_brokers]) == (103, [1, 2, 3])
    assert [broker.rack for broker in metadata.live_brokers] == ["r1", "r2", "r3"]
    (published,) = metadata.topic_states[0].partition_states
    assert (published.leader, published.leader_epoch, published.isr, published.zk_version) == (1, 4, [1, 2], 10)


def test_who_is_about_to_stop_is_said_with_who_is_alive() -> None:
    known = context(1, 2, 3)
    known.shutting_down[BrokerId(2)] = 102
    made = requests(known, ClusterChange(brokers_changed=True))
    for message in (made[BrokerId(broker_id)][0].message for broker_id in (1, 2, 3)):
        told = [(broker.id, broker.kavka_is_shutting_down) for broker in message.live_brokers]  # type: ignore[attr-defined]
        assert told == [(1, False), (2, True), (3, False)]


def test_who_is_alive_is_said_before_anybody_is_to_follow() -> None:
    known = context(1, 2, 3)
    made = requests(known, ClusterChange(partitions=(partition_order(known, A0),), brokers_changed=True))
    assert keys(made)[2] == [UPDATE_METADATA, LEADER_AND_ISR, UPDATE_METADATA]
    first: Any = made[BrokerId(2)][0].message
    assert first.topic_states == []
    assert len(first.live_brokers) == 3


def test_a_new_broker_is_told_everything_and_the_others_what_changed() -> None:
    known = context(1, 2, 3)
    change = ClusterChange(partitions=(partition_order(known, A1),), brokers_changed=True, new_brokers=(BrokerId(3),))
    made = requests(known, change)
    _, act, published = made[BrokerId(3)]
    assert sorted(partitions(act)) == [A1, B0]
    assert act.message.type == FULL  # type: ignore[attr-defined]
    assert sorted(partitions(published)) == [A0, A1, B0]
    assert partitions(made[BrokerId(2)][1]) == [A1]
    assert made[BrokerId(2)][1].message.type == INCREMENTAL  # type: ignore[attr-defined]
    assert partitions(made[BrokerId(1)][1]) == [A1]


def test_the_first_orders_of_a_controller_are_complete() -> None:
    known = context(1, 2, 3)
    orders = tuple(partition_order(known, partition) for partition in known.states)
    made = requests(known, ClusterChange(partitions=orders, brokers_changed=True, is_complete=True))
    for broker_id in (1, 2, 3):
        assert made[broker_id][1].message.type == FULL  # type: ignore[attr-defined]
        assert partitions(made[broker_id][2]) == [A0, A1, B0]


@pytest.mark.parametrize("path", [topic_path("c"), partition_state_path(TopicPartition("c", 0))])
def test_what_cannot_be_read_is_not_said_to_be_gone(path: str) -> None:
    known = context(1, 2, 3)
    known.malformed[path] = MalformedZNode(path, "garbage")
    orders = tuple(partition_order(known, partition) for partition in known.states)
    for change in (
        ClusterChange(partitions=orders, brokers_changed=True, is_complete=True),
        ClusterChange(brokers_changed=True, new_brokers=(BrokerId(3),)),
    ):
        _, _, published = requests(known, change)[BrokerId(3)]
        assert published.message.type == INCREMENTAL  # type: ignore[attr-defined]
        assert partitions(published) == [A0, A1, B0]


def test_metadata_alone_and_named_recipients() -> None:
    known = context(1, 2, 3)
    order = partition_order(known, A0, recipients=())
    assert keys(requests(known, ClusterChange(partitions=(order,)))) == {
        1: [UPDATE_METADATA],
        2: [UPDATE_METADATA],
        3: [UPDATE_METADATA],
    }
    named = keys(requests(known, ClusterChange(partitions=(order._replace(recipients=ids(2)),))))
    assert [broker_id for broker_id, sent in named.items() if LEADER_AND_ISR in sent] == [2]


def test_dead_brokers_get_nothing_and_their_replicas_are_offline() -> None:
    known = context(1, 3)
    made = requests(known, ClusterChange(partitions=(partition_order(known, A0), partition_order(known, A1))))
    assert sorted(made) == [1, 3]
    metadata: Any = made[BrokerId(1)][-1].message
    assert [state.offline_replicas for state in metadata.topic_states[0].partition_states] == [[2], [2]]


def test_unreachable_brokers_and_failed_directories_are_offline_replicas() -> None:
    known = context(1, 2, 3)
    known.unreachable[BrokerId(3)] = 103
    known.failed_replicas[Replica(A0, BrokerId(2))] = None
    made = requests(known, ClusterChange(partitions=(partition_order(known, A0), partition_order(known, A1))))
    metadata: Any = made[BrokerId(1)][-1].message
    assert [state.offline_replicas for state in metadata.topic_states[0].partition_states] == [[2], [3]]
    assert 3 in made, "it is registered: it is told, if it lives"


def test_replicas_under_reassignment_and_recovery_are_told() -> None:
    known = context(1, 2, 3)
    known.set_topic(KnownTopic(TopicAssignment("a", {0: (1, 2), 1: (2, 3)}, A_ID, {1: (3,)}, {1: (2,)}), 1))
    made = requests(known, ClusterChange(partitions=(partition_order(known, A1),)))
    message: Any = made[BrokerId(2)][0].message
    (state,) = message.topic_states[0].partition_states
    assert (state.adding_replicas, state.removing_replicas, state.leader_recovery_state) == ([3], [2], RECOVERING)


def test_a_topic_that_is_being_deleted_has_no_leader_and_is_not_led_by_a_new_broker() -> None:
    known = context(1, 2, 3)
    known.topics_to_delete["a"] = None
    stop = StopOrder(A0, BrokerId(2), -2, delete=True)
    made = requests(known, ClusterChange(deleted_topics=(DeletedTopic("a", A_ID),), stops=(stop,)))
    assert keys(made) == {1: [UPDATE_METADATA], 2: [UPDATE_METADATA, STOP_REPLICA], 3: [UPDATE_METADATA]}
    metadata: Any = made[BrokerId(1)][0].message
    assert [(state.leader, state.isr) for state in metadata.topic_states[0].partition_states] == [
        (-2, [1, 2]),
        (-2, [2]),
    ]
    told: Any = made[BrokerId(2)][1].message
    (state,) = told.topic_states[0].partition_states
    assert (state.partition_index, state.leader_epoch, state.delete_partition) == (0, -2, True)
    back = requests(known, ClusterChange(brokers_changed=True, new_brokers=ids(2, 3)))
    assert keys(back)[2] == [UPDATE_METADATA, UPDATE_METADATA]
    assert partitions(back[3][1]) == [B0]


def test_the_deletion_of_a_partition_without_a_readable_state_is_announced_too() -> None:
    """A former controller has announced it; brokers would show the topic for ever, and keep its committed offsets."""
    known = context(1, 2, 3)
    del known.states[A0]
    known.topics_to_delete["a"] = None
    made = requests(known, ClusterChange(deleted_topics=(DeletedTopic("a", A_ID),)))
    metadata: Any = made[BrokerId(1)][0].message
    states = metadata.topic_states[0].partition_states
    assert [(state.partition_index, state.leader, state.isr) for state in states] == [(0, -2, []), (1, -2, [2])]


def test_a_leader_without_the_listener_has_no_address() -> None:
    known = context(1, 2)
    made = control_requests(
        ClusterChange(partitions=(partition_order(known, A0),)),
        known,
        controller_id=BrokerId(1),
        listener_name="OTHER",
    )
    message: Any = made[BrokerId(1)][0].message
    assert message.live_leaders == []


def test_every_request_can_be_put_on_the_wire() -> None:
    known = context(1, 2, 3)
    change = ClusterChange(
        partitions=tuple(partition_order(known, partition) for partition in known.states),
        brokers_changed=True,
        stops=(StopOrder(A0, BrokerId(2), 4, delete=False),),
    )
    for of_broker in requests(known, change).values():
        for request in of_broker:
            data = encode(request.message, request.version)
            assert encode(decode(type(request.message), data, request.version), request.version) == data
