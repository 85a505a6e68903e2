"""SharePeers: asks other brokers for what share groups need, over one connection to each.

Decides nothing. Must not know what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.errors import ConnectionFailed
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.peer import PeerConnection

CONNECT_TIMEOUT_MS: Final = 5_000


class PeerPorts(NamedTuple):
    """What the broker gives; `open_peer` connects to a broker."""

    broker_id: BrokerId
    listener_name: str
    request_timeout_ms: int
    open_peer: Callable[[str, int, int], Awaitable[PeerConnection]]


class SharePeers:
    """The other brokers of the cluster."""

    def __init__(self, metadata: MetadataCache, ports: PeerPorts) -> None:
        self._metadata = metadata
        self._ports = ports
        self._connections: dict[BrokerId, PeerConnection] = {}
        self._opening: dict[BrokerId, asyncio.Lock] = {}

    @property
    def broker_id(self) -> BrokerId:
        """This broker's own."""
        return self._ports.broker_id

    async def ask(self, broker_id: BrokerId, key: ApiKey, version: int, message: Any, answer_type: type[Any]) -> Any:
        """Another broker's answer. Raises `ConnectionFailed`. Any: each API has messages of its own."""
        connection = await self._connection(broker_id)
        return await connection.request(key, version, message, answer_type, timeout_ms=self._ports.request_timeout_ms)

    async def _connection(self, broker_id: BrokerId) -> PeerConnection:
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            known = self._connections.get(broker_id)
            if known is not None and known.is_open:
                return known
            endpoint = self._metadata.endpoint(broker_id, self._ports.listener_name)
            if endpoint is None:
                raise ConnectionFailed(f"broker {broker_id} is not alive")
            opened = await self._ports.open_peer(endpoint.host, endpoint.port, CONNECT_TIMEOUT_MS)
            self._connections[broker_id] = opened
            return opened

    def close(self) -> None:
        """Ends the connections; what is in flight fails."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
