"""Whatever changes: brokers get what concerns them, once, with the present epochs, and only what is true."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.orders.control_requests import FULL, control_requests
from kavka.controller.orders.orders import ClusterChange, PartitionOrder, partition_order
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration, PartitionState, TopicAssignment

BROKERS = tuple(map(BrokerId, range(1, 6)))


@st.composite
def clusters(draw: st.DrawFn) -> ControllerContext:
    context = ControllerContext(epoch=draw(st.integers(1, 9)))
    live = draw(st.lists(st.sampled_from(BROKERS), unique=True))
    context.set_brokers(
        {
            broker: LiveBroker(
                BrokerRegistration(broker, (BrokerEndpoint("L", "PLAINTEXT", "h", 9000 + broker),), 0), 50 + broker
            )
            for broker in live
        }
    )
    for number in range(draw(st.integers(0, 3))):
        assigned = draw(
            st.lists(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True), min_size=1, max_size=3)
        )
        name = f"t{number}"
        context.set_topic(KnownTopic(TopicAssignment(name, dict(enumerate(assigned)), uuid.UUID(int=number + 1)), 0))
        for index, replicas in enumerate(assigned):
            leader = draw(st.sampled_from([NO_LEADER, *replicas]))
            state = PartitionState(leader, draw(st.integers(0, 9)), tuple(replicas), 1)
            context.states[TopicPartition(name, index)] = KnownState(state, draw(st.integers(0, 9)))
        if draw(st.booleans()) and number == 2:
            context.topics_to_delete[name] = None
    return context


@st.composite
def changes(draw: st.DrawFn, context: ControllerContext) -> ClusterChange:
    serving = [partition for partition in context.states if partition.topic not in context.topics_to_delete]
    chosen = draw(st.lists(st.sampled_from(serving), unique=True)) if serving else []
    orders: list[PartitionOrder] = []
    for partition in chosen:
        replicas = context.topics[partition.topic].replicas(partition.partition)
        recipients = draw(st.none() | st.lists(st.sampled_from(replicas), unique=True).map(tuple))
        orders.append(partition_order(context, partition, is_new=draw(st.booleans()), recipients=recipients))
    registered = sorted(context.brokers)
    new = draw(st.lists(st.sampled_from(registered), unique=True)) if registered else []
    return ClusterChange(tuple(orders), brokers_changed=draw(st.booleans()), new_brokers=tuple(new))


def told(message: Any) -> dict[TopicPartition, Any]:
    states = [
        (TopicPartition(topic.topic_name, state.partition_index), state)
        for topic in message.topic_states
        for state in topic.partition_states
    ]
    assert len({partition for partition, _ in states}) == len(states), "nothing is said twice in one request"
    return dict(states)


@given(data=st.data(), context=clusters())
def test_everybody_is_told_what_concerns_them(data: st.DataObject, context: ControllerContext) -> None:
    change = data.draw(changes(context))
    made = control_requests(change, context, controller_id=BrokerId(1), listener_name="L")
    assert set(made) <= set(context.brokers)
    serving = {partition for partition in context.states if partition.topic not in context.topics_to_delete}
    ordered = {order.topic_partition: order for order in change.partitions}
    for broker_id in context.brokers:
        requests = made.get(broker_id, [])
        kinds = [request.key for request in requests]
        acted: dict[TopicPartition, Any] = {}
        published: dict[TopicPartition, Any] = {}
        for request in requests:
            message: Any = request.message
            assert message.controller_epoch == context.epoch
            assert message.broker_epoch == context.brokers[broker_id].epoch
            if request.key is ApiKey.LEADER_AND_ISR:
                acted = told(message)
                leaders = {state.leader for state in acted.values()}
                assert {leader.broker_id for leader in message.live_leaders} == leaders & set(context.brokers)
                assert (message.type == FULL) == (broker_id in change.new_brokers)
            else:
                published.update(told(message))
                assert [broker.id for broker in message.live_brokers] == sorted(context.brokers)
        hosted = {
            partition
            for partition in serving
            if broker_id in context.topics[partition.topic].replicas(partition.partition)
        }
        if broker_id in change.new_brokers:
            assert set(acted) == hosted
            assert set(published) == serving
        else:
            assert set(acted) == {
                partition
                for partition, order in ordered.items()
                if broker_id in (order.replicas if order.recipients is None else order.recipients)
            }
            assert set(published) == set(ordered)
        if acted and published:
            assert kinds.index(ApiKey.LEADER_AND_ISR) < len(kinds) - 1, "metadata names leaders that act already"
        if change.brokers_changed:
            assert kinds[0] is ApiKey.UPDATE_METADATA, "who follows knows whom"
        for partition, state in [*acted.items(), *published.items()]:
            known = context.states[partition]
            assert (state.leader, state.leader_epoch, tuple(state.isr)) == (
                known.state.leader,
                known.state.leader_epoch,
                known.state.isr,
            )
