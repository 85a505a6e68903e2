"""ControlledShutdown (key 7): a broker that is about to stop has its leaderships moved to other brokers.

Behaviour   The rules are in `controller.decide.controlled_shutdown`. The answer names the partitions that the broker
            still leads and that have replicas elsewhere: the broker may ask again. A broker that is not the controller
            answers NOT_CONTROLLER. REQUEST_TIMED_OUT: ZooKeeper did not say whether every change is written.
Versions    0; 1; 2 broker epoch (KIP-380); 3 flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.model import BrokerId
from kavka.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
from kavka.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse, RemainingPartition

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ControlBroker, request: Request, message: ControlledShutdownRequest
) -> Awaitable[ControlledShutdownResponse]:
    return answer(broker, message, request.header.api_version)


async def answer(broker: ControlBroker, message: ControlledShutdownRequest, version: int) -> ControlledShutdownResponse:
    try:
        remaining = await broker.controller.controlled_shutdown(BrokerId(message.broker_id), message.broker_epoch)
    except NotController:
        return ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except RequestError as refused:
        return ControlledShutdownResponse(error_code=refused.code)
    except ZooKeeperError:
        return ControlledShutdownResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=partition) for topic, partition in remaining
        ]
    )
