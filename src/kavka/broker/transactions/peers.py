"""TransactionPeers: what brokers ask each other about transactions, gathered into few requests.

Decides how requests to one broker are gathered: one is under way, and what comes meanwhile goes together with the next.
So a request waits at most one round trip, and a broker that is slow gets few large ones. Must not know what they mean.

    I1  every item ends: with its answer, or with `ConnectionFailed`, after which nobody knows whether it was carried
        out. It is not sent again here. A bug of ours goes to who asked, and not past everybody
    I2  a lane holds at most MAX_WAITING items; more are refused as if the broker could not be reached

Source: Kafka's InterBrokerSendThread, AddPartitionsToTxnManager and TransactionMarkerChannelManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kavka.broker.metadata.metadata_cache import Endpoint, MetadataCache
from kavka.errors import ConnectionFailed
from kavka.model import BrokerId

if TYPE_CHECKING:
    from kavka.protocol.peer import PeerConnection

MAX_WAITING: Final = 10_000
"""Items that may wait for one broker."""
MAX_GATHERED: Final = 500
"""Items in one request."""
CONNECT_TIMEOUT_MS: Final = 5_000

OpenPeer = Callable[[str, int, int], Awaitable["PeerConnection"]]
"""Connects to (host, port) within a time in ms. Raises `ConnectionFailed`."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class PeerAccess(NamedTuple):
    """How other brokers are reached: by the listener `listener_name`, with `request_timeout_ms` for an answer."""

    metadata: MetadataCache
    listener_name: str
    open_peer: OpenPeer
    request_timeout_ms: int


class Lane(Generic[Item, Result]):
    """The way to one broker for one kind of item. `send` carries out many, and answers each, in order."""

    def __init__(
        self,
        endpoint: Callable[[], Endpoint | None],
        open_peer: OpenPeer,
        send: Callable[[PeerConnection, Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> None:
        self._endpoint = endpoint
        self._open_peer = open_peer
        self._send = send
        self._connection: PeerConnection | None = None
        self._connected_to: Endpoint | None = None
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Result:
        """The answer. Raises `ConnectionFailed` (I1)."""
        if len(self._waiting) >= MAX_WAITING:
            raise ConnectionFailed(f"{MAX_WAITING} requests wait for the broker")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        if self._sender is None:
            self._sender = loop.create_task(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_GATHERED], self._waiting[MAX_GATHERED:]
                await self._send_batch(batch)
        finally:
            self._sender = None
            for _item, answer in self._waiting:
                answer.cancel()
            self._waiting = []

    async def _send_batch(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            connection = await self._connect()
            results = await self._send(connection, [item for item, _answer in batch])
        except ConnectionFailed as failure:
            for _item, answer in batch:
                if not answer.done():
                    answer.set_exception(ConnectionFailed(str(failure)))
            return
        except BaseException as stopped:
            for _item, answer in batch:
                if isinstance(stopped, asyncio.CancelledError):
                    answer.cancel()
                elif not answer.done():
                    answer.set_exception(stopped)
            raise
        for (_item, answer), result in zip(batch, results, strict=True):
            if not answer.done():
                answer.set_result(result)

    async def _connect(self) -> PeerConnection:
        endpoint = self._endpoint()
        if endpoint is None:
            raise ConnectionFailed("the broker is not alive")
        connection = self._connection
        if connection is not None and connection.is_open and self._connected_to == endpoint:
            return connection
        self.disconnect()
        self._connection = connection = await self._open_peer(endpoint.host, endpoint.port, CONNECT_TIMEOUT_MS)
        self._connected_to = endpoint
        return connection

    def disconnect(self) -> None:
        """Ends the connection; what is in flight fails."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Ends all."""
        if self._sender is not None:
            self._sender.cancel()
        self.disconnect()


class TransactionPeers(Generic[Item, Result]):
    """A lane to every broker that was asked for."""

    def __init__(
        self,
        access: PeerAccess,
        send: Callable[[PeerConnection, Sequence[Item]], Awaitable[Sequence[Result]]],
    ) -> None:
        self._access = access
        self._send = send
        self._lanes: dict[BrokerId, Lane[Item, Result]] = {}

    async def ask(self, broker_id: BrokerId, item: Item) -> Result:
        """The broker's answer. Raises `ConnectionFailed`."""
        lane = self._lanes.get(broker_id)
        if lane is None:
            metadata, listener_name, open_peer, _ = self._access
            lane = self._lanes[broker_id] = Lane(
                lambda: metadata.endpoint(broker_id, listener_name), open_peer, self._send
            )
        return await lane.ask(item)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
