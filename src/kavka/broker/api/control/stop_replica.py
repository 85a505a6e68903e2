"""StopReplica (key 5): the controller takes replicas out of service, or has them deleted.

Behaviour   The rules are in `broker.metadata.state_changes`.
Versions    0; 1 broker epoch (KIP-380), by topic; 2 flexible; 3 leader epochs, deletion by partition (KIP-570); 4 KRaft
            controller (there is none).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.protocol.messages.stop_replica_request import StopReplicaRequest
from kavka.protocol.messages.stop_replica_response import StopReplicaPartitionError, StopReplicaResponse

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.protocol.connection import Request


def handle(broker: ControlBroker, request: Request, message: StopReplicaRequest) -> Awaitable[StopReplicaResponse]:
    return answer(broker, message, request.header.api_version)


async def answer(broker: ControlBroker, message: StopReplicaRequest, version: int) -> StopReplicaResponse:
    error, errors = await broker.state_changes.stop_replica(message)
    return StopReplicaResponse(
        error_code=error,
        partition_errors=[
            StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
            for (topic, index), code in errors.items()
        ],
    )
