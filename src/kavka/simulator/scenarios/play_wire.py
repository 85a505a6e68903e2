"""Requests that a scenario sends to brokers itself: write this batch, read there, change that setting.

Decides nothing, retries nothing, and knows no metadata: the caller names the broker, and gets its answer or learns that
none came. The observer learns what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.errors import ConnectionFailed, ErrorCode
from kavka.model import BrokerId, Offset, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.fetch_request import FetchRequest
from kavka.protocol.messages.fetch_response import FetchResponse
from kavka.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kavka.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kavka.protocol.messages.produce_request import ProduceRequest
from kavka.protocol.messages.produce_response import ProduceResponse
from kavka.protocol.peer import PeerConnection
from kavka.protocol.sasl_network import Login, Parts
from kavka.records.batch import iterate_batches
from kavka.simulator.host.broker import PORT

if TYPE_CHECKING:
    from kavka.client.security import SaslSettings
    from kavka.network import Connection, Network
    from kavka.simulator.world import World

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
ALTER_CONFIGS_VERSION: Final = 1


class Answer(NamedTuple):
    """The answer to a producer. `error` is None if no answer came."""

    value: bytes
    error: ErrorCode | None
    offset: Offset = -1

    @property
    def is_acknowledged(self) -> bool:
        return self.error is ErrorCode.NONE


class Fetched(NamedTuple):
    """The answer to a reader. `diverges_at`: the offset where the log that it has read diverges from the leader's
    (KIP-320), -1 if it does not."""

    error: ErrorCode | None
    values: tuple[bytes, ...] = ()
    diverges_at: Offset = -1


class LoginOnce:
    """A network whose connections log in, and never again. `login` begins one; see `protocol.sasl_network`."""

    def __init__(self, network: Network, new_login: Callable[[], Login]) -> None:
        self._network = network
        self._new_login = new_login

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Connection:
        """Raises ConnectionFailed."""
        connection = await self._network.connect(host, port, max_frame_bytes=max_frame_bytes)
        login = self._new_login()
        frame: Parts | None = login.begin()
        while frame is not None:
            connection.send_frame(frame)
            try:
                frame = login.answered(await connection.receive_frame())
            except ValueError as refused:
                connection.close()
                raise ConnectionFailed(str(refused)) from refused
        return connection


class WireClient:
    """One client machine, with a connection to each life of a broker that it has asked."""

    def __init__(self, world: World, *, sasl: SaslSettings | None = None, logs_in_once: bool = False) -> None:
        """`sasl`: how it logs in, if not as usual. `logs_in_once`: it does so at the beginning of a connection only."""
        self._world = world
        self._sasl = sasl
        self._logs_in_once = logs_in_once
        self.loop = world.clients.node("client")
        self._connections: dict[tuple[BrokerId, int], PeerConnection] = {}

    async def write(self, broker_id: BrokerId, which: TopicPartition, value: bytes, request: ProduceRequest) -> Answer:
        observer = self._world.observer
        sent_after = observer.last_acked(which)
        try:
            peer = await self.connect(broker_id)
            response = await peer.request(
                ApiKey.PRODUCE, PRODUCE_VERSION, request, ProduceResponse, timeout_ms=request.timeout_ms + 500
            )
        except ConnectionFailed:
            return Answer(value, None)
        part = response.responses[0].partition_responses[0]
        error = ErrorCode(part.error_code)
        is_known = observer.acked.get(which, {}).get(part.base_offset) == value  # It was sent again.
        if error is ErrorCode.NONE and request.acks == -1 and not is_known:
            observer.on_acked(which, part.base_offset, value, sent_after)
        return Answer(value, error, part.base_offset)

    async def fetch(self, broker_id: BrokerId, request: FetchRequest) -> Fetched:
        try:
            peer = await self.connect(broker_id)
            response = await peer.request(ApiKey.FETCH, FETCH_VERSION, request, FetchResponse, timeout_ms=1_000)
        except ConnectionFailed:
            return Fetched(None)
        part = response.responses[0].partitions[0]
        offset, data = request.topics[0].partitions[0].fetch_offset, part.records
        assert data is None or isinstance(data, memoryview), "what was decoded is a view of its frame"
        values = [
            record.value or b""
            for batch in (iterate_batches(data) if data else ())
            for record in batch.records()
            if record.offset >= offset
        ]
        diverging = part.diverging_epoch
        return Fetched(
            ErrorCode(part.error_code), tuple(map(bytes, values)), diverging.end_offset if diverging is not None else -1
        )

    async def alter(
        self, broker_id: BrokerId, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        peer = await self.connect(broker_id)
        return await peer.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ALTER_CONFIGS_VERSION,
            request,
            IncrementalAlterConfigsResponse,
            timeout_ms=10_000,
        )

    async def connect(self, broker_id: BrokerId) -> PeerConnection:
        broker = self._world.brokers[broker_id]
        key = (broker_id, broker.life)
        peer = self._connections.get(key)
        if peer is None or not peer.is_open:
            peer = self._connections[key] = await PeerConnection.open(
                self._network(), broker.node, PORT, client_id="play", connect_timeout_ms=500
            )
        return peer

    def _network(self) -> Network:
        if not self._logs_in_once:
            return self._world.clients.logged_in(self.loop, self._sasl)
        logins = self._world.logins
        assert logins is not None, "the world is secured"
        network = logins.network(self._world.network.port_of(self.loop.name, self.loop), self.loop)
        return LoginOnce(network, lambda: logins.login(self._sasl or logins.settings(self.loop.name)))
