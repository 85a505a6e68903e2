"""Controller: this broker's part in being or not being the one that decides for the cluster.

A flow with one queue of events, handled one at a time: elect (the seat is empty, or may be), and brokers changed. As
the controller it holds a `Reign`; requests of clients go through `topics`, and wait for their turn behind events.

Election: one multi creates the ephemeral /controller and raises /controller_epoch, so there is never a controller
without an epoch of its own, nor two with one epoch. An answer that was lost is looked up: /controller is owned by this
session, or it is not. Who loses watches /controller.

Invariants:
I1  Every write of a reign is checked against the epoch that it began with (`Reign.write`).
I2  After the session expired the reign is over at once, before anything else is handled.
I3  A new controller gives orders for every partition: what the one before it wrote and did not send is sent.

Source: Kafka's KafkaController; KAFKA-6082 for the multi.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kavka.controller.context import ControllerContext, KnownTopic, LiveBroker
from kavka.controller.leaders import Leaders
from kavka.controller.orders import ClusterChange
from kavka.controller.reign import CarryOut, Deposed, Reign, carried_out
from kavka.controller.state_machines import PartitionStatus, ReplicaStatus
from kavka.controller.topic_admin import TopicAdmin
from kavka.controller.topics import TopicRules
from kavka.errors import ZooKeeperError
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import (
    BadVersion,
    Create,
    CreateMode,
    Delete,
    Event,
    EventType,
    NodeExists,
    NoNode,
    OutcomeUnknown,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    ZooKeeper,
)
from kavka.zookeeper.znodes import (
    BROKER_IDS_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    DELETE_TOPICS_PATH,
    TOPICS_PATH,
    BrokerRegistration,
    ControllerNode,
    MalformedZNode,
    TopicAssignment,
    broker_path,
    decode_controller_epoch,
    encode_controller_epoch,
    topic_path,
)

MAX_ELECTION_ATTEMPTS: Final = 100
"""How often an election is tried on while others win and vanish, before it waits for the next event."""


RETRY_MS: Final = 1_000
"""How long after a failure an event is handled again."""


class ControllerEvent(Enum):
    """What the controller may have to do; each waits in the queue at most once."""

    ELECT = "elect"
    BROKERS_CHANGED = "brokers changed"


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """`unclean_allowed`: a topic's unclean.leader.election.enable; `deletion_enabled`: delete.topic.enable."""

    rules: TopicRules = field(default_factory=TopicRules)
    unclean_allowed: Callable[[str], bool] = field(default=lambda topic: False)
    deletion_enabled: bool = True


