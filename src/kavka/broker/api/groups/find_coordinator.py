"""FindCoordinator (key 10): which broker coordinates a group, a transactional id, or the state of a share-partition.

Behaviour   The hash of a group's id selects a partition of `__consumer_offsets`; the leader of that partition is the
            coordinator. For a transactional id it is a partition of `__transaction_state`, for a share-partition
            (group, topic id and partition number, joined by colons) one of `__share_group_state`. The first question
            creates the topic, with as many partitions and replicas as the broker's settings say (one replica where the
            broker is alone), and the answer waits until the topic exists.
Versions    0; 1 key type; 2; 3 flexible; 4 many keys at once (KIP-699); 5; 6 share groups (KIP-932),
            INVALID_REQUEST while the feature is off or for another key.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.api.endpoints import address_of
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from kavka.broker.api.groups.ports import GroupsBroker
    from kavka.protocol.connection import Request

GROUP = 0
TRANSACTION = 1
SHARE = 2
_FIRST_VERSION_WITH_SHARE = 6
_NOBODY = -1


class _Found(NamedTuple):
    error: ErrorCode
    node_id: int = _NOBODY
    host: str = ""
    port: int = -1
    message: str | None = None


def handle(
    broker: GroupsBroker, request: Request, message: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    return _find_all(broker, request, message)


async def _find_all(broker: GroupsBroker, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if request.header.api_version < 4:
        found = await _find(broker, request, message.key_type, message.key)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=found.message or found.error.name,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = []
    for key in message.coordinator_keys:
        found = await _find(broker, request, message.key_type, key)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message=found.message or "",
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


async def _find(broker: GroupsBroker, request: Request, key_type: int, key: str) -> _Found:
    may_be_share = request.header.api_version >= _FIRST_VERSION_WITH_SHARE and broker.serves_share_groups()
    if key_type not in (GROUP, TRANSACTION) and not (key_type == SHARE and may_be_share and key.count(":") >= 2):
        return _Found(ErrorCode.INVALID_REQUEST, message=f"unknown key type {key_type}")
    try:
        if key_type == TRANSACTION:
            await broker.ensure_internal_topic(TRANSACTION_STATE_TOPIC)
            partition = broker.coordinator_partition(TRANSACTION_STATE_TOPIC, broker.transactions.partition_for(key))
        elif key_type == SHARE:
            await broker.ensure_internal_topic(SHARE_STATE_TOPIC)
            partition = broker.coordinator_partition(SHARE_STATE_TOPIC, broker.share_states.partition_for(key))
        else:
            await broker.ensure_internal_topic(GROUP_METADATA_TOPIC)
            partition = broker.coordinator_partition(GROUP_METADATA_TOPIC, broker.groups.partition_for(key))
    except RequestError as refused:
        return _Found(refused.code)
    node = address_of(broker.metadata, request, partition.state.leader)
    if node is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, node.node_id, node.host, node.port)
