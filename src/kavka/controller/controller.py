"""Controller: this broker's part in being or not being the one that decides for the cluster.

A flow around one queue of events, handled one at a time. It wins and loses the seat; as long as it has it, an `Office`
does the work, and requests of clients and brokers go there and wait for their turn behind events.

Election: one multi creates the ephemeral /controller and raises /controller_epoch, so there is never a controller
without an epoch of its own, nor two with one epoch. An answer that was lost is looked up: /controller is owned by this
session, or it is not. Who loses watches /controller, and (`succession`) the process behind it.

Invariants:
I1  Every write of a reign is checked against the epoch that it began with (`Reign.write`).
I2  After the session expired the reign is over at once, before anything else is handled.
I3  A reign that is over sends nothing: its channels are closed with it.

Source: Kafka's KafkaController; KAFKA-6082 for the multi.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka.controller.active_controller import RETRY_MS, ControllerSettings, Office
from kavka.controller.decide.context import ControllerContext
from kavka.controller.orders.channels import ChannelPorts
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import Deposed, Reign
from kavka.controller.term.events import (
    BrokersChanged,
    ControllerEvent,
    DeletionsChanged,
    Elect,
    ElectionsSubmitted,
    EventQueue,
    IsrNotified,
    IsrsChanged,
    LogDirNotified,
    ReassignmentsSubmitted,
    SeatDeserted,
    TopicChanged,
    TopicConfigChanged,
    TopicsChanged,
)
from kavka.controller.term.fast_failover import Incumbent, Succession, take_over_operations
from kavka.controller.term.input_recorder import Witness
from kavka.controller.work.elections import Elections
from kavka.controller.work.feature_updates import FeatureUpdates
from kavka.controller.work.reassignments import Reassignments
from kavka.controller.work.topic_admin import TopicAdmin
from kavka.decisions import Decision, DecisionKind, Facts, RecordDecision, forget
from kavka.errors import ZooKeeperError
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse
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
    ISR_CHANGES_PATH,
    LOG_DIR_EVENTS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    TOPICS_PATH,
    BrokerRegistration,
    ControllerNode,
    MalformedZNode,
    broker_path,
    decode_controller_epoch,
    encode_controller_epoch,
)

__all__ = ["Controller", "ControllerSettings"]

MAX_ELECTION_ATTEMPTS: Final = 100
"""How often an election is tried on while others win and vanish, before it waits for the next event."""

_LOOK_AT: Final[Mapping[str, ControllerEvent]] = {
    CONTROLLER_PATH: Elect(),
    BROKER_IDS_PATH: BrokersChanged(),
    TOPICS_PATH: TopicsChanged(),
    DELETE_TOPICS_PATH: DeletionsChanged(),
    ISR_CHANGES_PATH: IsrNotified(),
    LOG_DIR_EVENTS_PATH: LogDirNotified(),
    REASSIGN_PARTITIONS_PATH: ReassignmentsSubmitted(),
    PREFERRED_REPLICA_ELECTION_PATH: ElectionsSubmitted(),
}
"""What a watch on a path means."""


class Controller:
    """One broker's candidate for the seat of the controller."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        broker_id: BrokerId,
        *,
        settings: ControllerSettings,
        now_ms: Callable[[], int],
        rng: random.Random,
        channels: ChannelPorts,
        record: RecordDecision = forget,
        witness: Witness | None = None,
        on_controller_changed: Callable[[BrokerId], None] = lambda broker_id: None,
    ) -> None:
        """`now_ms` reads the wall clock. `channels` reach the brokers. `on_controller_changed` hears who the controller
        is, NO_LEADER while there is none."""
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._settings = settings
        self._witness = witness
        self._ports = channels
        self._now_ms = now_ms
        self._rng = rng
        self._record = record
        self._on_controller_changed = on_controller_changed
        self._events = EventQueue(self._handle)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._office: Office | None = None
        self._succession: Succession | None = None
        if settings.fast_failover:
            self._succession = Succession(
                channels.open_peer, lambda incumbent: self._events.put(SeatDeserted(incumbent)), settings.limits
            )
        self.controller_id: BrokerId = NO_LEADER
        self.last_failure: ZooKeeperError | None = None
        """Why the last event was not handled to its end; the next one tries again."""

    # ------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Takes part in the election; returns when it is decided and, if it was won, orders were given.

        This broker must be registered. Raises ZooKeeperError if that cannot be done now.
        """
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        self._events.start(self._on_ended)
        self._events.put(Elect())
        await self.settled()
        if self.last_failure is not None:
            raise self.last_failure

    async def stop(self) -> None:
        """Gives the seat up, if it is held, and handles no more events."""
        self._unsubscribe()
        if self._succession is not None:
            self._succession.close()
        await self._events.stop()
        office = self._office
        if office is not None and not office.reign.deposed:
            try:
                await office.reign.write([Delete(CONTROLLER_PATH)])
            except (ZooKeeperError, Deposed):
                pass  # It is another's, or goes with the session.
            office.reign.depose("this broker stops")
        self._events.drop_later()
        self._office = None

    def abort(self) -> None:
        """Stops at once and tells nobody, as a kill would."""
        self._unsubscribe()
        if self._succession is not None:
            self._succession.close()
        self._events.abort()
        office, self._office = self._office, None
        if office is not None:
            office.end()

    async def settled(self) -> None:
        """Returns when no event is waiting or being handled. Raises what ended the handling of events, if it did."""
        await self._events.settled()

    async def carried_out_here(self) -> None:
        """Returns when this broker has carried out all that it ordered as the controller so far; at once if it is not
        the controller. It serves what it leads then."""
        if self._office is not None:
            await self._office.carried_out_here()

    # ----------------------------------------------------------------------------------------------- who asks it

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._office is not None and not self._office.reign.deposed

    @property
    def topics(self) -> TopicAdmin:
        """What clients may ask of the controller about topics. Raises Deposed if this broker is not it."""
        return self._in_office().topics

    @property
    def reassignments(self) -> Reassignments:
        """Partitions that move. Raises Deposed if this broker is not the controller."""
        return self._in_office().reassignments

    @property
    def elections(self) -> Elections:
        """Elections at a client's wish. Raises Deposed if this broker is not the controller."""
        return self._in_office().elections

    @property
    def features(self) -> FeatureUpdates:
        """Levels of features at a client's wish. Raises Deposed if this broker is not the controller."""
        return self._in_office().features

    @property
    def context(self) -> ControllerContext:
        """What the controller knows, to read. Raises Deposed if this broker is not it."""
        return self._in_office().reign.context

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Judges and writes the ISRs that a leader proposes. Raises Deposed; ZooKeeperError where it stays unknown
        whether they were written."""
        office = self._in_office()
        response, changed = await office.alterations.alter(request, version)
        if changed and office.reassignments.any_under_way:
            self._events.put(IsrsChanged())
        return response

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Takes a broker's leaderships away; returns those that nobody could take over yet.

        Raises RequestError (STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE), Deposed, ZooKeeperError.
        """
        return await self._in_office().controlled_shutdown.begin(broker_id, broker_epoch)

    def topic_config_changed(self, topics: Sequence[str] | None) -> None:
        """Settings of these topics, or (None) of the broker, changed: partitions without a leader may get one if
        unclean elections are allowed now (S35). Nothing happens where this broker is not the controller."""
        if self.is_active and (topics is None or topics):
            self._events.put(TopicConfigChanged(tuple(topics or ())))

    def _in_office(self) -> Office:
        if self._office is None or self._office.reign.deposed:
            raise Deposed(f"broker {self._broker_id} is not the controller")
        return self._office

    # ----------------------------------------------------------------------------------------------------- events

    def _on_event(self, event: Event) -> None:
        match event:
            case SessionEvent(SessionState.EXPIRED):
                if self._office is not None:
                    self._office.reign.depose("its session expired")
                self._set_controller(NO_LEADER)
            case SessionEvent(SessionState.CONNECTED):
                self._events.put(Elect())
            case WatchEvent(event_type, path, _):
                if path == CONTROLLER_PATH and event_type is EventType.NODE_DELETED:
                    self._set_controller(NO_LEADER)
                self._on_watch(path)
            case _:
                pass

    def _on_watch(self, path: str) -> None:
        look = _LOOK_AT.get(path)
        if look is None and path.startswith(f"{BROKER_IDS_PATH}/"):
            look = BrokersChanged()
        if look is None and path.startswith(f"{TOPICS_PATH}/"):
            name = path[len(TOPICS_PATH) + 1 :]
            if "/" not in name:
                look = TopicChanged(name)
        # Also while a reign begins and is no office yet: what it has read by then is not read again without the event.
        if look is not None:
            self._events.put(look)
        if self._office is not None:
            self._office.on_watch(path)

    def _on_ended(self, running: asyncio.Task[None]) -> None:
        """Only a bug ends it before `stop` does."""
        if not running.cancelled() and (failure := running.exception()) is not None:
            if self._office is not None:
                self._office.reign.depose("its events are handled no more")
            running.get_loop().call_exception_handler(
                {"message": "the controller's events are handled no more", "exception": failure, "task": running}
            )

    async def _handle(self, event: ControllerEvent) -> None:
        self.last_failure = None
        try:
            match event:
                case Elect():
                    await self._elect()
                case SeatDeserted(incumbent):
                    await self._take_over(incumbent)
                case _:
                    if self._office is not None and not self._office.reign.deposed:
                        await self._office.handle(event)
        except Deposed:
            self._events.put_later(Elect(), RETRY_MS)
        except SessionExpired as expired:
            self.last_failure = expired  # With the next session comes the next election.
        except ZooKeeperError as failure:
            self.last_failure = failure
            self._events.put_later(event, RETRY_MS)

    def _set_controller(self, broker_id: BrokerId) -> None:
        if broker_id != self.controller_id:
            self.controller_id = broker_id
            self._on_controller_changed(broker_id)

    # --------------------------------------------------------------------------------------------------- election

    async def _elect(self) -> None:
        if self.is_active and await self._holds_the_seat():
            return
        self._leave_office("another may have the seat")
        for _ in range(MAX_ELECTION_ATTEMPTS):
            epoch, version = await self._read_epoch()
            if await self._zookeeper.exists(CONTROLLER_PATH, watch=True) is not None:
                try:
                    data, stat = await self._zookeeper.get(CONTROLLER_PATH)
                except NoNode:
                    continue
                controller_id = ControllerNode.decode(data).broker_id
                if stat.ephemeral_owner != self._zookeeper.session_id:
                    await self._follow(controller_id, epoch, version)
                    return
                if await self._read_epoch() != (epoch, version):
                    continue  # Who took the seat between the two looks reigns in that epoch, and nobody else.
                await self._begin(epoch, version)
                return
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

    async def _follow(self, controller_id: BrokerId, epoch: int, version: int) -> None:
        """Another broker is the controller; its process is watched."""
        self._set_controller(controller_id)
        if self._succession is None:
            return
        try:
            data, stat = await self._zookeeper.get(broker_path(controller_id))
            registration = BrokerRegistration.decode(controller_id, data)
        except (NoNode, MalformedZNode):
            return  # Its registration is gone before its seat: the session is ending.
        for endpoint in registration.endpoints:
            if endpoint.listener_name == self._ports.listener_name:
                self._succession.watch(
                    Incumbent(controller_id, stat.czxid, endpoint.host, endpoint.port, epoch, version)
                )

    async def _take_over(self, incumbent: Incumbent) -> None:
        """The incumbent's process is gone: this broker takes its seat, unless somebody has done so."""
        if self.is_active or self.controller_id != incumbent.broker_id:
            return
        try:
            results = await self._zookeeper.multi(take_over_operations(incumbent, self._broker_id, self._now_ms()))
        except (BadVersion, NoNode, NodeExists):
            self._events.put(Elect())
            return
        except OutcomeUnknown:
            # If it was carried out after all, the next attempt is rejected, and finds the seat to be this broker's.
            self._events.put_later(SeatDeserted(incumbent), RETRY_MS)
            return
        raised = results[0]
        assert isinstance(raised, Stat)
        # The watch on /controller was spent on the incumbent's.
        await self._zookeeper.exists(CONTROLLER_PATH, watch=True)
        why = f"broker {incumbent.broker_id}, the controller of epoch {incumbent.epoch}, refuses connections"
        lost = {incumbent.broker_id: incumbent.broker_epoch}
        await self._begin(incumbent.epoch + 1, raised.version, lost=lost, why=why)

    # -------------------------------------------------------------------------------------------------- the reign

    async def _begin(
        self, epoch: int, epoch_version: int, *, lost: Mapping[BrokerId, int] | None = None, why: str = ""
    ) -> None:
        """This broker is the controller from here on: it reads everything, and gives orders for everything."""
        if self._succession is not None:
            self._succession.watch(None)
        context = ControllerContext(epoch=epoch, epoch_version=epoch_version)

        async def send(change: ClusterChange) -> Delivery:
            return await office.send(change)

        reign = Reign(
            self._zookeeper,
            context,
            send,
            broker_id=self._broker_id,
            now_ms=self._now_ms,
            record=self._record,
            witness=self._witness,
            on_deposed=lambda why: self._on_deposed(office, why),
        )
        office = Office(reign, self._events, self._settings, self._rng, ports=self._ports)

        def on_begun() -> None:
            self._office = office
            self._set_controller(self._broker_id)

        begun = False
        try:
            self._note(DecisionKind.CONTROLLER_ELECTED, epoch, why or "the seat was empty", {"lost": tuple(lost or ())})
            await office.begin(lost or {}, on_begun)
            begun = True
        finally:
            if not begun:
                office.end()
                reign.deposed = True  # The seat stays held; the event is handled again, in another reign.
                self._office = None

    def _leave_office(self, why: str) -> None:
        office, self._office = self._office, None
        if office is not None:
            office.reign.depose(why)

    def _on_deposed(self, office: Office, why: str) -> None:
        office.end()
        self._events.drop_later()
        # What deposed it raises an event as well; this is for the case that it does not.
        self._events.put_later(Elect(), RETRY_MS)
        self._note(DecisionKind.CONTROLLER_RESIGNED, office.reign.context.epoch, why, {})

    def _note(self, kind: DecisionKind, epoch: int, why: str, evidence: Facts) -> None:
        self._record(
            Decision(
                kind,
                self._now_ms(),
                self._broker_id,
                f"broker {self._broker_id}, controller epoch {epoch}: {why}",
                controller_epoch=epoch,
                evidence={"epoch": epoch, **evidence},
            )
        )
