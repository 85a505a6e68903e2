"""UpdateMetadata (key 6): the controller sends which brokers are alive, and the state of partitions.

Behaviour   The rules are in `broker.metadata.state_changes`. From then on Metadata, DescribeCluster and the like show
            clients what the controller sent.
Versions    0; 1 several endpoints; 2 rack; 3 listener names; 4 offline replicas; 5 broker epoch (KIP-380), by topic;
            6 flexible; 7 topic ids (KIP-516); 8 KRaft controller (there is none).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.protocol.messages.update_metadata_request import UpdateMetadataRequest
from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ControlBroker, request: Request, message: UpdateMetadataRequest
) -> Awaitable[UpdateMetadataResponse]:
    return answer(broker, message, request.header.api_version)


async def answer(broker: ControlBroker, message: UpdateMetadataRequest, version: int) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(error_code=await broker.state_changes.update_metadata(message))
