"""GroupCensus: which groups of a kind the cluster has, asked of every live broker.

Decides which groups would lose something if their kind were switched off: a share group its positions, a group of
another kind its members. Empty consumer and streams groups lose nothing: their offsets stay, and members of the classic
protocol may take them over.

    I1  an answer is of all live brokers; where one cannot be asked there is none
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kavka.broker.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.coordinator.groups.coordinator import CONSUMER, SHARE, STREAMS, GroupCoordinator, GroupListing
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.list_groups_response import ListGroupsResponse
from kavka.protocol.peer import PeerConnection

CONNECT_TIMEOUT_MS: Final = 5_000
LIST_GROUPS_VERSION: Final = 5
KINDS: Final = {GROUP_VERSION: CONSUMER, SHARE_VERSION: SHARE, STREAMS_VERSION: STREAMS}
"""Features to the kind of groups that they switch on."""
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")


class CensusPorts(NamedTuple):
    """What the broker gives; `open_peer` connects to a broker."""

    broker_id: BrokerId
    listener_name: str
    request_timeout_ms: int
    open_peer: Callable[[str, int, int], Awaitable[PeerConnection]]


class GroupCensus:
    """Groups of all brokers. `groups` is this broker's own coordinator."""

    def __init__(self, metadata: MetadataCache, groups: Callable[[], GroupCoordinator], ports: CensusPorts) -> None:
        self._metadata = metadata
        self._groups = groups
        self._ports = ports

    async def in_use(self, feature: str) -> list[str]:
        """Groups that would lose something without the feature, by id. Raises `RequestError` if a broker cannot
        tell."""
        kind = KINDS.get(feature)
        if kind is None:
            return []
        brokers = [broker.broker_id for broker in self._metadata.brokers()]
        found = await asyncio.gather(*(self._of(broker_id, kind) for broker_id in brokers))
        return sorted(
            group.group_id
            for groups in found
            for group in groups
            if group.kind == kind and (kind == SHARE or group.state not in _WITHOUT_MEMBERS)
        )

    async def _of(self, broker_id: BrokerId, kind: str) -> list[GroupListing]:
        if broker_id == self._ports.broker_id:
            return self._groups().list_groups()
        endpoint = self._metadata.endpoint(broker_id, self._ports.listener_name)
        try:
            if endpoint is None:
                raise ConnectionFailed("it has no listener for brokers")
            peer = await self._ports.open_peer(endpoint.host, endpoint.port, CONNECT_TIMEOUT_MS)
            try:
                answer = await peer.request(
                    ApiKey.LIST_GROUPS,
                    LIST_GROUPS_VERSION,
                    ListGroupsRequest(states_filter=[], types_filter=[kind]),
                    ListGroupsResponse,
                    timeout_ms=self._ports.request_timeout_ms,
                )
            finally:
                peer.close()
        except ConnectionFailed as failure:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {broker_id} does not say which groups it has: {failure}"
            ) from failure
        if answer.error_code != ErrorCode.NONE:
            raise RequestError(ErrorCode(answer.error_code), f"broker {broker_id} does not say which groups it has")
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in answer.groups
        ]
