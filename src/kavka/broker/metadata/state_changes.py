"""StateChanges: carries out what the controller says about this broker's replicas and about the cluster.

Takes LeaderAndIsr, UpdateMetadata and StopReplica, from the controller in this broker or from another broker. Decides
which of them still count, and the order of their effects: a replica has its log before it leads or follows, and a
coordinator is loaded after its partition leads. Must not know the controller's reasons.

    I1  metadata shows this broker as a leader only when it serves the partition, so that a client that comes here can
        write. If the controller's UpdateMetadata comes first, the partition is shown without a leader meanwhile
    I2  one message at a time, in their order; for each partition a message takes full effect or none. The epochs that
        protect against older messages rise together with the effect, never before (KAFKA-9307)
    I3  a partition whose log directory failed is published without this broker as its leader
    I4  a message of an older controller, or for a former registration of this broker, changes nothing

| message        | refused as a whole     | refused for a partition                                                  |
|----------------|------------------------|--------------------------------------------------------------------------|
| LeaderAndIsr   | STALE_BROKER_EPOCH,    | KAFKA_STORAGE_ERROR; INCONSISTENT_TOPIC_ID; STALE_CONTROLLER_EPOCH (an   |
|                | STALE_CONTROLLER_EPOCH | older leader epoch); UNKNOWN_TOPIC_OR_PARTITION (no replica of it here)  |
| UpdateMetadata | the same two           |                                                                          |
| StopReplica    | the same two           | KAFKA_STORAGE_ERROR; FENCED_LEADER_EPOCH                                 |

An equal leader epoch is accepted: a new controller repeats what its predecessor may not have sent (S33), and a replica
that was removed from the assignment may be stopped in the epoch that it knows (KAFKA-13972). Apache Kafka answers
STALE_CONTROLLER_EPOCH to an equal epoch in LeaderAndIsr, and changes nothing either.

Source: Kafka's ReplicaManager.becomeLeaderOrFollower, updateMetadataCache and stopReplicas, and KafkaApis above them;
KIP-380 (broker epochs), KIP-516 (topic ids), KIP-570 (leader epochs in StopReplica). In Kafka, metadata may show a
leader before it serves, and acks=0 right after a topic's creation can lose records.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kavka.broker.late import Late
from kavka.broker.metadata.controller_messages import (
    LEADER_DURING_DELETE,
    MAX_PARTITION_INDEX,
    Order,
    Stop,
    broker_of,
    impossible_topic,
    is_possible_index,
    orders_of,
    partition_of,
    stops_of,
    topics_of,
)
from kavka.broker.metadata.metadata_cache import (
    GROUP_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Endpoint,
    MetadataCache,
    PartitionMetadata,
    TopicMetadata,
)
from kavka.broker.metadata.published_metadata import PublishedMetadata
from kavka.broker.settings.topic_settings import log_config
from kavka.config.topic import TopicConfig
from kavka.errors import ErrorCode, InconsistentMetadata, StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager
from kavka.log.unified_log import UnifiedLog
from kavka.logger import Logger
from kavka.model import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, BrokerId, GoneTopic, LeaderAndIsr, LeaderEpoch, TopicPartition
from kavka.replication.decide.partition import Partition
from kavka.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.flight.recorder import FlightRecorder
    from kavka.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
    from kavka.protocol.messages.stop_replica_request import StopReplicaRequest
    from kavka.protocol.messages.update_metadata_request import (
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )
    from kavka.replication.decide.fetch_state import Followed

logger = Logger(__name__)

PARTITIONS_AT_ONCE: Final = 100
"""Partitions that are made or removed before clients have their turn: 10 ms."""
FULL_UPDATE: Final = 2
"""`type` of an UpdateMetadata that names all topics that there are. A controller of Apache Kafka never says so here."""
Errors = dict[TopicPartition, ErrorCode]


class Fetchers(Protocol):
    """What fetches the partitions that this broker follows (`replication.fetcher_manager`)."""

    def follow(self, items: Sequence[Followed]) -> None: ...

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None: ...

    def set_endpoints(self, endpoints: Mapping[BrokerId, Endpoint]) -> None: ...


class Topics(Protocol):
    """The settings of topics, and what is known of them in ZooKeeper."""

    def topic(self, name: str) -> TopicConfig: ...

    async def require_topics(self, names: Iterable[str]) -> None:
        """Reads the settings of topics that were not read yet. Raises nothing: what cannot be read now follows."""
        ...

    async def partition_count(self, name: str) -> int:
        """How many partitions the topic has in ZooKeeper, 0 where it is not there. Asks until it is answered."""
        ...

    def forget_topic(self, name: str) -> None: ...


class Coordinator(Protocol):
    """Who keeps its state in a topic's partitions, each where it is led (`coordinator/`)."""

    @property
    def partition_count(self) -> int:
        """By how many partitions keys are placed; 0 while that is not known."""
        ...

    def set_partition_count(self, count: int) -> None: ...

    def load(self, partition: int, leader_epoch: LeaderEpoch) -> Coroutine[None, None, None]: ...

    def unload(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None: ...

    def forget(self, partition: int) -> None: ...


class Hosted(NamedTuple):
    """What the controller's messages change on this broker. A coordinator is made with the first order about its
    topic."""

    metadata: MetadataCache
    replicas: ReplicaManager
    logs: LogManager
    groups: Late[GroupCoordinator]
    transactions: Late[Coordinator]
    share_states: Late[Coordinator]


class StateChangePorts(NamedTuple):
    """What the broker gives. `new_fetchers` makes what fetches from other brokers, when the first partition is to be
    followed. `broker_epoch` is that of the present registration. `spawn` runs a task that ends with the broker."""

    topics: Topics
    new_fetchers: Callable[[], Fetchers]
    broker_epoch: Callable[[], int]
    wall_ms: Callable[[], int]
    on_storage_error: Callable[[StorageError], None]
    spawn: Callable[[Coroutine[None, None, None]], None]
    on_topics_deleted: Callable[[frozenset[uuid.UUID]], Coroutine[None, None, None]]
    """Is told the ids of topics that the controller says are deleted."""


class StateChanges:
    """Applies the controller's messages to what this broker hosts and knows."""

    def __init__(
        self,
        broker_id: BrokerId,
        inter_broker_listener: str,
        hosted: Hosted,
        ports: StateChangePorts,
        *,
        recorder: FlightRecorder | None = None,
        expects_topics: bool = False,
    ) -> None:
        """`recorder` records what the controller says. `expects_topics`: ZooKeeper had topics when this broker
        started."""
        metadata, replicas = hosted.metadata, hosted.replicas
        self._broker_id = broker_id
        self._inter_broker_listener = inter_broker_listener
        self._metadata = metadata
        self._replicas = replicas
        self._logs = hosted.logs
        self._groups = hosted.groups
        self._coordinators: Mapping[str, Late[Coordinator]] = {
            GROUP_METADATA_TOPIC: hosted.groups,
            TRANSACTION_STATE_TOPIC: hosted.transactions,
            SHARE_STATE_TOPIC: hosted.share_states,
        }
        self._topics = ports.topics
        self._new_fetchers = ports.new_fetchers
        self._fetchers: Fetchers | None = None
        self._broker_epoch = ports.broker_epoch
        self._wall_ms = ports.wall_ms
        self._on_storage_error = ports.on_storage_error
        self._spawn = ports.spawn
        self._on_topics_deleted = ports.on_topics_deleted
        self._recorder = recorder
        self._expects_topics = expects_topics
        self._turn = asyncio.Lock()
        self._published = PublishedMetadata(broker_id, metadata, replicas)
        self._arrivals: dict[str, asyncio.Event] = {}
        self.controller_epoch = -1
        """The highest that a message came with."""
        self.informed = asyncio.Event()
        """Set with the first UpdateMetadata that says how the cluster stands: who is alive, and, where there are
        topics, who leads."""

    def _refusal(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """The error for a message that no longer counts (I4); NONE if it counts, and then its controller epoch is the
        highest. Once the logs are closed nothing counts, even if the session has not ended yet. A broker epoch above
        this broker's is accepted: the controller may see a registration before the broker does.
        """
        if self._logs.is_released or 0 <= broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    # -- LeaderAndIsr

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> tuple[ErrorCode, Errors]:
        """Leads and follows as the controller orders. Returns the error of the whole message, and one per partition.

        Serves clients in between: to lead ten thousand new partitions takes a second.
        """
        errors: Errors = {}
        orders = _possible_orders(request, errors)
        async with self._turn:
            refusal = self._refusal(request.controller_epoch, request.broker_epoch)
            if refusal is not ErrorCode.NONE:
                _log_refusal("LeaderAndIsr", request.controller_id, request.controller_epoch, refusal)
                return refusal, {}
            await self._topics.require_topics(dict.fromkeys(order.topic_partition.topic for order in orders))
            are_many = len(orders) > PARTITIONS_AT_ONCE
            with self._replicas.followers.roles_changing() if are_many else nullcontext():
                for start in range(0, len(orders), PARTITIONS_AT_ONCE):
                    self._take_roles(orders[start : start + PARTITIONS_AT_ONCE], errors)
                    await asyncio.sleep(0)
            return ErrorCode.NONE, errors

    def _take_roles(self, orders: Sequence[Order], errors: Errors) -> None:
        now_ms = self._wall_ms()
        followed: list[Partition] = []
        for order in orders:
            error, partition = self._host(order, now_ms)
            if partition is not None and error is ErrorCode.NONE:
                try:
                    if order.state.leader == self._broker_id:
                        error = self._lead(partition, order)
                    else:
                        error = self._follow(partition, order, followed)
                except StorageError as failure:
                    self._on_storage_error(failure)
                    self.take_offline([order.topic_partition])
                    error = ErrorCode.KAFKA_STORAGE_ERROR
            errors[order.topic_partition] = error
        if followed:
            self._fetch(followed)

    def _host(self, order: Order, now_ms: int) -> tuple[ErrorCode, Partition | None]:
        """The partition that the order is for, created if it is new here. None and an error if it is refused."""
        topic_partition = order.topic_partition
        # The logs may be closed between two parts of one message.
        if self._logs.is_released or self._replicas.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR, None
        hosted = self._replicas.partition(*topic_partition)
        if hosted is not None:
            if order.topic_id.int and hosted.topic_id.int and order.topic_id != hosted.topic_id:
                logger.warning(
                    "leadership refused",
                    partition=str(topic_partition),
                    why="the topic was deleted and created again, and the log of the earlier topic is still here",
                    expected=str(hosted.topic_id),
                    found=str(order.topic_id),
                )
                return ErrorCode.INCONSISTENT_TOPIC_ID, None
            if order.state.leader_epoch < hosted.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH, None
        if self._broker_id not in order.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if hosted is not None:
            return self._identified(hosted, order), hosted
        config = self._topics.topic(topic_partition.topic)
        log = self._log_on_some_disk(order, log_config(config), now_ms)
        if log is None:
            self.take_offline([topic_partition])
            return ErrorCode.KAFKA_STORAGE_ERROR, None
        new_partition = Partition if self._recorder is None else self._recorder.new_partition
        partition = new_partition(
            topic_partition,
            order.topic_id,
            log,
            local_broker_id=self._broker_id,
            min_insync_replicas=config.min_insync_replicas,
            rules=self._replicas.rules,
        )
        self._replicas.host(partition)
        return ErrorCode.NONE, partition

    def _identified(self, hosted: Partition, order: Order) -> ErrorCode:
        """The topic may have got an id since: a cluster that learns of topic ids gives one to each topic, in the leader
        epochs that there are."""
        if order.topic_id.int and not hosted.topic_id.int:
            try:
                hosted.log.assign_topic_id(order.topic_id)
            except InconsistentMetadata:
                return ErrorCode.INCONSISTENT_TOPIC_ID
            self._replicas.identify(hosted, order.topic_id)
        return ErrorCode.NONE

    def _coordinator(self, topic: str) -> Coordinator | None:
        """Who keeps its state in this topic; None for all topics but two."""
        late = self._coordinators.get(topic)
        return None if late is None else late()

    def _log_on_some_disk(self, order: Order, config: LogConfig, now_ms: int) -> UnifiedLog | None:
        """A new partition's log is made on another disk where one fails, as Kafka does. None if there is none."""
        for _ in self._logs.live_directories:  # a failure takes one of them
            try:
                return self._log(order, config, now_ms)
            except StorageError as failure:
                self._on_storage_error(failure)
                if not order.is_new:
                    break
        return None

    def _log(self, order: Order, config: LogConfig, now_ms: int) -> UnifiedLog:
        topic_partition, topic_id = order.topic_partition, order.topic_id if order.topic_id.int else None
        try:
            return self._logs.get_or_create(topic_partition, topic_id, now_ms, is_new=order.is_new, config=config)
        except InconsistentMetadata:
            # 1. The topic was deleted: its znodes are gone. 2. The broker was killed before it renamed the log.
            # 3. A topic of the same name was created: the log on disk is not its log.
            self._logs.set_aside(topic_partition)
            return self._logs.get_or_create(topic_partition, topic_id, now_ms, config=config)

    def _lead(self, partition: Partition, order: Order) -> ErrorCode:
        change = self._replicas.lead(
            partition,
            order.state,
            order.replicas,
            adding=order.adding,
            removing=order.removing,
            is_new=order.is_new,
        )
        if change.is_stale:
            return _stale(partition, order)
        if change.is_new_epoch:
            self._unfollow([order.topic_partition])
        self._published.on_leading(order.topic_partition, partition.leader_epoch)
        topic, index = order.topic_partition
        coordinator = self._coordinator(topic)
        if coordinator is not None:
            self._spawn(coordinator.load(index, order.state.leader_epoch))
        return ErrorCode.NONE

    def _follow(self, partition: Partition, order: Order, followed: list[Partition]) -> ErrorCode:
        """Follows from now on; `followed` gets the partition if it is to be fetched."""
        topic, index = order.topic_partition
        change = self._replicas.follow(
            partition, order.state, order.replicas, adding=order.adding, removing=order.removing
        )
        if change.is_stale:
            return _stale(partition, order)
        coordinator = self._coordinator(topic)
        if coordinator is not None:
            coordinator.unload(index, order.state.leader_epoch)
        if order.state.leader == NO_LEADER:
            self._unfollow([order.topic_partition])
        else:
            followed.append(partition)
        return ErrorCode.NONE

    def _fetch(self, partitions: Sequence[Partition]) -> None:
        from kavka.replication.decide.fetch_state import Followed

        if self._fetchers is None:
            self._fetchers = self._new_fetchers()
            self._fetchers.set_endpoints(self._endpoints())
        self._fetchers.follow(
            [Followed(partition, partition.state.leader, partition.leader_epoch) for partition in partitions]
        )

    def _unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        if self._fetchers is not None:
            self._fetchers.unfollow(topic_partitions)

    # -- UpdateMetadata

    async def update_metadata(self, request: UpdateMetadataRequest) -> ErrorCode:
        """Takes over who is alive, and partitions as they are now; they are served by then where this broker is named
        as their leader (I1)."""
        async with self._turn:
            refusal = self._refusal(request.controller_epoch, request.broker_epoch)
            if refusal is not ErrorCode.NONE:
                _log_refusal("UpdateMetadata", request.controller_id, request.controller_epoch, refusal)
                return refusal
            metadata = self._metadata
            metadata.controller_id = BrokerId(max(request.controller_id, NO_LEADER))
            brokers = [broker_of(broker) for broker in request.live_brokers]
            are_fewer = metadata.set_brokers(brokers)
            if self._recorder is not None:
                leaving = (broker.broker_id for broker in brokers if broker.is_shutting_down)
                self._recorder.on_live_brokers((broker.broker_id for broker in brokers), leaving)
            if are_fewer:
                self._replicas.on_brokers_gone()
            if self._fetchers is not None:
                self._fetchers.set_endpoints(self._endpoints())
            topics = [topic for topic in topics_of(request) if _is_possible(topic[0])]
            await self._topics.require_topics(name for name, _topic_id, _states in topics)
            deleted: list[GoneTopic] = []
            gone: set[uuid.UUID] = set()
            for name, topic_id, states in topics:
                known = self._metadata.topic(name)
                is_gone = await self._update_topic(name, topic_id, states)
                if is_gone:
                    known_id = NO_TOPIC_ID if known is None else known.topic_id
                    deleted.append(GoneTopic(name, topic_id if topic_id.int else known_id))
                former = _replaced(known, self._metadata.topic(name))
                if any(state.leader == LEADER_DURING_DELETE for state in states):
                    # This broker may not have known it. No partition is deleted without its topic.
                    former.add(topic_id)
                if not is_gone:
                    # Its successor is known, or came with this message: its end was not heard of, or late.
                    deleted += [GoneTopic(name, topic_id, has_successor=True) for topic_id in former]
                gone |= former
            if request.type == FULL_UPDATE:
                # What is not in it was deleted by a controller that did not live to say so.
                named = {name for name, _topic_id, _states in topics}
                others = [topic for topic in self._metadata.topics() if topic.name not in named]
                for topic in others:
                    self._forget_topic(topic.name)
                deleted += [GoneTopic(topic.name, topic.topic_id) for topic in others]
                gone |= {topic.topic_id for topic in others}
            if not self._expects_topics or request.topic_states or request.ungrouped_partition_states:
                self.informed.set()
            if deleted:
                # Beside: to forget the topics' committed offsets is to write, which may need the next message first.
                self._spawn(self._forget_offsets(deleted))
            gone.discard(NO_TOPIC_ID)
            if gone:
                self._spawn(self._on_topics_deleted(frozenset(gone)))
            return ErrorCode.NONE

    async def _forget_offsets(self, topics: Sequence[GoneTopic]) -> None:
        groups = self._groups.made
        if groups is not None:
            await groups.offsets.on_topics_deleted(topics)

    async def await_topic(self, name: str, timeout_s: float) -> bool:
        """Waits up to `timeout_s` for the topic; for a coordinator's topic also for its number of partitions. Returns
        whether it is known."""
        if self._is_here(name):
            return True
        arrival = self._arrivals.setdefault(name, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await arrival.wait()
        except TimeoutError:
            # Another one may wait for the same topic, and longer: it finds the topic when its own time is over.
            self._arrivals.pop(name, None)
        return self._is_here(name)

    def _is_here(self, name: str) -> bool:
        if name in self._coordinators and not self._coordinators[name]().partition_count:
            return False
        return self._metadata.topic(name) is not None

    def _endpoints(self) -> dict[BrokerId, Endpoint]:
        """Where the other brokers are reached."""
        found = {
            broker.broker_id: broker.endpoints.get(self._inter_broker_listener) for broker in self._metadata.brokers()
        }
        return {broker_id: endpoint for broker_id, endpoint in found.items() if endpoint is not None}

    async def _update_topic(
        self, name: str, topic_id: uuid.UUID, states: Sequence[UpdateMetadataPartitionState]
    ) -> bool:
        """Takes over a topic's partitions; whether the topic is deleted with that."""
        known = self._metadata.topic(name)
        is_known = known is not None and (not topic_id.int or known.topic_id == topic_id)
        partitions: dict[int, PartitionMetadata] = {}
        if known is not None and is_known:
            # Nor is the deletion of a partition announced that never was.
            heard_of = ((index, each) for index, each in enumerate(known.partitions) if each != UNKNOWN_PARTITION)
            partitions.update(heard_of)
        for number, state in enumerate(states, 1):
            topic_partition = TopicPartition(name, state.partition_index)
            if not is_possible_index(state.partition_index):
                logger.warning("metadata of a partition ignored", partition=str(topic_partition), why=IMPOSSIBLE_INDEX)
            elif state.leader == LEADER_DURING_DELETE:
                partitions.pop(state.partition_index, None)
                self._published.forget(topic_partition)
            else:
                partitions[state.partition_index] = self._published.shown(topic_partition, partition_of(state))
            if not number % PARTITIONS_AT_ONCE:
                await asyncio.sleep(0)
        if not partitions:
            if known is not None and not is_known:
                return False  # It is a former topic of this name that is deleted.
            self._forget_topic(name)
            # Groups may have committed offsets for one that this broker does not know, where it came late.
            return known is not None or any(state.leader == LEADER_DURING_DELETE for state in states)
        self._metadata.set_topic(
            TopicMetadata(
                name,
                topic_id if topic_id.int or known is None else known.topic_id,
                tuple(partitions.get(index, UNKNOWN_PARTITION) for index in range(max(partitions) + 1)),
            )
        )
        if name in self._coordinators:
            self._on_coordinator_topic(name, len(partitions), is_anew=known is not None and not is_known)
        else:
            self._on_arrival(name)
        return False

    def _on_arrival(self, name: str) -> None:
        arrival = self._arrivals.pop(name, None)
        if arrival is not None:
            arrival.set()

    def _forget_topic(self, name: str) -> None:
        self._metadata.remove_topic(name)
        self._published.forget_topic(name)
        self._topics.forget_topic(name)
        if name in self._coordinators:
            self._coordinators[name]().set_partition_count(0)

    def _on_coordinator_topic(self, name: str, known_partitions: int, *, is_anew: bool) -> None:
        """Ids are placed by the number of partitions that ZooKeeper has at the first order about the topic.

        The controller does not announce a partition that never had a leader, so the announced partitions may be a part
        of the topic. If there are more of them than before, the topic has grown, which moves no ids.
        """
        coordinator = self._coordinators[name]()
        if is_anew:
            coordinator.set_partition_count(0)
        if not coordinator.partition_count:
            self._spawn(self._count_partitions(name))
        elif known_partitions > coordinator.partition_count:
            coordinator.set_partition_count(known_partitions)

    async def _count_partitions(self, name: str) -> None:
        asked = self._metadata.topic(name)
        count = await self._topics.partition_count(name)
        topic = self._metadata.topic(name)
        if asked is None or topic is None or topic.topic_id != asked.topic_id:
            return  # It is gone, or another one of this name, which is counted by itself.
        if count:
            self._coordinators[name]().set_partition_count(count)
            self._on_arrival(name)

    # -- StopReplica

    async def stop_replica(self, request: StopReplicaRequest) -> tuple[ErrorCode, Errors]:
        """Stops replicas, and deletes them if ordered. Returns the error of the whole message, and one per
        partition."""
        stops = list(stops_of(request))
        async with self._turn:
            refusal = self._refusal(request.controller_epoch, request.broker_epoch)
            if refusal is not ErrorCode.NONE:
                _log_refusal("StopReplica", request.controller_id, request.controller_epoch, refusal)
                return refusal, {}
            errors: Errors = {}
            for number, stop in enumerate(stops, 1):
                errors[stop.topic_partition] = self._stop(stop)
                if not number % PARTITIONS_AT_ONCE:
                    await asyncio.sleep(0)
            return ErrorCode.NONE, errors

    def _stop(self, stop: Stop) -> ErrorCode:
        topic_partition = stop.topic_partition
        if self._replicas.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        hosted = self._replicas.partition(*topic_partition)
        if hosted is not None and 0 <= stop.leader_epoch < hosted.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self._recorder is not None:
            self._recorder.on_stopped(topic_partition, delete=stop.delete)
        self._unfollow([topic_partition])
        if not stop.delete:
            return ErrorCode.NONE
        self._unhost(topic_partition, stop.leader_epoch)
        try:
            # There may be a log without a partition: the topic was deleted while this broker was away.
            self._logs.delete(topic_partition, self._wall_ms())
        except StorageError as failure:
            self._on_storage_error(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _unhost(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        topic, index = topic_partition
        coordinator = self._coordinator(topic)
        if coordinator is not None:
            if leader_epoch >= 0:
                coordinator.unload(index, leader_epoch)
            else:
                coordinator.forget(index)
        self._replicas.unhost(topic_partition)

    # -- a log directory failed

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Serves these partitions no longer: they answer KAFKA_STORAGE_ERROR, and their groups NOT_COORDINATOR."""
        gone = list(topic_partitions)
        self._unfollow(gone)
        self._replicas.take_offline(gone)
        for topic_partition in gone:
            name, index = topic_partition
            if name in self._coordinators:
                self._coordinators[name]().unload(index)
            self._published.on_offline(topic_partition)

    # -- configuration

    def apply_topic_config(self, name: str) -> None:
        """The topic's settings changed: its logs and partitions obey the new ones from now on."""
        self._obey_settings(name, [p for p in self._replicas.partitions() if p.topic_partition.topic == name])

    def _obey_settings(self, name: str, hosted: Sequence[Partition]) -> None:
        if not hosted:
            return
        config = self._topics.topic(name)
        obeyed = log_config(config)
        for partition in hosted:
            partition.log.reconfigure(obeyed)
            if partition.min_insync_replicas != config.min_insync_replicas:
                partition.min_insync_replicas = config.min_insync_replicas
                self._look_again(partition)

    def _look_again(self, partition: Partition) -> None:
        """Records that too few in-sync replicas held back may be committed now, or the other way round."""
        if partition.is_leader:
            self._replicas.lead(
                partition, partition.state, partition.replicas, adding=partition.adding, removing=partition.removing
            )

    def apply_broker_config(self) -> None:
        """The broker's settings changed, and with them those of the topics that do not set them themselves."""
        by_topic: dict[str, list[Partition]] = {}
        for partition in self._replicas.partitions():
            by_topic.setdefault(partition.topic_partition.topic, []).append(partition)
        for name, hosted in by_topic.items():
            self._obey_settings(name, hosted)


IMPOSSIBLE_INDEX: Final = f"no topic has a partition of this number: it is not from 0 to {MAX_PARTITION_INDEX}"
UNKNOWN_PARTITION: Final = PartitionMetadata((), LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1))
"""A partition below the highest known one that nothing was heard of yet."""


def _stale(partition: Partition, order: Order) -> ErrorCode:
    """What is answered to an order that changed nothing: one that is known already is no error."""
    is_known = order.state.leader_epoch == partition.leader_epoch
    return ErrorCode.NONE if is_known else ErrorCode.STALE_CONTROLLER_EPOCH


def _possible_orders(request: LeaderAndIsrRequest, errors: Errors) -> list[Order]:
    """The orders for partitions that a topic can have. The others get an error and harm none of these: a garbled topic
    in ZooKeeper must not keep good ones without leaders."""
    possible: dict[str, bool] = {}
    kept = []
    for order in orders_of(request):
        topic, partition = order.topic_partition
        if topic not in possible:
            possible[topic] = _is_possible(topic)
        if possible[topic] and is_possible_index(partition):
            kept.append(order)
            continue
        if possible[topic]:
            logger.warning("leadership refused", partition=str(order.topic_partition), why=IMPOSSIBLE_INDEX)
        errors[order.topic_partition] = ErrorCode.INVALID_TOPIC_EXCEPTION
    return kept


def _is_possible(topic: str) -> bool:
    why = impossible_topic(topic)
    if why is not None:
        logger.warning("controller's word on a topic ignored", why=why)
    return why is None


def _log_refusal(message: str, controller_id: int, controller_epoch: int, refusal: ErrorCode) -> None:
    # For a former registration: the controller wrote it before it saw that the broker had come back, as at any restart.
    say = logger.info if refusal is ErrorCode.STALE_BROKER_EPOCH else logger.warning
    say(
        "controller's message refused",
        message=message,
        controller=controller_id,
        controller_epoch=controller_epoch,
        why=refusal.name,
    )


def _replaced(former: TopicMetadata | None, present: TopicMetadata | None) -> set[uuid.UUID]:
    """The id of a topic that is gone, or whose name another topic has."""
    if former is None or (present is not None and present.topic_id == former.topic_id):
        return set()
    return {former.topic_id}
