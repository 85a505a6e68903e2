"""InitProducerId (key 22): a producer id that nobody else has, for an idempotent producer.

Behaviour   Ids come from blocks that are reserved in ZooKeeper before the first of them is given out, so that a restart
            skips ids but never repeats one. A producer that names its id and epoch (KIP-360) without a transactional id
            gets a new id.
Versions    0; 1; 2 flexible; 3 current id and epoch (KIP-360); 4 PRODUCER_FENCED; 5 transactions verified (KIP-890).
Not supported  Transactional ids: the transaction coordinator is not there yet, and FindCoordinator says so first. A
            client that asks here all the same gets COORDINATOR_NOT_AVAILABLE, which it retries until its own time-out.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.protocol.connection import Request


def handle(
    broker: Broker, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if message.transactional_id is not None:
        if not message.transactional_id:
            return _refusal(ErrorCode.INVALID_REQUEST)
        return _refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if (message.producer_id < 0) != (message.producer_epoch < 0):
        return _refusal(ErrorCode.INVALID_REQUEST)
    return _next(broker)


async def _next(broker: Broker) -> InitProducerIdResponse:
    try:
        producer_id = await broker.producer_ids.next()
    except RequestError as refused:
        return _refusal(refused.code)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
