"""Requests: the LeaderAndIsr, UpdateMetadata and StopReplica requests that carry orders to the brokers.

Decides which broker is sent what, and in which order; pure. It must not know how requests travel, nor why the orders
were given.

One broker gets, in this order, as far as there is something to say:

    UpdateMetadata   who is alive, without partitions: a follower must know its leader's address before it follows
    LeaderAndIsr     the partitions with a replica on this broker, with the leaders' addresses
    UpdateMetadata   the partitions that changed, to every registered broker, those that are shutting down too
    StopReplica      replicas to stop or delete

Invariants:
I1  A broker gets LeaderAndIsr only for partitions that have a replica on it.
I2  Every request carries the controller's epoch and the receiver's broker epoch, so that a broker of the same id in
    another life, or one that knows a later controller, refuses it.
I3  A partition of a topic that is being deleted is published with the leader LEADER_DURING_DELETE, and led by nobody.
I4  A request says that it holds all topics only where each of them could be read.

UpdateMetadata also says, in a field of kavka's own, which brokers are shutting down, as KRaft's metadata does
(KIP-841). Else a new leader proposes such a follower for the ISR again and again, and is refused.

Versions are those that Apache Kafka 3.9.2 sends with inter.broker.protocol.version 3.4 and later: LeaderAndIsr 7,
UpdateMetadata 8, StopReplica 4. One field goes further: `type` says whether a LeaderAndIsr holds all replicas of its
receiver, or an UpdateMetadata all topics that there are. Kafka's own controller leaves it unknown with ZooKeeper, and
its brokers look at it only in requests of a KRaft controller. Without it a broker that was not reached while a topic
was deleted and the controller changed would show that topic for ever.

The messages of one call share structs: a receiver must not change them.

Source: Kafka's ControllerBrokerRequestBatch, KIP-380, KIP-516, KIP-570; KAFKA-4443 for the first UpdateMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.controller.decide.context import ControllerContext, LiveBroker
from kavka.controller.orders.orders import ClusterChange, PartitionOrder, StopOrder, partition_order
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.leader_and_isr_request import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kavka.protocol.messages.stop_replica_request import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kavka.protocol.messages.update_metadata_request import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kavka.protocol.schema import ZERO_UUID, Message
from kavka.zookeeper.znode_paths import TOPICS_PATH
from kavka.zookeeper.znodes import BrokerEndpoint

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4

INCREMENTAL: Final = 1
FULL: Final = 2
"""Kafka's AbstractControlRequest.Type."""

LEADER_DURING_DELETE: Final = BrokerId(-2)
EPOCH_DURING_DELETE: Final = -2
"""Kafka's LeaderAndIsr: what brokers are sent about a topic that is being deleted."""

_SECURITY_PROTOCOLS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class ControlRequest(NamedTuple):
    """One request to one broker."""

    key: ApiKey
    version: int
    message: Message


def listener_endpoint(broker: LiveBroker, listener_name: str) -> BrokerEndpoint | None:
    """Where the broker is reached through this listener; None if it does not have it."""
    endpoints = broker.registration.endpoints
    return next((endpoint for endpoint in endpoints if endpoint.listener_name == listener_name), None)