class Controller:
    """One broker's candidate for the seat of the controller."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        broker_id: BrokerId,
        *,
        settings: ControllerSettings,
        carry_out: CarryOut,
        now_ms: Callable[[], int],
        rng: random.Random,
        on_controller_changed: Callable[[BrokerId], None] = lambda broker_id: None,
    ) -> None:
        """`now_ms` reads the wall clock. `carry_out` gets the orders of this broker's reigns; `on_controller_changed`
        hears who the controller is, NO_LEADER while there is none."""
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._settings = settings
        self._carry_out = carry_out
        self._now_ms = now_ms
        self._rng = rng
        self._on_controller_changed = on_controller_changed
        self._events: dict[ControllerEvent, None] = {}
        self._failed: dict[ControllerEvent, None] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._reign: Reign | None = None
        self._topics: TopicAdmin | None = None
        self._leaders: Leaders | None = None
        self.controller_id: BrokerId = NO_LEADER
        self.last_failure: ZooKeeperError | None = None
        """Why the last event was not handled to its end; the next one tries again."""

    # ------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Takes part in the election; returns when it is decided and, if it was won, orders were given.

        This broker must be registered. Raises ZooKeeperError if that cannot be done now.
        """
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._on_ended)
        self._put(ControllerEvent.ELECT)
        await self.settled()
        if self.last_failure is not None:
            raise self.last_failure

    async def stop(self) -> None:
        """Gives the seat up, if it is held, and handles no more events."""
        self._unsubscribe()
        if self._retry is not None:
            self._retry.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        reign, self._reign = self._reign, None
        if reign is not None:
            try:
                await reign.write([Delete(CONTROLLER_PATH)])
            except (ZooKeeperError, Deposed):
                pass  # It is another's, or goes with the session.
            reign.deposed = True

    async def settled(self) -> None:
        """Returns when no event is waiting or being handled. Raises what ended the handling of events, if it did."""
        await self._idle.wait()
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._reign is not None and not self._reign.deposed

    @property
    def topics(self) -> TopicAdmin:
        """What clients may ask of the controller. Raises Deposed if this broker is not it."""
        if self._topics is None or not self.is_active:
            raise Deposed(f"broker {self._broker_id} is not the controller")
        return self._topics

    @property
    def context(self) -> ControllerContext:
        """What the controller knows, to read. Raises Deposed if this broker is not it."""
        if self._reign is None or self._reign.deposed:
            raise Deposed(f"broker {self._broker_id} is not the controller")
        return self._reign.context

    # ----------------------------------------------------------------------------------------------------- events

    def _on_event(self, event: Event) -> None:
        match event:
            case SessionEvent(SessionState.EXPIRED):
                if self._reign is not None:
                    self._reign.deposed = True
                self._set_controller(NO_LEADER)
            case SessionEvent(SessionState.CONNECTED):
                self._put(ControllerEvent.ELECT)
            case WatchEvent(_, path, _) if path == CONTROLLER_PATH:
                if event.type is EventType.NODE_DELETED:
                    self._set_controller(NO_LEADER)
                self._put(ControllerEvent.ELECT)
            case WatchEvent(_, path, _) if path == BROKER_IDS_PATH:
                self._put(ControllerEvent.BROKERS_CHANGED)
            case _:
                pass

    def _put(self, event: ControllerEvent) -> None:
        self._events[event] = None
        self._idle.clear()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            while self._events:
                event = next(iter(self._events))
                del self._events[event]
                await self._handle(event)
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    def _on_ended(self, running: asyncio.Task[None]) -> None:
        """Only a bug, or a failure of this broker's own disk under `carry_out`, ends it before `stop` does."""
        self._idle.set()
        if not running.cancelled() and (failure := running.exception()) is not None:
            if self._reign is not None:
                self._reign.deposed = True
            running.get_loop().call_exception_handler(
                {"message": "the controller's events are handled no more", "exception": failure, "task": running}
            )

    async def _handle(self, event: ControllerEvent) -> None:
        self.last_failure = None
        try:
            match event:
                case ControllerEvent.ELECT:
                    await self._elect()
                case ControllerEvent.BROKERS_CHANGED:
                    await self._take_in_brokers()
        except Deposed:
            # What deposed it raises an event as well; this is for the case that it does not.
            self._retry_later(ControllerEvent.ELECT)
        except SessionExpired as expired:
            self.last_failure = expired  # With the next session comes the next election.
        except ZooKeeperError as failure:
            self.last_failure = failure
            self._retry_later(event)

    def _retry_later(self, event: ControllerEvent) -> None:
        self._failed[event] = None
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_MS / 1000, self._put_failed)

    def _put_failed(self) -> None:
        self._retry = None
        failed, self._failed = self._failed, {}
        for event in failed:
            self._put(event)

    def _set_controller(self, broker_id: BrokerId) -> None:
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            self._on_controller_changed(broker_id)

    # --------------------------------------------------------------------------------------------------- election

    async def _elect(self) -> None:
        if self.is_active and await self._holds_the_seat():
            return
        if self._reign is not None:
            self._reign.deposed = True
            self._reign = None
        for _ in range(MAX_ELECTION_ATTEMPTS):
            if await self._zookeeper.exists(CONTROLLER_PATH, watch=True) is not None:
                try:
                    data, stat = await self._zookeeper.get(CONTROLLER_PATH)
                except NoNode:
                    continue
                controller_id = ControllerNode.decode(data).broker_id
                if stat.ephemeral_owner != self._zookeeper.session_id:
                    self._set_controller(controller_id)
                    return
                await self._begin(*await self._read_epoch())
                return
            epoch, version = await self._read_epoch()
            try:
                results = await self._zookeeper.multi(
                    [
                        SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(epoch + 1), version),
                        Create(
                            CONTROLLER_PATH,
                            ControllerNode(self._broker_id, self._now_ms()).encode(),
                            CreateMode.EPHEMERAL,
                        ),
                    ]
                )
            except (NodeExists, BadVersion, OutcomeUnknown):
                continue  # Look who it is: it may be this broker, if the answer was lost.
            raised = results[0]
            assert isinstance(raised, Stat)
            await self._begin(epoch + 1, raised.version)
            return

    async def _holds_the_seat(self) -> bool:
        stat = await self._zookeeper.exists(CONTROLLER_PATH, watch=True)
        return stat is not None and stat.ephemeral_owner == self._zookeeper.session_id

    async def _read_epoch(self) -> tuple[int, int]:
        """(controller epoch, version of its znode), made with 0 by the first controller ever."""
        while True:
            try:
                data, stat = await self._zookeeper.get(CONTROLLER_EPOCH_PATH)
                return decode_controller_epoch(data), stat.version
            except NoNode:
                try:
                    await self._zookeeper.create(CONTROLLER_EPOCH_PATH, encode_controller_epoch(0))
                except NodeExists:
                    continue

    # -------------------------------------------------------------------------------------------------- the reign

    async def _begin(self, epoch: int, epoch_version: int) -> None:
        """This broker is the controller from here on: it reads everything, and gives orders for everything."""
        context = ControllerContext(epoch=epoch, epoch_version=epoch_version)
        reign = Reign(self._zookeeper, context, carried_out(self._carry_out))
        leaders = Leaders(reign, self._settings.unclean_allowed)
        topics = TopicAdmin(
            reign,
            leaders,
            self._settings.rules,
            self._rng,
            deletion_enabled=self._settings.deletion_enabled,
        )
        self._leaders, self._topics = leaders, topics
        begun = False
        try:
            async with reign.turn:
                self._reign = None  # There is no reign to ask until all is read.
                await self._load(context, leaders)
                partitions = self._serving(context)
                new = [key for key in partitions if context.partitions.state(key) is PartitionStatus.NEW]
                changed = await leaders.initialise(new) + await leaders.react(partitions)
                changes = {order.topic_partition: order for order in changed}
                orders = [
                    changes.get(key) or reign.partition_order(key, is_new=False)
                    for key in partitions
                    if key in context.states
                ]
                self._reign = reign
                self._set_controller(self._broker_id)
                await reign.order(ClusterChange(partitions=tuple(orders), brokers_changed=True))
            await topics.complete_deletions()
            begun = True
        finally:
            if not begun:
                self._reign = None  # The seat stays held; the event is handled again.

    async def _load(self, context: ControllerContext, leaders: Leaders) -> None:
        context.brokers = await self._read_brokers()
        try:
            names = await self._zookeeper.children(TOPICS_PATH)
            marked = await self._zookeeper.children(DELETE_TOPICS_PATH)
        except NoNode:
            names, marked = [], []
        nodes = await self._zookeeper.get_many([topic_path(name) for name in names])
        for name, node in zip(names, nodes, strict=True):
            if node is not None:
                data, stat = node
                try:
                    context.set_topic(KnownTopic(TopicAssignment.decode(name, data), stat.version))
                except MalformedZNode as malformed:
                    context.malformed[malformed.path] = malformed
        context.topics_to_delete = dict.fromkeys(marked)
        partitions = [partition for topic in context.topics.values() for partition in topic.topic_partitions()]
        await leaders.load(partitions)
        for partition, known in context.states.items():
            online = known.state.leader in context.brokers
            context.partitions.load(partition, PartitionStatus.ONLINE if online else PartitionStatus.OFFLINE)
        for replica in context.replicas_of(partitions):
            online = replica.broker_id in context.brokers
            context.replicas.load(replica, ReplicaStatus.ONLINE if online else ReplicaStatus.OFFLINE)

    async def _read_brokers(self) -> dict[BrokerId, LiveBroker]:
        try:
            names = await self._zookeeper.children(BROKER_IDS_PATH, watch=True)
        except NoNode:
            return {}
        ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        nodes = await self._zookeeper.get_many([broker_path(broker_id) for broker_id in ids])
        return {
            broker_id: LiveBroker(BrokerRegistration.decode(broker_id, node[0]), node[1].czxid)
            for broker_id, node in zip(ids, nodes, strict=True)
            if node is not None
        }

    @staticmethod
    def _serving(context: ControllerContext) -> Sequence[TopicPartition]:
        """Partitions of topics that are not being deleted."""
        return [
            partition
            for name, topic in context.topics.items()
            if name not in context.topics_to_delete
            for partition in topic.topic_partitions()
        ]

    async def _take_in_brokers(self) -> None:
        """Brokers came, went or came back: leaders are elected where that changes something."""
        reign, leaders = self._reign, self._leaders
        if reign is None or leaders is None or reign.deposed:
            return
        async with reign.turn:
            context = reign.context
            brokers = await self._read_brokers()
            if {key: live.epoch for key, live in brokers.items()} == {
                key: live.epoch for key, live in context.brokers.items()
            }:
                context.brokers = brokers
                return
            # A broker that came back with another epoch lost its leaderships with the old one: once without it.
            steady = {
                key: live
                for key, live in brokers.items()
                if key not in context.brokers or context.brokers[key].epoch == live.epoch
            }
            partitions = self._serving(context)
            changes = {}
            for present in (steady, brokers):
                context.brokers = present
                for order in await leaders.react(partitions):
                    changes[order.topic_partition] = order
            new = [key for key in partitions if key not in context.states]
            for order in await leaders.initialise(new):
                changes[order.topic_partition] = order
            leaders.place_replicas(partitions)
            await reign.order(ClusterChange(partitions=tuple(changes.values()), brokers_changed=True))
