"""GroupCensus: which groups of a kind the cluster has, asked of every live broker.

Decides which groups would lose something if their kind were switched off: a share group its positions, a group of
another kind its members. Empty consumer and streams groups lose nothing: their offsets stay, and members of the classic
protocol may take them over. And which groups have dead letters that are due, which earlier versions cannot read.

    I1  an answer is of all live brokers; where one cannot be asked there is none
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from kavka.broker.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from kavka.broker.metadata.metadata_cache import SHARE_STATE_TOPIC, MetadataCache
from kavka.coordinator.groups.coordinator import CONSUMER, SHARE, STREAMS, GroupCoordinator, GroupListing
from kavka.coordinator.share_state.coordinator import DueLetters, ShareCoordinator
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.list_groups_response import ListGroupsResponse
from kavka.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kavka.protocol.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
from kavka.protocol.peer import PeerConnection
from kavka.protocol.schema import Message

CONNECT_TIMEOUT_MS: Final = 5_000
LIST_GROUPS_VERSION: Final = 5
SUMMARY_VERSION: Final = 1
KINDS: Final = {GROUP_VERSION: CONSUMER, SHARE_VERSION: SHARE, STREAMS_VERSION: STREAMS}
"""Features to the kind of groups that they switch on."""
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")

_A = TypeVar("_A", bound=Message)


class CensusPorts(NamedTuple):
    """What the broker gives; `open_peer` connects to a broker."""

    broker_id: BrokerId
    listener_name: str
    request_timeout_ms: int
    open_peer: Callable[[str, int, int], Awaitable[PeerConnection]]


class GroupCensus:
    """Groups of all brokers. `groups` is this broker's own coordinator, `states` that of share groups' states."""

    def __init__(
        self,
        metadata: MetadataCache,
        groups: Callable[[], GroupCoordinator],
        states: Callable[[], ShareCoordinator],
        ports: CensusPorts,
    ) -> None:
        self._metadata = metadata
        self._groups = groups
        self._states = states
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

    async def with_due_letters(self) -> list[str]:
        """Share groups that have given up records whose dead letters are not written yet, by id. Raises `RequestError`
        if a broker cannot tell, or nobody serves some of the states now (I1)."""
        topic = self._metadata.topic(SHARE_STATE_TOPIC)
        if topic is None:
            return []
        brokers = [broker.broker_id for broker in self._metadata.brokers()]
        found = await asyncio.gather(*(self._due_letters(broker_id) for broker_id in brokers))
        missing = set(range(len(topic.partitions))) - {index for one in found for index in one.partitions}
        if missing:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"nobody says what is in {SHARE_STATE_TOPIC}-{min(missing)}: no broker serves it now; try again",
            )
        return sorted({group for one in found for group in one.groups})

    async def _due_letters(self, broker_id: BrokerId) -> DueLetters:
        if broker_id == self._ports.broker_id:
            return self._states().due_letters()
        answer = await self._ask(
            broker_id,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            SUMMARY_VERSION,
            ReadShareGroupStateSummaryRequest(kavka_due_letters=True),
            ReadShareGroupStateSummaryResponse,
        )
        due = answer.kavka_due_letters
        return DueLetters((), ()) if due is None else DueLetters(due.state_partitions, due.group_ids)

    async def _of(self, broker_id: BrokerId, kind: str) -> list[GroupListing]:
        if broker_id == self._ports.broker_id:
            return self._groups().list_groups()
        answer = await self._ask(
            broker_id,
            ApiKey.LIST_GROUPS,
            LIST_GROUPS_VERSION,
            ListGroupsRequest(states_filter=[], types_filter=[kind]),
            ListGroupsResponse,
        )
        if answer.error_code != ErrorCode.NONE:
            error = ErrorCode.answered(answer.error_code)
            raise RequestError(error, f"broker {broker_id} does not say which groups it has")
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in answer.groups
        ]

    async def _ask(self, broker_id: BrokerId, key: ApiKey, version: int, message: Any, answer_type: type[_A]) -> _A:
        """Any: each API has messages of its own."""
        endpoint = self._metadata.endpoint(broker_id, self._ports.listener_name)
        try:
            if endpoint is None:
                raise ConnectionFailed("it has no listener for brokers")
            peer = await self._ports.open_peer(endpoint.host, endpoint.port, CONNECT_TIMEOUT_MS)
            try:
                return await peer.request(key, version, message, answer_type, timeout_ms=self._ports.request_timeout_ms)
            finally:
                peer.close()
        except ConnectionFailed as failure:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {broker_id} does not say which groups it has: {failure}"
            ) from failure
