"""ActiveController: what a controller does in one term, event by event; and what clients and brokers may ask of it.

A flow that joins the rest of this room: it begins the term (it reads everything, and gives orders for everything), and
then hands each event to the flow that handles it. It must not know how this broker became the controller, nor who else
wants to be it.

    event                     who handles it
    brokers came, went, ...   BrokerChanges, then the reassignments that waited for it
    topics, deletions         TopicChanges, TopicDeletions
    notifications             Notifications
    answers of brokers        here: replicas that failed or were deleted
    wishes in znodes, timers  Reassignments, Elections, Rebalance

Invariants:
I1  A term begins with orders for every partition: what the one before it wrote and did not send is sent (S33).
I2  A watch is left by the read that it follows, so nothing is missed between the two (S32).

Source: Kafka's KafkaController.onControllerFailover and process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from kavka.controller.decide.context import LiveBroker
from kavka.controller.decide.state_machines import PartitionStatus, ReplicaStatus
from kavka.controller.decide.topic_plans import TopicRules
from kavka.controller.orders.channels import ChannelLimits, ChannelPorts, Channels
from kavka.controller.orders.control_requests import ControlRequest, control_requests
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.term.events import (
    BrokerBehind,
    BrokerReachable,
    BrokersChanged,
    BrokersLost,
    ControllerEvent,
    ControllerUnreachable,
    DeletionsChanged,
    Elect,
    ElectionsSubmitted,
    EventQueue,
    IsrNotified,
    IsrsChanged,
    LogDirNotified,
    ReassignmentsSubmitted,
    RebalanceDue,
    ReplicasFailed,
    ReplicasStopped,
    TopicChanged,
    TopicConfigChanged,
    TopicsChanged,
)
from kavka.controller.work.alter_partition import IsrAlterations
from kavka.controller.work.broker_changes import BrokerChanges
from kavka.controller.work.elections import Elections
from kavka.controller.work.leader_rebalance import FIRST_CHECK_MS, Rebalance
from kavka.controller.work.leaders import Leaders
from kavka.controller.work.notifications import Notifications
from kavka.controller.work.reassignments import Reassignments
from kavka.controller.work.topic_changes import TopicChanges
from kavka.controller.work.topic_deletion import TopicDeletions
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from kavka.protocol.messages.leader_and_isr_response import LeaderAndIsrResponse
from kavka.protocol.messages.stop_replica_request import StopReplicaRequest
from kavka.protocol.messages.stop_replica_response import StopReplicaResponse
from kavka.protocol.schema import Message
from kavka.zookeeper.port import Create, NoNode, SetData
from kavka.zookeeper.znode_paths import BROKER_IDS_PATH, broker_path
from kavka.zookeeper.znodes import BrokerRegistration, FeatureNode, MalformedZNode

if TYPE_CHECKING:
    from kavka.controller.work.controlled_shutdown import ControlledShutdown
    from kavka.controller.work.feature_updates import FeatureUpdates
    from kavka.controller.work.topic_admin import TopicAdmin

RETRY_MS: Final = 1_000
"""How long after a failure an event is handled again."""
MANY_PARTITIONS: Final = 2_000
"""From so many partitions on a term that begins sends orders for those with new leaders before those for all."""
FIRST_ORDER_MS: Final = 500
"""How long it then waits until brokers have carried out the first ones."""
GATHER_MS: Final = 50
"""How long after the first broker was found unreachable the others are looked at: an operator who kills two of them at
once needs some time in between, on a busy machine tens of milliseconds."""
LOOK_MS: Final = 200
"""How long the controller then waits for the others. A broker that answers within it lives. One that refuses died in
the same instant, and is part of the same event. For one that does neither (paused, cut off) its session decides."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """`unclean_allowed`: a topic's unclean.leader.election.enable; `min_insync_replicas`: its setting of that name,
    where eligible leader replicas are kept (kavka.eligible.leader.replicas.enable), else None; `deletion_enabled`:
    delete.topic.enable; `fast_failover`: kavka.controller.fast.failover; `auto_rebalance`:
    auto.leader.rebalance.enable, every `rebalance_interval_ms` where more than `rebalance_limit_percent` of a broker's
    partitions are led by others."""

    rules: TopicRules = field(default_factory=TopicRules)
    unclean_allowed: Callable[[str], bool] = field(default=lambda topic: False)
    min_insync_replicas: Callable[[str], int] | None = None
    deletion_enabled: bool = True
    fast_failover: bool = True
    auto_rebalance: bool = True
    rebalance_interval_ms: int = 300_000
    rebalance_limit_percent: Callable[[], int] = field(default=lambda: 10)
    limits: ChannelLimits = field(default_factory=ChannelLimits)


class ActiveController:
    """The work of one term."""

    def __init__(
        self,
        term: ControllerTerm,
        events: EventQueue,
        settings: ControllerSettings,
        rng: random.Random,
        *,
        ports: ChannelPorts,
    ) -> None:
        self.term = term
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._events = events
        self._settings = settings
        self._ports = ports
        self._rng = rng
        self._channels = Channels(term.broker_id, ports, self, settings.limits)
        self._lost: dict[BrokerId, int] = {}
        self.leaders = Leaders(term, settings.unclean_allowed, settings.min_insync_replicas)
        self.deletions = TopicDeletions(term, self.leaders, are_enabled=settings.deletion_enabled)
        self.brokers = BrokerChanges(term, self.leaders, self.deletions)
        self.topic_changes = TopicChanges(term, self.leaders, self.deletions, rng)
        self.notifications = Notifications(term, self.leaders)
        self.alterations = IsrAlterations(term, self.leaders)
        self.reassignments = Reassignments(
            term, self.leaders, on_work=lambda: events.put_later(IsrsChanged(), RETRY_MS)
        )
        self.elections = Elections(term, self.leaders)
        self.rebalance = Rebalance(
            term, self.elections, self.reassignments, limit_percent=settings.rebalance_limit_percent
        )

    # -- what few terms are asked for: made, and imported, with the first request

    @cached_property
    def topics(self) -> TopicAdmin:
        from kavka.controller.work.topic_admin import TopicAdmin

        return TopicAdmin(
            self.term,
            self.leaders,
            self.deletions,
            self._settings.rules,
            self._rng,
            carried_out_here=self._channels.carried_out_here,
        )

    @cached_property
    def controlled_shutdown(self) -> ControlledShutdown:
        from kavka.controller.work.controlled_shutdown import ControlledShutdown

        return ControlledShutdown(self.term, self.leaders)

    @cached_property
    def features(self) -> FeatureUpdates:
        from kavka.controller.work.feature_updates import FeatureUpdates

        return FeatureUpdates(self.term)

    # --------------------------------------------------------------------------------------------- begin and end

    async def begin(self, lost: Mapping[BrokerId, int], on_begun: Callable[[], None]) -> None:
        """Reads the whole state and sends orders for every partition. Calls `on_begun` when requests may come.

        `lost` are brokers that are known to be unreachable, with their epochs. Raises NotController or ZooKeeperError;
        then call `end`.
        """
        term, context = self.term, self._context
        async with term.turn:
            await self._enable_features()
            context.set_brokers(await self._read_brokers())
            await self.brokers.load_acted_on()
            self._channels.set_brokers(context.brokers, grace_ms=0, suspects=lost)
            if lost:
                await asyncio.sleep(GATHER_MS / 1000)
                await self._channels.look(LOOK_MS)
            self.brokers.mark_unreachable({**lost, **self._lost})
            await self.topic_changes.load()
            await self._load_states()
            partitions = self.brokers.serving()
            new = [key for key in partitions if context.partitions.state(key) is PartitionStatus.NEW]
            changed = await self.leaders.initialise(new)
            changed += await self.leaders.react_on_former_lives(partitions)
            changed += await self.leaders.react(partitions)
            if changed and len(partitions) >= MANY_PARTITIONS:
                # Clients wait for these. With 100,000 partitions the orders for all take seconds to make.
                first = await term.order(ClusterChange(partitions=tuple(changed), brokers_changed=True))
                await first.wait(FIRST_ORDER_MS)
            await self.brokers.note_acted_on()
            changes = {order.topic_partition: order for order in changed}
            orders = [
                changes.get(key) or term.partition_order(key, is_new=False)
                for key in partitions
                if key in context.states
            ]
            on_begun()
            await term.order(ClusterChange(partitions=tuple(orders), brokers_changed=True, is_complete=True))
            marked = list(context.topics_to_delete)
        await self._begin_deletions(marked)
        await self.reassignments.resume()
        await self.elections.take_submitted()
        self._events.put(IsrNotified())
        self._events.put(LogDirNotified())
        if self._settings.auto_rebalance:
            self._events.put_later(RebalanceDue(), FIRST_CHECK_MS)

    async def carried_out_here(self) -> None:
        """Returns when this broker has carried out all orders so far."""
        await self._channels.carried_out_here()

    def end(self) -> None:
        """Closes the channels: no order leaves this controller any more."""
        self._channels.close()

    async def _enable_features(self) -> None:
        """/feature, as Kafka's controllers leave it since inter.broker.protocol.version 2.7."""
        try:
            data, stat = await self._zookeeper.get(FeatureNode.PATH)
        except NoNode:
            await self.term.write([Create(FeatureNode.PATH, FeatureNode(enabled=True).encode())])
            return
        try:
            found = FeatureNode.decode(data)
        except MalformedZNode as malformed:
            self._context.found_malformed(malformed)
            return
        if not found.enabled:
            await self.term.write([SetData(FeatureNode.PATH, replace(found, enabled=True).encode(), stat.version)])

    async def _begin_deletions(self, marked: list[str]) -> None:
        async with self.term.turn:
            if self.deletions.are_enabled:
                await self.deletions.begin(marked)
                return
        for name in marked:
            del self._context.topics_to_delete[name]
        await self.topic_changes.look_for_deletions()

    async def _load_states(self) -> None:
        context = self._context
        partitions = [partition for topic in context.topics.values() for partition in topic.topic_partitions()]
        await self.leaders.load(partitions)
        for partition, known in context.states.items():
            online = known.state.leader in context.brokers
            context.partitions.load(partition, PartitionStatus.ONLINE if online else PartitionStatus.OFFLINE)
        for replica in context.replicas_of(partitions):
            offline = context.is_offline(*replica)
            context.replicas.load(replica, ReplicaStatus.OFFLINE if offline else ReplicaStatus.ONLINE)

    async def _read_brokers(self) -> dict[BrokerId, LiveBroker]:
        try:
            names = await self._zookeeper.children(BROKER_IDS_PATH, watch=True)
        except NoNode:
            return {}
        ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        found = await asyncio.gather(*map(self._read_broker, ids))
        return {broker_id: live for broker_id, live in zip(ids, found, strict=True) if live is not None}

    async def _read_broker(self, broker_id: BrokerId) -> LiveBroker | None:
        path = broker_path(broker_id)
        try:
            data, stat = await self._zookeeper.get(path, watch=True)
        except NoNode:
            return None
        try:
            return LiveBroker(BrokerRegistration.decode(broker_id, data), stat.czxid)
        except MalformedZNode as malformed:
            self._context.found_malformed(malformed)
            return None

    # ----------------------------------------------------------------------------------------------------- orders

    async def send(self, change: ClusterChange) -> Delivery:
        """Passes orders to the channels of the brokers."""
        if change.brokers_changed:
            self._channels.set_brokers(self._context.brokers)
        return self._channels.send(
            control_requests(
                change,
                self._context,
                controller_id=self.term.broker_id,
                listener_name=self._ports.listener_name,
            )
        )

    # -------------------------------------------------------------------------------------- what channels report

    def on_answer(self, broker_id: BrokerId, broker_epoch: int, request: ControlRequest, answer: Message) -> None:
        """Handles an answer. Replicas that failed or were deleted become an event."""
        if request.key is ApiKey.LEADER_AND_ISR:
            failed = _failed_replicas(
                cast("LeaderAndIsrRequest", request.message), cast("LeaderAndIsrResponse", answer)
            )
            if failed:
                self._events.put(ReplicasFailed(broker_id, broker_epoch, failed))
        elif request.key is ApiKey.STOP_REPLICA:
            deleted, left = _deleted_replicas(
                cast("StopReplicaRequest", request.message), cast("StopReplicaResponse", answer)
            )
            if deleted or left:
                self._events.put(ReplicasStopped(broker_id, broker_epoch, deleted, left))

    def on_unreachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self._lost[broker_id] = broker_epoch
        self._events.put_later(BrokersLost(), GATHER_MS)

    def on_reachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self._lost.pop(broker_id, None)
        self._events.put(BrokerReachable(broker_id, broker_epoch))

    def on_behind(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self._events.put(BrokerBehind(broker_id, broker_epoch))

    def on_stale_controller(self, broker_id: BrokerId) -> None:
        self._events.put(Elect())

    def on_watch(self, path: str) -> None:
        """A watch on this path fired: the reassignments may have left it."""
        if self.reassignments.note_changed(path):
            self._events.put(IsrsChanged())

    # ----------------------------------------------------------------------------------------------------- events

    async def handle(self, event: ControllerEvent) -> None:
        """Handles the event. Raises NotController or ZooKeeperError; then the event must be handled again."""
        match event:
            case BrokersChanged():
                await self._with_turn(self._take_in_brokers)
            case BrokersLost():
                if self._lost:
                    await self._channels.look(LOOK_MS)
                    await self._with_turn(self._take_in_lost)
            case BrokerReachable(broker_id, epoch):
                await self._with_turn(lambda: self.brokers.on_reachable(broker_id, epoch))
                await self.reassignments.advance()
            case BrokerBehind(broker_id, epoch):
                await self._with_turn(lambda: self.brokers.on_behind(broker_id, epoch))
            case ReplicasFailed(broker_id, epoch, partitions):
                await self._with_turn(lambda: self.brokers.on_failed_replicas(broker_id, epoch, partitions))
            case ReplicasStopped(broker_id, epoch, deleted, failed):
                if self._context.broker_epoch(broker_id) == epoch:
                    await self.deletions.on_stopped(broker_id, deleted, failed)
                    self.reassignments.note_stopped(broker_id, deleted)
            case TopicsChanged():
                await self.topic_changes.look()
            case TopicChanged(name):
                await self.topic_changes.look_at(name)
            case DeletionsChanged():
                await self.topic_changes.look_for_deletions()
            case IsrNotified():
                async with self.term.turn:
                    changed = await self.notifications.take_isr_changes()
                if changed:
                    await self.reassignments.advance()
            case LogDirNotified():
                await self._with_turn(self._take_in_log_dir_events)
            case IsrsChanged():
                await self.reassignments.advance()
            case ReassignmentsSubmitted():
                await self.reassignments.take_submitted()
            case ElectionsSubmitted():
                await self.elections.take_submitted()
            case RebalanceDue():
                self._events.put_later(RebalanceDue(), self._settings.rebalance_interval_ms)
                await self.rebalance.run()
            case TopicConfigChanged(topics):
                await self._with_turn(lambda: self.brokers.elect_offline(topics or None))
            case Elect() | ControllerUnreachable():
                raise AssertionError(f"{event} is not for a term")

    async def _with_turn(self, act: Callable[[], Awaitable[None]]) -> None:
        async with self.term.turn:
            await act()

    async def _take_in_brokers(self) -> None:
        if await self.brokers.take_in(await self._read_brokers()):
            self._events.put(IsrsChanged())

    async def _take_in_lost(self) -> None:
        lost, self._lost = self._lost, {}
        try:
            news = await self.brokers.on_unreachable(lost)
        except ZooKeeperError:
            self._lost = {**lost, **self._lost}
            raise
        if news:
            self._events.put(IsrsChanged())

    async def _take_in_log_dir_events(self) -> None:
        while True:
            broker_ids, paths = await self.notifications.log_dir_brokers()
            if not paths:
                return
            for broker_id in broker_ids:
                await self.brokers.ask_for_failures(broker_id)
            await self.notifications.remove(paths)


def _failed_replicas(request: LeaderAndIsrRequest, answer: LeaderAndIsrResponse) -> tuple[TopicPartition, ...]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    return tuple(
        TopicPartition(names[topic.topic_id], error.partition_index)
        for topic in answer.topics
        if topic.topic_id in names
        for error in topic.partition_errors
        if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    )


def _deleted_replicas(
    request: StopReplicaRequest, answer: StopReplicaResponse
) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """(deleted, not deleted) of what was to be deleted."""
    wanted = [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    ]
    if answer.error_code:
        return (), tuple(wanted)
    failed = {
        TopicPartition(error.topic_name, error.partition_index) for error in answer.partition_errors if error.error_code
    }
    return (
        tuple(partition for partition in wanted if partition not in failed),
        tuple(partition for partition in wanted if partition in failed),
    )