def control_requests(
    change: ClusterChange, context: ControllerContext, *, controller_id: BrokerId, listener_name: str
) -> dict[BrokerId, list[ControlRequest]]:
    """The requests for each registered broker, by id, in the order in which it is to get them.

    `listener_name` is that of inter-broker traffic: leaders are named with their addresses there.
    """
    batch = _Batch(context, controller_id, listener_name)
    orders: Sequence[PartitionOrder] = change.partitions
    complete = set(context.brokers) if change.is_complete else set(change.new_brokers)
    per_broker = _recipients(orders, context)
    everything = _everything(orders, context) if change.new_brokers else []
    for broker_id in change.new_brokers:
        per_broker[broker_id] = [order for order in everything if broker_id in order.replicas]
    stops: dict[BrokerId, list[StopOrder]] = {}
    for stop in change.stops:
        stops.setdefault(stop.broker_id, []).append(stop)

    deleted = batch.deleted_states(topic.name for topic in change.deleted_topics)
    published = batch.metadata_states(orders) + deleted
    published_to_new = batch.metadata_states(everything) + deleted
    requests: dict[BrokerId, list[ControlRequest]] = {}
    for broker_id in sorted(context.brokers):
        if broker_id in change.withheld_from:
            continue
        mine: list[ControlRequest] = []
        if change.brokers_changed:
            mine.append(batch.update_metadata(broker_id, [], INCREMENTAL))
        if per_broker.get(broker_id):
            kind = FULL if broker_id in complete else INCREMENTAL
            mine.append(batch.leader_and_isr(broker_id, per_broker[broker_id], kind))
        topics = published_to_new if broker_id in change.new_brokers else published
        if topics or change.is_complete:
            names_all = broker_id in complete and not _has_unreadable_topics(context)
            mine.append(batch.update_metadata(broker_id, topics, FULL if names_all else INCREMENTAL))
        if broker_id in stops:
            mine.append(batch.stop_replica(broker_id, stops[broker_id]))
        if mine:
            requests[broker_id] = mine
    return requests


def _has_unreadable_topics(context: ControllerContext) -> bool:
    """A topic that cannot be read just now is not gone. A broker that is sent all topics takes those that are not among
    them for deleted, and deletes what groups have committed for them (I4)."""
    return any(path.startswith(f"{TOPICS_PATH}/") for path in context.malformed)


def _recipients(orders: Iterable[PartitionOrder], context: ControllerContext) -> dict[BrokerId, list[PartitionOrder]]:
    per_broker: dict[BrokerId, list[PartitionOrder]] = {}
    for order in orders:
        for broker_id in order.replicas if order.recipients is None else order.recipients:
            if broker_id in context.brokers:
                per_broker.setdefault(broker_id, []).append(order)
    return per_broker


def _everything(orders: Iterable[PartitionOrder], context: ControllerContext) -> list[PartitionOrder]:
    """Orders for all partitions that have a state, except those of topics that are being deleted."""
    given = {order.topic_partition: order for order in orders}
    return [
        given.get(partition) or partition_order(context, partition)
        for partition in context.states
        if partition.topic not in context.topics_to_delete
    ]


