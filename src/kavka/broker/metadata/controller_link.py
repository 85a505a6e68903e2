"""ControllerLink: this broker's requests to whichever broker is the controller.

Decides where a request goes (the controller that the metadata cache names, or this broker itself), and when it is tried
again. If the controller cannot be reached, is not known, or answers NOT_CONTROLLER, it is looked for again until the
time is over. Must not know what the requests mean.

    I1  one connection, to the controller of the moment; requests go out in the order in which they are sent, unless
        one is tried again
    I2  only requests that may be carried out twice are sent here: a request whose answer was lost is sent again

Source: Kafka's BrokerToControllerChannelManager (NodeToControllerChannelManager).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.broker.metadata.metadata_cache import Endpoint, MetadataCache
from kavka.errors import ConnectionFailed, ErrorCode
from kavka.logger import Logger
from kavka.model import NO_LEADER, BrokerId
from kavka.network import Network
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kavka.protocol.peer import PeerConnection
    from kavka.protocol.schema import Message

logger = Logger(__name__)

A = TypeVar("A", bound="Message")

RETRY_MS: Final = 50
"""How long after a failed attempt the controller is looked for again. Kafka's retry.backoff.ms is 100 there; until the
controller answers, records wait for their followers to leave the in-sync replicas."""
CONNECT_TIMEOUT_MS: Final = 5_000

AnswerLocally = Callable[[ApiKey, int, Any], Awaitable[Any]]
"""Answers a request (key, version, message) as the handler of its API would, if it came over the network."""


class PeerConnector:
    """One connection of broker `own_id`, to the other broker that it asks at the moment."""

    def __init__(self, network: Network, metadata: MetadataCache, own_id: BrokerId, listener_name: str) -> None:
        self.own_id = own_id
        self.connected_to: Endpoint | None = None
        """Where the last connection led, whether it is still open or not."""
        self._network = network
        self._metadata = metadata
        self._listener_name = listener_name
        self._connection: PeerConnection | None = None
        self._connecting = asyncio.Lock()

    def endpoint(self, broker_id: BrokerId) -> Endpoint | None:
        """Where a broker listens for others; None if it is unknown."""
        return self._metadata.endpoint(broker_id, self._listener_name)

    async def connect(self, endpoint: Endpoint, timeout_ms: int) -> PeerConnection:
        """The connection to `endpoint`, opened now if there is none. Raises ConnectionFailed."""
        from kavka.protocol.peer import PeerConnection

        async with self._connecting:
            connection = self._connection
            if connection is not None and connection.is_open and self.connected_to == endpoint:
                return connection
            self.close()
            self._connection = await PeerConnection.open(
                self._network,
                endpoint.host,
                endpoint.port,
                client_id=str(self.own_id),
                connect_timeout_ms=timeout_ms,
            )
            self.connected_to = endpoint
            return self._connection

    def close(self) -> None:
        """Ends the connection; what is in flight fails."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ControllerLink:
    """`answer_locally` is asked where this broker is the controller."""

    def __init__(self, connector: PeerConnector, metadata: MetadataCache, answer_locally: AnswerLocally) -> None:
        self._connector = connector
        self._metadata = metadata
        self._answer_locally = answer_locally

    async def send(self, key: ApiKey, version: int, message: Message, answer_type: type[A], *, timeout_ms: int) -> A:
        """The controller's answer.

        Raises ConnectionFailed if there was none in `timeout_ms`: the controller may have carried out the request all
        the same.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        failure = "no controller is known"
        while True:
            try:
                answer = await self._try(key, version, message, answer_type, deadline)
            except ConnectionFailed as failed:
                failure = str(failed)
            else:
                if answer is not None and not _is_no_controller(answer):
                    return answer
                failure = failure if answer is None else f"broker {self._metadata.controller_id} is not the controller"
            if loop.time() + RETRY_MS / 1000 >= deadline:
                raise ConnectionFailed(f"{key.name} got no answer from the controller in {timeout_ms} ms: {failure}")
            await asyncio.sleep(RETRY_MS / 1000)

    async def _try(
        self, key: ApiKey, version: int, message: Message, answer_type: type[A], deadline: float
    ) -> A | None:
        """One attempt; None if no controller is known."""
        controller_id = self._metadata.controller_id
        if controller_id == self._connector.own_id:
            answer = await self._answer_locally(key, version, message)
            assert isinstance(answer, answer_type)
            return answer
        endpoint = self._connector.endpoint(controller_id) if controller_id != NO_LEADER else None
        if endpoint is None:
            return None
        left_ms = max(int((deadline - asyncio.get_running_loop().time()) * 1000), 1)
        connection = await self._connector.connect(endpoint, min(left_ms, CONNECT_TIMEOUT_MS))
        answer = await connection.request(key, version, message, answer_type, timeout_ms=left_ms)
        assert isinstance(answer, answer_type)
        return answer

    def on_controller_changed(self) -> None:
        """Another broker may be the controller: stop waiting for answers of the former one, which may be paused."""
        endpoint = self._connector.endpoint(self._metadata.controller_id)
        if endpoint is not None and endpoint != self._connector.connected_to:
            self.close()

    def close(self) -> None:
        """Ends the connection; what is in flight fails."""
        self._connector.close()


def _is_no_controller(answer: object) -> bool:
    """True if the answer is NOT_CONTROLLER: as a whole, or for each topic in it."""
    if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    return any(
        getattr(topic, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER
        for topic in getattr(answer, "topics", ())
    )
