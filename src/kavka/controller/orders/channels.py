"""Channels: how requests reach the brokers: one queue per broker and broker epoch, one request at a time.

A flow. It decides when a request is sent again and when a broker counts as unreachable; it must not know what the
requests say, except the error that stands for all of an answer. It calls its listener, which must not block.

    queued --sent--> answered --> on_answer, the next one is sent
              |
              +----> connection lost: connect again, send the same request again

A request is sent again until it is answered, or until the broker is registered with another epoch (S31): brokers take
the same request twice without harm, and would never learn of one that was skipped. The connection is held all the time,
idle or not, so that the reset of a killed process is seen at once. What a failed connection means:

    lost, and connecting again is refused     its process does not listen any more: on_unreachable
    lost, and connecting again succeeds       a cut or a time-out: the request is sent again
    not connected yet, and refused            the broker may still be starting: on_unreachable after a grace
    no answer to the connection attempt       a cut or a paused process: wait; its session decides

Invariants:
I1  A broker gets requests in the order in which they were given to `send`; never two of them at a time.
I2  After an answer STALE_BROKER_EPOCH nothing is sent through this channel any more: the requests were for the broker's
    former life.
I3  At most MAX_QUEUED_REQUESTS wait for one broker. Beyond that all of them are dropped, and when the broker answers
    again `on_behind` asks for everything anew.

Source: Kafka's ControllerChannelManager and RequestSendThread; unreachable brokers are kavka's own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from kavka.controller.decide.context import LiveBroker
from kavka.controller.orders.control_requests import ControlRequest, listener_endpoint
from kavka.controller.orders.delivery import Delivery
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode, ProtocolViolation
from kavka.model import BrokerId
from kavka.protocol.api import APIS
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.api_versions_response import ApiVersionsResponse
from kavka.protocol.schema import Message

MAX_QUEUED_REQUESTS: Final = 1_000
"""Per broker. A paused broker is sent one request per change of the cluster until its session expires."""
RETRY_MS: Final = 100
"""Between attempts to connect, as in Kafka."""
STARTING_GRACE_MS: Final = 3_000
"""How long a broker that has just registered may refuse connections before it counts as unreachable."""

DeliverLocally: TypeAlias = Callable[[ApiKey, Message], Awaitable[Message]]
"""Has this broker carry out a request of its own controller; returns the answer."""


A = TypeVar("A", bound=Message)


class PeerLink(Protocol):
    """A connection to another broker, as `protocol.peer.PeerConnection` is one."""

    @property
    def is_open(self) -> bool: ...

    async def request(self, key: ApiKey, version: int, message: Message, answer_type: type[A], *, timeout_ms: int) -> A:
        """The answer. Raises ConnectionFailed: whether the request was carried out is unknown then."""
        ...

    async def wait_closed(self) -> object:
        """Returns when the connection is gone, for whatever reason, also while nothing is asked."""
        ...

    def close(self) -> None: ...


OpenPeer: TypeAlias = Callable[[str, int, int], Awaitable[PeerLink]]
"""Connects to (host, port) within so many ms. Raises ConnectionRefused, ConnectionFailed."""


class ChannelPorts(NamedTuple):
    """How brokers are reached: by `open_peer` at their endpoint of `listener_name`, this one by `deliver_locally`.

    `control_listener_name`: the listener that is for the controller alone, where there is such a one. A broker that
    does not have it yet, or not any more, while the brokers are restarted one by one, is reached as without it.
    """

    open_peer: OpenPeer
    listener_name: str
    deliver_locally: DeliverLocally
    control_listener_name: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """`socket_timeout_ms`: controller.socket.timeout.ms, for a connection and for an answer."""

    socket_timeout_ms: int = 30_000
    max_queued_requests: int = MAX_QUEUED_REQUESTS
    retry_ms: int = RETRY_MS


class ChannelListener(Protocol):
    """Is called when something happens on a channel; `broker_epoch` says in which life of the broker."""

    def on_answer(self, broker_id: BrokerId, broker_epoch: int, request: ControlRequest, answer: Message) -> None: ...

    def on_unreachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """The broker's process is gone, most likely; called once until it is reachable again."""
        ...

    def on_reachable(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """A broker that was unreachable takes connections again."""
        ...

    def on_behind(self, broker_id: BrokerId, broker_epoch: int) -> None:
        """Requests to the broker were dropped, and it answers again: it needs everything sent anew."""
        ...

    def on_stale_controller(self, broker_id: BrokerId) -> None:
        """The broker knows a later controller."""
        ...


class _Queued:
    """A request in a channel's queue; `delivery` is None once no caller waits for it."""

    __slots__ = ("delivery", "request")

    def __init__(self, request: ControlRequest, delivery: Delivery | None) -> None:
        self.request = request
        self.delivery = delivery

    def settle(self) -> None:
        delivery, self.delivery = self.delivery, None
        if delivery is not None:
            delivery.settle()


class BrokerChannel:
    """The queue to one broker in one of its lives; what carries requests is in the subclasses."""

    def __init__(self, broker_id: BrokerId, epoch: int, listener: ChannelListener, limits: ChannelLimits) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self._listener = listener
        self._limits = limits
        self._queue: deque[_Queued] = deque()
        self._wake = asyncio.Event()
        self._is_behind = False
        self._is_stale = False
        self._is_waited_for = True
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(_report_bug)

    def send(self, requests: Sequence[ControlRequest], delivery: Delivery) -> None:
        """Queues the requests."""
        if self._is_stale or self._is_behind:
            return
        if len(self._queue) + len(requests) > self._limits.max_queued_requests:
            self._is_behind = True
            self._drop()
            self._wake.set()
            return
        waiting = delivery if self._is_waited_for else None
        if waiting is not None:
            waiting.expect(len(requests))
        self._queue.extend(_Queued(request, waiting) for request in requests)
        self._wake.set()

    def close(self) -> None:
        """Sends nothing any more; who waits for an answer goes on."""
        self._running.cancel()
        self._drop()

    async def _run(self) -> None:
        raise NotImplementedError

    def _answered(self, queued: _Queued, answer: Message) -> None:
        """Takes in the answer to the oldest request, or to one that was dropped while it was in flight."""
        if self._queue and self._queue[0] is queued:
            self._queue.popleft()
        queued.settle()
        error = getattr(answer, "error_code", ErrorCode.NONE)
        if error == ErrorCode.STALE_BROKER_EPOCH:
            self._is_stale = True
            self._drop()
            return
        if error == ErrorCode.STALE_CONTROLLER_EPOCH:
            self._listener.on_stale_controller(self.broker_id)
            return
        self._listener.on_answer(self.broker_id, self.epoch, queued.request, answer)
        if self._is_behind:
            self._catch_up()

    def _catch_up(self) -> None:
        self._is_behind = False
        self._listener.on_behind(self.broker_id, self.epoch)

    def _drop(self) -> None:
        dropped, self._queue = self._queue, deque()
        for queued in dropped:
            queued.settle()

    def _wait_for_nobody(self) -> None:
        """Whoever waits for this broker's answers goes on without them; the requests stay queued."""
        self._is_waited_for = False
        for queued in self._queue:
            queued.settle()


class LocalChannel(BrokerChannel):
    """To the broker that is the controller itself: no connection, the same queue."""

    def __init__(
        self,
        broker_id: BrokerId,
        epoch: int,
        deliver: DeliverLocally,
        listener: ChannelListener,
        limits: ChannelLimits,
    ) -> None:
        self._deliver = deliver
        self._idle = asyncio.Event()
        super().__init__(broker_id, epoch, listener, limits)

    async def carried_out(self) -> None:
        """Returns when this broker has carried out all that was queued so far, or the channel is closed."""
        if self._queue:
            self._idle.clear()
            await self._idle.wait()

    def close(self) -> None:
        super().close()
        self._idle.set()

    async def _run(self) -> None:
        while True:
            while self._queue:
                queued = self._queue[0]
                self._answered(queued, await self._deliver(queued.request.key, queued.request.message))
            self._idle.set()
            if self._is_behind:
                self._catch_up()
            self._wake.clear()
            await self._wake.wait()


class Contact(NamedTuple):
    """How a broker is to be reached at first: at `endpoint`, (host, port). It may refuse connections for `grace_ms`; a
    suspect counts as unreachable already."""

    endpoint: tuple[str, int] | None
    grace_ms: int
    is_suspect: bool


class RemoteChannel(BrokerChannel):
    """To another broker. `endpoint` is (host, port), read anew for each attempt to connect."""

    def __init__(
        self,
        broker_id: BrokerId,
        epoch: int,
        ports: ChannelPorts,
        contact: Contact,
        listener: ChannelListener,
        limits: ChannelLimits,
    ) -> None:
        self.endpoint = contact.endpoint
        self._ports = ports
        self._grace_ms = contact.grace_ms
        self._is_unreachable = contact.is_suspect
        self._connection: PeerLink | None = None
        self._contact = asyncio.Event()
        """Set while the broker is connected to, or refuses it."""
        super().__init__(broker_id, epoch, listener, limits)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        refusal_counts_at = loop.time() + self._grace_ms / 1000
        fruitless = 0
        while not self._is_stale:
            try:
                connection = await self._connect()
            except ConnectionRefused:
                if loop.time() >= refusal_counts_at:
                    self._on_refused()
                await asyncio.sleep(self._limits.retry_ms / 1000)
                continue
            except ConnectionFailed:
                await asyncio.sleep(self._limits.retry_ms / 1000)
                continue
            self._connection = connection
            self._on_connected()
            try:
                answered = await self._converse(connection)
            finally:
                self._connection = None
                self._contact.clear()
                connection.close()
            refusal_counts_at = loop.time()
            fruitless = 0 if answered else fruitless + 1
            if fruitless > 1:
                # Only the first loss is looked into at once: it may be a kill. A broker that drops every request or
                # every connection is not asked as fast as it can be.
                await asyncio.sleep(self._limits.retry_ms / 1000)
        self._contact.set()  # Nothing more will be found out through this channel.

    async def look(self) -> None:
        """Returns when the broker has answered something sent now, or refuses connections. A process that is being
        killed answers nothing, though its connections are not reset yet."""
        while True:
            await self._contact.wait()
            connection = self._connection
            if connection is None:
                return
            try:
                await connection.request(
                    ApiKey.API_VERSIONS,
                    0,
                    ApiVersionsRequest(),
                    ApiVersionsResponse,
                    timeout_ms=self._limits.socket_timeout_ms,
                )
            except ConnectionFailed:
                await asyncio.sleep(0)  # The channel takes note, and finds out what there is to connect to.
                continue
            return

    async def _connect(self) -> PeerLink:
        if self.endpoint is None:
            self._wait_for_nobody()
            raise ConnectionFailed(f"broker {self.broker_id} has no listener {self._ports.listener_name}")
        host, port = self.endpoint
        return await self._ports.open_peer(host, port, self._limits.socket_timeout_ms)

    def _on_refused(self) -> None:
        self._contact.set()
        self._wait_for_nobody()
        if not self._is_unreachable:
            self._is_unreachable = True
            self._listener.on_unreachable(self.broker_id, self.epoch)

    def _on_connected(self) -> None:
        self._contact.set()
        self._is_waited_for = True
        if self._is_unreachable:
            self._is_unreachable = False
            self._listener.on_reachable(self.broker_id, self.epoch)

    async def _converse(self, connection: PeerLink) -> bool:
        """Sends what is queued, and what comes, until the connection is gone; whether anything was answered."""
        answered = False
        lost = asyncio.ensure_future(connection.wait_closed())
        try:
            while connection.is_open and not self._is_stale:
                if self._queue:
                    queued = self._queue[0]
                    try:
                        answer = await self._request(connection, queued.request)
                    except (ConnectionFailed, ProtocolViolation):
                        return answered
                    answered = True
                    self._answered(queued, answer)
                    continue
                if self._is_behind:
                    self._catch_up()
                    continue
                self._wake.clear()
                woken = asyncio.ensure_future(self._wake.wait())
                try:
                    await asyncio.wait((lost, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
            return answered
        finally:
            lost.cancel()

    async def _request(self, connection: PeerLink, request: ControlRequest) -> Message:
        return await connection.request(
            request.key,
            request.version,
            request.message,
            APIS[request.key].response_type,
            timeout_ms=self._limits.socket_timeout_ms,
        )


class Channels:
    """The channels of one term, to all registered brokers."""

    def __init__(
        self, broker_id: BrokerId, ports: ChannelPorts, listener: ChannelListener, limits: ChannelLimits
    ) -> None:
        self._broker_id = broker_id
        self._ports = ports
        self._listener = listener
        self._limits = limits
        self._channels: dict[BrokerId, BrokerChannel] = {}

    def set_brokers(
        self,
        brokers: Mapping[BrokerId, LiveBroker],
        *,
        grace_ms: int = STARTING_GRACE_MS,
        suspects: Collection[BrokerId] = (),
    ) -> None:
        """These brokers are registered from now on: channels to others, and to former lives of these, are closed.

        New ones may refuse connections for `grace_ms`. `suspects` count as unreachable already.
        """
        for broker_id, channel in list(self._channels.items()):
            if broker_id not in brokers or brokers[broker_id].epoch != channel.epoch:
                channel.close()
                del self._channels[broker_id]
        for broker_id, broker in brokers.items():
            known = self._channels.get(broker_id)
            if known is None:
                self._channels[broker_id] = self._open(
                    broker_id, broker, grace_ms=grace_ms, is_suspect=broker_id in suspects
                )
            elif isinstance(known, RemoteChannel):
                known.endpoint = self._endpoint(broker)

    def _open(self, broker_id: BrokerId, broker: LiveBroker, *, grace_ms: int, is_suspect: bool) -> BrokerChannel:
        if broker_id == self._broker_id:
            return LocalChannel(broker_id, broker.epoch, self._ports.deliver_locally, self._listener, self._limits)
        contact = Contact(self._endpoint(broker), grace_ms, is_suspect)
        return RemoteChannel(broker_id, broker.epoch, self._ports, contact, self._listener, self._limits)

    def _endpoint(self, broker: LiveBroker) -> tuple[str, int] | None:
        names = (self._ports.control_listener_name, self._ports.listener_name)
        found = (listener_endpoint(broker, name) for name in names if name is not None)
        endpoint = next((each for each in found if each is not None), None)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def send(self, requests: Mapping[BrokerId, Sequence[ControlRequest]]) -> Delivery:
        """Queues requests for the brokers that have a channel."""
        delivery = Delivery()
        for broker_id, more in requests.items():
            channel = self._channels.get(broker_id)
            if channel is not None:
                channel.send(more, delivery)
        return delivery

    async def carried_out_here(self) -> None:
        """Returns when this broker has carried out all that its own controller ordered so far."""
        channel = self._channels.get(self._broker_id)
        if isinstance(channel, LocalChannel):
            await channel.carried_out()

    async def look(self, timeout_ms: int) -> None:
        """Returns when each of the other brokers has answered or refuses connections, or after `timeout_ms`."""
        looking = [
            asyncio.ensure_future(channel.look())
            for channel in self._channels.values()
            if isinstance(channel, RemoteChannel)
        ]
        if looking:
            _, late = await asyncio.wait(looking, timeout=timeout_ms / 1000)
            for task in late:
                task.cancel()

    def close(self) -> None:
        """Closes all of them."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


def _report_bug(task: asyncio.Task[None]) -> None:
    """A channel must not end with an exception: it is reported to the host, which halts."""
    if not task.cancelled() and (bug := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": "a channel of the controller failed by a bug", "exception": bug, "task": task}
        )