class _Batch:
    """What the requests of one change have in common."""

    def __init__(self, context: ControllerContext, controller_id: BrokerId, listener_name: str) -> None:
        self._context = context
        self._controller_id = controller_id
        self._brokers = [
            _live_broker(broker, is_leaving=broker_id in context.shutting_down)
            for broker_id, broker in sorted(context.brokers.items())
        ]
        self._states: dict[TopicPartition, LeaderAndIsrPartitionState] = {}
        self._leaders: dict[BrokerId, LeaderAndIsrLiveLeader] = {}
        for broker_id, broker in sorted(context.brokers.items()):
            endpoint = listener_endpoint(broker, listener_name)
            if endpoint is not None:
                self._leaders[broker_id] = LeaderAndIsrLiveLeader(
                    broker_id=broker_id, host_name=endpoint.host, port=endpoint.port
                )

    # ----------------------------------------------------------------------------------------------- LeaderAndIsr

    def leader_and_isr(self, broker_id: BrokerId, orders: Iterable[PartitionOrder], kind: int) -> ControlRequest:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leader_ids: dict[BrokerId, None] = {}
        for order in orders:
            name = order.topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = LeaderAndIsrTopicState(
                    topic_name=name, topic_id=order.topic_id or ZERO_UUID, partition_states=[]
                )
                topics[name] = topic
            topic.partition_states.append(self._leader_and_isr_state(order))
            leader_ids[order.state.leader] = None
        message = LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            type=kind,
            topic_states=list(topics.values()),
            live_leaders=[leader for leader_id, leader in self._leaders.items() if leader_id in leader_ids],
        )
        return ControlRequest(ApiKey.LEADER_AND_ISR, LEADER_AND_ISR_VERSION, message)

    def _leader_and_isr_state(self, order: PartitionOrder) -> LeaderAndIsrPartitionState:
        """One struct per partition, however many brokers it goes to."""
        state = self._states.get(order.topic_partition)
        if state is None:
            state = LeaderAndIsrPartitionState(
                partition_index=order.topic_partition.partition,
                controller_epoch=order.controller_epoch,
                leader=order.state.leader,
                leader_epoch=order.state.leader_epoch,
                isr=list(order.state.isr),
                partition_epoch=order.state.partition_epoch,
                replicas=list(order.replicas),
                adding_replicas=list(order.adding),
                removing_replicas=list(order.removing),
                is_new=order.is_new,
                leader_recovery_state=order.recovery,
            )
            self._states[order.topic_partition] = state
        return state

    # --------------------------------------------------------------------------------------------- UpdateMetadata

    def metadata_states(self, orders: Iterable[PartitionOrder]) -> list[UpdateMetadataTopicState]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        offline = self._context.is_offline
        for order in orders:
            name, index = order.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic = UpdateMetadataTopicState(
                    topic_name=name, topic_id=order.topic_id or ZERO_UUID, partition_states=[]
                )
                topics[name] = topic
            partition = order.topic_partition
            topic.partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=order.controller_epoch,
                    leader=order.state.leader,
                    leader_epoch=order.state.leader_epoch,
                    isr=list(order.state.isr),
                    zk_version=order.state.partition_epoch,
                    replicas=list(order.replicas),
                    offline_replicas=[replica for replica in order.replicas if offline(partition, replica)],
                )
            )
        return list(topics.values())

    def deleted_states(self, names: Iterable[str]) -> list[UpdateMetadataTopicState]:
        """Topics whose deletion begins (I3), with the partitions whose states cannot be read: brokers may know them
        from a controller that could."""
        topics = []
        for name in names:
            known = self._context.topics[name]
            states = []
            for partition in known.topic_partitions():
                state = self._context.states.get(partition)
                replicas = known.replicas(partition.partition)
                offline: list[int] = [replica for replica in replicas if self._context.is_offline(partition, replica)]
                states.append(
                    UpdateMetadataPartitionState(
                        partition_index=partition.partition,
                        controller_epoch=self._context.epoch if state is None else state.state.controller_epoch,
                        leader=LEADER_DURING_DELETE,
                        leader_epoch=0,
                        isr=[] if state is None else list(state.state.isr),
                        zk_version=0,
                        replicas=list(replicas),
                        offline_replicas=offline,
                    )
                )
            topics.append(
                UpdateMetadataTopicState(topic_name=name, topic_id=known.topic_id or ZERO_UUID, partition_states=states)
            )
        return topics

    def update_metadata(self, broker_id: BrokerId, topics: list[UpdateMetadataTopicState], kind: int) -> ControlRequest:
        message = UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            type=kind,
            topic_states=topics,
            live_brokers=self._brokers,
        )
        return ControlRequest(ApiKey.UPDATE_METADATA, UPDATE_METADATA_VERSION, message)

    # ------------------------------------------------------------------------------------------------ StopReplica

    def stop_replica(self, broker_id: BrokerId, stops: Iterable[StopOrder]) -> ControlRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for stop in stops:
            name, index = stop.topic_partition
            topic = topics.setdefault(name, StopReplicaTopicState(topic_name=name, partition_states=[]))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=index, leader_epoch=stop.leader_epoch, delete_partition=stop.delete
                )
            )
        message = StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
        )
        return ControlRequest(ApiKey.STOP_REPLICA, STOP_REPLICA_VERSION, message)


def _live_broker(broker: LiveBroker, *, is_leaving: bool) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.registration.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=_SECURITY_PROTOCOLS[endpoint.security_protocol],
            )
            for endpoint in broker.registration.endpoints
            if endpoint.security_protocol in _SECURITY_PROTOCOLS
        ],
        rack=broker.registration.rack,
        kavka_is_shutting_down=is_leaving,
    )
