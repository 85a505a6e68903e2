"""ShareAcknowledge (key 79): a member of a share group says what became of records that it has.

Behaviour   It needs a session that a ShareFetch has opened; epoch -1 closes it, after its acknowledgements. Those of
            one partition count together, or not at all. The answer goes out when they are stored.
Versions    1; 2 renewals, the duration of locks (KIP-1222).
Not supported  Version 0, of 4.0's early access.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.acknowledgements import MOVED, Kind, acknowledge, check_member, leader_of, settled
from kavka.broker.api.endpoints import addresses_of
from kavka.broker.share.sessions import FINAL_EPOCH, FIRST_EPOCH, PartitionId, ShareSession
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kavka.protocol.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kavka.share.decide.share_partition import Acknowledgement

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: ShareAcknowledgeRequest
) -> Awaitable[ShareAcknowledgeResponse]:
    return _acknowledge(broker, request, message)


async def _acknowledge(
    broker: ShareBroker, request: Request, message: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    try:
        who = check_member(broker, request, message.group_id, message.member_id)
        session = _session(broker, who, message.share_session_epoch)
    except RequestError as refused:
        return ShareAcknowledgeResponse(
            error_code=refused.code, error_message=refused.message or ErrorCode(refused.code).name
        )
    batches = {
        PartitionId(topic.topic_id, partition.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in message.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
    kind = Kind(request.header.api_version >= 2, message.is_renew_ack)
    outcomes = await settled(acknowledge(broker, request, who, batches, kind))
    if message.share_session_epoch == FINAL_EPOCH:
        broker.share.sessions.end(session)
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    leaders = set()
    for partition, outcome in outcomes.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = ShareAcknowledgeTopicResponse(
                topic_id=partition.topic_id, partitions=[]
            )
        data = PartitionData(
            partition_index=partition.partition, error_code=outcome.error, error_message=outcome.message
        )
        if outcome.error in MOVED:
            leader = leader_of(broker, partition)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
            leaders.add(leader.leader)
        topic.partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share.leaders.settings(who[0]).limits.lock_ms,
        responses=list(topics.values()),
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in addresses_of(broker.metadata, request, leaders)
        ],
    )


def _session(broker: ShareBroker, who: tuple[str, str], epoch: int) -> ShareSession:
    """The session of the request. Raises `RequestError`."""
    if epoch == FIRST_EPOCH:
        raise RequestError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = broker.share.sessions.known(*who, epoch)
    if epoch != FINAL_EPOCH:
        session.advance()
    return session
