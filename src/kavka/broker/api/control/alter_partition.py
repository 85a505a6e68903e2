"""AlterPartition (key 56): a leader asks the controller for another ISR (KIP-497).

Behaviour   The rules are in `controller.decide.isr_proposals`. A broker that is not the controller answers
            NOT_CONTROLLER. REQUEST_TIMED_OUT: ZooKeeper did not say whether the change is written; the leader asks
            again.
Versions    0; 1 leader recovery state (KIP-704); 2 topic ids; 3 broker epochs of the members (KIP-903).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.protocol.messages.alter_partition_request import AlterPartitionRequest
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ControlBroker, request: Request, message: AlterPartitionRequest
) -> Awaitable[AlterPartitionResponse]:
    return answer(broker, message, request.header.api_version)


async def answer(broker: ControlBroker, message: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
    try:
        return await broker.controller.alter_partition(message, version)
    except NotController:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except ZooKeeperError:
        return AlterPartitionResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
