"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids.

Behaviour   Brokers of kavka reserve their blocks in ZooKeeper themselves; brokers of Apache Kafka from 3.0 on ask their
            controller (KIP-730). Both kinds of blocks come from the same znode. A broker that is not the controller
            answers NOT_CONTROLLER; a request with the broker epoch of an earlier registration is STALE_BROKER_EPOCH,
            one of a broker that is not registered BROKER_ID_NOT_REGISTERED.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.controller.term.controller_term import NotController
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kavka.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ControlBroker, request: Request, message: AllocateProducerIdsRequest
) -> Awaitable[AllocateProducerIdsResponse]:
    return _allocate(broker, message)


async def _allocate(broker: ControlBroker, message: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    broker_id = BrokerId(message.broker_id)
    try:
        await broker.controller.check_broker_epoch(broker_id, message.broker_epoch)
        block = await broker.producer_ids.reserve_for(broker_id)
    except NotController:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except RequestError as refused:
        return AllocateProducerIdsResponse(error_code=refused.code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)
