"""Controller: this broker as a candidate for the role of the controller, and what others may ask of it in that role.

A flow around one queue of events, handled one at a time. It becomes the controller and stops being it. While it is the
controller, an `ActiveController` does the work of one term; requests of clients and brokers go there and wait for their
turn behind events.

Election: one multi creates the ephemeral /controller and raises /controller_epoch, so there is never a controller
without an epoch of its own, nor two with one epoch. If the answer is lost, the candidate looks it up: this session owns
/controller, or it does not. A broker that loses the election watches /controller, and the process behind it
(`fast_failover`).

Invariants:
I1  Every write of a term is checked against the epoch that it began with (`ControllerTerm.write`).
I2  When the session expires the term is over at once, before anything else is handled.
I3  A term that is over sends nothing: its channels are closed with it.

Source: Kafka's KafkaController; KAFKA-6082 for the multi.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.controller.active_controller import RETRY_MS, ActiveController, ControllerSettings
from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext
from kavka.controller.orders.channels import ChannelPorts
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import ControllerTerm, NotController, TermRecords
from kavka.controller.term.events import (
    BrokersChanged,
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
    TopicChanged,
    TopicConfigChanged,
    TopicsChanged,
)
from kavka.controller.term.fast_failover import FastFailover, RemoteController, take_over_operations
from kavka.controller.term.input_recorder import InputRecorder
from kavka.controller.work.elections import Elections
from kavka.controller.work.reassignments import Reassignments
from kavka.decisions import Decision, DecisionKind, Facts, RecordDecision, forget
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
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
from kavka.zookeeper.znode_paths import (
    BROKER_IDS_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    DELETE_TOPICS_PATH,
    ISR_CHANGES_PATH,
    LOG_DIR_EVENTS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    TOPICS_PATH,
    broker_path,
)
from kavka.zookeeper.znodes import (
    BrokerRegistration,
    ControllerNode,
    MalformedZNode,
    decode_controller_epoch,
    encode_controller_epoch,
)

if TYPE_CHECKING:
    from kavka.controller.work.feature_updates import FeatureUpdates
    from kavka.controller.work.topic_admin import TopicAdmin

__all__ = ["Controller", "ControllerPorts", "ControllerSettings"]

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


class ControllerPorts(NamedTuple):
    """What the controller is given: `now_ms` reads the wall clock; `channels` reach the brokers; `record` takes its
    decisions, and `input_recorder` what they rest on. `on_controller_changed` is called with the id of each new
    controller, with NO_LEADER while there is none."""

    channels: ChannelPorts
    now_ms: Callable[[], int]
    rng: random.Random
    record: RecordDecision = forget
    input_recorder: InputRecorder | None = None
    on_controller_changed: Callable[[BrokerId], None] = lambda broker_id: None


class Controller:
    """One broker as a candidate: it is the controller while `is_active`."""

    def __init__(
        self, zookeeper: ZooKeeper, broker_id: BrokerId, settings: ControllerSettings, ports: ControllerPorts
    ) -> None:
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._settings = settings
        self._input_recorder = ports.input_recorder
        self._ports = ports.channels
        self._now_ms = ports.now_ms
        self._rng = ports.rng
        self._record = ports.record
        self._on_controller_changed = ports.on_controller_changed
        self._events = EventQueue(self._handle)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._active: ActiveController | None = None
        self._fast_failover: FastFailover | None = None
        if settings.fast_failover:
            self._fast_failover = FastFailover(
                ports.channels.open_peer,
                lambda former: self._events.put(ControllerUnreachable(former)),
                settings.limits,
            )
        self.controller_id: BrokerId = NO_LEADER
        self.last_failure: ZooKeeperError | None = None
        """Why the last event was not handled to its end; the next one tries again."""

    # ------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Takes part in the election. Returns when it is decided and, if this broker won, the orders were sent.

        This broker must be registered. Raises ZooKeeperError if that cannot be done now.
        """
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        self._events.start(self._on_ended)
        self._events.put(Elect())
        await self.settled()
        if self.last_failure is not None:
            raise self.last_failure

    async def stop(self) -> None:
        """Resigns, if this broker is the controller, and handles no more events."""
        self._unsubscribe()
        if self._fast_failover is not None:
            self._fast_failover.close()
        await self._events.stop()
        active = self._active
        if active is not None and not active.term.is_over:
            try:
                await active.term.write([Delete(CONTROLLER_PATH)])
            except (ZooKeeperError, NotController):
                pass  # It is another's, or goes with the session.
            active.term.end("this broker stops")
        self._events.drop_later()
        self._active = None

    def abort(self) -> None:
        """Stops at once and without resigning, as a kill would."""
        self._unsubscribe()
        if self._fast_failover is not None:
            self._fast_failover.close()
        self._events.abort()
        active, self._active = self._active, None
        if active is not None:
            active.end()

    async def settled(self) -> None:
        """Returns when no event is waiting or being handled. If the handling of events ended with an error, raises
        it."""
        await self._events.settled()

    async def carried_out_here(self) -> None:
        """Returns when this broker has carried out all its own orders as the controller so far, or at once if it is
        not the controller. From then on it serves the partitions that it leads."""
        if self._active is not None:
            await self._active.carried_out_here()

    # ----------------------------------------------------------------------------------------------- who asks it

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._active is not None and not self._active.term.is_over

    @property
    def topics(self) -> TopicAdmin:
        """The requests of clients about topics. Raises NotController if this broker is not the controller."""
        return self._require_active().topics

    @property
    def reassignments(self) -> Reassignments:
        """The reassignments. Raises NotController if this broker is not the controller."""
        return self._require_active().reassignments

    @property
    def elections(self) -> Elections:
        """Elections that clients request. Raises NotController if this broker is not the controller."""
        return self._require_active().elections

    @property
    def features(self) -> FeatureUpdates:
        """Changes of feature levels that clients request. Raises NotController if this broker is not the
        controller."""
        return self._require_active().features

    @property
    def context(self) -> ControllerContext:
        """What the controller knows, for reading only. Raises NotController if this broker is not the controller."""
        return self._require_active().term.context

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Checks and writes the ISRs that a leader proposes. Raises NotController, or ZooKeeperError if it is unknown
        whether they were written."""
        active = self._require_active()
        response, changed = await active.alterations.alter(request, version)
        if changed and active.reassignments.any_under_way:
            self._events.put(IsrsChanged())
        return response

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]:
        """Moves a broker's leaderships to others; returns the partitions that no other broker could take over yet.

        Raises RequestError (STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE), NotController, ZooKeeperError.
        """
        return await self._require_active().controlled_shutdown.begin(broker_id, broker_epoch)

    async def check_broker_epoch(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """Raises RequestError (BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH) unless the broker is registered with this
        epoch; NotController.

        Waits for its turn: a registration that the controller is taking in counts.
        """
        active = self._require_active()
        async with active.term.turn:
            if active.term.is_over:
                raise NotController(f"broker {self._broker_id} is not the controller")
            registered = active.term.context.broker_epoch(broker_id)
        if registered == NO_BROKER_EPOCH:
            raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
        if registered != broker_epoch:
            message = f"broker {broker_id} is registered with epoch {registered}, not {broker_epoch}"
            raise RequestError(ErrorCode.STALE_BROKER_EPOCH, message)

    def topic_config_changed(self, topics: Sequence[str] | None) -> None:
        """Settings of these topics, or (None) of the broker, changed: partitions without a leader may get one if
        unclean elections are allowed now (S35). Nothing happens where this broker is not the controller."""
        if self.is_active and (topics is None or topics):
            self._events.put(TopicConfigChanged(tuple(topics or ())))

    def _require_active(self) -> ActiveController:
        if self._active is None or self._active.term.is_over:
            raise NotController(f"broker {self._broker_id} is not the controller")
        return self._active

    # ----------------------------------------------------------------------------------------------------- events

    def _on_event(self, event: Event) -> None:
        match event:
            case SessionEvent(SessionState.EXPIRED):
                if self._active is not None:
                    self._active.term.end("its session expired")
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
        # Also while a term begins: what it has read by then is not read again without the event.
        if look is not None:
            self._events.put(look)
        if self._active is not None:
            self._active.on_watch(path)

    def _on_ended(self, running: asyncio.Task[None]) -> None:
        """Only a bug ends it before `stop` does."""
        if not running.cancelled() and (failure := running.exception()) is not None:
            if self._active is not None:
                self._active.term.end("it no longer handles its events")
            running.get_loop().call_exception_handler(
                {"message": "the controller no longer handles its events", "exception": failure, "task": running}
            )

    async def _handle(self, event: ControllerEvent) -> None:
        self.last_failure = None
        try:
            match event:
                case Elect():
                    await self._elect()
                case ControllerUnreachable(former):
                    await self._take_over(former)
                case _:
                    if self._active is not None and not self._active.term.is_over:
                        await self._active.handle(event)
        except NotController:
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
        if self.is_active and await self._holds_controller_znode():
            return
        self._step_down("another broker may be the controller")
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
                    continue  # Another broker became the controller in between, and that epoch is its own.
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

    async def _holds_controller_znode(self) -> bool:
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
        if self._fast_failover is None:
            return
        try:
            data, stat = await self._zookeeper.get(broker_path(controller_id))
            registration = BrokerRegistration.decode(controller_id, data)
        except (NoNode, MalformedZNode):
            return  # Its registration is gone before /controller: its session is ending.
        for endpoint in registration.endpoints:
            if endpoint.listener_name == self._ports.listener_name:
                self._fast_failover.watch(
                    RemoteController(controller_id, stat.czxid, endpoint.host, endpoint.port, epoch, version)
                )

    async def _take_over(self, former: RemoteController) -> None:
        """The process of the former controller is gone: this broker replaces it, unless another broker has done so."""
        if self.is_active or self.controller_id != former.broker_id:
            return
        try:
            results = await self._zookeeper.multi(take_over_operations(former, self._broker_id, self._now_ms()))
        except (BadVersion, NoNode, NodeExists):
            self._events.put(Elect())
            return
        except OutcomeUnknown:
            # If it was carried out after all, the next attempt is rejected, and finds /controller to be this broker's.
            self._events.put_later(ControllerUnreachable(former), RETRY_MS)
            return
        raised = results[0]
        assert isinstance(raised, Stat)
        # The watch on /controller fired for the znode of the former controller.
        await self._zookeeper.exists(CONTROLLER_PATH, watch=True)
        why = f"broker {former.broker_id}, the controller of epoch {former.epoch}, refuses connections"
        lost = {former.broker_id: former.broker_epoch}
        await self._begin(former.epoch + 1, raised.version, lost=lost, why=why)

    # --------------------------------------------------------------------------------------------------- the term

    async def _begin(
        self, epoch: int, epoch_version: int, *, lost: Mapping[BrokerId, int] | None = None, why: str = ""
    ) -> None:
        """This broker is the controller from here on: it reads everything, and gives orders for everything."""
        if self._fast_failover is not None:
            self._fast_failover.watch(None)
        context = ControllerContext(epoch=epoch, epoch_version=epoch_version)

        async def send(change: ClusterChange) -> Delivery:
            return await active.send(change)

        term = ControllerTerm(
            self._zookeeper,
            context,
            send,
            TermRecords(self._broker_id, self._now_ms, self._record, self._input_recorder),
            on_ended=lambda why: self._on_term_ended(active, why),
        )
        active = ActiveController(term, self._events, self._settings, self._rng, ports=self._ports)

        def on_begun() -> None:
            self._active = active
            self._set_controller(self._broker_id)

        begun = False
        try:
            self._note(
                DecisionKind.CONTROLLER_ELECTED, epoch, why or "there was no controller", {"lost": tuple(lost or ())}
            )
            await active.begin(lost or {}, on_begun)
            begun = True
        finally:
            if not begun:
                active.end()
                term.is_over = True  # /controller stays this broker's; the event is handled again, in another term.
                self._active = None

    def _step_down(self, why: str) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.term.end(why)

    def _on_term_ended(self, active: ActiveController, why: str) -> None:
        active.end()
        self._events.drop_later()
        # What ended the term raises an event as well; this is for the case that it does not.
        self._events.put_later(Elect(), RETRY_MS)
        self._note(DecisionKind.CONTROLLER_RESIGNED, active.term.context.epoch, why, {})

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
