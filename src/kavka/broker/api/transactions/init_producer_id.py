"""InitProducerId (key 22): a producer id that no other producer has, or the next epoch of a transactional one.

Behaviour   The broker reserves blocks of ids in ZooKeeper before it hands out the first id of a block: a restart skips
            ids but never repeats one. A producer that names its id and epoch (KIP-360) without a transactional id gets
            a new id. With a transactional id the coordinator hands out the next epoch, which fences the producer that
            has the former one. It aborts an open transaction first; meanwhile the producer is answered
            CONCURRENT_TRANSACTIONS, and asks again.
Versions    0; 1; 2 flexible; 3 current id and epoch (KIP-360); 4 PRODUCER_FENCED, where older ones get
            INVALID_PRODUCER_EPOCH; 5 transactions verified (KIP-890).
Not supported  Version 6, two-phase commit (KIP-939): no release of Apache Kafka serves it by default.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.transactions.known_errors import known_to
from kavka.coordinator.transactions.coordinator import InitWish
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kavka.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kavka.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_PRODUCER_FENCED = 4


def handle(
    broker: TransactionsBroker, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_PRODUCER_EPOCH):
        return _refusal(ErrorCode.INVALID_REQUEST)
    return _answer(broker, message, request.header.api_version)


async def _answer(broker: TransactionsBroker, message: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
    try:
        if message.transactional_id is None:
            producer = ProducerIdAndEpoch(await broker.producer_ids.next(), 0)
        else:
            producer = await broker.transactions.init_producer_id(message.transactional_id, _wish(message))
    except RequestError as refused:
        return _refusal(known_to(version, refused.code, fenced_since=_FIRST_VERSION_WITH_PRODUCER_FENCED))
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch
    )


def _wish(message: InitProducerIdRequest) -> InitWish:
    known = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    return InitWish(message.transaction_timeout_ms, None if message.producer_id == NO_PRODUCER_ID else known)


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
